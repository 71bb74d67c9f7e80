//! Two spans side by side.

use cpumon_export::{ExportError, ExportQuery, Format, GroupBy, Kind, LegacyYear};
use cpumon_model::{Fields, Interval, ProcessInterval, SourceKind};
use cpumon_query::report::CompareRanges;
use cpumon_store::TimeRange;

use crate::fixture::{SECOND, Store, interval, process};

const BEFORE: TimeRange = TimeRange::new(0, 10 * SECOND);
const AFTER: TimeRange = TimeRange::new(20 * SECOND, 30 * SECOND);

fn query(by: GroupBy) -> ExportQuery {
    ExportQuery {
        kind: Kind::Compare,
        group_by: by,
        compared: Some(CompareRanges { before: BEFORE, after: AFTER }),
        ..ExportQuery::default()
    }
}

fn at(second: i64, processes: Vec<ProcessInterval>) -> (&'static str, Interval) {
    ("h", Interval { processes, ..interval(second) })
}

/// `run_ns` is that of `user_ns` and one more.
fn grown() -> Store {
    let of = |pid, name, uid: u32, container: &str| {
        let mut row = process(pid, name, SECOND / 4 - 1);
        let info = std::sync::Arc::make_mut(&mut row.info);
        (info.uid, info.container, info.is_kernel) = (uid, container.into(), name.starts_with("kworker"));
        row
    };
    Store::of([
        at(5, vec![of(1, "web", 33, "docker:a"), of(2, "kworker/0:1", 0, ""), of(3, "old", 0, "")]),
        at(10, vec![of(1, "web", 33, "docker:a")]),
        at(15, vec![of(9, "between", 0, "")]),
        at(25, vec![of(1, "web", 33, "docker:a"), of(4, "web", 33, ""), of(5, "kworker/1:0", 0, "")]),
    ])
}

/// Name and change, in %CPU.
fn changes(store: &Store, query: &ExportQuery) -> Vec<(String, Option<f64>)> {
    let (text, report) = store.export(&ExportQuery { format: Format::Jsonl, ..query.clone() });
    let rows: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len() as u64, report.rows);
    rows.iter()
        .map(|row| (row["name"].as_str().unwrap().to_owned(), row["change_cpu_pct"].as_f64()))
        .collect()
}

fn pairs(wanted: &[(&str, f64)]) -> Vec<(String, Option<f64>)> {
    wanted.iter().map(|(name, change)| ((*name).to_owned(), Some(*change))).collect()
}

#[test]
fn rows_are_groups_the_largest_change_first() {
    let store = grown();
    // Two seconds were measured before, one after; a quarter of a second is 12.5 % and 25 %.
    for (by, wanted) in [
        (GroupBy::Name, &[("kworker/1:0", 25.0), ("web", 25.0), ("kworker/0:1", -12.5), ("old", -12.5)][..]),
        (GroupBy::Program, &[("web", 25.0), ("kworker", 12.5), ("old", -12.5)]),
        (GroupBy::User, &[("33", 25.0), ("root", 0.0)]),
        (GroupBy::Container, &[("(none)", 25.0), ("docker:a", 0.0)]),
        (
            GroupBy::Process,
            &[("kworker/1:0", 25.0), ("web", 25.0), ("kworker/0:1", -12.5), ("old", -12.5), ("web", 0.0)],
        ),
    ] {
        assert_eq!(changes(&store, &query(by)), pairs(wanted), "{by:?}");
    }
    let only = ExportQuery { process: Some("web".into()), ..query(GroupBy::Name) };
    assert_eq!(changes(&store, &only), pairs(&[("web", 25.0)]));
}

#[test]
fn a_row_has_both_sides_in_full() {
    let (text, report) = grown().export(&query(GroupBy::Process));
    assert_eq!((report.hosts, report.rows, report.intervals), (1, 5, 3));
    insta::assert_snapshot!(text.replace('\r', ""));
}

#[test]
fn a_side_without_data_is_empty_and_one_that_did_not_run_is_zero() {
    let store = grown();
    let nothing = ExportQuery {
        compared: Some(CompareRanges { before: BEFORE, after: TimeRange::new(40 * SECOND, 50 * SECOND) }),
        ..query(GroupBy::Name)
    };
    let (text, _) = store.export(&ExportQuery { format: Format::Jsonl, ..nothing });
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&first["name"], &first["before_cpu_pct"]), (&"web".into(), &25.0.into()), "{first}");
    for empty in ["after_cpu_pct", "change_cpu_pct", "after_run_ns", "after_user_ns"] {
        assert!(first[empty].is_null(), "{empty}: {first}");
    }
    assert_eq!(first["after_duration_ns"], 0);
    let (text, _) = store.export(&ExportQuery { format: Format::Jsonl, ..query(GroupBy::Name) });
    let old = text.lines().find(|line| line.contains("\"old\"")).unwrap();
    assert!(old.contains("\"after_cpu_pct\":0.0") && old.contains("\"after_run_ns\":0"), "{old}");
}

#[test]
fn what_is_not_measured_is_empty_and_a_v1_device_has_no_users() {
    let mut one = interval(5);
    one.fields.remove(Fields::SYSTEM);
    one.source = SourceKind::V1;
    one.processes = vec![process(1, "x", 5)];
    let store = Store::of([("h", one)]);
    let (text, _) = store.export(&ExportQuery { format: Format::Jsonl, ..query(GroupBy::User) });
    assert!(text.contains("\"name\":\"(none)\"") && text.contains("\"before_system_ns\":null"), "{text}");
    assert!(text.contains("\"before_user_ns\":5"), "{text}");
}

#[test]
fn hostile_names_stay_one_row_and_run_nowhere() {
    let names = ["=cmd()", "+1", "-1", "@x", "\tx", "a\r\nb", "say \"hi\", ok", "\u{1b}[2J"];
    let rows = (1..).zip(names).map(|(pid, name)| process(pid, name, 7)).collect();
    let store = Store::of([at(5, rows)]);
    let text = store.export(&query(GroupBy::Name)).0;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut found: Vec<_> = reader.records().map(|row| row.unwrap()[1].to_owned()).collect();
    let mut wanted = names.map(|name| {
        let escaped = cpumon_model::escape(name);
        if name.starts_with(['=', '+', '-', '@']) { format!("'{escaped}") } else { escaped.to_string() }
    });
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
    assert_eq!(changes(&store, &query(GroupBy::Name)).len(), names.len());
}

#[test]
fn each_host_is_compared_by_itself() {
    let one = Interval { processes: vec![process(1, "x", SECOND - 1)], ..interval(5) };
    let store = Store::of([("a", one.clone()), ("b", one)]);
    let (text, report) = store.export(&query(GroupBy::Name));
    assert_eq!((report.hosts, report.rows), (2, 2));
    assert!(text.contains("\n\"a\",\"x\",") && text.contains("\n\"b\",\"x\","), "{text}");
}

#[test]
fn the_original_had_none_and_one_range_is_not_enough() {
    let store = grown();
    let legacy = ExportQuery { legacy: Some(LegacyYear::Y2013), ..query(GroupBy::Name) };
    assert!(matches!(store.try_export(&legacy), Err(ExportError::NoLegacyLayout { kind: "compare" })));
    let none = ExportQuery { compared: None, ..query(GroupBy::Name) };
    assert!(matches!(store.try_export(&none), Err(ExportError::NoRanges)));
}
