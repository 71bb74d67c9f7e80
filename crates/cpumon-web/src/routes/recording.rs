//! Recording the receiver's own machine on request: start, progress, stop.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cpumon_files::AuditEvent;
use serde::Deserialize;
use utoipa::IntoParams;

use super::host_problems::HostProblems;
use super::params::{Asked, Named, bad};
use super::turns::{note, wait_for_device};
use crate::api;
use crate::app::Shared;
use crate::login::Peer;
use crate::problem::Problem;

const DEFAULT_SECONDS: u64 = 10;
const MAX_SECONDS: u64 = 60;
const FOLLOW: &str = "GET /api/v1/hosts/{host}/recording shows how far a recording is.";

/// How long to record.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Length {
    /// Seconds; 10 unless given.
    #[param(minimum = 1, maximum = 60)]
    seconds: Option<u64>,
}

/// How a trace of a host can be had now, and how far the last recording is.
#[utoipa::path(get, operation_id = "trace_sources", path = "/api/v1/hosts/{host}/recording",
    params(("host" = String, Path, description = "Id, or a name that only one host has.")),
    responses((status = 200, body = api::TraceSources), HostProblems))]
pub(super) async fn sources(
    State(app): State<Shared>,
    Named(host): Named<String>,
) -> Result<Json<api::TraceSources>, Problem> {
    let host = app.live.find(&host)?;
    Ok(Json(app.live.trace_sources(host)))
}

/// Records every context switch of the receiver's own machine for some seconds, one recording at a time. It is stored as a trace of the host.
#[utoipa::path(post, operation_id = "record_trace", path = "/api/v1/hosts/{host}/recording",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), Length),
    responses((status = 202, body = api::TraceSources, description = "It is recorded now."),
        (status = 409, body = api::Problem, content_type = "application/problem+json", description = "It is not, and why; or a name of several hosts."),
        (status = 404, body = api::Problem, content_type = "application/problem+json", description = "No such host."),
        (status = 503, body = api::Problem, content_type = "application/problem+json", description = "Too many requests wait for devices.")))]
pub(super) async fn record(
    State(app): State<Shared>,
    Named(host): Named<String>,
    Asked(length): Asked<Length>,
    peer: Option<Extension<Peer>>,
) -> Result<Response, Problem> {
    let seconds = length.seconds.unwrap_or(DEFAULT_SECONDS);
    if !(1..=MAX_SECONDS).contains(&seconds) {
        return Err(bad(format!("seconds={seconds} is not between 1 and {MAX_SECONDS}.")));
    }
    let host = app.live.find(&host)?;
    // It waits until the kernel has taken the programs.
    let asked =
        wait_for_device(&app, move |live| live.record_trace(host, Duration::from_secs(seconds))).await?;
    asked.map_err(|reason| {
        let how = app.live.trace_sources(host).how;
        let problem = Problem::new(StatusCode::CONFLICT, format!("Not recorded: {reason}."));
        problem.how(if how.is_empty() { FOLLOW.to_owned() } else { how })
    })?;
    note(&app, peer, AuditEvent::TraceAsked, &host.to_string(), &format!("recording of {seconds} s"));
    let sources = app.live.trace_sources(host);
    Ok((StatusCode::ACCEPTED, Json(sources)).into_response())
}

/// Ends the recording under way; what was recorded so far is stored.
#[utoipa::path(post, operation_id = "stop_recording", path = "/api/v1/hosts/{host}/recording/stop",
    params(("host" = String, Path, description = "Id, or a name that only one host has.")),
    responses((status = 202, body = api::TraceSources, description = "It ends now."),
        (status = 409, body = api::Problem, content_type = "application/problem+json", description = "None is under way; or a name of several hosts."),
        (status = 404, body = api::Problem, content_type = "application/problem+json", description = "No such host.")))]
pub(super) async fn stop(
    State(app): State<Shared>,
    Named(host): Named<String>,
    peer: Option<Extension<Peer>>,
) -> Result<Response, Problem> {
    let host = app.live.find(&host)?;
    if !app.live.stop_recording(host) {
        return Err(Problem::new(StatusCode::CONFLICT, "No recording of this host is under way.").how(FOLLOW));
    }
    note(&app, peer, AuditEvent::TraceAsked, &host.to_string(), "end of a recording");
    let sources = app.live.trace_sources(host);
    Ok((StatusCode::ACCEPTED, Json(sources)).into_response())
}
