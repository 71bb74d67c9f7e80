//! Copies the active rows of an interval into reused memory. What waits in the queue takes the memory of active rows, not of
//! every thread of a host.

use cpumon_model::{Interval, ProcessKey, empty_list};

use super::pack::{is_active_process, is_stored_thread, process_of, stores_idle};
use super::process_lists::resting_of;

/// A copy, and buffers for making it.
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

    /// Memory of its lists, whatever is in them.
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
