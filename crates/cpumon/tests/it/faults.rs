//! Faults: kill -9 while writing, a full disk, no privileges, a reader that goes away.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::copy_program;
use crate::skip::skip;
use crate::support::{Serve, cpumon, eventually, is_root, ok, output, run, text, wait};

/// `end_ns` of each row of a ledger.
fn ends(csv: &str) -> Vec<i64> {
    let mut lines = csv.lines();
    let at = lines.next().unwrap().split(',').position(|name| name == "end_ns").unwrap();
    lines.map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
}

/// How long a thread of the receiver was kept waiting for a CPU: other tests take turns with it.
fn run_delay(serve: &Serve, name: &str) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", serve.pid)).unwrap();
    let is_meant =
        |task: &Path| std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let task = tasks.map(|task| task.unwrap().path()).find(|task| is_meant(task)).unwrap();
    let times = std::fs::read_to_string(task.join("schedstat")).unwrap();
    Duration::from_nanos(times.split(' ').nth(1).unwrap().parse().unwrap())
}

#[test]
fn kill_9_loses_at_most_a_second_and_breaks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("x.db");
    let mut serve = Serve::start_with(cpumon(), &store, &["--interval", "100ms"]);
    eventually("some data", || serve.status()["store"]["written"].as_u64().filter(|written| *written > 5));
    // Right after a commit another interval comes: it waits longest for the next one. A status shows received intervals,
    // so a second later the file has them.
    let newest = |status: &serde_json::Value| status["hosts"][0]["last"]["wall_ns"].as_i64().unwrap();
    let seen = serve.status()["store"]["written"].as_u64();
    let committed =
        eventually("a commit", || Some(serve.status()).filter(|now| now["store"]["written"].as_u64() > seen));
    let shown_ns =
        eventually("an interval", || Some(newest(&serve.status())).filter(|end| *end > newest(&committed)));
    let (asked, waited) = (Instant::now(), run_delay(&serve, "store-writer"));
    while asked.elapsed() < Duration::from_secs(1) + run_delay(&serve, "store-writer").saturating_sub(waited)
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    serve.child.kill().unwrap();
    assert!(!wait(&mut serve.child, "serve").success());

    let before = ends(&ok(&["export", "ledger", "--store", store.to_str().unwrap()]));
    assert!(before.contains(&shown_ns), "{shown_ns} was received a second before the end: {before:?}");
    let gaps: Vec<i64> = before.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000).collect();
    assert!(gaps.iter().all(|gap| *gap > 0), "{gaps:?}");

    let again = Serve::start_with(cpumon(), &store, &["--interval", "100ms"]);
    eventually("new data", || again.status()["store"]["written"].as_u64().filter(|written| *written > 3));
    again.stop();
    let after = ends(&ok(&["export", "ledger", "--store", store.to_str().unwrap()]));
    assert!(after.len() > before.len() && after.starts_with(&before));
    if let Ok(check) = Command::new("sqlite3").arg(&store).arg("PRAGMA integrity_check").output() {
        assert_eq!(text(&check.stdout).trim(), "ok");
    }
}

#[test]
fn top_of_a_host_shows_the_store_when_no_receiver_runs() {
    if !is_root() {
        return;
    }
    // The state directory is the test's own, and so is loopback: in a network namespace no receiver answers at the default address.
    let state = tempfile::tempdir().unwrap();
    let store = state.path().join("cpumon.db");
    let serve = Serve::start_with(cpumon(), &store, &["--interval", "100ms"]);
    let name = eventually("some data", || {
        let status = serve.status();
        let is_kept = status["store"]["written"].as_u64().is_some_and(|written| written > 5);
        is_kept.then(|| status["hosts"][0]["hostname"].as_str().unwrap().to_owned())
    });
    serve.stop();
    let top = |name: &str| {
        let mut alone = Command::new("unshare");
        crate::support::clean(&mut alone);
        alone.args(["--net", env!("CARGO_BIN_EXE_cpumon"), "top", "-b", "-n", "1", "--host", name]);
        alone.env("STATE_DIRECTORY", state.path());
        output(alone)
    };
    let shown = top(&name);
    assert!(shown.status.success(), "{shown:?}");
    let messages = text(&shown.stderr);
    assert!(
        messages.contains("no receiver answers at") && messages.contains(store.to_str().unwrap()),
        "{messages}"
    );
    let lines = text(&shown.stdout);
    assert!(lines.contains(&name) && lines.lines().count() > 3, "{lines}");
    let other = top("no-such-host");
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    assert!(text(&other.stderr).contains("no-such-host"), "{other:?}");
}

#[test]
fn a_full_disk_stops_storing_not_showing_and_storing_resumes() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().to_str().unwrap();
    // The file system lives in a mount namespace of the receiver's own and ends with it.
    let script = format!("mount -t tmpfs -o size=3m tmpfs '{mount}' && exec \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    crate::support::clean(&mut command);
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script, env!("CARGO_BIN_EXE_cpumon")]);
    let serve =
        Serve::start_with(command, &dir.path().join("x.db"), &["--interval", "100ms", "--source", "procfs"]);
    let state = || serve.status()["store"]["state"].as_str().unwrap().to_owned();
    eventually("some data", || serve.status()["store"]["written"].as_u64().filter(|written| *written > 0));

    let filler = format!("/proc/{}/root{mount}/filler", serve.pid);
    fill(Path::new(&filler));
    eventually("the store to fail", || (state() == "failing").then_some(()));
    let shown = serve.status();
    assert!(!shown["store"]["error"].as_str().unwrap().is_empty());
    let seen = |status: &serde_json::Value| status["hosts"][0]["loss"]["snapshots"].as_u64().unwrap();
    eventually("showing to go on", || (seen(&serve.status()) > seen(&shown) + 5).then_some(()));
    let dropped =
        eventually("drops", || serve.status()["store"]["dropped"].as_u64().filter(|dropped| *dropped > 0));
    assert!(ok(&["status", "--url", &serve.url]).contains("NOT STORING"));

    std::fs::remove_file(&filler).unwrap();
    let written = serve.status()["store"]["written"].as_u64().unwrap();
    eventually("storing to resume", || {
        let status = serve.status();
        (status["store"]["state"] == "ok" && status["store"]["written"].as_u64().unwrap() > written)
            .then_some(())
    });
    assert!(serve.status()["store"]["dropped"].as_u64().unwrap() >= dropped);
    // The file itself records its gaps.
    let missing = eventually("a recorded gap", || {
        let mut inside = Command::new("nsenter");
        crate::support::clean(&mut inside);
        let target = serve.pid.to_string();
        inside.args([
            "--mount",
            "--target",
            &target,
            env!("CARGO_BIN_EXE_cpumon"),
            "export",
            "ledger",
            "--store",
        ]);
        inside.arg(&serve.store);
        let export = output(inside);
        (export.status.code() == Some(3)).then(|| text(&export.stderr))
    });
    assert!(missing.contains("were not stored"), "{missing}");
    serve.stop();
}

/// Writes until nothing more fits.
fn fill(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![7; size]).is_ok() {}
    }
}

#[test]
fn without_privileges_procfs_measures() {
    if !is_root() {
        // Then every other test here shows it.
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // The build directory may be closed to others.
    let binary = dir.path().join("cpumon");
    copy_program(env!("CARGO_BIN_EXE_cpumon"), &binary);
    assert!(Command::new("chmod").arg("-R").arg("a+rx").arg(dir.path()).status().unwrap().success());
    let mut command = Command::new("setpriv");
    crate::support::clean(&mut command);
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&binary);
    command.args(["top", "-b", "-n", "2", "-d", "200ms"]).current_dir("/");
    let output = output(command);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).contains("procfs"), "{}", text(&output.stdout));
}

/// Half of the capacity was unattributed without a word.
#[test]
fn hidden_processes_are_named_where_their_time_is_missing() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (binary, log) = (dir.path().join("cpumon"), dir.path().join("log"));
    copy_program(env!("CARGO_BIN_EXE_cpumon"), &binary);
    assert!(Command::new("chmod").arg("-R").arg("a+rwx").arg(dir.path()).status().unwrap().success());
    // A /proc of the test's own, in a mount namespace of its own.
    let hidden = |level: u8, args: &str| {
        let mut command = Command::new("unshare");
        crate::support::clean(&mut command);
        let user = "setpriv --reuid 65534 --regid 65534 --clear-groups";
        let mount = format!("mount -t proc -o hidepid={level} proc /proc");
        let script = format!("{mount} || exit 77; exec {user} \"$0\" {args}");
        output({
            command.args(["-m", "sh", "-c", &script]).arg(&binary).current_dir("/");
            command
        })
    };
    let words = "/proc hides other users' processes (hidepid), their time is unattributed";
    // 2 hides processes, 1 the contents of their directories.
    for (level, args) in [
        (2, "top -b -n 1 -d 100ms"),
        (2, "top -b -n 1 -d 100ms --source procfs"),
        (1, "top -b -n 1 -d 100ms"),
        (1, "ledger --live 100ms --interval 100ms --source procfs"),
        (2, "ledger --live 100ms --interval 100ms --source procfs"),
        (2, &format!("agent --record {} --count 2 --interval 100ms", log.display())),
    ] {
        let ended = hidden(level, args);
        if ended.status.code() == Some(77) {
            return skip(format!("cannot mount /proc: {}", text(&ended.stderr)));
        }
        assert!(ended.status.success(), "{level} {args}: {ended:?}");
        assert_eq!(text(&ended.stderr).matches(words).count(), 1, "{level} {args}: {ended:?}");
    }
    let store = dir.path().join("s.db");
    ok(&["import", log.to_str().unwrap(), "--store", store.to_str().unwrap()]);
    let ledger = run(&["ledger", "--store", store.to_str().unwrap()]);
    assert!(text(&ledger.stderr).contains(words), "{ledger:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("x.db");
    let serve = Serve::start_with(cpumon(), &store, &["--interval", "100ms"]);
    eventually("some data", || serve.status()["store"]["written"].as_u64().filter(|written| *written > 8));
    for kind in ["threads", "ledger"] {
        let mut child = cpumon()
            .args(["export", kind, "--store"])
            .arg(&store)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let status = wait(&mut child, "export");
        let mut messages = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut messages).unwrap();
        assert!(status.success() && messages.is_empty(), "{status:?} {messages}");
    }
    let written = run(&["sql", "--store", store.to_str().unwrap(), "DELETE FROM host"]);
    assert_eq!(written.status.code(), Some(1), "SQL only reads: {written:?}");
    let empty = run(&["sql", "--store", store.to_str().unwrap(), " "]);
    assert_eq!(empty.status.code(), Some(2), "an empty statement has no rows to show: {empty:?}");
    serve.stop();
    let mut child = cpumon().args(["completions", "bash"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(wait(&mut child, "completions").success());
}

#[test]
fn a_store_that_cannot_be_is_reported_with_what_to_do() {
    for (path, messages) in [("/proc/nowhere/x.db", "--store"), ("/dev/null/x.db", "--store")] {
        let output =
            run(&["serve", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--no-agent", "--store", path]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains(messages), "{output:?}");
    }
}

/// The advice was to start the receiver, which ran.
#[test]
fn a_log_that_a_reader_may_not_read_is_named() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (binary, store) = (dir.path().join("cpumon"), dir.path().join("s.db"));
    copy_program(env!("CARGO_BIN_EXE_cpumon"), &binary);
    let serve = Serve::start_with(cpumon(), &store, &["--interval", "100ms"]);
    eventually("some data", || serve.status()["store"]["written"].as_u64().filter(|written| *written > 3));
    let opened = Command::new("chmod").arg("a+rx").arg(dir.path()).arg(&binary).arg(&store).status().unwrap();
    assert!(opened.success());
    let mut command = Command::new("setpriv");
    crate::support::clean(&mut command);
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&binary);
    command.args(["hosts", "--store"]).arg(&store).current_dir("/");
    let refused = output(command);
    serve.stop();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let message = text(&refused.stderr);
    assert!(message.contains("s.db-wal: permission denied; the log of a store needs"), "{message}");
}

/// Who had made its temporary file owned the salvaged store.
#[test]
fn a_salvage_does_not_write_to_a_file_that_another_user_made() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (binary, store) = (dir.path().join("cpumon"), dir.path().join("s.db"));
    copy_program(env!("CARGO_BIN_EXE_cpumon"), &binary);
    drop(cpumon_store::Writer::open(&store, &cpumon_store::StoreOptions::default()).unwrap());
    // In a sticky directory a user can remove only what is theirs. The number of the shell becomes that of the program.
    let script = r#"chown 65534 s.db*; chmod 755 "$0"; chmod 1777 .; umask 0; : >".out.db.$$.part"
        exec setpriv --reuid 65534 --regid 65534 --clear-groups "$0" store check s.db --salvage out.db"#;
    let mut command = Command::new("sh");
    crate::support::clean(&mut command);
    command.args(["-c", script]).arg(&binary).current_dir(dir.path());
    let refused = output(command);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let message = text(&refused.stderr);
    assert!(message.contains(".part: File exists"), "{message}");
    let planted = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
    let planted = planted.filter(|entry| entry.path().extension().is_some_and(|end| end == "part"));
    assert_eq!(planted.map(|entry| entry.metadata().unwrap().len()).collect::<Vec<_>>(), [0]);
    assert!(!dir.path().join("out.db").exists());
}

/// A user who had made the state directory beside root's store got the receiver's private key.
#[test]
fn a_state_directory_that_another_user_made_gets_no_keys() {
    use std::os::unix::fs::chown;
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (store, state) = (dir.path().join("s.db"), dir.path().join("s.db.identity"));
    std::fs::create_dir(&state).unwrap();
    chown(&state, Some(65_534), Some(65_534)).unwrap();
    let store = store.to_str().unwrap();
    for args in [
        &["token", "--address", "a:1", "--store", store][..],
        &["key", "--store", store, "new"],
        &[
            "serve",
            "--tls",
            "127.0.0.1:0",
            "--no-udp",
            "--http",
            "127.0.0.1:0",
            "--no-agent",
            "--store",
            store,
        ],
    ] {
        let refused = run(args);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let message = text(&refused.stderr);
        assert!(message.contains("s.db.identity; --state DIR names one to trust"), "{message}");
        assert!(message.contains("it belongs to user 65534, who could change what is in it"), "{message}");
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "{args:?}");
    }
    chown(&state, Some(0), Some(0)).unwrap();
    ok(&["token", "--address", "a:1", "--store", store]);
}

const SYS_PTRACE: u64 = 1 << 19;
const DAC_OVERRIDE: u64 = 1 << 1;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;

/// No thread has a right beyond `most`, but the one that measures sees names, and the one that records on request loads
/// its programs. All run as `uid`, with a filter of calls.
fn assert_rights(serve: &Serve, uid: u32, most: u64) {
    for task in std::fs::read_dir(format!("/proc/{}/task", serve.pid)).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let value = |key| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim();
        let set = |key| u64::from_str_radix(value(key), 16).unwrap();
        let own = match value("Name:") {
            "measure" => SYS_PTRACE,
            "record" => BPF | PERFMON,
            _ => 0,
        };
        assert_eq!(set("CapEff:") & !(own | most), 0, "{status}");
        assert_eq!((set("CapPrm:"), set("CapAmb:")), (set("CapEff:"), 0), "{status}");
        assert_eq!((value("NoNewPrivs:"), value("Seccomp:")), ("1", "2"), "{status}");
        let uids = value("Uid:").split_whitespace();
        assert!(uids.clone().count() == 4 && uids.clone().all(|one| one == uid.to_string()), "{status}");
    }
}

/// A receiver that root has started with a store in this directory has stored some data.
fn storing(dir: &Path) -> Serve {
    let serve = Serve::start_with(cpumon(), &dir.join("x.db"), &["--interval", "100ms"]);
    eventually("some data", || serve.status()["store"]["written"].as_u64().filter(|written| *written > 4));
    serve
}

#[test]
fn a_receiver_that_root_starts_runs_as_the_owner_of_its_store_without_rights() {
    use std::os::unix::fs::{MetadataExt, chown};
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    chown(dir.path(), Some(65_534), Some(65_534)).unwrap();
    let store = dir.path().join("x.db");
    // Twice: also over the files of the first one.
    for _ in 0..2 {
        let serve = storing(dir.path());
        assert_rights(&serve, 65_534, 0);
        let url = format!("{}/api/v1/export/processes", serve.url);
        assert!(ureq::get(&url).call().unwrap().status().is_success());
        serve.stop();
    }
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let meta = entry.unwrap().metadata().unwrap();
        assert_eq!(meta.uid(), 65_534);
    }
    // Writing a file of root needs the right to write all the same.
    chown(&store, Some(0), Some(0)).unwrap();
    let serve = storing(dir.path());
    assert_rights(&serve, 0, DAC_OVERRIDE);
    serve.stop();
    assert!(store.exists() && run(&["hosts", "--store", store.to_str().unwrap()]).status.success());
    let of_root = tempfile::tempdir().unwrap();
    let serve = storing(of_root.path());
    assert_rights(&serve, 0, 0);
    serve.stop();
}
