//! One host: live, and at any moment.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cpumon_model::{HostStatus, IntervalView};
use cpumon_query::fleet::age_ns;
use cpumon_query::time::{Page, now_ns};
use cpumon_query::{Seek, Shown, parse_process_key};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::host_problems::HostProblems;
use super::interval::{seek, seek_place};
use super::params::{Asked, MAX_ROWS, Named, ThreadPaging, limit, list};
use crate::api::{self, Nanos, SnapshotBase, thread_table};
use crate::app::Shared;
use crate::lease::Lease;
use crate::problem::Problem;
use crate::stream::{self, HostReader, Threads};

/// Processes whose threads one reader can have.
const MAX_OPEN: usize = 64;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LastId {
    /// Id of the last message that was got, as the header `Last-Event-ID` has it: what was missed comes first.
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

/// A host's intervals as they come, as Server-Sent Events named `snapshot`; data is a `Snapshot`. A reader that comes back
/// with the id of its last message gets what it missed, as far as memory reaches; one that is too slow gets the newest and
/// the count of those it missed.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/live",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WithThreads, LastId),
    responses((status = 200, body = String, content_type = "text/event-stream"), HostProblems))]
pub(super) async fn live(
    State(app): State<Shared>,
    Named(host): Named<String>,
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
pub(super) struct Moment {
    /// The interval that contains this moment, ns since the UNIX epoch.
    at: Option<i64>,
    /// The newest interval that ends before this moment.
    before: Option<i64>,
    /// The oldest interval that ends after this moment.
    after: Option<i64>,
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
    params(("host" = String, Path, description = "Id, or a name that only one host has."), Moment, WithThreads, ThreadPaging),
    responses((status = 200, body = api::Snapshot),
        (status = 404, body = NothingThen, content_type = "application/problem+json"), HostProblems))]
pub(super) async fn at(
    State(app): State<Shared>,
    Named(host): Named<String>,
    Asked(moment): Asked<Moment>,
    Asked(threads): Asked<WithThreads>,
    Asked(thread_page): Asked<ThreadPaging>,
) -> Result<Response, Problem> {
    let limit = limit("limit", moment.limit, 5000, MAX_ROWS)?;
    let rows = Page { offset: moment.offset.unwrap_or(0), limit };
    let (threads, thread_rows) = (threads.wanted()?, thread_page.rows()?);
    let status = match app.live.find(&host) {
        Ok(id) => app.live.host(id).unwrap_or_default(),
        // It may be one that does not report now.
        Err(_) => app.past.ask(move |past| past.host(&host)).await?,
    };
    let id = status.info.host;
    let place = seek_place(moment.at, moment.before, moment.after)?;
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

async fn nothing_then(
    app: &Shared,
    id: cpumon_model::HostId,
    place: Option<Seek>,
) -> Result<Response, Problem> {
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
