//! Ends the event streams of a login that is no longer valid: an open one would outlive a log-out.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use futures_util::StreamExt;
use futures_util::future::ready;

use super::gate::{Gate, Pass};

/// Asks before each piece; a heartbeat is one too.
pub(super) fn while_it_counts(response: Response, gate: Arc<Gate>, pass: Pass) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    // Other answers are finite: the check before them is enough.
    if kind.is_none_or(|kind| kind != "text/event-stream") {
        return response;
    }
    response.map(|body| {
        let counts = move |_: &_| ready(gate.still_counts(&pass));
        Body::from_stream(body.into_data_stream().take_while(counts))
    })
}
