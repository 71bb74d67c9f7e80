//! The receiver itself: its state, its hosts as they are, columns, what a browser may do.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use cpumon_query::time::now_ns;
use serde::Serialize;
use utoipa::ToSchema;

use super::host_problems::HostProblems;
use super::params::{Asked, Paging};
use crate::api;
use crate::app::Shared;
use crate::problem::Problem;

/// Hosts in an answer at most: more than the receiver keeps.
const MAX_LISTED: usize = 10_000;
/// Parts of the store that cannot be read and are listed.
const MAX_HOLES: usize = 20;

/// The receiver: version, addresses, datagrams, rejects by sender, the store's state, every host.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = api::Status)))]
pub(super) async fn status(State(app): State<Shared>) -> Json<api::Status> {
    let mut status = api::Status { hosts: app.live.hosts(), ..app.live.status() };
    status.store.damage = app.past.damage().first(MAX_HOLES);
    Json(status)
}

/// Every host, with its losses and how far to trust it. The receiver keeps 4096 at most.
#[utoipa::path(get, path = "/api/v1/hosts", params(Paging), responses((status = 200, body = api::Hosts), HostProblems))]
pub(super) async fn hosts(
    State(app): State<Shared>,
    Asked(page): Asked<Paging>,
) -> Result<Json<api::Hosts>, Problem> {
    let page = page.rows(MAX_LISTED, MAX_LISTED)?;
    let hosts = app.live.hosts();
    let total = hosts.len();
    let hosts = page.of(hosts).collect();
    Ok(Json(api::Hosts { total, hosts }))
}

/// Names, units and meanings of the columns of all tables.
#[utoipa::path(get, path = "/api/v1/columns", responses((status = 200, body = api::Columns)))]
pub(super) async fn columns() -> Json<api::Columns> {
    Json(api::Columns::all())
}

/// What this receiver offers to who asks.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Session {
    /// The receiver's version.
    version: &'static str,
    /// Whether one must log in.
    login_required: bool,
    /// Whether one did, or need not.
    logged_in: bool,
    /// Whether the past is kept.
    store: bool,
    /// The receiver's clock.
    now_ns: api::Nanos,
    /// Limits at which a mark or a colour changes.
    limits: api::Limits,
    /// Wait reasons in words: `futex` is a `lock`. Reasons that are not named here are clear by their name.
    wait_words: BTreeMap<&'static str, &'static str>,
}

/// What this receiver offers, and whether a login is needed.
#[utoipa::path(get, path = "/api/v1/session", responses((status = 200, body = Session)))]
pub(super) async fn session(State(app): State<Shared>, headers: HeaderMap) -> Json<Session> {
    Json(Session {
        version: env!("CARGO_PKG_VERSION"),
        login_required: app.gate.is_some(),
        logged_in: app.gate.as_ref().is_none_or(|gate| gate.has_session(&headers)),
        store: app.options.store.is_some(),
        now_ns: api::Nanos(now_ns()),
        limits: api::Limits::default(),
        wait_words: cpumon_model::wait_words().collect(),
    })
}
