//! What measuring costs: writes CPU time and resident memory of this process into [`SourceHealth`].

use std::os::fd::OwnedFd;

use cpumon_model::SourceHealth;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::time::{ClockId, clock_gettime};

use super::file;
use crate::parse;

/// A kept /proc/self/statm. Always the real /proc: it is about this process, not about the tree that is measured.
pub(crate) struct OwnUsage {
    statm: Option<OwnedFd>,
}

impl OwnUsage {
    /// Without a readable statm the memory stays 0.
    pub(crate) fn open() -> Self {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Self { statm: openat(CWD, c"/proc/self/statm", flags, Mode::empty()).ok() }
    }

    pub(crate) fn fill(&self, health: &mut SourceHealth) {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        health.own_cpu_ns = time
            .tv_sec
            .unsigned_abs()
            .saturating_mul(1_000_000_000)
            .saturating_add(time.tv_nsec.unsigned_abs());
        health.own_rss_bytes = self.rss_bytes().unwrap_or(0);
    }

    fn rss_bytes(&self) -> Option<u64> {
        let mut buffer = [0; 128];
        let line = file::read_start(self.statm.as_ref()?, &mut buffer).ok()?;
        let pages = line.split(|&b| b == b' ').nth(1).and_then(parse::parse_u64)?;
        Some(pages.saturating_mul(rustix::param::page_size() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_costs_something() {
        let mut health = SourceHealth::default();
        OwnUsage::open().fill(&mut health);
        assert!(health.own_cpu_ns > 0);
        assert!((100_000..100_000_000_000).contains(&health.own_rss_bytes), "{}", health.own_rss_bytes);
    }
}
