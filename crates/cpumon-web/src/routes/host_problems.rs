//! What can go wrong with any route that names a host, for the description.

use crate::api;

/// What can go wrong with any route that names a host, for the description.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "only described; the answers are made by `Problem`")]
pub(super) enum HostProblems {
    /// A wrong question.
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(#[to_schema] api::Problem),
    /// No such host, or nothing kept then.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(#[to_schema] api::Problem),
    /// A name of several hosts.
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(#[to_schema] api::Problem),
    /// The store cannot be read.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(#[to_schema] api::Problem),
}
