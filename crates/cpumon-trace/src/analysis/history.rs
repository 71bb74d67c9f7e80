//! All states of all threads in a range, held in memory ([`TraceHistory`]), so that an analysis can go back in time.

use std::collections::{HashMap, VecDeque};

use cpumon_sched::{CpuSpan, InterruptSpan, Slots, SpanSink, ThreadSpan, ThreadState, TraceTask, Wakeup};
use foldhash::fast::RandomState;

use super::wakers::{WakeSource, WakeSources, Waker};
use super::{TraceRange, Tracked, track};
use crate::file::ReadError;
use crate::source::{Ending, TraceSource};

/// States that are held, 40 bytes each; and wakeups, 8 each. Of more the oldest are dropped.
const MAX_STATES: usize = 1 << 21;
const MAX_WAKEUPS: usize = 1 << 22;

#[derive(Copy, Clone, Debug)]
pub(super) struct HeldState {
    pub(super) task: TraceTask,
    slot: u32,
    pub(super) cpu: u16,
    pub(super) state: ThreadState,
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    /// Number of the wakeup in [`ThreadState::ReadyWoken`]; 0 if there is none.
    wakeup: u64,
}

/// A thread in the range.
#[derive(Copy, Clone, Debug)]
pub struct HeldThread {
    pub task: TraceTask,
    /// End of its last state.
    pub until_ns: u64,
    /// It had a CPU at any time.
    pub has_run: bool,
}

#[derive(Default)]
pub struct TraceHistory {
    range: TraceRange,
    /// In the end by thread and time.
    states: VecDeque<HeldState>,
    /// States before this time may be missing, because the oldest were dropped; 0 if all are held.
    pub dropped_until_ns: u64,
    wakers: VecDeque<Waker>,
    /// Number of the wakeup of `wakers[0]`.
    first_wakeup: u64,
    sources: WakeSources,
    last_wakeup: Slots<u64>,
    pub(super) has_interrupts: bool,
    /// Places in `states` of those that run, by CPU and time.
    by_cpu: Vec<u32>,
    slots: HashMap<TraceTask, u32, RandomState>,
}

/// Reads a trace and holds what lies in the range.
pub fn history(
    reader: &mut impl TraceSource,
    range: TraceRange,
) -> Result<(TraceHistory, Ending), ReadError> {
    let Tracked { sink: mut history, ending, .. } = track(reader, range, TraceHistory::new)?;
    while let Some(settled) = history.sources.next() {
        history.settle(settled);
    }
    history.index();
    Ok((history, ending))
}

impl TraceHistory {
    pub(super) fn new(range: TraceRange) -> Self {
        Self { range, first_wakeup: 1, ..Self::default() }
    }

    /// Each thread with any state in the range.
    pub fn threads(&self) -> impl Iterator<Item = HeldThread> {
        let of = |states: &[HeldState]| {
            let last = states.last()?;
            let has_run = states.iter().any(|held| held.state == ThreadState::Running);
            Some(HeldThread { task: last.task, until_ns: last.until_ns, has_run })
        };
        self.states.as_slices().0.chunk_by(|a, b| a.slot == b.slot).filter_map(of)
    }

    pub(super) fn begin_ns(&self) -> u64 {
        self.range.from_ns.max(self.dropped_until_ns)
    }

    fn held(&self, place: u32) -> &HeldState {
        &self.states[place as usize]
    }

    fn index(&mut self) {
        let states = self.states.make_contiguous();
        states.sort_unstable_by_key(|held| (held.slot, held.from_ns));
        let of = |place: &u32| &states[*place as usize];
        let all = 0..u32::try_from(states.len()).unwrap_or(u32::MAX);
        self.by_cpu = all.filter(|place| of(place).state == ThreadState::Running).collect();
        self.by_cpu.sort_unstable_by_key(|place| (of(place).cpu, of(place).from_ns));
        self.slots = states.iter().map(|held| (held.task, held.slot)).collect();
    }

    /// Number of the thread in `states`.
    pub(super) fn slot(&self, task: TraceTask) -> Option<u32> {
        self.slots.get(&task).copied()
    }

    /// The last state of a thread that began before this time.
    pub(super) fn before(&self, slot: u32, at_ns: u64) -> Option<&HeldState> {
        let after = self.states.partition_point(|held| (held.slot, held.from_ns) < (slot, at_ns));
        self.states.get(after.checked_sub(1)?).filter(|held| held.slot == slot)
    }

    pub(super) fn waker(&self, held: &HeldState) -> Option<Waker> {
        let at = held.wakeup.checked_sub(self.first_wakeup)?;
        self.wakers.get(usize::try_from(at).ok()?).copied()
    }

    /// Who had a CPU in a time, each slice, in order.
    pub(super) fn slices(&self, cpu: u16, from_ns: u64, until_ns: u64) -> impl Iterator<Item = &HeldState> {
        // Slices of a CPU do not overlap, so only one that began earlier can reach into the time.
        let first = self
            .by_cpu
            .partition_point(|&place| (self.held(place).cpu, self.held(place).from_ns) < (cpu, from_ns));
        let places = self.by_cpu.get(first.saturating_sub(1)..).unwrap_or_default();
        let slices = places.iter().map(|&place| self.held(place));
        slices
            .skip_while(move |held| held.cpu < cpu || held.until_ns <= from_ns && held.cpu == cpu)
            .take_while(move |held| held.cpu == cpu && held.from_ns < until_ns)
    }

    fn settle(&mut self, settled: WakeSource) {
        let at = settled.id.checked_sub(self.first_wakeup).and_then(|at| usize::try_from(at).ok());
        if let Some(waker) = at.and_then(|at| self.wakers.get_mut(at)) {
            *waker = settled.waker;
        }
    }
}

impl SpanSink for TraceHistory {
    fn thread(&mut self, span: &ThreadSpan) {
        let (from_ns, until_ns) = self.range.cut(span.from_ns, span.until_ns);
        if from_ns >= until_ns || span.state == ThreadState::Dead {
            return;
        }
        let wakeup = self.last_wakeup.get(span.slot).copied().unwrap_or(0);
        let is_woken = span.state == ThreadState::ReadyWoken;
        if self.states.len() == MAX_STATES
            && let Some(oldest) = self.states.pop_front()
        {
            self.dropped_until_ns = self.dropped_until_ns.max(oldest.until_ns);
        }
        self.states.push_back(HeldState {
            task: span.task,
            slot: u32::try_from(span.slot).unwrap_or(u32::MAX),
            cpu: span.cpu,
            state: span.state,
            from_ns,
            until_ns,
            wakeup: if is_woken { wakeup } else { 0 },
        });
    }

    fn woken(&mut self, wakeup: &Wakeup) {
        if wakeup.at_ns > self.range.until_ns {
            return;
        }
        if self.wakers.len() == MAX_WAKEUPS {
            self.wakers.pop_front();
            self.first_wakeup += 1;
        }
        self.wakers.push_back(Waker::Task(wakeup.waker));
        let number = self.first_wakeup + self.wakers.len() as u64 - 1;
        *self.last_wakeup.at(wakeup.slot) = number;
        if let Some(settled) = self.sources.add(wakeup, number) {
            self.settle(settled);
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        while let Some(settled) = self.sources.next_before(span.cpu, span.from_ns) {
            self.settle(settled);
        }
    }

    fn interrupt(&mut self, span: &InterruptSpan) {
        self.has_interrupts = true;
        self.sources.interrupt(span);
    }

    fn bytes(&self, threads: usize) -> usize {
        let states = self.states.capacity() * size_of::<HeldState>();
        let wakers = self.wakers.capacity() * size_of::<Waker>();
        self.last_wakeup.bytes(threads) + states + wakers + self.sources.bytes()
    }
}
