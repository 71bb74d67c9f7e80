//! What one CPU did: begins of slices, ascending, with sums in front of every 32nd; its interrupts; and how many threads waited for it: a
//! step up where a thread begins to wait, one down where it ends.

use cpumon_events::{CpuState, reserve_some};
use cpumon_model::Interrupt;

const BLOCK: usize = 32;

/// Who has a CPU.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CpuWho {
    /// No event says.
    Unknown,
    /// Nothing runs.
    Idle,
    /// A thread, by its place.
    Thread(u32),
    /// A thread beyond those that are followed.
    Other,
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

/// What a trace has of one CPU.
#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub(super) parts: CpuParts,
    pub(super) queue: Queue,
}

/// Times, ns; the rest is idle.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTimes {
    pub(super) run: u64,
    pub(super) unknown: u64,
    pub(super) idle: u64,
}

impl CpuTimes {
    fn add(&mut self, code: u32, ns: u64) {
        match code {
            IDLE => self.idle += ns,
            UNKNOWN => self.unknown += ns,
            _ => self.run += ns,
        }
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            run: self.run - earlier.run,
            unknown: self.unknown - earlier.unknown,
            idle: self.idle - earlier.idle,
        }
    }
}

/// Sums in front of a block, and who ran longest in it.
#[derive(Copy, Clone, Debug, Default)]
struct BlockSum {
    before: CpuTimes,
    most: u32,
    most_ns: u64,
}

/// A part of an interrupt.
#[derive(Copy, Clone, Debug)]
pub(super) struct IrqPart {
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) interrupt: Interrupt,
    /// Whom it interrupted, as in [`CpuParts::who`].
    pub(super) who: u32,
}

#[derive(Debug, Default)]
pub(super) struct CpuParts {
    pub(super) starts: Vec<u64>,
    /// Tasks while reading, then places of threads.
    pub(super) who: Vec<u32>,
    pub(super) end_ns: u64,
    sums: Vec<BlockSum>,
    pub(super) interrupts: Vec<IrqPart>,
    /// Ends of slices that are switches; the others only go on.
    pub(super) holes: Vec<u64>,
    /// When events were lost, and how many.
    pub(super) lost: Vec<(u64, u64)>,
    /// The last slice has not ended.
    is_open: bool,
}

pub(super) const PART_BYTES: usize = size_of::<u64>() + size_of::<u32>();

impl CpuParts {
    /// Returns whether it is a new entry. `code`: the number of a task, or one of the constants.
    pub(super) fn push(&mut self, from_ns: u64, until_ns: u64, code: u32, is_over: bool) -> bool {
        let goes_on = self.is_open && self.who.last() == Some(&code) && from_ns <= self.end_ns;
        self.is_open = !is_over;
        if goes_on {
            self.end_ns = self.end_ns.max(until_ns);
            return false;
        }
        if self.starts.is_empty() {
            self.end_ns = from_ns;
        } else if from_ns > self.end_ns {
            self.add(UNKNOWN);
            self.end_ns = from_ns;
        }
        self.add(code);
        self.end_ns = self.end_ns.max(until_ns);
        true
    }

    fn add(&mut self, code: u32) {
        let place = self.starts.len();
        reserve_some(&mut self.starts, place);
        reserve_some(&mut self.who, place);
        self.starts.push(self.end_ns);
        self.who.push(code);
    }

    pub(super) fn interrupt(&mut self, part: IrqPart) {
        let place = self.interrupts.len();
        reserve_some(&mut self.interrupts, place);
        self.interrupts.push(part);
    }

    /// No more is added: `place` gives the place of a task.
    pub(super) fn finish(&mut self, place: impl Fn(u32) -> u32) {
        self.starts.shrink_to_fit();
        self.who.shrink_to_fit();
        let place = |code: u32| if matches!(code, IDLE | UNKNOWN) { code } else { place(code) };
        self.who.iter_mut().for_each(|who| *who = place(*who));
        self.interrupts.iter_mut().for_each(|part| part.who = place(part.who));
        let mut before = CpuTimes::default();
        let mut sums = Vec::with_capacity(self.who.len().div_ceil(BLOCK));
        for first in (0..self.who.len()).step_by(BLOCK) {
            let last = (first + BLOCK).min(self.who.len());
            let mut most = Most::default();
            let mut times = before;
            for at in first..last {
                let ns = self.end_of(at) - self.starts[at];
                times.add(self.who[at], ns);
                most.add(self.who[at], ns);
            }
            sums.push(BlockSum { before, most: most.who(), most_ns: most.ns() });
            before = times;
        }
        self.sums = sums;
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.starts.capacity() * size_of::<u64>()
            + self.who.capacity() * size_of::<u32>()
            + self.sums.capacity() * size_of::<BlockSum>()
            + self.interrupts.capacity() * size_of::<IrqPart>()
            + (self.holes.capacity() + 2 * self.lost.capacity()) * size_of::<u64>()
    }

    pub(super) fn end_of(&self, at: usize) -> u64 {
        self.starts.get(at + 1).copied().unwrap_or(self.end_ns)
    }

    /// The slice at this time.
    pub(super) fn at(&self, at_ns: u64) -> Option<usize> {
        if at_ns >= self.end_ns { None } else { self.first_behind(at_ns) }
    }

    /// The slice that this time is in, or the last one before it.
    pub(super) fn first_behind(&self, at_ns: u64) -> Option<usize> {
        self.starts.partition_point(|start| *start <= at_ns).checked_sub(1)
    }

    /// Who had the CPU between two times, and for how much of each slice.
    pub(super) fn slices_between(&self, from_ns: u64, until_ns: u64) -> impl Iterator<Item = (u32, u64)> {
        let first = self.first_behind(from_ns).unwrap_or(self.starts.len());
        let slices = (first..self.starts.len()).take_while(move |at| self.starts[*at] < until_ns);
        slices.map(move |at| {
            let ns = self.end_of(at).min(until_ns).saturating_sub(self.starts[at].max(from_ns));
            (self.who[at], ns)
        })
    }

    /// Interrupts that reach into a time, and for how much of it.
    pub(super) fn interrupts_between(
        &self,
        from_ns: u64,
        until_ns: u64,
    ) -> impl Iterator<Item = (&IrqPart, u64)> {
        let first = self.interrupts.partition_point(|part| part.until_ns < from_ns);
        let parts = self.interrupts[first..].iter().take_while(move |part| part.from_ns <= until_ns);
        parts.map(move |part| (part, part.until_ns.min(until_ns).saturating_sub(part.from_ns.max(from_ns))))
    }

    /// Times up to here.
    pub(super) fn times_until(&self, at_ns: u64) -> CpuTimes {
        let at_ns = at_ns.min(self.end_ns);
        let Some(at) = self.starts.partition_point(|start| *start < at_ns).checked_sub(1) else {
            return CpuTimes::default();
        };
        let block = at / BLOCK;
        let mut times = self.sums.get(block).map_or_else(CpuTimes::default, |sum| sum.before);
        for place in block * BLOCK..=at {
            times.add(self.who[place], self.end_of(place).min(at_ns) - self.starts[place]);
        }
        times
    }

    /// Who ran longest between two times. Within blocks only the one with the most time there counts.
    pub(super) fn most_between(&self, from_ns: u64, until_ns: u64) -> Option<u32> {
        let first = self.starts.partition_point(|start| *start <= from_ns).saturating_sub(1);
        let end = self.starts.partition_point(|start| *start < until_ns);
        let mut most = Most::default();
        let mut at = first;
        while at < end {
            if at.is_multiple_of(BLOCK)
                && at + BLOCK <= end
                && self.starts[at] >= from_ns
                && self.end_of(at + BLOCK - 1) <= until_ns
            {
                let sum = &self.sums[at / BLOCK];
                most.add(sum.most, sum.most_ns);
                at += BLOCK;
                continue;
            }
            let ns = self.end_of(at).min(until_ns).saturating_sub(self.starts[at].max(from_ns));
            most.add(self.who[at], ns);
            at += 1;
        }
        (most.ns() > 0).then(|| most.who())
    }
}

/// Whom a CPU state is of, as in [`CpuParts::push`].
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

    fn who(&self) -> u32 {
        self.most().0
    }

    fn ns(&self) -> u64 {
        self.most().1
    }
}

const QUEUE_BLOCK: usize = 64;

/// What was before a block.
#[derive(Copy, Clone, Debug, Default)]
struct Before {
    length: u32,
    /// Length times time, ns.
    waited_ns: u64,
}

/// The run queue of one CPU, without the thread that runs.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Time times two, plus one where a thread comes; ascending once all are added.
    steps: Vec<u64>,
    before: Vec<Before>,
}

/// Bytes of a wait.
pub(super) const WAIT_BYTES: usize = 2 * size_of::<u64>();

impl Queue {
    /// A thread waited here. Times are below 2^63.
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

    /// Steps from the first one at or behind this time on, and the length in front of it.
    pub(super) fn steps_from(&self, at_ns: u64) -> (u32, &[u64]) {
        let place = self.steps.partition_point(|step| step >> 1 < at_ns);
        (self.length_before(place), &self.steps[place..])
    }

    fn length_before(&self, place: usize) -> u32 {
        let block = (place / QUEUE_BLOCK).min(self.before.len().saturating_sub(1));
        let Some(before) = self.before.get(block) else { return 0 };
        self.steps[block * QUEUE_BLOCK..place].iter().fold(before.length, |length, step| after(length, *step))
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

/// A damaged trace may claim any times.
fn waited(before_ns: u64, length: u32, ns: u64) -> u64 {
    before_ns.saturating_add(u64::from(length).saturating_mul(ns))
}

/// The length behind a step.
pub(super) fn after(length: u32, step: u64) -> u32 {
    if step & 1 == 1 { length + 1 } else { length.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_add_up_from_any_time_on() {
        let mut queue = Queue::default();
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
