//! Event streams (Server-Sent Events, WHATWG HTML section 9.2). A reader is asked for its next message when the socket can take
//! one, so nothing is queued for a slow reader: it gets the newest snapshot later, with the count of those it missed.
//!
//! [`StreamEncoder`] encodes an interval once for all its readers: the processes, and a table of threads for each process. Ten
//! pages on one host cost one encoding, whichever processes they have open.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use cpumon_model::{HostId, HostStatus, IntervalView, ProcessKey};
use cpumon_query::time::Page;
use cpumon_query::{Live, Shown};
use futures_util::stream::unfold;
use serde::Serialize;

use crate::api::{SnapshotBase, thread_table};
use crate::readers::Lease;

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
    /// Lease of its connection; `None` in tests.
    lease: Option<Lease>,
}

/// Returns shortly before the connection ends; never without a lease.
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
                return Some((Ok::<_, Infallible>(piece), sending));
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

/// Process rows in a message; more are counted in `total`.
pub(crate) const MAX_PROCESSES: usize = 5_000;
/// Thread rows in a table; more are counted in `total`.
pub(crate) const MAX_THREADS: usize = 20_000;
/// Most hosts whose newest interval stays encoded.
const MAX_KEPT: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// Those of these processes; none is common.
    Of(Vec<ProcessKey>),
    /// All, in one table.
    All,
}

/// An interval, and its parts that were encoded for a reader.
pub(crate) struct Encoded {
    shown: Shown,
    host: HostStatus,
    base: OnceLock<Bytes>,
    all_threads: OnceLock<Bytes>,
    threads: Mutex<HashMap<ProcessKey, Bytes>>,
}

/// The newest interval of each host, encoded.
#[derive(Default)]
pub(crate) struct StreamEncoder {
    kept: Mutex<Vec<(HostId, Arc<Encoded>)>>,
}

/// JSON. The types have text keys and finite numbers only, so nothing can fail; if it did, the reader would get `null`.
pub(crate) fn body_of(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).map_or_else(|_| Bytes::from_static(b"null"), Bytes::from)
}

/// An object without its closing brace, so that more members can follow.
pub(crate) fn open(object: &Bytes) -> Bytes {
    object.slice(..object.len().saturating_sub(1))
}

/// Closes the object of a message; an empty line ends the event.
pub(crate) fn close() -> Bytes {
    Bytes::from_static(b"}\n\n")
}

impl StreamEncoder {
    /// The encoding of an interval, shared by all readers of the same one.
    pub(crate) fn of(&self, host: &HostStatus, shown: &Shown) -> Arc<Encoded> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let id = host.info.host;
        if let Some((_, encoded)) = kept.iter().find(|(of, at)| *of == id && at.shown.serial == shown.serial)
        {
            return Arc::clone(encoded);
        }
        // Nothing is encoded while this lock is held: readers of other hosts would wait for it.
        let encoded = Arc::new(Encoded {
            shown: shown.clone(),
            host: host.clone(),
            base: OnceLock::new(),
            all_threads: OnceLock::new(),
            threads: Mutex::default(),
        });
        // A reader that catches up does not push out intervals that the others share.
        let is_older = kept.iter().any(|(of, at)| *of == id && at.shown.serial > shown.serial);
        if !is_older {
            kept.retain(|(of, _)| *of != id);
            // The host that was encoded longest ago is at the end.
            kept.truncate(MAX_KEPT - 1);
            kept.insert(0, (id, Arc::clone(&encoded)));
        }
        encoded
    }
}

impl Encoded {
    /// The interval with its processes, idle ones too, as an open object.
    pub(crate) fn base(&self, live: &dyn Live) -> Bytes {
        let base = self.base.get_or_init(|| {
            let shown = live.with_idle(self.host.info.host, &self.shown);
            let base = SnapshotBase::new(
                &self.host,
                shown.number,
                &shown.interval,
                Page { offset: 0, limit: MAX_PROCESSES },
            );
            open(&body_of(&base))
        });
        base.clone()
    }

    /// Encoded tables of threads: one for each wanted process, or one of all.
    pub(crate) fn threads(&self, wanted: &Threads) -> Vec<Bytes> {
        let view = IntervalView::new(&self.host.info.hostname, &self.shown.interval);
        let rows = Page { offset: 0, limit: MAX_THREADS };
        let keys = match wanted {
            Threads::All => {
                let all = || body_of(&thread_table(&view, rows, |_| true));
                return vec![self.all_threads.get_or_init(all).clone()];
            }
            Threads::Of(keys) => keys,
        };
        // Held while a table is made, so that two readers do not both make it.
        let mut made = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let table = |key: &ProcessKey| {
            let make = || body_of(&thread_table(&view, rows, |row| row.process == *key));
            made.entry(*key).or_insert_with(make).clone()
        };
        keys.iter().map(table).collect()
    }
}
