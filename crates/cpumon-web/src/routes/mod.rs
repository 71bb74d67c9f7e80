//! The routes for requests that passed the guard: JSON of [`crate::api`], live streams, the page. Each route
//! is described where it is written; `/api/v1/openapi.json` is made from that.
//!
//! The description also refuses parameters that a route does not take ([`RouteParameters`]): a misspelled one would be ignored, and the
//! answer would be to another question. It names the answers that no route gives itself ([`added`]: refusals of the guard, the login and
//! this check) and how to log in, so that a program made from it knows all answers.
#![expect(unused_qualifications, reason = "written by utoipa's macros")]

mod charts;
#[cfg(test)]
mod charts_fleet_tests;
#[cfg(test)]
mod charts_tests;
#[cfg(test)]
mod contract_tests;
#[cfg(test)]
mod description_tests;
mod export;
#[cfg(test)]
mod export_tests;
mod fleet;
mod history;
#[cfg(test)]
mod history_tests;
mod host;
mod host_traces;
#[cfg(test)]
mod login_tests;
mod meta;
mod metrics;
#[cfg(test)]
mod metrics_tests;
mod params;
#[cfg(test)]
mod past_store;
mod reports;
#[cfg(test)]
mod stored_traces_tests;
#[cfg(test)]
mod tests;
mod traces;
#[cfg(test)]
mod traces_tests;
#[cfg(test)]
mod who_chart_tests;
mod why;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use cpumon_model::escape;
use cpumon_query::Live;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn, PathItem};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{Content, OpenApi as Document, Ref, RefOr, ResponseBuilder, response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::{App, SharedApp, WebOptions};
use crate::guard::{self, Server};
use crate::login::{AddressKey, METRICS, OPEN};
use crate::packed;
use crate::problem::Problem;
use crate::stream::body_of;
use params::bad;

pub use host::LONG_POLL;
#[cfg(test)]
pub(crate) use tests::fake;

#[derive(OpenApi)]
#[openapi(info(
    title = "cpumon",
    description = "Where did every nanosecond of CPU go? Read-only; times ending in _ns are nanoseconds; null is no data, \
                   which is not zero. Errors are application/problem+json (RFC 9457)."
))]
struct Api;

fn described() -> OpenApiRouter<SharedApp> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(meta::status))
        .routes(routes!(meta::columns))
        .routes(routes!(meta::session))
        .routes(routes!(meta::log_in))
        .routes(routes!(meta::log_out))
        .routes(routes!(meta::hosts))
        .routes(routes!(host::interval))
        .routes(routes!(fleet::fleet))
        .routes(routes!(fleet::history))
        .routes(routes!(fleet::heatmap))
        .routes(routes!(fleet::live))
        .routes(routes!(fleet::export))
        .routes(routes!(fleet::command))
        .routes(routes!(host::live))
        .routes(routes!(host::at))
        .routes(routes!(history::stored))
        .routes(routes!(history::series))
        .routes(routes!(history::lines))
        .routes(routes!(history::process))
        .routes(routes!(history::threads))
        .routes(routes!(history::landscape))
        .routes(routes!(history::sum))
        .routes(routes!(history::compare))
        .routes(routes!(reports::of_host))
        .routes(routes!(reports::export))
        .routes(routes!(reports::export_command))
        .routes(routes!(reports::of_hosts))
        .routes(routes!(reports::find))
        .routes(routes!(why::why))
        .routes(routes!(history::gaps))
        .routes(routes!(history::ledger))
        .routes(routes!(host_traces::list, host_traces::take))
        .routes(routes!(host_traces::file))
        .routes(routes!(host_traces::sources, host_traces::record))
        .routes(routes!(host_traces::stop))
        .routes(routes!(charts::values))
        .routes(routes!(charts::chart))
        .routes(routes!(charts::command))
        .routes(routes!(charts::fleet))
        .routes(routes!(charts::fleet_command))
        .routes(routes!(export::export))
        .routes(routes!(export::command))
        .routes(routes!(traces::head))
        .routes(routes!(traces::tracks))
        .routes(routes!(traces::threads))
        .routes(routes!(traces::thread))
        .routes(routes!(traces::sums))
        .routes(routes!(traces::delays))
        .routes(routes!(traces::slice))
        .routes(routes!(traces::export))
}

pub fn openapi() -> Document {
    added(described().split_for_parts().1)
}

/// The description of the API as indented JSON, for programs that make types from it. A line feed ends it.
pub fn openapi_json() -> String {
    // The document has text keys and finite numbers only: nothing can fail.
    serde_json::to_string_pretty(&openapi()).unwrap_or_default() + "\n"
}

/// Every route of a server bound to `bound`, behind the checks of `Host`, `Origin`, login and names of parameters.
pub fn router(live: Arc<dyn Live>, bound: SocketAddr, options: WebOptions) -> Router {
    let (routes, document) = described().split_for_parts();
    let is_far = options.tls.is_some();
    let server = Server { bound, names: options.names.clone(), is_tls: is_far };
    let key = options.key.as_deref().map(|key| Arc::new(AddressKey::new(key, bound.port())));
    let app = Arc::new(App::new(live, options));
    let known = Arc::new(RouteParameters::new(&document));
    let document = body_of(&added(document));
    let describe = move || async move { ([(header::CONTENT_TYPE, "application/json")], document) };
    let mut routes = routes
        .route("/api/v1/openapi.json", get(describe))
        .route_layer(middleware::from_fn_with_state(known, check_parameters));
    // No part of the described API: it answers in Prometheus's formats.
    routes = routes.route(METRICS, get(metrics::metrics));
    if is_far {
        routes = routes.route_layer(middleware::from_fn(packed::pack));
    }
    routes
        .fallback(page_or_nothing)
        .method_not_allowed_fallback(only_get)
        .layer(middleware::from_fn_with_state(app.gate.clone(), crate::login::check))
        .with_state(app)
        .layer(middleware::from_fn_with_state(key, crate::login::check_key))
        .layer(middleware::from_fn_with_state(Arc::new(server), guard::check))
}

async fn page_or_nothing(
    State(app): State<SharedApp>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    if uri.path() == "/api" || uri.path().starts_with("/api/") {
        return Problem::new(StatusCode::NOT_FOUND, "There is no such route.")
            .how("/api/v1/openapi.json describes those that there are.")
            .into_response();
    }
    if method != Method::GET && method != Method::HEAD {
        // RFC 9110, section 15.5.6; routes of the API say it themselves.
        return ([(header::ALLOW, "GET,HEAD")], only_get().await).into_response();
    }
    app.page.answer(uri.path(), &headers).await
}

async fn only_get() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Not with this method.").how(
        "This API is read-only: use GET; only a login, a request for a trace and a recording are a POST.",
    )
}

/// Characters shown of a name that came from outside.
const MAX_SHOWN: usize = 40;
/// Names at least this much alike (Jaro) may be meant.
const ALIKE: f64 = 0.85;

/// Names of the query's parameters, by a route's path as it is described.
struct RouteParameters(HashMap<String, Vec<String>>);

fn names_of(item: &PathItem) -> Vec<String> {
    let operations = [&item.get, &item.post].into_iter().flatten();
    let parameters = operations.filter_map(|operation| operation.parameters.as_ref()).flatten();
    let name = |parameter: &RefOr<Parameter>| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => Some(parameter.name.clone()),
        _ => None,
    };
    parameters.filter_map(name).collect()
}

impl RouteParameters {
    fn new(document: &Document) -> Self {
        Self(document.paths.paths.iter().map(|(path, item)| (path.clone(), names_of(item))).collect())
    }

    /// The error in a query, read as the routes read it. A route without a description takes nothing.
    fn refuses(&self, path: &str, query: &str) -> Option<Problem> {
        let taken = self.0.get(path).map(Vec::as_slice).unwrap_or_default();
        let mut names = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
        names.find(|name| !taken.iter().any(|known| known == name)).map(|name| refusal(&name, taken))
    }
}

fn refusal(name: &str, taken: &[String]) -> Problem {
    // Cut first: the comparison costs the product of both lengths.
    let name: String = name.chars().take(MAX_SHOWN).collect();
    let alike = |known: &String| (strsim::jaro(&name, known), known.clone());
    let nearest = taken.iter().map(alike).filter(|(alike, _)| *alike >= ALIKE);
    let meant = nearest.max_by(|(a, _), (b, _)| a.total_cmp(b));
    let meant = meant.map_or_else(String::new, |(_, known)| format!("Did you mean `{known}`? "));
    let takes = if taken.is_empty() { "no parameters".to_owned() } else { taken.join(", ") };
    bad(format!("There is no parameter `{}` here.", escape(&name)))
        .how(format!("{meant}This route takes: {takes}."))
}

/// Passes requests with parameters that the route takes.
async fn check_parameters(
    State(known): State<Arc<RouteParameters>>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    match known.refuses(path.as_str(), request.uri().query().unwrap_or_default()) {
        None => next.run(request).await,
        Some(problem) => problem.into_response(),
    }
}

/// Answers of every route.
const OF_ALL: [(&str, &str); 4] = [
    ("400", "A parameter that this route does not take."),
    ("403", "Another site made this request."),
    ("421", "The Host header does not name this server."),
    ("500", "A fault of cpumon."),
];
/// Answers of routes that need a login, where one is required.
const OF_CLOSED: [(&str, &str); 2] = [("401", "Not logged in."), ("429", "Too many wrong tokens.")];

fn problem(text: &str) -> response::Response {
    let schema = Ref::from_schema_name("Problem");
    ResponseBuilder::new()
        .description(text)
        .content("application/problem+json", Content::new(Some(schema)))
        .build()
}

fn add(operation: &mut Operation, refusals: &[(&str, &str)]) {
    for (status, text) in refusals {
        let responses = &mut operation.responses.responses;
        responses.entry((*status).to_owned()).or_insert_with(|| problem(text).into());
    }
}

/// Adds refusals and kinds of login to the document.
fn added(mut document: Document) -> Document {
    for (path, item) in &mut document.paths.paths {
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            add(operation, &OF_ALL);
            if !OPEN.contains(&path.as_str()) {
                add(operation, &OF_CLOSED);
            }
        }
    }
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    let cookie = ApiKey::Cookie(ApiKeyValue::new("__Host-cpumon"));
    components.add_security_scheme("session", SecurityScheme::ApiKey(cookie));
    // Only where a login is asked for.
    let nothing = SecurityRequirement::default();
    let [token, session] = ["token", "session"].map(|name| SecurityRequirement::new(name, [""; 0]));
    document.security = Some(vec![nothing, token, session]);
    document
}
