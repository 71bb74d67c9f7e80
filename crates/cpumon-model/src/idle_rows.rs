//! How intervals get rows of processes that are there and did nothing: they are listed now and then, and added when an interval is read.

use std::sync::Arc;

use crate::{
    Delta, Fields, Flags, IdleProcess, Interval, Life, ProcessInterval, ProcessKey, SchedDelta, SourceKind,
    bytes_of_info,
};

impl IdleProcess {
    /// Memory, bytes: its place in a list, and its texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + bytes_of_info(&self.info)
    }

    /// What a row leaves behind at the end of its interval; `None` if the process ended, or the row is of none. `ended`: threads of it
    /// that ended in the interval, which the row counts.
    fn after(row: &ProcessInterval, ended: usize) -> Option<Self> {
        let is_there = !row.life.has_ended() && !row.flags.contains(Flags::SUMMED);
        is_there.then(|| Self {
            key: row.key,
            info: Arc::clone(&row.info),
            parent_pid: row.parent_pid,
            thread_rows: row.thread_rows.saturating_sub(u32::try_from(ended).unwrap_or(u32::MAX)),
        })
    }

    /// Its row in an interval in which it did nothing.
    #[must_use]
    pub fn row(&self) -> ProcessInterval {
        // Each field by name: a default would allocate a description and drop it.
        ProcessInterval {
            key: self.key,
            parent_pid: self.parent_pid,
            info: Arc::clone(&self.info),
            thread_rows: self.thread_rows,
            life: Life::Alive,
            flags: Flags::empty(),
            delta: Delta::default(),
            sched: SchedDelta::default(),
        }
    }
}

impl Interval {
    /// Whether all processes that are there at its end have a row or are listed as idle. Others may be, too: their end was lost.
    /// v1 devices list some processes and not others.
    #[must_use]
    pub fn knows_all_processes(&self) -> bool {
        self.known_processes().is_some_and(|known| known >= u64::from(self.process_count))
    }

    /// Whether these are all processes that are there, and no others.
    #[must_use]
    pub fn knows_processes_exactly(&self) -> bool {
        self.known_processes() == Some(self.process_count.into())
    }

    /// How many have a row or are listed as idle; `None`: nothing follows from it.
    fn known_processes(&self) -> Option<u64> {
        let is_process = |row: &&ProcessInterval| !row.life.has_ended() && !row.flags.contains(Flags::SUMMED);
        let alive = self.processes.iter().filter(is_process).count();
        let idle = self.idle_processes.as_deref().map_or(0, <[_]>::len);
        let has_all = !matches!(self.source, SourceKind::V1 | SourceKind::Legacy) && self.process_count > 0;
        has_all.then_some((alive + idle) as u64)
    }

    /// The processes of its rows, ascending, as they are at its end; `None`: the process ended, or the row is of none.
    pub fn processes_after(&self) -> impl Iterator<Item = (ProcessKey, Option<IdleProcess>)> {
        let ended = self.threads.iter().filter(|row| row.life.has_ended()).map(|row| row.process);
        let mut ended: Vec<ProcessKey> = ended.collect();
        // Rows of threads ascend by thread.
        ended.sort_unstable();
        let mut at = 0;
        self.processes.iter().map(move |row| {
            let rest = ended.get(at..).unwrap_or_default();
            let first = rest.partition_point(|process| *process < row.key);
            let behind = rest.partition_point(|process| *process <= row.key);
            at += behind;
            (row.key, IdleProcess::after(row, behind - first))
        })
    }

    /// Whether a process without a row did nothing. After a loss it may have done something that a later interval has, unless the
    /// receiver follows by its waits what each thread does.
    #[must_use]
    pub fn is_idle_without_row(&self) -> bool {
        self.fields.contains(Fields::SCHED | Fields::WAITS)
            || !self.flags.intersects(Flags::PARTIAL | Flags::SPANS_LOSS | Flags::RESTART)
    }

    /// Adds rows of zeros of those among these processes that have no row. `there` ascends by key.
    pub fn add_idle<'a>(&mut self, there: impl IntoIterator<Item = &'a IdleProcess>) {
        let known = self.processes.len();
        let (mut at, mut idle) = (0, Vec::new());
        for process in there {
            while self.processes.get(at).is_some_and(|row| row.key < process.key) {
                at += 1;
            }
            if self.processes.get(at).is_none_or(|row| row.key != process.key) {
                idle.push(process.row());
            }
        }
        self.processes.append(&mut idle);
        if self.processes.len() > known {
            // Two runs: a stable sort merges them in one pass.
            self.processes.sort_by_key(|row| row.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadInterval;

    fn idle(pid: u32) -> IdleProcess {
        IdleProcess { key: ProcessKey { pid, start_ns: 1 }, thread_rows: 2, ..IdleProcess::default() }
    }

    #[test]
    fn rows_of_zeros_are_added_where_there_is_none() {
        let worked =
            |pid| ProcessInterval { delta: Delta { run_ns: 7, ..Delta::default() }, ..idle(pid).row() };
        let mut interval = Interval { processes: vec![worked(3), worked(9)], ..Interval::default() };
        interval.add_idle(&[1, 3, 4, 9, 12].map(idle));
        let rows: Vec<_> = interval.processes.iter().map(|row| (row.key.pid, row.delta.run_ns)).collect();
        assert_eq!(rows, [(1, 0), (3, 7), (4, 0), (9, 7), (12, 0)]);
    }

    #[test]
    fn what_ended_leaves_nothing_behind_and_sums_are_no_process() {
        let row = idle(5).row();
        let after = |row| {
            let interval = Interval { processes: vec![row], ..Interval::default() };
            interval.processes_after().next().unwrap()
        };
        assert_eq!(after(row.clone()), (row.key, Some(idle(5))));
        for life in [Life::Ended, Life::BornEnded] {
            assert_eq!(after(ProcessInterval { life, ..row.clone() }), (row.key, None));
        }
        assert_eq!(after(ProcessInterval { flags: Flags::SUMMED, ..row }).1, None);
    }

    #[test]
    fn threads_that_ended_count_in_the_row_and_not_after_it() {
        let thread = |pid, life| ThreadInterval { process: idle(pid).key, life, ..ThreadInterval::default() };
        let interval = Interval {
            processes: [3, 5, 8, 9].map(|pid| ProcessInterval { thread_rows: 3, ..idle(pid).row() }).into(),
            // Of 6 there is no row.
            threads: vec![
                thread(8, Life::Ended),
                thread(5, Life::Alive),
                thread(6, Life::Ended),
                thread(3, Life::Ended),
                thread(8, Life::BornEnded),
            ],
            ..Interval::default()
        };
        let left = interval.processes_after().map(|(key, one)| (key.pid, one.unwrap().thread_rows));
        assert_eq!(left.collect::<Vec<_>>(), [(3, 2), (5, 3), (8, 1), (9, 3)]);
    }

    #[test]
    fn a_list_with_a_process_too_many_is_not_exact() {
        let of = |process_count| Interval {
            process_count,
            processes: vec![idle(1).row(), ProcessInterval { life: Life::Ended, ..idle(2).row() }],
            idle_processes: Some([3, 4].map(idle).into()),
            ..Interval::default()
        };
        assert_eq!([2, 3, 4].map(|count| of(count).knows_processes_exactly()), [false, true, false]);
        assert_eq!([2, 3, 4].map(|count| of(count).knows_all_processes()), [true, true, false]);
    }

    #[test]
    fn after_a_loss_a_missing_row_is_no_data() {
        let of = |flags, fields| Interval { fields, flags, ..Interval::default() }.is_idle_without_row();
        assert!(of(Flags::empty(), Fields::RUN));
        assert!(!of(Flags::PARTIAL, Fields::RUN) && !of(Flags::SPANS_LOSS, Fields::RUN));
        assert!(of(Flags::SPANS_LOSS, Fields::RUN | Fields::SCHED | Fields::WAITS));
    }
}
