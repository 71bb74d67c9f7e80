//! `cpumon report` and `cpumon find`: choice of the host, output without data, and names that are safe to show.

use std::path::Path;
use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, HostId, HostInfo, Interval, Ledger, Moment, ProcessInfo, ProcessInterval, ProcessKey,
    Trust,
};
use cpumon_store::{StoreOptions, Writer};

use crate::screen_report::{answered, cells, printed};
use crate::support::{cpumon, ok, output, run, text};

const SECOND_NS: i64 = 1_000_000_000;
/// Some time in the past.
const BEGIN_NS: i64 = 1_750_000_000 * SECOND_NS;

fn interval(host: u8, second: i64) -> Interval {
    let at = |second: i64| Moment {
        wall_ns: BEGIN_NS + second * SECOND_NS,
        mono_ns: (second * SECOND_NS).unsigned_abs(),
        boot_ns: (second * SECOND_NS).unsigned_abs(),
    };
    let process = |pid: u32, name: &str, run_ns: i64| ProcessInterval {
        key: ProcessKey { pid, start_ns: 9 },
        info: Arc::new(ProcessInfo { name: name.into(), ..ProcessInfo::default() }),
        delta: Delta { run_ns, ..Delta::default() },
        ..ProcessInterval::default()
    };
    Interval {
        host: HostId([host; 16]),
        fields: Fields::RUN,
        sequence: second.unsigned_abs(),
        begin: at(second - 1),
        end: at(second),
        processes: vec![process(7, "burner", 900_000_000), process(8, "a\u{1b}[2J,\"x", 50_000_000)],
        ledger: Ledger { capacity_ns: SECOND_NS, threads_ns: 950_000_000, ..Ledger::default() },
        ..Interval::default()
    }
}

fn store(path: &Path, hosts: &[(u8, &str, Trust)]) {
    let mut writer = Writer::open(path, &StoreOptions::default()).unwrap();
    for second in 1..=60 {
        for (id, name, trust) in hosts {
            let info = HostInfo { host: HostId([*id; 16]), hostname: (*name).into(), ..HostInfo::default() };
            writer.put(&info, *trust, None, &interval(*id, second)).unwrap();
        }
    }
    writer.commit().unwrap();
}

#[test]
fn a_report_is_of_this_machine_of_the_only_host_or_of_those_that_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store_path = path.to_str().unwrap();
    store(&path, &[(1, "alpha", Trust::Authenticated), (2, "beta", Trust::Unauthenticated)]);
    let refused = run(&["report", "--store", store_path]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let printed = text(&refused.stderr);
    assert!(printed.contains("there are several: alpha, beta. Choose one with --host."), "{printed}");
    let named = ok(&["report", "--store", store_path, "--host", "beta", "--format", "csv"]);
    assert!(named.lines().nth(1).unwrap().starts_with("\"beta\",\"group\",\"burner\","), "{named}");
    let all = ok(&["report", "--store", store_path, "--all-hosts", "--by", "host", "--json"]);
    let rows: serde_json::Value = serde_json::from_str(&all).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 2, "{all}");
    assert_eq!((&rows[0]["run_ns"], &rows[0]["share_pct"]), (&57_000_000_000_i64.into(), &50.0.into()));
    store(&path, &[(3, "here", Trust::Local)]);
    let local = ok(&["report", "--store", store_path, "--format", "jsonl", "--limit", "1"]);
    let lines: Vec<serde_json::Value> =
        local.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["host"], &lines[1]["kind"], lines.len()), (&"here".into(), &"rest".into(), 2));
}

#[test]
fn names_are_escaped_and_a_narrow_terminal_has_fewer_columns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path, &[(1, "alpha", Trust::Local)]);
    for columns in ["40", "80", "200"] {
        let mut command = cpumon();
        command.args(["report", "--store", path.to_str().unwrap()]);
        command.env("COLUMNS", columns).env("LC_ALL", "C").env("NO_COLOR", "1");
        let report = output(command);
        let shown = text(&report.stdout);
        assert_eq!(report.status.code(), Some(0), "{report:?}");
        assert!(shown.is_ascii() && !shown.contains('\u{1b}'), "{shown}");
        let width = columns.parse::<usize>().unwrap();
        assert!(shown.lines().all(|line| line.len() <= width), "{shown}");
        assert!(shown.contains("burner") && shown.contains("54.000") && shown.contains("a\\x1b"), "{shown}");
    }
    let found = ok(&["find", "BURN", "--store", path.to_str().unwrap()]);
    assert!(found.contains("burner") && found.contains("54.000"), "{found}");
}

#[test]
fn find_without_a_match_ends_with_code_1_as_grep_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path, &[(1, "alpha", Trust::Local)]);
    let store = path.to_str().unwrap();
    for (format, shown) in
        [("table", "nothing in the store matches nothing\\x1b\n"), ("jsonl", ""), ("json", "[]\n")]
    {
        let mut command = cpumon();
        command.args(["find", "nothing\u{1b}", "--store", store, "--format", format]);
        let none = output(command);
        assert_eq!((none.status.code(), text(&none.stdout).as_str()), (Some(1), shown), "{format}");
        let reason =
            if format == "table" { "" } else { "cpumon: nothing in the store matches nothing\\x1b\n" };
        assert_eq!(text(&none.stderr), reason, "{format}");
    }
}

/// A unit in a container, a pod, a user with a name and a script: each has names that are not those of its group.
fn store_of_other_names(path: &Path) {
    let info = |name: &str, cgroup: &str, container: &str| {
        Arc::new(ProcessInfo {
            name: name.into(),
            interpreter: "python3.11".into(),
            product: "Größe® 3".into(),
            cgroup: cgroup.into(),
            container: container.into(),
            uid: 1000,
            user: "ann".into(),
            ..ProcessInfo::default()
        })
    };
    let infos = [
        info("sshd", "/lxc.payload.web/system.slice/ssh.service", "web"),
        info(
            "nightly",
            "/kubepods/burstable/pod0aa79f1d-6e6a-4d5e-9a9e-6d8f1a7b2c3d/0123456789ab",
            "0123456789ab",
        ),
    ];
    let mut writer = Writer::open(path, &StoreOptions::default()).unwrap();
    let host = HostInfo { host: HostId([1; 16]), hostname: "alpha".into(), ..HostInfo::default() };
    for second in 1..=60 {
        let mut one = interval(1, second);
        // Each is there for a part of the time.
        for (row, info) in one.processes.iter_mut().zip(&infos) {
            row.info = Arc::clone(info);
        }
        one.processes.retain(|row| (second / 20) % 2 == i64::from(row.key.pid % 2));
        writer.put(&host, Trust::Local, None, &one).unwrap();
    }
    writer.commit().unwrap();
}

#[test]
fn what_find_found_is_what_the_report_within_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store_of_other_names(&path);
    let store = path.to_str().unwrap();
    let mut found = Vec::new();
    for text in ["ssh.service", "0aa79f1d", "web", "012345", "ann", "1000", "nightly", "python", "größe"] {
        let rows = ok(&["find", text, "--store", store, "--json"]);
        let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
        assert!(!rows.is_empty(), "{text}");
        for row in rows {
            let cell = |name: &str| row[name].as_str().unwrap();
            // The page's link to a found group: `in=KIND:NAME` over its life.
            let within = format!("--within={}:{}", cell("kind"), cell("name"));
            let [since, until] = ["first_ns", "last_ns"].map(|name| row[name].to_string());
            let report =
                ok(&["report", "--store", store, "--since", &since, "--until", &until, &within, "--json"]);
            let report: Vec<serde_json::Value> = serde_json::from_str(&report).unwrap();
            let groups = report.iter().filter(|row| row["kind"] == "group");
            let run_ns: i64 = groups.map(|row| row["run_ns"].as_i64().unwrap()).sum();
            assert!(run_ns > 0 && Some(run_ns) == row["run_ns"].as_i64(), "{text}: {row} {run_ns}");
            found.push(within);
        }
    }
    for expected in ["service:ssh.service", "pod:0aa79f1d-6e6a-4d5e-9a9e-6d8f1a7b2c3d", "user:ann (1000)"] {
        assert!(found.contains(&format!("--within={expected}")), "{expected}: {found:?}");
    }
}

#[test]
fn no_data_is_reported_with_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path, &[(1, "alpha", Trust::Local)]);
    for range in [&["--since", "1h"][..], &["--since", "2001-01-01", "--until", "2001-01-02"]] {
        let none = run(&[&["report", "--store", path.to_str().unwrap()], range].concat());
        assert_eq!(none.status.code(), Some(3), "{none:?}");
        let printed = text(&none.stderr);
        assert!(
            printed.contains("no data for 20") && printed.contains("; available: 2025-06-15 15:06:41"),
            "{printed}"
        );
        assert!(text(&none.stdout).is_empty());
    }
}

/// `cpumon sql` called an unwritable output an export.
#[test]
fn a_full_disk_under_the_output_is_reported_as_that() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path, &[(1, "alpha", Trust::Local)]);
    let range = ["--since", "2025-06-15T15:06:47Z", "--until", "2025-06-15T15:07:23Z"];
    let helps = [&["help"][..], &["help", "report"], &["report", "-h"], &["--version"]];
    for words in helps.into_iter().chain([&["sql", "SELECT 1"][..], &["report"], &["export", "processes"]]) {
        let mut command = cpumon();
        command.args(words);
        if !helps.contains(&words) {
            command.arg("--store").arg(&path).args(range.iter().filter(|_| words[0] != "sql"));
        }
        command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let ended = command.output().unwrap();
        let error = text(&ended.stderr);
        let is_plain = error.contains("cannot write") && error.contains("output: No space left on device");
        assert!(ended.status.code() == Some(1) && is_plain, "{words:?}: {error}");
    }
    // The path of a file that is written is named once.
    let ended = cpumon().args(["hosts", "-o", "/dev/full", "--store"]).arg(&path).output().unwrap();
    let error = text(&ended.stderr);
    let is_plain = error.contains("cannot write /dev/full: cannot write the file: No space left on device");
    assert!(ended.status.code() == Some(1) && is_plain, "{error}");
}

#[test]
fn a_filter_that_matches_nothing_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path, &[(1, "alpha", Trust::Local)]);
    let report_of = |words: &[&str]| {
        let range = ["--since", "2025-06-15T15:06:47Z", "--until", "2025-06-15T15:07:23Z"];
        run(&[&["report", "--store", path.to_str().unwrap()][..], words, &range].concat())
    };
    for (words, shown) in [
        (&["--filter", "'; DROP\u{1b}[2J"][..], "'; DROP\\x1b[2J"),
        (&["--within", "user:777"][..], "user:777"),
        (&["--filter", "burn", "--within", "user:777"][..], "burn within user:777"),
    ] {
        let none = report_of(words);
        let table = text(&none.stdout);
        assert_eq!((none.status.code(), &*text(&none.stderr)), (Some(1), ""), "{words:?}: {table}");
        assert!(table.contains("(others)"), "{table}");
        assert!(table.ends_with(&format!("Nothing in this range matches {shown}.\n")), "{table}");
        let none = report_of(&[words, &["--format", "csv"][..]].concat());
        assert_eq!(none.status.code(), Some(1), "{none:?}");
        assert_eq!(text(&none.stderr), format!("cpumon: nothing in this range matches {shown}\n"));
    }
    let report_of = |words: &[&str]| {
        let report = report_of(words);
        assert_eq!(report.status.code(), Some(0), "{report:?}");
        text(&report.stdout)
    };
    let report = |filter: &str| report_of(&["--filter", filter]);
    assert!(!report("burn").contains("Nothing"));
    // A name is the most natural argument.
    let of_name = report_of(&["burn"]);
    assert_eq!(of_name, report_of(&["--filter", "burn", "--by", "process"]));
    assert_eq!(report_of(&["burn", "--by", "program"]), report("burn"));
}

/// A pivot of it had rows without a cell, and a chart the line of all CPUs, and both ended with code 0.
#[test]
fn a_process_that_is_not_there_is_no_data_in_every_export() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path, &[(1, "alpha", Trust::Local)]);
    let range = ["--since", "2025-06-15T15:06:47Z", "--until", "2025-06-15T15:07:23Z"];
    for (kind, words) in [
        (&["processes"][..], "no data for this query"),
        (&["pivot"][..], "no data for this query"),
        (&["chart", "tasks"][..], "none of them did anything in this range"),
        (&["chart", "states"][..], "no process zzz did anything in this range"),
    ] {
        let export = |process: &str| {
            let of = ["--process", process, "--store", path.to_str().unwrap()];
            run(&[&["export"][..], kind, &of, &range].concat())
        };
        let none = export("zzz");
        let error = text(&none.stderr);
        assert!(none.status.code() == Some(3) && error.contains(words), "{kind:?}: {error}");
        assert_eq!(export("burner").status.code(), Some(0), "{kind:?}");
    }
}

/// Every digit that `cpumon report` prints is on the screen; `equal.rs` has the same for ranges that are read from sums, and from a receiver.
#[test]
fn the_terminal_shows_the_numbers_of_cpumon_report() {
    use cpumon::feeds::StoreFeed;
    use cpumon_query::report::{ReportBy, ReportQuery, ReportSort};
    use cpumon_tui::report_head;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path, &[(1, "alpha", Trust::Local)]);
    let stored = StoreFeed::open(&path, None, "").unwrap();
    let asked = ReportQuery {
        since_ns: Some(BEGIN_NS + 7 * SECOND_NS),
        until_ns: Some(BEGIN_NS + 43 * SECOND_NS),
        limit: 100,
        ..ReportQuery::default()
    };
    for by in [ReportBy::Program, ReportBy::User, ReportBy::Service, ReportBy::Container] {
        for sort in [ReportSort::Cpu, ReportSort::Ready, ReportSort::Switches] {
            let made = answered(&stored, &ReportQuery { by, sort, ..asked.clone() }).unwrap();
            let word = format!("{sort:?}").to_lowercase();
            let by_word = format!("{by:?}").to_lowercase();
            let range = ["--since", "2025-06-15T15:06:47Z", "--until", "2025-06-15T15:07:23Z"];
            let (printed, table) =
                printed(&path, &[&["--sort", &word, "--by", &by_word][..], &range].concat());
            assert_eq!(cells(&made), table, "{by:?} {sort:?}");
            let head = report_head(&made, cpumon::when::show).remove(0);
            assert!(head.contains("36.0 s measured") && printed.starts_with(&head), "{printed}");
        }
    }
    let none = ReportQuery { since_ns: Some(1), until_ns: Some(2), ..asked };
    assert!(answered(&stored, &none).unwrap_err().to_string().starts_with("no data for 1970-01-01"));
}
