//! Memory and CPU time of a running receiver, from /proc.

use std::path::{Path, PathBuf};

fn of(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

fn kib(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(of(pid).join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// Peak memory of a process, KiB.
pub fn peak_kib(pid: u32) -> u64 {
    kib(pid, "VmHWM")
}

/// Resident memory, KiB.
pub fn resident_kib(pid: u32) -> u64 {
    kib(pid, "VmRSS")
}

/// Allocated part of the resident memory, KiB: pages of the program that were used for the first time are no cost of the input.
pub fn allocated_kib(pid: u32) -> u64 {
    kib(pid, "RssAnon")
}

/// Resets [`peak_kib`].
pub fn forget_peak(pid: u32) {
    std::fs::write(of(pid).join("clear_refs"), "5").unwrap();
}

/// CPU time of its threads that take data in and store them, ns: not of those that measure this machine and answer frontends.
pub fn intake_cpu_ns(pid: u32) -> u64 {
    let threads = std::fs::read_dir(of(pid).join("task")).unwrap();
    let of_thread = |dir: PathBuf| {
        let name = std::fs::read_to_string(dir.join("comm")).ok()?;
        let times = std::fs::read_to_string(dir.join("schedstat")).ok()?;
        let is_other = matches!(name.trim(), "measure" | "http" | "cpumon-ring");
        let ns: u64 = times.split(' ').next()?.parse().ok()?;
        Some(if is_other { 0 } else { ns })
    };
    // A thread may end meanwhile.
    threads.filter_map(|entry| of_thread(entry.ok()?.path())).sum()
}
