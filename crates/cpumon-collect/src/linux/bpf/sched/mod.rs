//! The probe that accounts for every context switch: its programs (`sched.bpf.c`), and what user space makes of their maps.

mod control;
mod cpus;
mod delay_slots;
mod delays;
mod interpreters;
mod irqs;
mod programs;
mod queues;
mod reasons;
mod shared;
mod times;

pub(crate) use self::control::Control;
pub(crate) use self::cpus::CpuAccounts;
pub(crate) use self::delays::DelayAccounts;
pub(crate) use self::irqs::IrqTimes;
pub(crate) use self::programs::{
    PROBE, Programs, Setup, casts_of, possible_cpus, vectors_in, visit_cpus, wanted,
};
#[cfg(test)]
pub(crate) use self::programs::{refuse_loading, watch_wakeups};
pub(crate) use self::reasons::reason_of;
pub(crate) use self::shared::Shared;
pub(crate) use self::times::{SentKind, TimesState};
