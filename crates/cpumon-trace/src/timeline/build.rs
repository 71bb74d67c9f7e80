//! Reads a trace into a [`Timeline`].

use std::sync::atomic::{AtomicBool, Ordering};

use cpumon_sched::{
    CpuSpan, InterruptSpan, Leaves, Numbers, RecentWakers, SpanSink, ThreadSpan, TraceTask, Wakeup,
    reserve_some,
};

use super::cpus::{CpuPart, CpuParts, CpuTimeline, IrqPart, OTHER, WAIT_BYTES, code_of};
use super::lines::{
    FRESH, LEFT_TO_WAIT, OVER, PUSHED_OFF, ThreadPart, ThreadParts, WAKER_IDLE, WAKER_UNKNOWN,
};
use super::{Timeline, TimelineLimits};
use crate::file::ReadError;
use crate::source::{Ending, TraceSource};
use crate::tasks::Tasks;

/// What a thread costs besides its states: names, its wakers, and the tracker's account.
const THREAD_BYTES: usize = 380;
/// Times are no larger, 104 days: a browser's numbers hold them, and damaged files claim any.
const MAX_NS: u64 = (1 << 53) - 1;
/// Events between two checks whether reading was cancelled.
const CHECK_EVENTS: u64 = 4_096;
/// Least memory for events that a limit leaves, bytes.
const LEAST_BYTES: usize = 1 << 20;

impl Timeline {
    pub fn read(trace: &mut impl TraceSource, limits: TimelineLimits) -> Result<Self, ReadError> {
        Self::read_until(trace, limits, &AtomicBool::new(false))
    }

    /// Reads a trace. Once the flag is set, further events are left out: a small block of a file may hold millions.
    pub fn read_until(
        trace: &mut impl TraceSource,
        limits: TimelineLimits,
        cancelled: &AtomicBool,
    ) -> Result<Self, ReadError> {
        let began_ns = trace.header().began.mono_ns;
        let mut tracker = trace.tracker(Builder::new(began_ns, limits));
        let (mut events, mut cut_ns) = (0_u64, None);
        let ending = trace.read(&mut |event| {
            events += 1;
            if cut_ns.is_some() {
                return;
            }
            let threads = tracker.threads();
            let is_cancelled = events % CHECK_EVENTS == 0 && cancelled.load(Ordering::Relaxed);
            if is_cancelled || tracker.sink().is_full(threads) {
                cut_ns = Some(event.at_ns);
                return;
            }
            tracker.event(&event);
        })?;
        let end_ns = cut_ns.unwrap_or(ending.known_until_ns);
        let unfollowed = tracker.unfollowed();
        let builder = trace.finish(tracker, end_ns);
        let since = |ns: u64| ns.saturating_sub(began_ns).min(MAX_NS);
        let mut timeline = builder.finish(std::mem::take(trace.tasks_mut()));
        (timeline.header, timeline.events) = (trace.header().clone(), events);
        timeline.ending = Ending { unfollowed, ..ending };
        timeline.length_ns = since(ending.known_until_ns);
        timeline.until_ns = since(end_ns).max(timeline.from_ns);
        Ok(timeline)
    }
}

#[derive(Default)]
struct Builder {
    began_ns: u64,
    /// Start on the trace's clock.
    from_ns: u64,
    limit: usize,
    wakers: RecentWakers,
    index: Timeline,
}

impl Builder {
    fn new(began_ns: u64, limits: TimelineLimits) -> Self {
        Self {
            began_ns,
            from_ns: began_ns.saturating_add(limits.from_ns),
            limit: limits.bytes.max(LEAST_BYTES),
            ..Self::default()
        }
    }

    /// Threads count from their first event on: only the end may bring their first state.
    fn is_full(&self, threads: usize) -> bool {
        self.index.bytes + threads * THREAD_BYTES >= self.limit
    }

    fn cpu(&mut self, number: u16) -> &mut CpuTimeline {
        let at = usize::from(number);
        if at >= self.index.cpus.len() {
            self.index.cpus.resize_with(at + 1, || None);
        }
        self.index.cpus[at].get_or_insert_default()
    }

    fn thread(&mut self, slot: usize, task: TraceTask) -> &mut ThreadParts {
        if slot >= self.index.threads.len() {
            reserve_some(&mut self.index.threads, slot);
            reserve_some(&mut self.index.tasks_of, slot);
            self.index.threads.resize_with(slot + 1, ThreadParts::default);
            self.index.tasks_of.resize(slot + 1, TraceTask::UNKNOWN);
        }
        self.index.tasks_of[slot] = task;
        &mut self.index.threads[slot]
    }

    /// Counts as of the begin of the trace; `None`: before the begin of the index.
    fn since_begin(&self, from_ns: u64, until_ns: u64) -> Option<(u64, u64)> {
        let from_ns = from_ns.max(self.from_ns);
        let since = |ns: u64| (ns - self.began_ns).min(MAX_NS);
        (from_ns <= until_ns).then(|| (since(from_ns), since(until_ns)))
    }

    fn flag(&mut self, slot: usize, at_ns: u64, flag: u8) {
        let Some((at_ns, _)) = self.since_begin(at_ns, at_ns) else { return };
        if let Some(thread) = self.index.threads.get_mut(slot).filter(|thread| thread.end_ns == at_ns)
            && let Some(last) = thread.parts.last_mut()
        {
            last.flags |= flag;
        }
    }

    fn finish(self, tasks: Tasks) -> Timeline {
        let (mut index, mut places) = (self.index, Numbers::default());
        for (slot, task) in index.tasks_of.iter().enumerate() {
            if task.is_thread() {
                places.set(task.0, slot);
            }
        }
        let place = |task: u32, otherwise: u32| {
            places.get(task).and_then(|slot| u32::try_from(slot).ok()).unwrap_or(otherwise)
        };
        for thread in &mut index.threads {
            thread.finish();
            for part in thread.parts.iter_mut().filter(|part| part.is_woken()) {
                if part.more != WAKER_IDLE {
                    part.more = place(part.more, WAKER_UNKNOWN);
                }
            }
        }
        for cpu in index.cpus.iter_mut().flatten() {
            cpu.parts.finish(|task| place(task, OTHER));
            cpu.queue.finish();
        }
        index.moves.shrink_to_fit();
        index.bytes = size_of::<Timeline>()
            + index.threads.iter().map(ThreadParts::bytes).sum::<usize>()
            + index.cpus.iter().flatten().map(|cpu| cpu.parts.bytes() + cpu.queue.bytes()).sum::<usize>()
            + index.tasks_of.capacity() * size_of::<TraceTask>()
            + tasks.bytes()
            + index.moves.capacity() * size_of::<(u64, u32)>();
        index.from_ns = (self.from_ns - self.began_ns).min(MAX_NS);
        Timeline { tasks, ..index }
    }
}

impl SpanSink for Builder {
    fn thread(&mut self, span: &ThreadSpan) {
        let Some((from_ns, until_ns)) = self.since_begin(span.from_ns, span.until_ns) else { return };
        let is_begin = span.since_ns >= span.from_ns && span.from_ns >= self.from_ns;
        let flags = if is_begin { FRESH } else { 0 } | if span.is_over { OVER } else { 0 };
        let waker = match self.wakers.of(span) {
            Some(TraceTask::IDLE) => WAKER_IDLE,
            waker => waker.map_or(WAKER_UNKNOWN, |waker| waker.0.min(WAKER_UNKNOWN)),
        };
        let part = ThreadPart::new(from_ns, span.state, span.cpu, flags, waker);
        if self.thread(span.slot, span.task).push(part, until_ns) {
            self.index.bytes += size_of::<ThreadPart>();
        }
        if span.state.is_ready() && from_ns < until_ns {
            self.cpu(span.cpu).queue.push(from_ns, until_ns);
            self.index.bytes += WAIT_BYTES;
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        let Some((from_ns, until_ns)) = self.since_begin(span.from_ns, span.until_ns) else { return };
        let parts: &mut CpuParts = &mut Self::cpu(self, span.cpu).parts;
        if parts.push(from_ns, until_ns, code_of(span.state), span.is_over) {
            self.index.bytes += size_of::<CpuPart>();
        }
    }

    fn left(&mut self, slot: usize, leaves: Leaves, at_ns: u64) {
        let flag = if leaves == Leaves::Ready { PUSHED_OFF } else { LEFT_TO_WAIT };
        self.flag(slot, at_ns, flag);
    }

    fn woken(&mut self, wakeup: &Wakeup) {
        self.wakers.add(wakeup);
    }

    fn moved(&mut self, slot: usize, at_ns: u64) {
        let Some((at_ns, _)) = self.since_begin(at_ns, at_ns) else { return };
        let place = self.index.moves.len();
        reserve_some(&mut self.index.moves, place);
        self.index.moves.push((at_ns, u32::try_from(slot).unwrap_or(u32::MAX)));
        self.index.bytes += size_of::<(u64, u32)>();
    }

    fn hole(&mut self, cpu: u16, at_ns: u64) {
        let Some((at_ns, _)) = self.since_begin(at_ns, at_ns) else { return };
        Self::cpu(self, cpu).parts.holes.push(at_ns);
        self.index.bytes += size_of::<u64>();
    }

    fn bytes(&self, _: usize) -> usize {
        // The index ends where its memory is used up.
        0
    }

    fn interrupt(&mut self, span: &InterruptSpan) {
        self.index.has_interrupts = true;
        let Some((from_ns, until_ns)) = self.since_begin(span.from_ns, span.until_ns) else { return };
        let who = code_of(span.state);
        let part = IrqPart { from_ns, until_ns, interrupt: span.interrupt, who };
        Self::cpu(self, span.cpu).parts.interrupt(part);
        self.index.bytes += size_of::<IrqPart>();
    }

    fn lost(&mut self, cpu: u16, count: u64, at_ns: u64) {
        let Some((at_ns, _)) = self.since_begin(at_ns, at_ns) else { return };
        Self::cpu(self, cpu).parts.lost.push((at_ns, count));
        self.index.bytes += 2 * size_of::<u64>();
    }
}

#[cfg(test)]
mod tests {
    use cpumon_sched::{SchedEvent, SchedEventKind};

    use super::*;
    use crate::source::TraceFacts;

    /// Far more events than are read between two checks, in one block. The flag gets its value with the first event.
    struct Many<'c> {
        facts: TraceFacts,
        cancelled: (&'c AtomicBool, bool),
    }

    impl TraceSource for Many<'_> {
        fn facts(&self) -> &TraceFacts {
            &self.facts
        }
        fn facts_mut(&mut self) -> &mut TraceFacts {
            &mut self.facts
        }
        fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError> {
            for at_ns in 0..10 * CHECK_EVENTS {
                let kind = SchedEventKind::Waking { task: TraceTask(1), waker: TraceTask::IDLE, cpu: 0 };
                out(SchedEvent { at_ns, cpu: 0, kind });
                self.cancelled.0.store(self.cancelled.1, Ordering::Relaxed);
            }
            Ok(Ending { known_until_ns: 10 * CHECK_EVENTS, ..Ending::default() })
        }
    }

    #[test]
    fn events_behind_a_cancel_are_left_out() {
        let limits = TimelineLimits { bytes: usize::MAX, from_ns: 0 };
        for (is_cancelled, until_ns) in [(false, 10 * CHECK_EVENTS), (true, CHECK_EVENTS - 1)] {
            let flag = AtomicBool::new(false);
            let cancelled = (&flag, is_cancelled);
            let mut many = Many {
                facts: TraceFacts { is_watched_from_begin: true, ..TraceFacts::default() },
                cancelled,
            };
            let timeline = Timeline::read_until(&mut many, limits, &flag).unwrap();
            assert_eq!(timeline.covers(), (0, until_ns));
        }
    }
}
