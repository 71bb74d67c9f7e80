//! [`SpanSink`]: what an analysis takes from the tracker.

use cpumon_model::Leaves;

use crate::state::{CpuSpan, InterruptSpan, ThreadSpan, ThreadState, Wakeup};

/// Takes what a [`Tracker`](crate::Tracker) finds. CPU spans come in front of the thread spans that end with the same switch.
pub trait SpanSink {
    /// A thread was in a state.
    fn thread(&mut self, span: &ThreadSpan);
    /// A CPU was in a state.
    fn cpu(&mut self, span: &CpuSpan);
    /// A thread was woken: it is ready from then on, or from when it has left its CPU on its way to sleep.
    fn woken(&mut self, _wakeup: &Wakeup) {}
    /// A thread is in a state from here on, or in another CPU's queue. Its span comes later.
    fn entered(&mut self, _slot: usize, _state: ThreadState, _cpu: u16, _at_ns: u64) {}
    /// A thread left its CPU.
    fn left(&mut self, slot: usize, leaves: Leaves, at_ns: u64);
    /// A thread moved to another CPU.
    fn moved(&mut self, slot: usize, at_ns: u64);
    /// A CPU switched from another task than it had switched to: events are missing.
    fn hole(&mut self, cpu: u16, at_ns: u64);
    /// A thread came to a CPU, and it is not known when it was woken: its whole wait counts as blocked.
    fn unknown_wakeup(&mut self, slot: usize, at_ns: u64);
    /// An interrupt had a CPU in a span that was handed out before, and so had less of that.
    fn interrupt(&mut self, _span: &InterruptSpan) {}
    /// The recorder lost events.
    fn lost(&mut self, cpu: u16, count: u64, at_ns: u64);
    /// Memory of what it holds, bytes, if there are so many threads. The tracker asks before it follows another one: beyond its limit it
    /// follows none.
    fn bytes(&self, threads: usize) -> usize;
}
