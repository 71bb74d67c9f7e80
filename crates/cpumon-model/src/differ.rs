//! The differ: two snapshots in, one [`Interval`] out. The only place where counters are subtracted.
//!
//! Rules, in the order in which they are tried for a task of the later snapshot:
//! 1. known before → the difference; a counter that fell counts 0 and the row is flagged [`Flags::COUNTER_RESET`];
//! 2. unknown, but begun since the earlier snapshot → everything it has: it is charged from its start;
//! 3. unknown and older → its earlier counters are not known: 0, flagged [`Flags::FIRST_SIGHT`].
//!
//! A task of the earlier snapshot that is neither alive nor among the exits of a complete later one ended unseen:
//! its row says so ([`Flags::NO_FINAL_COUNTERS`]).

use std::sync::{Arc, OnceLock};

use crate::finder::Finder;
use crate::{
    Counters, CpuInterval, CpuSched, DelayOf, Delays, Delta, ExitSample, Fields, Flags, Interval,
    IrqInterval, Ledger, Life, Moment, ProcessInfo, ProcessInterval, ProcessKey, ProcessSample, SchedDelta,
    SchedTimes, Snapshot, ThreadInterval, ThreadSample,
};

/// Start times in /proc are cut to `1/USER_HZ` = 10 ms, so a task may seem to have begun that much too early.
const START_GRAIN_NS: u64 = 10_000_000;

/// Slack for "more run time than time": `sum_exec_runtime` moves in steps of a tick (10 ms at HZ=100) at either end.
const TICK_SLACK_NS: u64 = 20_000_000;

/// Which threads get a row in an [`Interval`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// Every one.
    #[default]
    All,
    /// Those whose counters moved, that are new or that ended: all that a sender needs. With 10,000 threads of which 200 ran,
    /// the rows of the others are most of what the differ writes.
    Moved,
}

impl Interval {
    /// What happened between `prev` and `cur`. Both must be sorted ([`Snapshot::sort`]).
    #[must_use]
    pub fn between(prev: &Snapshot, cur: &Snapshot) -> Self {
        let mut interval = Self::default();
        interval.fill(prev, cur);
        interval
    }

    /// [`Interval::between`] into kept buffers: a steady state allocates nothing.
    ///
    /// Another host or boot cannot be compared: the result is empty, without length, and flagged [`Flags::RESTART`].
    pub fn fill(&mut self, prev: &Snapshot, cur: &Snapshot) {
        self.fill_rows(prev, cur, Rows::All);
    }

    /// [`Interval::fill`] with a choice of rows.
    pub fn fill_rows(&mut self, prev: &Snapshot, cur: &Snapshot, rows: Rows) {
        self.reset(prev, cur);
        if (prev.host, prev.boot) != (cur.host, cur.boot) {
            self.flags |= Flags::RESTART;
            self.begin = cur.end;
            return;
        }
        self.cpus.extend(matching_cpus(prev, cur));
        self.irqs.extend(matching_irqs(prev, cur));
        let look = Look::new(prev, cur, self.duration_ns());
        self.delays.extend(look.delays());
        self.fill_live_threads(&look, rows);
        self.fill_exits(&look);
        self.threads.sort_unstable_by_key(|row| row.key);
        self.list_processes(&look);
        self.sum_threads_into_processes();
        let unseen_ns = self.charge_ended_threads(&look);
        // Summed exits are rows, and in the cumulative total of all exits as well.
        let rest_ns = self.lost_exits_ns(&look).saturating_sub(unseen_ns).max(0);
        self.ledger = self.balance(cur, unseen_ns.saturating_add(rest_ns));
    }

    /// Takes over everything that is copied, and empties the lists, keeping their capacity.
    fn reset(&mut self, prev: &Snapshot, cur: &Snapshot) {
        let mut empty = Self {
            host: cur.host,
            boot: cur.boot,
            sequence: cur.sequence,
            source: cur.source,
            fields: common_fields(prev, cur),
            begin: prev.end,
            end: cur.end,
            pass_ns: pass_ns(cur),
            thread_count: cur.thread_count,
            process_count: cur.process_count,
            health: cur.health,
            cpus: std::mem::take(&mut self.cpus),
            processes: std::mem::take(&mut self.processes),
            threads: std::mem::take(&mut self.threads),
            irqs: std::mem::take(&mut self.irqs),
            delays: std::mem::take(&mut self.delays),
            ..Self::default()
        };
        empty.cpus.clear();
        empty.processes.clear();
        empty.threads.clear();
        empty.irqs.clear();
        empty.delays.clear();
        *self = empty;
    }

    fn fill_live_threads(&mut self, look: &Look<'_>, rows: Rows) {
        let mut before = Finder::new(&look.prev.threads);
        for thread in &look.cur.threads {
            let earlier = if look.cur.is_complete {
                before.merge(thread.key, |row| row.key, |gone| self.threads.extend(look.vanished(gone)))
            } else {
                before.search(thread.key, |row| row.key)
            };
            let rested = |earlier: &ThreadSample| earlier.counters == thread.counters;
            if rows == Rows::All || !earlier.is_some_and(rested) {
                self.threads.push(look.row(thread, earlier, false));
            }
        }
        if look.cur.is_complete {
            before.rest(|gone| self.threads.extend(look.vanished(gone)));
            return;
        }
        let mut before = Finder::new(&look.prev.threads);
        for &key in &look.cur.gone {
            if let Some(gone) = before.search(key, |row| row.key) {
                self.threads.extend(look.vanished(gone));
            }
        }
    }

    fn fill_exits(&mut self, look: &Look<'_>) {
        let mut before = Finder::new(&look.prev.threads);
        for exit in &look.cur.exits {
            let earlier = before.search(exit.thread.key, |row| row.key);
            self.threads.push(look.row(&exit.thread, earlier, true));
        }
    }

    /// One row for each process of the later snapshot and for each that a thread row names, ascending, without doubles.
    fn list_processes(&mut self, look: &Look<'_>) {
        self.processes.extend(look.cur.processes.iter().map(|process| look.process_row(process)));
        let known = self.processes.len();
        for exit in look
            .cur
            .exits
            .iter()
            .filter(|exit| find_process(&look.cur.processes, exit.thread.process).is_none())
        {
            self.processes.push(look.exited_process_row(exit));
        }
        if self.processes.len() > known {
            merge_same_processes(&mut self.processes);
        }
        // An exit tells who the process was in the end: what the earlier snapshot knew may be from before an exec.
        let known = self.processes.len();
        let mut last = None;
        for thread in &self.threads {
            let is_listed = |list: &[ProcessInterval]| {
                list.binary_search_by_key(&thread.process, |process| process.key).is_ok()
            };
            if last == Some(thread.process) || self.processes.get(..known).is_some_and(is_listed) {
                continue;
            }
            last = Some(thread.process);
            self.processes.push(look.unlisted_process_row(thread));
        }
        if self.processes.len() > known {
            merge_same_processes(&mut self.processes);
        }
    }

    fn sum_threads_into_processes(&mut self) {
        let mut at = 0;
        for thread in &self.threads {
            if self.processes.get(at).is_none_or(|row| row.key != thread.process) {
                let Ok(found) = self.processes.binary_search_by_key(&thread.process, |row| row.key) else {
                    continue;
                };
                at = found;
            }
            if let Some(process) = self.processes.get_mut(at) {
                process.delta += &thread.delta;
                process.flags |= thread.flags;
                process.thread_rows += 1;
                if !thread.delta.is_zero() {
                    process.sched += &thread.sched;
                }
            }
        }
    }

    /// Adds what threads without an exit row ran: growth of `ended_threads` less what was charged to them while they
    /// lived. /proc gives that total in ticks, so it may come out below zero; then it adds nothing. Returns the sum, ns.
    fn charge_ended_threads(&mut self, look: &Look<'_>) -> i64 {
        let mut sum_ns = 0_i64;
        for process in &look.cur.processes {
            if process.ended_threads == Counters::default() {
                continue;
            }
            let before = match find_process(&look.prev.processes, process.key) {
                Some(before) => before.ended_threads,
                None if look.is_born(process.key.start_ns) => Counters::default(),
                // Older and seen for the first time: what its threads ran before is not known.
                None => continue,
            };
            let Some(mut extra) = process.ended_threads.since(&before) else { continue };
            if extra.is_zero() {
                continue;
            }
            for gone in look.vanished_threads_of(process.key, &self.threads) {
                subtract(&mut extra, gone);
            }
            at_least_zero(&mut extra);
            sum_ns = sum_ns.saturating_add(extra.run_ns);
            if let Ok(at) = self.processes.binary_search_by_key(&process.key, |row| row.key) {
                self.processes[at].delta += &extra;
            }
        }
        sum_ns
    }

    /// Run time of exits whose rows were lost: growth of the cumulative total less the rows that did arrive, less what
    /// the vanished threads had been charged before. Only complete snapshots can tell.
    fn lost_exits_ns(&self, look: &Look<'_>) -> i64 {
        let (prev, cur) = (look.prev, look.cur);
        if !cur.is_complete
            || !cur.fields.contains(Fields::EXITS)
            || cur.health.exits_lost == prev.health.exits_lost
        {
            return 0;
        }
        let total = cur.exited_total.since(&prev.exited_total).unwrap_or_default().run_ns;
        let add = u64::saturating_add;
        let rows = cur.exits.iter().map(|exit| exit.thread.counters.run_ns).fold(0, add);
        let charged = self
            .threads
            .iter()
            .filter(|row| row.flags.contains(Flags::NO_FINAL_COUNTERS))
            .filter_map(|row| find_thread(&prev.threads, row))
            .map(|thread| thread.counters.run_ns)
            .fold(0, add);
        total.saturating_sub(signed(rows)).saturating_sub(signed(charged)).max(0)
    }

    fn balance(&self, cur: &Snapshot, exited_without_row_ns: i64) -> Ledger {
        let sum = |mode: fn(&CpuInterval) -> u64| self.cpus.iter().map(mode).fold(0, u64::saturating_add);
        let ended = |row: &&ThreadInterval| matches!(row.life, Life::Ended | Life::BornEnded);
        let irq = |ns: u64| if cur.irq_in_run_time { 0 } else { signed(ns) };
        Ledger {
            capacity_ns: signed(self.duration_ns().saturating_mul(self.cpus.len() as u64)),
            threads_ns: run_sum(self.threads.iter().filter(|row| !ended(row))),
            exited_ns: run_sum(self.threads.iter().filter(ended)).saturating_add(exited_without_row_ns),
            irq_ns: irq(sum(|cpu| cpu.times.irq_ns)),
            softirq_ns: irq(sum(|cpu| cpu.times.softirq_ns)),
            steal_ns: signed(sum(|cpu| cpu.times.steal_ns)),
            idle_ns: signed(sum(|cpu| cpu.times.idle_ns.saturating_add(cpu.times.iowait_ns))),
            unknown_ns: signed(self.cpus.iter().map(|cpu| cpu.sched.unknown_ns).fold(0, u64::saturating_add)),
            irq_in_run_time: cur.irq_in_run_time,
        }
    }
}

/// The two snapshots and what every row needs to know of them.
struct Look<'a> {
    prev: &'a Snapshot,
    cur: &'a Snapshot,
    /// Tasks that began at or after this are charged from their start, ns since boot.
    born_from_ns: u64,
    /// More run time than this cannot be, ns.
    most_run_ns: i64,
    /// The scheduler's events were measured on both sides.
    has_sched: bool,
}

impl<'a> Look<'a> {
    fn new(prev: &'a Snapshot, cur: &'a Snapshot, duration_ns: u64) -> Self {
        let most = duration_ns
            .saturating_add(pass_ns(prev))
            .saturating_add(pass_ns(cur))
            .saturating_add(TICK_SLACK_NS);
        let has_sched = common_fields(prev, cur).contains(Fields::SCHED);
        Self { prev, cur, born_from_ns: born_from_ns(prev.begin), most_run_ns: signed(most), has_sched }
    }

    fn is_born(&self, start_ns: u64) -> bool {
        // A sender that knows no start times (0) cannot tell births.
        start_ns != 0 && start_ns >= self.born_from_ns
    }

    /// The run delays that ended. An owner that the earlier snapshot does not name had none, if that snapshot was complete or
    /// the owner began since; else its earlier counts are not known, and it is left out.
    fn delays(&self) -> impl Iterator<Item = Delays> {
        let is_known = common_fields(self.prev, self.cur).contains(Fields::HISTOGRAMS);
        let rows = self.cur.delays.iter().filter(move |_| is_known);
        rows.filter_map(|now| {
            let grown = match self.prev.delays.binary_search_by_key(&now.of, |row| row.of) {
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

    fn row(&self, thread: &ThreadSample, earlier: Option<&ThreadSample>, ended: bool) -> ThreadInterval {
        let born = earlier.is_none() && self.is_born(thread.key.start_ns);
        let (delta, mut flags) = match earlier {
            Some(earlier) => difference(&thread.counters, &earlier.counters),
            None if born => difference(&thread.counters, &Counters::default()),
            None => (Delta::default(), Flags::FIRST_SIGHT),
        };
        let sched = if self.has_sched && !flags.contains(Flags::FIRST_SIGHT) {
            let before = earlier.map_or(SchedTimes::default(), |earlier| earlier.sched);
            let (sched, fell) = thread.sched.since(&before);
            flags.set(Flags::COUNTER_RESET, fell || flags.contains(Flags::COUNTER_RESET));
            sched
        } else {
            SchedDelta::default()
        };
        // After a lost snapshot the row may span more than the born rule sees, so only known threads are judged.
        if earlier.is_some() && delta.run_ns > self.most_run_ns {
            flags |= Flags::IMPOSSIBLE;
        }
        let life = match (born, ended) {
            (false, false) => Life::Alive,
            (true, false) => Life::Born,
            (false, true) => Life::Ended,
            (true, true) => Life::BornEnded,
        };
        ThreadInterval { life, flags, delta, sched, ..bare_row(thread) }
    }

    /// The row of a thread that is gone; none if its exit record tells more.
    fn vanished(&self, gone: &ThreadSample) -> Option<ThreadInterval> {
        let has_exit_row = self.cur.exits.binary_search_by_key(&gone.key, |exit| exit.thread.key).is_ok();
        let row = ThreadInterval { life: Life::Ended, flags: Flags::NO_FINAL_COUNTERS, ..bare_row(gone) };
        (!has_exit_row).then_some(row)
    }

    /// Counters that were charged to the threads of `process` which vanished in this interval.
    fn vanished_threads_of<'b>(
        &'b self,
        process: ProcessKey,
        rows: &'b [ThreadInterval],
    ) -> impl Iterator<Item = &'b Counters> {
        rows.iter()
            .filter(move |row| row.process == process && row.flags.contains(Flags::NO_FINAL_COUNTERS))
            .filter_map(|row| find_thread(&self.prev.threads, row))
            .map(|thread| &thread.counters)
    }

    fn process_row(&self, process: &ProcessSample) -> ProcessInterval {
        let known = find_process(&self.prev.processes, process.key).is_some();
        let life = if !known && self.is_born(process.key.start_ns) { Life::Born } else { Life::Alive };
        ProcessInterval {
            key: process.key,
            parent_pid: process.parent_pid,
            info: Arc::clone(&process.info),
            life,
            flags: if is_summed(self.cur, process.key) { Flags::SUMMED } else { Flags::empty() },
            ..empty_process_row()
        }
    }

    fn exited_process_row(&self, exit: &ExitSample) -> ProcessInterval {
        let key = exit.thread.process;
        let before = find_process(&self.prev.processes, key);
        let born = before.is_none() && self.is_born(key.start_ns);
        let life = match (born, exit.ends_process) {
            (true, true) => Life::BornEnded,
            (false, true) => Life::Ended,
            (true, false) => Life::Born,
            (false, false) => Life::Alive,
        };
        let info = Arc::clone(&exit.info);
        ProcessInterval { key, parent_pid: exit.parent_pid, info, life, ..empty_process_row() }
    }

    /// A process that only a thread row names: idle itself in a partial snapshot, or gone without a record.
    fn unlisted_process_row(&self, thread: &ThreadInterval) -> ProcessInterval {
        let before = find_process(&self.prev.processes, thread.process);
        ProcessInterval {
            key: thread.process,
            parent_pid: before.map_or(0, |process| process.parent_pid),
            info: before.map_or_else(unknown_process, |process| Arc::clone(&process.info)),
            life: if self.cur.is_complete { Life::Ended } else { Life::Alive },
            ..empty_process_row()
        }
    }
}

/// Rows without a process id stand for exits that are not told apart, where exits are told.
fn is_summed(snapshot: &Snapshot, key: ProcessKey) -> bool {
    key.pid == 0 && key.start_ns != 0 && snapshot.fields.contains(Fields::EXITS)
}

/// Each counter's growth. A counter that fell counts 0 and flags the row; the others stay exact.
fn difference(now: &Counters, then: &Counters) -> (Delta, Flags) {
    if let Some(delta) = now.since(then) {
        return (delta, Flags::empty());
    }
    let sub = |now: u64, then: u64| signed(now.saturating_sub(then));
    let delta = Delta {
        user_ns: sub(now.user_ns, then.user_ns),
        system_ns: sub(now.system_ns, then.system_ns),
        run_ns: sub(now.run_ns, then.run_ns),
        run_delay_ns: sub(now.run_delay_ns, then.run_delay_ns),
        voluntary_switches: sub(now.voluntary_switches, then.voluntary_switches),
        involuntary_switches: sub(now.involuntary_switches, then.involuntary_switches),
    };
    (delta, Flags::COUNTER_RESET)
}

fn subtract(delta: &mut Delta, charged: &Counters) {
    let sub = |from: &mut i64, ns: u64| *from = from.saturating_sub(signed(ns));
    sub(&mut delta.user_ns, charged.user_ns);
    sub(&mut delta.system_ns, charged.system_ns);
    sub(&mut delta.run_ns, charged.run_ns);
    sub(&mut delta.run_delay_ns, charged.run_delay_ns);
    sub(&mut delta.voluntary_switches, charged.voluntary_switches);
    sub(&mut delta.involuntary_switches, charged.involuntary_switches);
}

fn at_least_zero(delta: &mut Delta) {
    let Delta { user_ns, system_ns, run_ns, run_delay_ns, voluntary_switches, involuntary_switches } = delta;
    for value in [user_ns, system_ns, run_ns, run_delay_ns, voluntary_switches, involuntary_switches] {
        *value = (*value).max(0);
    }
}

/// What is known of the interval. Counters that began with the later snapshot, because a probe was switched on, have no
/// earlier value to compare with.
fn common_fields(prev: &Snapshot, cur: &Snapshot) -> Fields {
    let by_probe = Fields::SCHED | Fields::WAITS | Fields::IRQ | Fields::HISTOGRAMS;
    cur.fields - (by_probe - prev.fields)
}

fn matching_cpus<'a>(prev: &'a Snapshot, cur: &'a Snapshot) -> impl Iterator<Item = CpuInterval> + 'a {
    let has_sched = common_fields(prev, cur).contains(Fields::SCHED);
    cur.cpus.iter().filter_map(move |now| {
        let at = prev.cpus.binary_search_by_key(&now.cpu, |cpu| cpu.cpu).ok()?;
        let row = CpuInterval::between(prev.cpus.get(at)?, now);
        Some(if has_sched { row } else { CpuInterval { sched: CpuSched::default(), ..row } })
    })
}

/// The interrupt lines that were handled. Without any in the earlier snapshot nothing is known to have been added.
fn matching_irqs<'a>(prev: &'a Snapshot, cur: &'a Snapshot) -> impl Iterator<Item = IrqInterval> + 'a {
    let is_known = common_fields(prev, cur).contains(Fields::IRQ);
    let mut before = Finder::new(&prev.irqs);
    let rows = cur.irqs.iter().filter(move |_| is_known);
    rows.map(move |now| IrqInterval::between(before.search(now.irq, |irq| irq.irq), now, prev.is_complete))
        .filter(|row| !row.is_zero())
}

/// Sorts and makes one row of several with the same key: an ending beats a living one, a named one an unnamed one.
fn merge_same_processes(rows: &mut Vec<ProcessInterval>) {
    rows.sort_unstable_by_key(|row| (row.key, row.info.name.is_empty()));
    rows.dedup_by(|later, kept| {
        let same = later.key == kept.key;
        if same {
            kept.life = joined_life(kept.life, later.life);
            if kept.info.name.is_empty() {
                kept.info = Arc::clone(&later.info);
            }
        }
        same
    });
}

fn joined_life(a: Life, b: Life) -> Life {
    let born = [a, b].iter().any(|life| matches!(life, Life::Born | Life::BornEnded));
    let ended = [a, b].iter().any(|life| matches!(life, Life::Ended | Life::BornEnded));
    match (born, ended) {
        (false, false) => Life::Alive,
        (true, false) => Life::Born,
        (false, true) => Life::Ended,
        (true, true) => Life::BornEnded,
    }
}

fn bare_row(thread: &ThreadSample) -> ThreadInterval {
    ThreadInterval {
        key: thread.key,
        process: thread.process,
        comm: thread.comm,
        state: thread.state,
        nice: thread.nice,
        priority: thread.priority,
        last_cpu: thread.last_cpu,
        ..ThreadInterval::default()
    }
}

fn empty_process_row() -> ProcessInterval {
    ProcessInterval {
        key: ProcessKey::default(),
        parent_pid: 0,
        info: unknown_process(),
        thread_rows: 0,
        life: Life::Alive,
        flags: Flags::empty(),
        delta: Delta::default(),
        sched: SchedDelta::default(),
    }
}

/// The one shared "nothing known" record, so that a row without a name allocates nothing.
fn unknown_process() -> Arc<ProcessInfo> {
    static UNKNOWN: OnceLock<Arc<ProcessInfo>> = OnceLock::new();
    Arc::clone(UNKNOWN.get_or_init(Arc::default))
}

fn find_process(rows: &[ProcessSample], key: ProcessKey) -> Option<&ProcessSample> {
    rows.binary_search_by_key(&key, |row| row.key).ok().and_then(|at| rows.get(at))
}

fn find_thread<'a>(rows: &'a [ThreadSample], row: &ThreadInterval) -> Option<&'a ThreadSample> {
    rows.binary_search_by_key(&row.key, |thread| thread.key).ok().and_then(|at| rows.get(at))
}

fn born_from_ns(begin: Moment) -> u64 {
    begin.boot_ns.saturating_sub(START_GRAIN_NS)
}

fn pass_ns(snapshot: &Snapshot) -> u64 {
    snapshot.end.mono_ns.saturating_sub(snapshot.begin.mono_ns)
}

fn run_sum<'a>(rows: impl Iterator<Item = &'a ThreadInterval>) -> i64 {
    rows.fold(0, |sum: i64, row| sum.saturating_add(row.delta.run_ns))
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
