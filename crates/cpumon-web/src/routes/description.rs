//! Uses of the description of the routes. It refuses parameters that a route does not take, and names those that it
//! takes: a misspelled parameter would be ignored, and the answer would be to another question. And it adds the answers
//! that no route gives itself (refusals of the guard, the login and this check) and how to log in, so that a program made
//! from it knows all answers.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cpumon_model::escape;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn, PathItem};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, ResponseBuilder, response};

use super::params::bad;
use crate::login::OPEN;
use crate::problem::Problem;

/// Characters shown of a name that came from outside.
const MAX_SHOWN: usize = 40;
/// Names at least this much alike (Jaro) may be meant.
const ALIKE: f64 = 0.85;

/// Names of the query's parameters, by a route's path as it is described.
pub(super) struct RouteParameters(HashMap<String, Vec<String>>);

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
    pub(super) fn new(document: &OpenApi) -> Self {
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
pub(super) async fn check(
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
pub(super) fn added(mut document: OpenApi) -> OpenApi {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str, query: &str) -> Option<(String, String)> {
        let problem = RouteParameters::new(&crate::openapi()).refuses(path, query)?;
        Some((problem.detail, problem.how.unwrap()))
    }

    const SERIES: &str = "/api/v1/hosts/{host}/series";

    #[test]
    fn a_misspelled_name_is_refused_with_those_that_exist() {
        let (detail, how) = refused(SERIES, "since=1&pionts=5").unwrap();
        assert_eq!(detail, "There is no parameter `pionts` here.");
        assert_eq!(
            how,
            "Did you mean `points`? This route takes: since, until, points, columns, resolution."
        );
        let (_, how) = refused(SERIES, "host=past").unwrap();
        assert!(
            how.starts_with("This route takes: since,"),
            "the path has no parameters of the query: {how}"
        );
        let (_, how) = refused("/api/v1/status", "a").unwrap();
        assert_eq!(how, "This route takes: no parameters.");
    }

    #[test]
    fn names_are_read_as_the_routes_read_them() {
        for good in ["", "&&", "p%6Fints=5", "since=1&since=2", "points", "points=&until=a%26b=c"] {
            assert_eq!(refused(SERIES, good), None, "{good}");
        }
        for wrong in ["=5", "Points=5", "points%00=5", "%ff=5", "points+=5", "a;points=5"] {
            assert!(refused(SERIES, wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn what_came_from_outside_is_cut_and_has_no_control_characters() {
        let hostile = format!("%1b%5B2J%0a%E2%80%AE{}", "x".repeat(5000));
        let (detail, how) = refused(SERIES, &hostile).unwrap();
        assert!(detail.starts_with(r"There is no parameter `\x1b[2J\n\u{202e}xxx"), "{detail}");
        assert!(detail.len() < 200 && !how.contains('x'), "{detail} {how}");
    }
}
