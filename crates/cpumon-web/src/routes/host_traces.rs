//! Routes for the traces of a host: they list stored traces, send their files, ask a device for one, and start, follow and stop a recording
//! of the receiver's own machine.

use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cpumon_files::AuditEvent;
use cpumon_query::json;
use cpumon_query::{Answers, TraceSources, trace_file};
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::history::of_one;
use super::params::{Asked, HostProblems, Paging, PathPart, WantedSpan, within};
use crate::api;
use crate::app::SharedApp;
use crate::login::Peer;
use crate::problem::Problem;
use crate::readers::Lease;

/// More than a store has.
const MAX_TRACES: usize = 10_000;
/// Bytes of a file in one piece: each client that reads has one.
const PIECE_BYTES: usize = 64 << 10;

/// The device writes a trace.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct TraceAsked {
    /// The id of the host that was asked. Its trace is listed once it has arrived, some seconds later.
    host: String,
}

/// The traces of a host whose time touches a range, the oldest first, with the reasons of its flight recorder.
#[utoipa::path(get, operation_id = "host_traces", path = "/api/v1/hosts/{host}/traces",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), WantedSpan, Paging),
    responses((status = 200, body = json::TraceList), HostProblems))]
pub(super) async fn list(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(span): Asked<WantedSpan>,
    Asked(page): Asked<Paging>,
) -> Result<Json<json::TraceList>, Problem> {
    let (range, page) = (span.range(1)?.time(), page.rows(1000, MAX_TRACES)?);
    app.past.ask(move |past| of_one(past.traces(&[host], range, page)?)).await.map(Json)
}

/// Asks a host for a trace of the last seconds. It decides itself: it must run a flight recorder, and writes one in a minute at most.
#[utoipa::path(post, operation_id = "take_trace", path = "/api/v1/hosts/{host}/traces",
    params(("host" = String, Path, description = "Id, or a name that only one host has.")),
    responses((status = 202, body = TraceAsked, description = "The device writes one."),
        (status = 409, body = api::Problem, content_type = "application/problem+json", description = "It does not, and why; or a name of several hosts."),
        (status = 404, body = api::Problem, content_type = "application/problem+json", description = "No such host."),
        (status = 503, body = api::Problem, content_type = "application/problem+json", description = "Too many requests wait for devices.")))]
pub(super) async fn take(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    peer: Option<Extension<Peer>>,
) -> Result<Response, Problem> {
    let host = app.live.find(&host)?;
    let asked = app.wait_for_device(move |live| live.take_trace(host)).await?;
    asked.map_err(|reason| {
        Problem::new(StatusCode::CONFLICT, format!("No trace: {reason}."))
            .how("The agent of an enrolled device, or this receiver for its own machine, must run with --flight-recorder.")
    })?;
    app.note(peer, AuditEvent::TraceAsked, &host.to_string(), "");
    Ok((StatusCode::ACCEPTED, Json(TraceAsked { host: host.to_string() })).into_response())
}

/// The file of a trace, for `cpumon trace report` and `cpumon trace export`.
#[utoipa::path(get, operation_id = "trace_file", path = "/api/v1/traces/{id}/file",
    params(("id" = String, Path, description = "As the list of traces has it.")),
    responses((status = 200, body = String, content_type = "application/octet-stream"), HostProblems))]
pub(super) async fn file(
    State(app): State<SharedApp>,
    PathPart(id): PathPart<String>,
    lease: Option<Extension<Lease>>,
    peer: Option<Extension<Peer>>,
) -> Result<Response, Problem> {
    let unknown = || Problem::new(StatusCode::NOT_FOUND, "There is no such trace.");
    // A number: nothing of the request becomes part of a path.
    let number: i64 = id.parse().map_err(|_| unknown())?;
    let store = app.options.store.clone().ok_or_else(unknown)?;
    let path = trace_file(&store, number);
    let opened = tokio::task::spawn_blocking(move || {
        let file = File::open(path)?;
        Ok::<_, io::Error>((file.metadata()?.len(), file))
    });
    let (bytes, file) = opened.await.ok().and_then(Result::ok).ok_or_else(unknown)?;
    app.note(peer, AuditEvent::Exported, "trace", &number.to_string());
    // A thread reads one piece, and the next one only once the client has taken that: a client that reads slowly holds no thread.
    let body = unfold((Some(file), lease), |(file, lease)| async move {
        if let Some(Extension(lease)) = &lease {
            // This runs when the client has taken the piece before.
            lease.renew();
        }
        let file = file?;
        let read = tokio::task::spawn_blocking(move || next_piece(file)).await;
        match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok((piece, _)) if piece.is_empty() => None,
            Ok((piece, file)) => Some((Ok(piece), (Some(file), lease))),
            Err(error) => Some((Err(error), (None, lease))),
        }
    });
    let mut response = Body::from_stream(body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"cpumon-{number}.trace\"")) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

fn next_piece(mut file: File) -> io::Result<(Bytes, File)> {
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    file.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
    Ok((piece.into(), file))
}

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
    responses((status = 200, body = TraceSources), HostProblems))]
pub(super) async fn sources(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
) -> Result<Json<TraceSources>, Problem> {
    let host = app.live.find(&host)?;
    Ok(Json(app.live.trace_sources(host)))
}

/// Records every context switch of the receiver's own machine for some seconds, one recording at a time. It is stored as a trace of the host.
#[utoipa::path(post, operation_id = "record_trace", path = "/api/v1/hosts/{host}/recording",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), Length),
    responses((status = 202, body = TraceSources, description = "It is recorded now."),
        (status = 409, body = api::Problem, content_type = "application/problem+json", description = "It is not, and why; or a name of several hosts."),
        (status = 404, body = api::Problem, content_type = "application/problem+json", description = "No such host."),
        (status = 503, body = api::Problem, content_type = "application/problem+json", description = "Too many requests wait for devices.")))]
pub(super) async fn record(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    Asked(length): Asked<Length>,
    peer: Option<Extension<Peer>>,
) -> Result<Response, Problem> {
    let seconds = within("seconds", length.seconds.unwrap_or(DEFAULT_SECONDS), 1..=MAX_SECONDS)?;
    let host = app.live.find(&host)?;
    // It waits until the kernel has taken the programs.
    let asked =
        app.wait_for_device(move |live| live.record_trace(host, Duration::from_secs(seconds))).await?;
    asked.map_err(|reason| {
        let how = app.live.trace_sources(host).how;
        let problem = Problem::new(StatusCode::CONFLICT, format!("Not recorded: {reason}."));
        problem.how(if how.is_empty() { FOLLOW.to_owned() } else { how })
    })?;
    app.note(peer, AuditEvent::TraceAsked, &host.to_string(), &format!("recording of {seconds} s"));
    Ok((StatusCode::ACCEPTED, Json(app.live.trace_sources(host))).into_response())
}

/// Ends the recording under way; its events so far are stored.
#[utoipa::path(post, operation_id = "stop_recording", path = "/api/v1/hosts/{host}/recording/stop",
    params(("host" = String, Path, description = "Id, or a name that only one host has.")),
    responses((status = 202, body = TraceSources, description = "It ends now."),
        (status = 409, body = api::Problem, content_type = "application/problem+json", description = "None is under way; or a name of several hosts."),
        (status = 404, body = api::Problem, content_type = "application/problem+json", description = "No such host.")))]
pub(super) async fn stop(
    State(app): State<SharedApp>,
    PathPart(host): PathPart<String>,
    peer: Option<Extension<Peer>>,
) -> Result<Response, Problem> {
    let host = app.live.find(&host)?;
    if !app.live.stop_recording(host) {
        return Err(Problem::new(StatusCode::CONFLICT, "No recording of this host is under way.").how(FOLLOW));
    }
    app.note(peer, AuditEvent::TraceAsked, &host.to_string(), "end of a recording");
    Ok((StatusCode::ACCEPTED, Json(app.live.trace_sources(host))).into_response())
}
