//! Checks what this process may do, by /proc/self/status, sysctl files, the mount of /proc and limits.

use super::super::release::Version;
use super::files::{text, value_of};
use super::kernel::Release;
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
/// What two ring buffers and their programs take on a small machine.
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
pub(super) fn how_to_grant(capabilities: &str) -> String {
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
