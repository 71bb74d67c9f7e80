//! All hosts at a glance: once, or as a stream.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use super::host::{LastId, last_id};
use super::params::{Asked, limit};
use crate::api;
use crate::app::Shared;
use crate::fleet::{FleetReader, Sort, Wanted};
use crate::problem::Problem;
use crate::stream;

/// Hosts in an answer at most.
const MAX_HOSTS: usize = 4096;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Only hosts whose name, id or address holds this text, whatever its case.
    search: Option<String>,
    /// In which order.
    #[param(inline)]
    sort: Option<Sort>,
    /// Hosts to leave out at the beginning.
    #[param(minimum = 0)]
    offset: Option<usize>,
    /// Hosts in the answer.
    #[param(minimum = 1, maximum = 4096)]
    limit: Option<usize>,
}

/// A row for each host, the busiest processes of all hosts, and two minutes of utilization.
#[utoipa::path(get, path = "/api/v1/fleet", params(Which), responses(
    (status = 200, body = api::Fleet),
    (status = 400, body = api::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn fleet(
    State(app): State<Shared>,
    Asked(which): Asked<Which>,
) -> Result<Json<api::Fleet>, Problem> {
    let wanted = Wanted {
        search: which.search.unwrap_or_default(),
        sort: which.sort.unwrap_or_default(),
        offset: which.offset.unwrap_or(0),
        limit: limit(which.limit, 1000, MAX_HOSTS)?,
    };
    Ok(Json(app.fleet.ask(&*app.live, &wanted)))
}

/// The same once a second as Server-Sent Events named `fleet`; data is a `Fleet`.
#[utoipa::path(get, path = "/api/v1/fleet/live", params(LastId), responses(
    (status = 200, body = String, content_type = "text/event-stream"),
))]
pub(super) async fn live(
    State(app): State<Shared>,
    headers: HeaderMap,
    Asked(given): Asked<LastId>,
) -> Response {
    let reader = FleetReader::new(app, last_id(&headers, &given));
    stream::respond(reader)
}
