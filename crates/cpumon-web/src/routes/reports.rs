//! Who used the CPU: the answers of `cpumon report` and `cpumon find`.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use cpumon_export::Format;
use cpumon_model::Utc;
use cpumon_query::Answers;
use cpumon_query::fields::Screen;
use cpumon_query::report::{CompareWith, Findings, Report, ReportFilter, ReportQuery};
use cpumon_query::time::Page;
use serde::Deserialize;
use utoipa::IntoParams;

use super::export::{CommandLine, ExportCommand, as_download, store_of};
use super::history::name_of;
use super::params::{Asked, Between, HostProblems, Paging, PathPart, bad, choice, limit, list};
use crate::app::SharedApp;
use crate::problem::Problem;

/// Hosts of a search at most.
const MAX_HOSTS: usize = 1000;
/// Limit of a filter or a search, bytes.
const MAX_TEXT: usize = 4096;
/// Points of a report at most.
const MAX_POINTS: usize = 1000;
/// Rows of a file at most; one more has all others.
const MAX_ROWS: usize = 10_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ReportParams {
    /// Start: intervals that end after this, ns since the UNIX epoch; without it an hour before `until`.
    since: Option<i64>,
    /// End: intervals that end at this or before; without it the end of the data.
    until: Option<i64>,
    /// Grouping: `program` (the default), `name`, `process`, `thread`, `user`, `service`, `container`, `cgroup`, `host`.
    by: Option<String>,
    /// Which rows come first: `cpu` (the default), `ready`, `blocked`, `switches`; with `compare` also `change`.
    sort: Option<String>,
    /// Range to compare with: `before` (the range of the same length before), `yesterday` (a day earlier), or
    /// `SINCE..UNTIL` in ns.
    compare: Option<String>,
    /// Only rows with this in their name or container, in any case, or of this user id or pid; the rest counts as others.
    filter: Option<String>,
    /// Only processes of one group: `BY:NAME`, e.g. `user:0` or `service:cron.service`. Threads count as their process.
    within: Option<String>,
    /// About how many points over time; without it 24.
    #[param(minimum = 1, maximum = 1000)]
    points: Option<usize>,
}

fn compare_with(text: &str) -> Result<CompareWith, Problem> {
    match text {
        "before" => Ok(CompareWith::Before),
        "yesterday" => Ok(CompareWith::Yesterday),
        text => match Between::try_from(text.to_owned()) {
            Ok(between) => Ok(CompareWith::Range(between.0)),
            Err(error) => Err(bad(format!("compare is neither before nor yesterday, and {error}."))),
        },
    }
}

pub(super) fn filter_of(text: Option<&str>, within: Option<&str>) -> Result<ReportFilter, Problem> {
    let texts = [text, within];
    if texts.iter().flatten().any(|text| text.len() > MAX_TEXT) {
        return Err(bad(format!("A filter has {MAX_TEXT} bytes at most.")));
    }
    let within = within.filter(|text| !text.is_empty()).map(|text| {
        let (by, name) =
            text.split_once(':').ok_or_else(|| bad(format!("within={text} is not BY:NAME, e.g. user:0.")))?;
        let by = ReportFilter::grouping_within(by).map_err(|error| bad(error.to_string()))?;
        Ok::<_, Problem>((by, name.into()))
    });
    let text = text.filter(|text| !text.is_empty()).map(Into::into);
    Ok(ReportFilter { text, within: within.transpose()? })
}

impl ReportParams {
    fn query(&self, page: Page) -> Result<ReportQuery, Problem> {
        let points = self.points.map(|_| limit("points", self.points, MAX_POINTS, MAX_POINTS)).transpose()?;
        Ok(ReportQuery {
            since_ns: self.since,
            until_ns: self.until,
            by: choice(self.by.as_deref())?,
            sort: choice(self.sort.as_deref())?,
            offset: page.offset,
            limit: page.limit,
            compare: self.compare.as_deref().map(compare_with).transpose()?,
            filter: filter_of(self.filter.as_deref(), self.within.as_deref())?,
            points,
        })
    }
}

/// Who used the CPU in a range: a row a program, process, thread, user, service, container, cgroup or host.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/report",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), ReportParams, Paging),
    responses((status = 200, body = Report), HostProblems))]
pub(super) async fn of_host(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(params): Asked<ReportParams>,
    Asked(page): Asked<Paging>,
) -> Result<Json<Report>, Problem> {
    let page = page.rows(20, MAX_ROWS)?;
    let query = params.query(page)?;
    app.past.ask(move |past| past.report(&[host], &query)).await.map(Json)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FileParams {
    /// `csv` (the default), `jsonl`, `json` or `parquet`.
    format: Option<String>,
}

/// All rows of a report as a file, as `cpumon report --format csv` writes it.
#[utoipa::path(get, operation_id = "report_export", path = "/api/v1/hosts/{host}/report/export",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), ReportParams, FileParams),
    responses((status = 200, content((String = "text/csv"), (String = "application/jsonl"), (String = "application/json"), (String = "application/vnd.apache.parquet"))), HostProblems))]
pub(super) async fn export(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(params): Asked<ReportParams>,
    Asked(file): Asked<FileParams>,
) -> Result<Response, Problem> {
    let format = choice::<Format>(file.format.as_deref())?;
    let query = params.query(Page { offset: 0, limit: MAX_ROWS })?;
    let answer = app.past.ask(move |past| past.report(&[host], &query));
    let (made, mut bytes) = (answer.await?, Vec::new());
    cpumon_export::rows(format, &made.fields(Screen::default()), &made.rows, &mut bytes)?;
    Ok(as_download("report", format, bytes.into()))
}

/// The command line that gives the same file as `/api/v1/hosts/{host}/report/export`.
#[utoipa::path(get, operation_id = "report_export_command", path = "/api/v1/hosts/{host}/report/export/command",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), ReportParams, FileParams),
    responses((status = 200, body = ExportCommand), HostProblems))]
pub(super) async fn export_command(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(params): Asked<ReportParams>,
    Asked(file): Asked<FileParams>,
) -> Result<Json<ExportCommand>, Problem> {
    choice::<Format>(file.format.as_deref())?;
    params.query(Page { offset: 0, limit: MAX_ROWS })?;
    let store = store_of(&app)?;
    let compare = params.compare.as_deref().map(compare_with).transpose()?;
    let ReportParams { since, until, by, sort, filter, within, .. } = params;
    let mut line = CommandLine::new(&["report"]);
    line.option("store", Some(store.display().to_string()));
    line.option("host", Some(host));
    line.option("since", since.map(|ns| Utc(ns).to_string()));
    line.option("until", until.map(|ns| Utc(ns).to_string()));
    line.option("by", by);
    line.option("sort", sort);
    line.option("compare", compare.map(compare_for_shell));
    line.option("filter", filter.filter(|text| !text.is_empty()));
    line.option("within", within.filter(|text| !text.is_empty()));
    line.option("limit", Some(MAX_ROWS.to_string()));
    line.format(file.format.as_deref().unwrap_or("csv"), "report");
    Ok(Json(line.into()))
}

fn compare_for_shell(with: CompareWith) -> String {
    match with {
        CompareWith::Before => "before".to_owned(),
        CompareWith::Yesterday => "yesterday".to_owned(),
        CompareWith::Range(range) => format!("{}..{}", Utc(range.since_ns), Utc(range.until_ns)),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ReportHosts {
    /// Names or ids of hosts, separated by commas; without it all. A comma in a name is `%2C` twice over: `%252C`.
    host: Option<String>,
}

/// Who used the CPU of several hosts in a range: a row of each host and program, process, thread, user, service, container, cgroup,
/// or a row of each host.
#[utoipa::path(get, path = "/api/v1/report", params(ReportHosts, ReportParams, Paging),
    responses((status = 200, body = Report), HostProblems))]
pub(super) async fn of_hosts(
    State(app): State<SharedApp>,
    Asked(hosts): Asked<ReportHosts>,
    Asked(params): Asked<ReportParams>,
    Asked(page): Asked<Paging>,
) -> Result<Json<Report>, Problem> {
    let query = params.query(page.rows(20, MAX_ROWS)?)?;
    let wanted = list(hosts.host.as_deref(), MAX_HOSTS, |name| Ok(name_of(name)))?;
    app.past.ask(move |past| past.report(&wanted, &query)).await.map(Json)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FindParams {
    /// A part of a name or of a container, in any case, or a user id.
    text: String,
    /// Names or ids of hosts, separated by commas; without it all. A comma in a name is `%2C` twice over: `%252C`.
    host: Option<String>,
}

/// When and how much a program, a user or a container ran, over all that is stored.
#[utoipa::path(get, path = "/api/v1/find", params(FindParams, Paging),
    responses((status = 200, body = Findings), HostProblems))]
pub(super) async fn find(
    State(app): State<SharedApp>,
    Asked(params): Asked<FindParams>,
    Asked(page): Asked<Paging>,
) -> Result<Json<Findings>, Problem> {
    let page = page.rows(100, 10_000)?;
    if params.text.len() > MAX_TEXT {
        return Err(bad(format!("A search has {MAX_TEXT} bytes at most.")));
    }
    let wanted = list(params.host.as_deref(), MAX_HOSTS, |name| Ok(name_of(name)))?;
    app.past.ask(move |past| past.find(&wanted, &params.text, page)).await.map(Json)
}

#[cfg(test)]
mod tests {
    use cpumon_query::history::History;
    use cpumon_query::json::Nanos;
    use cpumon_query::report::ReportBy;

    use super::super::past_store::{BEGIN_NS, SECOND_NS, Stored};
    use super::super::tests::ask_raw;
    use super::*;

    #[tokio::test]
    async fn a_report_has_the_rows_of_the_command_line() {
        for compacted in [false, true] {
            let stored = Stored::new(compacted);
            let body = stored.of_all("report", "by=process&limit=2&compare=before").await;
            let history = History::of_store(&stored.path()).unwrap();
            let query = ReportQuery {
                since_ns: Some(BEGIN_NS),
                until_ns: Some(BEGIN_NS + 300 * SECOND_NS),
                by: ReportBy::Process,
                limit: 2,
                compare: Some(CompareWith::Before),
                ..ReportQuery::default()
            };
            let made = history.report(&["past".to_owned()], &query).unwrap();
            assert_eq!(body, serde_json::to_value(&made).unwrap());
            let back: Report = serde_json::from_value(body.clone()).unwrap();
            assert_eq!(Report { query, ..back }, made, "what is read back is what was made");
            assert_eq!(made.rows[0].run_ns, Some(stored.run_ns(20).max(stored.run_ns(10))));
            let kinds: Vec<_> = made.rows.iter().map(|row| row.kind.name()).collect();
            assert_eq!(kinds, ["group", "group", "rest", "not attributed"]);
            let sum: i64 = made.rows.iter().filter_map(|row| row.run_ns).sum();
            assert_eq!((made.total, sum), (3, made.used_ns));
            assert_eq!(body["rows"][0]["first_ns"], BEGIN_NS.to_string(), "moments are text: {body}");
            let until = BEGIN_NS + 300 * SECOND_NS;
            let range = format!("since={BEGIN_NS}&until={until}&by=process&limit=2&compare=before");
            let (status, all) = stored.get(&format!("/api/v1/report?{range}")).await;
            assert_eq!((status, all), (200, body));
            assert_eq!((made.hosts.len(), &*made.hosts[0].name), (1, "past"));
        }
    }

    #[tokio::test]
    async fn a_report_is_of_one_group_where_it_is_asked_for() {
        let stored = Stored::new(false);
        let body = stored.of_all("report", "by=process&within=name:web&filter=30&points=100").await;
        let made: Report = serde_json::from_value(body).unwrap();
        let kinds: Vec<_> = made.rows.iter().map(|row| row.kind.name()).collect();
        assert_eq!(kinds, ["group", "rest", "not attributed"], "{made:?}");
        let (part, row) = (&made.hosts[0], &made.rows[0]);
        assert_eq!((row.run_ns, row.start_ns), (Some(stored.run_ns(30)), Some(Nanos(9))));
        let sum = |points: &[Option<i64>]| points.iter().flatten().sum::<i64>();
        assert_eq!((sum(&part.used), sum(&row.points)), (made.used_ns, stored.run_ns(30)));
        assert_eq!(part.used.len(), row.points.len());
    }

    #[tokio::test]
    async fn a_report_as_a_file_has_all_rows_and_its_command_line() {
        let stored = Stored::new(false);
        let range = format!("since={BEGIN_NS}&until={}", BEGIN_NS + 300 * SECOND_NS);
        let path =
            format!("/api/v1/hosts/past/report/export?{range}&by=process&within=name:web&compare=before");
        let (status, _, body) = ask_raw(stored.router(), &path, "localhost").await;
        let body = String::from_utf8_lossy(&body);
        assert_eq!((status, body.lines().count()), (200, 5), "{body}");
        assert!(
            body.starts_with("host,kind,name,pid") || body.starts_with("\"host\",\"kind\",\"name\""),
            "{body}"
        );
        let (status, body) = stored.get(&path.replace("export?", "export/command?")).await;
        let command = body["command"].as_str().unwrap();
        assert_eq!(status, 200, "{body}");
        for word in [
            "cpumon report --store=",
            " --by=process ",
            " --compare=before ",
            " --within=name:web ",
            " --format=csv",
        ] {
            assert!(command.contains(word), "{word}: {command}");
        }
    }

    #[tokio::test]
    async fn a_search_finds_by_name_and_wrong_questions_are_refused() {
        let stored = Stored::new(true);
        let (status, body) = stored.get("/api/v1/find?text=WEB").await;
        let found: Findings = serde_json::from_value(body).unwrap();
        let run_ns = stored.run_ns(20) + stored.run_ns(30);
        assert_eq!((status, found.total, found.rows[0].run_ns), (200, 1, run_ns));
        // A name may be of several hosts.
        let host = found.rows[0].host_id;
        assert_eq!(stored.get(&format!("/api/v1/hosts/{host}/report")).await.0, 200);
        for (path, expected) in [
            ("find?text=", 400),
            ("find", 400),
            ("find?text=x&host=nowhere", 404),
            ("hosts/past/report?by=colour", 400),
            ("hosts/past/report?sort=size", 400),
            ("hosts/past/report?compare=tomorrow", 400),
            ("hosts/past/report?since=5&until=5", 400),
            ("hosts/past/report?since=5&until=6", 404),
            ("hosts/past/report?limit=0", 400),
            ("hosts/past/report?points=0", 400),
            ("hosts/past/report?within=web", 400),
            ("hosts/past/report?within=colour:web", 400),
            ("hosts/nowhere/report", 404),
            ("report?host=nowhere", 404),
            ("report?by=colour", 400),
            ("report?since=5&until=6", 404),
        ] {
            let (status, body) = stored.get(&format!("/api/v1/{path}")).await;
            assert_eq!(status, expected, "{path}: {body}");
            assert!(body["detail"].as_str().is_some_and(|text| !text.is_empty()), "{path}: {body}");
        }
    }
}
