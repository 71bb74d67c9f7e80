//! Errors as RFC 9457 `application/problem+json`. In: a status and a sentence. Out: a response.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api;

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
    pub(crate) how: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), how: None }
    }

    /// With what to do about it.
    pub(crate) fn how(self, how: impl Into<String>) -> Self {
        Self { how: Some(how.into()), ..self }
    }
}

impl Problem {
    /// The answer's body.
    pub(crate) fn body(self) -> api::Problem {
        api::Problem {
            kind: "about:blank".into(),
            title: self.status.canonical_reason().unwrap_or("Error").into(),
            status: self.status.as_u16(),
            detail: self.detail,
            how: self.how,
        }
    }

    /// An answer with this body, which begins like [`api::Problem`].
    pub(crate) fn respond(status: StatusCode, body: &impl serde::Serialize) -> Response {
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))];
        (status, kind, axum::Json(body)).into_response()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        Self::respond(self.status, &self.body())
    }
}
