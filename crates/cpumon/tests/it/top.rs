//! The screens over a made-up store, in tmux: groups and users are those of the other commands.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, HostId, HostInfo, Interval, Ledger, Moment, ProcessInfo, ProcessInterval, ProcessKey,
    SourceKind, Trust,
};
use cpumon_store::{StoreOptions, Writer};
use serde_json::Value;

use crate::support::{ok, run, text};
use crate::terminal::Tmux;

const SECOND_NS: i64 = 1_000_000_000;
/// Names with uid, user, whether it is a kernel thread, and run time in ms.
const PROCESSES: [(&str, u32, &str, bool, i64); 10] = [
    ("rustc", 1000, "ann", false, 911),
    ("rustc", 1000, "ann", false, 402),
    ("rustc", 1001, "ann", false, 233),
    ("kworker/0:1", 0, "", true, 120),
    ("kworker/1:2-events", 0, "root", true, 61),
    ("ksoftirqd/0", 0, "root", true, 47),
    ("rcu_preempt", 0, "root", true, 13),
    ("'; DROP TABLE--", 1002, "", false, 31),
    ("=cmd()", 33, "www data", false, 22),
    ("\x1b[2J\u{202e}evil", 33, "www data", false, 18),
];

fn store(path: &Path, end_ns: i64) {
    let process = |(nth, (name, uid, user, is_kernel, run_ms)): (u32, (&str, u32, &str, bool, i64))| {
        let (name, user) = (name.into(), user.into());
        let info = ProcessInfo { name, user, uid, is_kernel, ..ProcessInfo::default() };
        ProcessInterval {
            key: ProcessKey { pid: 100 + nth, start_ns: 7 },
            info: Arc::new(info),
            thread_rows: 1,
            delta: Delta { run_ns: run_ms * 1_000_000, ..Delta::default() },
            ..ProcessInterval::default()
        }
    };
    let moment = |wall_ns: i64| Moment { mono_ns: 1, boot_ns: wall_ns.unsigned_abs() / 1000, wall_ns };
    let interval = Interval {
        host: HostId([7; 16]),
        source: SourceKind::Procfs,
        fields: Fields::RUN,
        begin: Moment { mono_ns: 0, ..moment(end_ns - SECOND_NS) },
        end: Moment { mono_ns: SECOND_NS.unsigned_abs(), ..moment(end_ns) },
        processes: (0..).zip(PROCESSES).map(process).collect(),
        ledger: Ledger { capacity_ns: 4 * SECOND_NS, threads_ns: SECOND_NS, ..Ledger::default() },
        ..Interval::default()
    };
    let host = HostInfo { host: HostId([7; 16]), hostname: "made-up".into(), ..HostInfo::default() };
    let mut writer = Writer::open(path, &StoreOptions { max_age: None, ..StoreOptions::default() }).unwrap();
    writer.put(&host, Trust::Local, None, &interval).unwrap();
    writer.commit().unwrap();
}

/// The %CPU of each group on a screen.
fn groups_on(screen: &str) -> Option<BTreeMap<String, String>> {
    let lines: Vec<Vec<char>> = screen.lines().map(|line| line.chars().collect()).collect();
    let place = |line: &[char], title: &str| {
        let line: String = line.iter().collect();
        line.find(title).map(|at| line[..at].chars().count())
    };
    let titles =
        lines.iter().position(|line| place(line, "%CPU").is_some() && place(line, "NAME").is_some())?;
    let (cpu_end, name) = (place(&lines[titles], "%CPU▾")? + 5, place(&lines[titles], "NAME")?);
    let rows = lines[titles + 1..].iter().take_while(|line| line.get(name) == Some(&'▸'));
    let cell = |line: &[char]| -> Option<(String, String)> {
        let cpu: String = line.get(..cpu_end)?.iter().collect();
        Some((
            line.get(name + 2..)?.iter().collect::<String>().trim_end().to_owned(),
            cpu.split_whitespace().last()?.into(),
        ))
    };
    rows.map(|line| cell(line)).collect()
}

#[test]
fn groups_are_those_of_reports_with_the_same_figures() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let end_ns = cpumon_store::wall_now_ns() / SECOND_NS * SECOND_NS - 3600 * SECOND_NS;
    store(&path, end_ns);
    let store = path.to_str().unwrap();
    let [since, until] = [end_ns - SECOND_NS, end_ns].map(|ns| ns.to_string());
    let top = format!("{} top --store {store} --at {}", env!("CARGO_BIN_EXE_cpumon"), end_ns - SECOND_NS / 2);
    let Some(tmux) = Tmux::start(&top) else { return };
    tmux.wait_for("the grid", |screen| screen.contains("[kworker/0:1]"));
    for by in ["program", "user"] {
        let report =
            ok(&["report", "--store", store, "--since", &since, "--until", &until, "--by", by, "--json"]);
        let rows: Vec<Value> = serde_json::from_str(&report).unwrap();
        let groups: BTreeMap<String, String> = rows
            .iter()
            .filter(|row| row["kind"] == "group")
            .map(|row| {
                let name = cpumon_model::escape(row["name"].as_str().unwrap()).to_string();
                (name, format!("{:.1}", row["cpu_pct"].as_f64().unwrap()))
            })
            .collect();
        assert!(groups.len() >= 4, "{report}");
        tmux.keys(&["g"]);
        tmux.wait_for(&format!("{by}: {groups:?}"), |screen| {
            screen.contains(&format!("by {by}")) && groups_on(screen).as_ref() == Some(&groups)
        });
    }
}

#[test]
fn a_user_of_another_host_is_chosen_by_the_name_that_it_sent_or_by_id() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let end_ns = cpumon_store::wall_now_ns() / SECOND_NS * SECOND_NS - 60 * SECOND_NS;
    store(&path, end_ns);
    let store = path.to_str().unwrap();
    let at = (end_ns - SECOND_NS / 2).to_string();
    let top =
        |user: &str| run(&["top", "-b", "--host", "made-up", "--store", store, "--at", &at, "-u", user]);
    for (user, names) in [
        ("ann", &["rustc", "rustc", "rustc"][..]),
        ("1000", &["rustc", "rustc"]),
        ("ann (1001)", &["rustc"]),
        ("www data", &["=cmd()", "\\x1b[2J\\u{202e}evil"]),
        ("1002", &["DROP TABLE--"]),
    ] {
        let shown = top(user);
        assert!(shown.status.success(), "{shown:?}");
        let shown = text(&shown.stdout);
        let rows = shown.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).skip(1);
        let found: Vec<&str> = rows.collect();
        assert_eq!(found.len(), names.len(), "{user}: {shown}");
        assert!(found.iter().zip(names).all(|(line, name)| line.ends_with(name)), "{user}: {shown}");
    }
    let unknown = top("bob");
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    let (shown, error) = (text(&unknown.stdout), text(&unknown.stderr));
    assert!(shown.contains("# no process of user bob here, only of ann (1000)"), "{shown}");
    assert!(error.contains("\"bob\""), "{error}");
}
