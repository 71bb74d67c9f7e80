//! Parameters that several routes take. In: text of the query. Out: values, or a problem that says what is wrong.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use cpumon_model::{ProcessKey, ThreadKey, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use crate::problem::Problem;

/// Rows of a table at most.
pub(super) const MAX_ROWS: usize = 20_000;

/// A query; what is wrong with it is told as a problem.
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

/// A part of the path; what is wrong with it is told as a problem.
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
pub(super) struct Page {
    /// Rows to leave out at the beginning.
    #[param(minimum = 0)]
    offset: Option<usize>,
    /// Rows in the answer.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
}

impl Page {
    /// Rows to leave out, and rows to give.
    pub(super) fn rows(&self, default: usize, max: usize) -> Result<(usize, usize), Problem> {
        Ok((self.offset.unwrap_or(0), limit("limit", self.limit, default, max)?))
    }
}

/// A part of each table of threads.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ThreadPage {
    /// Rows to leave out at the beginning of each table of threads.
    #[param(minimum = 0)]
    thread_offset: Option<usize>,
    /// Rows of each table of threads.
    #[param(minimum = 1, maximum = 20_000)]
    thread_limit: Option<usize>,
}

impl ThreadPage {
    /// Rows to leave out, and rows to give.
    pub(super) fn rows(&self) -> Result<(usize, usize), Problem> {
        Ok((self.thread_offset.unwrap_or(0), limit("thread_limit", self.thread_limit, MAX_ROWS, MAX_ROWS)?))
    }
}

/// A wrong question.
pub(crate) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

fn pair(text: &str) -> Option<(u32, u64)> {
    let (number, start_ns) = text.split_once('-')?;
    Some((number.parse().ok()?, start_ns.parse().ok()?))
}

/// `PID-STARTNS`.
pub(crate) fn process_key(text: &str) -> Result<ProcessKey, Problem> {
    let key = pair(text).map(|(pid, start_ns)| ProcessKey { pid, start_ns });
    key.ok_or_else(|| {
        bad(format!("{text:?} is not a process key: it looks like PID-STARTNS, e.g. 1-52000000."))
    })
}

/// `TID-STARTNS`.
pub(crate) fn thread_key(text: &str) -> Result<ThreadKey, Problem> {
    let key = pair(text).map(|(tid, start_ns)| ThreadKey { tid, start_ns });
    key.ok_or_else(|| {
        bad(format!("{text:?} is not a thread key: it looks like TID-STARTNS, e.g. 1-52000000."))
    })
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
pub(crate) struct Between(pub(crate) (i64, i64));

impl TryFrom<String> for Between {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let ends =
            text.split_once("..").and_then(|(since, until)| Some((since.parse().ok()?, until.parse().ok()?)));
        match ends {
            Some((since, until)) if since < until => Ok(Self((since, until))),
            _ => Err("a span is SINCE..UNTIL in ns since 1970, the second after the first".to_owned()),
        }
    }
}

impl Between {
    /// As `cpumon export` takes it.
    pub(super) fn for_shell(&self) -> String {
        let (since, until) = self.0;
        format!("{}..{}", Utc(since), Utc(until))
    }
}
