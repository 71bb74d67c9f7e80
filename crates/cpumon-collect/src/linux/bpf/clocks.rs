//! Three clocks side by side for each thread: tick, scheduler, switches. A snapshot shows one figure for each thread, the best; the
//! comparison of accuracy needs all three.

use std::path::Path;

use cpumon_model::{ClockReading, Comm, Probes, ThreadKey};
use rustix::time::{ClockId, clock_getres};

use super::super::cpustat::CpuStat;
use super::super::host;
use super::pass::{PassRecords, TaskIterator};
use super::records::TaskRecord;
use super::ring;
use super::sched::{PassControl, Programs, Setup, TimesState};
use crate::CollectError;

/// Reads the CPU time of every thread by three clocks: the tick sampler's, the scheduler's, and the switches. Needs BPF.
pub struct ClockReader {
    iterator: TaskIterator,
    control: PassControl,
    records: PassRecords,
    cpus: CpuStat,
    _programs: Programs,
}

impl ClockReader {
    /// Interrupts are not taken out of the threads: the other two clocks have them inside as well.
    ///
    /// Errors: [`CollectError::BpfUnavailable`], or [`CollectError::Unsupported`].
    pub fn open() -> Result<Self, CollectError> {
        super::namespaces::check_namespaces(Path::new("/proc"))?;
        let ring_bytes = ring::ring_bytes();
        let setup = Setup { probes: Probes::SCHED, ring_bytes, script_names: false };
        let mut programs = Programs::open(setup)?;
        let mut reader = Self {
            iterator: TaskIterator::new(programs.take_iterator()?, true),
            control: PassControl::open(&programs)?,
            records: PassRecords::default(),
            cpus: CpuStat::open(Path::new("/proc"))?,
            _programs: programs,
        };
        super::sched::visit_cpus();
        // Makes the storage of threads that sleep.
        reader.read(&mut Vec::new())?;
        Ok(reader)
    }

    /// Replaces `into` by a reading of every thread whose switches are tracked.
    ///
    /// Errors: the kernel refuses the pass.
    pub fn read(&mut self, into: &mut Vec<ClockReading>) -> Result<(), CollectError> {
        let cut = self.control.begin_cut();
        // Against an empty pass: without `PassControl::keep` the probe sends every thread in full.
        let oddities = self.iterator.read(&PassRecords::default(), &[], u64::MAX, &mut self.records);
        self.control.end();
        oddities?;
        into.clear();
        let tracked = self.records.iter().filter(|task| task.times.is_whole());
        into.extend(tracked.map(|task| clocks_of(task, cut.mono_ns)));
        Ok(())
    }

    /// CPU time that the hypervisor took since boot, ns.
    ///
    /// Errors: /proc/stat cannot be read.
    pub fn steal_ns(&mut self) -> Result<u64, CollectError> {
        let mut cpus = Vec::new();
        self.cpus.read(&mut cpus)?;
        Ok(cpus.iter().map(|cpu| cpu.times.steal_ns).sum())
    }

    /// Length of a clock tick, ns: the interval between two samples. The coarse clock moves once a tick.
    pub fn tick_ns(&self) -> u64 {
        host::ns_of(clock_getres(ClockId::MonotonicCoarse)).unsigned_abs()
    }
}

fn clocks_of(task: &TaskRecord, cut_ns: u64) -> ClockReading {
    let is_running = task.times.state() == TimesState::Running;
    let open_ns = if is_running { cut_ns.saturating_sub(task.times.at_ns) } else { 0 };
    // After a missed switch the events count other slices than the kernel, and the clocks do not compare.
    let same_switches = task.times.voluntary_switches == task.counters.voluntary_switches
        && task.times.involuntary_switches == task.counters.involuntary_switches;
    ClockReading {
        key: ThreadKey { tid: task.tid, start_ns: task.start_ns },
        pid: task.pid,
        comm: Comm::new(&task.comm),
        tick_ns: task.counters.user_ns.saturating_add(task.counters.system_ns),
        clock_ns: task.counters.run_ns,
        switch_ns: task.times.run_ns.saturating_add(open_ns),
        slices: task.times.voluntary_switches.saturating_add(task.times.involuntary_switches),
        is_exact: !is_running && same_switches,
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::Counters;

    use super::super::records::ThreadTimes;
    use super::*;

    fn task(state: u8, switches: u64) -> TaskRecord {
        let times =
            ThreadTimes { state, run_ns: 70, at_ns: 100, voluntary_switches: 5, ..ThreadTimes::default() };
        let counters = Counters {
            run_ns: 71,
            user_ns: 40,
            system_ns: 40,
            voluntary_switches: switches,
            ..Counters::default()
        };
        TaskRecord { counters, times, ..TaskRecord::default() }
    }

    #[test]
    fn a_reading_is_exact_only_off_the_cpu_and_with_the_same_switches() {
        const BLOCKED: u8 = 1;
        const RUNNING: u8 = 3;
        let asleep = clocks_of(&task(BLOCKED, 5), 130);
        assert_eq!((asleep.tick_ns, asleep.clock_ns, asleep.switch_ns, asleep.slices), (80, 71, 70, 5));
        assert!(asleep.is_exact);
        assert!(!clocks_of(&task(BLOCKED, 6), 130).is_exact, "it has run since the cut");
        let running = clocks_of(&task(RUNNING, 5), 130);
        assert_eq!((running.switch_ns, running.is_exact), (100, false));
    }
}
