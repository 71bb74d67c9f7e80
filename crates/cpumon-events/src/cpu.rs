//! What is known of a CPU while its events are read.

use cpumon_model::TraceTask;

/// A CPU, and what it does.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Cpu {
    /// `None`: not known.
    pub(crate) current: Option<TraceTask>,
    pub(crate) at_ns: u64,
    /// Up to here its interrupts were handed out.
    pub(crate) settled_ns: u64,
    /// Its events up to here were lost.
    pub(crate) lossy_until_ns: Option<u64>,
    pub(crate) is_seen: bool,
    /// A switch away from the idle task was seen.
    pub(crate) left_idle: bool,
}
