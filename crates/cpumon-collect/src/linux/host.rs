//! Identity of this machine: [`HostInfo`], [`HostId`] and [`BootId`] from machine id, boot id and uname, and whether
//! interrupts are charged to threads. Also its clocks, its kernel version, and the cost of measuring.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use cpumon_model::{BootId, HostId, HostInfo, Moment, SourceHealth};
use rustix::fs::CWD;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::file;
use crate::source::hashed;
use crate::{CollectError, SourceOptions, parse};

/// Where systemd or D-Bus keep the machine id (machine-id(5)).
const MACHINE_ID_FILES: [&str; 2] = ["etc/machine-id", "var/lib/dbus/machine-id"];

/// Describes this machine. `source_reason` is empty: the caller fills in [`Opened::reason`](crate::Opened::reason).
///
/// Errors: the kernel's boot id cannot be read.
pub fn host_info(options: &SourceOptions) -> Result<HostInfo, CollectError> {
    let boot = boot_id(&options.proc_root)?;
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let kernel = format!("{} {}", text(uname.sysname()), text(uname.release()));
    Ok(HostInfo {
        host: host_id(options, boot),
        boot,
        hostname: text(uname.nodename()).into(),
        kernel: kernel.into(),
        arch: text(uname.machine()).into(),
        agent: options.agent.as_str().into(),
        source_reason: "".into(),
        cpu_count: std::thread::available_parallelism()
            .map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        interval_ns: u64::try_from(options.interval.as_nanos()).unwrap_or(u64::MAX),
    })
}

/// Id of this boot (random(4)).
pub(crate) fn boot_id(proc_root: &Path) -> Result<BootId, CollectError> {
    let path = proc_root.join("sys/kernel/random/boot_id");
    let text = fs::read_to_string(&path).map_err(CollectError::file("read", &path))?;
    text.parse().map_err(|_| CollectError::Malformed { path, what: "expected a UUID" })
}

/// This machine: a hash of its machine id. Without one, of host name and boot, which lasts until the next boot only.
pub(crate) fn host_id(options: &SourceOptions, boot: BootId) -> HostId {
    for file in MACHINE_ID_FILES {
        let id =
            fs::read_to_string(options.fs_root.join(file)).ok().and_then(|text| text.parse::<HostId>().ok());
        // machine-id(5) forbids all zeros, and two machines that have them would be one host.
        if let Some(id) = id.filter(|id| *id != HostId::default()) {
            return HostId(hashed(b"machine-id\0", &id.0));
        }
    }
    log::warn!(
        "no {} or {}: this host gets a new identity at every boot",
        MACHINE_ID_FILES[0],
        MACHINE_ID_FILES[1]
    );
    let mut named = rustix::system::uname().nodename().to_bytes().to_vec();
    named.push(0);
    named.extend_from_slice(&boot.0);
    HostId(hashed(b"hostname and boot\0", &named))
}

/// Whether irq and softirq time is inside the run time of the interrupted thread: true unless the kernel's
/// configuration is readable and says `CONFIG_IRQ_TIME_ACCOUNTING=y`.
pub(crate) fn irq_in_run_time(options: &SourceOptions) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let file = options.fs_root.join("boot").join(format!("config-{release}"));
    let mut config = Vec::new();
    // A kernel configuration has about 250 KiB.
    let read = fs::File::open(file).and_then(|file| file.take(4 << 20).read_to_end(&mut config));
    read.is_err() || !config.split(|&b| b == b'\n').any(|line| line == b"CONFIG_IRQ_TIME_ACCOUNTING=y")
}

/// Version of a kernel, as far as features depend on it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl Version {
    pub(crate) const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

/// `6.18.44-fc` is version 6.18.
pub(crate) fn version_of(release: &str) -> Option<Version> {
    let mut numbers = release.split(['.', '-', '+', '_']).map(str::parse);
    Some(Version { major: numbers.next()?.ok()?, minor: numbers.next()?.ok()? })
}

/// Version of the running kernel.
pub(crate) fn running() -> Option<Version> {
    version_of(&rustix::system::uname().release().to_string_lossy())
}

/// A kept /proc/self/statm. Always the real /proc: it is about this process, not about the tree that is measured.
pub(crate) struct OwnUsage {
    statm: Option<OwnedFd>,
}

impl OwnUsage {
    /// Without a readable statm the memory stays 0.
    pub(crate) fn open() -> Self {
        Self { statm: file::open_at(CWD, c"/proc/self/statm").ok() }
    }

    pub(crate) fn fill(&self, health: &mut SourceHealth) {
        health.own_cpu_ns = ns_of(clock_gettime(ClockId::ProcessCPUTime)).unsigned_abs();
        health.own_rss_bytes = self.rss_bytes().unwrap_or(0);
    }

    fn rss_bytes(&self) -> Option<u64> {
        let mut buffer = [0; 128];
        let line = file::read_start(self.statm.as_ref()?, &mut buffer).ok()?;
        let pages = line.split(|&b| b == b' ').nth(1).and_then(parse::parse_u64)?;
        Some(pages.saturating_mul(rustix::param::page_size() as u64))
    }
}

/// Whether the clocks of this process are not the host's, because it is in a time namespace that shifts them (`time_namespaces(7)`).
pub(crate) fn has_shifted_clocks(proc_root: &Path) -> bool {
    // Kernels without these namespaces have no such file.
    let offsets = fs::read_to_string(proc_root.join("self/timens_offsets")).unwrap_or_default();
    offsets.lines().any(|line| line.split_whitespace().skip(1).any(|offset| offset != "0"))
}

/// Now, on the three clocks of this machine; read one after the other, within a microsecond.
pub fn now() -> Moment {
    Moment {
        mono_ns: mono_ns(),
        boot_ns: ns_of(clock_gettime(ClockId::Boottime)).unsigned_abs(),
        wall_ns: ns_of(clock_gettime(ClockId::Realtime)),
    }
}

pub(crate) fn mono_ns() -> u64 {
    ns_of(clock_gettime(ClockId::Monotonic)).unsigned_abs()
}

/// A time or length of a clock.
pub(crate) fn ns_of(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Length of one tick of the times in /proc, ns: 10,000,000 on every usual Linux (`sysconf(_SC_CLK_TCK)` = 100).
pub(crate) fn ns_per_tick() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_describes_itself() {
        let options = SourceOptions { agent: "cpumon test".into(), ..SourceOptions::default() };
        let info = host_info(&options).unwrap();
        assert_ne!(info.boot, BootId::default());
        assert!(info.kernel.starts_with("Linux ") && !info.hostname.is_empty() && !info.arch.is_empty());
        assert_eq!((&*info.agent, info.interval_ns), ("cpumon test", 1_000_000_000));
        assert!(info.cpu_count > 0);
    }

    #[test]
    fn the_machine_id_is_hashed_and_falls_back() {
        let root = tempfile::tempdir().unwrap();
        let options = SourceOptions { fs_root: root.path().into(), ..SourceOptions::default() };
        let boot = BootId([7; 16]);
        let from_name = host_id(&options, boot);
        assert_ne!(
            from_name,
            host_id(&options, BootId([8; 16])),
            "without an id, every boot is another host"
        );
        let id = "3d1219c7c4c5404aaa1f6d2a48adfda4";
        fs::create_dir_all(root.path().join("var/lib/dbus")).unwrap();
        fs::write(root.path().join("var/lib/dbus/machine-id"), id).unwrap();
        let from_id = host_id(&options, boot);
        assert_eq!(from_id, host_id(&options, BootId([8; 16])));
        assert_ne!(from_id.to_string(), id, "not revealed");
        fs::create_dir_all(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/machine-id"), "uninitialized\n").unwrap();
        assert_eq!(host_id(&options, boot), from_id, "an unusable file is passed over");
    }

    #[test]
    fn interrupts_are_in_run_time_unless_known_otherwise() {
        let root = tempfile::tempdir().unwrap();
        let options = SourceOptions { fs_root: root.path().into(), ..SourceOptions::default() };
        assert!(irq_in_run_time(&options), "unknown");
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        fs::create_dir(root.path().join("boot")).unwrap();
        let config = root.path().join("boot").join(format!("config-{release}"));
        fs::write(&config, "# CONFIG_IRQ_TIME_ACCOUNTING is not set\n").unwrap();
        assert!(irq_in_run_time(&options));
        fs::write(&config, "CONFIG_X=y\nCONFIG_IRQ_TIME_ACCOUNTING=y\n").unwrap();
        assert!(!irq_in_run_time(&options));
    }

    #[test]
    fn a_release_is_read_as_far_as_it_is_a_version() {
        assert_eq!(version_of("6.18.44-fc-v669"), Some(Version::new(6, 18)));
        assert_eq!(version_of("5.8-rc1"), Some(Version::new(5, 8)));
        assert_eq!(version_of("5.10+"), Some(Version::new(5, 10)));
        assert_eq!(version_of("six"), None);
        assert_eq!(version_of(""), None);
        assert!(running() > Some(Version::new(3, 0)));
    }

    #[test]
    fn this_process_costs_something() {
        let mut health = SourceHealth::default();
        OwnUsage::open().fill(&mut health);
        assert!(health.own_cpu_ns > 0);
        assert!((100_000..100_000_000_000).contains(&health.own_rss_bytes), "{}", health.own_rss_bytes);
    }

    #[test]
    fn clocks_are_shifted_where_an_offset_is_not_0() {
        let root = tempfile::tempdir().unwrap();
        assert!(!has_shifted_clocks(root.path()), "no such file");
        fs::create_dir(root.path().join("self")).unwrap();
        let is_shifted = |offsets: &str| {
            fs::write(root.path().join("self/timens_offsets"), offsets).unwrap();
            has_shifted_clocks(root.path())
        };
        assert!(!is_shifted("monotonic           0         0\nboottime            0         0\n"));
        assert!(is_shifted("monotonic           0         0\nboottime       100000         0\n"));
        assert!(is_shifted("monotonic           0         1\nboottime            0         0\n"));
        assert!(is_shifted("monotonic          -5         0\nboottime            0         0\n"));
    }

    #[test]
    fn clocks_run_forward() {
        let (first, second) = (now(), now());
        assert!(second.mono_ns >= first.mono_ns && second.boot_ns >= first.boot_ns);
        assert!(first.boot_ns >= first.mono_ns / 2, "boot time includes monotonic time");
        assert!(first.wall_ns > 1_600_000_000_000_000_000);
        assert!(ns_per_tick() > 0);
    }
}
