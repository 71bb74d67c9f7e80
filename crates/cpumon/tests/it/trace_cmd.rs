//! A `trace.dat` through `cpumon trace report` against trace-cmd's output for the same file, in both versions. Needs
//! root, tracefs and trace-cmd: in CI it must run.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::skip::skip;
use crate::support::{cpumon, eventually, is_root};

const TRACEFS: &str = "/sys/kernel/tracing";
const EVENTS: [&str; 6] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_process_fork",
    "task/task_newtask",
    "task/task_rename",
    "irq",
];
/// Threads that fight for the CPUs, nap, begin and end.
const LOAD: &str = "
    spin() { i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; }
    nap() { i=0; while [ $i -lt 20 ]; do i=$((i+1)); sleep 0.002; done; }
    spin & spin & spin & nap & wait";

/// An instance of ftrace; `trace-cmd extract` may have removed it already.
struct Instance(PathBuf);

impl Instance {
    fn new() -> std::io::Result<Self> {
        // As perf and trace-cmd do: on a machine that was just started it is not mounted yet.
        if !Path::new(TRACEFS).join("instances").exists() {
            Command::new("mount").args(["-t", "tracefs", "tracefs", TRACEFS]).status()?;
        }
        let name = format!("instances/cpumon-test-{}", std::process::id());
        let instance = Self(Path::new(TRACEFS).join(name));
        fs::create_dir(&instance.0)?;
        instance.set("buffer_size_kb", "8192")?;
        for event in EVENTS {
            instance.set(&format!("events/{event}/enable"), "1")?;
        }
        Ok(instance)
    }

    fn set(&self, name: &str, value: &str) -> std::io::Result<()> {
        fs::write(self.0.join(name), value)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn trace_cmd(args: &[&str]) -> String {
    let output = Command::new("trace-cmd").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The load for half a second; returns the instance.
fn record(file: &Path) -> std::io::Result<String> {
    eventually("the symbols stay as they are", || record_once(file).transpose())
}

/// `None`: trace-cmd read the kernel's symbols twice, and they changed in between, because another program loaded BPF. The events that it
/// read are in no buffer any more.
fn record_once(file: &Path) -> std::io::Result<Option<String>> {
    let instance = Instance::new()?;
    assert!(Command::new("sh").args(["-c", LOAD]).status()?.success());
    instance.set("tracing_on", "0")?;
    let name = instance.0.file_name().unwrap().to_str().unwrap().to_owned();
    let output = Command::new("trace-cmd").args(["extract", "-B", &name, "-o"]).arg(file).output()?;
    let has_changed = String::from_utf8_lossy(&output.stderr).contains("error in size of file");
    assert!(output.status.success() || has_changed, "{output:?}");
    Ok(output.status.success().then_some(name))
}

/// A line of `trace-cmd report -t`: `… [000] 25103.800668743: sched_switch: name:12 [120] S ==> name:13 [120]`.
struct Line {
    cpu: u32,
    at_ns: u64,
    /// For a switch: the thread that leaves and the one that comes.
    switch: Option<(u32, u32)>,
}

fn parse(line: &str) -> Option<Line> {
    let (head, event) = line.split_once("] ")?;
    let cpu = head.rsplit_once('[')?.1.parse().ok()?;
    let (time, event) = event.trim_start().split_once(": ")?;
    let (seconds, ns) = time.split_once('.')?;
    assert_eq!(ns.len(), 9, "{line}");
    let at_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
    let tid = |side: &str| side.rsplit_once(" [")?.0.rsplit(':').next()?.parse().ok();
    let switch = event.strip_prefix("sched_switch:").map(|switch| {
        let both = switch.split_once(" ==> ").and_then(|(prev, next)| Some((tid(prev)?, tid(next)?)));
        both.unwrap_or_else(|| panic!("{line}"))
    });
    Some(Line { cpu, at_ns, switch })
}

/// Run time of each thread in ns, and the part after the last switch of its CPU. The time of a CPU before its first
/// switch, and before a switch from a thread that it had not switched to, is unknown.
fn sums(text: &str, instance: &str) -> HashMap<u32, (u64, u64)> {
    let mut sums: HashMap<u32, (u64, u64)> = HashMap::new();
    let mut current: HashMap<u32, (u32, u64)> = HashMap::new();
    let mut end_ns = 0;
    let title = format!("{instance}:");
    for line in text.lines().filter_map(|line| parse(line.trim_start().strip_prefix(&title)?)) {
        end_ns = line.at_ns;
        let Some((prev, next)) = line.switch else { continue };
        if let Some((tid, since_ns)) = current.insert(line.cpu, (next, line.at_ns))
            && tid == prev
        {
            sums.entry(tid).or_default().0 += line.at_ns - since_ns;
        }
    }
    for (tid, since_ns) in current.into_values() {
        let sum = sums.entry(tid).or_default();
        *sum = (sum.0 + end_ns - since_ns, sum.1 + end_ns - since_ns);
    }
    sums.remove(&0);
    sums
}

fn report(file: &Path, by: &str) -> Vec<Value> {
    let output = cpumon().args(["trace", "report", "--json", "--by", by]).arg(file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// With the interrupts that came meanwhile.
fn run_ns(row: &Value) -> u64 {
    ["run_ns", "irq_ns", "softirq_ns"].iter().map(|name| row[name].as_u64().unwrap_or(0)).sum()
}

#[test]
fn run_times_are_those_of_trace_cmd_in_both_versions() {
    if !is_root() {
        return skip("needs root");
    }
    if Command::new("trace-cmd").arg("--help").output().is_err() {
        return skip("needs trace-cmd");
    }
    let dir = tempfile::tempdir().unwrap();
    let recorded = dir.path().join("trace.dat");
    let instance = match record(&recorded) {
        Ok(instance) => instance,
        Err(error) => return skip(format!("needs tracefs: {error}")),
    };
    let mut reports = HashSet::new();
    for (version, compression) in [("6", "none"), ("7", "none"), ("7", "zstd")] {
        let file = dir.path().join(format!("{version}-{compression}"));
        let (from, to) = (recorded.to_str().unwrap(), file.to_str().unwrap());
        trace_cmd(&[
            "convert",
            "-i",
            from,
            "-o",
            to,
            "--file-version",
            version,
            "--compression",
            compression,
        ]);
        let printed = sums(&trace_cmd(&["report", "-t", "-i", to]), &instance);
        let mut own: HashMap<u32, u64> = HashMap::new();
        let rows = report(&file, "thread");
        for row in &rows {
            *own.entry(row["tid"].as_u64().unwrap().try_into().unwrap()).or_default() += run_ns(row);
        }
        assert!(printed.len() > 20, "{} threads", printed.len());
        for (tid, (ns, last_ns)) in &printed {
            // The last event may be one that is not read, such as softirq_raise: the trace ends before it then.
            let own = own.get(tid).copied().unwrap_or(0);
            assert!(
                (ns - last_ns..=*ns).contains(&own),
                "thread {tid}: {own}, {ns} with {last_ns} at the end"
            );
        }
        for by in ["process", "program", "container", "cpu"] {
            let sum = |rows: &[Value]| rows.iter().map(|row| row["run_ns"].as_u64().unwrap()).sum::<u64>();
            assert_eq!(sum(&report(&file, by)), sum(&rows), "{by}");
        }
        reports.insert(serde_json::to_string(&rows).unwrap());
    }
    assert_eq!(reports.len(), 1, "both versions say the same");
}
