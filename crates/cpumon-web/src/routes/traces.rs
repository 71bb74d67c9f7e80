//! Timelines of traces: a window to draw, sums of an area, one slice in detail, the window as a file.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, Json};
use cpumon_export::{ExportError, Format, TraceSurvey, trace_slices};
use cpumon_files::AuditEvent;
use cpumon_model::with_causes;
use cpumon_query::traces;
use cpumon_query::traces::{
    Buckets, CpuWho, ThreadRow, ThreadTotals, Timeline, TimelineError, Timelines, TraceRange, TraceThread,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::export::{as_download, stream};
use super::params::{Asked, Paging, PathPart, bad, limit, list};
use crate::api;
use crate::app::SharedApp;
use crate::login::Peer;
use crate::problem::Problem;
use crate::readers::Lease;

/// Rows of a picture at most.
const MAX_TRACKS: usize = 256;
/// Buckets of a picture at most.
const MAX_BUCKETS: usize = 8_192;
/// About the most slices and states in an answer.
const MAX_PARTS: usize = 60_000;
/// Threads whose antagonists are added up, where threads are named.
const MAX_NAMED: usize = 256;

/// Errors of any route of a trace.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "only described; the answers are made by `Problem`")]
pub(super) enum TraceProblems {
    /// A parameter is not valid.
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(#[to_schema] api::Problem),
    /// No such trace, or nothing there at that time.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(#[to_schema] api::Problem),
    /// The file cannot be read, or too much is asked at once.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(#[to_schema] api::Problem),
}

fn unknown() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "There is no such trace.")
        .how("`cpumon trace view FILE` shows a file; it may also have been deleted by now.")
}

fn problem_of(error: &TimelineError) -> Problem {
    match error {
        TimelineError::Unknown => unknown(),
        error => {
            let detail = format!("The trace cannot be read: {}.", with_causes(error));
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
                .how("`cpumon trace report FILE` says more about the file.")
        }
    }
}

/// Lets `work` read a timeline on a thread of its own.
async fn ask<T: Send + 'static>(
    app: &SharedApp,
    id: String,
    part_ns: Option<u64>,
    work: impl FnOnce(&Timeline) -> Result<T, Problem> + Send + 'static,
) -> Result<Json<T>, Problem> {
    let traces = app.traces.as_ref().ok_or_else(unknown)?;
    let read = move |timelines: &Timelines, cancelled: &Arc<AtomicBool>| {
        let timeline = timelines.get(&id, part_ns.unwrap_or(0), cancelled);
        let timeline = timeline.map_err(|error| problem_of(&error))?;
        work(&timeline)
    };
    traces.ask(read).await.map(Json)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TracePart {
    /// The part in memory begins here: a trace that is too long is read in parts. Without it at the begin of the trace.
    part: Option<u64>,
}

/// A trace: when and where it was recorded, its length, its CPUs, its missing parts.
#[utoipa::path(get, operation_id = "trace", path = "/api/v1/traces/{id}",
    params(("id" = String, Path, description = "Its id."), TracePart),
    responses((status = 200, body = traces::TraceHead), TraceProblems))]
pub(super) async fn head(
    State(app): State<SharedApp>,
    PathPart(id): PathPart<String>,
    Asked(TracePart { part }): Asked<TracePart>,
) -> Result<Json<traces::TraceHead>, Problem> {
    ask(&app, id, part, |timeline| Ok(traces::TraceHead::new(timeline))).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TimelineWindow {
    /// Begin, ns since the begin of the trace; without it where the part in memory begins.
    from_ns: Option<u64>,
    /// End; without it the end of the part in memory.
    until_ns: Option<u64>,
}

impl TimelineWindow {
    fn of(&self, timeline: &Timeline) -> Result<(u64, u64), Problem> {
        let (first_ns, last_ns) = timeline.covers();
        let (from_ns, until_ns) = (self.from_ns.unwrap_or(first_ns), self.until_ns.unwrap_or(last_ns));
        if from_ns > until_ns {
            return Err(bad(format!("from_ns={from_ns} is behind until_ns={until_ns}.")));
        }
        Ok((from_ns, until_ns))
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TrackList {
    /// CPUs: numbers and ranges, `0-3,7`.
    cpus: Option<String>,
    /// Threads: their numbers, with commas.
    threads: Option<String>,
}

fn cpus_of(text: Option<&str>) -> Result<Vec<(u16, u16)>, Problem> {
    list(text, MAX_TRACKS, |part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
            _ => Err(bad(format!("cpus={part} is neither a number nor a range such as 0-3."))),
        }
    })
}

fn threads_of(text: Option<&str>) -> Result<Vec<u32>, Problem> {
    list(text, MAX_TRACKS, |part| {
        part.parse().map_err(|_| bad(format!("threads={part} is no number of a thread.")))
    })
}

fn has(ranges: &[(u16, u16)], cpu: u16) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&cpu))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Picture {
    /// Begin of the first bucket, ns since the begin of the trace.
    from_ns: u64,
    /// Length of a bucket, ns.
    #[param(minimum = 1)]
    bucket_ns: u64,
    /// Number of buckets.
    #[param(minimum = 1, maximum = 8192)]
    count: usize,
    /// `true`: all CPUs together, too.
    all: Option<bool>,
}

/// Slices or shares to draw of a window: CPUs and threads as single slices where these fit, else as shares of buckets.
#[utoipa::path(get, operation_id = "trace_tracks", path = "/api/v1/traces/{id}/tracks",
    params(("id" = String, Path, description = "Its id."), Picture, TrackList, TracePart),
    responses((status = 200, body = traces::TraceTracks), TraceProblems))]
pub(super) async fn tracks(
    State(app): State<SharedApp>,
    PathPart(id): PathPart<String>,
    Asked(picture): Asked<Picture>,
    Asked(rows): Asked<TrackList>,
    Asked(TracePart { part }): Asked<TracePart>,
) -> Result<Json<traces::TraceTracks>, Problem> {
    let count = limit("count", Some(picture.count), 1, MAX_BUCKETS)?;
    if picture.bucket_ns == 0 {
        return Err(bad("bucket_ns=0 is no length."));
    }
    let (cpus, threads) = (cpus_of(rows.cpus.as_deref())?, threads_of(rows.threads.as_deref())?);
    ask(&app, id, part, move |timeline| {
        let cpus: Vec<u16> = timeline.cpus().filter(|cpu| has(&cpus, *cpu)).take(MAX_TRACKS).collect();
        let parts = MAX_PARTS / (cpus.len() + threads.len()).max(1);
        let buckets = Buckets {
            from_ns: picture.from_ns,
            bucket_ns: picture.bucket_ns,
            count,
            parts: parts.min(count * 2),
        };
        Ok(timeline.tracks(buckets, &cpus, &threads, picture.all == Some(true)))
    })
    .await
}

/// A figure; the thread with most comes first.
type ThreadFigure = fn(&ThreadTotals) -> u64;

/// Orders of the list of threads, beside that by name.
const ORDERS: [(&str, ThreadFigure); 7] = [
    ("run", |totals| totals.run_ns),
    ("ready", ThreadTotals::ready_ns),
    ("blocked", |totals| totals.blocked_ns),
    ("wakeups", |totals| totals.wakeups),
    ("switches", |totals| totals.voluntary_switches + totals.involuntary_switches),
    ("migrations", |totals| totals.migrations),
    ("longest", |totals| totals.longest_delay_ns),
];

/// `None`: order by name.
fn order_of(text: Option<&str>) -> Result<Option<ThreadFigure>, Problem> {
    match text.unwrap_or("run") {
        "name" => Ok(None),
        name => ORDERS.iter().find(|order| order.0 == name).map(|order| Some(order.1)).ok_or_else(|| {
            let names: Vec<&str> = ORDERS.iter().map(|order| order.0).collect();
            bad(format!("sort={name} is none of {}, name.", names.join(", ")))
        }),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ThreadList {
    /// Only threads with this in the name of thread or program, in any case, or of this thread or process id.
    filter: Option<String>,
    /// `run` (the default), `ready`, `blocked`, `wakeups`, `switches`, `migrations`, `longest`, `name`.
    sort: Option<String>,
}

fn is_meant(timeline: &Timeline, row: &ThreadRow, filter: &str) -> bool {
    let TraceThread { tid, pid, name, program, .. } = timeline.named(CpuWho::Thread(row.thread));
    let number = filter.parse::<u32>().ok();
    let is_number = number.is_some() && (tid == number || pid == number);
    is_number || [name, program].iter().any(|name| name.to_lowercase().contains(filter))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ThreadFilter {
    /// Without `threads`: only threads with this in the name of thread or program, in any case, or of this thread or process id. The
    /// culprits of sums are those of the 256 that were ready longest.
    filter: Option<String>,
}

impl ThreadFilter {
    /// Leaves the named threads in `rows`, else those that the filter means. `None`: all threads count.
    fn choose(self, timeline: &Timeline, named: Vec<u32>, rows: &mut Vec<ThreadRow>) -> Option<Vec<u32>> {
        if !named.is_empty() {
            rows.retain(|row| named.contains(&row.thread));
            return Some(named);
        }
        let filter = self.filter.filter(|filter| !filter.is_empty())?.to_lowercase();
        rows.retain(|row| is_meant(timeline, row, &filter));
        rows.sort_by_key(|row| Reverse(row.totals.ready_ns()));
        Some(rows.iter().map(|row| row.thread).collect())
    }
}

/// Threads of a window with their times and counts.
#[utoipa::path(get, operation_id = "trace_threads", path = "/api/v1/traces/{id}/threads",
    params(("id" = String, Path, description = "Its id."), TimelineWindow, ThreadList, Paging, TracePart),
    responses((status = 200, body = traces::TraceThreads), TraceProblems))]
pub(super) async fn threads(
    State(app): State<SharedApp>,
    PathPart(id): PathPart<String>,
    Asked(window): Asked<TimelineWindow>,
    Asked(wanted): Asked<ThreadList>,
    Asked(page): Asked<Paging>,
    Asked(TracePart { part }): Asked<TracePart>,
) -> Result<Json<traces::TraceThreads>, Problem> {
    let (page, order) = (page.rows(50, 1_000)?, order_of(wanted.sort.as_deref())?);
    let filter = wanted.filter.unwrap_or_default().to_lowercase();
    ask(&app, id, part, move |timeline| {
        let (from_ns, until_ns) = window.of(timeline)?;
        let mut rows = timeline.thread_rows(from_ns, until_ns);
        if !filter.is_empty() {
            rows.retain(|row| is_meant(timeline, row, &filter));
        }
        if let Some(figure) = order {
            rows.sort_by_key(|row| Reverse(figure(&row.totals)));
        } else {
            rows.sort_by_cached_key(|row| timeline.named(CpuWho::Thread(row.thread)).name);
        }
        Ok(traces::TraceThreads::new(timeline, rows.len(), page.of(&rows)))
    })
    .await
}

/// One thread in a window: blocked time by reason, and the threads it waited behind.
#[utoipa::path(get, operation_id = "trace_thread", path = "/api/v1/traces/{id}/threads/{number}",
    params(("id" = String, Path, description = "Its id."), ("number" = u32, Path, description = "Of the thread."), TimelineWindow, TracePart),
    responses((status = 200, body = traces::TraceThreadPage), TraceProblems))]
pub(super) async fn thread(
    State(app): State<SharedApp>,
    PathPart((id, number)): PathPart<(String, u32)>,
    Asked(window): Asked<TimelineWindow>,
    Asked(TracePart { part }): Asked<TracePart>,
) -> Result<Json<traces::TraceThreadPage>, Problem> {
    ask(&app, id, part, move |timeline| {
        let (from_ns, until_ns) = window.of(timeline)?;
        let rows = timeline.thread_rows(from_ns, until_ns);
        let row = rows.iter().find(|row| row.thread == number).ok_or_else(|| {
            Problem::new(StatusCode::NOT_FOUND, "There is no such thread in this window.")
                .how("/api/v1/traces/{id}/threads lists those that there are.")
        })?;
        let sums = timeline.sums(from_ns, until_ns, &|_| false, std::slice::from_ref(row));
        let behind = timeline.behind_thread(number, from_ns, until_ns);
        Ok(traces::TraceThreadPage::new(timeline, row, &sums, &behind))
    })
    .await
}

/// Sums of an area: CPUs, states of threads, blocked time by reason, who ran while others waited, idle while overloaded.
#[utoipa::path(get, operation_id = "trace_sums", path = "/api/v1/traces/{id}/sums",
    params(("id" = String, Path, description = "Its id."), TimelineWindow, TrackList, ThreadFilter, TracePart),
    responses((status = 200, body = traces::TraceSums), TraceProblems))]
pub(super) async fn sums(
    State(app): State<SharedApp>,
    PathPart(id): PathPart<String>,
    Asked(window): Asked<TimelineWindow>,
    Asked(chosen): Asked<TrackList>,
    Asked(filter): Asked<ThreadFilter>,
    Asked(TracePart { part }): Asked<TracePart>,
) -> Result<Json<traces::TraceSums>, Problem> {
    let (cpus, threads) = (cpus_of(chosen.cpus.as_deref())?, threads_of(chosen.threads.as_deref())?);
    if threads.len() > MAX_NAMED {
        return Err(bad(format!("At most {MAX_NAMED} threads can be named.")));
    }
    ask(&app, id, part, move |timeline| {
        let (from_ns, until_ns) = window.of(timeline)?;
        let is_cpu = |cpu: u16| cpus.is_empty() || has(&cpus, cpu);
        let mut rows = timeline.thread_rows(from_ns, until_ns);
        let threads = filter.choose(timeline, threads, &mut rows);
        let sums = timeline.sums(from_ns, until_ns, &is_cpu, &rows);
        let culprits = match threads {
            None => timeline.culprits(from_ns, until_ns, &is_cpu),
            Some(mut threads) => {
                threads.truncate(MAX_NAMED);
                timeline.behind_threads(&threads, from_ns, until_ns, &is_cpu)
            }
        };
        let overload = timeline.overload(from_ns, until_ns);
        Ok(traces::TraceSums::new(timeline, rows.len(), &sums, &culprits, overload))
    })
    .await
}

/// Delays between programs in an area: which ones ran while others waited for their CPUs.
#[utoipa::path(get, operation_id = "trace_delays", path = "/api/v1/traces/{id}/delays",
    params(("id" = String, Path, description = "Its id."), TimelineWindow, TrackList, ThreadFilter, Paging, TracePart),
    responses((status = 200, body = traces::TraceDelays), TraceProblems))]
pub(super) async fn delays(
    State(app): State<SharedApp>,
    PathPart(id): PathPart<String>,
    Asked(window): Asked<TimelineWindow>,
    Asked(chosen): Asked<TrackList>,
    Asked(filter): Asked<ThreadFilter>,
    Asked(page): Asked<Paging>,
    Asked(TracePart { part }): Asked<TracePart>,
) -> Result<Json<traces::TraceDelays>, Problem> {
    let page = page.rows(20, 1_000)?;
    let (cpus, threads) = (cpus_of(chosen.cpus.as_deref())?, threads_of(chosen.threads.as_deref())?);
    ask(&app, id, part, move |timeline| {
        let (from_ns, until_ns) = window.of(timeline)?;
        let is_cpu = |cpu: u16| cpus.is_empty() || has(&cpus, cpu);
        let threads = filter.choose(timeline, threads, &mut timeline.thread_rows(from_ns, until_ns));
        let delays = timeline.delays(from_ns, until_ns, &is_cpu, threads.as_deref());
        Ok(traces::TraceDelays::new(delays, page))
    })
    .await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Moment {
    /// ns since the begin of the trace.
    at_ns: u64,
    /// The state of this thread.
    thread: Option<u32>,
    /// Or the state of the thread that this CPU ran.
    cpu: Option<u16>,
}

/// One slice: its length, its waker, the threads it waited behind, the threads it woke.
#[utoipa::path(get, operation_id = "trace_slice", path = "/api/v1/traces/{id}/slice",
    params(("id" = String, Path, description = "Its id."), Moment, TracePart),
    responses((status = 200, body = traces::TraceSlice), TraceProblems))]
pub(super) async fn slice(
    State(app): State<SharedApp>,
    PathPart(id): PathPart<String>,
    Asked(moment): Asked<Moment>,
    Asked(TracePart { part }): Asked<TracePart>,
) -> Result<Json<traces::TraceSlice>, Problem> {
    if moment.thread.is_some() == moment.cpu.is_some() {
        return Err(bad("Either `thread` or `cpu` is needed."));
    }
    ask(&app, id, part, move |timeline| {
        let thread = moment.thread.or_else(|| match timeline.who_at(moment.cpu?, moment.at_ns)? {
            CpuWho::Thread(thread) => Some(thread),
            _ => None,
        });
        let slice = thread.and_then(|thread| timeline.slice(thread, moment.at_ns));
        slice.ok_or_else(|| {
            Problem::new(StatusCode::NOT_FOUND, "No thread is known there at that time.")
                .how("Choose another moment.")
        })
    })
    .await
}

/// Stops the reading of a trace when no reader is left.
struct Stopping<'o> {
    out: &'o mut dyn Write,
    stop: &'o AtomicBool,
}

impl Write for Stopping<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).inspect_err(|_| self.stop.store(true, Ordering::Relaxed))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().inspect_err(|_| self.stop.store(true, Ordering::Relaxed))
    }
}

/// The slices of a window as CSV, as `cpumon trace export --format csv --from … --to …` writes them.
#[utoipa::path(get, operation_id = "trace_export", path = "/api/v1/traces/{id}/export",
    params(("id" = String, Path, description = "Its id."), TimelineWindow),
    responses((status = 200, body = String, content_type = "text/csv"), TraceProblems))]
pub(super) async fn export(
    State(app): State<SharedApp>,
    PathPart(id): PathPart<String>,
    lease: Option<Extension<Lease>>,
    peer: Option<Extension<Peer>>,
    Asked(window): Asked<TimelineWindow>,
) -> Result<Response, Problem> {
    let traces = app.traces.as_ref().ok_or_else(unknown)?;
    let range =
        TraceRange { from_ns: window.from_ns.unwrap_or(0), until_ns: window.until_ns.unwrap_or(u64::MAX) };
    if range.from_ns >= range.until_ns {
        return Err(bad("The window is empty."));
    }
    // The second reading ends when the client takes no more of the file, or loses its turn.
    let asked = id.clone();
    let is_stopped = Arc::<AtomicBool>::default();
    let stop = Arc::clone(&is_stopped);
    let read = move |timelines: &Timelines, cancelled: &Arc<AtomicBool>| {
        let open = |cancelled: &_| timelines.open(&asked, cancelled).map_err(|error| problem_of(&error));
        let survey = TraceSurvey::new(open(cancelled)?).map_err(|error| problem_of(&error.into()))?;
        Ok((survey, open(&is_stopped)?))
    };
    let (survey, mut trace) = traces.ask(read).await?;
    let body = stream(&app, lease, move |out| {
        let mut out = Stopping { out, stop: &stop };
        match trace_slices(Format::Csv, &survey, &mut trace, range, &mut out) {
            // The heading is all there is: the window that the reader chose has nothing else.
            Ok(_) | Err(ExportError::NoThread) => Ok(()),
            Err(error) => Err(error),
        }
    });
    let body = body.await?;
    // The id is one of a trace: it was read.
    let detail = format!("{id}, slices from {} to {} ns", range.from_ns, range.until_ns);
    app.note(peer, AuditEvent::Exported, "trace", &detail);
    Ok(as_download("trace", Format::Csv, body))
}
