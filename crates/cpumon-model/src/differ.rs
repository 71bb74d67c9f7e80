//! The differ: two snapshots in, one [`Interval`] out. The only place where counters are subtracted.
//!
//! Rules, in the order in which they are tried for a task of the later snapshot:
//! 1. known before → the difference; a counter that fell counts 0 and the row is flagged [`Flags::COUNTER_RESET`];
//! 2. unknown, but begun since the earlier snapshot → everything it has: it is charged from its start;
//! 3. unknown and older → its earlier counters are not known: 0, flagged [`Flags::FIRST_SIGHT`].
//!
//! A task of the earlier snapshot that is neither alive nor among the exits of a complete later one ended unseen:
//! its row says so ([`Flags::NO_FINAL_COUNTERS`]).

mod row_builder;

use std::cell::LazyCell;
use std::sync::Arc;

pub use self::row_builder::born_from_ns;
use self::row_builder::{RowBuilder, common_fields, find_process, find_thread, pass_ns};
use crate::cgroup;
use crate::collections::{Finder, emptied};
use crate::counters::signed;
use crate::{
    Counters, CpuInterval, CpuSched, DelayOf, Fields, Flags, Interval, IrqInterval, Ledger, ProcessInterval,
    Snapshot, ThreadInterval, ThreadSample, delay_range_ns,
};

/// Which threads get a row in an [`Interval`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// Every thread, also idle ones.
    #[default]
    All,
    /// Threads whose counters moved, that are new or that ended: all that a sender needs. If 200 of 10,000 threads ran, the rows of
    /// the others are most of the differ's output.
    Moved,
}

impl Interval {
    /// What happened between `prev` and `cur`. Both must be sorted ([`Snapshot::sort`]).
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
            // Counters of another boot start at zero again: a difference would be meaningless, so the interval stays empty.
            self.flags |= Flags::RESTART;
            self.begin = cur.end;
            return;
        }
        let has_queue = cur.health.run_queue_unknown == prev.health.run_queue_unknown;
        self.flags.set(Flags::RUN_QUEUE_UNKNOWN, !has_queue && self.fields.contains(Fields::SCHED));
        self.cpus.extend(matching_cpus(prev, cur));
        self.irqs.extend(matching_irqs(prev, cur));
        if self.fields.contains(Fields::CGROUPS) {
            self.cgroups.extend(cgroup::rows_between(&prev.cgroups, &cur.cgroups));
        }
        if self.fields.contains(Fields::WAITS_FOR) {
            self.waits_for.extend_from_slice(&cur.waits_for);
        }
        self.pressure = cur.pressure.zip(prev.pressure).and_then(|(cur, prev)| cur.since(prev));
        let builder = RowBuilder::new(prev, cur, self.duration_ns());
        self.delays.extend(builder.delays());
        // Exits come after the live threads, so that one sort brings both into order.
        self.fill_live_threads(&builder, rows);
        self.fill_exits(&builder);
        self.threads.sort_unstable_by_key(|row| row.key);
        // The processes of exits must be listed before threads are summed into them: a program that lived and died inside has no
        // other row.
        self.list_processes(&builder);
        self.sum_threads_into_processes();
        self.raise_longest_delays();
        let unseen_ns = self.charge_ended_threads(&builder);
        // Summed exits are rows, and in the cumulative total of all exits as well.
        let rest_ns = self.lost_exits_ns(&builder).saturating_sub(unseen_ns).max(0);
        self.ledger = self.balance(cur, unseen_ns.saturating_add(rest_ns));
    }

    /// Takes over everything that is copied, and empties the lists, keeping what of their capacity is used.
    fn reset(&mut self, prev: &Snapshot, cur: &Snapshot) {
        *self = Self {
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
            cpus: emptied(&mut self.cpus),
            processes: emptied(&mut self.processes),
            threads: emptied(&mut self.threads),
            irqs: emptied(&mut self.irqs),
            delays: emptied(&mut self.delays),
            cgroups: emptied(&mut self.cgroups),
            waits_for: emptied(&mut self.waits_for),
            cgroups_left_out: cur.cgroups_left_out,
            ..Self::default()
        };
    }

    fn fill_live_threads(&mut self, builder: &RowBuilder<'_>, rows: Rows) {
        let mut before = Finder::new(&builder.prev.threads, |row| row.key);
        for thread in &builder.cur.threads {
            // A complete snapshot lists every live thread, so whatever the merge passes over has ended. A partial one leaves out
            // threads that rest: only `gone` names those that ended.
            let earlier = if builder.cur.is_complete {
                before.merge(&thread.key, |gone| self.threads.extend(builder.vanished(gone)))
            } else {
                before.search(&thread.key)
            };
            // Only the counters decide: an open wait of a sleeping thread grows although nothing happened.
            let rested = |earlier: &ThreadSample| earlier.counters == thread.counters;
            if rows == Rows::All || !earlier.is_some_and(rested) {
                self.threads.push(builder.row(thread, earlier, false));
            }
        }
        if builder.cur.is_complete {
            before.rest(|gone| self.threads.extend(builder.vanished(gone)));
            return;
        }
        // A finder goes forwards only, and `gone` begins at the front again.
        let mut before = Finder::new(&builder.prev.threads, |row| row.key);
        for key in &builder.cur.gone {
            if let Some(gone) = before.search(key) {
                self.threads.extend(builder.vanished(gone));
            }
        }
    }

    fn fill_exits(&mut self, builder: &RowBuilder<'_>) {
        let mut before = Finder::new(&builder.prev.threads, |row| row.key);
        for exit in &builder.cur.exits {
            // Keyed by start time as well, so a reused thread id never takes the counters of its predecessor.
            let earlier = before.search(&exit.thread.key);
            self.threads.push(builder.row(&exit.thread, earlier, true));
        }
    }

    /// One row for each process of the later snapshot and for each that a thread row names, ascending, without doubles.
    fn list_processes(&mut self, builder: &RowBuilder<'_>) {
        self.processes.extend(builder.cur.processes.iter().map(|process| builder.process_row(process)));
        let known = self.processes.len();
        for exit in builder
            .cur
            .exits
            .iter()
            .filter(|exit| find_process(&builder.cur.processes, exit.thread.process).is_none())
        {
            self.processes.push(builder.exited_process_row(exit));
        }
        // A process has had one row for each of its exits up to here.
        if self.processes.len() > known {
            merge_same_processes(&mut self.processes);
        }
        // An exit record names what the process was in the end: what the earlier snapshot knew may be from before an exec.
        let known = self.processes.len();
        let mut last = None;
        for thread in &self.threads {
            let is_listed = |list: &[ProcessInterval]| {
                list.binary_search_by_key(&thread.process, |process| process.key).is_ok()
            };
            // Threads are sorted by their own key, so neighbours often share a process; the search is needed only when it changes.
            if last == Some(thread.process) || self.processes.get(..known).is_some_and(is_listed) {
                continue;
            }
            last = Some(thread.process);
            // Behind the sorted rows: `known` keeps the search above to those.
            self.processes.push(builder.unlisted_process_row(thread));
        }
        if self.processes.len() > known {
            merge_same_processes(&mut self.processes);
        }
    }

    fn sum_threads_into_processes(&mut self) {
        let mut at = 0;
        for thread in &self.threads {
            if self.processes.get(at).is_none_or(|row| row.key != thread.process) {
                // Threads of one process are often neighbours: the search is needed only when it changes.
                let Ok(found) = self.processes.binary_search_by_key(&thread.process, |row| row.key) else {
                    continue;
                };
                at = found;
            }
            if let Some(process) = self.processes.get_mut(at) {
                process.delta += &thread.delta;
                // How a thread is scheduled is none of its process.
                process.flags |= thread.flags.difference(Flags::ONE_CPU);
                process.thread_rows += 1;
                process.sched += &thread.sched;
            }
        }
    }

    /// A delay of a histogram was no shorter than its bucket, whatever was reported of the longest one: the exit that had it may be
    /// lost, and wire and store keep whole µs. Otherwise a percentile could exceed the longest delay. Rows must be sorted by their keys.
    pub fn raise_longest_delays(&mut self) {
        for owner in &self.delays {
            let Some((top, _)) = owner.histogram.iter().next_back() else { continue };
            let least_ns = signed(*delay_range_ns(top).start());
            let sched = match owner.of {
                DelayOf::Cpu(_) => continue,
                DelayOf::Process(key) => {
                    let found = self.processes.binary_search_by_key(&key, |row| row.key);
                    found.ok().map(|at| &mut self.processes[at].sched)
                }
                DelayOf::Thread(_, key) => {
                    let found = self.threads.binary_search_by_key(&key, |row| row.key);
                    found.ok().map(|at| &mut self.threads[at].sched)
                }
            };
            if let Some(sched) = sched {
                sched.longest_delay_ns = sched.longest_delay_ns.max(least_ns);
            }
        }
    }

    /// Adds what threads without an exit row ran: growth of `ended_threads` less what was charged to them while they
    /// lived. /proc gives that total in ticks, so it may come out below zero; then it adds nothing. Returns the sum, ns.
    fn charge_ended_threads(&mut self, builder: &RowBuilder<'_>) -> i64 {
        let mut sum_ns = 0_i64;
        // Sorted once: searching all rows for each process would take the product of both.
        let vanished = LazyCell::new(|| builder.vanished_threads(&self.threads));
        for process in &builder.cur.processes {
            // Most processes have none: a source with exit records reports ended threads as rows.
            if process.ended_threads == Counters::default() {
                continue;
            }
            let before = match find_process(&builder.prev.processes, process.key) {
                Some(before) => before.ended_threads,
                None if builder.is_born(process.key.start_ns) => Counters::default(),
                // Older and seen for the first time: what its threads ran before is not known.
                None => continue,
            };
            // A total that fell belongs to a counter that was reset; guessing would invent CPU time.
            let Some(mut extra) = process.ended_threads.since(&before) else { continue };
            if extra.is_zero() {
                continue;
            }
            // The total has the thread's whole run time, but earlier intervals charged the part up to the earlier snapshot.
            let first = vanished.partition_point(|gone| gone.process < process.key);
            for gone in vanished[first..].iter().take_while(|gone| gone.process == process.key) {
                extra.subtract(&gone.counters);
            }
            let extra = extra.at_least_zero();
            sum_ns = sum_ns.saturating_add(extra.run_ns);
            if let Ok(at) = self.processes.binary_search_by_key(&process.key, |row| row.key) {
                self.processes[at].delta += &extra;
            }
        }
        sum_ns
    }

    /// Run time of exits whose rows were lost: growth of the cumulative total less the rows that did arrive, less what
    /// the vanished threads had been charged before. Only complete snapshots know.
    fn lost_exits_ns(&self, builder: &RowBuilder<'_>) -> i64 {
        let (prev, cur) = (builder.prev, builder.cur);
        if !cur.is_complete
            || !cur.fields.contains(Fields::EXITS)
            // Without a newly lost exit there is nothing to charge.
            || cur.health.exits_lost == prev.health.exits_lost
        {
            return 0;
        }
        let total = cur.exited_total.since(&prev.exited_total).unwrap_or_default().run_ns;
        let add = u64::saturating_add;
        let rows = cur.exits.iter().map(|exit| exit.thread.counters.run_ns).fold(0, add);
        // A lost exit is in the total from its start; the part up to the last snapshot was charged then.
        let charged = self
            .threads
            .iter()
            .filter(|row| row.flags.contains(Flags::NO_FINAL_COUNTERS))
            .filter_map(|row| find_thread(&prev.threads, row))
            .map(|thread| thread.counters.run_ns)
            .fold(0, add);
        total.saturating_sub(signed(rows)).saturating_sub(signed(charged)).max(0)
    }

    /// CPU time that no context-switch event attributes to a thread, minus the run time of threads that BPF cannot observe: that is
    /// known from /proc.
    fn unknown_ns(&self) -> i64 {
        let unknown = self.cpus.iter().map(|cpu| cpu.sched.unknown_ns).fold(0, u64::saturating_add);
        // The switch that follows a hidden thread breaks the chain, so the same time is in `unknown_ns` of a CPU.
        let unwatched = self.processes.iter().filter(|row| row.flags.contains(Flags::UNWATCHED));
        let ran = unwatched.map(|row| row.delta.run_ns).fold(0, i64::saturating_add);
        signed(unknown).saturating_sub(ran)
    }

    fn balance(&self, cur: &Snapshot, exited_without_row_ns: i64) -> Ledger {
        let sum = |mode: fn(&CpuInterval) -> u64| self.cpus.iter().map(mode).fold(0, u64::saturating_add);
        let ended = |row: &&ThreadInterval| row.life.has_ended();
        // Without IRQ time accounting the kernel charges interrupts to the running thread: adding them again would exceed the
        // capacity.
        let irq = |ns: u64| if cur.irq_in_run_time { 0 } else { signed(ns) };
        Ledger {
            capacity_ns: signed(self.duration_ns().saturating_mul(self.cpus.len() as u64)),
            threads_ns: run_sum(self.threads.iter().filter(|row| !ended(row))),
            exited_ns: run_sum(self.threads.iter().filter(ended)).saturating_add(exited_without_row_ns),
            irq_ns: irq(sum(|cpu| cpu.times.irq_ns)),
            softirq_ns: irq(sum(|cpu| cpu.times.softirq_ns)),
            steal_ns: signed(sum(|cpu| cpu.times.steal_ns)),
            idle_ns: signed(sum(|cpu| cpu.times.idle_ns.saturating_add(cpu.times.iowait_ns))),
            unknown_ns: self.unknown_ns(),
            irq_in_run_time: cur.irq_in_run_time,
        }
    }
}

fn matching_cpus<'a>(prev: &'a Snapshot, cur: &'a Snapshot) -> impl Iterator<Item = CpuInterval> + 'a {
    // Where the probe was switched on in between, the earlier sample has no counts to compare with.
    let has_sched = common_fields(prev, cur).contains(Fields::SCHED);
    cur.cpus.iter().filter_map(move |now| {
        // A CPU that came online inside has no earlier count: it adds neither capacity nor time.
        let at = prev.cpus.binary_search_by_key(&now.cpu, |cpu| cpu.cpu).ok()?;
        let row = CpuInterval::between(prev.cpus.get(at)?, now);
        Some(if has_sched { row } else { CpuInterval { sched: CpuSched::default(), ..row } })
    })
}

/// The interrupt lines that were handled. Without any in the earlier snapshot nothing is known to have been added.
fn matching_irqs<'a>(prev: &'a Snapshot, cur: &'a Snapshot) -> impl Iterator<Item = IrqInterval> + 'a {
    let is_known = common_fields(prev, cur).contains(Fields::IRQ);
    let mut before = Finder::new(&prev.irqs, |irq| irq.irq);
    let rows = cur.irqs.iter().filter(move |_| is_known);
    rows.map(move |now| IrqInterval::between(before.search(&now.irq), now, prev.is_complete))
        .filter(|row| !row.is_zero())
}

/// Sorts and makes one row of several with the same key: an ending beats a living one, a named one an unnamed one.
fn merge_same_processes(rows: &mut Vec<ProcessInterval>) {
    // A named row comes first, so that it is the one that stays.
    rows.sort_unstable_by_key(|row| (row.key, row.info.name.is_empty()));
    rows.dedup_by(|later, kept| {
        let same = later.key == kept.key;
        if same {
            kept.life = kept.life.joined(later.life);
            if kept.info.name.is_empty() {
                kept.info = Arc::clone(&later.info);
            }
        }
        same
    });
}

fn run_sum<'a>(rows: impl Iterator<Item = &'a ThreadInterval>) -> i64 {
    rows.fold(0, |sum: i64, row| sum.saturating_add(row.delta.run_ns))
}
