//! Commands that end by themselves: exit codes, messages, the original's database.

use crate::made_up::write_log;
use crate::support::{Serve, ok, run, text, v1_dir};

#[test]
fn wrong_usage_ends_with_2_and_says_what_is_right() {
    for (line, expected) in [
        (&["export", "everything"][..], "processes"),
        (&["top", "--nonsense"], "--nonsense"),
        (&["top", "--at", "someday"], "yesterday 14:05"),
        (&["top", "--at", "2200-01-01"], "future"),
        (&["serve", "--retain-bytes", "much"], "10GB"),
        (&["status", "--url", "ftp://x"], "http://"),
        (&["status", "--url", "http://127.0.0.1:22222222"], "http://"),
        (&["export", "ledger", "--since", "now", "--until", "1h ago"], "--since"),
        (&["import", "x", "--time-zone", "Mars/Olympus"], "Mars/Olympus"),
        (&["export", "chart", "pie"], "run-queue"),
        (&["export", "pivot", "--legacy", "2012", "--format", "jsonl"], "--format"),
        (&["top", "-b", "-n", "0"], "from 1 up"),
        (&["top", "-b", "-n", "x"], "whole number"),
        (&["serve", "--http", "1234"], "127.0.0.1:1234"),
        (&["top", "-b", "-p", "init"], "process id"),
        (&["serve", "--web-dir", "/nowhere", "--no-store"], "make page"),
        (&["export", "chart", "cpu", "--zone", "Mars/Olympus"], "Europe/Berlin"),
        (&["export", "chart", "cpu", "-o", "x.gif"], ".svg or .png"),
        (&["export", "chart", "cpu", "--since", "now", "--until", "1h ago"], "--since"),
        (&["export", "processes", "--by", "user"], "--by has no effect on `export processes`"),
        (&["export", "threads", "--value", "run"], "it is for `export pivot`"),
        (&["export", "ledger", "--by", "container"], "--by has no effect on `export ledger`"),
        (&["export", "ledger", "--process", "x"], "--process has no effect on `export ledger`"),
        (&["export", "processes", "--active"], "it is for `export threads`"),
        (&["export", "pivot", "--legacy", "2012", "--by", "user"], "--by has no effect with --legacy"),
        (&["export", "pivot", "--legacy", "2013", "--value", "run"], "--value has no effect with --legacy"),
        (&["export", "processes", "-o", "x.xlsx"], ".csv, .jsonl, .json or .parquet"),
        (&["top", "-b", "-o", "x.csv"], "cpumon export"),
        (&[], "Usage"),
    ] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {output:?}");
        assert!(text(&output.stderr).contains(expected), "{line:?}: {output:?}");
    }
}

#[test]
fn what_is_not_there_ends_with_1_and_says_where() {
    for (line, expected) in [
        (&["export", "ledger", "--store", "/nowhere/x.db"][..], "/nowhere/x.db; `cpumon serve`"),
        (&["export", "chart", "cpu", "--store", "/nowhere/x.db"], "/nowhere/x.db; `cpumon serve`"),
        (&["hosts", "--store", "/nowhere/x.db"], "/nowhere/x.db"),
        (&["top", "--store", "/nowhere/x.db", "-b"], "/nowhere/x.db"),
        (&["status", "--url", "http://127.0.0.1:9"], "cpumon serve"),
        (&["top", "--host", "x", "--url", "http://127.0.0.1:9", "-b"], "cpumon serve"),
        (&["import", "/nowhere/old.sqlite", "--store", "/nowhere/x.db"], "/nowhere/old.sqlite"),
        (&["import", "/nowhere/old.sqlite", "--store", "/nowhere/x.db"], "No such file or directory"),
        (&["hosts", "pending", "--state", "/nowhere/state"], "/nowhere/state: `cpumon serve --tls`"),
        (&["hosts", "revoke", "x", "--store", "/nowhere/x.db"], "/nowhere/x.db.identity"),
        (&["top", "--replay", "/nowhere/log", "-b"], "cpumon-agent --record DIR"),
    ] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(1), "{line:?}: {output:?}");
        assert!(text(&output.stderr).contains(expected), "{line:?}: {output:?}");
        assert!(text(&output.stdout).is_empty());
    }
    let mut not_a_store = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut not_a_store, b"this is not a database, whatever its name says").unwrap();
    let output = run(&["export", "ledger", "--store", not_a_store.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("--store FILE names another"), "{output:?}");
}

/// An empty file was an SQLite database of others, and a packed one only no store.
#[test]
fn a_file_that_is_no_store_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.db");
    let packed = [b"\x1f\x8b\x08\0".as_slice(), [0; 9_000].as_slice()].concat();
    for (content, words) in [
        (b"".as_slice(), "the file is empty"),
        (b"x".as_slice(), "the file has 1 bytes, fewer than a page of a database"),
        (packed.as_slice(), "it is packed with gzip; unpack it first"),
    ] {
        std::fs::write(&path, content).unwrap();
        let store = path.to_str().unwrap();
        for line in [
            &["report", "--store", store][..],
            &["sql", "SELECT 1", "--store", store],
            &["hosts", "--store", store],
            &["trace", "get", "1", "-o", "x.trace", "--store", store],
        ] {
            let output = run(line);
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{line:?}: {error}");
            assert!(
                error.contains(words) && error.contains("--store FILE names another"),
                "{line:?}: {error}"
            );
        }
    }
    let output = run(&["report", "--store", "-"]);
    assert!(text(&output.stderr).contains("standard input is not read"), "{output:?}");
}

/// A pipe was waited for, and an empty store was left.
#[test]
fn a_refused_import_leaves_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (store, packed, pipe) = (path("x.db"), path("old.sqlite.gz"), path("pipe"));
    std::fs::write(&packed, b"\x1f\x8b\x08\0 and so on, a database below").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (file, code, words) in [
        (&*packed, 1, "is packed with gzip; unpack it first"),
        (&*pipe, 1, "is not a SQLite database"),
        (&*path(""), 1, "holds no recording"),
        ("-", 2, "standard input is not read"),
    ] {
        let output = run(&["import", file, "--store", &store]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(code) && error.contains(words), "{file}: {error}");
        assert!(!std::path::Path::new(&store).exists(), "{file}");
    }
}

/// Each was an answer of nothing, with exit code 0 and without a word.
#[test]
fn what_has_no_row_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (store, log, tokens) = (path("s.db"), path("log"), path("tokens"));
    drop(cpumon_store::Writer::open(store.as_ref(), &cpumon_store::StoreOptions::default()).unwrap());
    write_log(log.as_ref(), 1, 64 << 20);
    let serve = Serve::start(&["--no-agent"]);
    let url = &*serve.url;
    for (line, code, words) in [
        (&["audit", "--state", &path("")][..], 0, "has no entry"),
        (&["login-token", "--login-tokens", &tokens, "list"], 0, "`cpumon login-token add NAME` makes one"),
        (&["hosts", "--store", &store], 0, "the store holds no host"),
        (&["hosts", "--store", &store, "--json"], 0, "the store holds no host"),
        (&["hosts", "--url", url, "--json"], 0, "no host has reported yet"),
        (&["hosts", "--url", url, "--format", "csv"], 0, "no host has reported yet"),
        (
            &["hosts", "--url", url, "--format", "jsonl", "--busiest"],
            0,
            "no process ran on a host that reports",
        ),
        (&["import", &log, "--store", &path("new.db")], 3, "no interval in "),
    ] {
        let output = run(line);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(code) && error.contains(words), "{line:?}: {error}");
    }
    serve.stop();
}

#[test]
fn a_directory_in_the_place_of_a_store_is_called_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let log = tempfile::tempdir().unwrap();
    write_log(log.path(), 2, 64 << 20);
    for line in [
        &["export", "ledger", "--store", path][..],
        &["export", "chart", "cpu", "--store", path],
        &["sql", "SELECT 1", "--store", path],
        &["hosts", "--store", path],
        &["top", "-b", "--store", path],
        &["import", log.path().to_str().unwrap(), "--store", path],
        &["serve", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--no-agent", "--store", path],
    ] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(1), "{line:?}: {output:?}");
        let messages = text(&output.stderr);
        assert!(
            messages.contains("is a directory") && messages.contains("cpumon.db"),
            "{line:?}: {messages}"
        );
    }
    let beside = std::fs::read_dir(dir.path().parent().unwrap()).unwrap();
    let name = format!("{}-writer", dir.path().file_name().unwrap().to_str().unwrap());
    assert!(
        !beside.map(|entry| entry.unwrap().file_name()).any(|other| other == name.as_str()),
        "left behind"
    );
}

#[test]
fn this_machine_is_shown_without_a_receiver() {
    let shown = ok(&["top", "-b", "-n", "2", "-d", "200ms", "--source", "procfs"]);
    assert!(shown.contains("PID") && shown.contains("procfs"), "{shown}");
    let pid = std::process::id().to_string();
    let threads = ok(&["top", "-b", "-n", "1", "-d", "200ms", "-H", "-p", &pid]);
    assert!(threads.contains(&pid), "{threads}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("top.jsonl");
    ok(&["top", "-b", "-n", "2", "-d", "200ms", "--json", "-o", path.to_str().unwrap()]);
    let written = std::fs::read_to_string(&path).unwrap();
    for json in [ok(&["top", "-b", "-n", "2", "-d", "200ms", "-o", "json"]), written] {
        for line in json.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).unwrap().is_object());
        }
        assert_eq!(json.lines().count(), 2);
    }
}

#[test]
fn the_originals_database_is_taken_over_and_handed_out_as_it_was() {
    let Some(dir) = v1_dir() else { return };
    let work = tempfile::tempdir().unwrap();
    let store = work.path().join("x.db");
    let store = store.to_str().unwrap();
    let database = dir.join("legacy/ProcessUsage.sqlite");
    let report =
        ok(&["import", database.to_str().unwrap(), "--store", store, "--host", "dev", "--time-zone", "UTC"]);
    assert!(report.contains("1716") || report.contains("1,716"), "{report}");
    let again =
        ok(&["import", database.to_str().unwrap(), "--store", store, "--host", "dev", "--time-zone", "UTC"]);
    assert!(again.contains("117"), "{again}");

    let pivot = work.path().join("pivot.csv");
    let until = ["--until", "2004-01-01T00:00Z"];
    ok(&[
        "export",
        "pivot",
        "--legacy",
        "2012",
        until[0],
        until[1],
        "--store",
        store,
        "-o",
        pivot.to_str().unwrap(),
    ]);
    let ours = text(&std::fs::read(&pivot).unwrap());
    // The stored pivot holds the first 75 sets; 6 cells of one came late (SPEC.md).
    let golden = text(&std::fs::read(dir.join("legacy/pivot_export_2012.csv")).unwrap());
    let golden: Vec<&str> =
        golden.split("\r\n").filter(|line| !line.starts_with("631770195270860000;")).collect();
    let kept: std::collections::HashSet<&str> = ours.split("\r\n").collect();
    let differing: Vec<&&str> = golden.iter().filter(|line| !kept.contains(**line)).collect();
    assert!(golden.len() == 76 && differing.is_empty(), "{differing:?}");

    let rows = ok(&["export", "processes", "--legacy", "2013", "--store", store]);
    assert_eq!(rows.lines().count(), 1_716 + 1);
    assert_eq!(rows.lines().nth(1), Some("\"dev\";\"NK.EXE\";479195138;0;12:36:21.594;3177;1"));
    let at = ok(&["top", "--store", store, "--at", "2003-01-01 12:09:57", "-b"]);
    assert!(at.contains("NK.EXE") || at.contains("gwes.exe"), "{at}");
}

#[test]
fn an_empty_answer_is_missing_data() {
    let Some(dir) = v1_dir() else { return };
    let work = tempfile::tempdir().unwrap();
    let store = work.path().join("x.db");
    let store = store.to_str().unwrap();
    let database = dir.join("legacy/ProcessUsage.sqlite");
    ok(&["import", database.to_str().unwrap(), "--store", store, "--time-zone", "UTC"]);
    let output = run(&["export", "processes", "--store", store, "--since", "1h ago"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let unknown = run(&["export", "processes", "--store", store, "--host", "unknown"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("unknown"));
}

#[test]
fn the_doctor_distinguishes_this_machine_from_an_empty_one() {
    let here = run(&["doctor", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&here.stdout).unwrap();
    let is_complete = found["is_complete"].as_bool().unwrap();
    assert_eq!(here.status.code(), Some(if is_complete { 0 } else { 3 }), "{found}");
    let checks = found["checks"].as_array().unwrap();
    let state = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap()["state"].clone();
    assert_eq!(state("procfs"), "available");

    let nowhere = tempfile::tempdir().unwrap();
    let root = nowhere.path().to_str().unwrap();
    let output = run(&["doctor", "-v", "--no-load", "--proc-root", root, "--sys-root", root]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let words = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("{root} is not mounted")), "{words}");

    let rows = |format: &str| text(&run(&["doctor", "--no-load", "--format", format]).stdout);
    let (lines, table) = (rows("jsonl"), rows("csv"));
    assert!(table.starts_with("topic,name,state,finding,gives,help\r\n"), "{table}");
    assert!(lines.lines().all(|line| line.starts_with('{')), "{lines}");
    assert_eq!(lines.lines().count(), checks.len());
}
