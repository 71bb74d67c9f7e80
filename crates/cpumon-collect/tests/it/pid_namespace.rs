//! In namespaces of its own. With pids and /proc of its own, BPF shows the host's ids, under which /proc has other processes; with
//! shifted clocks, BPF's are the host's; with mounts of its own, users are still the host's.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use cpumon_collect::{
    CheckState, ClockReader, DoctorOptions, SourceChoice, SourceOptions, TraceRecorder, TraceRecorderOptions,
    diagnose, open,
};
use cpumon_model::{Snapshot, SourceKind};

use crate::skip::say_skipped;

/// Set where the test runs inside.
const INSIDE: &str = "CPUMON_IN_NAMESPACE";

/// Runs a test of this file in the namespaces that these options of unshare(1) make.
fn run_inside(options: &[&str], test: &str) {
    let own = std::env::current_exe().unwrap();
    let unshare = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(options).arg(program).args(arguments);
        command.env(INSIDE, "1").output()
    };
    if !unshare("true".as_ref(), &[]).is_ok_and(|output| output.status.success()) {
        return say_skipped(format!("it may not run unshare {}", options.join(" ")));
    }
    let output = unshare(&own, &["--exact", &format!("pid_namespace::{test}"), "--nocapture"]).unwrap();
    let words = [output.stdout, output.stderr].concat();
    let words = String::from_utf8_lossy(&words);
    assert!(output.status.success() && words.contains("1 passed"), "{words}");
}

#[test]
fn processes_have_their_own_ids_and_names() {
    run_inside(&["--pid", "--fork", "--mount", "--mount-proc"], "inside");
}

#[test]
fn bpf_is_refused_where_the_clocks_are_shifted() {
    let options = ["--time", "--boottime", "100000", "--monotonic", "50000", "--fork"];
    run_inside(&options, "inside_with_shifted_clocks");
}

#[test]
fn users_are_the_hosts_also_beside_a_passwd_of_its_own() {
    // Process 1 is a shell with the host's users, beside which the test has others: not everybody may see the machine's process 1.
    let within = r#"unshare --mount "$0" "$@"; exit $?"#;
    let options = ["--pid", "--fork", "--mount", "--mount-proc", "sh", "-c", within];
    run_inside(&options, "inside_with_other_users");
}

/// Body of [`users_are_the_hosts_also_beside_a_passwd_of_its_own`]; by itself it checks nothing.
#[test]
fn inside_with_other_users() {
    /// No user of the host has it.
    const UID: u32 = 61_234;
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let passwd = dir.path().join("passwd");
    std::fs::write(&passwd, format!("root:x:0:0::/:\nimageuser:x:{UID}:{UID}::/:\n")).unwrap();
    let mut mount = Command::new("mount");
    assert!(mount.arg("--bind").arg(&passwd).arg("/etc/passwd").status().unwrap().success());
    let mut child = Command::new("sleep").arg("600").uid(UID).spawn().unwrap();
    let mut users = Vec::new();
    for choice in [SourceChoice::Procfs, SourceChoice::Auto] {
        let mut opened = open(&SourceOptions { choice, ..SourceOptions::default() }).unwrap();
        let mut snapshot = Snapshot::default();
        opened.source.snapshot(&mut snapshot).unwrap();
        let process = snapshot.processes.iter().find(|process| process.key.pid == child.id()).unwrap();
        users.push((process.info.uid, process.info.user.to_string()));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(users, [(UID, String::new()), (UID, String::new())]);
}

/// Body of [`bpf_is_refused_where_the_clocks_are_shifted`]; by itself it checks nothing.
#[test]
fn inside_with_shifted_clocks() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let opened = open(&SourceOptions::default()).unwrap();
    assert_eq!(opened.kind, SourceKind::Procfs);
    assert!(opened.reason.contains("runs in a time namespace"), "{}", opened.reason);
    let forced = SourceOptions { choice: SourceChoice::Bpf, ..SourceOptions::default() };
    let refused = [
        open(&forced).err(),
        TraceRecorder::open(TraceRecorderOptions::default()).err(),
        ClockReader::open().err(),
    ];
    for error in refused {
        let error = error.unwrap().to_string();
        assert!(error.contains("runs in a time namespace"), "{error}");
    }
    let found = diagnose(&DoctorOptions { load: false, ..DoctorOptions::default() });
    let check = found.checks.iter().find(|check| check.name == "time namespace").unwrap();
    assert_eq!(check.state, CheckState::Missing, "{check:?}");
}

/// Body of [`processes_have_their_own_ids_and_names`]; by itself it checks nothing.
#[test]
fn inside() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let mut decoy = Command::new("sleep").arg("600").spawn().unwrap();
    let mut opened = open(&SourceOptions { cmdline: true, ..SourceOptions::default() }).unwrap();
    let mut snapshot = Snapshot::default();
    opened.source.snapshot(&mut snapshot).unwrap();
    let is_process = |entry: &std::fs::DirEntry| entry.file_name().to_str().unwrap().parse::<u32>().is_ok();
    let listed =
        std::fs::read_dir("/proc").unwrap().filter(|entry| is_process(entry.as_ref().unwrap())).count();
    let name = |pid: u32| {
        let process = snapshot.processes.iter().find(|process| process.key.pid == pid);
        process.map(|process| process.info.name.to_string())
    };
    let names = [name(std::process::id()), name(decoy.id())];
    decoy.kill().unwrap();
    decoy.wait().unwrap();
    let own = std::env::current_exe().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(names, [Some(own), Some("sleep".to_owned())]);
    assert_eq!(snapshot.processes.len(), listed, "those of this namespace");
    assert_eq!(opened.kind, SourceKind::Procfs);
    assert!(opened.reason.starts_with("procfs: no BPF") && opened.reason.len() < 256, "{}", opened.reason);
    let refused = open(&SourceOptions { choice: SourceChoice::Bpf, ..SourceOptions::default() });
    // An old kernel is the first reason.
    if refused.err().unwrap().to_string().contains("pid namespace") {
        assert!(
            opened.reason.contains("runs in a pid namespace (docker run --pid=host"),
            "{}",
            opened.reason
        );
    }
}
