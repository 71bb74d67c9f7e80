//! Checks the kernel's version, configuration and lockdown, from /proc and /sys.

use super::super::release::{Version, version_of};
use super::files::text;
use crate::{Check, DoctorOptions, Topic};

/// First version with ring buffer, task iterator and `CAP_BPF`.
const NEEDED: Version = Version::new(5, 8);

/// Version of the running kernel.
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

    pub(super) fn is_at_least(&self, version: Version) -> bool {
        self.version >= version
    }
}

pub(super) fn checks(options: &DoctorOptions, release: Option<&Release>) -> Vec<Check> {
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
