//! Names that people know, through the real program: a script that ran and ended is found under its own name.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::program::copy_program;
use crate::skip::say_skipped;
use crate::support::{KillOnDrop, Serve, cpumon, eventually, ok, run, wait};

/// A script that uses the CPU while there is a file beside it, with a code and an argument that must not travel.
const SCRIPT: &str =
    "#!/bin/sh\nwhile [ -e \"${0%/*}/go-on\" ]; do i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done; done\n";

/// The system's interpreter for the script.
const SHELLS: [&str; 4] = ["dash", "bash", "sh", "busybox"];

/// Runs the script beside a receiver until the store has CPU time for it under one of these names, and to its end. Out:
/// the receiver, and the script's directory.
fn serve_and_run(more: &[&str], names: &[&str]) -> (Serve, String) {
    let mut all = vec!["--source", "procfs", "--interval", "100ms"];
    all.extend(more);
    let serve = Serve::start(&all);
    let dir = tempfile::tempdir().unwrap();
    let [source, script, go_on] = ["source", "nightly-report", "go-on"].map(|name| dir.path().join(name));
    std::fs::write(&source, SCRIPT).unwrap();
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o755)).unwrap();
    copy_program(source, &script);
    std::fs::write(&go_on, "").unwrap();
    let mut running = KillOnDrop(Command::new(&script).arg("hunter2").spawn().unwrap());
    let query = format!("SELECT name FROM process_interval WHERE run_ns > 0 AND pid = {}", running.0.id());
    eventually("the script in the store", || {
        let rows = ok(&["sql", &query, "--store", serve.store(), "--format", "csv"]);
        let is_named = |row: &str| names.contains(&row.trim_matches('"'));
        rows.lines().any(is_named).then_some(())
    });
    std::fs::remove_file(go_on).unwrap();
    assert!(wait(&mut running.0, "the script").success());
    let dir = dir.path().to_str().unwrap().to_owned();
    (serve, dir)
}

#[test]
fn a_script_that_ended_is_found_and_reported_under_its_name() {
    let (serve, dir) = serve_and_run(&[], &["nightly-report"]);
    let found = ok(&["find", "nightly", "--store", serve.store(), "--json"]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found[0]["name"], &found[0]["kind"]), (&"nightly-report".into(), &"name".into()), "{found}");
    let report =
        ok(&["report", "--since", "1h", "--store", serve.store(), "--format", "csv", "--limit", "10000"]);
    assert!(report.contains("nightly-report"), "{report}");
    let query = "SELECT name, interpreter, uid, user FROM processes WHERE name = 'nightly-report'";
    let rows = ok(&["sql", query, "--store", serve.store(), "--format", "jsonl"]);
    let row: serde_json::Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert!(SHELLS.contains(&row["interpreter"].as_str().unwrap()), "{row}");
    assert!(row["uid"] != 0 || row["user"] == "root", "{row}");
    let user = row["user"].as_str().unwrap_or_default().to_owned();
    if !user.is_empty() {
        let found = ok(&["find", &user, "--store", serve.store()]);
        assert!(found.contains("user"), "{found}");
    }
    let all = ok(&["export", "processes", "--store", serve.store()]);
    assert!(
        all.contains("nightly-report") && !all.contains("hunter2") && !all.contains(&dir),
        "only the base name"
    );
    serve.stop();
}

#[test]
fn without_script_names_a_script_is_its_interpreter() {
    let (serve, _) = serve_and_run(&["--no-script-names"], &SHELLS);
    let found = run(&["find", "nightly", "--store", serve.store()]);
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    serve.stop();
}

#[test]
fn scripts_that_end_at_once_are_reported_under_their_names() {
    let serve = Serve::start(&["--interval", "1s"]);
    let sql = |query: &str| ok(&["sql", query, "--store", serve.store(), "--format", "csv"]);
    eventually("some data", || serve.status()["store"]["written"].as_u64().filter(|written| *written > 1));
    if !sql("SELECT DISTINCT source FROM host_interval").contains("bpf") {
        return say_skipped("BPF is not permitted here");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (program, name) in [
        ("sh", "short-job.sh"),
        ("python3", "short-job.py"),
        ("perl", "short-job.pl"),
        ("node", "short-job.js"),
    ] {
        std::fs::write(path(name), "").unwrap();
        let started = Command::new(program).args([&*path(name), "hunter2"]).status();
        if started.is_err() {
            continue;
        }
        eventually(name, || {
            let query = format!("SELECT name, interpreter FROM processes WHERE name = '{name}'");
            sql(&query).lines().nth(1).filter(|row| !row.ends_with(",\"\"")).map(str::to_owned)
        });
    }
    assert!(Command::new("sh").args(["-c", ": short-job.code hunter2"]).status().unwrap().success());
    let all = eventually("the end of it", || {
        let all = ok(&["export", "processes", "--store", serve.store()]);
        all.contains("short-job.sh").then_some(all)
    });
    for secret in ["hunter2", "short-job.code", dir.path().to_str().unwrap()] {
        assert!(!all.contains(secret), "{secret}");
    }
    serve.stop();
}

/// It called the host by its id and its processes by nothing for half a minute, and stored that.
#[test]
fn a_receiver_that_starts_again_knows_the_names_of_before_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("s.db");
    // An address of its own: the port is free while it starts again.
    let serve = Serve::start_anywhere(cpumon(), &store, &["--no-agent", "--udp", "127.0.44.1:0"]);
    let udp = serve.udp.to_string();
    let mut agent = cpumon();
    agent.args(["agent", "--to", &udp, "--source", "procfs", "--host-name", "phoenix", "-q"]);
    let agent = KillOnDrop(agent.spawn().unwrap());
    let pid = agent.0.id().to_string();
    let name_of_agent = |serve: &Serve| {
        let shown =
            run(&["top", "-b", "-n", "1", "--json", "--host", "phoenix", "--url", &serve.url, "-p", &pid]);
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).ok()?;
        Some(shown["rows"].as_array()?.first()?["name"].as_str()?.to_owned())
    };
    let names = || {
        ok(&[
            "sql",
            "--store",
            store.to_str().unwrap(),
            "--format",
            "csv",
            "SELECT DISTINCT name FROM host_change",
        ])
    };
    eventually("the agent's name", || name_of_agent(&serve).filter(|name| name == "cpumon"));
    eventually("the host in the store", || names().contains("phoenix").then_some(()));
    serve.stop();

    let serve = Serve::start_anywhere(cpumon(), &store, &["--no-agent", "--udp", &udp]);
    let hosts = eventually("a host", || {
        let hosts = serve.status()["hosts"].as_array().unwrap().clone();
        (!hosts.is_empty()).then_some(hosts)
    });
    assert_eq!(hosts[0]["hostname"], "phoenix", "{hosts:?}");
    let name = eventually("its first interval", || name_of_agent(&serve));
    assert_eq!(name, "cpumon");
    serve.stop();
    drop(agent);
    assert_eq!(names().lines().filter(|line| !line.contains("phoenix")).count(), 1, "{}", names());
}
