//! Event streams (Server-Sent Events, WHATWG HTML section 9.2). A reader is asked for its next message when the socket can take
//! one, so nothing is queued for a slow reader: it gets the newest snapshot later, with the count of those it missed.

mod encode;
mod host;

use std::collections::VecDeque;
use std::future::pending;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;

use crate::lease::Lease;

pub(crate) use encode::{Encoder, Threads, body_of, close, open};
pub(crate) use host::HostReader;

/// A comment line is sent this often when nothing else is: proxies keep the connection, and one that is gone is noticed.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);
/// A browser that lost its connection tries again after this time, ms.
const RETRY: &[u8] = b"retry: 1000\n\n";

/// Gives the next messages, waiting for them. `None`: the stream ends.
pub(crate) trait Messages: Send + 'static {
    fn next(&mut self) -> impl Future<Output = Option<VecDeque<Bytes>>> + Send;
}

/// Pieces of the message being sent, and where more come from.
struct Sending<M> {
    pieces: VecDeque<Bytes>,
    messages: M,
    /// Of its connection; `None`: there is none, in tests.
    lease: Option<Lease>,
}

/// Waits until a connection ends soon.
async fn is_ending(lease: Option<&Lease>) {
    match lease {
        Some(lease) => lease.is_ending().await,
        None => pending().await,
    }
}

/// A stream of messages as a response. It ends by itself before its connection does: browsers connect again.
pub(crate) fn respond<M: Messages>(messages: M, lease: Option<Lease>) -> Response {
    let first = Sending { pieces: VecDeque::from([Bytes::from_static(RETRY)]), messages, lease };
    let body = unfold(first, |mut sending| async move {
        loop {
            if let Some(piece) = sending.pieces.pop_front() {
                return Some((Ok::<_, std::convert::Infallible>(piece), sending));
            }
            tokio::select! {
                biased;
                () = is_ending(sending.lease.as_ref()) => return None,
                pieces = sending.messages.next() => sending.pieces = pieces?,
            }
        }
    });
    let mut response = Body::from_stream(body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // nginx and others would hold messages back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A comment line, which browsers ignore.
pub(crate) fn heartbeat() -> VecDeque<Bytes> {
    VecDeque::from([Bytes::from_static(b":\n\n")])
}

/// Start of a message. `epoch` and `number` make the id with which a browser comes back.
pub(crate) fn head(event: &str, epoch: i64, number: u64) -> Bytes {
    format!("event: {event}\nid: {epoch}-{number}\ndata: ").into()
}

/// The number in the id of the last message that a browser got, if this receiver sent it.
pub(crate) fn number_of(id: &str, epoch: i64) -> Option<u64> {
    let (of, number) = id.rsplit_once('-')?;
    // Numbers begin again when the receiver starts, so an id of another start means nothing.
    (of.parse::<i64>().ok()? == epoch).then(|| number.parse().ok())?
}
