//! What one CPU did: the line of its slices, its interrupts, and how many threads waited for it: a step up where a thread begins to wait,
//! one down where it ends.

use cpumon_sched::{CpuState, Interrupt, reserve_some};

use super::lines::{BLOCK, LinePart, PartLine};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CpuWho {
    /// No event says.
    Unknown,
    Idle,
    /// A thread, by its index in the timeline.
    Thread(u32),
    /// A thread beyond those that are followed.
    Other,
}

impl CpuWho {
    /// Number of the thread, or a negative number for any other state, as in [`TraceThread::thread`](crate::TraceThread::thread).
    pub fn number(self) -> i64 {
        match self {
            Self::Thread(thread) => thread.into(),
            Self::Unknown => -1,
            Self::Other => -2,
            Self::Idle => -3,
        }
    }
}

pub(super) const IDLE: u32 = u32::MAX;
pub(super) const UNKNOWN: u32 = u32::MAX - 1;
pub(super) const OTHER: u32 = u32::MAX - 2;

pub(super) fn who(code: u32) -> CpuWho {
    match code {
        IDLE => CpuWho::Idle,
        UNKNOWN => CpuWho::Unknown,
        OTHER => CpuWho::Other,
        slot => CpuWho::Thread(slot),
    }
}

pub(super) fn is_run(code: u32) -> bool {
    code < UNKNOWN
}

#[derive(Debug, Default)]
pub(super) struct CpuTimeline {
    pub(super) parts: CpuParts,
    pub(super) queue: CpuRunQueue,
}

/// Who has a CPU from here on. Without the packing a third more memory.
#[derive(Copy, Clone, Debug)]
#[repr(C, packed(4))]
pub(super) struct CpuPart {
    pub(super) start_ns: u64,
    /// The number of a task while reading, then the place of a thread; or one of the constants.
    pub(super) who: u32,
}

impl LinePart for CpuPart {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Run, unknown, idle.
    fn kind(&self) -> usize {
        match self.who {
            IDLE => 2,
            UNKNOWN => 1,
            _ => 0,
        }
    }
}

#[derive(Copy, Clone, Debug)]
pub(super) struct IrqPart {
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) interrupt: Interrupt,
    /// The interrupted task, as in [`CpuPart::who`].
    pub(super) who: u32,
}

#[derive(Debug, Default)]
pub(super) struct CpuParts {
    pub(super) line: PartLine<CpuPart, 3>,
    /// Who ran longest in each block of the line, and for how long, ns.
    most: Vec<(u32, u64)>,
    pub(super) interrupts: Vec<IrqPart>,
    /// Times of switches from another task than the CPU had switched to: events are missing.
    pub(super) holes: Vec<u64>,
    /// Times at which events were lost, with their number.
    pub(super) lost: Vec<(u64, u64)>,
    /// The last slice has not ended.
    is_open: bool,
}

impl CpuParts {
    /// Returns whether it is a new entry. `code`: the number of a task, or one of the constants.
    pub(super) fn push(&mut self, from_ns: u64, until_ns: u64, code: u32, is_over: bool) -> bool {
        let (is_open, end_ns) = (std::mem::replace(&mut self.is_open, !is_over), self.line.end_ns);
        let last = self.line.parts.last().map(|part| part.who);
        self.line.end_ns = end_ns.max(until_ns);
        if is_open && last == Some(code) && from_ns <= end_ns {
            return false;
        }
        if last.is_some() && from_ns > end_ns {
            self.add(end_ns, UNKNOWN);
        }
        self.add(if last.is_some() { end_ns.max(from_ns) } else { from_ns }, code);
        self.line.end_ns = self.line.end_ns.max(from_ns);
        true
    }

    fn add(&mut self, start_ns: u64, who: u32) {
        let place = self.line.parts.len();
        reserve_some(&mut self.line.parts, place);
        self.line.parts.push(CpuPart { start_ns, who });
    }

    pub(super) fn interrupt(&mut self, part: IrqPart) {
        let place = self.interrupts.len();
        reserve_some(&mut self.interrupts, place);
        self.interrupts.push(part);
    }

    /// No more is added: `place` gives the place of a task.
    pub(super) fn finish(&mut self, place: impl Fn(u32) -> u32) {
        let place = |code: u32| if matches!(code, IDLE | UNKNOWN) { code } else { place(code) };
        self.line.parts.iter_mut().for_each(|part| part.who = place(part.who));
        self.interrupts.iter_mut().for_each(|part| part.who = place(part.who));
        self.line.finish();
        let parts = self.line.parts.len();
        self.most.reserve_exact(parts.div_ceil(BLOCK));
        for first in (0..parts).step_by(BLOCK) {
            let mut most = Most::default();
            for at in first..(first + BLOCK).min(parts) {
                most.add(self.line.parts[at].who, self.line.ns_in(at, 0, u64::MAX));
            }
            self.most.push(most.most());
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.line.bytes()
            + self.most.capacity() * size_of::<(u32, u64)>()
            + self.interrupts.capacity() * size_of::<IrqPart>()
            + (self.holes.capacity() + 2 * self.lost.capacity()) * size_of::<u64>()
    }

    /// Who had the CPU between two times, and for how much of each slice.
    pub(super) fn slices_between(&self, from_ns: u64, until_ns: u64) -> impl Iterator<Item = (u32, u64)> {
        self.line.between(from_ns, until_ns).map(|(at, ns)| (self.line.parts[at].who, ns))
    }

    /// Interrupts that reach into a time, each with its length in that time, ns.
    pub(super) fn interrupts_between(
        &self,
        from_ns: u64,
        until_ns: u64,
    ) -> impl Iterator<Item = (&IrqPart, u64)> {
        let first = self.interrupts.partition_point(|part| part.until_ns < from_ns);
        let parts = self.interrupts[first..].iter().take_while(move |part| part.from_ns <= until_ns);
        parts.map(move |part| (part, part.until_ns.min(until_ns).saturating_sub(part.from_ns.max(from_ns))))
    }

    /// Who ran longest between two times. Within blocks only the one with the most time there counts.
    pub(super) fn most_between(&self, from_ns: u64, until_ns: u64) -> Option<u32> {
        let line = &self.line;
        let (mut at, end) = (line.first_behind(from_ns), line.first_from(until_ns));
        let mut most = Most::default();
        while at < end {
            if at.is_multiple_of(BLOCK)
                && at + BLOCK <= end
                && line.parts[at].start_ns >= from_ns
                && line.end_of(at + BLOCK - 1) <= until_ns
            {
                let (who, ns) = self.most[at / BLOCK];
                most.add(who, ns);
                at += BLOCK;
                continue;
            }
            most.add(line.parts[at].who, line.ns_in(at, from_ns, until_ns));
            at += 1;
        }
        let (who, ns) = most.most();
        (ns > 0).then_some(who)
    }
}

/// The code of a CPU state, as [`CpuParts::push`] takes it.
pub(super) fn code_of(state: CpuState) -> u32 {
    match state {
        CpuState::Unknown => UNKNOWN,
        CpuState::Idle => IDLE,
        CpuState::Run(task) => task.0.min(OTHER),
    }
}

/// The one with the most time of a few: the smallest makes way for a new one.
#[derive(Default)]
struct Most {
    few: [(u32, u64); 4],
}

impl Most {
    fn add(&mut self, who: u32, ns: u64) {
        if !is_run(who) || ns == 0 {
            return;
        }
        let mut least = 0;
        for at in 0..self.few.len() {
            if self.few[at].1 > 0 && self.few[at].0 == who {
                self.few[at].1 += ns;
                return;
            }
            if self.few[at].1 < self.few[least].1 {
                least = at;
            }
        }
        // As in the space-saving sketch: who comes often enough stays.
        self.few[least] = (who, self.few[least].1.max(ns));
    }

    fn most(&self) -> (u32, u64) {
        self.few.iter().copied().max_by_key(|(_, ns)| *ns).unwrap_or_default()
    }
}

const QUEUE_BLOCK: usize = 64;

/// State of the queue before a block.
#[derive(Copy, Clone, Debug, Default)]
struct Before {
    length: u32,
    /// Sum of queue length times time, ns.
    waited_ns: u64,
}

/// The run queue of one CPU, without the thread that runs.
#[derive(Debug, Default)]
pub(super) struct CpuRunQueue {
    /// Time times two, plus one where a thread comes; ascending once all are added.
    steps: Vec<u64>,
    before: Vec<Before>,
}

pub(super) const WAIT_BYTES: usize = 2 * size_of::<u64>();

impl CpuRunQueue {
    /// Adds a wait of a thread. Times are below 2^63.
    pub(super) fn push(&mut self, from_ns: u64, until_ns: u64) {
        let last = self.steps.len() + 1;
        reserve_some(&mut self.steps, last);
        self.steps.push(from_ns << 1 | 1);
        self.steps.push(until_ns << 1);
    }

    pub(super) fn finish(&mut self) {
        // Mostly in order: ends are, and begins are shortly before them.
        self.steps.sort_unstable();
        self.steps.shrink_to_fit();
        let (mut at, mut last_ns) = (Before::default(), 0);
        let mut before = Vec::with_capacity(self.steps.len().div_ceil(QUEUE_BLOCK));
        for (place, step) in self.steps.iter().enumerate() {
            at.waited_ns = waited(at.waited_ns, at.length, (step >> 1) - last_ns);
            last_ns = step >> 1;
            if place % QUEUE_BLOCK == 0 {
                before.push(at);
            }
            at.length = after(at.length, *step);
        }
        self.before = before;
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.steps.capacity() * size_of::<u64>()
            + self.before.capacity() * size_of::<Before>()
    }

    /// The queue's length before this time, and the steps from this time on.
    pub(super) fn steps_from(&self, at_ns: u64) -> (u32, &[u64]) {
        let place = self.steps.partition_point(|step| step >> 1 < at_ns);
        let block = (place / QUEUE_BLOCK).min(self.before.len().saturating_sub(1));
        let before = self.before.get(block).map_or(0, |before| before.length);
        let (passed, steps) = self.steps.split_at(place);
        let passed = passed.get(block * QUEUE_BLOCK..).unwrap_or_default();
        (passed.iter().fold(before, |length, step| after(length, *step)), steps)
    }

    /// Time that threads waited up to here, in sum.
    pub(super) fn waited_until(&self, at_ns: u64) -> u64 {
        let place = self.steps.partition_point(|step| step >> 1 < at_ns);
        if place == 0 {
            return 0;
        }
        let block = (place - 1) / QUEUE_BLOCK;
        let Before { mut length, mut waited_ns } = self.before[block];
        let mut last_ns = self.steps[block * QUEUE_BLOCK] >> 1;
        for step in &self.steps[block * QUEUE_BLOCK..place] {
            waited_ns = waited(waited_ns, length, (step >> 1) - last_ns);
            last_ns = step >> 1;
            length = after(length, *step);
        }
        waited(waited_ns, length, at_ns - last_ns)
    }
}

/// Saturates, because a damaged trace may claim any times.
fn waited(before_ns: u64, length: u32, ns: u64) -> u64 {
    before_ns.saturating_add(u64::from(length).saturating_mul(ns))
}

/// Queue length after a step.
pub(super) fn after(length: u32, step: u64) -> u32 {
    if step & 1 == 1 { length + 1 } else { length.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_add_up_from_any_time_on() {
        let mut queue = CpuRunQueue::default();
        for at in 0..500 {
            queue.push(10 * at, 10 * at + 25);
        }
        queue.finish();
        let by_hand =
            |until: u64| (0..500_u64).map(|at| until.clamp(10 * at, 10 * at + 25) - 10 * at).sum::<u64>();
        for until in [0, 1, 9, 10, 11, 640, 641, 645, 1_279, 1_280, 1_281, 4_999, 5_015, 9_999] {
            assert_eq!(queue.waited_until(until), by_hand(until), "{until}");
        }
        assert_eq!(queue.steps_from(1_281).0, 3);
        assert_eq!(queue.steps_from(9_999).0, 0);
    }
}
