//! The probe that accounts for every context switch: its programs (`sched.bpf.c`), and the readers of their maps.

mod control;
mod cpus;
mod delays;
mod programs;
mod queues;
mod times;

pub(crate) use self::control::{MappedArray, PassControl};
pub(crate) use self::cpus::{CpuAccounts, IrqTimes};
pub(crate) use self::delays::DelayAccounts;
pub(crate) use self::programs::{
    PROBE, ProbeCost, Programs, Setup, casts_of, possible_cpus, vectors_in, visit_cpus, wanted,
};
#[cfg(test)]
pub(crate) use self::programs::{refuse_loading, watch_wakeups};
pub(crate) use self::times::{SentKind, TimesState, reason_of};
