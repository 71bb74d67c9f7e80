//! [`PastQueries`]: questions about the past, each on a thread of its own. Reading a file blocks, so only a few threads read at
//! once; further questions wait. A question whose client went away is not read on; it has its
//! turn until its thread has ended.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use cpumon_query::history::History;
use cpumon_query::{DamageReport, Live, QueryError, ReaderPool};
use tokio::time::timeout;

use crate::cancel::Cancel;
use crate::problem::Problem;

/// A question waits no longer than this for its turn.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Where questions about the past are answered.
pub(crate) struct PastQueries {
    live: Arc<dyn Live>,
    pool: Arc<ReaderPool>,
}

impl PastQueries {
    pub(crate) fn new(live: Arc<dyn Live>, pool: ReaderPool) -> Self {
        Self { live, pool: Arc::new(pool) }
    }

    /// What answers lacked because it cannot be read.
    pub(crate) fn damage(&self) -> DamageReport {
        self.pool.damage()
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
        let turns = Arc::clone(self.pool.turns());
        let turn = timeout(MAX_WAIT, turns.acquire_owned()).await.map_err(|_| busy())?;
        let turn = turn.map_err(|_| busy())?;
        // Named, not `_`: it is dropped with this future. The thread then stops at its next check.
        let (_cancel, cancelled) = Cancel::new();
        let (live, pool) = (Arc::clone(&self.live), Arc::clone(&self.pool));
        let done = tokio::task::spawn_blocking(move || {
            let done = History::of_receiver(live, pool, cancelled).and_then(|history| work(&history));
            // Moved into this thread: the turn ends with the work, not with the request.
            drop(turn);
            done
        });
        let done = done.await;
        let done =
            done.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        done.map_err(Problem::from)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::routes::fake;

    #[tokio::test]
    async fn a_question_has_its_turn_until_its_thread_has_ended() {
        let past = Arc::new(PastQueries::new(fake(), ReaderPool::new(None)));
        let free = past.pool.turns().available_permits();
        let (begun, is_released) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let asking = tokio::spawn({
            let (past, begun, is_released) =
                (Arc::clone(&past), Arc::clone(&begun), Arc::clone(&is_released));
            let work = move |_: &History| {
                begun.store(true, Ordering::Relaxed);
                while !is_released.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            };
            async move { past.ask(work).await }
        });
        let pause = || tokio::time::sleep(Duration::from_millis(5));
        while !begun.load(Ordering::Relaxed) {
            pause().await;
        }
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        assert_eq!(past.pool.turns().available_permits(), free - 1);
        is_released.store(true, Ordering::Relaxed);
        while past.pool.turns().available_permits() < free {
            pause().await;
        }
    }
}
