//! `cpumon top --at`: the host and the moment that it shows, and its message where there is no data.

use std::path::Path;

use cpumon_model::{
    Delta, Fields, HostId, HostInfo, Interval, Moment, ProcessInfo, ProcessInterval, ProcessKey, Trust,
};
use cpumon_store::{StoreOptions, Writer};

use crate::support::{Serve, cpumon, ok, run, text};
use crate::terminal::Tmux;

const SECOND_NS: i64 = 1_000_000_000;
/// Some time in the past.
const BEGIN_NS: i64 = 1_750_000_000 * SECOND_NS;

fn info(id: u8, name: &str) -> HostInfo {
    HostInfo { host: HostId([id; 16]), hostname: name.into(), cpu_count: 1, ..HostInfo::default() }
}

fn interval(host: u8, second: i64) -> Interval {
    let at = |second: i64| Moment {
        wall_ns: BEGIN_NS + second * SECOND_NS,
        mono_ns: (second * SECOND_NS).unsigned_abs(),
        boot_ns: (second * SECOND_NS).unsigned_abs(),
    };
    let process = |pid: u32, name: &str, run_ns: i64| ProcessInterval {
        key: ProcessKey { pid, start_ns: 9 },
        info: std::sync::Arc::new(ProcessInfo { name: name.into(), ..ProcessInfo::default() }),
        delta: Delta { run_ns, ..Delta::default() },
        ..ProcessInterval::default()
    };
    Interval {
        host: HostId([host; 16]),
        fields: Fields::RUN,
        source: cpumon_model::SourceKind::Bpf,
        sequence: second.unsigned_abs(),
        begin: at(second - 1),
        end: at(second),
        processes: vec![process(7, "burner", 900_000_000), process(8, "sleeper", 0)],
        process_count: 2,
        ..Interval::default()
    }
}

/// A minute of each host, with a hole from 20 to 40 s.
fn store(path: &Path, hosts: &[(u8, &str, Trust)]) {
    let mut writer = Writer::open(path, &StoreOptions::default()).unwrap();
    for second in (1..=60).filter(|second| !(21..=40).contains(second)) {
        for (id, name, trust) in hosts {
            writer.put(&info(*id, name), *trust, None, &interval(*id, second)).unwrap();
        }
    }
    writer.commit().unwrap();
}

fn at(second: i64) -> String {
    jiff::Timestamp::from_second(BEGIN_NS / SECOND_NS + second).unwrap().to_string()
}

#[test]
fn a_moment_in_a_hole_is_no_data_with_its_neighbours_and_not_another_moment() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("s.db");
    store(&path, &[(1, "vm", Trust::Local)]);
    let store = path.to_str().unwrap();
    assert!(ok(&["top", "--store", store, "--at", &at(10), "-b"]).contains("burner"));
    // (moment, text that stderr has, text that it has not)
    let cases = [
        (30, "(10 s earlier), after: ", ""),
        (-3600, "nearest data after: ", "before: "),
        (86_400 * 400, "nearest data before: ", "after: "),
    ];
    for (second, has, has_not) in cases {
        for screen in [&["-b"][..], &[]] {
            let output = run(&[&["top", "--store", store, "--at", &at(second)], screen].concat());
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{second}: {stderr}");
            assert!(stderr.contains("no data for ") && stderr.contains(has), "{second}: {stderr}");
            assert!(has_not.is_empty() || !stderr.contains(has_not), "{second}: {stderr}");
            assert!(output.stdout.is_empty(), "{second}");
        }
    }
    assert!(ok(&["top", "--store", store, "--at", &at(62), "-b"]).contains("burner"), "still being measured");
}

#[test]
fn the_past_has_idle_processes_too() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("s.db");
    store(&path, &[(1, "vm", Trust::Local)]);
    for second in [1, 15, 45] {
        let shown = ok(&["top", "--store", path.to_str().unwrap(), "--at", &at(second), "-b"]);
        assert!(shown.contains("burner") && shown.contains("sleeper"), "{shown}");
    }
}

#[test]
fn a_moment_without_a_host_is_of_this_machine() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("s.db");
    store(
        &path,
        &[(1, "board5", Trust::Authenticated), (2, "vm", Trust::Local), (3, "web", Trust::Unauthenticated)],
    );
    let shown = ok(&["top", "--store", path.to_str().unwrap(), "--at", &at(10), "-b"]);
    assert!(shown.contains(" vm "), "{shown}");

    let others = work.path().join("others.db");
    store(&others, &[(1, "board5", Trust::Authenticated), (3, "web", Trust::Unauthenticated)]);
    let output = run(&["top", "--store", others.to_str().unwrap(), "--at", &at(10), "-b"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("of others: board5, web; choose one with --host"));
}

/// The receiver "had no host" of this name, though the page listed it.
#[test]
fn a_host_that_no_longer_reports_says_when_it_last_did_and_shows_its_history() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("s.db");
    store(&path, &[(1, "board5", Trust::Authenticated), (3, "a web; rm", Trust::Unauthenticated)]);
    let serve = Serve::start_with(cpumon(), &path, &["--no-agent", "--retain-days", "0"]);
    let id = HostId([3; 16]).to_string();
    for (name, shown, word) in [("board", "board5", "board5"), ("a web", "a web; rm", &id)] {
        let output = run(&["top", "-b", "-n", "1", "--host", name, "--url", &serve.url]);
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(3), ""), "{error}");
        let begin = format!("cpumon: {shown} does not report: its last data came ");
        assert!(error.starts_with(&begin) && error.contains(" d ago, at 2025-06-15 15:07:40"), "{error}");
        let command = error.trim_end().split("to see it: cpumon ").nth(1).unwrap();
        assert_eq!(command, format!("top --url {} --host {word} --at 2025-06-15T15:07:40Z", serve.url));
        let words: Vec<&str> = command.split(' ').chain(["-b"]).collect();
        assert!(ok(&words).contains("burner"), "what it offers works");
    }
    let listed = ok(&["hosts", "--url", &serve.url]);
    assert!(listed.contains("board5 ") && listed.contains("until 2025-06-15 15:07:40"), "{listed}");
    let json = ok(&["hosts", "--json", "--url", &serve.url]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["total"], json["hosts"].as_array().map(Vec::len)), (&0.into(), Some(0)), "{json}");
    let stored = json["stored"].as_array().unwrap();
    let board5 = stored.iter().find(|host| host["hostname"] == "board5").unwrap();
    assert_eq!(board5["last_ns"], 1_750_000_060_000_000_000_i64, "{json}");
    assert_eq!((stored.len(), &board5["id"]), (2, &HostId([1; 16]).to_string().into()), "{json}");
    // A file of no host had no output and exit code 0.
    for format in ["table", "csv", "json", "jsonl"] {
        let search = ["hosts", "--search", "nowhere", "--format", format, "--url", &serve.url];
        let none = run(&search);
        let words = if format == "table" { text(&none.stdout) } else { text(&none.stderr) };
        assert!(none.status.code() == Some(1) && words.contains("no host matches nowhere"), "{none:?}");
        let busiest = run(&[&search[..], &["--busiest"]].concat());
        assert_eq!(busiest.status.code(), Some(1), "{busiest:?}");
        assert!(
            ok(&["hosts", "--search", "board5", "--format", format, "--url", &serve.url]).contains("board5")
        );
    }
    let unknown = run(&["top", "-b", "--host", "nowhere", "--url", &serve.url]);
    let error = text(&unknown.stderr);
    assert!(unknown.status.code() == Some(1) && error.contains("its hosts: a web; rm, board5"), "{error}");
    let program = env!("CARGO_BIN_EXE_cpumon");
    if let Some(tmux) = Tmux::start(&format!("TZ=UTC {program} top --host board5 --url {}", serve.url)) {
        let wait_for = |what: &str, words: &[&str]| {
            tmux.wait_for(what, |screen| words.iter().all(|word| screen.contains(word)));
        };
        wait_for("its last interval", &["NO DATA since", "15:07:40", "board5", "burner"]);
        tmux.keys(&["["]);
        wait_for("the one before", &["PAST", "15:07:39", "burner"]);
    }
    serve.stop();
}

#[test]
fn a_host_is_forgotten_once_and_only_when_it_is_the_one_that_was_named() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("s.db");
    let hosts =
        [(1, "web", Trust::Authenticated), (2, "web", Trust::Unauthenticated), (3, "board", Trust::Local)];
    store(&path, &hosts);
    let store = path.to_str().unwrap();
    let forget = |host: &str, more: &[&str]| {
        let output = run(&[&["hosts", "forget", host, "--store", store], more].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, error) = forget("board", &[]);
    assert!(code == Some(2) && error.contains("--yes"), "{code:?} {error}");
    let (code, _, error) = forget("nowhere", &["--yes"]);
    assert!(code == Some(1) && error.contains("no host \"nowhere\""), "{code:?} {error}");
    let (first, second) = ("01".repeat(16), "02".repeat(16));
    let (code, _, error) = forget("web", &["--yes"]);
    assert!(code == Some(1) && error.contains(&first) && error.contains(&second), "{code:?} {error}");
    let (code, shown, _) = forget(&second, &["--yes"]);
    assert!(code == Some(0) && shown.contains(&format!("removed web ({second})")), "{code:?} {shown}");
    let left = ok(&["hosts", "--store", store]);
    assert!(left.contains(&first) && !left.contains(&second) && left.contains("board"), "{left}");
    let entries = ok(&["audit", "--store", store]);
    assert!(entries.contains("host forgotten") && entries.contains(&second), "{entries}");
}
