//! Parameters that several routes take, and their errors. A wrong value is answered with a problem that names it. For the
//! range of a question: its default where none is given.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use cpumon_model::{HostStatus, ProcessKey, Utc};
use cpumon_query::history::{self, History};
use cpumon_query::time::{Available, Page, PlotRange, TimeRange, now_ns};
use cpumon_query::{ChoiceError, QueryError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use crate::api;
use crate::problem::Problem;

/// Rows of a table at most.
pub(super) const MAX_ROWS: usize = 20_000;

/// Errors of any route that names a host, for the description.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "only described; the answers are made by `Problem`")]
pub(super) enum HostProblems {
    /// A parameter is not valid.
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(#[to_schema] api::Problem),
    /// No such host, or no data of that time.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(#[to_schema] api::Problem),
    /// Several hosts have this name.
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
pub(crate) struct PathPart<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathPart<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(error) => Err(bad(error.body_text())),
        }
    }
}

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
    pub(super) fn rows(&self, default: usize, max: usize) -> Result<Page, Problem> {
        Ok(Page { offset: self.offset.unwrap_or(0), limit: limit("limit", self.limit, default, max)? })
    }
}

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
    pub(super) fn rows(&self) -> Result<Page, Problem> {
        let limit = limit("thread_limit", self.thread_limit, MAX_ROWS, MAX_ROWS)?;
        Ok(Page { offset: self.thread_offset.unwrap_or(0), limit })
    }
}

/// Status 400 with this sentence.
pub(crate) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

/// Parses a word that is one of a few; without a word `usual`.
pub(super) fn word<T: FromStr<Err = ChoiceError>>(text: Option<&str>, usual: T) -> Result<T, Problem> {
    text.map_or(Ok(usual), |text| text.parse().map_err(|error: ChoiceError| bad(error.to_string())))
}

/// One of a few words; without a text the default word.
pub(super) fn choice<T: FromStr<Err = ChoiceError> + Default>(text: Option<&str>) -> Result<T, Problem> {
    word(text, T::default())
}

/// Items separated by commas, at most `max`.
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
    within(name, wanted.unwrap_or(default), 1..=max)
}

/// The value of this parameter, which is in this range.
pub(super) fn within<T: PartialOrd + Display>(
    name: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<T, Problem> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(bad(format!("{name}={value} is not between {} and {}.", range.start(), range.end())))
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
    /// The parameter in the form of `cpumon export`.
    pub(super) fn for_shell(&self) -> String {
        format!("{}..{}", Utc(self.0.since_ns), Utc(self.0.until_ns))
    }
}

/// Points of a picture at most.
const MAX_POINTS: usize = 4000;
const HOUR_NS: i64 = 3_600_000_000_000;
const MS_NS: i64 = 1_000_000;
/// Points with which the life of a process is found.
const LIFE_POINTS: usize = 60;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WantedSpan {
    /// Start: intervals that end after this, ns since the UNIX epoch; without it an hour before `until`, in a series not
    /// before the first data. Without both a process is shown over its life, and a silent host in its last hour.
    since: Option<i64>,
    /// End: intervals that end at this or before; without it the receiver's clock.
    until: Option<i64>,
    /// Points that fit the picture.
    #[param(minimum = 1, maximum = 4000)]
    points: Option<usize>,
}

impl WantedSpan {
    pub(super) fn is_open(&self) -> bool {
        self.since.is_none() && self.until.is_none()
    }

    pub(super) fn points(&self) -> Option<usize> {
        self.points
    }

    pub(super) fn range(&self, points: usize) -> Result<PlotRange, Problem> {
        let until_ns = self.until.unwrap_or_else(now_ns);
        let since_ns = self.since.unwrap_or_else(|| until_ns.saturating_sub(HOUR_NS));
        // Later code subtracts the two, so their difference must fit into 64 bits.
        if since_ns >= until_ns || until_ns.checked_sub(since_ns).is_none() {
            return Err(bad(format!(
                "since={since_ns} is not before until={until_ns}, or too long before it."
            )));
        }
        let points = limit("points", self.points, points, MAX_POINTS)?;
        Ok(PlotRange { since_ns, until_ns, points })
    }

    /// Ends that were not given are fitted to the data: the end for a host that is silent for long or whose clock was
    /// ahead, and the start for a young one.
    pub(super) fn fitted(&self, range: PlotRange, available: Available) -> PlotRange {
        if self.since.is_some() {
            return range;
        }
        let is_elsewhere = available.last_ns <= range.since_ns || available.first_ns >= range.until_ns;
        let until_ns = if self.until.is_none() && is_elsewhere { available.last_ns } else { range.until_ns };
        let since_ns =
            until_ns.saturating_sub(HOUR_NS).max(available.first_ns.min(until_ns.saturating_sub(MS_NS)));
        whole_ms(PlotRange { since_ns, until_ns, ..range })
    }
}

/// The life of a process as far as it is stored, with a little space on both sides.
pub(super) fn life_of(
    past: &History,
    host: &HostStatus,
    key: ProcessKey,
    range: PlotRange,
) -> Result<PlotRange, QueryError> {
    let Some(available) = past.available(host.info.host)? else { return Ok(range) };
    let until_ns = available.last_ns.max(available.first_ns.saturating_add(1));
    let all = PlotRange { since_ns: available.first_ns, until_ns, points: LIFE_POINTS };
    let (found, _) = history::process(past, host, all, key)?;
    let Some(line) = found.lines.first() else { return Ok(range) };
    let (Some(first_ns), Some(last_ns)) = (line.began_ns.or(line.first_ns), line.ended_ns.or(line.last_ns))
    else {
        return Ok(range);
    };
    let (since_ns, last_ns) = (first_ns.0.max(available.first_ns), last_ns.0);
    let around_ns = (last_ns.saturating_sub(since_ns) / 50).max(500 * MS_NS);
    let (since_ns, until_ns) = (since_ns.saturating_sub(around_ns), last_ns.saturating_add(around_ns));
    Ok(whole_ms(PlotRange { since_ns, until_ns, ..range }))
}

/// Whole ms around a range, which browsers can name.
fn whole_ms(range: PlotRange) -> PlotRange {
    let since_ns = range.since_ns.div_euclid(MS_NS).saturating_mul(MS_NS);
    let until_ns = range.until_ns.saturating_add(MS_NS - 1).div_euclid(MS_NS).saturating_mul(MS_NS);
    PlotRange { since_ns, until_ns, ..range }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::past_store::{BEGIN_NS, SECOND_NS, Stored, interval};

    fn range_of(body: &Value) -> (i64, i64) {
        let ns = |name: &str| body[name].as_str().unwrap().parse::<i64>().unwrap() - BEGIN_NS;
        (ns("since_ns"), ns("until_ns"))
    }

    #[tokio::test]
    async fn without_a_span_a_silent_host_has_its_last_hour_and_a_process_its_life() {
        const START_NS: u64 = 100_500_000_000;
        let stored = Stored::new(true);
        let (_, body) = stored.get("/api/v1/hosts/past/series").await;
        let (since_ns, until_ns) = range_of(&body);
        assert!((0..=SECOND_NS).contains(&since_ns) && until_ns == 300 * SECOND_NS, "{since_ns} {until_ns}");
        let asked = format!("/api/v1/hosts/past/series?since={BEGIN_NS}&until={}", BEGIN_NS + SECOND_NS);
        assert_eq!(range_of(&stored.get(&asked).await.1).0, 0, "what is asked for is not changed");
        // There for ten seconds only.
        let short = Stored::made(false, |second| {
            let mut made = interval(second);
            let is_there = (101..=110).contains(&second);
            made.processes.retain(|row| row.key.pid != 10 || is_there);
            made.threads.retain(|row| row.process.pid != 10 || is_there);
            let short = made.processes.iter_mut().map(|row| &mut row.key);
            for key in short.chain(made.threads.iter_mut().map(|row| &mut row.process)) {
                key.start_ns = if key.pid == 10 { START_NS } else { key.start_ns };
            }
            made
        });
        let (_, body) = short.get(&format!("/api/v1/hosts/past/processes/10-{START_NS}")).await;
        let (since_ns, until_ns) = range_of(&body);
        assert!((99 * SECOND_NS..101 * SECOND_NS).contains(&since_ns), "{since_ns}");
        assert!((110 * SECOND_NS..112 * SECOND_NS).contains(&until_ns), "{until_ns}");
        let (status, body) = short.get("/api/v1/hosts/past/processes/11-9").await;
        assert_eq!(status, 404, "{body}");
    }
}
