//! The files of control groups: [`Mounts`] finds where their hierarchies are mounted, and [`Dir`] reads the limit and the counters of one
//! group, whose files stay open.
//!
//! Formats: Documentation/admin-guide/cgroup-v2.rst (`cpu.max`, `cpu.stat`), scheduler/sched-bwc.rst (`cpu.cfs_quota_us`, v1's `cpu.stat`),
//! accounting/psi.rst (`cpu.pressure`).

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cpumon_model::{CpuLimit, Pressure, Throttle};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::super::file;
use crate::parse::parse_u64;

/// Longest mountinfo that is read, bytes.
const MAX_MOUNTINFO_BYTES: u64 = 4 << 20;

#[derive(Debug)]
struct Mount {
    dir: OwnedFd,
    /// Path of the group that is mounted: not `/` inside some containers.
    root: Box<str>,
}

/// The hierarchies that have the files of the CPU, by /proc/self/mountinfo (proc(5)): cgroup v2, the `cpu` controller of cgroup v1, or
/// both. On a mixed host the `cpu` controller belongs to one hierarchy.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    /// For pressure, and for quotas unless v1 has them.
    v2: Option<Mount>,
    /// Controller `cpu` of v1, for quotas.
    v1_cpu: Option<Mount>,
}

impl Mounts {
    /// `fs_root`: directory under which the mount points of mountinfo are found.
    pub(super) fn open(proc_root: &Path, fs_root: &Path) -> Self {
        let mut text = Vec::new();
        if let Ok(file) = std::fs::File::open(proc_root.join("self/mountinfo")) {
            // The part read before an error is used.
            let _ =
                std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_MOUNTINFO_BYTES), &mut text);
        }
        let mut mounts = Self::default();
        for line in text.split(|&byte| byte == b'\n') {
            let Some(found) = MountLine::parse(line) else { continue };
            let place = if found.is_v2 { &mut mounts.v2 } else { &mut mounts.v1_cpu };
            if place.is_none() {
                *place = Mount::open(fs_root, &found);
            }
        }
        mounts
    }

    pub(super) fn is_empty(&self) -> bool {
        self.v2.is_none() && self.v1_cpu.is_none()
    }

    /// Whether the path of a group, existing or not, is below the mount.
    pub(super) fn reach(&self, path: &str) -> bool {
        [&self.v2, &self.v1_cpu].into_iter().flatten().any(|mount| mount.below(path).is_some())
    }
}

/// A cgroup line of mountinfo.
#[derive(Debug, PartialEq, Eq)]
struct MountLine {
    is_v2: bool,
    root: Box<str>,
    at: PathBuf,
}

impl MountLine {
    /// `36 35 98:0 ROOT AT OPTIONS [OPTIONAL]... - TYPE SOURCE OPTIONS`
    fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let (mount, rest) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut rest = rest.split(' ');
        let (kind, options) = (rest.next()?, rest.nth(1)?);
        let is_v2 = match kind {
            "cgroup2" => true,
            "cgroup" if options.split(',').any(|option| option == "cpu") => false,
            _ => return None,
        };
        // A mount of another namespace: /proc/PID/cgroup means another directory by the same name.
        if root.split('/').any(|part| part == "..") {
            return None;
        }
        Some(Self { is_v2, root: unescaped(root).into(), at: unescaped(at).into() })
    }
}

/// Blanks and backslashes are written as three octal digits.
fn unescaped(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((plain, coded)) = rest.split_once('\\') {
        out.push_str(plain);
        let code = coded.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(code.map_or('\\', char::from));
        rest = if code.is_some() { &coded[3..] } else { coded };
    }
    out + rest
}

impl Mount {
    fn open(fs_root: &Path, found: &MountLine) -> Option<Self> {
        let at = fs_root.join(found.at.strip_prefix("/").unwrap_or(&found.at));
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let dir = openat(CWD, at, flags, Mode::empty()).ok()?;
        Some(Self { dir, root: found.root.clone() })
    }

    /// The path relative to the mount point; `None` if it is not below.
    fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        // Outside of the namespace of this process: such a path would leave the hierarchy.
        if path.split('/').any(|part| part == "..") {
            return None;
        }
        let path = path.strip_prefix(self.root.trim_end_matches('/'))?;
        if path.is_empty() || path == "/" {
            return Some(".");
        }
        path.strip_prefix('/').map(|path| path.trim_start_matches('/'))
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|&byte| byte == b'\n')
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ').filter(|word| !word.is_empty())
}

/// `cpu.max`: `QUOTA PERIOD` in µs, or `max PERIOD`.
fn limit(bytes: &[u8]) -> CpuLimit {
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
fn throttle(bytes: &[u8]) -> Option<Throttle> {
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

/// The limit to assume: a group that is not there, or without the file because the controller is off for it, has none.
fn limit_after(error: Errno) -> CpuLimit {
    match error {
        Errno::NOENT | Errno::NODEV => CpuLimit::Unlimited,
        _ => CpuLimit::Unknown,
    }
}

/// Opens the directory of a group. `Err`: the limit to assume; none where there is no such hierarchy, or the group is not below its mount.
fn open_dir(mount: Option<&Mount>, path: &str) -> Result<OwnedFd, CpuLimit> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mount = mount.ok_or(CpuLimit::Unlimited)?;
    let below = mount.below(path).ok_or(CpuLimit::Unlimited)?;
    openat(&mount.dir, below, flags, Mode::empty()).map_err(limit_after)
}

/// Opens, reads and closes a file. `Err`: the limit to assume.
fn read<'b>(dir: &OwnedFd, name: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], CpuLimit> {
    file::read_at(dir, name, buffer).map_err(limit_after)
}

impl Dir {
    /// `None`: no hierarchy has the group.
    pub(super) fn open(mounts: &Mounts, path: &str) -> Option<Self> {
        let is_absent = |dir: &Result<OwnedFd, CpuLimit>| matches!(dir, Err(CpuLimit::Unlimited));
        let open = |mount: &Option<Mount>| open_dir(mount.as_ref(), path);
        if is_absent(&open(&mounts.v2)) && is_absent(&open(&mounts.v1_cpu)) {
            return None;
        }
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
            pressure_file: None,
        })
    }

    /// Reads its quota, and begins or ends to watch how often it is used up. Opens its pressure if that could not be done yet.
    pub(super) fn read_limit(&mut self, mounts: &Mounts, buffer: &mut [u8]) {
        let (v1, v2) =
            (open_dir(mounts.v1_cpu.as_ref(), &self.path), open_dir(mounts.v2.as_ref(), &self.path));
        let of_v1 = v1.as_ref().map_or_else(|limit| *limit, |dir| read_limit_v1(dir, buffer));
        let of_v2 = v2.as_ref().map_or_else(|limit| *limit, |dir| limit_v2(dir, buffer));
        // Not known: at first, and where the group could not be opened. The root's pressure is that of the host.
        if self.limit == CpuLimit::Unknown && self.pressure_file.is_none() && &*self.path != "/" {
            let of_v2 = v2.as_ref().ok();
            self.pressure_file = of_v2.and_then(|dir| file::open_at(dir, c"cpu.pressure").ok());
        }
        self.limit = of_v1.tighter(of_v2);
        if !self.limit.is_limited() {
            (self.stat_file, self.throttle) = (None, None);
        } else if self.stat_file.is_none() {
            let dir = if of_v1.is_limited() { v1 } else { v2 };
            self.stat_file = dir.ok().and_then(|dir| file::open_at(&dir, c"cpu.stat").ok());
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

    fn mount(root: &str) -> Mount {
        Mount { dir: openat(CWD, "/", OFlags::PATH, Mode::empty()).unwrap(), root: root.into() }
    }

    #[test]
    fn lines_about_the_cpu_are_found() {
        let found =
            |line: &str| MountLine::parse(line.as_bytes()).map(|found| (found.is_v2, found.root, found.at));
        let v1 = found(
            "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct",
        );
        assert_eq!(v1, Some((false, "/".into(), "/sys/fs/cgroup/cpu,cpuacct".into())));
        let v2 = found("41 31 0:38 /docker/1 /sys/a\\040b rw master:1 propagate_from:2 - cgroup2 cgroup2 rw");
        assert_eq!(v2, Some((true, "/docker/1".into(), "/sys/a b".into())));
        for other in [
            "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct",
            "41 31 0:38 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs cgroup2 rw",
            "- cgroup2",
            "",
            " - cgroup2 x y",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
        assert_eq!(unescaped("a\\134\\x\\12"), "a\\\\x\\12");
    }

    #[test]
    fn paths_stay_below_what_is_mounted() {
        let whole = mount("/");
        assert_eq!(whole.below("/"), Some("."));
        assert_eq!(whole.below("/a/b"), Some("a/b"));
        assert_eq!(whole.below("//etc"), Some("etc"), "no absolute path");
        let part = mount("/docker/1");
        assert_eq!(part.below("/docker/1"), Some("."));
        assert_eq!(part.below("/docker/1/x"), Some("x"));
        for outside in ["/..", "/../x", "/a/../../etc", "relative", ""] {
            assert_eq!(whole.below(outside).filter(|path| *path != "."), None, "{outside}");
            assert_eq!(part.below(outside), None, "{outside}");
        }
        assert_eq!(part.below("/docker/12"), None, "another container");
        assert_eq!(part.below("/"), None);
    }
}
