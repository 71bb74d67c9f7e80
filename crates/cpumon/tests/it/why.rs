//! `cpumon why`: choice of the host, text and JSON, names that are safe to show, and what to do where there is no answer.

use std::path::Path;
use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, HostId, HostInfo, Interval, Ledger, Moment, ProcessInfo, ProcessInterval, ProcessKey,
    Trust,
};
use cpumon_store::{StoreOptions, Writer};

use crate::support::{ok, run, text};

const SECOND_NS: i64 = 1_000_000_000;
/// Some time in the past.
const BEGIN_NS: i64 = 1_750_000_000 * SECOND_NS;

/// `shop` waits behind a program of a hostile name, and `shop-db` does little.
fn interval(second: i64) -> Interval {
    let at = |second: i64| Moment {
        wall_ns: BEGIN_NS + second * SECOND_NS,
        mono_ns: (second * SECOND_NS).unsigned_abs(),
        boot_ns: (second * SECOND_NS).unsigned_abs(),
    };
    let process = |pid: u32, name: &str, run_ns: i64, run_delay_ns: i64| ProcessInterval {
        key: ProcessKey { pid, start_ns: 9 },
        info: Arc::new(ProcessInfo { name: name.into(), ..ProcessInfo::default() }),
        delta: Delta { run_ns, run_delay_ns, ..Delta::default() },
        ..ProcessInterval::default()
    };
    Interval {
        host: HostId([1; 16]),
        fields: Fields::RUN | Fields::RUN_DELAY,
        sequence: second.unsigned_abs(),
        begin: at(second - 1),
        end: at(second),
        processes: vec![
            process(7, "shop", 100_000_000, 800_000_000),
            process(8, "a\u{1b}[2J;reboot", 890_000_000, 0),
            process(9, "shop-db", 10_000_000, 0),
        ],
        ledger: Ledger { capacity_ns: SECOND_NS, threads_ns: SECOND_NS, ..Ledger::default() },
        ..Interval::default()
    }
}

fn store(path: &Path) {
    let mut writer = Writer::open(path, &StoreOptions::default()).unwrap();
    let info = HostInfo { host: HostId([1; 16]), hostname: "alpha".into(), ..HostInfo::default() };
    for second in 1..=60 {
        writer.put(&info, Trust::Local, None, &interval(second)).unwrap();
    }
    writer.commit().unwrap();
}

#[test]
fn an_answer_has_five_blocks_and_names_that_are_safe_to_show() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path);
    let store = path.to_str().unwrap();
    let shown = ok(&["why", "shop", "--store", store]);
    assert!(shown.starts_with("shop on alpha, ") && shown.contains(": 1 process"), "{shown}");
    for title in ["\nWHY   It was ready 80 % of the time", "\nDO    ", "\nTIME  ", "\nSURE  ", "\nMORE  "] {
        assert!(shown.contains(title), "{title}: {shown}");
    }
    assert!(shown.contains("behind a\\x1b[2J;reboot (pid 8)") && !shown.contains('\u{1b}'), "{shown}");
    assert!(!shown.contains("cpumon why a"), "a hostile name is no part of a command: {shown}");
    let asks_again = |line: &&str| line.contains("cpumon top ") || line.contains("cpumon why ");
    let again: Vec<&str> = shown.lines().filter(asks_again).collect();
    let is_of_store = |line: &&str| line.ends_with(&format!(" --store {store}"));
    assert!(!again.is_empty() && again.iter().all(is_of_store), "{shown}");
    let json: serde_json::Value =
        serde_json::from_str(&ok(&["why", "shop", "--store", store, "--json"])).unwrap();
    assert_eq!(json["causes"][0]["cause"], "saturated", "{json}");
    assert_eq!(json["causes"][0]["culprits"][0]["name"], "a\u{1b}[2J;reboot");
    assert_eq!(json["subject"]["pid"], 7);
}

#[test]
fn where_there_is_no_answer_it_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    store(&path);
    let store = path.to_str().unwrap();
    for (words, code, expected) in [
        (&["nothing"][..], 3, "`cpumon find` shows when it ran"),
        (
            &["sho"],
            2,
            "2 programs of this range have sho in their name: shop, shop-db. Use one of these names",
        ),
        (&["shop", "--since", "2001-01-01", "--until", "2001-01-02"], 3, "no data for "),
        (&["shop", "--since", "2001-01-01"], 2, "24 hours at most"),
        (&["shop", "--host", "beta"], 1, "beta"),
    ] {
        let asked = run(&[&["why", "--store", store][..], words].concat());
        let error = text(&asked.stderr);
        assert_eq!(asked.status.code(), Some(code), "{words:?}: {error}");
        assert!(error.contains(expected), "{words:?}: {error}");
    }
    let missing = run(&["why", "shop", "--store", "/nowhere/x.db"]);
    assert!(text(&missing.stderr).contains("`cpumon serve` makes one"), "{missing:?}");
}
