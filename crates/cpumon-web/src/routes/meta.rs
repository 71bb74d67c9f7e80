//! The receiver itself: its state, its hosts, columns, features for browsers; and logging in and out, where a token is
//! exchanged for a cookie that scripts cannot read and other sites cannot send.

use std::collections::BTreeMap;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, RequestExt};
use cpumon_query::json;
use cpumon_query::status;
use cpumon_query::time::now_ns;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::ToSchema;

use super::params::{Asked, HostProblems, Paging};
use crate::api;
use crate::app::SharedApp;
use crate::login::peer_of;
use crate::problem::Problem;
use crate::readers::HEADER_TIME;

/// Hosts in an answer at most: more than the receiver keeps.
const MAX_LISTED: usize = 10_000;
/// Parts of the store that cannot be read and are listed.
const MAX_HOLES: usize = 20;

/// The receiver: version, addresses, datagrams, rejects by sender, the store's state, every host.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = status::Status)))]
pub(super) async fn status(State(app): State<SharedApp>) -> Json<status::Status> {
    let mut status = status::Status { hosts: app.live.hosts(), ..app.live.status() };
    // The hub reads moments, and counts what those lacked.
    let mut damage = std::mem::take(&mut status.store.damage);
    damage.merge(app.past.damage());
    status.store.damage = damage.first(MAX_HOLES);
    Json(status)
}

/// Every host, with its losses and how far to trust it. The receiver keeps 4096 at most.
#[utoipa::path(get, path = "/api/v1/hosts", params(Paging), responses((status = 200, body = status::Hosts), HostProblems))]
pub(super) async fn hosts(
    State(app): State<SharedApp>,
    Asked(page): Asked<Paging>,
) -> Result<Json<status::Hosts>, Problem> {
    let page = page.rows(MAX_LISTED, MAX_LISTED)?;
    let hosts = app.live.hosts();
    let total = hosts.len();
    let hosts = page.of(hosts).collect();
    Ok(Json(status::Hosts { total, hosts }))
}

/// Names, units and meanings of the columns of all tables.
#[utoipa::path(get, path = "/api/v1/columns", responses((status = 200, body = api::ColumnList)))]
pub(super) async fn columns() -> Json<api::ColumnList> {
    Json(api::ColumnList::all())
}

/// Features of this receiver for its reader.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(super) struct ReceiverFeatures {
    /// The receiver's version.
    version: &'static str,
    /// Whether one must log in.
    login_required: bool,
    /// Whether one did, or need not.
    logged_in: bool,
    /// Whether the past is kept.
    store: bool,
    /// The receiver's clock.
    now_ns: json::Nanos,
    /// Limits at which a mark or a colour changes.
    limits: api::Limits,
    /// Wait reasons in words: `futex` is a `lock`. Reasons that are not named here are clear by their name.
    wait_words: BTreeMap<&'static str, &'static str>,
}

/// Features of this receiver, and whether a login is needed.
#[utoipa::path(get, path = "/api/v1/session", responses((status = 200, body = ReceiverFeatures)))]
pub(super) async fn session(State(app): State<SharedApp>, headers: HeaderMap) -> Json<ReceiverFeatures> {
    Json(ReceiverFeatures {
        version: env!("CARGO_PKG_VERSION"),
        login_required: app.gate.is_some(),
        logged_in: app.gate.as_ref().is_none_or(|gate| gate.session(&headers).is_some()),
        store: app.options.store.is_some(),
        now_ns: json::Nanos(now_ns()),
        limits: api::Limits::default(),
        wait_words: cpumon_model::wait_words().collect(),
    })
}

/// A login is no larger than this.
const MAX_BYTES: usize = 4096;

/// The token that a person types.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Login {
    /// A token that `cpumon login-token add` made.
    token: String,
}

fn no_gate() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "This receiver asks for no login.").how("Go on without one.")
}

/// Logs in: the answer sets a cookie for 12 hours.
#[utoipa::path(post, path = "/api/v1/login", request_body = Login, responses(
    (status = 204, description = "Logged in."),
    (status = 400, body = api::Problem, content_type = "application/problem+json", description = "No login."),
    (status = 401, body = api::Problem, content_type = "application/problem+json", description = "A wrong token."),
    (status = 404, body = api::Problem, content_type = "application/problem+json", description = "No login is needed."),
    (status = 408, body = api::Problem, content_type = "application/problem+json", description = "Too slow."),
    (status = 413, body = api::Problem, content_type = "application/problem+json", description = "Too long."),
    (status = 415, body = api::Problem, content_type = "application/problem+json", description = "Not JSON."),
    (status = 429, body = api::Problem, content_type = "application/problem+json", description = "Too many wrong ones."),
))]
pub(super) async fn log_in(State(app): State<SharedApp>, mut request: Request) -> Result<Response, Problem> {
    let gate = app.gate.as_ref().ok_or_else(no_gate)?;
    let peer = peer_of(&request);
    // Anyone may call this route, and axum's default limit is 2 MB.
    DefaultBodyLimit::max(MAX_BYTES).apply(&mut request);
    // Only JSON is taken: a form of another site cannot send that unasked.
    let login: Result<Json<Login>, JsonRejection> =
        timeout(HEADER_TIME, request.extract()).await.map_err(|_| {
            Problem::new(StatusCode::REQUEST_TIMEOUT, "The login did not arrive in time.")
                .how("Send it at once.")
        })?;
    let Json(login) = login.map_err(|error| {
        let status = match error.status() {
            status @ (StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNSUPPORTED_MEDIA_TYPE) => status,
            _ => StatusCode::BAD_REQUEST,
        };
        Problem::new(status, error.body_text()).how("Send {\"token\": \"…\"} as application/json.")
    })?;
    let cookie = gate.log_in(login.token.trim(), peer).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Logs out: the cookie counts no more.
#[utoipa::path(post, path = "/api/v1/logout", responses(
    (status = 204, description = "Logged out."),
    (status = 401, body = api::Problem, content_type = "application/problem+json", description = "Not logged in."),
    (status = 404, body = api::Problem, content_type = "application/problem+json", description = "No login is needed."),
))]
pub(super) async fn log_out(State(app): State<SharedApp>, headers: HeaderMap) -> Result<Response, Problem> {
    let cookie = app.gate.as_ref().ok_or_else(no_gate)?.log_out(&headers)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}
