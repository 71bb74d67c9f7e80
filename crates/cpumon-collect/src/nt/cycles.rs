//! CPU time of processes by their CPU cycles, beside that by ticks. In: two passes over the processes. Out: [`CycleComparison`], or
//! [`NoComparison`] with the reason. Why a check of the sum: Windows does not document the rate of its cycles.
//!
//! On x86-64 they are those of the time stamp counter, whose rate is measured here by the system's clock. If that is right and none are
//! missing, the cycles of all processes, the idle one's and the time of interrupts, which no process has, add up to the CPUs' time.

use std::collections::HashMap;

use cpumon_model::{CpuSample, CpuSched, CpuTimes, KnownCpuTimes, ProcessKey};

use super::pass::SystemStart;
use super::records::{Processes, text};
use super::{NtError, ns, u64_at};

/// The idle process, whose threads stand for CPUs with nothing to run.
const IDLE_PID: u32 = 0;
/// Range of the sum of all cycles, in percent of the CPUs' time. Some is missing where processes ended, as their cycles end with them.
const SUM_PCT: std::ops::RangeInclusive<f64> = 95.0..=102.0;

/// A process's CPU time since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessCycles {
    pub key: ProcessKey,
    /// Name of its image; hostile.
    pub name: Box<str>,
    /// User and kernel time, counted by ticks.
    pub tick_ns: u64,
    /// CPU cycles. 0 under Wine.
    pub cycles: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleSnapshot {
    /// The time stamp counter; 0: the CPU has none of one rate.
    pub stamp: u64,
    /// The system's clock at the same instant.
    pub mono_ns: u64,
    pub cpus: Vec<CpuSample>,
    /// All processes, the idle one too.
    pub processes: Vec<ProcessCycles>,
}

impl CycleSnapshot {
    pub const fn new() -> Self {
        Self { stamp: 0, mono_ns: 0, cpus: Vec::new(), processes: Vec::new() }
    }

    /// Checks early whether this pass can be compared at all.
    ///
    /// Errors: it has no cycles, or no stamp to measure their rate by.
    pub fn check(&self) -> Result<(), NoComparison> {
        if self.processes.iter().all(|process| process.cycles == 0) {
            return Err(NoComparison::NoCycles);
        }
        if self.stamp == 0 { Err(NoComparison::NoRate) } else { Ok(()) }
    }

    /// Adds the processes of an answer that the system wrote at `address`.
    ///
    /// Errors: the answer is malformed.
    pub fn add(&mut self, answer: &[u8], address: u64) -> Result<(), NtError> {
        for record in Processes::new(answer, address) {
            let record = record?;
            let process = record.process;
            self.processes.push(ProcessCycles {
                key: ProcessKey {
                    pid: process.pid,
                    start_ns: SystemStart::default().ns_since(process.created),
                },
                name: text(record.name).into(),
                tick_ns: ns(process.user).saturating_add(ns(process.kernel)),
                cycles: record.cycles,
            });
        }
        Ok(())
    }
}

/// A process's CPU time between two passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleRow {
    pub key: ProcessKey,
    /// Name of its image; hostile.
    pub name: Box<str>,
    pub tick_ns: i64,
    pub cycle_ns: i64,
}

impl CycleRow {
    /// Error of the tick count; positive if ticks counted too much.
    pub fn error_ns(&self) -> i64 {
        self.tick_ns.saturating_sub(self.cycle_ns)
    }
}

/// Processes by both measures, with the checks of credibility.
#[derive(Clone, Debug, PartialEq)]
pub struct CycleComparison {
    pub span_ns: u64,
    /// Cycles a second.
    pub rate_hz: f64,
    /// Sum of all cycles and of interrupt time, in percent of the CPUs' time.
    pub sum_pct: f64,
    /// Processes that ran, the largest error first.
    pub rows: Vec<CycleRow>,
}

#[derive(Copy, Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoComparison {
    /// There are no cycles, as under Wine.
    #[error("no data: this system counts no cycles of processes")]
    NoCycles,
    /// No time passed, the counter went back, or there is none.
    #[error(
        "no data: this CPU has no time stamp counter that runs on at one rate, whatever the CPU's state of power"
    )]
    NoRate,
    /// The cycles are others than those of the time stamp counter, or many are missing.
    #[error(
        "no data: at {mhz:.0} MHz, the rate of the time stamp counter, the cycles of all processes and the time of interrupts are {sum_pct:.1} % \
         of the CPUs' time, not 95 to 102 %. Either they count at another rate, or processes ended that had used much"
    )]
    Sum {
        /// Rate of the time stamp counter.
        mhz: f64,
        /// The sum in percent of the CPUs' time.
        sum_pct: f64,
    },
}

impl CycleComparison {
    /// Compares two passes. A process that began in between counts from its start.
    ///
    /// Errors: see [`NoComparison`].
    pub fn between(first: &CycleSnapshot, last: &CycleSnapshot) -> Result<Self, NoComparison> {
        last.check()?;
        let span_ns = last.mono_ns.saturating_sub(first.mono_ns);
        let stamps = last.stamp.saturating_sub(first.stamp);
        if span_ns == 0 || stamps == 0 {
            return Err(NoComparison::NoRate);
        }
        let cycles_per_ns = stamps as f64 / span_ns as f64;
        let earlier: HashMap<ProcessKey, &ProcessCycles> =
            first.processes.iter().map(|process| (process.key, process)).collect();
        let (mut rows, mut all_ns) = (Vec::new(), interrupts_ns(last) - interrupts_ns(first));
        for process in &last.processes {
            let before = earlier.get(&process.key).map_or((0, 0), |before| (before.tick_ns, before.cycles));
            let cycles = i128::from(process.cycles) - i128::from(before.1);
            let cycle_ns = cycles as f64 / cycles_per_ns;
            all_ns += cycle_ns;
            #[expect(clippy::cast_possible_truncation, reason = "a cast of f64 stops at the ends")]
            let row = CycleRow {
                key: process.key,
                name: process.name.clone(),
                tick_ns: process.tick_ns.saturating_sub(before.0).cast_signed(),
                cycle_ns: cycle_ns.round() as i64,
            };
            if process.key.pid != IDLE_PID && (row.tick_ns, row.cycle_ns) != (0, 0) {
                rows.push(row);
            }
        }
        let sum_pct = all_ns * 100.0 / (span_ns as f64 * last.cpus.len() as f64);
        if !SUM_PCT.contains(&sum_pct) {
            return Err(NoComparison::Sum { mhz: cycles_per_ns * 1e3, sum_pct });
        }
        rows.sort_by_key(|row| (std::cmp::Reverse(row.error_ns().unsigned_abs()), row.key));
        Ok(Self { span_ns, rate_hz: cycles_per_ns * 1e9, sum_pct, rows })
    }

    /// CPU time that the ticks gave to the wrong process or to none. Surplus of one process is missing in another one, so
    /// it is the sum of the errors of one sign, the larger one.
    pub fn misplaced_ns(&self) -> u64 {
        let of_sign = |is_more: bool| {
            let errors = self.rows.iter().map(CycleRow::error_ns).filter(|error| (*error > 0) == is_more);
            errors.map(i64::unsigned_abs).fold(0, u64::saturating_add)
        };
        of_sign(true).max(of_sign(false))
    }

    /// CPU time of all processes, by ticks and by cycles.
    pub fn sums_ns(&self) -> (i64, i64) {
        self.rows.iter().fold((0, 0), |(ticks, cycles), row| {
            (row.tick_ns.saturating_add(ticks), row.cycle_ns.saturating_add(cycles))
        })
    }
}

/// Time in interrupt service routines and deferred procedure calls, which Windows charges to no thread.
fn interrupts_ns(of: &CycleSnapshot) -> f64 {
    let ns = |times: &CpuTimes| times.irq_ns.saturating_add(times.softirq_ns);
    of.cpus.iter().map(|cpu| ns(&cpu.times) as f64).sum()
}

// The answer to class `SystemProcessorPerformanceInformation`: 48 bytes for each CPU, with its times by mode.

/// Size of `SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION`.
pub const CPU_BYTES: usize = 48;

/// Adds the times of each CPU to `into`; the first has number `first`.
///
/// Idle time is part of the kernel's, as are deferred procedure calls (DPC) and interrupts. The system does not charge those two to
/// threads. A DPC corresponds to a soft interrupt of Linux. Impossible times are no data, and those before stay: see
/// [`KnownCpuTimes`]. Returns their number.
///
/// Errors: a cut answer.
pub fn read_cpus(
    bytes: &[u8],
    first: u32,
    known: &mut KnownCpuTimes,
    into: &mut Vec<CpuSample>,
) -> Result<u64, NtError> {
    let (records, rest) = bytes.as_chunks::<CPU_BYTES>();
    if !rest.is_empty() {
        return Err(NtError::Cpus { bytes: bytes.len() });
    }
    let mut odd = 0;
    for (cpu, record) in (first..).zip(records) {
        let (times, modes) = known.bounded(cpu, times(record).to_array().map(Some));
        odd += u64::from(modes.count_ones());
        into.push(CpuSample { cpu, times, sched: CpuSched::default() });
    }
    Ok(odd)
}

fn times(record: &[u8; CPU_BYTES]) -> CpuTimes {
    let [idle, kernel, user, dpc, interrupt] = [0, 8, 16, 24, 32].map(|at| u64_at(record, at).map_or(0, ns));
    // The five are not read at one instant, so the difference can fall below 0 by a tick.
    let system_ns = [idle, dpc, interrupt].into_iter().fold(kernel, u64::saturating_sub);
    CpuTimes {
        user_ns: user,
        system_ns,
        idle_ns: idle,
        irq_ns: interrupt,
        softirq_ns: dpc,
        ..CpuTimes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nt::testing::{ADDRESS, MadeProcess, answer};

    const CYCLES_PER_MS: u64 = 2_500_000;
    const UNITS_PER_MS: u64 = 10_000;

    fn process(pid: u64, tick_ms: u64, ran_ms: u64) -> MadeProcess {
        let (user, kernel) = (tick_ms * UNITS_PER_MS, 0);
        MadeProcess {
            pid,
            created: pid,
            user,
            kernel,
            cycles: ran_ms * CYCLES_PER_MS,
            name: "größe.exe",
            ..MadeProcess::default()
        }
    }

    /// Two CPUs, each with this much time in interrupts.
    fn pass(at_ms: u64, irq_ms: u64, processes: &[MadeProcess]) -> CycleSnapshot {
        let times =
            CpuTimes { irq_ns: irq_ms * 400_000, softirq_ns: irq_ms * 600_000, ..CpuTimes::default() };
        let cpus = [0, 1].map(|cpu| CpuSample { cpu, times, ..CpuSample::default() }).to_vec();
        let (stamp, mono_ns) = (7 + at_ms * CYCLES_PER_MS, at_ms * 1_000_000);
        let mut made = CycleSnapshot { stamp, mono_ns, cpus, ..CycleSnapshot::default() };
        made.add(&answer(processes), ADDRESS).unwrap();
        made
    }

    fn first() -> CycleSnapshot {
        pass(1_000, 5, &[process(0, 0, 900), process(8, 100, 90), process(12, 30, 20), process(16, 4, 4)])
    }

    #[test]
    fn ticks_are_compared_with_cycles_at_the_measured_rate() {
        // 2,000 ms of two CPUs: 1,380 idle, 500 of 8, 100 of 20, which is new, 0 of 16, and 10 of interrupts on each CPU.
        let rest = [process(8, 584, 590), process(12, 46, 20), process(16, 4, 4), process(20, 0, 100)];
        let all = [vec![process(0, 0, 900 + 1_380)], rest.to_vec()].concat();
        let last = pass(2_000, 15, &all);
        let found = CycleComparison::between(&first(), &last).unwrap();
        let rows: Vec<_> = found.rows.iter().map(|row| (row.key.pid, row.tick_ns, row.cycle_ns)).collect();
        let ms = |ms: i64| ms * 1_000_000;
        assert_eq!(
            rows,
            [(20, 0, ms(100)), (8, ms(484), ms(500)), (12, ms(16), 0)],
            "idle and 16 have no row"
        );
        assert_eq!(&*found.rows[0].name, "größe.exe");
        assert_eq!((found.span_ns, found.rows[1].error_ns()), (1_000_000_000, ms(-16)));
        assert_eq!((found.misplaced_ns(), found.sums_ns()), (116_000_000, (ms(500), ms(600))));
        assert!((found.rate_hz - 2.5e9).abs() < 1.0 && (found.sum_pct - 100.0).abs() < 0.001, "{found:?}");
    }

    #[test]
    fn a_moved_millisecond_is_misplaced_once() {
        let row = |pid, tick_ns, cycle_ns| CycleRow {
            key: ProcessKey { pid, start_ns: 1 },
            name: "".into(),
            tick_ns,
            cycle_ns,
        };
        let found = |rows| CycleComparison { span_ns: 1_000, rate_hz: 1e9, sum_pct: 100.0, rows };
        assert_eq!(found(vec![row(4, 1_000, 0), row(8, 0, 1_000)]).misplaced_ns(), 1_000, "all of it: 100 %");
        assert_eq!(found(vec![row(4, 1_500, 0), row(8, 0, 1_000)]).misplaced_ns(), 1_500);
        assert_eq!(found(Vec::new()).misplaced_ns(), 0);
    }

    #[test]
    fn cycles_of_another_rate_and_missing_ones_are_no_data() {
        // A third of the rate, as of a CPU that saves power.
        let slow = pass(2_000, 5, &[process(0, 0, 900 + 660), process(8, 100, 90)]);
        let error = CycleComparison::between(&first(), &slow).unwrap_err();
        let expected = "no data: at 2500 MHz, the rate of the time stamp counter, the cycles of all processes and the time of interrupts are \
             33.0 % of the CPUs' time, not 95 to 102 %. Either they count at another rate, or processes ended that had used much";
        assert_eq!(error.to_string(), expected);
        let fast = pass(2_000, 5, &[process(0, 0, 900 + 2_080)]);
        assert!(matches!(CycleComparison::between(&first(), &fast), Err(NoComparison::Sum { .. })));
        for idle_ms in [1_910, 2_030] {
            let near = pass(2_000, 5, &[process(0, 0, 900 + idle_ms)]);
            assert!(CycleComparison::between(&first(), &near).is_ok(), "{idle_ms}");
        }
    }

    #[test]
    fn without_cycles_as_under_wine_there_is_no_data() {
        let none = pass(2_000, 5, &[process(0, 0, 0), process(8, 150, 0)]);
        assert_eq!(CycleComparison::between(&first(), &none), Err(NoComparison::NoCycles));
    }

    #[test]
    fn a_counter_that_does_not_run_gives_no_rate() {
        let same = first();
        assert_eq!(same.check(), Ok(()));
        assert_eq!(
            CycleSnapshot { stamp: 0, ..same.clone() }.check(),
            Err(NoComparison::NoRate),
            "known at once"
        );
        assert_eq!(CycleComparison::between(&same, &same), Err(NoComparison::NoRate));
        let back = CycleSnapshot { stamp: 3, ..pass(2_000, 5, &[process(0, 0, 2_950)]) };
        assert_eq!(CycleComparison::between(&same, &back), Err(NoComparison::NoRate));
    }

    #[test]
    fn counters_that_fall_and_cpus_that_are_none_do_not_panic() {
        let fallen = pass(2_000, 0, &[process(0, 0, 2_950), process(8, 50, 0)]);
        let found = CycleComparison::between(&first(), &fallen).unwrap();
        assert_eq!((found.rows[0].tick_ns, found.rows[0].cycle_ns), (0, -90_000_000), "shown as it is");
        let none = CycleSnapshot { cpus: Vec::new(), ..fallen };
        assert!(matches!(CycleComparison::between(&first(), &none), Err(NoComparison::Sum { .. })));
    }

    fn record(times: [u64; 5]) -> Vec<u8> {
        let mut bytes: Vec<u8> = times.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend_from_slice(&77_u32.to_le_bytes());
        bytes.resize(CPU_BYTES, 0);
        bytes
    }

    #[test]
    fn kernel_time_is_split_into_its_modes() {
        let bytes = [record([1_000, 1_500, 300, 20, 30]), record([5, 4, 0, 0, 0])].concat();
        let (mut known, mut cpus) = (KnownCpuTimes::default(), Vec::new());
        assert_eq!(read_cpus(&bytes, 64, &mut known, &mut cpus), Ok(0));
        assert_eq!((cpus[0].cpu, cpus[1].cpu), (64, 65), "the second processor group goes on counting");
        let times = cpus[0].times;
        assert_eq!((times.idle_ns, times.system_ns, times.user_ns), (100_000, 45_000, 30_000));
        assert_eq!((times.softirq_ns, times.irq_ns), (2_000, 3_000));
        assert_eq!(times.total_ns(), 180_000, "kernel and user, nothing twice");
        assert_eq!(cpus[1].times.system_ns, 0);
        assert_eq!(read_cpus(&bytes[..95], 0, &mut known, &mut cpus), Err(NtError::Cpus { bytes: 95 }));
    }

    #[test]
    fn a_time_that_cannot_be_leaves_the_others() {
        let mut known = KnownCpuTimes::default();
        let mut read = |times| {
            let mut cpus = Vec::new();
            let odd = read_cpus(&record(times), 0, &mut known, &mut cpus);
            let CpuTimes { idle_ns, user_ns, irq_ns, softirq_ns, .. } = cpus[0].times;
            (odd, [idle_ns, user_ns, irq_ns, softirq_ns])
        };
        assert_eq!(read([1, 30, 2, u64::MAX, 4]), (Ok(1), [100, 200, 400, 0]));
        assert_eq!(read([1, 3_000, 2, 2_000, 4]), (Ok(0), [100, 200, 400, 0]), "since when is not known");
        assert_eq!(
            read([1, 3_000, u64::MAX, 2_003, 4]),
            (Ok(1), [100, 200, 400, 300]),
            "user time as it was"
        );
        assert_eq!(read([1, 3_000, 5, 2_003, 4]), (Ok(0), [100, 500, 400, 300]));
    }
}
