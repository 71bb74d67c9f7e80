//! The routes. In: requests that passed the guard. Out: JSON of [`crate::api`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use cpumon_model::HostId;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use crate::problem::Problem;
use crate::{Live, Lookup, Seek, Shown, api, guard};

/// How long `?newer_than=N` waits for a newer interval before it answers 204.
pub const LONG_POLL: Duration = Duration::from_secs(5);

type Receiver = Arc<dyn Live>;

/// Every route, behind the `Host` check for a server bound to `bound`.
pub fn router(live: Arc<dyn Live>, bound: SocketAddr) -> Router {
    Router::new()
        .route("/api/v1/status", get(status))
        .route("/api/v1/hosts", get(hosts))
        .route("/api/v1/hosts/{host}/interval", get(interval))
        .fallback(nothing_here)
        .method_not_allowed_fallback(only_get)
        .with_state(live)
        .layer(middleware::from_fn_with_state(bound, guard::check))
}

async fn nothing_here() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "Nothing here. Try /api/v1/status or /api/v1/hosts.")
}

async fn only_get() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "This API is read-only: use GET.")
}

async fn status(State(live): State<Receiver>) -> Json<api::Status> {
    let mut status = live.status();
    status.hosts = live.hosts().iter().map(api::Host::from).collect();
    Json(status)
}

async fn hosts(State(live): State<Receiver>) -> Json<api::Hosts> {
    Json(api::Hosts { hosts: live.hosts().iter().map(api::Host::from).collect() })
}

#[derive(Debug, Deserialize)]
struct Which {
    newer_than: Option<u64>,
    at: Option<i64>,
    before: Option<i64>,
    after: Option<i64>,
}

/// What one request asks for.
enum Wish {
    Newest,
    NewerThan(u64),
    Past(Seek),
}

impl Which {
    fn wish(&self) -> Result<Wish, Problem> {
        let given = [
            self.newer_than.map(Wish::NewerThan),
            self.at.map(|ns| Wish::Past(Seek::At(ns))),
            self.before.map(|ns| Wish::Past(Seek::Before(ns))),
            self.after.map(|ns| Wish::Past(Seek::After(ns))),
        ];
        let mut given = given.into_iter().flatten();
        match (given.next(), given.next()) {
            (wish, None) => Ok(wish.unwrap_or(Wish::Newest)),
            _ => Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "Give only one of `newer_than`, `at`, `before` and `after`.",
            )),
        }
    }
}

async fn interval(
    State(live): State<Receiver>,
    Path(host): Path<String>,
    which: Result<Query<Which>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let Query(which) = which.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.body_text()))?;
    let wish = which.wish()?;
    let id = find(&*live, &host)?;
    let shown = match wish {
        Wish::Past(to) => seek(live, id, to).await?,
        Wish::NewerThan(serial) => {
            let Some(shown) = wait_for_newer(&*live, id, serial).await else {
                return Ok(StatusCode::NO_CONTENT.into_response());
            };
            shown
        }
        Wish::Newest => live.newest(id).ok_or_else(|| {
            Problem::new(StatusCode::NOT_FOUND, "This host has not completed an interval yet.")
        })?,
    };
    Ok(Json(api::Numbered { serial: shown.serial, interval: api::Interval::from(&*shown.interval) })
        .into_response())
}

fn find(live: &dyn Live, host: &str) -> Result<HostId, Problem> {
    match live.find(host) {
        Lookup::Found(id) => Ok(id),
        Lookup::Unknown => Err(Problem::new(
            StatusCode::NOT_FOUND,
            "This receiver knows no such host. /api/v1/hosts lists those it knows.",
        )),
        Lookup::Ambiguous(ids) => {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let detail = format!("Several hosts have this name; use an id: {}.", ids.join(", "));
            Err(Problem::new(StatusCode::CONFLICT, detail))
        }
    }
}

async fn seek(live: Receiver, id: HostId, to: Seek) -> Result<Shown, Problem> {
    let found = tokio::task::spawn_blocking(move || live.seek(id, to))
        .await
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    found
        .map_err(|reason| Problem::new(StatusCode::SERVICE_UNAVAILABLE, reason))?
        .ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "Nothing is kept of this host at that time."))
}

async fn wait_for_newer(live: &dyn Live, id: HostId, serial: u64) -> Option<Shown> {
    let mut bell = live.bell().listen();
    let deadline = Instant::now() + LONG_POLL;
    loop {
        if let Some(shown) = live.newest(id).filter(|shown| shown.serial > serial) {
            return Some(shown);
        }
        timeout_at(deadline, bell.changed()).await.ok()?.ok()?;
    }
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
