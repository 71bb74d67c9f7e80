//! Traces that devices sent: which there are, the files themselves, and a request for one.

use std::fs::File;
use std::io::Read;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cpumon_files::AuditEvent;
use cpumon_query::trace_file;
use futures_util::stream::unfold;
use serde::Serialize;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::host_problems::HostProblems;
use super::params::{Asked, Named, Paging};
use super::span::Span;
use crate::api;
use crate::app::Shared;
use crate::lease::Lease;
use crate::login::Peer;
use crate::problem::Problem;

/// More than a store has.
const MAX_TRACES: usize = 10_000;
/// Bytes of a file in one piece, and pieces that wait for the client.
const PIECE_BYTES: usize = 256 << 10;
const MAX_WAITING: usize = 4;

/// The device writes a trace.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct TraceAsked {
    /// The id of the host that was asked. Its trace is listed once it has arrived, some seconds later.
    host: String,
}

/// The traces of a host whose time touches a range, the oldest first: what its flight recorder wrote, and why.
#[utoipa::path(get, operation_id = "host_traces", path = "/api/v1/hosts/{host}/traces",
    params(("host" = String, Path, description = "Id, or a name that only one host has."), Span, Paging),
    responses((status = 200, body = api::StoredTraces), HostProblems))]
pub(super) async fn list(
    State(app): State<Shared>,
    Named(host): Named<String>,
    Asked(span): Asked<Span>,
    Asked(page): Asked<Paging>,
) -> Result<Json<api::StoredTraces>, Problem> {
    let (range, page) = (span.range(1)?.time(), page.rows(1000, MAX_TRACES)?);
    let traces =
        app.past.ask(move |past| past.traces(Some(past.find(&host)?.info.host), range, MAX_TRACES)).await?;
    let shown = page.of(&traces).map(api::StoredTrace::from).collect();
    Ok(Json(api::StoredTraces { total: traces.len(), traces: shown }))
}

/// Asks a host for a trace of the last seconds. It decides itself: it must run a flight recorder, and writes one in a minute at most.
#[utoipa::path(post, operation_id = "take_trace", path = "/api/v1/hosts/{host}/traces",
    params(("host" = String, Path, description = "Id, or a name that only one host has.")),
    responses((status = 202, body = TraceAsked, description = "The device writes one."),
        (status = 409, body = api::Problem, content_type = "application/problem+json", description = "It does not, and why; or a name of several hosts."),
        (status = 404, body = api::Problem, content_type = "application/problem+json", description = "No such host.")))]
pub(super) async fn take(
    State(app): State<Shared>,
    Named(host): Named<String>,
    peer: Option<Extension<Peer>>,
) -> Result<Response, Problem> {
    let host = app.live.find(&host)?;
    if let Some(audit) = &app.options.audit {
        let by = peer.map_or_else(String::new, |Extension(peer)| peer.0.ip().to_canonical().to_string());
        audit.note(AuditEvent::TraceAsked, &by, &host.to_string(), "");
    }
    // It waits for the device.
    let asked = tokio::task::spawn_blocking(move || app.live.take_trace(host)).await;
    let asked = asked.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    asked.map_err(|reason| {
        Problem::new(StatusCode::CONFLICT, format!("No trace: {reason}."))
            .how("The agent of an enrolled device, or this receiver for its own machine, must run with --flight-recorder.")
    })?;
    Ok((StatusCode::ACCEPTED, Json(TraceAsked { host: host.to_string() })).into_response())
}

/// The file of a trace, for `cpumon trace report` and `cpumon trace export`.
#[utoipa::path(get, operation_id = "trace_file", path = "/api/v1/traces/{id}/file",
    params(("id" = String, Path, description = "As the list of traces has it.")),
    responses((status = 200, body = String, content_type = "application/octet-stream"), HostProblems))]
pub(super) async fn file(
    State(app): State<Shared>,
    Named(id): Named<String>,
    lease: Option<Extension<Lease>>,
    peer: Option<Extension<Peer>>,
) -> Result<Response, Problem> {
    let unknown = || Problem::new(StatusCode::NOT_FOUND, "There is no such trace.");
    // A number: nothing of the request becomes part of a path.
    let number: i64 = id.parse().map_err(|_| unknown())?;
    let store = app.options.store.clone().ok_or_else(unknown)?;
    if let Some(audit) = &app.options.audit {
        let by = peer.map_or_else(String::new, |Extension(peer)| peer.0.ip().to_canonical().to_string());
        audit.note(AuditEvent::Exported, &by, "trace", &number.to_string());
    }
    let path = trace_file(&store, number);
    let opened = tokio::task::spawn_blocking(move || {
        let file = File::open(path)?;
        Ok::<_, std::io::Error>((file.metadata()?.len(), file))
    });
    let (bytes, file) = opened.await.ok().and_then(Result::ok).ok_or_else(unknown)?;
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    tokio::task::spawn_blocking(move || send(file, &sender));
    let body = unfold((receiver, lease), |(mut receiver, lease)| async move {
        if let Some(Extension(lease)) = &lease {
            // This runs when the client has taken the piece before.
            lease.renew();
        }
        let next: Result<Bytes, std::io::Error> = receiver.recv().await?;
        Some((next, (receiver, lease)))
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

fn send(mut file: File, to: &mpsc::Sender<Result<Bytes, std::io::Error>>) {
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = file.read(&mut piece).map(|count| {
            piece.truncate(count);
            Bytes::from(piece)
        });
        if read.as_ref().is_ok_and(Bytes::is_empty) {
            return;
        }
        let is_last = read.is_err();
        // An error here: the client went away.
        if to.blocking_send(read).is_err() || is_last {
            return;
        }
    }
}
