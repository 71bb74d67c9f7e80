//! The past of one host: lines, matrices, sums, holes; and which hosts have one.

use axum::Json;
use axum::extract::State;
use cpumon_query::charts::{MAX_FINEST_RANGE_NS, check_thread_range};
use cpumon_query::history::{self, History, Selection, SeriesOptions, ShownRows, parse_thread_selection};
use cpumon_query::json;
use cpumon_query::ledger::LedgerSum;
use cpumon_query::report::{self, CompareRanges};
use cpumon_query::status::StoredHosts;
use cpumon_query::{Answers, GroupBy, QueryError, parse_process_key};
use serde::Deserialize;
use utoipa::IntoParams;

use super::params::{
    Asked, Between, HostProblems, Paging, PathPart, ThreadPaging, WantedSpan, bad, choice, life_of, limit,
    list,
};
use crate::api::{self, ProcessJson};
use crate::app::SharedApp;
use crate::problem::Problem;

/// Lines in an answer at most.
const MAX_LINES: usize = 32;
/// Rows of a matrix at most.
const MAX_MATRIX_ROWS: usize = 1000;
/// Intervals of a ledger that are listed at most.
const MAX_WORST: usize = 1000;

/// The hosts of the store, by name, whether they report now or not.
#[utoipa::path(get, path = "/api/v1/stored", params(Paging), responses((status = 200, body = StoredHosts), HostProblems))]
pub(super) async fn stored(
    State(app): State<SharedApp>,
    Asked(page): Asked<Paging>,
) -> Result<Json<StoredHosts>, Problem> {
    let page = page.rows(1000, 10_000)?;
    let hosts = app.past.ask(History::stored).await?;
    Ok(Json(StoredHosts { total: hosts.len(), hosts: page.of(hosts).collect() }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WantedSeries {
    /// Names of columns of table `host`, separated by commas; those have extremes. Without it all, with sums only.
    columns: Option<String>,
    /// `interval` reads intervals where sums would do: they have CPU modes and extremes. The range is 48 hours at most.
    #[param(inline)]
    resolution: Option<Finest>,
}

/// The finest there is.
#[derive(Copy, Clone, Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Finest {
    /// Intervals.
    Interval,
}

/// A host over time: CPU modes, ledger lines, busy time with extremes, counts, holes.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/series",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WantedSpan, WantedSeries),
    responses((status = 200, body = history::HostSeries), HostProblems))]
pub(super) async fn series(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(span): Asked<WantedSpan>,
    Asked(columns): Asked<WantedSeries>,
) -> Result<Json<history::HostSeries>, Problem> {
    let mut range = span.range(600)?;
    let is_finest = columns.resolution.is_some();
    if is_finest && range.until_ns - range.since_ns > MAX_FINEST_RANGE_NS {
        return Err(bad("Intervals are read of 48 hours at most; without `resolution` sums are."));
    }
    let wanted = list(columns.columns.as_deref(), 64, |name| Ok(name.to_owned()))?;
    let answer = app.past.ask(move |past| {
        let host = past.host(&host)?;
        if let Some(available) = past.available(host.info.host)? {
            range = span.fitted(range, available);
        }
        let options = SeriesOptions { columns: &wanted, is_finest };
        history::series(past, &host, range, options)
    });
    Ok(Json(answer.await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Keys of processes, `PID-STARTNS` separated by commas.
    processes: Option<String>,
    /// Keys of threads, `TID-STARTNS` or `PID-STARTNS/TID-STARTNS` (much faster over long ranges) separated by commas; then the range
    /// is 24 hours at most.
    threads: Option<String>,
    /// Names of processes, separated by commas; a comma in a name is `%2C` twice over: `%252C`.
    names: Option<String>,
    /// Names of columns, separated by commas; without it all. Without those of the scheduler's events it is faster.
    columns: Option<String>,
}

/// A comma inside of a name is written as `%2C`.
pub(super) fn name_of(text: &str) -> String {
    // `%25` last: `%252C` then becomes `%2C`, not a comma.
    text.replace("%2C", ",").replace("%2c", ",").replace("%25", "%")
}

/// Chosen processes, threads and names over time, 32 lines at most.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/lines",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WantedSpan, Which),
    responses((status = 200, body = history::Lines), HostProblems))]
pub(super) async fn lines(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(span): Asked<WantedSpan>,
    Asked(which): Asked<Which>,
) -> Result<Json<history::Lines>, Problem> {
    let range = span.range(600)?;
    let mut selections = list(which.processes.as_deref(), MAX_LINES, |key| {
        Ok(parse_process_key(key).map(Selection::Process)?)
    })?;
    let threads = list(which.threads.as_deref(), MAX_LINES, |thread| Ok(parse_thread_selection(thread)?))?;
    if !threads.is_empty() {
        check_thread_range(range.time())?;
    }
    selections.extend(threads);
    selections.extend(list(which.names.as_deref(), MAX_LINES, |name| Ok(Selection::Name(name_of(name))))?);
    if selections.is_empty() || selections.len() > MAX_LINES {
        return Err(bad(format!("Between 1 and {MAX_LINES} processes, threads and names can be asked for.")));
    }
    let wanted = list(which.columns.as_deref(), 64, |name| Ok(name.to_owned()))?;
    let answer =
        app.past.ask(move |past| history::lines(past, &past.host(&host)?, range, &selections, &wanted));
    answer.await.map(Json)
}

/// One process over time, with its description.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/processes/{process}",
    params(("host" = String, Path, description = "Id, or a name that only one host has."),
        ("process" = String, Path, description = "Key, `PID-STARTNS`."), WantedSpan),
    responses((status = 200, body = api::ProcessLine), HostProblems))]
pub(super) async fn process(
    State(app): State<SharedApp>,
    PathPart((host, process)): PathPart<(String, String)>,
    Asked(span): Asked<WantedSpan>,
) -> Result<Json<api::ProcessLine>, Problem> {
    let (mut range, key) = (span.range(600)?, parse_process_key(&process)?);
    let answer = app.past.ask(move |past| {
        let host = past.host(&host)?;
        let known = past.process(host.info.host, key)?.ok_or(QueryError::UnknownProcess)?;
        if span.is_open() {
            range = life_of(past, &host, key, range)?;
        }
        Ok((known, history::process(past, &host, range, key)?))
    });
    let ((info, parent_pid), (lines, waits)) = answer.await?;
    Ok(Json(api::ProcessLine { process: ProcessJson::new(key, &info, parent_pid), lines, waits }))
}

/// Grouping of a sum's rows.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum MatrixBy {
    /// Processes of a name together.
    #[default]
    Name,
    /// Each process.
    Process,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct MatrixRows {
    /// Rows in the answer; the others are summed up.
    #[param(minimum = 1, maximum = 1000)]
    rows: Option<usize>,
    /// Rows to leave out at the beginning; they are in the sum of the others.
    #[param(minimum = 0)]
    offset: Option<usize>,
    /// Which come first: those with the most run time (the default), or with the highest single interval.
    #[param(inline)]
    sort: Option<history::MatrixSort>,
}

impl MatrixRows {
    fn shown(&self, default: usize) -> Result<ShownRows<'static>, Problem> {
        let limit = limit("rows", self.rows, default, MAX_MATRIX_ROWS)?;
        let (sort, offset) = (self.sort.unwrap_or_default(), self.offset.unwrap_or(0));
        Ok(ShownRows { sort, offset, limit, search: "" })
    }
}

/// The threads of a process over time, as a matrix of run time; the range is 24 hours at most.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/processes/{process}/threads",
    params(("host" = String, Path, description = "Id, or a name that only one host has."),
        ("process" = String, Path, description = "Key, `PID-STARTNS`."), WantedSpan, MatrixRows),
    responses((status = 200, body = history::Matrix), HostProblems))]
pub(super) async fn threads(
    State(app): State<SharedApp>,
    PathPart((host, process)): PathPart<(String, String)>,
    Asked(span): Asked<WantedSpan>,
    Asked(rows): Asked<MatrixRows>,
) -> Result<Json<history::Matrix>, Problem> {
    let range = span.range(200)?;
    check_thread_range(range.time())?;
    let (key, shown) = (parse_process_key(&process)?, rows.shown(200)?);
    app.past.ask(move |past| history::threads(past, &past.host(&host)?, range, key, shown)).await.map(Json)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Grouped {
    /// Grouping of the rows: all processes of a name (the default), or each process.
    #[param(inline)]
    by: Option<MatrixBy>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LandscapeRows {
    /// Grouping of the rows: `name` (the default: all processes of a name), `process`, `program`, `user`, `service`,
    /// `container`, `cgroup`.
    by: Option<String>,
}

/// The busiest processes of a host over time, or groups of processes, as a matrix of run time.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/landscape",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WantedSpan, MatrixRows, LandscapeRows),
    responses((status = 200, body = history::Matrix), HostProblems))]
pub(super) async fn landscape(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(span): Asked<WantedSpan>,
    Asked(rows): Asked<MatrixRows>,
    Asked(grouped): Asked<LandscapeRows>,
) -> Result<Json<history::Matrix>, Problem> {
    let (range, by) = (span.range(200)?, choice::<GroupBy>(grouped.by.as_deref())?);
    let shown = rows.shown(40)?;
    app.past.ask(move |past| history::landscape(past, &past.host(&host)?, range, by, shown)).await.map(Json)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WithThreads {
    /// Processes whose threads are wanted too, `PID-STARTNS` separated by commas; then the range is 24 hours at most.
    threads: Option<String>,
}

/// A range as if it were one interval: the sums of each process.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/sum",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WantedSpan, Grouped, Paging, WithThreads, ThreadPaging),
    responses((status = 200, body = api::SumJson), HostProblems))]
pub(super) async fn sum(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(span): Asked<WantedSpan>,
    Asked(grouped): Asked<Grouped>,
    Asked(page): Asked<Paging>,
    Asked(threads): Asked<WithThreads>,
    Asked(thread_page): Asked<ThreadPaging>,
) -> Result<Json<api::SumJson>, Problem> {
    let range = span.range(1)?.time();
    let processes = list(threads.threads.as_deref(), 64, |key| Ok(parse_process_key(key)?))?;
    let options = api::SumOptions {
        is_by_name: grouped.by.unwrap_or(MatrixBy::Process) == MatrixBy::Name,
        thread_rows: thread_page.rows()?,
        threads_of: processes,
        rows: page.rows(500, 10_000)?,
    };
    let with_threads = !options.threads_of.is_empty();
    if with_threads {
        check_thread_range(range)?;
    }
    let answer = app.past.ask(move |past| {
        let host = past.host(&host)?;
        let sum = history::sum(past, &host, range, with_threads)?;
        Ok(api::SumJson::new(&host, range, &sum, &options))
    });
    answer.await.map(Json)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TwoSpans {
    /// The first span, `SINCE..UNTIL` in ns since the UNIX epoch.
    #[param(value_type = String, pattern = r"^-?\d+\.\.-?\d+$")]
    before: Between,
    /// The second span.
    #[param(value_type = String, pattern = r"^-?\d+\.\.-?\d+$")]
    after: Between,
    /// Grouping of the rows: `name` (the default), `process`, `program`, `user`, `service`, `container`, `cgroup`.
    by: Option<String>,
}

/// Two ranges side by side: which processes grew. `/api/v1/export/compare` gives all rows as a file.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/compare",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), TwoSpans, Paging),
    responses((status = 200, body = api::CompareJson), HostProblems))]
pub(super) async fn compare(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(spans): Asked<TwoSpans>,
    Asked(page): Asked<Paging>,
) -> Result<Json<api::CompareJson>, Problem> {
    let by = choice::<GroupBy>(spans.by.as_deref())?;
    let (rows, ranges) =
        (page.rows(500, 10_000)?, CompareRanges { before: spans.before.0, after: spans.after.0 });
    let answer = app.past.ask(move |past| report::compare(past, &past.host(&host)?, ranges, by));
    Ok(Json(api::CompareJson::new(ranges, &answer.await?, rows)))
}

/// The holes in a host's time, with their reasons.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/gaps",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WantedSpan, Paging),
    responses((status = 200, body = json::Gaps), HostProblems))]
pub(super) async fn gaps(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(span): Asked<WantedSpan>,
    Asked(page): Asked<Paging>,
) -> Result<Json<json::Gaps>, Problem> {
    let (range, page) = (span.range(1)?.time(), page.rows(1000, 10_000)?);
    app.past.ask(move |past| of_one(past.gaps(&[host], range, page)?)).await.map(Json)
}

/// The only answer to a question that names one host.
pub(super) fn of_one<T>(answers: Vec<T>) -> Result<T, QueryError> {
    answers.into_iter().next().ok_or(QueryError::UnknownHost)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Worst {
    /// How many of the intervals with the most unattributed are listed; without it 5.
    #[param(maximum = 1000)]
    worst: Option<usize>,
}

/// Where a host's CPU time went in a range: in sum, CPU by CPU, and in the intervals with the most unattributed.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/ledger",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WantedSpan, Worst),
    responses((status = 200, body = LedgerSum), HostProblems))]
pub(super) async fn ledger(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(span): Asked<WantedSpan>,
    Asked(worst): Asked<Worst>,
) -> Result<Json<LedgerSum>, Problem> {
    let (range, worst) = (span.range(1)?.time(), worst.worst.unwrap_or(5));
    if worst > MAX_WORST {
        return Err(bad(format!("worst={worst} is more than {MAX_WORST}.")));
    }
    app.past.ask(move |past| of_one(past.ledger(&[host], range, worst)?)).await.map(Json)
}
