//! Reads /proc/stat into [`CpuSample`]s with times of each CPU in ns. The kernel counts in ns but prints
//! ticks of `USER_HZ`, so each value is exact to 10 ms only; that goes for idle, irq and softirq in the
//! ledger too.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cpumon_model::CpuSample;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{clock, file};
use crate::{CollectError, parse};

/// More than 8,192 CPU lines and the interrupt counts behind them.
const MAX_BYTES: usize = 4 << 20;

pub(crate) struct CpuStat {
    path: PathBuf,
    file: OwnedFd,
    buffer: Vec<u8>,
    ns_per_tick: u64,
}

impl CpuStat {
    /// Opens `stat` under the given /proc.
    pub(crate) fn open(proc_root: &Path) -> Result<Self, CollectError> {
        let path = proc_root.join("stat");
        let file = openat(CWD, &path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(CollectError::file("open", &path))?;
        Ok(Self { path, file, buffer: Vec::new(), ns_per_tick: clock::ns_per_tick() })
    }

    /// Replaces `into` by the CPUs that are online, ascending.
    pub(crate) fn read(&mut self, into: &mut Vec<CpuSample>) -> Result<(), CollectError> {
        into.clear();
        let count = file::read_whole(&self.file, &mut self.buffer, MAX_BYTES)
            .map_err(CollectError::file("read", &self.path))?;
        let bytes = self.buffer.get(..count).unwrap_or_default();
        match parse::parse_cpu_stat(bytes, self.ns_per_tick, |cpu| into.push(cpu)) {
            Some(1..) => Ok(()),
            _ => Err(CollectError::Malformed { path: self.path.clone(), what: "no readable cpu0 line" }),
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
}
