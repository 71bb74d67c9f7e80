//! Where the past is read. In: the store's file, or what is in memory. Out: [`Past`], the same questions for both.
//! Why: reading a file blocks, so it is done on threads of its own, a few at a time; whoever asked and went away is not read for.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use cpumon_export::ExportQuery;
use cpumon_model::{HostId, HostStatus, Interval, ProcessInfo, ProcessKey};
use cpumon_query::{Live, QueryError};
use cpumon_store::{Gap, HostRecord, Plan, Query, Reader, Resolution, Segment, StoreError, TimeRange, What};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Range;
use crate::app::Shared;
use crate::problem::Problem;

/// Questions answered at once; further ones wait.
const MAX_AT_ONCE: usize = 4;
/// A question waits no longer than this for its turn.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Holes in an answer at most.
pub(crate) const MAX_GAPS: usize = 1000;

/// A range is read in parts of at least this: below, a thread more costs what it saves.
const SHORTEST_PART_NS: i64 = 120_000_000_000;

/// Open readers of the store, and turns.
pub(crate) struct Readers {
    path: Option<PathBuf>,
    idle: Mutex<Vec<Reader>>,
    turns: Semaphore,
}

/// Tells the reading thread that nobody waits any more.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn status_of(record: HostRecord) -> HostStatus {
    HostStatus { info: record.info, trust: record.trust, ..HostStatus::default() }
}

impl Readers {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path, idle: Mutex::default(), turns: Semaphore::new(MAX_AT_ONCE) }
    }

    fn take(&self) -> Result<Option<Reader>, Problem> {
        let Some(path) = &self.path else { return Ok(None) };
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| Reader::open(path).map_err(Problem::from), Ok).map(Some)
    }

    fn give_back(&self, reader: Option<Reader>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(reader);
    }

    /// Lets `work` read the past on a thread of its own.
    pub(crate) async fn ask<T: Send + 'static>(
        app: &Shared,
        work: impl FnOnce(&Past) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = || {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Too many questions about the past at once.")
                .how("Ask again in a moment, or for shorter ranges.")
        };
        let turn = timeout(MAX_WAIT, app.readers.turns.acquire()).await.map_err(|_| busy())?;
        let _turn = turn.map_err(|_| busy())?;
        let nobody_waits = Arc::new(AtomicBool::new(false));
        let _waiting = Waiting(Arc::clone(&nobody_waits));
        let app = Arc::clone(app);
        let done = tokio::task::spawn_blocking(move || {
            let readers = Arc::clone(&app.readers);
            let past =
                Past { reader: readers.take()?, live: Some(Arc::clone(&app.live)), readers, nobody_waits };
            let result = work(&past);
            past.readers.give_back(past.reader);
            result
        });
        done.await.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?
    }
}

/// The past of one receiver, or of a store that no receiver need keep.
pub(crate) struct Past {
    reader: Option<Reader>,
    live: Option<Arc<dyn Live>>,
    readers: Arc<Readers>,
    nobody_waits: Arc<AtomicBool>,
}

impl Past {
    /// What a store holds.
    pub(crate) fn of_store(path: &Path) -> Result<Self, Problem> {
        let readers = Arc::new(Readers::new(Some(path.to_owned())));
        Ok(Self { reader: readers.take()?, live: None, readers, nobody_waits: Arc::default() })
    }

    fn recent(&self, host: HostId, since_ns: i64) -> Vec<cpumon_query::Shown> {
        self.live.as_ref().map_or_else(Vec::new, |live| live.recent(host, since_ns))
    }

    /// The host that a path names: one that reports, or one that the store holds.
    pub(crate) fn find(&self, text: &str) -> Result<HostStatus, Problem> {
        let Some(live) = &self.live else {
            let of_store = |error: StoreError| Problem::new(StatusCode::NOT_FOUND, error.to_string());
            let reader =
                self.reader.as_ref().ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "No store."))?;
            return reader.find_host(text).map(status_of).map_err(of_store);
        };
        match live.find(text) {
            Ok(id) => Ok(live.host(id).unwrap_or_default()),
            Err(error @ QueryError::UnknownHost) => {
                let Some(reader) = &self.reader else { return Err(error.into()) };
                Ok(status_of(reader.find_host(text)?))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Every host of the store, by name.
    pub(crate) fn stored(&self) -> Result<Vec<HostRecord>, Problem> {
        self.ask_reader(Reader::hosts).map(Option::unwrap_or_default)
    }

    /// Every host of the store; where none is kept, those that reported.
    pub(crate) fn all(&self) -> Result<Vec<HostStatus>, Problem> {
        match (&self.reader, &self.live) {
            (None, Some(live)) => Ok(live.hosts()),
            _ => Ok(self.stored()?.into_iter().map(status_of).collect()),
        }
    }

    /// Refuses what an export of the store would refuse.
    pub(crate) fn check_export(&self, query: &ExportQuery) -> Result<(), Problem> {
        let check = |reader| cpumon_export::check(reader, query).map_err(Problem::from);
        self.reader.as_ref().map_or(Ok(()), check)
    }

    /// Whether anything of a range can be there: intervals or sums begin before its end, and end after its begin.
    pub(crate) fn reaches(&self, host: HostId, (since_ns, until_ns): (i64, i64)) -> Result<bool, Problem> {
        match self.ask_reader(|reader| reader.plan(host, TimeRange::new(since_ns, until_ns), 1))? {
            Some(plan) => Ok(plan.is_some_and(|plan| plan.since_ns < plan.until_ns)),
            None => {
                Ok(self.recent(host, since_ns).iter().any(|shown| shown.interval.begin.wall_ns < until_ns))
            }
        }
    }

    /// Whether something that is in memory and ends by `until_ns` is still on its way into the store.
    pub(crate) fn is_awaited(&self, host: HostId, until_ns: i64) -> Result<bool, Problem> {
        let Some(kept) = self.ask_reader(|reader| reader.time_range(host))? else { return Ok(false) };
        let last_ns = kept.map_or(i64::MIN, |(_, last)| last);
        Ok(self.recent(host, last_ns).iter().any(|shown| shown.interval.end.wall_ns <= until_ns))
    }

    fn ask_reader<T>(
        &self,
        ask: impl FnOnce(&Reader) -> Result<T, StoreError>,
    ) -> Result<Option<T>, Problem> {
        self.reader.as_ref().map(ask).transpose().map_err(Problem::from)
    }

    /// End of the first and of the last interval that is kept.
    pub(crate) fn kept(&self, host: HostId) -> Result<Option<(i64, i64)>, Problem> {
        if let Some(kept) = self.ask_reader(|reader| reader.time_range(host))? {
            return Ok(kept);
        }
        let recent = self.recent(host, i64::MIN);
        let end = |shown: &cpumon_query::Shown| shown.interval.end.wall_ns;
        Ok(recent.first().map(end).zip(recent.last().map(end)))
    }

    /// How to walk a range; without a store or without data, over intervals.
    pub(crate) fn plan(&self, host: HostId, range: Range) -> Result<Plan, Problem> {
        let Range { since_ns, until_ns, points } = range;
        let plan = self
            .ask_reader(|reader| reader.plan(host, TimeRange::new(since_ns, until_ns), points))?
            .flatten();
        let length_ns = until_ns.saturating_sub(since_ns);
        let points = i64::try_from(points).unwrap_or(i64::MAX).max(1);
        let width_ns = (length_ns.saturating_add(points - 1) / points).max(1);
        Ok(match plan {
            Some(Plan { resolution: None, since_ns, until_ns, .. }) => {
                Plan { since_ns, until_ns, resolution: None, width_ns }
            }
            Some(plan) => plan,
            None => Plan { since_ns, until_ns, resolution: None, width_ns },
        })
    }

    /// Walks spans in order of time.
    pub(crate) fn for_each(
        &self,
        query: &Query,
        grain: Option<Resolution>,
        visit: &mut dyn FnMut(&Segment<'_>),
    ) -> Result<(), Problem> {
        let mut visit = |span: &Segment<'_>| {
            visit(span);
            if self.nobody_waits.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        if self.ask_reader(|reader| reader.for_each_segment(query, grain, &mut visit))?.is_some() {
            return Ok(());
        }
        for shown in self.recent(query.host, query.since_ns) {
            if shown.interval.end.wall_ns <= query.until_ns && visit(&Segment::of(&shown.interval)).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    /// In how many parts a range is worth reading: one a CPU, none shorter than a few minutes, and one where there is no file.
    pub(crate) fn parts(&self, (since_ns, until_ns): (i64, i64)) -> usize {
        let long_enough = until_ns.saturating_sub(since_ns) / SHORTEST_PART_NS;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = usize::try_from(long_enough).unwrap_or(1).min(cpus).min(MAX_AT_ONCE);
        if self.reader.is_some() { wanted.max(1) } else { 1 }
    }

    /// Reads a range in parts at the same time, each with a reader of its own, and gives what `work` made of each, in order of
    /// time. A part more than one takes a turn of those that others wait for: where there is none, fewer parts are made.
    pub(crate) fn in_parts<T: Send>(
        &self,
        (since_ns, until_ns): (i64, i64),
        parts: usize,
        work: impl Fn(&Self, (i64, i64)) -> Result<T, Problem> + Sync,
    ) -> Result<Vec<T>, Problem> {
        let readers = &self.readers;
        let turns: Vec<_> = (1..parts).map_while(|_| readers.turns.try_acquire().ok()).collect();
        let parts = i64::try_from(turns.len() + 1).unwrap_or(1);
        let length_ns = until_ns.saturating_sub(since_ns) / parts;
        let edge = |nth: i64| {
            if nth == parts { until_ns } else { since_ns.saturating_add(length_ns.saturating_mul(nth)) }
        };
        let others: Result<Vec<_>, Problem> = (1..parts).map(|nth| Ok((nth, self.again()?))).collect();
        let others = others?;
        let (work, edge) = (&work, &edge);
        std::thread::scope(|scope| {
            let start = |(nth, past): (i64, Self)| {
                scope.spawn(move || {
                    let made = work(&past, (edge(nth), edge(nth + 1)));
                    readers.give_back(past.reader);
                    made
                })
            };
            let others: Vec<_> = others.into_iter().map(start).collect();
            let first = work(self, (edge(0), edge(1)));
            let fell =
                |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "A part of the range could not be read.");
            let others = others.into_iter().map(|other| other.join().map_err(fell)?);
            std::iter::once(first).chain(others).collect()
        })
    }

    /// Reads many things, some at the same time, and gives what `work` made of each, in their order.
    pub(crate) fn of_each<I: Sync, T: Send>(
        &self,
        items: &[I],
        work: impl Fn(&Self, &I) -> Result<T, Problem> + Sync,
    ) -> Result<Vec<T>, Problem> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let parts = if self.reader.is_some() { cpus.min(MAX_AT_ONCE).min(items.len()).max(1) } else { 1 };
        let end = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let made = self.in_parts((0, end), parts, |past, (from, to)| {
            let at = |nth: i64| usize::try_from(nth).unwrap_or(0).min(items.len());
            items[at(from)..at(to)].iter().map(|item| work(past, item)).collect::<Result<Vec<T>, Problem>>()
        })?;
        Ok(made.into_iter().flatten().collect())
    }

    /// The same past, with a reader of its own.
    fn again(&self) -> Result<Self, Problem> {
        Ok(Self {
            reader: self.readers.take()?,
            live: self.live.clone(),
            readers: Arc::clone(&self.readers),
            nobody_waits: Arc::clone(&self.nobody_waits),
        })
    }

    /// Holes that were recorded in a range.
    pub(crate) fn losses(&self, host: HostId, range: (i64, i64)) -> Result<Vec<Gap>, Problem> {
        self.ask_reader(|reader| reader.losses(host, TimeRange::new(range.0, range.1), MAX_GAPS))
            .map(Option::unwrap_or_default)
    }

    /// Holes of a range, recorded or found, at most `limit`.
    pub(crate) fn gaps(&self, host: HostId, range: (i64, i64), limit: usize) -> Result<Vec<Gap>, Problem> {
        if let Some(gaps) =
            self.ask_reader(|reader| reader.gaps(host, TimeRange::new(range.0, range.1), limit))?
        {
            return Ok(gaps);
        }
        let mut finder = cpumon_store::GapFinder::new(Vec::new(), limit);
        let query = Query::new(host).range(range.0, range.1).what(What::Meta);
        self.for_each(&query, None, &mut |span| finder.see(span.interval))?;
        Ok(finder.finish())
    }

    /// What a process is, if it was ever stored or is in memory.
    pub(crate) fn process(
        &self,
        host: HostId,
        key: ProcessKey,
    ) -> Result<Option<(Arc<ProcessInfo>, u32)>, Problem> {
        for shown in self.recent(host, i64::MIN).iter().rev() {
            if let Some(row) = shown.interval.process(key) {
                return Ok(Some((Arc::clone(&row.info), row.parent_pid)));
            }
        }
        self.ask_reader(|reader| reader.process(host, key)).map(Option::flatten)
    }

    /// When a process began, if the store knows.
    pub(crate) fn began(&self, host: HostId, key: ProcessKey) -> Result<Option<i64>, Problem> {
        self.ask_reader(|reader| reader.began(host, key)).map(Option::flatten)
    }

    /// The end of the first interval of the store that ends after a time.
    pub(crate) fn end_after(&self, host: HostId, wall_ns: i64) -> Result<Option<i64>, Problem> {
        let mut end_ns = None;
        let query = Query::new(host).range(wall_ns, i64::MAX).what(What::Meta);
        let mut first = |interval: &Interval| {
            end_ns = Some(interval.end.wall_ns);
            ControlFlow::Break(())
        };
        self.ask_reader(|reader| reader.for_each_interval(&query, &mut first))?;
        Ok(end_ns)
    }
}
