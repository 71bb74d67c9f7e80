//! The BPF source against this very kernel. Needs root (or `CAP_BPF` and `CAP_PERFMON`): in CI it must run. This file has the way to
//! open it and the checks of every snapshot; the files beside check run times (`workloads`), identities (`identity`), control groups
//! (`groups`), names of short scripts (`scripts`), memory (`memory`) and permissions (`rights`).

mod groups;
mod identity;
mod memory;
mod rights;
mod scripts;
mod support;
mod workloads;

use std::sync::{Mutex, MutexGuard, PoisonError};

use cpumon_collect::{Opened, SourceChoice, SourceOptions, open};
use cpumon_model::Probes;

use crate::skip::skip;

/// The tests load the machine, choose pids and measure memory: each has the kernel for itself.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits for the machine.
pub fn turn() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Each of these once by the kernel's own clocks and once by its switches.
macro_rules! twice {
    ($($test:ident)+) => {
        mod by_clocks {
            $(#[test] fn $test() { crate::calm::when_calm(|| super::$test(cpumon_model::Probes::empty())); })+
        }
        mod by_switches {
            $(#[test] fn $test() { crate::calm::when_calm(|| super::$test(crate::bpf::ALL)); })+
        }
    };
}
use twice;

/// Every probe that can be chosen.
pub const ALL: Probes = Probes::SCHED.union(Probes::WAITS).union(Probes::IRQ);

/// `None` where the test has to be skipped.
pub fn bpf(probes: Probes) -> Option<(Opened, MutexGuard<'static, ()>)> {
    bpf_for(SourceOptions { probes, ..SourceOptions::default() })
}

/// The same with these options.
pub fn bpf_for(options: SourceOptions) -> Option<(Opened, MutexGuard<'static, ()>)> {
    let turn = turn();
    match open(&SourceOptions { choice: SourceChoice::Bpf, ..options }) {
        Ok(opened) => Some((opened, turn)),
        Err(error) => {
            skip(format!("needs root for BPF: {error}"));
            None
        }
    }
}
