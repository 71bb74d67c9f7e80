//! [`ClockReading`]: one thread's CPU time by three clocks, as a platform's reader hands it out.

use crate::{Comm, ThreadKey};

/// One thread's CPU time by each clock, cumulative, ns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Id and start of the thread.
    pub key: ThreadKey,
    /// Id of the process (thread group) it belongs to.
    pub pid: u32,
    /// Name (comm) at the time of the reading.
    pub comm: Comm,
    /// By the clock tick: user and system time as sampled (`utime + stime`, before the kernel scales them).
    pub tick_ns: u64,
    /// By the scheduler (`se.sum_exec_runtime`).
    pub clock_ns: u64,
    /// By the switches. Only its growth means something: it goes on from the scheduler's clock at first sight.
    pub switch_ns: u64,
    /// Times it left its CPU.
    pub slices: u64,
    /// All three count the same slices: it was off its CPU, and kernel and events count the same switches.
    pub is_exact: bool,
}
