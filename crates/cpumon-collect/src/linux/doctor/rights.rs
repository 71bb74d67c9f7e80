//! Checks the rights of this process, by /proc/self/status, sysctl files, the mount of /proc and limits; the kernel's version,
//! configuration and lockdown; and where the kernel runs (hypervisor, container), with the effect on the figures.

use std::path::Path;

use super::super::host::{Version, has_shifted_clocks, version_of};
use super::super::proc_ids::ProcIds;
use crate::{Check, DoctorOptions, Topic};

/// Numbers of capabilities (linux/capability.h).
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The map of user ids of a process that is in no user namespace of its own (`user_namespaces(7)`).
const WHOLE_ID_MAP: [&str; 3] = ["0", "0", "4294967295"];

/// Since when BPF memory is charged to the control group instead of `RLIMIT_MEMLOCK`.
const MEMLOCK_UNUSED_SINCE: Version = Version::new(5, 11);
/// Memory of two ring buffers and their programs on a small machine.
const MEMLOCK_NEEDED_BYTES: u64 = 32 << 20;

#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Rights {
    effective: Option<u64>,
    permitted: u64,
    bounding: u64,
    is_root: bool,
    in_user_namespace: bool,
}

impl Rights {
    pub(super) fn read(options: &DoctorOptions) -> Self {
        let Ok(status) = text(&options.proc_root, "self/status") else { return Self::default() };
        let set = |key| value_of(&status, key).and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let id_map = text(&options.proc_root, "self/uid_map").unwrap_or_default();
        let map: Vec<&str> = id_map.split_whitespace().collect();
        Self {
            effective: set("CapEff"),
            permitted: set("CapPrm").unwrap_or(0),
            bounding: set("CapBnd").unwrap_or(u64::MAX),
            is_root: value_of(&status, "Uid").and_then(|uids| uids.split_whitespace().nth(1)) == Some("0"),
            in_user_namespace: !map.is_empty() && map != WHOLE_ID_MAP,
        }
    }

    fn has(&self, capability: u32) -> bool {
        self.effective.is_some_and(|set| set & (1 << capability) != 0)
    }

    /// Whether BPF programs that trace may be loaded.
    pub(super) fn may_trace(&self) -> bool {
        let both = self.has(CAP_BPF) && self.has(CAP_PERFMON);
        (both || self.has(CAP_SYS_ADMIN)) && !self.in_user_namespace
    }
}

/// How to give the two capabilities that tracing needs.
fn how_to_grant(capabilities: &str) -> String {
    let program = std::env::current_exe().map_or("PROGRAM".to_owned(), |path| path.display().to_string());
    let names = capabilities.to_ascii_uppercase().replace(',', " ");
    format!(
        "run as root, or: setcap {capabilities}+ep {program}; in a systemd unit: AmbientCapabilities={names}"
    )
}

pub(super) fn checks(options: &DoctorOptions, rights: &Rights, release: Option<&Release>) -> Vec<Check> {
    let mut checks = vec![
        capability(rights, CAP_BPF, "CAP_BPF", "loading BPF programs and maps", "cap_bpf,cap_perfmon"),
        capability(rights, CAP_PERFMON, "CAP_PERFMON", "tracing with them", "cap_bpf,cap_perfmon"),
        ptrace(rights),
        unprivileged_bpf(options),
        paranoid(options),
        hidepid(options, rights),
        memlock(options, release),
    ];
    if rights.in_user_namespace {
        let check = Check::new(Topic::Rights, "user namespace", "capabilities that count for BPF");
        let help = "run in the host's user namespace (no rootless container)";
        checks.push(
            check.missing("a user namespace of its own: its capabilities count for nothing here", help),
        );
    }
    checks
}

fn capability(rights: &Rights, number: u32, name: &str, gives: &str, grant: &str) -> Check {
    let check = Check::new(Topic::Rights, name, gives);
    let bit = 1_u64 << number;
    match rights.effective {
        None => check,
        Some(set) if set & bit != 0 => check.available("granted"),
        Some(_) if rights.has(CAP_SYS_ADMIN) => check.available("CAP_SYS_ADMIN includes it"),
        Some(_) if rights.permitted & bit != 0 => {
            check.missing("permitted, but not in effect", how_to_grant(grant))
        }
        Some(_) if rights.bounding & bit == 0 => {
            let option = name.trim_start_matches("CAP_");
            let help = format!("a container needs it from its start: docker run --cap-add {option}");
            check.missing("not granted, and this process may never get it (bounding set)", help)
        }
        Some(_) => check.missing("not granted", how_to_grant(grant)),
    }
}

/// Missed only where other users' processes are to be seen: for root and everybody else.
fn ptrace(rights: &Rights) -> Check {
    let gives = "names of other users' programs (with BPF: those that began before cpumon) beyond 15 bytes";
    let check =
        capability(rights, CAP_SYS_PTRACE, "CAP_SYS_PTRACE", gives, "cap_bpf,cap_perfmon,cap_sys_ptrace");
    if rights.is_root && rights.has(CAP_SYS_PTRACE) { check.available("granted (root)") } else { check }
}

fn unprivileged_bpf(options: &DoctorOptions) -> Check {
    let name = "unprivileged_bpf_disabled";
    let check = Check::new(Topic::Rights, name, "nothing for cpumon: tracing needs the capabilities anyway");
    match text(&options.proc_root, "sys/kernel/unprivileged_bpf_disabled").as_deref() {
        Ok("0") => check.note("0: BPF is open to all users, tracing is not"),
        Ok("1") => check.note("1: closed to users without CAP_BPF, until the next boot"),
        Ok("2") => check.note("2: closed to users without CAP_BPF"),
        Ok(other) => check.note(format!("{other}: a value that cpumon does not know")),
        Err(why) => check.note(format!("{why}: a kernel without BPF system call, or an incomplete /proc")),
    }
}

fn paranoid(options: &DoctorOptions) -> Check {
    let name = "perf_event_paranoid";
    let check = Check::new(Topic::Rights, name, "nothing for cpumon: it opens no perf event");
    match text(&options.proc_root, "sys/kernel/perf_event_paranoid") {
        Ok(level) => check.note(format!("{level}: bounds perf for users without CAP_PERFMON")),
        Err(why) => check.note(format!("{why}: a kernel without perf events")),
    }
}

/// hidepid of the mount at `proc_root`, from mountinfo (proc(5)).
fn hidepid(options: &DoctorOptions, rights: &Rights) -> Check {
    let check = Check::new(Topic::Rights, "hidepid", "other users' processes in /proc");
    let mounts = match text(&options.proc_root, "self/mountinfo") {
        Ok(mounts) => mounts,
        Err(why) => return check.note(format!("{why}: taken as not set")),
    };
    let mounted_at = options.proc_root.display().to_string();
    let is_proc = |line: &&str| line.split(' ').nth(4) == Some(&*mounted_at) && line.contains(" - proc ");
    let hidden = mounts.lines().rfind(is_proc).and_then(|line| {
        line.rsplit(' ').next()?.split(',').find_map(|option| option.strip_prefix("hidepid="))
    });
    match hidden {
        None | Some("0" | "off") => check.available("not set"),
        Some(value) if rights.has(CAP_SYS_PTRACE) => {
            check.available(format!("{value}, but CAP_SYS_PTRACE sees through it"))
        }
        Some(value) => {
            let help = "grant CAP_SYS_PTRACE, or mount /proc with gid= of a group that cpumon is in";
            check.missing(format!("hidepid={value}: only this user's processes are in /proc"), help)
        }
    }
}

fn memlock(options: &DoctorOptions, release: Option<&Release>) -> Check {
    let check = Check::new(Topic::Rights, "RLIMIT_MEMLOCK", "memory for BPF maps");
    let limits = text(&options.proc_root, "self/limits").unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let limit = limit.and_then(|rest| rest.split_whitespace().next()).unwrap_or("unknown");
    let Version { major, minor } = MEMLOCK_UNUSED_SINCE;
    if release.is_some_and(|release| release.is_at_least(MEMLOCK_UNUSED_SINCE)) {
        return check
            .available(format!("{limit}: not used, BPF memory counts for the cgroup since {major}.{minor}"));
    }
    match limit.parse::<u64>() {
        Ok(bytes) if bytes < MEMLOCK_NEEDED_BYTES => {
            let help = "raise it: ulimit -l unlimited, or LimitMEMLOCK=infinity in a systemd unit";
            check.missing(format!("{bytes} bytes: too little for the ring buffer"), help)
        }
        _ => check.available(limit),
    }
}

/// First version with ring buffer, task iterator and `CAP_BPF`.
const NEEDED: Version = Version::new(5, 8);

#[derive(Clone, Debug)]
pub(super) struct Release {
    text: String,
    version: Version,
}

impl Release {
    /// From `sys/kernel/osrelease`, so that a tree of a test has its own.
    pub(super) fn read(options: &DoctorOptions) -> Option<Self> {
        let text = text(&options.proc_root, "sys/kernel/osrelease").ok()?;
        let version = version_of(&text)?;
        Some(Self { text, version })
    }

    fn is_at_least(&self, version: Version) -> bool {
        self.version >= version
    }
}

pub(super) fn kernel_checks(options: &DoctorOptions, release: Option<&Release>) -> Vec<Check> {
    vec![version(options, release), lockdown(options), schedstat(options), bpf_stats(options)]
}

fn version(options: &DoctorOptions, release: Option<&Release>) -> Check {
    let gives = "BPF task iterator, ring buffer and CAP_BPF (5.8), task storage for tracing (5.11)";
    let check = Check::new(Topic::Kernel, "version", gives);
    match release {
        Some(release) if release.is_at_least(NEEDED) => check.available(format!("Linux {}", release.text)),
        Some(release) => check.missing(format!("Linux {} is older than 5.8", release.text), "a newer kernel"),
        None => {
            let why = text(&options.proc_root, "sys/kernel/osrelease");
            check.found(crate::CheckState::Unknown, why.unwrap_or_else(|why| why))
        }
    }
}

fn lockdown(options: &DoctorOptions) -> Check {
    let check = Check::new(Topic::Kernel, "lockdown", "reading kernel memory from BPF programs");
    let modes = match text(&options.sys_root, "kernel/security/lockdown") {
        Ok(modes) => modes,
        Err(why) => return check.available(format!("{why}: not built in, or securityfs not mounted")),
    };
    let mode = modes.split(['[', ']']).nth(1).unwrap_or("unknown");
    if mode == "confidentiality" {
        return check.missing(
            "confidentiality: BPF programs may not read kernel memory",
            "boot with lockdown=integrity, or without secure boot",
        );
    }
    check.available(mode)
}

/// Whether schedstat files hold numbers (`CONFIG_SCHED_INFO`).
fn schedstat(options: &DoctorOptions) -> Check {
    let gives = "run time to the nanosecond and run delay in /proc (procfs source)";
    let check = Check::new(Topic::Kernel, "sched_info", gives);
    let help = "a kernel with CONFIG_SCHED_INFO (SCHEDSTATS or TASK_DELAY_ACCT)";
    match text(&options.proc_root, "self/schedstat") {
        Ok(line) if line == "0 0 0" => check.missing("/proc/PID/schedstat holds zeros only", help),
        Ok(_) => check.available("/proc/PID/schedstat"),
        Err(why) => check.missing(why, help),
    }
}

fn bpf_stats(options: &DoctorOptions) -> Check {
    let gives = "the kernel's own measure of what the probes cost; it slows each of them a little";
    let check = Check::new(Topic::Kernel, "bpf_stats_enabled", gives);
    match text(&options.proc_root, "sys/kernel/bpf_stats_enabled").as_deref() {
        Ok("0") => check.note("0: not measured (sysctl kernel.bpf_stats_enabled=1 switches it on)"),
        Ok(value) => check.note(format!("{value}: measured")),
        Err(why) => check.note(why.to_owned()),
    }
}

/// Files that container runtimes create, and the name of the runtime.
const CONTAINER_FILES: [(&str, &str); 3] = [
    (".dockerenv", "docker"),
    ("run/.containerenv", "podman"),
    ("run/systemd/container", "systemd-nspawn or LXC"),
];
/// Parts of a cgroup path that name a container runtime.
const CONTAINER_CGROUPS: [&str; 6] = ["docker", "kubepods", "containerd", "lxc", "libpod", "crio"];

pub(super) fn surroundings_checks(options: &DoctorOptions) -> Vec<Check> {
    vec![
        hypervisor(options),
        steal(options),
        pid_namespace(options),
        time_namespace(options),
        container(options),
    ]
}

fn hypervisor(options: &DoctorOptions) -> Check {
    let gives = "in a virtual machine a running thread may not really run: the host shares the CPU out";
    let check = Check::new(Topic::Surroundings, "hypervisor", gives);
    let cpuinfo = text(&options.proc_root, "cpuinfo").unwrap_or_default();
    let has_flag = cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    let names = ["hypervisor/type", "class/dmi/id/sys_vendor", "class/dmi/id/product_name"];
    let named: Vec<String> = names.iter().filter_map(|file| text(&options.sys_root, file).ok()).collect();
    match (has_flag, named.is_empty()) {
        (true, true) => check.note("yes, of unknown name"),
        (true, false) => check.note(format!("yes: {}", named.join(", "))),
        (false, _) if cpuinfo.is_empty() => check.note("cannot be determined: no cpuinfo"),
        (false, true) => check.note("none seen"),
        (false, false) => check.note(format!("none seen; the machine is {}", named.join(", "))),
    }
}

/// Steal since boot, from the first line of /proc/stat.
fn steal(options: &DoctorOptions) -> Check {
    let check =
        Check::new(Topic::Surroundings, "steal", "time the hypervisor took; a line of its own in the ledger");
    let stat = text(&options.proc_root, "stat").unwrap_or_default();
    let fields: Vec<u64> = stat
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))
        .map(|rest| rest.split_whitespace().filter_map(|field| field.parse().ok()).collect())
        .unwrap_or_default();
    let all: u64 = fields.iter().take(8).sum();
    match fields.get(7) {
        Some(0) => check.note("0 since boot: none, or not reported by the hypervisor"),
        Some(&steal) => check
            .note(format!("{:.3} % of all CPU time since boot", steal as f64 * 100.0 / all.max(1) as f64)),
        None => check.note("cannot be determined: no such field in /proc/stat"),
    }
}

fn pid_namespace(options: &DoctorOptions) -> Check {
    let check =
        Check::new(Topic::Surroundings, "pid namespace", "every process of the host, under the host's pids");
    match ProcIds::of(&options.proc_root) {
        ProcIds::Hosts => check.available("the host's"),
        ProcIds::Others => check.missing(
            "one of its own: /proc shows its processes only, and by ids other than BPF's; so /proc is used, and BPF is not",
            "docker run --pid=host, hostPID: true in Kubernetes",
        ),
        ProcIds::Unknown => check.note("cannot be determined: no process 1"),
    }
}

fn time_namespace(options: &DoctorOptions) -> Check {
    let check = Check::new(Topic::Surroundings, "time namespace", "the host's clocks, which BPF uses");
    if has_shifted_clocks(&options.proc_root) {
        let finding = "one of its own, whose clocks are shifted; so /proc is used, and BPF is not";
        return check.missing(finding, "run in the host's: nsenter --time --target 1 PROGRAM");
    }
    check.available("clocks as the host's")
}

fn container(options: &DoctorOptions) -> Check {
    let gives = "a container measures its host only where host pids, /proc and capabilities are given to it";
    let check = Check::new(Topic::Surroundings, "container", gives);
    let file = CONTAINER_FILES.iter().find(|(file, _)| options.fs_root.join(file).exists());
    let cgroup = text(&options.proc_root, "self/cgroup").unwrap_or_default();
    let named = CONTAINER_CGROUPS.iter().find(|name| cgroup.contains(**name));
    match (file, named) {
        (Some((file, whose)), _) => check.note(format!("yes, {whose} (/{file})")),
        (None, Some(name)) => check.note(format!("yes, {name} (control group)")),
        (None, None) => check.note("no sign of one"),
    }
}

/// Longest file of /proc or /sys that is read, bytes; the rest is ignored.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A small text file, its end trimmed; `Err` says why not in a word or two.
pub(super) fn text(root: &Path, file: &str) -> Result<String, String> {
    use std::io::Read;
    let path = root.join(file);
    let read = |path: &Path| -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read(&path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(format!("no {}", path.display())),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

/// The value behind `key:` in a file of such lines.
fn value_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}
