//! One host: live, and at any moment, as tables for the page; and one interval as rows of objects, without loss against the model, which
//! `cpumon top --host` reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cpumon_model::{HostId, HostStatus, IntervalView};
use cpumon_query::fleet::age_ns;
use cpumon_query::time::{Page, now_ns};
use cpumon_query::{Live, Seek, Shown, parse_process_key};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use utoipa::{IntoParams, ToSchema};

use super::params::{Asked, HostProblems, MAX_ROWS, PathPart, ThreadPaging, bad, limit, list};
use crate::api::{self, SnapshotBase, thread_table};
use crate::app::SharedApp;
use crate::problem::Problem;
use crate::readers::Lease;
use crate::stream::{self, HEARTBEAT, Messages, Threads, close, head, heartbeat, number_of};
use cpumon_query::json::Nanos;

/// Processes whose threads one reader can have.
const MAX_OPEN: usize = 64;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LastId {
    /// Id of the last message received, as the header `Last-Event-ID` has it: missed messages come first.
    last_event_id: Option<String>,
}

/// Browsers send a header when they come back by themselves.
pub(super) fn last_id<'a>(headers: &'a HeaderMap, given: &'a LastId) -> Option<&'a str> {
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    header.or(given.last_event_id.as_deref())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WithThreads {
    /// Processes whose threads are wanted, `PID-STARTNS` separated by commas, or `all`.
    threads: Option<String>,
}

impl WithThreads {
    fn wanted(&self) -> Result<Threads, Problem> {
        if self.threads.as_deref() == Some("all") {
            return Ok(Threads::All);
        }
        list(self.threads.as_deref(), MAX_OPEN, |key| Ok(parse_process_key(key)?)).map(Threads::Of)
    }
}

/// A host's intervals as they come, as Server-Sent Events named `snapshot`; data is a `Snapshot`. A reader that comes
/// back with the id of its last message gets the ones that it missed, as far as memory reaches; one that is too slow gets
/// the newest and the number of those it missed.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/live",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WithThreads, LastId),
    responses((status = 200, body = String, content_type = "text/event-stream"), HostProblems))]
pub(super) async fn live(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    lease: Option<Extension<Lease>>,
    headers: HeaderMap,
    Asked(threads): Asked<WithThreads>,
    Asked(given): Asked<LastId>,
) -> Result<Response, Problem> {
    let (threads, host) = (threads.wanted()?, app.live.find(&host)?);
    let reader = HostReader::new(app, host, threads, last_id(&headers, &given));
    Ok(stream::respond(reader, lease.map(|Extension(lease)| lease)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WantedMoment {
    /// The interval that contains this moment, ns since the UNIX epoch.
    at: Option<i64>,
    /// The newest interval that ends before this moment.
    before: Option<i64>,
    /// The oldest interval that ends after this moment.
    after: Option<i64>,
}

impl WantedMoment {
    /// The place in the past that is asked for, one at most.
    fn seek(&self) -> Result<Option<Seek>, Problem> {
        let all = [self.at.map(Seek::At), self.before.map(Seek::Before), self.after.map(Seek::After)];
        let mut given = all.into_iter().flatten();
        match (given.next(), given.next()) {
            (place, None) => Ok(place),
            _ => Err(bad("Only one of `at`, `before` and `after` can be given.")),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ProcessPaging {
    /// Process rows to leave out at the beginning.
    #[param(minimum = 0)]
    offset: Option<usize>,
    /// Process rows in the answer.
    #[param(minimum = 1, maximum = 20_000)]
    limit: Option<usize>,
}

/// Nothing was measured at that moment.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct NothingThen {
    #[serde(flatten)]
    problem: api::Problem,
    /// End of the newest interval before it.
    before_ns: Option<Nanos>,
    /// End of the oldest interval after it.
    after_ns: Option<Nanos>,
}

/// One interval of a host: the newest, or one of its past. In a hole of the data the answer is 404 and names the neighbours.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/at",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WantedMoment, ProcessPaging, WithThreads, ThreadPaging),
    responses((status = 200, body = api::Snapshot),
        (status = 404, body = NothingThen, content_type = "application/problem+json"), HostProblems))]
pub(super) async fn at(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(place): Asked<WantedMoment>,
    Asked(page): Asked<ProcessPaging>,
    Asked(threads): Asked<WithThreads>,
    Asked(thread_page): Asked<ThreadPaging>,
) -> Result<Response, Problem> {
    let limit = limit("limit", page.limit, 5000, MAX_ROWS)?;
    let rows = Page { offset: page.offset.unwrap_or(0), limit };
    let (threads, thread_rows) = (threads.wanted()?, thread_page.rows()?);
    let status = match app.live.find(&host) {
        Ok(id) => app.live.host(id).unwrap_or_default(),
        // It may be one that does not report now.
        Err(_) => app.past.ask(move |past| past.host(&host)).await?,
    };
    let id = status.info.host;
    let place = place.seek()?;
    let shown = match place {
        None => app.live.newest(id),
        Some(to) => seek(&app, id, to).await?,
    };
    let Some(shown) = shown else {
        return nothing_then(&app, id, place).await;
    };
    let shown = app.live.with_idle(id, &shown);
    let age_ns = place.is_none().then(|| age_ns(&status, now_ns()));
    let threads = thread_tables(&status, &shown, &threads, thread_rows);
    let base = SnapshotBase::new(&status, shown.number, &shown.interval, rows);
    Ok(Json(api::Snapshot { base, skipped: 0, age_ns, threads }).into_response())
}

async fn nothing_then(app: &SharedApp, id: HostId, place: Option<Seek>) -> Result<Response, Problem> {
    let (mut before_ns, mut after_ns) = (None, None);
    if let Some(Seek::At(ns) | Seek::Before(ns) | Seek::After(ns)) = place {
        let end = |shown: Option<Shown>| shown.map(|shown| Nanos(shown.interval.end.wall_ns));
        before_ns = end(seek(app, id, Seek::Before(ns)).await?);
        after_ns = end(seek(app, id, Seek::After(ns)).await?);
    }
    let problem = Problem::new(StatusCode::NOT_FOUND, "No data is stored of this host at that moment.")
        .how("Go to one of the nearest moments with data, before or after it.");
    let body = NothingThen { problem: problem.body(), before_ns, after_ns };
    Ok(Problem::respond(StatusCode::NOT_FOUND, &body))
}

/// Tables of the threads that are asked for.
fn thread_tables(host: &HostStatus, shown: &Shown, threads: &Threads, rows: Page) -> Vec<api::Table> {
    let view = IntervalView::new(&host.info.hostname, &shown.interval);
    match threads {
        Threads::All => vec![thread_table(&view, rows, |_| true)],
        Threads::Of(keys) => {
            keys.iter().map(|key| thread_table(&view, rows, |row| row.process == *key)).collect()
        }
    }
}

/// A reader further behind than this many snapshots gets the newest one next.
const MAX_BEHIND: u64 = 3;
/// One that comes back gets at most this many of those it missed.
const MAX_BACKLOG: u64 = 120;
/// The bell rings for every host; this reader checks no more often than that.
const RECHECK: Duration = Duration::from_millis(15);

struct HostReader {
    app: SharedApp,
    host: HostId,
    threads: Threads,
    /// Number of the last snapshot it got; `None`: it starts with the newest.
    last: Option<u64>,
    /// It came back and gets everything up to this number, one after the other.
    backlog_until: u64,
    bell: watch::Receiver<u64>,
}

impl HostReader {
    /// `last_id`: the id of the last message it got, on an earlier connection.
    fn new(app: SharedApp, host: HostId, threads: Threads, last_id: Option<&str>) -> Self {
        let newest = app.live.newest(host).map_or(0, |shown| shown.number);
        // A number above the newest belongs to a host that was forgotten since: the reader starts with the newest.
        let last = last_id.and_then(|id| number_of(id, app.epoch)).filter(|number| *number <= newest);
        let bell = app.live.bell().listen();
        Self { app, host, threads, last, backlog_until: newest, bell }
    }

    /// The snapshot that comes next, and how many were left out before it.
    fn pick(&self) -> Option<(Shown, u64)> {
        let newest = self.app.live.newest(self.host)?;
        let Some(last) = self.last else { return Some((newest, 0)) };
        if newest.number < last {
            // The host was forgotten and is new again.
            return Some((newest, 0));
        }
        let behind = newest.number - last;
        let catches_up = last < self.backlog_until && behind <= MAX_BACKLOG;
        let shown = if behind == 0 {
            return None;
        } else if catches_up || behind <= MAX_BEHIND {
            self.app.live.newer(self.host, last)?
        } else if last < self.backlog_until {
            // `behind` exceeds MAX_BACKLOG here, so this cannot underflow.
            self.app.live.newer(self.host, newest.number - MAX_BACKLOG)?
        } else {
            newest
        };
        let skipped = shown.number.saturating_sub(last + 1);
        Some((shown, skipped))
    }

    fn message(&self, host: &HostStatus, shown: &Shown, skipped: u64) -> VecDeque<Bytes> {
        let encoded = self.app.encoder.of(host, shown);
        let mut pieces =
            VecDeque::from([head("snapshot", self.app.epoch, shown.number), encoded.base(&*self.app.live)]);
        let age_ns = age_ns(host, now_ns());
        pieces.push_back(format!(",\"skipped\":{skipped},\"age_ns\":{age_ns},\"threads\":[").into());
        for (at, table) in encoded.threads(&self.threads).into_iter().enumerate() {
            if at > 0 {
                pieces.push_back(Bytes::from_static(b","));
            }
            pieces.push_back(table);
        }
        pieces.push_back(Bytes::from_static(b"]"));
        pieces.push_back(close());
        pieces
    }
}

impl Messages for HostReader {
    async fn next(&mut self) -> Option<VecDeque<Bytes>> {
        let deadline = Instant::now() + HEARTBEAT;
        loop {
            // Before the check: a ring after it then ends the wait below.
            self.bell.mark_unchanged();
            let host = self.app.live.host(self.host);
            if let Some((host, (shown, skipped))) = host.zip(self.pick()) {
                self.last = Some(shown.number);
                return Some(self.message(&host, &shown, skipped));
            }
            match timeout_at(deadline, self.bell.changed()).await {
                Ok(Ok(())) => sleep(RECHECK).await,
                // The sender of the bell is gone: the receiver stops.
                Ok(Err(_)) => return None,
                Err(_) => return Some(heartbeat()),
            }
        }
    }
}

/// How long `?newer_than=N` waits for a newer interval before it answers 204.
pub const LONG_POLL: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WhichInterval {
    /// Waits up to 5 s for an interval with a serial above this one.
    newer_than: Option<u64>,
}

/// One interval of a host, with the receiver's serial number; rows are objects.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/interval",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WhichInterval, WantedMoment),
    responses((status = 200, body = Shown), (status = 204, description = "Nothing newer came."), HostProblems))]
pub(super) async fn interval(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(which): Asked<WhichInterval>,
    Asked(place): Asked<WantedMoment>,
) -> Result<Response, Problem> {
    let place = place.seek()?;
    if which.newer_than.is_some() && place.is_some() {
        return Err(bad("`newer_than` is of the present, `at`, `before` and `after` are of the past."));
    }
    let id = match (app.live.find(&host), place) {
        (Ok(id), _) => id,
        // It may be one that does not report now.
        (Err(_), Some(_)) => app.past.ask(move |past| past.host(&host)).await?.info.host,
        (Err(error), _) => return Err(error.into()),
    };
    let nothing = || {
        Problem::new(StatusCode::NOT_FOUND, "No data is stored of this host at that time.")
            .how("/api/v1/stored has the first and the last moment that are stored of each host.")
    };
    let shown = match (place, which.newer_than) {
        (Some(to), _) => seek(&app, id, to).await?.ok_or_else(nothing)?,
        (None, Some(serial)) => {
            let Some(shown) = wait_for_newer(&*app.live, id, serial).await else {
                return Ok(StatusCode::NO_CONTENT.into_response());
            };
            shown
        }
        (None, None) => app.live.newest(id).ok_or_else(|| {
            Problem::new(StatusCode::NOT_FOUND, "This host has not completed an interval yet.")
                .how("Ask again in a moment; `newer_than=0` waits for it.")
        })?,
    };
    Ok(Json(app.live.with_idle(id, &shown)).into_response())
}

/// An interval of a host's past.
async fn seek(app: &SharedApp, id: HostId, to: Seek) -> Result<Option<Shown>, Problem> {
    let live = Arc::clone(&app.live);
    let found = tokio::task::spawn_blocking(move || live.seek(id, to))
        .await
        .map_err(|error| Problem::fault(&error))?;
    found.map_err(|reason| Problem::new(StatusCode::SERVICE_UNAVAILABLE, reason))
}

async fn wait_for_newer(live: &dyn Live, id: HostId, serial: u64) -> Option<Shown> {
    // Before the first check: an interval that arrives after it ends the wait.
    let mut bell = live.bell().listen();
    let deadline = Instant::now() + LONG_POLL;
    loop {
        if let Some(shown) = live.newest(id).filter(|shown| shown.serial > serial) {
            return Some(shown);
        }
        timeout_at(deadline, bell.changed()).await.ok()?.ok()?;
    }
}
