//! Tasks without a row: nothing is received or stored of those that rest. Processes that did nothing are listed now and then
//! ([`IdleProcess`]), and get rows when an interval is read. [`OpenWaits`] knows how many threads of each process wait for what, from
//! snapshot to snapshot: their waits count all the same. Keeping the numbers up costs as much as changed, not as much as there are
//! threads.

use std::sync::Arc;

use crate::{
    Fields, Flags, IdleProcess, Interval, ProcessInterval, ProcessKey, SourceKind, WaitReason, bytes_of_info,
    trim_list,
};

impl IdleProcess {
    /// Memory, bytes: its place in a list, and its texts.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + bytes_of_info(&self.info)
    }

    /// A row's process at the end of its interval; `None` if the process ended, or the row is a sum. `ended`: number of its threads
    /// that ended in the interval; the row counts them too.
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
    pub fn row(&self) -> ProcessInterval {
        let row = ProcessInterval::new(self.key, self.parent_pid, Arc::clone(&self.info));
        ProcessInterval { thread_rows: self.thread_rows, ..row }
    }
}

impl Interval {
    /// Whether all processes that are there at its end have a row or are listed as idle. Others may be, too: their end was lost.
    /// v1 devices list some processes and not others.
    pub fn knows_all_processes(&self) -> bool {
        self.known_processes().is_some_and(|known| known >= u64::from(self.process_count))
    }

    /// Whether these are all processes that are there, and no others.
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

    /// The processes of its rows, ascending, as they are at its end; `None`: the process ended, or the row is a sum.
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

/// Threads of one process that wait for the same reason.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitGroup {
    process: ProcessKey,
    reason: WaitReason,
}

#[derive(Copy, Clone, Debug)]
struct Count {
    group: WaitGroup,
    threads: u32,
    /// Of these, threads that have a row of their own in the current interval.
    own: u32,
}

/// Where a thread's group was found last, as a hint: groups move only when others come or go, and then not far. So a thread that
/// waits for the same again costs one comparison and no search.
#[derive(Copy, Clone, Debug, Default)]
pub struct WaitPlace(u32);

/// Threads that wait, by process and reason. In a steady state it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct OpenWaits {
    /// Ascending by group. Those without threads stay until the next [`OpenWaits::settle`].
    groups: Vec<Count>,
    /// A group without threads is still in the list.
    has_empty: bool,
    /// Some group has threads with rows of their own.
    has_own: bool,
    buffers: WaitBuffers,
}

/// What [`OpenWaits`] needs only while it is changed; several can use the same memory in turn.
#[derive(Clone, Debug, Default)]
pub struct WaitBuffers {
    /// One thread more or less each of groups that are not in the list, in any order.
    changes: Vec<(WaitGroup, i32)>,
    /// Groups to insert into the list, ascending.
    fresh: Vec<Count>,
}

impl OpenWaits {
    /// Memory that a thread takes if no other thread of its process waits for the same, bytes.
    pub const MOST_BYTES_A_THREAD: usize = size_of::<Count>();

    /// Forgets all threads.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.buffers.changes.clear();
        (self.has_empty, self.has_own) = (false, false);
    }

    /// Takes `buffers` and gives away its own: before changes, and again after them.
    pub fn exchange(&mut self, buffers: &mut WaitBuffers) {
        self.settle();
        self.forget_rows();
        std::mem::swap(&mut self.buffers, buffers);
    }

    /// A thread of `process` begins to wait for `reason`; nothing happens if that is [`WaitReason::NONE`].
    pub fn join(&mut self, process: ProcessKey, reason: WaitReason, place: &mut WaitPlace) {
        self.change(process, reason, 1, place);
    }

    /// A thread that [`OpenWaits::join`]ed waits no longer, or ended.
    pub fn leave(&mut self, process: ProcessKey, reason: WaitReason, mut place: WaitPlace) {
        self.change(process, reason, -1, &mut place);
    }

    fn change(&mut self, process: ProcessKey, reason: WaitReason, more: i32, place: &mut WaitPlace) {
        if !reason.is_some() {
            return;
        }
        let group = WaitGroup { process, reason };
        match self.find(group, place) {
            Some(at) => {
                let threads = &mut self.groups[at].threads;
                *threads = threads.saturating_add_signed(more);
                self.has_empty |= *threads == 0;
            }
            None => self.buffers.changes.push((group, more)),
        }
    }

    /// A thread that joined has a row of its own in the next interval of [`OpenWaits::add_to`], which has its time.
    pub fn has_row(&mut self, process: ProcessKey, reason: WaitReason, place: &mut WaitPlace) {
        if !reason.is_some() {
            return;
        }
        self.settle();
        if let Some(at) = self.find(WaitGroup { process, reason }, place) {
            self.groups[at].own = self.groups[at].own.saturating_add(1);
            self.has_own = true;
        }
    }

    /// Forgets [`OpenWaits::has_row`]: nothing is added to the current interval.
    pub fn forget_rows(&mut self) {
        if std::mem::take(&mut self.has_own) {
            self.groups.iter_mut().for_each(|count| count.own = 0);
        }
    }

    /// Adds the length of the interval to the process rows, once for each thread that waited from its start to its end without a row
    /// of its own; `count` gets each row with the number of these threads. Processes without a row are left out. Where wait reasons
    /// are not measured, nothing is known and nothing is added.
    pub fn add_to(&mut self, interval: &mut Interval, mut count: impl FnMut(&mut ProcessInterval, u32)) {
        self.settle();
        if interval.fields.contains(Fields::SCHED | Fields::WAITS) {
            let length_ns = interval.duration_ns();
            let mut rows = interval.processes.iter_mut().peekable();
            for &Count { group, threads, own } in &self.groups {
                let resting = threads.saturating_sub(own);
                if resting == 0 {
                    continue;
                }
                // Both lists ascend, so one pass matches them.
                while rows.next_if(|row| row.key < group.process).is_some() {}
                if let Some(row) = rows.peek_mut().filter(|row| row.key == group.process) {
                    add(row, group.reason, resting, length_ns);
                    count(row, resting);
                }
            }
        }
        self.forget_rows();
    }

    /// Memory that it takes, bytes; buffers that others use too are left out.
    pub fn bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Count>()
    }

    /// Index of a group in the list; `place` is a hint and is updated.
    fn find(&self, group: WaitGroup, place: &mut WaitPlace) -> Option<usize> {
        let at = usize::try_from(place.0).unwrap_or(usize::MAX).min(self.groups.len());
        if self.groups.get(at).is_some_and(|count| count.group == group) {
            return Some(at);
        }
        let at = search_from(&self.groups, at, group);
        *place = WaitPlace(u32::try_from(at).unwrap_or(u32::MAX));
        self.groups.get(at).is_some_and(|count| count.group == group).then_some(at)
    }

    /// Inserts new groups into the list, and removes groups without threads.
    fn settle(&mut self) {
        if std::mem::take(&mut self.has_empty) {
            self.groups.retain(|count| count.threads > 0);
            trim_list(&mut self.groups);
        }
        let WaitBuffers { changes, fresh } = &mut self.buffers;
        if changes.is_empty() {
            return;
        }
        changes.sort_unstable_by_key(|change| change.0);
        for same in changes.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(group, _)) = same.first() else { continue };
            let threads = same.iter().fold(0, |sum, change| sum + i64::from(change.1));
            if let Ok(threads @ 1..) = u32::try_from(threads) {
                fresh.push(Count { group, threads, own: 0 });
            }
        }
        insert(&mut self.groups, fresh);
        changes.clear();
        fresh.clear();
        trim_list(changes);
        trim_list(fresh);
    }
}

/// Where a group is in the list, or would be: by galloping from `from` on, forwards or backwards.
fn search_from(groups: &[Count], from: usize, group: WaitGroup) -> usize {
    let is_before = |at: usize| groups[at].group < group;
    let mut step = 1;
    let (low, high) = if from < groups.len() && is_before(from) {
        let mut low = from + 1;
        while low + step < groups.len() && is_before(low + step) {
            low += step + 1;
            step *= 2;
        }
        (low, (low + step).min(groups.len()))
    } else {
        let mut high = from;
        while high >= step && high > 0 && !is_before(high - step) {
            high -= step;
            step *= 2;
        }
        (high.saturating_sub(step), high)
    };
    low + groups[low..high].partition_point(|count| count.group < group)
}

/// Inserts groups that the list does not have. Both ascend.
fn insert(groups: &mut Vec<Count>, fresh: &[Count]) {
    let mut from = groups.len();
    // Exactly: what a host takes is counted by the capacity of its lists.
    groups.reserve_exact(fresh.len());
    groups.extend_from_slice(fresh);
    // From behind, as in an insertion sort: each one moves at most once, to its final place.
    for (more, one) in fresh.iter().enumerate().rev() {
        while from > 0 && groups[from - 1].group > one.group {
            groups[from + more] = groups[from - 1];
            from -= 1;
        }
        groups[from + more] = *one;
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
mod tests;
