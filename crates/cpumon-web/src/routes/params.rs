//! Parameters that several routes take, and what can go wrong with them. A wrong value is answered with a problem that names it.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use cpumon_model::Utc;
use cpumon_query::ChoiceError;
use cpumon_query::time::{Page, TimeRange};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use crate::api;
use crate::problem::Problem;

/// Rows of a table at most.
pub(super) const MAX_ROWS: usize = 20_000;

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

/// A query; errors in it are answered as a problem.
#[derive(Clone, Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(value)) => Ok(Self(value)),
            Err(error) => Err(bad(error.body_text())),
        }
    }
}

/// A part of the path; errors in it are answered as a problem.
#[derive(Clone, Debug)]
pub(crate) struct Named<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(error) => Err(bad(error.body_text())),
        }
    }
}

/// A part of a long list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Paging {
    /// Rows to leave out at the beginning.
    #[param(minimum = 0)]
    offset: Option<usize>,
    /// Rows in the answer.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
}

impl Paging {
    /// Rows to leave out, and rows to give.
    pub(super) fn rows(&self, default: usize, max: usize) -> Result<Page, Problem> {
        Ok(Page { offset: self.offset.unwrap_or(0), limit: limit("limit", self.limit, default, max)? })
    }
}

/// A part of each table of threads.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ThreadPaging {
    /// Rows to leave out at the beginning of each table of threads.
    #[param(minimum = 0)]
    thread_offset: Option<usize>,
    /// Rows of each table of threads.
    #[param(minimum = 1, maximum = 20_000)]
    thread_limit: Option<usize>,
}

impl ThreadPaging {
    /// Rows to leave out, and rows to give.
    pub(super) fn rows(&self) -> Result<Page, Problem> {
        let limit = limit("thread_limit", self.thread_limit, MAX_ROWS, MAX_ROWS)?;
        Ok(Page { offset: self.thread_offset.unwrap_or(0), limit })
    }
}

/// Status 400 with this sentence.
pub(crate) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

/// A word of a few; without one `usual`.
pub(super) fn word<T: FromStr<Err = ChoiceError>>(text: Option<&str>, usual: T) -> Result<T, Problem> {
    text.map_or(Ok(usual), |text| text.parse().map_err(|error: ChoiceError| bad(error.to_string())))
}

/// A word of a few; without one that of them which is the default.
pub(super) fn choice<T: FromStr<Err = ChoiceError> + Default>(text: Option<&str>) -> Result<T, Problem> {
    word(text, T::default())
}

/// What is separated by commas, at most `max` of it.
pub(crate) fn list<T>(
    text: Option<&str>,
    max: usize,
    parse: impl Fn(&str) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    let parts: Vec<&str> = text.unwrap_or_default().split(',').filter(|part| !part.is_empty()).collect();
    if parts.len() > max {
        return Err(bad(format!("{} entries in a list that takes at most {max}.", parts.len())));
    }
    parts.into_iter().map(parse).collect()
}

/// The limit of this parameter, in `1..=max`.
pub(crate) fn limit(name: &str, wanted: Option<usize>, default: usize, max: usize) -> Result<usize, Problem> {
    match wanted.unwrap_or(default) {
        limit if (1..=max).contains(&limit) => Ok(limit),
        limit => Err(bad(format!("{name}={limit} is not between 1 and {max}."))),
    }
}

/// `SINCE..UNTIL`, ns since the UNIX epoch; the second is later.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Between(pub(crate) TimeRange);

impl TryFrom<String> for Between {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let ends =
            text.split_once("..").and_then(|(since, until)| Some((since.parse().ok()?, until.parse().ok()?)));
        match ends {
            Some((since_ns, until_ns)) if since_ns < until_ns => Ok(Self(TimeRange { since_ns, until_ns })),
            _ => Err("a span is SINCE..UNTIL in ns since 1970, the second after the first".to_owned()),
        }
    }
}

impl Between {
    /// As `cpumon export` takes it.
    pub(super) fn for_shell(&self) -> String {
        format!("{}..{}", Utc(self.0.since_ns), Utc(self.0.until_ns))
    }
}
