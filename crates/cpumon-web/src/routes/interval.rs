//! One interval as rows of objects, without loss against the model: what `cpumon top --host` reads.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cpumon_model::HostId;
use cpumon_query::{Live, Seek, Shown};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};
use utoipa::IntoParams;

use super::host_problems::HostProblems;
use super::params::{Asked, Named, bad};
use crate::app::Shared;
use crate::problem::Problem;

/// How long `?newer_than=N` waits for a newer interval before it answers 204.
pub const LONG_POLL: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Waits up to 5 s for an interval with a serial above this one.
    newer_than: Option<u64>,
    /// The interval that contains this moment, ns since the UNIX epoch.
    at: Option<i64>,
    /// The newest interval that ends before this moment.
    before: Option<i64>,
    /// The oldest interval that ends after this moment.
    after: Option<i64>,
}

/// What one request asks for.
enum Request {
    Newest,
    NewerThan(u64),
    Past(Seek),
}

/// The place in the past that is asked for, one at most.
pub(super) fn seek_place(
    at: Option<i64>,
    before: Option<i64>,
    after: Option<i64>,
) -> Result<Option<Seek>, Problem> {
    let mut given =
        [at.map(Seek::At), before.map(Seek::Before), after.map(Seek::After)].into_iter().flatten();
    match (given.next(), given.next()) {
        (place, None) => Ok(place),
        _ => Err(bad("Only one of `at`, `before` and `after` can be given.")),
    }
}

impl Which {
    fn request(&self) -> Result<Request, Problem> {
        match (self.newer_than, seek_place(self.at, self.before, self.after)?) {
            (None, None) => Ok(Request::Newest),
            (Some(serial), None) => Ok(Request::NewerThan(serial)),
            (None, Some(to)) => Ok(Request::Past(to)),
            (Some(_), Some(_)) => {
                Err(bad("`newer_than` is of the present, `at`, `before` and `after` are of the past."))
            }
        }
    }
}

/// One interval of a host, with the receiver's serial number; rows are objects.
#[utoipa::path(get, path = "/api/v1/hosts/{host}/interval",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), Which),
    responses((status = 200, body = Shown), (status = 204, description = "Nothing newer came."), HostProblems))]
pub(super) async fn interval(
    State(app): State<Shared>,
    Named(host): Named<String>,
    Asked(which): Asked<Which>,
) -> Result<Response, Problem> {
    let request = which.request()?;
    let id = match (app.live.find(&host), &request) {
        (Ok(id), _) => id,
        // It may be one that does not report now.
        (Err(_), Request::Past(_)) => app.past.ask(move |past| past.host(&host)).await?.info.host,
        (Err(error), _) => return Err(error.into()),
    };
    let nothing = || {
        Problem::new(StatusCode::NOT_FOUND, "No data is stored of this host at that time.")
            .how("/api/v1/stored has the first and the last moment that are stored of each host.")
    };
    let shown = match request {
        Request::Past(to) => seek(&app, id, to).await?.ok_or_else(nothing)?,
        Request::NewerThan(serial) => {
            let Some(shown) = wait_for_newer(&*app.live, id, serial).await else {
                return Ok(StatusCode::NO_CONTENT.into_response());
            };
            shown
        }
        Request::Newest => app.live.newest(id).ok_or_else(|| {
            Problem::new(StatusCode::NOT_FOUND, "This host has not completed an interval yet.")
                .how("Ask again in a moment; `newer_than=0` waits for it.")
        })?,
    };
    Ok(Json(app.live.with_idle(id, &shown)).into_response())
}

/// An interval of a host's past.
pub(super) async fn seek(app: &Shared, id: HostId, to: Seek) -> Result<Option<Shown>, Problem> {
    let live = std::sync::Arc::clone(&app.live);
    let found = tokio::task::spawn_blocking(move || live.seek(id, to))
        .await
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
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
