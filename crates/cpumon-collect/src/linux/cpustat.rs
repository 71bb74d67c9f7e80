//! Reads /proc/stat into [`CpuSample`]s with times of each CPU in ns. The kernel counts in ns but prints
//! ticks of `USER_HZ`, so each value is exact to 10 ms only; that goes for idle, irq and softirq in the
//! ledger too.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cpumon_model::{CpuSample, CpuTimes, KnownCpuTimes};
use rustix::fs::CWD;

use super::{file, host};
use crate::{CollectError, parse};

/// More than 8,192 CPU lines and the interrupt counts behind them.
const MAX_BYTES: usize = 4 << 20;

pub(crate) struct CpuStat {
    path: PathBuf,
    file: OwnedFd,
    buffer: Vec<u8>,
    ns_per_tick: u64,
    known: KnownCpuTimes,
    /// Values and lines that could not be parsed.
    malformed: u64,
    /// Modes whose bad value was logged, bit *n* for mode *n*.
    reported: u16,
}

impl CpuStat {
    pub(crate) fn open(proc_root: &Path) -> Result<Self, CollectError> {
        let path = proc_root.join("stat");
        let file = file::open_at(CWD, &path).map_err(CollectError::file("open", &path))?;
        let ns_per_tick = host::ns_per_tick();
        let (buffer, known) = (Vec::new(), KnownCpuTimes::default());
        Ok(Self { path, file, buffer, ns_per_tick, known, malformed: 0, reported: 0 })
    }

    /// Replaces `into` by the CPUs that are online, ascending. A mode that cannot be is no data.
    pub(crate) fn read(&mut self, into: &mut Vec<CpuSample>) -> Result<(), CollectError> {
        into.clear();
        let count = file::read_whole(&self.file, &mut self.buffer, MAX_BYTES)
            .map_err(CollectError::file("read", &self.path))?;
        let bytes = self.buffer.get(..count).unwrap_or_default();
        let (mut malformed, mut odd_modes, mut odd_cpu) = (0, 0, 0);
        let lines = parse::parse_cpu_stat(bytes, self.ns_per_tick, |cpu, modes| {
            let (times, odd) = self.known.bounded(cpu, modes);
            malformed += u64::from(odd.count_ones());
            if odd != 0 {
                (odd_modes, odd_cpu) = (odd_modes | odd, cpu);
            }
            into.push(CpuSample { cpu, times, ..CpuSample::default() });
        });
        if !matches!(lines, Some(1..)) {
            return Err(CollectError::Malformed { path: self.path.clone(), what: "no readable cpu0 line" });
        }
        // The kernel's lines ascend; a container may show another file, and rows are sent by number.
        into.sort_by_key(|sample| sample.cpu);
        let listed = into.len();
        into.dedup_by_key(|sample| sample.cpu);
        self.malformed += malformed + (listed - into.len()) as u64;
        self.report(odd_modes, odd_cpu);
        Ok(())
    }

    /// Values and lines that made no sense, since this was opened.
    pub(crate) fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Logs which mode is no data, once for each.
    fn report(&mut self, odd_modes: u16, cpu: u32) {
        for (mode, name) in CpuTimes::MODES.iter().enumerate() {
            let bit = 1 << mode;
            if odd_modes & bit != 0 && self.reported & bit == 0 {
                self.reported |= bit;
                let path = self.path.display();
                log::warn!(
                    "{path}: {name} time of CPU {cpu} is no number, or more than 36 years: it is left out"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cpus_whose_time_passes() {
        let mut stat = CpuStat::open(Path::new("/proc")).unwrap();
        let mut cpus = Vec::new();
        stat.read(&mut cpus).unwrap();
        assert!(!cpus.is_empty());
        let first: u64 = cpus.iter().map(|cpu| cpu.times.total_ns()).sum();
        std::thread::sleep(std::time::Duration::from_millis(60));
        stat.read(&mut cpus).unwrap();
        let second: u64 = cpus.iter().map(|cpu| cpu.times.total_ns()).sum();
        assert!(second > first, "{first} {second}");
        assert!(cpus.is_sorted_by_key(|cpu| cpu.cpu));
    }

    #[test]
    fn a_missing_or_senseless_file_is_an_error_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let missing = CpuStat::open(dir.path()).err().unwrap().to_string();
        assert!(missing.starts_with("cannot open ") && missing.contains("stat"), "{missing}");
        std::fs::write(dir.path().join("stat"), "nothing here\n").unwrap();
        let mut stat = CpuStat::open(dir.path()).unwrap();
        let senseless = stat.read(&mut Vec::new()).unwrap_err().to_string();
        assert!(senseless.contains("no readable cpu0 line"), "{senseless}");
    }
    #[test]
    fn a_steal_counter_that_wrapped_is_no_data_and_leaves_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stat");
        let tick = host::ns_per_tick();
        std::fs::write(&path, "cpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 1844674407370 0 0\n").unwrap();
        let (mut stat, mut cpus) = (CpuStat::open(dir.path()).unwrap(), Vec::new());
        stat.read(&mut cpus).unwrap();
        assert_eq!(cpus[0].times.to_array().map(|ns| ns / tick), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(cpus[1].times.to_array().map(|ns| ns / tick), [1, 2, 3, 4, 5, 6, 7, 0, 0, 0]);
        assert_eq!(stat.malformed(), 1);
        // In the same file, which is kept open: first odd, then right again.
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write("cpu0 2 2 3 4 5 6 7 18446744073709551616 9 10\ncpu1 1 2 3 4 5 6 7 9 0 0\n");
        stat.read(&mut cpus).unwrap();
        assert_eq!(
            cpus[0].times.to_array().map(|ns| ns / tick),
            [2, 2, 3, 4, 5, 6, 7, 8, 9, 10],
            "as it was"
        );
        assert_eq!((cpus[1].times.steal_ns, stat.malformed()), (0, 2), "since when it counted is not known");
        // A CPU that goes offline, and whose value is odd when it comes back.
        write("cpu0 2 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 12 0 0\n");
        stat.read(&mut cpus).unwrap();
        assert_eq!((cpus[1].times.user_ns / tick, cpus[1].times.steal_ns / tick), (1, 3));
        write("cpu0 2 2 3 4 5 6 7 8 9 10\n");
        stat.read(&mut cpus).unwrap();
        assert_eq!(cpus.len(), 1);
        write("cpu1 x 2 3 4 5 6 7 12 0 0\n");
        stat.read(&mut cpus).unwrap();
        assert_eq!((cpus[0].times.user_ns / tick, cpus[0].times.steal_ns / tick), (1, 3), "as it was");
    }

    #[test]
    fn lines_come_out_ascending_and_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("stat"), "cpu3 3 0 0 0\ncpu1 1 0 0 0\ncpu3 4 0 0 0\n").unwrap();
        let (mut stat, mut cpus) = (CpuStat::open(dir.path()).unwrap(), Vec::new());
        stat.read(&mut cpus).unwrap();
        let tick = host::ns_per_tick();
        let read: Vec<_> = cpus.iter().map(|cpu| (cpu.cpu, cpu.times.user_ns / tick)).collect();
        assert_eq!((read, stat.malformed()), (vec![(1, 1), (3, 3)], 1));
    }
}
