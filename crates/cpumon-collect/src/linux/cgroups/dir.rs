//! [`Dir`]: one control group, its limit and the files that are kept open.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use cpumon_model::{CpuLimit, Pressure, Throttle};
use rustix::io::Errno;

use super::super::file;
use super::mounts::Mounts;
use super::values;

/// What became of a reading.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Done,
    /// The group was removed.
    Gone,
}

/// A group, in one hierarchy or in both.
#[derive(Debug)]
pub(super) struct Dir {
    pub(super) id: u64,
    pub(super) path: Arc<str>,
    /// The group above it; the root has none.
    pub(super) above: Option<usize>,
    /// Processes are in it.
    pub(super) is_used: bool,
    pub(super) is_gone: bool,
    /// It, or one below it, is still wanted.
    pub(super) stays: bool,
    /// Its own.
    pub(super) limit: CpuLimit,
    pub(super) throttle: Option<Throttle>,
    pub(super) pressure: Option<Pressure>,
    /// `cpu.stat` where it has a quota.
    stat_file: Option<OwnedFd>,
    pressure_file: Option<OwnedFd>,
}

/// Opens, reads and closes a file. `Err`: what to take for the limit; a group without the file has none, because the controller is
/// off for it.
fn read<'b>(dir: &OwnedFd, name: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], CpuLimit> {
    file::read_at(dir, name, buffer).map_err(|error| match error {
        Errno::NOENT | Errno::NODEV => CpuLimit::Unlimited,
        _ => CpuLimit::Unknown,
    })
}

impl Dir {
    /// `None`: no hierarchy has it.
    pub(super) fn open(mounts: &Mounts, path: &str) -> Option<Self> {
        let v2 = mounts.v2.as_ref().and_then(|mount| mount.open_dir(path));
        if v2.is_none() {
            mounts.v1_cpu.as_ref()?.open_dir(path)?;
        }
        // The root's is that of the host.
        let of_pressure = v2.filter(|_| path != "/");
        Some(Self {
            id: 0,
            path: path.into(),
            above: None,
            is_used: false,
            is_gone: false,
            stays: true,
            limit: CpuLimit::Unknown,
            throttle: None,
            pressure: None,
            stat_file: None,
            pressure_file: of_pressure.and_then(|dir| file::open_at(&dir, c"cpu.pressure").ok()),
        })
    }

    /// Reads its quota, and begins or ends to watch how often it is used up.
    pub(super) fn read_limit(&mut self, mounts: &Mounts, buffer: &mut [u8]) {
        let open = |mount: &super::mounts::Mount| mount.open_dir(&self.path);
        let (v1, v2) = (mounts.v1_cpu.as_ref().and_then(open), mounts.v2.as_ref().and_then(open));
        let of_v1 = v1.as_ref().map_or(CpuLimit::Unlimited, |dir| limit_v1(dir, buffer));
        let of_v2 = v2.as_ref().map_or(CpuLimit::Unlimited, |dir| limit_v2(dir, buffer));
        self.limit = of_v1.tighter(of_v2);
        if !self.limit.is_limited() {
            (self.stat_file, self.throttle) = (None, None);
        } else if self.stat_file.is_none() {
            let dir = if of_v1.is_limited() { v1 } else { v2 };
            self.stat_file = dir.and_then(|dir| file::open_at(&dir, c"cpu.stat").ok());
        }
    }

    /// Reads its counters; its pressure only if any task of the host has waited: otherwise it has not grown.
    pub(super) fn read_counters(&mut self, has_waited: bool, buffer: &mut [u8]) -> Read {
        if let Some(stat) = &self.stat_file {
            match file::read_start(stat, buffer) {
                Ok(bytes) => self.throttle = values::throttle(bytes),
                Err(error) => self.failed(error),
            }
        }
        let is_due = self.is_used && (has_waited || self.pressure.is_none());
        if let Some(pressure) = self.pressure_file.as_ref().filter(|_| is_due) {
            match file::read_start(pressure, buffer) {
                Ok(bytes) => self.pressure = values::pressure(bytes),
                // Switched off for this group (cgroup.pressure) or for the host.
                Err(Errno::OPNOTSUPP) => (self.pressure, self.pressure_file) = (None, None),
                Err(error) => self.failed(error),
            }
        }
        if self.is_gone { Read::Gone } else { Read::Done }
    }

    fn failed(&mut self, error: Errno) {
        self.is_gone |= matches!(error, Errno::NODEV | Errno::NOENT);
        (self.throttle, self.pressure) = (None, None);
    }
}

fn limit_v1(dir: &OwnedFd, buffer: &mut [u8]) -> CpuLimit {
    match read(dir, c"cpu.cfs_quota_us", buffer).map(values::quota_v1) {
        Ok(Err(quota)) => read(dir, c"cpu.cfs_period_us", buffer)
            .map_or(CpuLimit::Unknown, |period| values::limit_v1(quota, period)),
        Ok(Ok(limit)) | Err(limit) => limit,
    }
}

fn limit_v2(dir: &OwnedFd, buffer: &mut [u8]) -> CpuLimit {
    read(dir, c"cpu.max", buffer).map_or_else(|limit| limit, values::limit)
}
