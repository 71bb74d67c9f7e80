//! The states of one thread: begins, ascending, each up to the next one's begin, with sums in front of every 32nd.

use cpumon_events::ThreadState;
use cpumon_model::WaitReason;

/// Parts between two sums.
const BLOCK: usize = 32;

/// Who woke a thread: an interrupt of an idle CPU, or a thread that the trace does not follow.
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

const UNKNOWN: u8 = 0;
const RUNNING: u8 = 1;
const WOKEN: u8 = 2;
const PREEMPTED: u8 = 3;
const BLOCKED: u8 = 4;
const ABSENT: u8 = 5;

/// A state from here on.
#[derive(Copy, Clone, Debug)]
pub(super) struct Part {
    pub(super) start_ns: u64,
    /// The waker of one that is ready since a wakeup, the reason of one that is blocked.
    pub(super) more: u32,
    pub(super) cpu: u16,
    state: u8,
    pub(super) flags: u8,
}

impl Part {
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
            BLOCKED => ThreadState::Blocked(self.reason()),
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

    pub(super) fn reason(&self) -> WaitReason {
        WaitReason(u16::try_from(self.more).unwrap_or(0))
    }

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Times by state, ns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StateTimes {
    pub(super) run: u64,
    pub(super) woken: u64,
    pub(super) preempted: u64,
    pub(super) blocked: u64,
    pub(super) unknown: u64,
}

impl StateTimes {
    pub(super) fn add(&mut self, part: &Part, ns: u64) {
        match part.state {
            RUNNING => self.run += ns,
            WOKEN => self.woken += ns,
            PREEMPTED => self.preempted += ns,
            BLOCKED => self.blocked += ns,
            UNKNOWN => self.unknown += ns,
            _ => {}
        }
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            run: self.run - earlier.run,
            woken: self.woken - earlier.woken,
            preempted: self.preempted - earlier.preempted,
            blocked: self.blocked - earlier.blocked,
            unknown: self.unknown - earlier.unknown,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ThreadParts {
    pub(super) parts: Vec<Part>,
    pub(super) end_ns: u64,
    sums: Vec<StateTimes>,
}

impl ThreadParts {
    /// Adds a part that ends at `end_ns`, not before the last one. Returns whether it is a new entry.
    pub(super) fn push(&mut self, part: Part, end_ns: u64) -> bool {
        if let Some(last) = self.parts.last_mut() {
            let goes_on = part.start_ns <= self.end_ns && !last.is(OVER) && !part.is(FRESH);
            if goes_on && (last.state, last.cpu, last.more) == (part.state, part.cpu, part.more) {
                last.flags |= part.flags & OVER;
                self.end_ns = self.end_ns.max(end_ns);
                return false;
            }
        }
        if part.start_ns > self.end_ns && !self.parts.is_empty() {
            self.add(Part::new(self.end_ns, ThreadState::Dead, part.cpu, FRESH | OVER, 0));
        }
        let start_ns = if self.parts.is_empty() { part.start_ns } else { part.start_ns.max(self.end_ns) };
        self.add(Part { start_ns, ..part });
        self.end_ns = end_ns.max(start_ns);
        true
    }

    /// A list that doubles when it is full would take up to twice the memory that is counted.
    fn add(&mut self, part: Part) {
        if self.parts.len() == self.parts.capacity() {
            self.parts.reserve_exact((self.parts.len() / 4).max(4));
        }
        self.parts.push(part);
    }

    /// No more is added: makes the sums.
    pub(super) fn finish(&mut self) {
        self.parts.shrink_to_fit();
        let mut times = StateTimes::default();
        let mut sums = Vec::with_capacity(self.parts.len().div_ceil(BLOCK));
        for (at, part) in self.parts.iter().enumerate() {
            if at % BLOCK == 0 {
                sums.push(times);
            }
            times.add(part, self.end_of(at) - part.start_ns);
        }
        self.sums = sums;
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.parts.capacity() * size_of::<Part>()
            + self.sums.capacity() * size_of::<StateTimes>()
    }

    pub(super) fn end_of(&self, at: usize) -> u64 {
        self.parts.get(at + 1).map_or(self.end_ns, |next| next.start_ns)
    }

    /// The part at this time; `None`: the thread was not there.
    pub(super) fn at(&self, at_ns: u64) -> Option<usize> {
        if at_ns >= self.end_ns {
            return None;
        }
        self.parts.partition_point(|part| part.start_ns <= at_ns).checked_sub(1)
    }

    /// The first part that ends behind this time.
    pub(super) fn first_behind(&self, at_ns: u64) -> usize {
        // Parts without a length at this very time are left out.
        self.parts.partition_point(|part| part.start_ns <= at_ns).saturating_sub(1)
    }

    /// Times from the begin on up to here.
    pub(super) fn times_until(&self, at_ns: u64) -> StateTimes {
        let at_ns = at_ns.min(self.end_ns);
        let Some(at) = self.parts.partition_point(|part| part.start_ns < at_ns).checked_sub(1) else {
            return StateTimes::default();
        };
        let block = at / BLOCK;
        let mut times = self.sums.get(block).copied().unwrap_or_default();
        for (place, part) in self.parts.iter().enumerate().take(at + 1).skip(block * BLOCK) {
            times.add(part, self.end_of(place).min(at_ns) - part.start_ns);
        }
        times
    }

    /// When the wait that this part belongs to began: a part before it may be of the same wait, in another CPU's queue.
    pub(super) fn since_ns(&self, mut at: usize) -> u64 {
        while at > 0 && !self.parts[at].is(FRESH) && self.parts[at - 1].is_ready() {
            at -= 1;
        }
        self.parts.get(at).map_or(0, |part| part.start_ns)
    }
}
