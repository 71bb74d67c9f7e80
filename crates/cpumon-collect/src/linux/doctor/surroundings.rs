//! Finds out from /proc, /sys and files that container runtimes leave where the kernel runs (hypervisor,
//! container), and notes what that does to the figures.

use super::super::proc_ids::ProcIds;
use super::files::text;
use crate::{Check, DoctorOptions, Topic};

/// Files that runtimes leave, and whose they are.
const CONTAINER_FILES: [(&str, &str); 3] = [
    (".dockerenv", "docker"),
    ("run/.containerenv", "podman"),
    ("run/systemd/container", "systemd-nspawn or LXC"),
];
/// Parts of a cgroup path that runtimes make.
const CONTAINER_CGROUPS: [&str; 6] = ["docker", "kubepods", "containerd", "lxc", "libpod", "crio"];

pub(super) fn checks(options: &DoctorOptions) -> Vec<Check> {
    vec![hypervisor(options), steal(options), pid_namespace(options), container(options)]
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
