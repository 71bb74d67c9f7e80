//! One set: the rows that one device sent with one time stamp, as an [`Interval`] with sorted rows and the order in which they
//! came.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, Flags, Interval, Ledger, Moment, ProcessInfo, ProcessInterval, ProcessKey, SourceKind,
    ThreadInterval, ThreadKey,
};

use super::order::SetOrder;
use super::report::OddRows;
use super::rows::{ProcessRow, ThreadRow};

const NS_PER_MS: i64 = 1_000_000;

/// A set being put together.
pub(super) struct Set {
    pub ip: String,
    ticks: i64,
    wall_ns: i64,
    duration_ms: u32,
    first_idx: i64,
    /// With `Processes.idx`, in order of arrival.
    processes: Vec<(ProcessInterval, i64)>,
    by_pid: HashMap<u32, Vec<usize>>,
    threads: Vec<ThreadInterval>,
    by_tid: HashMap<u32, usize>,
}

/// Times of one row; the flag is set if they cannot be.
fn delta(user_ms: i64, kernel_ms: i64) -> (Delta, Flags) {
    let user_ns = user_ms.saturating_mul(NS_PER_MS);
    let system_ns = kernel_ms.saturating_mul(NS_PER_MS);
    // A time that does not divide back was cut off by the multiplication above.
    let exact = |ns: i64, ms: i64| ns / NS_PER_MS == ms && ms >= 0;
    let run_ns = user_ns.checked_add(system_ns);
    let is_possible = exact(user_ns, user_ms) && exact(system_ns, kernel_ms) && run_ns.is_some();
    let run_ns = run_ns.unwrap_or_else(|| user_ns.saturating_add(system_ns));
    let flags = if is_possible { Flags::empty() } else { Flags::IMPOSSIBLE };
    (Delta { user_ns, system_ns, run_ns, ..Delta::default() }, flags)
}

impl Set {
    pub fn new(row: &ProcessRow, wall_ns: i64) -> Self {
        Self {
            ip: row.ip.clone(),
            ticks: row.ticks,
            wall_ns,
            duration_ms: row.duration_ms,
            first_idx: row.idx,
            processes: Vec::new(),
            by_pid: HashMap::new(),
            threads: Vec::new(),
            by_tid: HashMap::new(),
        }
    }

    /// Whether `row` belongs to this set.
    pub fn takes(&self, row: &ProcessRow) -> bool {
        self.ticks == row.ticks && self.ip == row.ip
    }

    pub fn len(&self) -> usize {
        self.processes.len() + self.threads.len()
    }

    /// Adds a process row; returns its index for [`Set::add_thread`].
    pub fn add_process(&mut self, row: &ProcessRow, odd: &mut OddRows) -> usize {
        let (delta, flags) = delta(row.user_ms, row.kernel_ms);
        odd.impossible += u64::from(!flags.is_empty());
        odd.nameless += u64::from(row.name.is_empty());
        odd.other_duration += u64::from(row.duration_ms != self.duration_ms);
        // Rows of one set were measured together; the longest duration covers them all.
        self.duration_ms = self.duration_ms.max(row.duration_ms);
        let same_pid = self.by_pid.entry(row.pid).or_default();
        let same = same_pid.iter().copied().find(|at| *self.processes[*at].0.info.name == *row.name);
        if let Some(at) = same {
            let (first, _) = &mut self.processes[at];
            if first.delta == delta {
                odd.duplicates += 1;
            } else {
                odd.merged += 1;
                first.delta += &delta;
                first.flags |= flags;
            }
            return at;
        }
        let at = self.processes.len();
        // Two names under one id stay apart, as in sets that arrive live: no start time is known to separate them by.
        let key = ProcessKey { pid: row.pid, start_ns: same_pid.len() as u64 };
        same_pid.push(at);
        let info = Arc::new(ProcessInfo { name: row.name.as_str().into(), ..ProcessInfo::default() });
        self.processes
            .push((ProcessInterval { key, info, flags, delta, ..ProcessInterval::default() }, row.idx));
        at
    }

    /// Adds a thread row of the process at `process`.
    pub fn add_thread(&mut self, process: usize, row: &ThreadRow, odd: &mut OddRows) {
        let Some((owner, _)) = self.processes.get_mut(process) else { return };
        let (delta, flags) = delta(row.user_ms, row.kernel_ms);
        odd.impossible += u64::from(!flags.is_empty());
        owner.flags |= flags;
        match self.by_tid.entry(row.tid) {
            Entry::Occupied(at) => {
                let first = &mut self.threads[*at.get()];
                if first.delta == delta && first.process == owner.key {
                    odd.duplicates += 1;
                } else {
                    odd.merged += 1;
                    first.delta += &delta;
                    first.flags |= flags;
                }
            }
            Entry::Vacant(at) => {
                at.insert(self.threads.len());
                owner.thread_rows = owner.thread_rows.saturating_add(1);
                // The file has no start times.
                let key = ThreadKey { tid: row.tid, start_ns: 0 };
                self.threads.push(ThreadInterval {
                    key,
                    process: owner.key,
                    flags,
                    delta,
                    ..ThreadInterval::default()
                });
            }
        }
    }

    /// The interval, without its host, and the order its rows came in.
    pub fn finish(self) -> (Interval, SetOrder) {
        let (begin, end) = self.ends();
        let mut processes = self.processes;
        processes.sort_by_key(|(row, _)| row.key);
        let mut threads: Vec<_> = self.threads.into_iter().zip(0_u32..).collect();
        threads.sort_by_key(|(row, _)| row.key);
        let order = SetOrder {
            process_idx: processes.iter().map(|(_, idx)| *idx).collect(),
            thread_position: threads.iter().map(|(_, position)| *position).collect(),
        };
        let processes: Vec<_> = processes.into_iter().map(|(row, _)| row).collect();
        let threads: Vec<_> = threads.into_iter().map(|(row, _)| row).collect();
        let threads_ns = processes.iter().fold(0_i64, |sum, row| sum.saturating_add(row.delta.run_ns));
        let flags = processes.iter().fold(Flags::empty(), |all, row| all | row.flags);
        let interval = Interval {
            // The store knows a duplicate by end and sequence, and this is the same at each import of the
            // file.
            sequence: self.first_idx.try_into().unwrap_or(0),
            source: SourceKind::Legacy,
            fields: Fields::USER | Fields::SYSTEM | Fields::RUN,
            flags,
            begin,
            end,
            v1_ticks: Some(self.ticks),
            thread_count: threads.len().try_into().unwrap_or(u32::MAX),
            process_count: processes.len().try_into().unwrap_or(u32::MAX),
            processes,
            threads,
            ledger: Ledger { threads_ns, ..Ledger::default() },
            ..Interval::default()
        };
        (interval, order)
    }

    /// The stamp is the set's end; its length is the longest duration. The monotonic clock, which the file does not
    /// know, runs with the wall clock.
    fn ends(&self) -> (Moment, Moment) {
        let duration_ns = u64::from(self.duration_ms) * NS_PER_MS.unsigned_abs();
        // At least the duration, because the start on this clock cannot be negative.
        let end_mono_ns = u64::try_from(self.wall_ns).unwrap_or(0).max(duration_ns);
        let begin_wall_ns = self.wall_ns.saturating_sub_unsigned(duration_ns);
        let begin = Moment { mono_ns: end_mono_ns - duration_ns, boot_ns: 0, wall_ns: begin_wall_ns };
        (begin, Moment { mono_ns: end_mono_ns, boot_ns: 0, wall_ns: self.wall_ns })
    }
}
