//! [`Lease`]: how long a connection may last, and the times that requests have.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// A request's header, and a login, must arrive within this time; an idle connection is closed after it.
pub(crate) const HEADER_TIME: Duration = Duration::from_secs(15);
/// A connection takes requests for this time.
pub(crate) const CONNECTION_TIME: Duration = Duration::from_mins(5);
/// An answer in progress then has this much more; a file, this much more after each piece that its client takes. A client that
/// stopped reading frees its place.
pub(crate) const LAST_ANSWER: Duration = Duration::from_mins(1);

/// An event stream ends this long before its connection does.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How long a connection may last.
#[derive(Clone, Debug)]
pub(crate) struct Lease(Arc<Mutex<Instant>>);

impl Lease {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now() + CONNECTION_TIME + LAST_ANSWER)))
    }

    fn end(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece of a long answer was taken: more of it may come.
    pub(crate) fn renew(&self) {
        let mut end = self.end();
        *end = (*end).max(Instant::now() + LAST_ANSWER);
    }

    /// Until an event stream should end by itself: a browser reports one that is cut off as an error.
    pub(crate) async fn is_ending(&self) {
        let end = *self.end();
        sleep_until(end.checked_sub(LAST_WORDS).unwrap_or(end)).await;
    }

    pub(crate) async fn is_over(&self) {
        loop {
            let end = *self.end();
            if end <= Instant::now() {
                return;
            }
            // `renew` may move the end meanwhile, so the loop checks it again.
            sleep_until(end).await;
        }
    }
}
