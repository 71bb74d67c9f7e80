//! [`TraceQueries`]: questions about traces, each on a thread of its own. The first one about a trace reads its file.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use cpumon_query::traces::Timelines;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::problem::Problem;

/// Questions about traces at once: each may read a file.
const MAX_AT_ONCE: usize = 4;
/// A question waits no longer than this for its turn.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Timelines, and turns to ask them.
pub(crate) struct TraceQueries {
    timelines: Arc<Timelines>,
    turns: Semaphore,
}

impl TraceQueries {
    pub(crate) fn new(timelines: Arc<Timelines>) -> Self {
        Self { timelines, turns: Semaphore::new(MAX_AT_ONCE) }
    }

    pub(crate) fn timelines(&self) -> Arc<Timelines> {
        Arc::clone(&self.timelines)
    }

    /// Lets `work` read timelines on a thread of its own.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Timelines) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = || {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Too many questions about traces at once.")
                .how("Ask again in a moment.")
        };
        let turn = timeout(MAX_WAIT, self.turns.acquire()).await.map_err(|_| busy())?;
        // Named, not `_`: the turn is held until the answer is complete.
        let _turn = turn.map_err(|_| busy())?;
        let timelines = self.timelines();
        let answer = tokio::task::spawn_blocking(move || work(&timelines)).await;
        answer.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?
    }
}
