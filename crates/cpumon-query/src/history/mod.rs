//! Questions about a range of time: series, lines, matrices and sums, of as many points as fit the picture.
//!
//! [`History`] is the past of a receiver. It reads the store if there is one, else the intervals in memory, and answers the same
//! questions for both. A caller that went away is not read for. Reading blocks, so [`ReaderPool`] has turns for it, and keeps readers open.

mod answers;
pub(crate) mod buckets;
mod lines;
mod matrix;
mod plot;
mod series;
mod sum;
mod task_line;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::vec;

use cpumon_model::{HostId, HostStatus, ProcessKey};
use cpumon_store::{
    DamageReport, Gap, GapFinder, HostRecord, InfoAndParent, Query, Reader, Resolution, Segment,
    SegmentReader, StoreError, What,
};
use tokio::sync::Semaphore;

use crate::spans::{Finest, Plan};
use crate::time::{Available, PlotRange, TimeRange};
use crate::{Live, QueryError, Shown};
pub use answers::{
    BucketTimes, HostSeries, Kept, LineKind, Lines, Matrix, MatrixRow, RangeSum, SeriesColumn, TaskLine,
    Values, WaitLine, shown_columns, summable,
};
pub use lines::{lines, process};
pub use matrix::{MatrixSort, ShownRows, landscape, threads};
pub(crate) use plot::AFTER_LAST;
pub use series::{SeriesOptions, series};
pub use sum::{CpuSum, Cpus, IntervalSum, NamedProcess, add_process, by_name, cpus, sum};
pub use task_line::{Selection, parse_thread_selection};

const MAX_GAPS: usize = 1000;

/// Shortest part of a range that is read in parts: below it, another thread costs as much as it saves.
const SHORTEST_PART_NS: i64 = 120_000_000_000;

/// CPUs that this process may use. Asked once: the answer takes system calls.
static CPUS: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));

/// The past of one receiver, or of a store alone.
pub struct History {
    reader: Option<Reader>,
    live: Option<Arc<dyn Live>>,
    pool: Arc<ReaderPool>,
    cancelled: Arc<AtomicBool>,
    /// In how many parts ranges are read; `None`: as many as pay.
    parts: Option<usize>,
}

impl History {
    /// Opens the history of a store.
    pub fn of_store(path: &Path) -> Result<Self, QueryError> {
        let pool = Arc::new(ReaderPool::new(Some(path.to_owned())));
        Ok(Self { reader: pool.take()?, live: None, pool, cancelled: Arc::default(), parts: None })
    }

    /// The past of a receiver. Reading ends early once `cancelled` is set.
    pub fn of_receiver(
        live: Arc<dyn Live>,
        pool: Arc<ReaderPool>,
        cancelled: Arc<AtomicBool>,
    ) -> Result<Self, QueryError> {
        Ok(Self { reader: pool.take()?, live: Some(live), pool, cancelled, parts: None })
    }

    /// Reads ranges in `parts` parts at the same time, instead of as many as pay.
    #[must_use]
    pub fn with_parts(mut self, parts: usize) -> Self {
        self.parts = Some(parts);
        self
    }

    /// Whether the client that asked went away.
    pub fn is_cancelled(&self) -> bool {
        // The flag guards no other data and one interval more does no harm, so relaxed is enough.
        self.cancelled.load(Ordering::Relaxed)
    }

    fn recent(&self, host: HostId, since_ns: i64) -> Vec<Shown> {
        self.live.as_ref().map_or_else(Vec::new, |live| live.recent(host, since_ns))
    }

    /// The host of this name or id: one that reports, or one that the store holds.
    pub fn host(&self, text: &str) -> Result<HostStatus, QueryError> {
        let live = self.live.as_ref().map(|live| (live, live.find(text)));
        match (live, &self.reader) {
            (Some((live, Ok(id))), _) => Ok(live.host(id).unwrap_or_default()),
            // The host may have reported only before this receiver started.
            (None | Some((_, Err(QueryError::UnknownHost))), Some(reader)) => {
                Ok(reader.find_host(text)?.status())
            }
            (Some((_, Err(error))), _) => Err(error),
            (None, None) => Err(QueryError::UnknownHost),
        }
    }

    /// Every host of the store, by name.
    pub fn stored(&self) -> Result<Vec<HostRecord>, QueryError> {
        self.ask(Reader::hosts)
    }

    /// Every host of the store; without a store, those that reported.
    pub(crate) fn all(&self) -> Result<Vec<HostStatus>, QueryError> {
        match (&self.reader, &self.live) {
            (None, Some(live)) => Ok(live.hosts()),
            _ => Ok(self.stored()?.into_iter().map(HostRecord::status).collect()),
        }
    }

    /// Whether anything of a range can be there: intervals or sums begin before its end, and end after its start.
    pub(crate) fn reaches(&self, host: HostId, range: TimeRange) -> Result<bool, QueryError> {
        if let Some(reach) = self.ask_reader(|reader| reader.reach(host))? {
            return Ok(reach.is_some_and(|reach| {
                range.since_ns.max(reach.oldest_ns.saturating_sub(1)) < range.until_ns.min(reach.last_ns)
            }));
        }
        let recent = self.recent(host, range.since_ns);
        Ok(recent.iter().any(|shown| shown.interval.begin.wall_ns < range.until_ns))
    }

    /// Whether something that is in memory and begins before `until_ns` is still on its way into the store.
    pub(crate) fn is_awaited(&self, host: HostId, until_ns: i64) -> Result<bool, QueryError> {
        let Some(ends) = self.ask_reader(|reader| reader.time_range(host))? else { return Ok(false) };
        let last_ns = ends.map_or(i64::MIN, |(_, last_ns)| last_ns);
        Ok(self.recent(host, last_ns).iter().any(|shown| shown.interval.begin.wall_ns < until_ns))
    }

    fn ask_reader<T>(
        &self,
        ask: impl FnOnce(&Reader) -> Result<T, StoreError>,
    ) -> Result<Option<T>, QueryError> {
        Ok(self.reader.as_ref().map(ask).transpose()?)
    }

    /// Asks the store; without one there is nothing.
    pub(crate) fn ask<T: Default>(
        &self,
        ask: impl FnOnce(&Reader) -> Result<T, StoreError>,
    ) -> Result<T, QueryError> {
        self.ask_reader(ask).map(Option::unwrap_or_default)
    }

    /// The first and the last interval that are stored of a host, or in memory.
    pub fn available(&self, host: HostId) -> Result<Option<Available>, QueryError> {
        let ends = if let Some(ends) = self.ask_reader(|reader| reader.time_range(host))? {
            ends
        } else {
            let recent = self.recent(host, i64::MIN);
            let end = |shown: &Shown| shown.interval.end.wall_ns;
            recent.first().map(end).zip(recent.last().map(end))
        };
        Ok(ends.map(|(first_ns, last_ns)| Available { first_ns, last_ns }))
    }

    /// How to walk a range; without a store or without data, over intervals.
    pub(crate) fn plan(&self, host: HostId, range: PlotRange) -> Result<Plan, QueryError> {
        let PlotRange { since_ns, until_ns, points } = range;
        let plan = self.ask(|reader| reader.reach(host))?.map(|reach| Plan::of(&reach, range));
        if let Some(plan) = plan.filter(|plan| plan.resolution.is_some()) {
            return Ok(plan);
        }
        let length_ns = until_ns.saturating_sub(since_ns);
        let points = i64::try_from(points).unwrap_or(i64::MAX).max(1);
        let width_ns = (length_ns.saturating_add(points - 1) / points).max(1);
        // Intervals are split by time, so points may have any width; with sums, a width must be a multiple of their length.
        let (since_ns, until_ns) = plan.map_or((since_ns, until_ns), |plan| (plan.since_ns, plan.until_ns));
        self.over_intervals(host, Plan { since_ns, until_ns, resolution: None, width_ns }, range)
    }

    /// The same walk over intervals instead of sums, up to the end of the interval that the range ends in. Values split by time count with
    /// the part within the range.
    pub(crate) fn over_intervals(
        &self,
        host: HostId,
        plan: Plan,
        range: PlotRange,
    ) -> Result<Plan, QueryError> {
        let plan = Plan { resolution: None, ..plan };
        // A walk that ends earlier has all there is.
        if plan.until_ns < range.until_ns {
            return Ok(plan);
        }
        let after = Query::new(host).range(range.until_ns, i64::MAX).what(What::Meta).without_sched();
        let next = match self.segments(&after, None)?.read()? {
            Some(next) if next.time().since_ns < range.until_ns => next.time().until_ns,
            _ => plan.until_ns,
        };
        Ok(Plan { until_ns: next, ..plan })
    }

    /// Reads the segments of a range in order of time.
    pub(crate) fn segments(
        &self,
        query: &Query,
        resolution: Option<Resolution>,
    ) -> Result<HistorySegments<'_>, QueryError> {
        let stored = self.reader.as_ref().map(|reader| reader.segments(query, resolution)).transpose()?;
        let mut recent = Vec::new();
        if stored.is_none() {
            recent = self.recent(query.host, query.since_ns);
            recent.retain(|shown| shown.interval.end.wall_ns <= query.until_ns);
        }
        Ok(HistorySegments { history: self, stored, recent: recent.into_iter(), shown: None })
    }

    /// In how many parts a range is worth reading: one a CPU, none shorter than a few minutes, and one where there is no file.
    pub(crate) fn parts(&self, range: TimeRange) -> usize {
        let long_enough = range.length_ns() / SHORTEST_PART_NS;
        let wanted = usize::try_from(long_enough).unwrap_or(1).min(*CPUS).min(MAX_AT_ONCE);
        let usual = if self.reader.is_some() { wanted.max(1) } else { 1 };
        self.parts.unwrap_or(usual)
    }

    /// Reads a range in parts at the same time, each with a reader of its own, and gives what `work` made of each, in order of
    /// time. A part more than one takes a turn of those that others wait for: where there is none, fewer parts are made.
    pub(crate) fn in_parts<T: Send>(
        &self,
        range: TimeRange,
        parts: usize,
        work: impl Fn(&Self, TimeRange) -> Result<T, QueryError> + Sync,
    ) -> Result<Vec<T>, QueryError> {
        let (pool, TimeRange { since_ns, until_ns }) = (&self.pool, range);
        // Not waited for: a caller may hold a turn already, and two such callers could wait for each other.
        let turns: Vec<_> = (1..parts).map_while(|_| pool.turns.try_acquire().ok()).collect();
        let parts = i64::try_from(turns.len() + 1).unwrap_or(1);
        let length_ns = range.length_ns() / parts;
        // The last part ends with the range: it has what the division left over.
        let edge = |nth: i64| {
            if nth == parts { until_ns } else { since_ns.saturating_add(length_ns.saturating_mul(nth)) }
        };
        let part = |nth: i64| TimeRange { since_ns: edge(nth), until_ns: edge(nth + 1) };
        // Every reader is opened before a thread starts, so an error here discards no work.
        let others: Result<Vec<_>, QueryError> = (1..parts).map(|nth| Ok((nth, self.another()?))).collect();
        let others = others?;
        let (work, part) = (&work, &part);
        std::thread::scope(|scope| {
            let start = |(nth, history): (i64, Self)| scope.spawn(move || work(&history, part(nth)));
            let others: Vec<_> = others.into_iter().map(start).collect();
            let first = work(self, part(0));
            // A part that panicked is an error: an answer without it would be a wrong one.
            let others = others.into_iter().map(|other| other.join().map_err(|_| QueryError::PartUnread)?);
            std::iter::once(first).chain(others).collect()
        })
    }

    /// Reads many things, some at the same time, and gives what `work` made of each, in their order.
    pub(crate) fn of_each<I: Sync, T: Send>(
        &self,
        items: &[I],
        work: impl Fn(&Self, &I) -> Result<T, QueryError> + Sync,
    ) -> Result<Vec<T>, QueryError> {
        let parts = if self.reader.is_some() { CPUS.min(MAX_AT_ONCE).min(items.len()).max(1) } else { 1 };
        let end = i64::try_from(items.len()).unwrap_or(i64::MAX);
        // Places in the list take the part of times.
        let all = TimeRange { since_ns: 0, until_ns: end };
        let made = self.in_parts(all, parts, |history, part| {
            let at = |nth: i64| usize::try_from(nth).unwrap_or(0).min(items.len());
            let items = &items[at(part.since_ns)..at(part.until_ns)];
            items.iter().map(|item| work(history, item)).collect::<Result<Vec<T>, QueryError>>()
        })?;
        Ok(made.into_iter().flatten().collect())
    }

    /// The same past, with a reader of its own.
    fn another(&self) -> Result<Self, QueryError> {
        Ok(Self {
            reader: self.pool.take()?,
            live: self.live.clone(),
            pool: Arc::clone(&self.pool),
            cancelled: Arc::clone(&self.cancelled),
            parts: self.parts,
        })
    }

    /// Recorded gaps in a range, at most [`MAX_GAPS`].
    pub(crate) fn losses(&self, host: HostId, range: TimeRange) -> Result<Vec<Gap>, QueryError> {
        self.ask(|reader| reader.losses(host, range, MAX_GAPS))
    }

    /// Gaps of a range, recorded or found, at most `limit`.
    pub(crate) fn gaps_of(
        &self,
        host: HostId,
        range: TimeRange,
        limit: usize,
    ) -> Result<Vec<Gap>, QueryError> {
        if let Some(gaps) = self.ask_reader(|reader| reader.gaps(host, range, limit))? {
            return Ok(gaps);
        }
        let mut finder = GapFinder::new(Vec::new(), limit);
        let query = Query::new(host).range(range.since_ns, range.until_ns).what(What::Meta);
        let mut segments = self.segments(&query, None)?;
        while let Some(segment) = segments.read()? {
            finder.see(segment.interval);
        }
        Ok(finder.finish())
    }

    /// What of the store could not be read so far, by this and by other readers of its pool that are idle. Answers were given without
    /// it.
    pub fn damage(&self) -> DamageReport {
        let mut damage = self.pool.damage();
        damage.merge(self.reader.as_ref().map(Reader::damage).unwrap_or_default());
        damage
    }

    /// What a process is and its parent's pid, if it was ever stored or is in memory.
    pub fn process(&self, host: HostId, key: ProcessKey) -> Result<Option<InfoAndParent>, QueryError> {
        Ok(self.processes(host, &[key])?.remove(&key))
    }

    /// The same of many: all names are read once.
    pub(crate) fn processes(
        &self,
        host: HostId,
        keys: &[ProcessKey],
    ) -> Result<HashMap<ProcessKey, InfoAndParent>, QueryError> {
        let mut found = HashMap::new();
        // Memory first: the newest name of a process may not be in the store yet.
        for shown in self.recent(host, i64::MIN) {
            let rows = keys.iter().filter_map(|key| shown.interval.process(*key));
            found.extend(rows.map(|row| (row.key, (Arc::clone(&row.info), row.parent_pid))));
        }
        let missing: Vec<ProcessKey> = keys.iter().copied().filter(|key| !found.contains_key(key)).collect();
        if !missing.is_empty() {
            found.extend(self.ask(|reader| reader.processes(host, &missing))?);
        }
        Ok(found)
    }

    /// The finest data at both ends of a range.
    pub(crate) fn finest(&self, host: HostId, range: TimeRange) -> Result<Finest, QueryError> {
        let reach = self.ask(|reader| reader.reach(host))?;
        Ok(reach.map_or_else(Finest::default, |reach| Finest::of(&reach, range)))
    }

    /// The end of the first interval of the store that ends after a time.
    pub(crate) fn end_after(&self, host: HostId, wall_ns: i64) -> Result<Option<i64>, QueryError> {
        let query = Query::new(host).range(wall_ns, i64::MAX).what(What::Meta);
        let first = self.ask(|reader| reader.first_in(&query))?;
        Ok(first.map(|stored| stored.interval.end.wall_ns))
    }
}

/// The segments of a range, read one after the other.
pub(crate) struct HistorySegments<'h> {
    history: &'h History,
    stored: Option<SegmentReader<'h>>,
    /// Without a store: the next intervals in memory, and the current one.
    recent: vec::IntoIter<Shown>,
    shown: Option<Shown>,
}

impl HistorySegments<'_> {
    /// The next segment; `None` behind the last one, and once the client that asked went away.
    pub(crate) fn read(&mut self) -> Result<Option<Segment<'_>>, QueryError> {
        if self.history.is_cancelled() {
            return Ok(None);
        }
        if let Some(stored) = &mut self.stored {
            return Ok(stored.read()?);
        }
        self.shown = self.recent.next();
        Ok(self.shown.as_ref().map(|shown| Segment::of(&shown.interval)))
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.pool.give_back(self.reader.take());
    }
}

/// Number of queries answered at once; further ones wait.
const MAX_AT_ONCE: usize = 4;

/// Readers that stay open for the next question: most come one or two at a time.
const MAX_IDLE: usize = 2;

/// Readers that are open and idle, and turns to read.
#[derive(Debug)]
pub struct ReaderPool {
    store: Option<PathBuf>,
    idle: Mutex<Vec<Reader>>,
    /// Damage that closed readers and those of others have found.
    damage: Mutex<DamageReport>,
    /// One permit for each question that is answered at once.
    pub turns: Arc<Semaphore>,
}

impl ReaderPool {
    /// A pool of readers of the file `store`; with `None` nothing is stored.
    pub fn new(store: Option<PathBuf>) -> Self {
        let turns = Arc::new(Semaphore::new(MAX_AT_ONCE));
        Self { store, idle: Mutex::default(), damage: Mutex::default(), turns }
    }

    /// An idle reader, or a new one; `None`: nothing is stored.
    fn take(&self) -> Result<Option<Reader>, StoreError> {
        let Some(store) = &self.store else { return Ok(None) };
        let idle = locked(&self.idle).pop();
        idle.map_or_else(|| Reader::open(store), Ok).map(Some)
    }

    fn give_back(&self, reader: Option<Reader>) {
        let Some(mut reader) = reader else { return };
        reader.rest();
        let mut idle = locked(&self.idle);
        if idle.len() < MAX_IDLE {
            idle.push(reader);
        } else {
            self.add_damage(reader.damage());
        }
    }

    /// Asks an idle reader, or a new one; `None`: nothing is stored. A failure is not remembered: the next question tries again.
    pub fn ask<T>(
        &self,
        question: impl FnOnce(&Reader) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let reader = self.take()?;
        let answer = reader.as_ref().map(question).transpose();
        self.give_back(reader);
        answer
    }

    /// Adds what a reader of the same file that is not of this pool could not read.
    pub fn add_damage(&self, damage: DamageReport) {
        locked(&self.damage).merge(damage);
    }

    /// What readers could not read that are idle or closed.
    pub fn damage(&self) -> DamageReport {
        let mut damage = locked(&self.damage).clone();
        for reader in locked(&self.idle).iter() {
            damage.merge(reader.damage());
        }
        damage
    }
}

/// A panic while it was locked leaves a list of readers or of holes as it was.
fn locked<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
