//! Which rows of an interval are stored: those of tasks to which something happened. And a copy of them in reused memory: what waits in
//! the queue takes the memory of active rows, not of every thread of a host.

use std::sync::Arc;

use cpumon_model::{
    DelayOf, Delays, Delta, Fields, Flags, Interval, Life, ProcessInterval, ProcessKey, Resting, SourceKind,
    ThreadInterval, empty_list,
};

/// A v1 device lists some processes and not others: a row of zeros there means *known to be idle*, no row means *no data*.
pub(crate) fn stores_idle(interval: &Interval) -> bool {
    matches!(interval.source, SourceKind::V1 | SourceKind::Legacy)
}

/// Whether the thread gets a row: something happened to it, or a run delay of it ended that its counters do not show yet.
#[inline]
pub(crate) fn is_stored_thread(interval: &Interval, row: &ThreadInterval) -> bool {
    // Delays are in order of their owner, threads last: without one at the end there is nothing to search
    // for.
    is_active(&row.delta, row.life, row.flags)
        || (matches!(interval.delays.last(), Some(Delays { of: DelayOf::Thread(..), .. }))
            && interval.delays_of(DelayOf::Thread(row.process, row.key)).is_some())
}

/// The process whose run delays these are; none of a thread, which has a row of its own.
pub(crate) fn process_of(of: DelayOf) -> Option<ProcessKey> {
    if let DelayOf::Process(key) = of { Some(key) } else { None }
}

/// Whether something happened to the process itself; one with an active thread is stored too.
#[inline]
pub(crate) fn is_active_process(row: &ProcessInterval) -> bool {
    is_active(&row.delta, row.life, row.flags)
}

#[inline]
fn is_active(delta: &Delta, life: Life, flags: Flags) -> bool {
    // One number of all counters, without a branch.
    let all = delta.user_ns
        | delta.system_ns
        | delta.run_ns
        | delta.run_delay_ns
        | delta.voluntary_switches
        | delta.involuntary_switches;
    all != 0 || life != Life::Alive || !flags.is_empty()
}

/// Whether the threads that are there all have rows.
pub(super) fn has_all_threads(interval: &Interval) -> bool {
    let alive = interval.threads.iter().filter(|row| !row.life.has_ended()).count();
    alive >= usize::try_from(interval.thread_count).unwrap_or(usize::MAX)
}

/// The threads that wait without a row that is stored; `None`: not known.
pub(super) fn resting_of(interval: &Interval) -> Option<Arc<[Resting]>> {
    if !interval.fields.contains(Fields::SCHED | Fields::WAITS) {
        return None;
    }
    let listed = match &interval.resting {
        Some(listed) => &**listed,
        None if has_all_threads(interval) => &[],
        None => return None,
    };
    let idle = interval.threads.iter().filter(|row| !is_stored_thread(interval, row));
    Some(idle.filter_map(ThreadInterval::resting).chain(listed.iter().copied()).collect())
}

#[derive(Debug, Default)]
pub(crate) struct ActiveCopy {
    pub(crate) interval: Interval,
    /// Processes of the active threads, sorted.
    keys: Vec<ProcessKey>,
}

impl ActiveCopy {
    /// Forgets the rows, and the texts that they share. Their places stay for the next interval, unless there were far fewer rows.
    pub(crate) fn clear(&mut self) {
        let Self { interval, keys } = self;
        empty_list(&mut interval.cpus);
        empty_list(&mut interval.processes);
        empty_list(&mut interval.threads);
        empty_list(&mut interval.irqs);
        interval.resting = None;
        interval.idle_processes = None;
        empty_list(&mut interval.delays);
        empty_list(&mut interval.cgroups);
        empty_list(keys);
    }

    /// Memory that the lists have reserved, whatever is in them, bytes.
    pub(crate) fn capacity_bytes(&self) -> usize {
        let Self { interval, keys } = self;
        bytes_of(&interval.cpus)
            + bytes_of(&interval.processes)
            + bytes_of(&interval.threads)
            + bytes_of(&interval.irqs)
            + bytes_of(&interval.delays)
            + bytes_of(&interval.cgroups)
            + bytes_of(keys)
    }

    /// Copies everything of `from` but its idle rows; `with_idle`: those of processes too, and the threads that wait, for the list of
    /// all that are there.
    pub(crate) fn fill(&mut self, from: &Interval, with_idle: bool) {
        let Interval { mut cpus, mut processes, mut threads, mut irqs, mut delays, mut cgroups, .. } =
            std::mem::take(&mut self.interval);
        cpus.clear();
        cpus.extend_from_slice(&from.cpus);
        irqs.clear();
        irqs.extend_from_slice(&from.irqs);
        delays.clear();
        delays.extend_from_slice(&from.delays);
        cgroups.clear();
        cgroups.extend_from_slice(&from.cgroups);
        threads.clear();
        let stores_all = stores_idle(from);
        let stored = || from.threads.iter().filter(|row| stores_all || is_stored_thread(from, row));
        // Counted first: a list that grows by itself has up to twice the space that it needs.
        threads.reserve_exact(stored().count());
        threads.extend(stored().copied());
        self.keys.clear();
        self.keys.extend(threads.iter().map(|row| row.process));
        // A process needs a row for its histogram even if no counter of it moved.
        self.keys.extend(delays.iter().filter_map(|row| process_of(row.of)));
        self.keys.sort_unstable();
        processes.clear();
        let is_stored = |row: &&_| {
            stores_all || with_idle || is_active_process(row) || self.keys.binary_search(&row.key).is_ok()
        };
        processes.extend(from.processes.iter().filter(is_stored).cloned());
        self.interval = Interval {
            host: from.host,
            boot: from.boot,
            sequence: from.sequence,
            source: from.source,
            fields: from.fields,
            flags: from.flags,
            begin: from.begin,
            end: from.end,
            wall_shift_ns: from.wall_shift_ns,
            clock_piece: from.clock_piece,
            trust: from.trust,
            pass_ns: from.pass_ns,
            v1_ticks: from.v1_ticks,
            cpus,
            processes,
            threads,
            thread_count: from.thread_count,
            process_count: from.process_count,
            resting: if with_idle { resting_of(from) } else { None },
            corrects_lists: from.corrects_lists,
            idle_processes: from.idle_processes.clone().filter(|_| with_idle),
            irqs,
            delays,
            cgroups,
            cgroups_left_out: from.cgroups_left_out,
            pressure: from.pressure,
            ledger: from.ledger,
            health: from.health,
        };
    }
}

fn bytes_of<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}
