//! [`PastQueries`]: questions about the past, each on a thread of its own. Reading a file blocks, so only a few threads read at
//! once; further questions wait. A question whose client went away is not read on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use cpumon_query::history::History;
use cpumon_query::{Live, QueryError, ReaderPool};
use tokio::time::timeout;

use crate::problem::Problem;

/// A question waits no longer than this for its turn.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Where questions about the past are answered.
pub(crate) struct PastQueries {
    live: Arc<dyn Live>,
    pool: Arc<ReaderPool>,
}

/// Cancels the reading thread when the client goes away.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl PastQueries {
    pub(crate) fn new(live: Arc<dyn Live>, pool: ReaderPool) -> Self {
        Self { live, pool: Arc::new(pool) }
    }

    /// Lets `work` read the past on a thread of its own.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&History) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = || {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Too many questions about the past at once.")
                .how("Ask again in a moment, or for shorter ranges.")
        };
        let turn = timeout(MAX_WAIT, self.pool.turns().acquire()).await.map_err(|_| busy())?;
        // Named, not `_`: the turn is held until the answer is complete.
        let _turn = turn.map_err(|_| busy())?;
        let cancelled = Arc::new(AtomicBool::new(false));
        // This future is dropped when the client goes away; the thread then stops at its next check.
        let _cancel = Cancel(Arc::clone(&cancelled));
        let (live, pool) = (Arc::clone(&self.live), Arc::clone(&self.pool));
        let done = tokio::task::spawn_blocking(move || work(&History::of_receiver(live, pool, cancelled)?));
        let done = done.await;
        let done =
            done.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        done.map_err(Problem::from)
    }
}
