//! Questions that block, each on a thread of its own: [`PastQueries`] about the past, [`TraceQueries`] about traces. Reading a file blocks,
//! so only a few threads read at once; further questions wait. A question whose client went away is not read on; it has its turn until its
//! thread has ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use cpumon_query::history::History;
use cpumon_query::traces::Timelines;
use cpumon_query::{DamageReport, Live, QueryError, ReaderPool};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::problem::Problem;

/// Questions about traces at once: each may read a file.
const MAX_AT_ONCE: usize = 4;
/// A question waits no longer than this for its turn.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Belongs to the future of a request, which is dropped when its client goes away. Then the flag is set.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Lets `work` block on a thread of its own, once one of `turns` is free; a caller that waits too long gets `busy`. The
/// flag is set when the client goes away.
pub(crate) async fn in_turn<T: Send + 'static>(
    turns: &Arc<Semaphore>,
    max_wait: Duration,
    busy: Problem,
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> Result<T, Problem> {
    let Ok(Ok(turn)) = timeout(max_wait, Arc::clone(turns).acquire_owned()).await else { return Err(busy) };
    // It is dropped with this future. The thread then stops at its next check.
    let cancel = Cancel(Arc::default());
    let cancelled = Arc::clone(&cancel.0);
    let done = tokio::task::spawn_blocking(move || {
        let done = work(cancelled);
        // Moved into this thread: the turn ends with the work, not with the request.
        drop(turn);
        done
    });
    done.await.map_err(|error| Problem::fault(&error))
}

pub(crate) struct PastQueries {
    live: Arc<dyn Live>,
    pool: Arc<ReaderPool>,
}

impl PastQueries {
    pub(crate) fn new(live: Arc<dyn Live>, pool: ReaderPool) -> Self {
        Self { live, pool: Arc::new(pool) }
    }

    /// Adds unreadable parts that an answer of another reader lacked.
    pub(crate) fn add_damage(&self, damage: DamageReport) {
        self.pool.add_damage(damage);
    }

    /// Unreadable parts that answers lacked.
    pub(crate) fn damage(&self) -> DamageReport {
        self.pool.damage()
    }

    /// Lets `work` read the past on a thread of its own.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&History) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy =
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Too many questions about the past at once.")
                .how("Ask again in a moment, or for shorter ranges.");
        let (live, pool) = (Arc::clone(&self.live), Arc::clone(&self.pool));
        let read =
            move |cancelled| History::of_receiver(live, pool, cancelled).and_then(|history| work(&history));
        in_turn(&self.pool.turns, MAX_WAIT, busy, read).await?.map_err(Problem::from)
    }
}

pub(crate) struct TraceQueries {
    idle: Arc<Idle>,
    turns: Arc<Semaphore>,
}

impl TraceQueries {
    pub(crate) fn new(timelines: Arc<Timelines>) -> Self {
        let idle = Arc::new(Idle { timelines, is_timed: Mutex::new(false) });
        Self { idle, turns: Arc::new(Semaphore::new(MAX_AT_ONCE)) }
    }

    /// Lets `work` read timelines on a thread of its own, until the flag is set.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Timelines, &Arc<AtomicBool>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Too many questions about traces at once.")
            .how("Ask again in a moment.");
        let (idle, runtime) = (Arc::clone(&self.idle), Handle::current());
        let read = move |cancelled| {
            let answer = work(&idle.timelines, &cancelled);
            idle.start(&runtime);
            answer
        };
        in_turn(&self.turns, MAX_WAIT, busy, read).await?
    }
}

/// Gives up timelines that no one asks for. The timer runs only while there are any.
struct Idle {
    timelines: Arc<Timelines>,
    is_timed: Mutex<bool>,
}

impl Idle {
    /// Starts the timer, unless it runs.
    fn start(self: &Arc<Self>, runtime: &Handle) {
        let mut is_timed = self.is_timed.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *is_timed, true) {
            runtime.spawn(Arc::clone(self).run());
        }
    }

    async fn run(self: Arc<Self>) {
        loop {
            let idle = Arc::clone(&self);
            // On another thread: to free a large timeline takes a while.
            let checked = tokio::task::spawn_blocking(move || idle.check());
            let Ok(Some(left)) = checked.await else { return };
            sleep(left).await;
        }
    }

    fn check(&self) -> Option<Duration> {
        // Held meanwhile, so that a timeline that is added after this check finds that the timer has ended.
        let mut is_timed = self.is_timed.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.timelines.give_up_idle(Instant::now().into_std());
        *is_timed = left.is_some();
        left
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::AtomicUsize;

    use cpumon_query::traces::{TIMELINE_BYTES, TraceInput, Traces};
    use cpumon_trace::{Compression, FileHeader, TraceWriter};

    use super::*;
    use crate::routes::fake;

    #[tokio::test]
    async fn a_question_has_its_turn_until_its_thread_has_ended() {
        let past = Arc::new(PastQueries::new(fake(), ReaderPool::new(None)));
        let free = past.pool.turns.available_permits();
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
        let pause = || sleep(Duration::from_millis(5));
        while !begun.load(Ordering::Relaxed) {
            pause().await;
        }
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        assert_eq!(past.pool.turns.available_permits(), free - 1);
        is_released.store(true, Ordering::Relaxed);
        while past.pool.turns.available_permits() < free {
            pause().await;
        }
    }

    /// An empty trace that counts how often it is opened.
    #[derive(Debug, Default)]
    struct Counted(AtomicUsize);

    impl Traces for Counted {
        fn open(&self, _: &str) -> io::Result<Option<TraceInput>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let file = tempfile::NamedTempFile::new()?;
            let (header, to) = (FileHeader { cpus: 1, ..FileHeader::default() }, file.reopen()?);
            let writer = TraceWriter::new(to, &header, Compression::None).unwrap();
            writer.finish(1_000, 0).unwrap();
            Ok(Some(file.reopen()?.into()))
        }
    }

    fn queries() -> (Arc<Counted>, TraceQueries) {
        let traces = Arc::new(Counted::default());
        let timelines = Timelines::new(Arc::<Counted>::clone(&traces), TIMELINE_BYTES);
        (traces, TraceQueries::new(Arc::new(timelines)))
    }

    #[tokio::test]
    async fn a_question_whose_client_went_away_is_cancelled_and_has_its_turn_until_it_ends() {
        let (_, queries) = queries();
        let queries = Arc::new(queries);
        let (seen, is_released) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let asking: Vec<_> = (0..2 * MAX_AT_ONCE)
            .map(|_| {
                let (queries, seen, is_released) =
                    (Arc::clone(&queries), Arc::clone(&seen), Arc::clone(&is_released));
                let wait_for = |flag: &AtomicBool| {
                    while !flag.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                };
                let work = move |_: &Timelines, cancelled: &Arc<AtomicBool>| {
                    wait_for(cancelled);
                    seen.fetch_add(1, Ordering::Relaxed);
                    wait_for(&is_released);
                    Ok(())
                };
                tokio::spawn(async move { queries.ask(work).await })
            })
            .collect();
        let pause = || sleep(Duration::from_millis(5));
        while queries.turns.available_permits() > 0 {
            pause().await;
        }
        asking.iter().for_each(tokio::task::JoinHandle::abort);
        while seen.load(Ordering::Relaxed) < MAX_AT_ONCE {
            pause().await;
        }
        assert_eq!(queries.turns.available_permits(), 0, "threads are still at work");
        is_released.store(true, Ordering::Relaxed);
        while queries.turns.available_permits() < MAX_AT_ONCE {
            pause().await;
        }
        assert_eq!(seen.load(Ordering::Relaxed), MAX_AT_ONCE, "who still waited for a turn never began");
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeline_that_no_one_asks_for_is_given_up_in_time() {
        let (traces, queries) = queries();
        let ask = || queries.ask(|timelines, cancelled| Ok(timelines.get("any", 0, cancelled).is_ok()));
        for (pause_s, opened) in [(0, 1), (200, 1), (200, 2), (400, 3)] {
            sleep(Duration::from_secs(pause_s)).await;
            assert!(ask().await.unwrap());
            assert_eq!(traces.0.load(Ordering::Relaxed), opened, "after {pause_s} s");
        }
        sleep(Duration::from_secs(400)).await;
        assert!(!*queries.idle.is_timed.lock().unwrap(), "no timer without timelines");
    }
}
