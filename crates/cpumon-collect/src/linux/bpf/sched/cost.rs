//! CPU time of the probes, cumulative: by the kernel's own measure, where an administrator switched it on, else estimated
//! from the events. Most of the cost of event-driven accounting is not in this process's CPU time.

use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use cpumon_model::{Probes, Snapshot};

use super::super::records::CpuEntry;
use super::programs::running;
use super::{MappedArray, Programs};
use crate::CollectError;

/// A switch, and an interrupt, with `sched,waits,irq`; what `wakers` adds at each wakeup is not in it: `run_time_ns` in
/// /proc/PID/fdinfo of the agent with `kernel.bpf_stats_enabled=1`, beside `perf bench sched pipe` (121 ns) and at the local timer (940 ns), other interrupts 280
/// to 650 ns. The measure's own clock reads are in it.
const SWITCH_NS: u64 = 120;
const IRQ_NS: u64 = 600;

pub(crate) struct ProbeCost {
    /// Files in /proc/self/fdinfo that report the run time of each program.
    infos: Vec<PathBuf>,
    /// Where snapshots have no switches, though they are watched.
    switches: Option<MappedArray<CpuEntry>>,
    estimated_ns: u64,
}

impl ProbeCost {
    pub(crate) fn open(programs: &Programs) -> Result<Self, CollectError> {
        let probes = programs.probes;
        let is_unseen = !probes.contains(Probes::SCHED) && running(probes).contains(Probes::SCHED);
        let switches = is_unseen.then(|| MappedArray::map(programs, "cpus", false)).transpose()?;
        let of_program = |program: libbpf_rs::ProgramMut<'_>| {
            PathBuf::from(format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd()))
        };
        // A program that was not loaded has no descriptor.
        let loaded = programs.object.progs_mut().filter(|program| program.autoload());
        Ok(Self { infos: loaded.map(of_program).collect(), switches, estimated_ns: 0 })
    }

    /// Estimates the cost from the events that `snapshot` has counted.
    pub(crate) fn count(&mut self, snapshot: &Snapshot) {
        let switches: u64 = match &self.switches {
            Some(cpus) => (0..cpus.len()).filter_map(|at| cpus.read(at)).map(|cpu| cpu.now.switches).sum(),
            None => snapshot.cpus.iter().map(|cpu| cpu.sched.switches).sum(),
        };
        let interrupts: u64 = snapshot.irqs.iter().map(|irq| irq.count).sum();
        self.estimated_ns =
            switches.saturating_mul(SWITCH_NS).saturating_add(interrupts.saturating_mul(IRQ_NS));
    }

    /// Measured where the kernel measures it; it starts from the moment it does.
    pub(crate) fn ns(&self) -> u64 {
        let measured: u64 = self.infos.iter().filter_map(|path| run_time_ns(path)).sum();
        // 0 where `kernel.bpf_stats_enabled` is off.
        if measured > 0 { measured } else { self.estimated_ns }
    }
}

fn run_time_ns(path: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix("run_time_ns:"))?.trim().parse().ok()
}
