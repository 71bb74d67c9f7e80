//! Parses the files of a control group. Formats: Documentation/admin-guide/cgroup-v2.rst (`cpu.max`, `cpu.stat`),
//! scheduler/sched-bwc.rst (`cpu.cfs_quota_us`, v1's `cpu.stat`), accounting/psi.rst (`cpu.pressure`). [`Dir`]: one
//! control group, its limit and the files that stay open.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use cpumon_model::{CpuLimit, Pressure, Throttle};
use rustix::io::Errno;

use super::super::file;
use super::mounts::Mounts;
use crate::parse::parse_u64;

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|&byte| byte == b'\n')
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ').filter(|word| !word.is_empty())
}

/// `cpu.max`: `QUOTA PERIOD` in µs, or `max PERIOD`.
pub(super) fn limit(bytes: &[u8]) -> CpuLimit {
    let mut words = words(lines(bytes).next().unwrap_or_default());
    let (quota, period) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match (parse_u64(quota), parse_u64(period)) {
        (None, Some(_)) if quota == b"max" => CpuLimit::Unlimited,
        (Some(quota), Some(period)) => CpuLimit::of_quota(quota, period),
        _ => CpuLimit::Unknown,
    }
}

/// Parses a file that has one number.
fn number(bytes: &[u8]) -> Option<u64> {
    parse_u64(bytes.trim_ascii_end())
}

/// Parses `cpu.cfs_quota_us`; `Err`: the quota, which needs the period.
fn quota_v1(bytes: &[u8]) -> Result<CpuLimit, u64> {
    match number(bytes) {
        Some(quota) => Err(quota),
        None if bytes.starts_with(b"-1") => Ok(CpuLimit::Unlimited),
        None => Ok(CpuLimit::Unknown),
    }
}

/// `cpu.cfs_period_us` beside a quota.
fn limit_v1(quota: u64, period: &[u8]) -> CpuLimit {
    number(period).map_or(CpuLimit::Unknown, |period| CpuLimit::of_quota(quota, period))
}

/// `cpu.stat` of v1 (`throttled_time`, ns) or v2 (`throttled_usec`); `None` where it counts no periods.
pub(super) fn throttle(bytes: &[u8]) -> Option<Throttle> {
    let (mut throttle, mut has_periods) = (Throttle::default(), false);
    for line in lines(bytes) {
        let mut words = words(line);
        let (Some(name), Some(value)) = (words.next(), words.next().and_then(parse_u64)) else { continue };
        match name {
            b"nr_periods" => (throttle.periods, has_periods) = (value, true),
            b"nr_throttled" => throttle.throttled_periods = value,
            b"throttled_time" => throttle.throttled_ns = value,
            b"throttled_usec" => throttle.throttled_ns = value.saturating_mul(1_000),
            _ => {}
        }
    }
    has_periods.then_some(throttle)
}

/// `cpu.pressure`: `some avg10=… total=µs`, then `full …`.
pub(super) fn pressure(bytes: &[u8]) -> Option<Pressure> {
    let total = |kind: &[u8]| {
        let line = lines(bytes).find(|line| words(line).next() == Some(kind))?;
        let value = words(line).find_map(|word| word.strip_prefix(b"total="))?;
        parse_u64(value).map(|us| us.saturating_mul(1_000))
    };
    Some(Pressure { some_ns: total(b"some")?, full_ns: total(b"full").unwrap_or(0) })
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Done,
    Gone,
}

/// A group, in one hierarchy or in both.
#[derive(Debug)]
pub(super) struct Dir {
    pub(super) id: u64,
    pub(super) path: Arc<str>,
    /// Index of the parent; `None` for the root.
    pub(super) above: Option<usize>,
    pub(super) is_used: bool,
    pub(super) is_gone: bool,
    /// Whether the group or one below it is used.
    pub(super) stays: bool,
    /// The group's own limit.
    pub(super) limit: CpuLimit,
    pub(super) throttle: Option<Throttle>,
    pub(super) pressure: Option<Pressure>,
    /// `cpu.stat`, open while the group has a quota.
    stat_file: Option<OwnedFd>,
    pressure_file: Option<OwnedFd>,
}

/// Opens, reads and closes a file. `Err`: the limit to assume; a group without the file has none, because the controller is off for it.
fn read<'b>(dir: &OwnedFd, name: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], CpuLimit> {
    file::read_at(dir, name, buffer).map_err(|error| match error {
        Errno::NOENT | Errno::NODEV => CpuLimit::Unlimited,
        _ => CpuLimit::Unknown,
    })
}

impl Dir {
    /// `None`: no hierarchy has the group.
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
        let of_v1 = v1.as_ref().map_or(CpuLimit::Unlimited, |dir| read_limit_v1(dir, buffer));
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
                Ok(bytes) => self.throttle = throttle(bytes),
                Err(error) => self.failed(error),
            }
        }
        let is_due = self.is_used && (has_waited || self.pressure.is_none());
        if let Some(opened) = self.pressure_file.as_ref().filter(|_| is_due) {
            match file::read_start(opened, buffer) {
                Ok(bytes) => self.pressure = pressure(bytes),
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

fn read_limit_v1(dir: &OwnedFd, buffer: &mut [u8]) -> CpuLimit {
    match read(dir, c"cpu.cfs_quota_us", buffer).map(quota_v1) {
        Ok(Err(quota)) => read(dir, c"cpu.cfs_period_us", buffer)
            .map_or(CpuLimit::Unknown, |period| limit_v1(quota, period)),
        Ok(Ok(limit)) | Err(limit) => limit,
    }
}

fn limit_v2(dir: &OwnedFd, buffer: &mut [u8]) -> CpuLimit {
    read(dir, c"cpu.max", buffer).map_or_else(|limit| limit, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_versions() {
        for (text, expected) in [
            (&b"max 100000\n"[..], CpuLimit::Unlimited),
            (b"50000 100000\n", CpuLimit::Millionths(500_000)),
            (b"350000 100000", CpuLimit::Millionths(3_500_000)),
            (b"18446744073709551615 1\n", CpuLimit::Millionths(u64::MAX - 2)),
            (b"99999999999999999999 100000\n", CpuLimit::Unknown),
            (b"50000 0\n", CpuLimit::Unknown),
            (b"-1 100000\n", CpuLimit::Unknown),
            (b"max\n", CpuLimit::Unknown),
            (b"", CpuLimit::Unknown),
            (b"\xff\0\n\n 5", CpuLimit::Unknown),
        ] {
            assert_eq!(limit(text), expected, "{text:?}");
        }
        assert_eq!(quota_v1(b"-1\n"), Ok(CpuLimit::Unlimited));
        assert_eq!(quota_v1(b"50000\n"), Err(50_000));
        assert_eq!(quota_v1(b"-7x"), Ok(CpuLimit::Unknown));
        assert_eq!(limit_v1(50_000, b"100000\n"), CpuLimit::Millionths(500_000));
        for wrong in [&b""[..], b"0\n", b"-100000\n", b"x"] {
            assert_eq!(limit_v1(50_000, wrong), CpuLimit::Unknown, "{wrong:?}");
        }
    }

    #[test]
    fn counters_of_both_versions() {
        let expected = Some(Throttle { periods: 9, throttled_periods: 4, throttled_ns: 7_000 });
        assert_eq!(
            throttle(b"nr_periods 9\nnr_throttled 4\nthrottled_time 7000\nnr_bursts 0\nburst_time 0\n"),
            expected
        );
        let v2 =
            b"usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 9\nnr_throttled 4\nthrottled_usec 7\n";
        assert_eq!(throttle(v2), expected);
        assert_eq!(throttle(b"usage_usec 5\nuser_usec 3\n"), None, "the controller is off: no data, not 0");
        assert_eq!(throttle(b"nr_periods -3\nnr_periods\n\xff\xff 9\n"), None);
        let most = throttle(b"nr_periods 1\nthrottled_usec 18446744073709551615\n").unwrap();
        assert_eq!(most.throttled_ns, u64::MAX);
    }

    #[test]
    fn pressure_of_old_and_new_kernels() {
        let both = b"some avg10=2.09 avg60=3.95 avg300=6.16 total=36\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(pressure(both), Some(Pressure { some_ns: 36_000, full_ns: 7_000 }));
        assert_eq!(pressure(b"some avg10=0 total=3\n"), Some(Pressure { some_ns: 3_000, full_ns: 0 }));
        for wrong in
            [&b""[..], b"full total=3\n", b"some total=-1\n", b"some total=\n", b"\0\0", b"total=3\n"]
        {
            assert_eq!(pressure(wrong), None, "{wrong:?}");
        }
    }
}
