//! CPU time and limits of cgroups, against the kernel's counts in `cpu.stat`. Needs root; CPU time also BPF and cgroup v2.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::cgroup::LimitedGroup;
use crate::skip::say_skipped;
use crate::support::{Serve, eventually, is_root, ok, spinner};

/// How far the two may be apart.
const TOLERANCE: f64 = 0.005;
/// For how long they use CPU time.
const BURN: Duration = Duration::from_millis(7_700);

/// Processes that live for about a ms.
const STORM: usize = 1_500;
/// Id of a made-up container.
const CONTAINER: &str = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d";

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

    /// CPU time by the kernel's count, ns.
    fn usage_ns(&self) -> i64 {
        let text = std::fs::read_to_string(self.dir.join("cpu.stat")).unwrap();
        let us = text.lines().find_map(|line| line.strip_prefix("usage_usec ")).unwrap();
        us.parse::<i64>().unwrap() * 1000
    }

    fn start(&mut self) {
        self.shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }

    /// Ends all its processes; it may be starting another one just now.
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
    // One burns; one burns in processes that live for a second, one in processes that are gone before a pass can read their cgroup.
    let container = format!("docker-{CONTAINER}.scope");
    let storm = format!("i=0; while [ $i -lt {STORM} ]; do /bin/true; i=$((i+1)); done; sleep 600");
    let mut groups = [
        Group::new(root, "burn", "while :; do :; done"),
        Group::new(root, "jobs", "while :; do timeout 1 sh -c 'while :; do :; done'; done"),
        Group::new(root, &container, &storm),
    ];
    let serve = Serve::start(&["--interval", "250ms"]);
    eventually("some data", || serve.status()["store"]["written"].as_u64().filter(|written| *written > 4));
    let sql = |query: &str| -> Value {
        serde_json::from_str(&ok(&["sql", "--store", serve.store(), "--format", "json", query])).unwrap()
    };
    if !sql("SELECT DISTINCT source FROM host_interval").to_string().contains("bpf") {
        return say_skipped("BPF is not permitted here");
    }
    let since = cpumon_store::wall_now_ns().to_string();
    let before = [0, 1, 2].map(|at: usize| groups[at].usage_ns());
    groups.iter_mut().for_each(Group::start);
    std::thread::sleep(BURN);
    groups.iter_mut().for_each(Group::stop);
    let used = [0, 1, 2].map(|at: usize| groups[at].usage_ns() - before[at]);
    let ended_ns = cpumon_store::wall_now_ns();
    eventually("the end of it in the store", || {
        let newest = sql("SELECT max(end_ns) AS end_ns FROM host_interval");
        (newest[0]["end_ns"].as_i64() > Some(ended_ns)).then_some(())
    });
    let rows = report(&serve, &since, "cgroup");
    for (group, used_ns) in groups.iter().zip(used) {
        assert_is_near(&rows, &group.path(), used_ns);
    }
    assert_is_near(&report(&serve, &since, "container"), &CONTAINER[..12], used[2]);
    serve.stop();
}

fn report(serve: &Serve, since: &str, by: &str) -> Vec<Value> {
    let store = serve.store();
    let command = ["report", "--store", store, "--since", since, "--by", by, "--limit", "1000", "--json"];
    serde_json::from_str(&ok(&command)).unwrap()
}

/// The row of this name has as much CPU time as the kernel counted.
fn assert_is_near(rows: &[Value], name: &str, used_ns: i64) {
    let row = rows.iter().find(|row| row["name"] == *name).unwrap();
    let run_ns = row["run_ns"].as_i64().unwrap();
    let off = (run_ns - used_ns) as f64 / used_ns as f64;
    println!("{name}: {run_ns} ns in the report, {used_ns} ns in cpu.stat, {:+.3} %", off * 100.0);
    assert!(off.abs() <= TOLERANCE, "{name}: {run_ns} and {used_ns}: {off}");
}

#[test]
fn a_quota_that_is_used_up_is_the_same_in_top_and_export() {
    let group = match LimitedGroup::twentieth("cpumon-quota") {
        Ok(group) => group,
        Err(error) => return say_skipped(format!("it needs root and cgroups: {error}")),
    };
    let burner = spinner("sh");
    group.add(burner.0.id());
    let serve = Serve::start(&["--interval", "250ms"]);
    let export = |format| ok(&["export", "cgroups", "--store", serve.store(), "--format", format]);
    eventually("some data", || serve.status()["store"]["written"].as_u64().filter(|written| *written > 8));
    let (first, rows) = eventually("throttled time in the store", || {
        let rows: Vec<Value> =
            export("jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of_group = rows.into_iter().filter(|row| row["cgroup"] == *group.path);
        let known: Vec<Value> = of_group.filter(|row| row["throttled_ns"].is_u64()).collect();
        (known.len() > 8).then(|| (known[0].clone(), known))
    });
    assert_eq!((&first["cpu_limit"], &first["limited_by"]), (&Value::from(0.05), &Value::from(&*group.path)));
    let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
    let kernel = group.counts();
    assert!(
        sum("throttled_ns") <= kernel.throttled_ns && sum("throttled_periods") <= kernel.throttled_periods
    );
    assert!(sum("throttled_periods") > 0 && sum("throttled_ns") > 0, "{rows:?}");
    let header = export("csv").lines().next().unwrap().to_owned();
    assert!(header.contains(",cpu_limit,limited_by,periods,throttled_periods,throttled_ns,"), "{header}");
    // One of these intervals again, as `top` has it.
    let at = rows[4]["end_utc"].as_str().unwrap();
    let pid = burner.0.id().to_string();
    let top = |more: &[&str]| {
        ok(&[&["top", "-b", "--store", serve.store(), "--at", at, "-p", &pid], more].concat())
    };
    let shown: Value = serde_json::from_str(&top(&["-o", "json"])).unwrap();
    for name in ["cpu_limit", "periods", "throttled_periods", "throttled_ns", "pressure_some_ns"] {
        assert_eq!(shown["rows"][0][name], rows[4][name], "{name}");
    }
    assert!(shown.get("pressure_some_ns").is_some());
    let text = top(&[]);
    let row = text.lines().find(|line| line.trim_start().starts_with(&pid)).unwrap();
    assert!(row.split_whitespace().any(|cell| cell == "0.05"), "{text}");
    serve.stop();
}
