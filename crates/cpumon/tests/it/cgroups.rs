//! CPU time of a cgroup in `cpumon report`, against what the kernel counts for it: `cpu.stat` of cgroup v2. Needs root and BPF.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::skip::say_skipped;
use crate::support::{Serve, eventually, is_root, ok};

/// How far the two may be apart.
const TOLERANCE: f64 = 0.005;
/// Ends within a job of a second: one that has only begun when it is stopped was not seen by a pass.
const BURN: Duration = Duration::from_millis(7_700);

/// The root of cgroup v2, also where v1 is mounted beside it.
fn root() -> Option<&'static Path> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    roots.into_iter().find(|root| root.join("cgroup.controllers").exists())
}

/// A cgroup with a shell in it that waits for a line and then runs a script until it is killed.
struct Group {
    dir: PathBuf,
    shell: Child,
}

impl Group {
    fn new(root: &Path, name: &str, script: &str) -> Self {
        let dir = root.join(format!("cpumon-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let script = format!("echo $$ > {}/cgroup.procs; read line; {script}", dir.display());
        let shell = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
        let group = Self { dir, shell };
        let procs = || std::fs::read_to_string(group.dir.join("cgroup.procs")).unwrap_or_default();
        eventually("the shell in its cgroup", || (!procs().is_empty()).then_some(()));
        group
    }

    /// What the kernel counted, ns.
    fn usage_ns(&self) -> i64 {
        let text = std::fs::read_to_string(self.dir.join("cpu.stat")).unwrap();
        let us = text.lines().find_map(|line| line.strip_prefix("usage_usec ")).unwrap();
        us.parse::<i64>().unwrap() * 1000
    }

    fn start(&mut self) {
        self.shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }

    /// Ends all of it; it may be starting another process just now.
    fn stop(&mut self) {
        let procs = self.dir.join("cgroup.procs");
        eventually("an empty cgroup", || {
            let pids = std::fs::read_to_string(&procs).unwrap();
            for pid in pids.lines() {
                let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
            }
            let _ = self.shell.try_wait();
            pids.is_empty().then_some(())
        });
        self.shell.wait().unwrap();
    }

    fn path(&self) -> String {
        format!("/{}", self.dir.file_name().unwrap().to_str().unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        let _ = std::fs::remove_dir(&self.dir);
    }
}

#[test]
fn a_report_by_cgroup_has_the_cpu_time_of_the_kernel() {
    let Some(root) = root().filter(|_| is_root()) else {
        return say_skipped("it needs root and cgroup v2");
    };
    // One burns; the other burns in processes that live for a second. Those that are gone before a pass can read their cgroup have none.
    let mut groups = [
        Group::new(root, "burn", "while :; do :; done"),
        Group::new(root, "jobs", "while :; do timeout 1 sh -c 'while :; do :; done'; done"),
    ];
    let serve = Serve::start(&["--interval", "250ms"]);
    let stored = || serve.status()["store"]["written"].as_u64();
    eventually("some data", || stored().filter(|written| *written > 4));
    let source = ok(&[
        "sql",
        "--store",
        serve.store(),
        "--format",
        "json",
        "SELECT DISTINCT source FROM host_interval",
    ]);
    if !source.contains("bpf") {
        return say_skipped("BPF is not permitted here");
    }
    let since = cpumon_store::wall_now_ns().to_string();
    let before = [0, 1].map(|at: usize| groups[at].usage_ns());
    groups.iter_mut().for_each(Group::start);
    std::thread::sleep(BURN);
    groups.iter_mut().for_each(Group::stop);
    let used = [0, 1].map(|at: usize| groups[at].usage_ns() - before[at]);
    let written = stored().unwrap();
    eventually("the end of it in the store", || stored().filter(|now| *now > written + 4));
    let command = [
        "report",
        "--store",
        serve.store(),
        "--since",
        &since,
        "--by",
        "cgroup",
        "--limit",
        "1000",
        "--json",
    ];
    let rows: Vec<Value> = serde_json::from_str(&ok(&command)).unwrap();
    for (group, used_ns) in groups.iter().zip(used) {
        let row = rows.iter().find(|row| row["name"] == *group.path()).unwrap();
        let run_ns = row["run_ns"].as_i64().unwrap();
        let off = (run_ns - used_ns) as f64 / used_ns as f64;
        println!(
            "{}: {run_ns} ns in the report, {used_ns} ns in cpu.stat, {:+.3} %",
            group.path(),
            off * 100.0
        );
        assert!(off.abs() <= TOLERANCE, "{}: {run_ns} and {used_ns}: {off}", group.path());
    }
    serve.stop();
}
