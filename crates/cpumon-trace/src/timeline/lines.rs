//! Lines of time: parts that follow each other, each up to the next one's begin, with sums in front of every 32nd, so that the times of a
//! bucket take two searches. [`ThreadParts`] is the line of a thread, with its states.

use cpumon_model::WaitReason;
use cpumon_sched::ThreadState;

/// Parts between two sums.
pub(super) const BLOCK: usize = 32;

pub(super) trait LinePart: Copy {
    fn start_ns(&self) -> u64;

    /// Index of the line's sum that gets its time. A number beyond the sums: none gets it.
    fn kind(&self) -> usize;
}

/// Parts with `N` kinds of times.
#[derive(Debug)]
pub(super) struct PartLine<P, const N: usize> {
    pub(super) parts: Vec<P>,
    pub(super) end_ns: u64,
    sums: Vec<[u64; N]>,
}

impl<P, const N: usize> Default for PartLine<P, N> {
    fn default() -> Self {
        Self { parts: Vec::new(), end_ns: 0, sums: Vec::new() }
    }
}

impl<P: LinePart, const N: usize> PartLine<P, N> {
    /// Makes the sums, after the last part was added.
    pub(super) fn finish(&mut self) {
        self.parts.shrink_to_fit();
        let (mut times, mut sums) = ([0; N], Vec::with_capacity(self.parts.len().div_ceil(BLOCK)));
        for (at, part) in self.parts.iter().enumerate() {
            if at % BLOCK == 0 {
                sums.push(times);
            }
            add(&mut times, part.kind(), self.end_of(at) - part.start_ns());
        }
        self.sums = sums;
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.parts.capacity() * size_of::<P>()
            + self.sums.capacity() * size_of::<[u64; N]>()
    }

    pub(super) fn end_of(&self, at: usize) -> u64 {
        self.parts.get(at + 1).map_or(self.end_ns, P::start_ns)
    }

    /// The part at this time.
    pub(super) fn at(&self, at_ns: u64) -> Option<usize> {
        let begun = self.parts.partition_point(|part| part.start_ns() <= at_ns);
        begun.checked_sub(1).filter(|_| at_ns < self.end_ns)
    }

    /// The first part that ends behind this time, or the last one before it. Parts without a length at this very time are left out.
    pub(super) fn first_behind(&self, at_ns: u64) -> usize {
        self.parts.partition_point(|part| part.start_ns() <= at_ns).saturating_sub(1)
    }

    /// The first part that begins at this time or later.
    pub(super) fn first_from(&self, at_ns: u64) -> usize {
        self.parts.partition_point(|part| part.start_ns() < at_ns)
    }

    /// How much of a part lies in a time, ns.
    pub(super) fn ns_in(&self, at: usize, from_ns: u64, until_ns: u64) -> u64 {
        self.end_of(at).min(until_ns).saturating_sub(self.parts[at].start_ns().max(from_ns))
    }

    /// Parts that may reach into a time, and how much of each does, ns.
    pub(super) fn between(&self, from_ns: u64, until_ns: u64) -> impl Iterator<Item = (usize, u64)> {
        let parts = self.first_behind(from_ns)..self.first_from(until_ns);
        parts.map(move |at| (at, self.ns_in(at, from_ns, until_ns)))
    }

    /// Times from the begin on up to here, by kind, ns.
    pub(super) fn times_until(&self, at_ns: u64) -> [u64; N] {
        let at_ns = at_ns.min(self.end_ns);
        let Some(at) = self.first_from(at_ns).checked_sub(1) else { return [0; N] };
        let block = at / BLOCK;
        let mut times = self.sums.get(block).copied().unwrap_or([0; N]);
        for place in block * BLOCK..=at {
            add(&mut times, self.parts[place].kind(), self.ns_in(place, 0, at_ns));
        }
        times
    }
}

pub(super) fn add<const N: usize>(times: &mut [u64; N], kind: usize, ns: u64) {
    if let Some(sum) = times.get_mut(kind) {
        *sum += ns;
    }
}

/// By kind.
pub(super) fn since<const N: usize>(now: [u64; N], before: [u64; N]) -> [u64; N] {
    std::array::from_fn(|kind| now[kind].saturating_sub(before[kind]))
}

/// Wakers without a place: the idle task, when an interrupt of an idle CPU woke; and an unknown thread, or one that is not followed.
pub(super) const WAKER_IDLE: u32 = u32::MAX;
pub(super) const WAKER_UNKNOWN: u32 = u32::MAX - 1;

/// The state began here: the thread did not only move to another CPU.
pub(super) const FRESH: u8 = 1;
/// The state ended: it is not cut by the end of the trace or by a move.
pub(super) const OVER: u8 = 2;
/// The thread left its CPU behind this part: to wait, or for good.
pub(super) const LEFT_TO_WAIT: u8 = 4;
/// The thread was pushed off its CPU behind this part, or yielded.
pub(super) const PUSHED_OFF: u8 = 8;

// States, which are the kinds of times of a thread.
const RUNNING: u8 = 0;
const WOKEN: u8 = 1;
const PREEMPTED: u8 = 2;
const BLOCKED: u8 = 3;
const UNKNOWN: u8 = 4;
/// It does not exist.
const ABSENT: u8 = 5;

/// Kinds of times of a thread: running, ready since a wakeup, ready since it was pushed off, blocked, unknown.
pub(super) const STATES: usize = 5;

/// A state of a thread from `start_ns` on.
#[derive(Copy, Clone, Debug)]
pub(super) struct ThreadPart {
    pub(super) start_ns: u64,
    /// The waker of one that is ready since a wakeup, the reason of one that is blocked.
    pub(super) more: u32,
    pub(super) cpu: u16,
    state: u8,
    pub(super) flags: u8,
}

impl LinePart for ThreadPart {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }

    fn kind(&self) -> usize {
        self.state.into()
    }
}

impl ThreadPart {
    pub(super) fn new(start_ns: u64, state: ThreadState, cpu: u16, flags: u8, waker: u32) -> Self {
        let (state, more) = match state {
            ThreadState::Unknown => (UNKNOWN, 0),
            ThreadState::Running => (RUNNING, 0),
            ThreadState::ReadyWoken => (WOKEN, waker),
            ThreadState::ReadyPreempted => (PREEMPTED, 0),
            ThreadState::Blocked(reason) => (BLOCKED, reason.0.into()),
            ThreadState::Dead => (ABSENT, 0),
        };
        Self { start_ns, more, cpu, state, flags }
    }

    /// [`ThreadState::Dead`] is a time in which the thread does not exist.
    pub(super) fn state(&self) -> ThreadState {
        match self.state {
            RUNNING => ThreadState::Running,
            WOKEN => ThreadState::ReadyWoken,
            PREEMPTED => ThreadState::ReadyPreempted,
            BLOCKED => ThreadState::Blocked(WaitReason(u16::try_from(self.more).unwrap_or(0))),
            ABSENT => ThreadState::Dead,
            _ => ThreadState::Unknown,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.state == RUNNING
    }

    pub(super) fn is_woken(&self) -> bool {
        self.state == WOKEN
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, WOKEN | PREEMPTED)
    }

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The states of a thread.
pub(super) type ThreadParts = PartLine<ThreadPart, STATES>;

impl ThreadParts {
    /// Adds a part that ends at `end_ns`, not before the last one. Returns whether it is a new entry.
    pub(super) fn push(&mut self, part: ThreadPart, end_ns: u64) -> bool {
        if let Some(last) = self.parts.last_mut() {
            let goes_on = part.start_ns <= self.end_ns && !last.is(OVER) && !part.is(FRESH);
            if goes_on && (last.state, last.cpu, last.more) == (part.state, part.cpu, part.more) {
                last.flags |= part.flags & OVER;
                self.end_ns = self.end_ns.max(end_ns);
                return false;
            }
        }
        if part.start_ns > self.end_ns && !self.parts.is_empty() {
            self.add(ThreadPart::new(self.end_ns, ThreadState::Dead, part.cpu, FRESH | OVER, 0));
        }
        let start_ns = if self.parts.is_empty() { part.start_ns } else { part.start_ns.max(self.end_ns) };
        self.add(ThreadPart { start_ns, ..part });
        self.end_ns = end_ns.max(start_ns);
        true
    }

    /// A list that doubles when it is full would take up to twice the memory that is counted.
    fn add(&mut self, part: ThreadPart) {
        if self.parts.len() == self.parts.capacity() {
            self.parts.reserve_exact((self.parts.len() / 4).max(4));
        }
        self.parts.push(part);
    }

    /// When the wait that this part belongs to began: a part before it may be of the same wait, in another CPU's queue.
    pub(super) fn since_ns(&self, mut at: usize) -> u64 {
        while at > 0 && !self.parts[at].is(FRESH) && self.parts[at - 1].is_ready() {
            at -= 1;
        }
        self.parts.get(at).map_or(0, |part| part.start_ns)
    }
}
