//! Logging in and out: a token is exchanged for a cookie that scripts cannot read and other sites cannot
//! send.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{RequestExt, extract::DefaultBodyLimit};
use serde::Deserialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::api;
use crate::app::Shared;
use crate::lease::HEADER_TIME;
use crate::login::peer_of;
use crate::problem::Problem;

/// A login is no larger than this.
const MAX_BYTES: usize = 4096;

/// What a person types.
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
pub(super) async fn log_in(State(app): State<Shared>, mut request: Request) -> Result<Response, Problem> {
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
pub(super) async fn log_out(State(app): State<Shared>, headers: HeaderMap) -> Result<Response, Problem> {
    let cookie = app.gate.as_ref().ok_or_else(no_gate)?.log_out(&headers)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}
