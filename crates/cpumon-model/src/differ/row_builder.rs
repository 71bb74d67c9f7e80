//! [`RowBuilder`]: makes the row of one thread or process by the rules of the differ. Which rows there are, and their sums, is the
//! differ's own part.

use std::sync::{Arc, OnceLock};

use crate::counters::signed;
use crate::{
    Counters, DelayOf, Delays, Delta, ExitSample, Fields, Flags, Life, Moment, ProcessInfo, ProcessInterval,
    ProcessKey, ProcessSample, SchedDelta, SchedTimes, Snapshot, SourceKind, ThreadInterval, ThreadSample,
};

/// Start times in /proc are cut to `1/USER_HZ` = 10 ms, so a task may seem to have begun that much too early.
const START_RESOLUTION_NS: u64 = 10_000_000;

/// Slack for "more run time than time": `sum_exec_runtime` moves in steps of a tick (10 ms at HZ=100) at either end.
const TICK_SLACK_NS: u64 = 20_000_000;

/// Slack for "more blocked time than time": each wait is rounded to whole µs on the way.
const WAIT_SLACK_NS: i64 = 100_000;

/// The two snapshots, and the values that every row derives from them.
pub(super) struct RowBuilder<'a> {
    pub(super) prev: &'a Snapshot,
    pub(super) cur: &'a Snapshot,
    /// Tasks that began at or after this are charged from their start, ns since boot.
    pub(super) born_from_ns: u64,
    /// Greatest possible run time of one task in the interval, ns.
    pub(super) most_run_ns: i64,
    /// Both snapshots have the scheduler's events (`Fields::SCHED`).
    pub(super) has_sched: bool,
    /// A task cannot be ready or blocked for longer, ns. None where snapshots between the two were lost: rows may span more.
    most_waiting_ns: Option<i64>,
}

impl<'a> RowBuilder<'a> {
    pub(super) fn new(prev: &'a Snapshot, cur: &'a Snapshot, duration_ns: u64) -> Self {
        let most = duration_ns
            .saturating_add(pass_ns(prev))
            .saturating_add(pass_ns(cur))
            .saturating_add(TICK_SLACK_NS);
        let has_sched = common_fields(prev, cur).contains(Fields::SCHED);
        let follows = cur.sequence == prev.sequence.wrapping_add(1);
        Self {
            prev,
            cur,
            born_from_ns: born_from_ns(prev.begin),
            most_run_ns: signed(most),
            has_sched,
            most_waiting_ns: follows.then(|| signed(duration_ns)),
        }
    }

    pub(super) fn is_born(&self, start_ns: u64) -> bool {
        // A sender that knows no start times (0) cannot report births.
        start_ns != 0 && start_ns >= self.born_from_ns
    }

    /// The run delays that ended. An owner that the earlier snapshot does not name had none, if that snapshot was complete or
    /// the owner began since; else its earlier counts are not known, and it is left out.
    pub(super) fn delays(&self) -> impl Iterator<Item = Delays> {
        let is_known = common_fields(self.prev, self.cur).contains(Fields::HISTOGRAMS);
        let rows = self.cur.delays.iter().filter(move |_| is_known);
        rows.filter_map(|now| {
            let grown = match self.prev.delays.binary_search_by_key(&now.of, |row| row.of) {
                // Unchanged histograms are shared between snapshots, so the pointer says that no delay ended.
                Ok(at) if Arc::ptr_eq(&self.prev.delays[at].histogram, &now.histogram) => return None,
                Ok(at) => Arc::new(now.histogram.since(&self.prev.delays[at].histogram)),
                Err(_) if self.prev.is_complete || self.has_begun(now.of) => Arc::clone(&now.histogram),
                Err(_) => return None,
            };
            (!grown.is_empty()).then_some(Delays { of: now.of, histogram: grown })
        })
    }

    fn has_begun(&self, of: DelayOf) -> bool {
        match of {
            DelayOf::Cpu(_) => false,
            DelayOf::Process(key) => self.is_born(key.start_ns),
            DelayOf::Thread(_, key) => self.is_born(key.start_ns),
        }
    }

    pub(super) fn row(
        &self,
        thread: &ThreadSample,
        earlier: Option<&ThreadSample>,
        ended: bool,
    ) -> ThreadInterval {
        let born = earlier.is_none() && self.is_born(thread.key.start_ns);
        // The three rules of the differ, in their order: known before, begun since, older but unknown.
        let (delta, mut flags) = match earlier {
            Some(earlier) => difference(&thread.counters, &earlier.counters),
            None if born => difference(&thread.counters, &Counters::default()),
            None => (Delta::default(), Flags::FIRST_SIGHT),
        };
        let is_unwatched = self.has_sched && !thread.sched.is_watched();
        flags.set(Flags::UNWATCHED, is_unwatched);
        flags.set(Flags::ONE_CPU, thread.has_one_cpu && self.cur.cpus.len() > 1);
        // A thread that events do not report must stay without data: zeros would read as "never blocked".
        let sched = if self.has_sched && !is_unwatched && !flags.contains(Flags::FIRST_SIGHT) {
            let before = earlier.map_or(SchedTimes::default(), |earlier| earlier.sched);
            let (sched, fell) = thread.sched.since(&before);
            // Blocked time may shrink a little (an open wait is counted up to the pass); `fell` is set only by counts that cannot.
            flags.set(Flags::COUNTER_RESET, fell || flags.contains(Flags::COUNTER_RESET));
            sched
        } else {
            SchedDelta::default()
        };
        let (delta, sched) = self.limit_waiting(delta, sched);
        // After a lost snapshot the row may span more than the born rule sees, so only known threads are judged.
        if earlier.is_some() && delta.run_ns > self.most_run_ns {
            flags |= Flags::IMPOSSIBLE;
        }
        let life = Life::of(born, ended);
        ThreadInterval { life, flags, delta, sched, ..ThreadInterval::of_sample(thread) }
    }

    /// Cuts off time in which the thread cannot have waited: the kernel counts a run delay when it ends, however long before it began,
    /// and where a switch was missed, its time is booked in a later interval.
    fn limit_waiting(&self, mut delta: Delta, mut sched: SchedDelta) -> (Delta, SchedDelta) {
        let Some(most_ns) = self.most_waiting_ns else { return (delta, sched) };
        let left_ns = most_ns.saturating_sub(delta.run_ns).max(0);
        delta.run_delay_ns = delta.run_delay_ns.min(left_ns);
        sched.delay_after_wakeup_ns = sched.delay_after_wakeup_ns.min(delta.run_delay_ns.max(0));
        let left_ns = left_ns.saturating_sub(delta.run_delay_ns.max(0));
        if sched.blocked_ns.saturating_sub(left_ns) > WAIT_SLACK_NS {
            sched.waits.cut(sched.blocked_ns.saturating_sub(left_ns).unsigned_abs());
            sched.blocked_ns = left_ns;
        }
        (delta, sched)
    }

    /// The row of a thread that is gone; none if there is an exit record, which says more.
    pub(super) fn vanished(&self, gone: &ThreadSample) -> Option<ThreadInterval> {
        let has_exit_row = self.cur.exits.binary_search_by_key(&gone.key, |exit| exit.thread.key).is_ok();
        let row = ThreadInterval {
            life: Life::Ended,
            flags: Flags::NO_FINAL_COUNTERS,
            ..ThreadInterval::of_sample(gone)
        };
        (!has_exit_row).then_some(row)
    }

    /// The threads that vanished in this interval as the earlier snapshot has them, by process: what was charged to them.
    pub(super) fn vanished_threads(&self, rows: &[ThreadInterval]) -> Vec<&'a ThreadSample> {
        let vanished = rows.iter().filter(|row| row.flags.contains(Flags::NO_FINAL_COUNTERS));
        let mut threads: Vec<_> = vanished.filter_map(|row| find_thread(&self.prev.threads, row)).collect();
        threads.sort_by_key(|thread| thread.process);
        threads
    }

    pub(super) fn process_row(&self, process: &ProcessSample) -> ProcessInterval {
        let known = find_process(&self.prev.processes, process.key).is_some();
        let life = if !known && self.is_born(process.key.start_ns) { Life::Born } else { Life::Alive };
        let flags = if is_summed(self.cur, process.key) { Flags::SUMMED } else { Flags::empty() };
        let row = ProcessInterval::new(process.key, process.parent_pid, Arc::clone(&process.info));
        ProcessInterval { life, flags, ..row }
    }

    pub(super) fn exited_process_row(&self, exit: &ExitSample) -> ProcessInterval {
        let key = exit.thread.process;
        let before = find_process(&self.prev.processes, key);
        let born = before.is_none() && self.is_born(key.start_ns);
        let life = Life::of(born, exit.ends_process);
        ProcessInterval { life, ..ProcessInterval::new(key, exit.parent_pid, Arc::clone(&exit.info)) }
    }

    /// A process that only a thread row names: idle itself in a partial snapshot, or gone without a record.
    pub(super) fn unlisted_process_row(&self, thread: &ThreadInterval) -> ProcessInterval {
        let before = find_process(&self.prev.processes, thread.process);
        let parent_pid = before.map_or(0, |process| process.parent_pid);
        let info = before.map_or_else(unknown_process, |process| Arc::clone(&process.info));
        // A partial snapshot may leave out a process that rests.
        let life = if self.cur.is_complete { Life::Ended } else { Life::Alive };
        ProcessInterval { life, ..ProcessInterval::new(thread.process, parent_pid, info) }
    }
}

/// Rows without a process id are sums of exits that lost their own rows, where the source reports exits, or never had one (Windows).
fn is_summed(snapshot: &Snapshot, key: ProcessKey) -> bool {
    let has_sums = snapshot.fields.contains(Fields::EXITS) || snapshot.source == SourceKind::Nt;
    key.pid == 0 && key.start_ns != 0 && has_sums
}

/// Each counter's growth. A counter that fell counts 0 and flags the row; the others stay exact.
fn difference(now: &Counters, then: &Counters) -> (Delta, Flags) {
    match now.since(then) {
        Some(delta) => (delta, Flags::empty()),
        None => (now.grown(then), Flags::COUNTER_RESET),
    }
}

/// Fields that are known over the whole interval. Counters that began with the later snapshot, because a probe was switched on, have no
/// earlier value to compare with.
pub(super) fn common_fields(prev: &Snapshot, cur: &Snapshot) -> Fields {
    let by_probe = Fields::SCHED | Fields::WAITS | Fields::IRQ | Fields::HISTOGRAMS | Fields::CGROUPS;
    let by_probe = by_probe | Fields::WAITS_FOR;
    // Only what a probe measures can begin in the middle; the kernel counts all else from a task's start.
    cur.fields - (by_probe - prev.fields)
}

/// The one shared "nothing known" record, so that a row without a name allocates nothing.
fn unknown_process() -> Arc<ProcessInfo> {
    static UNKNOWN: OnceLock<Arc<ProcessInfo>> = OnceLock::new();
    Arc::clone(UNKNOWN.get_or_init(Arc::default))
}

pub(super) fn find_process(rows: &[ProcessSample], key: ProcessKey) -> Option<&ProcessSample> {
    rows.binary_search_by_key(&key, |row| row.key).ok().and_then(|at| rows.get(at))
}

pub(super) fn find_thread<'a>(rows: &'a [ThreadSample], row: &ThreadInterval) -> Option<&'a ThreadSample> {
    rows.binary_search_by_key(&row.key, |thread| thread.key).ok().and_then(|at| rows.get(at))
}

/// Tasks that began at or after this, ns since boot, began in the interval after the snapshot that began at `begin`.
pub fn born_from_ns(begin: Moment) -> u64 {
    // From the start of the earlier pass: it may have missed a thread that began while it ran.
    begin.boot_ns.saturating_sub(START_RESOLUTION_NS)
}

pub(super) fn pass_ns(snapshot: &Snapshot) -> u64 {
    snapshot.end.mono_ns.saturating_sub(snapshot.begin.mono_ns)
}
