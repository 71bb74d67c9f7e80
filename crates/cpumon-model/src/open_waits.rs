//! [`OpenWaits`]: how many threads of each process wait for what, kept from snapshot to snapshot. A thread that rests has no row in an
//! interval, because nothing is received or stored of it; its wait counts all the same. Keeping the numbers up costs as much as changed,
//! not as much as there are threads.

use crate::{Fields, Flags, Interval, ProcessInterval, ProcessKey, WaitReason, trim_list};

/// What threads of one process wait for.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    process: ProcessKey,
    reason: WaitReason,
}

/// Threads that wait, by process and reason. In a steady state it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct OpenWaits {
    /// Numbers of threads, ascending by group; none is 0.
    groups: Vec<(Group, u32)>,
    buffers: WaitBuffers,
}

/// What [`OpenWaits`] needs only while it is changed; several can use the same memory in turn.
#[derive(Clone, Debug, Default)]
pub struct WaitBuffers {
    /// One thread more or less each, in any order: what happened since the numbers were made.
    changes: Vec<(Group, i32)>,
    /// One for each thread that waits but has a row of its own in the interval at hand.
    own: Vec<Group>,
    merged: Vec<(Group, u32)>,
}

impl OpenWaits {
    /// Memory that a thread takes if no other thread of its process waits for the same, bytes.
    pub const MOST_BYTES_A_THREAD: usize = size_of::<(Group, u32)>();

    /// Forgets all threads.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.buffers.changes.clear();
        self.buffers.own.clear();
    }

    /// Takes `buffers` and gives away its own: before changes, and again after them.
    pub fn exchange(&mut self, buffers: &mut WaitBuffers) {
        self.settle();
        self.buffers.own.clear();
        std::mem::swap(&mut self.buffers, buffers);
    }

    /// A thread of `process` begins to wait for `reason`; nothing happens if that is [`WaitReason::NONE`].
    pub fn join(&mut self, process: ProcessKey, reason: WaitReason) {
        self.change(process, reason, 1);
    }

    /// A thread that [`OpenWaits::join`]ed waits no longer, or ended.
    pub fn leave(&mut self, process: ProcessKey, reason: WaitReason) {
        self.change(process, reason, -1);
    }

    fn change(&mut self, process: ProcessKey, reason: WaitReason, threads: i32) {
        if reason.is_some() {
            self.buffers.changes.push((Group { process, reason }, threads));
        }
    }

    /// A thread that joined has a row of its own in the next interval of [`OpenWaits::add_to`], which has its time.
    pub fn has_row(&mut self, process: ProcessKey, reason: WaitReason) {
        if reason.is_some() {
            self.buffers.own.push(Group { process, reason });
        }
    }

    /// Forgets [`OpenWaits::has_row`]: nothing is added to the interval at hand.
    pub fn forget_rows(&mut self) {
        self.buffers.own.clear();
    }

    /// Adds the length of the interval to the process rows, once for each thread that waited from its begin to its end without a row
    /// of its own; `count` gets each row with the number of these threads. Processes without a row are left out. Where wait reasons
    /// are not measured, nothing is known and nothing is added.
    pub fn add_to(&mut self, interval: &mut Interval, mut count: impl FnMut(&mut ProcessInterval, u32)) {
        self.settle();
        self.buffers.own.sort_unstable();
        if interval.fields.contains(Fields::SCHED | Fields::WAITS) {
            let length_ns = interval.duration_ns();
            let mut own = self.buffers.own.iter().peekable();
            let mut rows = interval.processes.iter_mut().peekable();
            for &(group, threads) in &self.groups {
                // All three lists ascend, so one pass matches them.
                while own.next_if(|one| **one < group).is_some() {}
                let mut resting = threads;
                while own.next_if(|one| **one == group).is_some() {
                    resting = resting.saturating_sub(1);
                }
                while rows.next_if(|row| row.key < group.process).is_some() {}
                let row = rows.peek_mut().filter(|row| row.key == group.process);
                if let (Some(row), 1..) = (row, resting) {
                    add(row, group.reason, resting, length_ns);
                    count(row, resting);
                }
            }
        }
        self.buffers.own.clear();
    }

    /// Memory that it takes, bytes; buffers that others use too are left out.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.groups.capacity() * size_of::<(Group, u32)>()
    }

    /// Takes the changes into the numbers.
    fn settle(&mut self) {
        let WaitBuffers { changes, own, merged } = &mut self.buffers;
        if changes.is_empty() {
            return;
        }
        changes.sort_unstable_by_key(|change| change.0);
        let mut before = self.groups.iter().peekable();
        for same in changes.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(group, _)) = same.first() else { continue };
            while let Some(&unchanged) = before.next_if(|one| one.0 < group) {
                merged.push(unchanged);
            }
            let known = before.next_if(|one| one.0 == group).map_or(0, |one| i64::from(one.1));
            let threads = same.iter().fold(known, |sum, change| sum + i64::from(change.1));
            if let Ok(threads @ 1..) = u32::try_from(threads) {
                merged.push((group, threads));
            }
        }
        merged.extend(before);
        self.groups.clear();
        // Copied, not swapped: the buffers are as long as the largest of those that use them needs.
        self.groups.reserve_exact(merged.len());
        self.groups.extend_from_slice(merged);
        changes.clear();
        merged.clear();
        trim_list(&mut self.groups);
        trim_list(changes);
        trim_list(own);
        trim_list(merged);
    }
}

fn add(row: &mut ProcessInterval, reason: WaitReason, threads: u32, length_ns: u64) {
    if reason == WaitReason::UNWATCHED {
        row.flags |= Flags::UNWATCHED;
        return;
    }
    let ns = length_ns.saturating_mul(threads.into());
    row.sched.blocked_ns = row.sched.blocked_ns.saturating_add_unsigned(ns);
    row.sched.waits.add(reason, ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moment;

    const FUTEX: WaitReason = WaitReason::syscall(202);
    const SECOND_NS: u64 = 1_000_000_000;

    fn key(pid: u32) -> ProcessKey {
        ProcessKey { pid, start_ns: 7 }
    }

    /// Blocked time, futex time, disk time (all in s) and threads of each of these processes over a second.
    fn second(waits: &mut OpenWaits, pids: &[u32]) -> Vec<(i64, u64, u64, u32)> {
        let mut interval = Interval { fields: Fields::SCHED | Fields::WAITS, ..Interval::default() };
        interval.end = Moment { mono_ns: SECOND_NS, ..Moment::default() };
        interval
            .processes
            .extend(pids.iter().map(|&pid| ProcessInterval { key: key(pid), ..ProcessInterval::default() }));
        waits.add_to(&mut interval, |row, threads| row.thread_rows += threads);
        let rows = interval.processes.iter();
        rows.map(|row| {
            let of = |reason| row.sched.waits.of(reason) / SECOND_NS;
            let blocked_s = row.sched.blocked_ns / SECOND_NS.cast_signed();
            (blocked_s, of(FUTEX), of(WaitReason::DISK), row.thread_rows)
        })
        .collect()
    }

    #[test]
    fn threads_that_wait_count_until_they_leave() {
        let mut waits = OpenWaits::default();
        for (pid, reason) in [(9, FUTEX), (5, WaitReason::DISK), (9, FUTEX), (9, WaitReason::DISK)] {
            waits.join(key(pid), reason);
        }
        waits.join(key(6), WaitReason::NONE);
        assert_eq!(second(&mut waits, &[5, 6, 9]), [(1, 0, 1, 1), (0, 0, 0, 0), (3, 2, 1, 3)]);
        waits.leave(key(9), FUTEX);
        waits.leave(key(5), WaitReason::DISK);
        waits.exchange(&mut WaitBuffers::default());
        waits.join(key(6), FUTEX);
        assert_eq!(second(&mut waits, &[6, 9]), [(1, 1, 0, 1), (2, 1, 1, 2)]);
        assert_eq!(second(&mut waits, &[1, 9]), [(0, 0, 0, 0), (2, 1, 1, 2)], "6 has no row");
    }

    #[test]
    fn a_row_of_its_own_takes_a_thread_out_of_one_interval() {
        let mut waits = OpenWaits::default();
        waits.join(key(3), FUTEX);
        waits.join(key(3), FUTEX);
        waits.has_row(key(3), FUTEX);
        waits.has_row(key(2), FUTEX);
        waits.has_row(key(3), WaitReason::DISK);
        assert_eq!(second(&mut waits, &[3]), [(1, 1, 0, 1)]);
        assert_eq!(second(&mut waits, &[3]), [(2, 2, 0, 2)]);
        // More rows than threads, which only a sender makes that lies.
        (0..9).for_each(|_| waits.has_row(key(3), FUTEX));
        assert_eq!(second(&mut waits, &[3]), [(0, 0, 0, 0)]);
        (0..9).for_each(|_| waits.leave(key(3), FUTEX));
        assert_eq!(second(&mut waits, &[3]), [(0, 0, 0, 0)]);
        waits.join(key(3), FUTEX);
        assert_eq!(second(&mut waits, &[3]), [(1, 1, 0, 1)]);
    }

    #[test]
    fn what_is_not_measured_is_not_added() {
        let mut waits = OpenWaits::default();
        waits.join(key(3), FUTEX);
        waits.join(key(4), WaitReason::UNWATCHED);
        let mut interval = Interval { fields: Fields::SCHED, ..Interval::default() };
        interval.end.mono_ns = SECOND_NS;
        interval.processes =
            [3, 4].map(|pid| ProcessInterval { key: key(pid), ..ProcessInterval::default() }).to_vec();
        let before = interval.clone();
        waits.add_to(&mut interval, |_, _| ());
        assert_eq!(interval, before, "without wait reasons nothing reports who sleeps");
        interval.fields |= Fields::WAITS;
        waits.add_to(&mut interval, |_, _| ());
        assert_eq!(interval.processes[0].sched.blocked_ns, 1_000_000_000);
        let unwatched = &interval.processes[1];
        assert_eq!((unwatched.sched, unwatched.flags), (before.processes[1].sched, Flags::UNWATCHED));
    }
}
