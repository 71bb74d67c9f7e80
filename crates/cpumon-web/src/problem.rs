//! Errors as responses of type `application/problem+json` (RFC 9457).

use std::fmt::Display;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cpumon_export::ExportError;
use cpumon_model::with_causes;
use cpumon_query::{QueryError, StoreError};

use crate::api;

/// An error as a status, a sentence, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
    pub(crate) how: Option<String>,
    /// Seconds after which a program may ask again.
    pub(crate) retry_after_s: Option<u64>,
    /// See [`api::Problem::error`].
    pub(crate) error: Option<serde_json::Value>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), how: None, retry_after_s: None, error: None }
    }

    /// Status 500: a fault of cpumon.
    pub(crate) fn fault(error: &dyn Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }

    /// Adds the remedy.
    pub(crate) fn how(self, how: impl Into<String>) -> Self {
        Self { how: Some(how.into()), ..self }
    }
}

/// The remedy where the error itself has none.
fn usual_way_out(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "/api/v1/openapi.json describes every route and its parameters.",
        StatusCode::NOT_FOUND => {
            "/api/v1/hosts lists the hosts that report, /api/v1/stored those of which data is stored."
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            "Ask again in a moment; /api/v1/status shows how the receiver is doing."
        }
        _ => "This is a fault of cpumon: please report it with what the receiver logged.",
    }
}

/// The problem of a question, as a whole sentence with the remedy.
impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        let status = match &error {
            QueryError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            QueryError::UnknownHost
            | QueryError::NoHost
            | QueryError::NoData { .. }
            | QueryError::NoProcess { .. }
            | QueryError::UnknownProcess => StatusCode::NOT_FOUND,
            QueryError::AmbiguousHost { .. } => StatusCode::CONFLICT,
            error if error.is_usage() => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let how = match &error {
            QueryError::UnknownProcess => {
                Some("/api/v1/hosts/{host}/landscape?by=process has the keys of a range.")
            }
            error => error.hint(),
        };
        // Errors of the store are no answers of ours, so they have no form for programs.
        let for_programs = serde_json::to_value(&error).ok();
        let problem = match error {
            QueryError::Store(error) => error.into(),
            error => Self { error: for_programs, ..Self::new(status, sentence(&error.to_string())) },
        };
        match how {
            Some(how) => problem.how(how),
            None => problem,
        }
    }
}

/// An error's text as a sentence: a capital letter in front unless it begins with a parameter, and a full stop behind.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let is_parameter = text.split(' ').next().is_some_and(|word| word.contains('='));
    let first: String = match letters.next() {
        Some(first) if !is_parameter => first.to_uppercase().collect(),
        first => first.into_iter().collect(),
    };
    format!("{first}{}.", letters.as_str())
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownHost { .. } => QueryError::UnknownHost.into(),
            StoreError::AmbiguousHost { .. } => {
                Self::new(StatusCode::CONFLICT, error.to_string()).how("Use an id.")
            }
            _ => Self::new(StatusCode::SERVICE_UNAVAILABLE, error.with_causes()),
        }
    }
}

impl From<ExportError> for Problem {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Store(error) => error.into(),
            ExportError::Sum(error) => error.into(),
            ExportError::ManyHosts { .. }
            | ExportError::NoLegacyLayout { .. }
            | ExportError::NoRanges
            | ExportError::NoThread
            | ExportError::Choice { .. } => Self::new(StatusCode::BAD_REQUEST, error.to_string()),
            ExportError::Trace(error) => Self::new(StatusCode::SERVICE_UNAVAILABLE, with_causes(&error)),
            error => Self::new(StatusCode::INTERNAL_SERVER_ERROR, with_causes(&error)),
        }
    }
}

impl Problem {
    /// The body, with the usual way out of this status where none was given.
    pub(crate) fn body(self) -> api::Problem {
        let usual = || usual_way_out(self.status).to_owned();
        api::Problem {
            kind: "about:blank".into(),
            title: self.status.canonical_reason().unwrap_or("Error").into(),
            status: self.status.as_u16(),
            detail: self.detail,
            how: self.how.unwrap_or_else(usual),
            error: self.error,
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
        let (status, retry_after_s) = (self.status, self.retry_after_s);
        let mut response = Self::respond(status, &self.body());
        if let Some(seconds) = retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use cpumon_trace::ReadError;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the disk is gone")]
    struct Gone;

    #[derive(Debug, thiserror::Error)]
    #[error("no space was made")]
    struct NoSpace(#[source] Gone);

    /// Of an export only the first cause was named, of a trace none.
    #[test]
    fn a_problem_names_all_causes_of_an_error() {
        let detail = |error: ExportError| Problem::from(error).detail;
        let failed = || io::Error::other(NoSpace(Gone));
        assert_eq!(detail(failed().into()), "cannot write the output: no space was made: the disk is gone");
        let trace = ReadError::Io(failed());
        assert_eq!(detail(trace.into()), "cannot read the trace: no space was made: the disk is gone");
    }
}
