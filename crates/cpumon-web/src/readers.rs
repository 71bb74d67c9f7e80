//! How long readers may take. [`Lease`]: how long a connection may last, and the times that requests have. [`Exports`]: a few exports run at a
//! time, each as fast as its reader takes it; a reader that takes too little loses its turn when another one asks for it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

/// A request's header, and a login, must arrive within this time; an idle connection is closed after it.
pub(crate) const HEADER_TIME: Duration = Duration::from_secs(15);
/// A connection takes requests for this time.
pub(crate) const CONNECTION_TIME: Duration = Duration::from_mins(5);
/// An answer in progress then has this much more; a file, this much more after each piece that its client takes. A client that
/// stopped reading frees its place.
pub(crate) const LAST_ANSWER: Duration = Duration::from_mins(1);

/// An event stream ends this long before its connection does.
const LAST_WORDS: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct Lease(Arc<Mutex<Instant>>);

impl Lease {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now() + CONNECTION_TIME + LAST_ANSWER)))
    }

    /// The reader took a piece of a long answer: more may follow.
    pub(crate) fn renew(&self) {
        let mut end = lock(&self.0);
        *end = (*end).max(Instant::now() + LAST_ANSWER);
    }

    /// Until an event stream should end by itself: a browser reports one that is cut off as an error.
    pub(crate) async fn is_ending(&self) {
        let end = *lock(&self.0);
        sleep_until(end.checked_sub(LAST_WORDS).unwrap_or(end)).await;
    }

    pub(crate) async fn is_over(&self) {
        loop {
            let end = *lock(&self.0);
            if end <= Instant::now() {
                return;
            }
            // `renew` may move the end meanwhile, so the loop checks it again.
            sleep_until(end).await;
        }
    }
}

/// Exports running at once.
const MAX_AT_ONCE: usize = 2;
/// A reader may take nothing for this long in total: time that it saved by taking pieces faster counts.
const PATIENCE: Duration = Duration::from_secs(30);
/// A reader that takes a piece of 64 kB in each such time keeps its turn.
const PIECE_TIME: Duration = Duration::from_secs(5);
/// An export that loses its turn has ended within this time: it only has to notice.
const END_TIME: Duration = Duration::from_secs(2);

pub(crate) struct Exports {
    turns: Arc<Semaphore>,
    running: Mutex<Vec<Weak<ReaderProgress>>>,
    patience: Duration,
}

/// How fast the reader of an export takes it.
pub(crate) struct ReaderProgress {
    credit: Mutex<Credit>,
    patience: Duration,
    is_ended: Notify,
}

/// Time for which the reader may still take nothing.
struct Credit {
    left: Duration,
    /// Since when a piece waits for the reader; `None`: the reader waits for the next piece.
    waits_since: Option<Instant>,
    /// Whether another export took the turn.
    is_lost: bool,
}

pub(crate) struct Turn {
    progress: Arc<ReaderProgress>,
    /// Dropping it frees the turn.
    _permit: OwnedSemaphorePermit,
}

impl Default for Exports {
    fn default() -> Self {
        Self::new(PATIENCE)
    }
}

impl Exports {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { turns: Arc::new(Semaphore::new(MAX_AT_ONCE)), running: Mutex::default(), patience }
    }

    /// Takes a turn, where need be that of a slow reader. `None`: all others are at work.
    pub(crate) async fn begin(&self) -> Option<Turn> {
        let permit = match Arc::clone(&self.turns).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) if self.end_slowest() => {
                timeout(END_TIME, Arc::clone(&self.turns).acquire_owned()).await.ok()?.ok()?
            }
            Err(_) => return None,
        };
        let credit = Credit { left: self.patience, waits_since: None, is_lost: false };
        let progress = Arc::new(ReaderProgress {
            credit: Mutex::new(credit),
            patience: self.patience,
            is_ended: Notify::new(),
        });
        let mut running = lock(&self.running);
        running.retain(|one| one.strong_count() > 0);
        running.push(Arc::downgrade(&progress));
        Some(Turn { progress, _permit: permit })
    }

    /// Ends the export whose reader has taken too little for longest. False: all take enough.
    fn end_slowest(&self) -> bool {
        let running = lock(&self.running);
        let slow = running.iter().filter_map(|one| {
            let one = one.upgrade()?;
            let overdue = one.overdue()?;
            Some((overdue, one))
        });
        slow.max_by_key(|(overdue, _)| *overdue).is_some_and(|(_, slowest)| slowest.lose())
    }
}

impl Credit {
    fn overdue(&self) -> Option<Duration> {
        if self.is_lost {
            return None;
        }
        self.waits_since?.elapsed().checked_sub(self.left)
    }
}

impl ReaderProgress {
    /// Whether the turn was lost, so that its reader does not have the whole file.
    pub(crate) fn is_lost(&self) -> bool {
        lock(&self.credit).is_lost
    }

    /// For how long the reader has had no patience left; `None`: it has some.
    fn overdue(&self) -> Option<Duration> {
        lock(&self.credit).overdue()
    }

    /// Ends the export. False: its reader has taken a piece meanwhile.
    fn lose(&self) -> bool {
        let mut credit = lock(&self.credit);
        credit.is_lost |= credit.overdue().is_some();
        if credit.is_lost {
            // Kept for the thread, should it not wait at this moment.
            self.is_ended.notify_one();
        }
        credit.is_lost
    }

    fn begin_wait(&self) {
        lock(&self.credit).waits_since = Some(Instant::now());
    }

    fn end_wait(&self) {
        let mut credit = lock(&self.credit);
        let waited = credit.waits_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        credit.left = (credit.left + PIECE_TIME).saturating_sub(waited).min(self.patience);
    }
}

impl Turn {
    pub(crate) fn progress(&self) -> &Arc<ReaderProgress> {
        &self.progress
    }

    /// Hands a piece to the reader, and waits until there is space for it. On a thread that may block.
    pub(crate) fn send<T>(&self, runtime: &Handle, to: &mpsc::Sender<T>, piece: T) -> io::Result<()> {
        if self.progress.is_lost() {
            // No error either: there is no space for it, and no reader that would take it.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.progress.begin_wait();
        let sent = runtime.block_on(async {
            tokio::select! {
                // A piece that has space is sent.
                biased;
                sent = to.send(piece) => sent.is_ok(),
                () = self.progress.is_ended.notified() => false,
            }
        });
        self.progress.end_wait();
        // The receiving end is dropped when the client goes away: the export then ends as at a closed pipe.
        if sent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn wait(progress: &ReaderProgress, secs: u64) -> impl Future<Output = ()> {
        progress.begin_wait();
        advance(Duration::from_secs(secs))
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_loses_its_turn_to_one_that_asks() {
        let exports = Exports::default();
        let (slow, steady) = (exports.begin().await.unwrap(), exports.begin().await.unwrap());
        assert!(exports.begin().await.is_none(), "both only began");
        wait(slow.progress(), 20).await;
        steady.progress().begin_wait();
        advance(Duration::from_secs(9)).await;
        assert!(exports.begin().await.is_none(), "29 s");
        advance(Duration::from_secs(2)).await;
        let lost = Arc::clone(slow.progress());
        // Its thread notices, and the turn is free.
        let thread = async {
            lost.is_ended.notified().await;
            drop(slow);
        };
        let (next, ()) = tokio::join!(exports.begin(), thread);
        assert!(next.is_some() && lost.is_lost() && !steady.progress().is_lost());
        assert!(exports.begin().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_is_too_little_and_a_slow_link_is_enough() {
        for (secs, is_enough) in [(4, true), (9, false)] {
            let exports = Exports::default();
            let turns = [exports.begin().await.unwrap(), exports.begin().await.unwrap()];
            let mut is_lost = false;
            for _ in 0..20 {
                wait(turns[0].progress(), secs).await;
                is_lost |= turns[0].progress().overdue().is_some();
                turns[0].progress().end_wait();
                // The export itself may be slow: the reader is not to blame.
                advance(Duration::from_secs(100)).await;
                assert_eq!(turns[0].progress().overdue(), None);
            }
            assert_eq!(is_lost, !is_enough, "a piece each {secs} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_a_piece_in_the_last_moment_keeps_its_turn() {
        let exports = Exports::default();
        let turn = exports.begin().await.unwrap();
        let reader = turn.progress();
        wait(reader, 31).await;
        assert!(reader.overdue().is_some(), "found to be slow");
        reader.end_wait();
        assert!(!reader.lose() && !reader.is_lost());
        wait(reader, 31).await;
        assert!(reader.lose() && reader.is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn a_piece_that_has_space_is_sent_also_when_the_turn_ends() {
        let exports = Exports::default();
        for _ in 0..100 {
            let turn = exports.begin().await.unwrap();
            let (to, _pieces) = mpsc::channel(1);
            turn.progress().is_ended.notify_one();
            let runtime = Handle::current();
            let sent = tokio::task::spawn_blocking(move || turn.send(&runtime, &to, 1).is_ok());
            assert!(sent.await.unwrap());
        }
    }
}
