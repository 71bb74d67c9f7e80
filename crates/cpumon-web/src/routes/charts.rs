//! Charts: as the page draws them, as pictures, which are the bytes that `cpumon export chart` writes, and the command line for these.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cpumon_export::chart::{MAX_PIXELS, MIN_PIXELS, PictureForm, RenderOptions, Theme, Zone, draw};
use cpumon_model::Utc;
use cpumon_query::ChoiceError;
use cpumon_query::charts::{
    self, Cells, ChartQuery, HostCharts, Order, Percent, View, chart as fill, check, is_awaited,
};
use cpumon_query::parse_process_key;
use cpumon_query::report::ReportBy;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;

use super::export::{CommandLine, ExportCommand, store_of};
use super::history::{Finest, name_of};
use super::params::{Asked, HostProblems, PathPart, WantedSpan, bad, life_of, list, within, word};
use super::reports::filter_of;
use crate::app::SharedApp;
use crate::page::is_known;
use crate::problem::Problem;

/// Most processes, and most threads, in a question.
const MAX_TASKS: usize = 32;
/// Charts in an answer at most.
const MAX_VIEWS: usize = 4;
/// Hosts named in a question at most.
const MAX_HOSTS: usize = 200;
/// Intervals received a moment ago are in the store within a second or so; a store that cannot be written is not waited
/// for.
const MOST_CHECKS: usize = 30;
const BETWEEN_CHECKS: Duration = Duration::from_millis(100);
/// A picture is its bytes and nothing more: no script, no style, no other file, even where it is opened on its own.
const POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

/// Range and format of a picture.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Drawn {
    /// Start: intervals that end after this, ns since the UNIX epoch; without it an hour before `until`.
    since: Option<i64>,
    /// End: intervals that end at this or before; without it the end of the stored data.
    until: Option<i64>,
    /// `svg` (the default) or `png`.
    format: Option<String>,
    /// `interval` reads intervals where sums would do: they have CPU modes. The range is 48 hours at most.
    resolution: Option<String>,
    /// Width in pixels, 1200 without it.
    #[param(minimum = 320, maximum = 2400)]
    width: Option<u32>,
    /// Height in pixels; without it the chart's usual one.
    #[param(minimum = 320, maximum = 2400)]
    height: Option<u32>,
    /// `light` (the default) or `dark`.
    theme: Option<String>,
    /// Zone of the times: `utc` (the default), `Europe/Berlin`, `+05:30`.
    zone: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Views {
    /// `cpu`, `who`, `cpus`, `run-queue`, `tasks`, `states`, `delays`, `threads`, `landscape`, separated by commas, 4 at most.
    views: String,
    /// `interval` reads intervals where sums would do: they have CPU modes. The range is 48 hours at most.
    #[param(inline)]
    resolution: Option<Finest>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OfHost {
    /// Processes, separated by commas: keys `PID-STARTNS`, pids, or names (a comma in one as `%2C`); 32 of `tasks`, one of
    /// `states`, `delays`, `threads`.
    process: Option<String>,
    /// Threads of `tasks`, separated by commas: `PID-STARTNS/TID-STARTNS` or `TID-STARTNS`.
    thread: Option<String>,
    /// Rows of the landscape: `name` (the default), `process`, `program`, `user`, `service`, `container`, `cgroup`. Areas of `who`:
    /// `program` (the default), any of the others, `thread`, `host`.
    by: Option<String>,
    /// `who`: only rows with this in their name or container, in any case, or of this user id or pid; all else is in the others.
    /// `landscape`: only rows with each of these words in their name, in any case.
    filter: Option<String>,
    /// `who`: only processes of one group: `BY:NAME`, e.g. `user:0` or `service:cron.service`.
    within: Option<String>,
    /// Heatmaps: a colour is the `mean` of its time (the default; the busiest rows first), or the `highest` single interval in it
    /// (rows with the highest first).
    cells: Option<String>,
    /// Rows of a heatmap; 60 of the landscape and 200 threads without it.
    #[param(minimum = 1, maximum = 200)]
    rows: Option<usize>,
    /// Whether blocked time is part of the states.
    blocked: Option<bool>,
    /// The value of 100 percent: one `cpu` (the default), or the whole `host`.
    percent: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OfFleet {
    /// These hosts, by name (a comma in one as `%2C`) or id, separated by commas, 200 at most; without it all that have data in the
    /// range.
    host: Option<String>,
    /// `name`, or `busy`: the busiest over the range first. Without it hosts stand as they are named, else by name.
    sort: Option<String>,
    /// Reverses the order; hosts without data stay last.
    reverse: Option<bool>,
    /// Hosts to leave out at the beginning.
    #[param(minimum = 0)]
    offset: Option<usize>,
    /// Hosts in the picture, 60 without it; it says how many are left out.
    #[param(minimum = 1, maximum = 200)]
    rows: Option<usize>,
}

fn view_of(name: &str) -> Result<View, Problem> {
    name.parse().map_err(|error: ChoiceError| bad(error.to_string()))
}

fn pixels(name: &str, wanted: Option<u32>) -> Result<Option<u32>, Problem> {
    wanted.map(|pixels| within(name, pixels, MIN_PIXELS..=MAX_PIXELS)).transpose()
}

impl Drawn {
    fn zone(&self) -> Result<Zone, Problem> {
        match self.zone.as_deref() {
            // The receiver's zone is not the client's.
            Some("local") => Err(bad("local is no zone that this receiver can know: name it.")),
            Some(name) => {
                name.parse().map_err(|error: cpumon_export::chart::ZoneError| bad(error.to_string()))
            }
            None => Ok(Zone::default()),
        }
    }

    fn query(&self, view: View) -> Result<ChartQuery, Problem> {
        let is_finest = match self.resolution.as_deref() {
            None => false,
            Some("interval") => true,
            Some(_) => return Err(bad("resolution is interval, or not given.")),
        };
        Ok(ChartQuery { since_ns: self.since, until_ns: self.until, is_finest, ..ChartQuery::new(view) })
    }

    fn rendering(&self) -> Result<(RenderOptions, PictureForm), Problem> {
        let options = RenderOptions {
            width: pixels("width", self.width)?,
            height: pixels("height", self.height)?,
            theme: word(self.theme.as_deref(), Theme::Light)?,
            zone: self.zone()?,
        };
        Ok((options, word(self.format.as_deref(), PictureForm::Svg)?))
    }
}

impl OfHost {
    /// Completes `query`, which has the view and the time.
    fn query(&self, host: &str, query: &ChartQuery) -> Result<ChartQuery, Problem> {
        Ok(ChartQuery {
            hosts: vec![host.to_owned()],
            processes: list(self.process.as_deref(), MAX_TASKS, |name| Ok(name_of(name)))?,
            threads: list(self.thread.as_deref(), MAX_TASKS, |key| Ok(key.to_owned()))?,
            by: self.by.as_deref().map(|by| word(Some(by), ReportBy::default())).transpose()?,
            filter: filter_of(self.filter.as_deref(), self.within.as_deref())?,
            cells: word(self.cells.as_deref(), Cells::Mean)?,
            rows: self.rows,
            with_blocked: self.blocked.unwrap_or(false),
            percent: word(self.percent.as_deref(), Percent::Cpu)?,
            ..query.clone()
        })
    }

    fn options(&self, query: &ChartQuery, line: &mut CommandLine) {
        for process in &query.processes {
            line.option("process", Some(process.clone()));
        }
        for thread in &query.threads {
            line.option("thread", Some(thread.clone()));
        }
        line.option("by", self.by.clone());
        for (name, text) in [("filter", &self.filter), ("within", &self.within)] {
            line.option(name, text.clone().filter(|text| !text.is_empty()));
        }
        line.option("cells", self.cells.clone());
        line.option("rows", self.rows.map(|rows| rows.to_string()));
        line.option("percent", self.percent.clone());
        if query.with_blocked {
            line.flag("blocked");
        }
    }
}

impl OfFleet {
    fn query(&self, drawn: &Drawn) -> Result<ChartQuery, Problem> {
        let order = self.sort.as_deref().map(|sort| word(Some(sort), Order::Name)).transpose()?;
        Ok(ChartQuery {
            hosts: list(self.host.as_deref(), MAX_HOSTS, |name| Ok(name_of(name)))?,
            order,
            is_reverse: self.reverse.unwrap_or(false),
            offset: self.offset.unwrap_or(0),
            rows: self.rows,
            ..drawn.query(View::Fleet)?
        })
    }

    fn options(&self, query: &ChartQuery, line: &mut CommandLine) {
        line.option("sort", self.sort.clone());
        if query.is_reverse {
            line.flag("reverse");
        }
        line.option("offset", self.offset.map(|hosts| hosts.to_string()));
        line.option("rows", self.rows.map(|rows| rows.to_string()));
    }
}

/// The picture as a file, or that it is still the one that is known. Draws once the store has what the receiver has of the range: the
/// command line reads only the store.
async fn picture(
    app: &SharedApp,
    query: ChartQuery,
    how: &Drawn,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let (options, form) = how.rendering()?;
    for _ in 0..MOST_CHECKS {
        let query = query.clone();
        if !app.past.ask(move |past| is_awaited(past, &query)).await? {
            break;
        }
        tokio::time::sleep(BETWEEN_CHECKS).await;
    }
    let view = query.view.name();
    let drawn = app.past.ask(move |past| Ok(draw(&fill(past, &query)?, &options, form))).await?;
    let bytes = drawn?;
    let hash = Sha256::digest(&bytes);
    let tag = format!("\"{:032x}\"", u128::from_be_bytes(std::array::from_fn(|at| hash[at])));
    let mut response = if is_known(headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Body::from(bytes).into_response()
    };
    let kind = match form {
        PictureForm::Svg => "image/svg+xml",
        PictureForm::Png => "image/png",
    };
    let name = format!("attachment; filename=\"cpumon-{view}.{}\"", form.name());
    // The browser may keep it, but must ask each time: missing data may have come, and the user may be logged out.
    let always = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "private, no-cache"),
        (header::CONTENT_DISPOSITION, &name),
        (header::ETAG, &tag),
    ];
    for (header, value) in always {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(header, value);
        }
    }
    Ok(response)
}

/// The command line that gives the same file, once the query is one that it would answer; `more` adds the options of the view.
async fn command_of(
    app: &SharedApp,
    query: ChartQuery,
    how: &Drawn,
    more: impl FnOnce(&ChartQuery, &mut CommandLine),
) -> Result<Json<ExportCommand>, Problem> {
    let ((_, form), store) = (how.rendering()?, store_of(app)?);
    let asked = query.clone();
    app.past.ask(move |past| check(past, &asked)).await?;
    let mut line = CommandLine::new(&["export", "chart", query.view.name()]);
    line.option("store", Some(store.display().to_string()));
    for host in &query.hosts {
        line.option("host", Some(host.clone()));
    }
    line.option("since", query.since_ns.map(|ns| Utc(ns).to_string()));
    line.option("until", query.until_ns.map(|ns| Utc(ns).to_string()));
    more(&query, &mut line);
    line.option("width", how.width.map(|pixels| pixels.to_string()));
    line.option("height", how.height.map(|pixels| pixels.to_string()));
    line.option("theme", how.theme.clone());
    line.option("zone", how.zone.clone());
    if query.is_finest {
        line.flag("finest");
    }
    line.option("output", Some(format!("cpumon-{}.{}", query.view.name(), form.name())));
    Ok(Json(line.into()))
}

/// Charts of one host over one range, with their values; common data is read once.
#[utoipa::path(get, operation_id = "charts", path = "/api/v1/hosts/{host}/charts",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), Views, OfHost, WantedSpan),
    responses((status = 200, body = HostCharts), HostProblems))]
pub(super) async fn values(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(wanted): Asked<Views>,
    Asked(of): Asked<OfHost>,
    Asked(span): Asked<WantedSpan>,
) -> Result<Json<HostCharts>, Problem> {
    let views = list(Some(&wanted.views), MAX_VIEWS, view_of)?;
    let Some(first) = views.first().filter(|_| !views.contains(&View::Fleet)) else {
        return Err(bad("views names no chart of a host."));
    };
    let usual = span.range(charts::chart_parts().points.history)?;
    let is_of_one = matches!(first, View::States | View::Delays | View::Threads);
    let query = ChartQuery { is_finest: wanted.resolution.is_some(), ..ChartQuery::new(*first) };
    let query = ChartQuery { points: span.points(), ..of.query(&host, &query)? };
    let answer = app.past.ask(move |past| {
        let host = past.host(&host)?;
        let key = query.processes.first().and_then(|process| parse_process_key(process).ok());
        let range = match (key.filter(|_| is_of_one && span.is_open()), past.available(host.info.host)?) {
            (Some(key), _) => life_of(past, &host, key, usual)?,
            (None, Some(available)) => span.fitted(usual, available),
            (None, None) => usual,
        };
        let (since_ns, until_ns) = (Some(range.since_ns), Some(range.until_ns));
        charts::charts(past, &ChartQuery { since_ns, until_ns, ..query }, &views)
    });
    Ok(Json(answer.await?))
}

/// A chart as a picture: the bytes that `cpumon export chart` writes. A range without data is a picture that says so.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/charts/{view}",
    params(("host" = String, Path, description = "Id, or a name that only one host has."),
        ("view" = String, Path, description = "`cpu`, `who`, `cpus`, `run-queue`, `tasks`, `states`, `delays`, `threads`, `landscape`, \
            or `fleet` with this host alone."),
        OfHost, Drawn),
    responses((status = 200, content((String = "image/svg+xml"), (String = "image/png"))),
        (status = 304, description = "As the one that is known."), HostProblems))]
pub(super) async fn chart(
    State(app): State<SharedApp>,
    PathPart((host, view)): PathPart<(String, String)>,
    Asked(of): Asked<OfHost>,
    Asked(how): Asked<Drawn>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = of.query(&host, &how.query(view_of(&view)?)?)?;
    picture(&app, query, &how, &headers).await
}

/// The command line that gives the same file as `/api/v1/hosts/{host}/charts/{view}`.
#[utoipa::path(get, operation_id = "chart_command", path = "/api/v1/hosts/{host}/charts/{view}/command",
    params(("host" = String, Path, description = "Id, or a name that only one host has."),
        ("view" = String, Path, description = "As of the chart."), OfHost, Drawn),
    responses((status = 200, body = ExportCommand), HostProblems))]
pub(super) async fn command(
    State(app): State<SharedApp>,
    PathPart((host, view)): PathPart<(String, String)>,
    Asked(of): Asked<OfHost>,
    Asked(how): Asked<Drawn>,
) -> Result<Json<ExportCommand>, Problem> {
    let query = of.query(&host, &how.query(view_of(&view)?)?)?;
    command_of(&app, query, &how, |query, line| of.options(query, line)).await
}

/// CPU use of all hosts, or of some, a small line each: the bytes that `cpumon export chart fleet` writes.
#[utoipa::path(get, operation_id = "fleet_chart", path = "/api/v1/fleet/chart", params(OfFleet, Drawn),
    responses((status = 200, content((String = "image/svg+xml"), (String = "image/png"))),
        (status = 304, description = "As the one that is known."), HostProblems))]
pub(super) async fn fleet(
    State(app): State<SharedApp>,
    Asked(of): Asked<OfFleet>,
    Asked(how): Asked<Drawn>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = of.query(&how)?;
    picture(&app, query, &how, &headers).await
}

/// The command line that gives the same file as `/api/v1/fleet/chart`.
#[utoipa::path(get, operation_id = "fleet_chart_command", path = "/api/v1/fleet/chart/command", params(OfFleet, Drawn),
    responses((status = 200, body = ExportCommand), HostProblems))]
pub(super) async fn fleet_command(
    State(app): State<SharedApp>,
    Asked(of): Asked<OfFleet>,
    Asked(how): Asked<Drawn>,
) -> Result<Json<ExportCommand>, Problem> {
    let query = of.query(&how)?;
    command_of(&app, query, &how, |query, line| of.options(query, line)).await
}
