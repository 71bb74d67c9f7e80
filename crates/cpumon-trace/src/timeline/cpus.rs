//! What one CPU did: begins of slices, ascending, with sums in front of every 32nd; and its interrupts.

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

/// Times, ns; the rest is idle.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTimes {
    pub(super) run: u64,
    pub(super) unknown: u64,
    pub(super) idle: u64,
}

impl CpuTimes {
    pub(super) fn add(&mut self, code: u32, ns: u64) {
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

/// One CPU.
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

    /// Adds a part of an interrupt.
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
