//! All hosts at a glance: once, or as a stream.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use axum::{Extension, Json};
use cpumon_export::Format;
use cpumon_query::charts::{Cells, Chart, chart_parts, fleet_heatmap};
use cpumon_query::fleet::{FleetQuery, HostOrder, SpanQuery};
use cpumon_query::time::Page;
use serde::Deserialize;
use utoipa::IntoParams;

use super::export::{CommandLine, ExportCommand, as_download};
use super::host::{LastId, last_id};
use super::params::{Asked, WantedSpan, bad, choice, limit};
use crate::api;
use crate::app::SharedApp;
use crate::fleet::FleetReader;
use crate::problem::Problem;
use crate::readers::Lease;
use crate::stream;

/// Hosts in an answer at most.
const MAX_HOSTS: usize = 4096;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WantedHosts {
    /// Only hosts of whose name, id, address, agent, busiest process, trust or state each of these words is a part, whatever its case.
    search: Option<String>,
    /// Order of the hosts.
    #[param(inline)]
    sort: Option<HostOrder>,
    /// Reverses the order; hosts without data stay last.
    reverse: Option<bool>,
}

impl WantedHosts {
    fn query(self, page: Page) -> FleetQuery {
        let (sort, is_reverse) = (self.sort.unwrap_or_default(), self.reverse.unwrap_or_default());
        FleetQuery { search: self.search.unwrap_or_default(), sort, is_reverse, page }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FleetPage {
    /// All hosts as they were at this moment, ns since the UNIX epoch; hosts without data then are `stored`.
    at: Option<i64>,
    /// Hosts to leave out at the beginning.
    #[param(minimum = 0)]
    offset: Option<usize>,
    /// Hosts in the answer.
    #[param(minimum = 1, maximum = 4096)]
    limit: Option<usize>,
}

/// A row for each host, the busiest processes of all hosts, and two minutes of utilization.
#[utoipa::path(get, path = "/api/v1/fleet", params(WantedHosts, FleetPage), responses(
    (status = 200, body = api::Fleet),
    (status = 400, body = api::Problem, content_type = "application/problem+json"),
    (status = 503, body = api::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn fleet(
    State(app): State<SharedApp>,
    Asked(wanted): Asked<WantedHosts>,
    Asked(FleetPage { at, offset, limit: most }): Asked<FleetPage>,
) -> Result<Json<api::Fleet>, Problem> {
    let limit = limit("limit", most, 1000, MAX_HOSTS)?;
    let query = wanted.query(Page { offset: offset.unwrap_or(0), limit });
    match at {
        Some(at_ns) => app.fleet.at(at_ns, query).await.map(Json),
        None => Ok(Json(app.fleet.answer(&query).await)),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ShownHosts {
    /// Only hosts of whose name or id each of these words is a part, whatever its case.
    search: Option<String>,
    /// In which order: `mean` CPU use (the default), `peak`, `run_queue`, `name`.
    sort: Option<String>,
    /// Reverses the order; hosts without data stay last.
    reverse: Option<bool>,
    /// Hosts to leave out at the beginning.
    #[param(minimum = 0)]
    offset: Option<usize>,
    /// Hosts in the answer.
    #[param(minimum = 1, maximum = 1000)]
    rows: Option<usize>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ShownCells {
    /// A colour is the `mean` of its time (the default), or the `highest` single interval in it.
    cells: Option<String>,
}

/// Hosts in a picture at most.
const MAX_SPAN_HOSTS: usize = 1000;
/// Points of such a picture at most.
const MAX_SPAN_POINTS: usize = 400;

impl ShownHosts {
    fn query(self, span: &WantedSpan, points: usize) -> Result<SpanQuery, Problem> {
        let range = span.range(points)?;
        if range.points > MAX_SPAN_POINTS {
            return Err(bad(format!("points={} is more than {MAX_SPAN_POINTS}.", range.points)));
        }
        let limit = limit("rows", self.rows, 100, MAX_SPAN_HOSTS)?;
        Ok(SpanQuery {
            range,
            search: self.search.unwrap_or_default(),
            sort: choice(self.sort.as_deref())?,
            is_reverse: self.reverse.unwrap_or_default(),
            page: Page { offset: self.offset.unwrap_or(0), limit },
        })
    }
}

/// All hosts over a range: mean, peak, run queue, and CPU use over time. Many hosts and long ranges are read from sums of minutes or
/// hours, so that the time it takes is bounded.
#[utoipa::path(get, operation_id = "fleet_history", path = "/api/v1/fleet/history", params(WantedSpan, ShownHosts), responses(
    (status = 200, body = api::FleetHistory),
    (status = 400, body = api::Problem, content_type = "application/problem+json"),
    (status = 503, body = api::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn history(
    State(app): State<SharedApp>,
    Asked(span): Asked<WantedSpan>,
    Asked(shown): Asked<ShownHosts>,
) -> Result<Json<api::FleetHistory>, Problem> {
    app.fleet.span(shown.query(&span, MAX_SPAN_POINTS / 2)?).await.map(Json)
}

/// The same as a heatmap, which the page draws: a row for each host, with names, percentages and notes.
#[utoipa::path(get, operation_id = "fleet_heatmap", path = "/api/v1/fleet/heatmap", params(WantedSpan, ShownHosts, ShownCells), responses(
    (status = 200, body = Chart),
    (status = 400, body = api::Problem, content_type = "application/problem+json"),
    (status = 503, body = api::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn heatmap(
    State(app): State<SharedApp>,
    Asked(span): Asked<WantedSpan>,
    Asked(shown): Asked<ShownHosts>,
    Asked(of): Asked<ShownCells>,
) -> Result<Json<Chart>, Problem> {
    let query = shown.query(&span, chart_parts().points.matrix)?;
    let cells: Cells = choice(of.cells.as_deref())?;
    app.past.ask(move |past| fleet_heatmap(past, &query, cells)).await.map(Json)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AsFile {
    /// Lists, instead of the hosts, the 20 busiest processes of each that reports, the busiest first; they have no other
    /// order.
    busiest: Option<bool>,
    /// `csv` (the default), `jsonl`, `json` or `parquet`.
    format: Option<String>,
}

impl AsFile {
    /// Whether the file has the busiest processes.
    fn is_of_busiest(&self, wanted: &WantedHosts) -> Result<bool, Problem> {
        let is_of_busiest = self.busiest.unwrap_or_default();
        if is_of_busiest && (wanted.sort.is_some() || wanted.reverse == Some(true)) {
            return Err(bad("The busiest processes have one order, without sort and reverse.")
                .how("Leave sort and reverse out, or busiest."));
        }
        Ok(is_of_busiest)
    }

    fn format(&self) -> Result<Format, Problem> {
        choice(self.format.as_deref())
    }
}

/// Every host that is wanted as a file, with the columns of `/api/v1/fleet`; ages are moments there. Or their busiest processes.
#[utoipa::path(get, operation_id = "fleet_export", path = "/api/v1/fleet/export", params(WantedHosts, AsFile), responses(
    (status = 200, content((String = "text/csv"), (String = "application/jsonl"), (String = "application/json"), (String = "application/vnd.apache.parquet"))),
    (status = 400, body = api::Problem, content_type = "application/problem+json"),
    (status = 503, body = api::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn export(
    State(app): State<SharedApp>,
    Asked(wanted): Asked<WantedHosts>,
    Asked(file): Asked<AsFile>,
) -> Result<Response, Problem> {
    let (format, is_of_busiest) = (file.format()?, file.is_of_busiest(&wanted)?);
    let file = app.fleet.file(&wanted.query(Page::ALL), is_of_busiest, format).await?;
    let name = if is_of_busiest { "busiest" } else { "hosts" };
    Ok(as_download(name, format, file.into()))
}

/// The command line that gives the same file as `/api/v1/fleet/export`.
#[utoipa::path(get, operation_id = "fleet_export_command", path = "/api/v1/fleet/export/command", params(WantedHosts, AsFile), responses(
    (status = 200, body = ExportCommand),
    (status = 400, body = api::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn command(
    State(app): State<SharedApp>,
    headers: HeaderMap,
    Asked(wanted): Asked<WantedHosts>,
    Asked(file): Asked<AsFile>,
) -> Result<Json<ExportCommand>, Problem> {
    file.format()?;
    let is_of_busiest = file.is_of_busiest(&wanted)?;
    // The guard let it in, so it names this server.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_tls = app.options.tls.is_some();
    let mut line = CommandLine::new(&["hosts"]);
    line.option("url", Some(format!("{}://{host}", if is_tls { "https" } else { "http" })));
    line.option("ca", is_tls.then(|| "http-cert.pem".to_owned()));
    line.option("search", wanted.search);
    line.option("sort", wanted.sort.map(|sort| sort.name().replace('_', "-")));
    if wanted.reverse == Some(true) {
        line.flag("reverse");
    }
    if is_of_busiest {
        line.flag("busiest");
    }
    line.format(file.format.as_deref().unwrap_or("csv"), "hosts");
    Ok(Json(line.into()))
}

/// Answers of `/api/v1/fleet` once a second as Server-Sent Events named `fleet`; data is a `Fleet`.
#[utoipa::path(get, operation_id = "fleet_live", path = "/api/v1/fleet/live", params(LastId), responses(
    (status = 200, body = String, content_type = "text/event-stream"),
    (status = 400, body = api::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn live(
    State(app): State<SharedApp>,
    lease: Option<Extension<Lease>>,
    headers: HeaderMap,
    Asked(given): Asked<LastId>,
) -> Response {
    let reader = FleetReader::new(Arc::clone(&app.fleet), last_id(&headers, &given));
    stream::respond(reader, lease.map(|Extension(lease)| lease))
}
