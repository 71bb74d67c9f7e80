//! Batch mode's lines.

use std::time::Duration;

use cpumon_tui::{BatchFormat, BatchOptions, RowOptions, batch};

use crate::synthetic::{Kind, MadeUp};

fn lines(kind: Kind, options: &BatchOptions) -> Vec<String> {
    let mut out = Vec::new();
    batch(&mut MadeUp::new(kind, Duration::ZERO), options, &mut out).unwrap();
    String::from_utf8(out).unwrap().lines().map(String::from).collect()
}

fn once() -> BatchOptions {
    BatchOptions { iterations: Some(1), ..BatchOptions::default() }
}

#[test]
fn text() {
    insta::assert_snapshot!("batch_text", lines(Kind::Normal, &once()).join("\n"));
    let options = BatchOptions {
        rows: RowOptions { threads: true, pids: vec![1733, 1711], ..RowOptions::default() },
        ..once()
    };
    insta::assert_snapshot!("batch_threads", lines(Kind::Normal, &options).join("\n"));
}

#[test]
fn command_lines_follow_the_names_only_where_they_are_asked_for() {
    let row = |cmdline| {
        let lines = lines(Kind::Normal, &BatchOptions { cmdline, ..once() });
        let title = lines.iter().find(|line| line.starts_with("PID") || line.contains(" PID ")).unwrap();
        let name = lines.iter().find(|line| line.contains(" rustc")).unwrap();
        let at = name.find(" rustc").unwrap() + 1;
        (title.split_whitespace().last().unwrap().to_owned(), name[at..].trim_end().to_owned())
    };
    assert_eq!(row(false), ("NAME".to_owned(), "rustc".to_owned()));
    assert_eq!(row(true), ("COMMAND".to_owned(), "rustc --flag value".to_owned()));
}

/// Each value is in the column of its title, whatever is in the rows.
#[test]
fn a_user_id_of_ten_digits_moves_no_column() {
    let mut feed = MadeUp::new(Kind::Normal, Duration::ZERO);
    feed.uid = Some(u32::MAX - 1);
    let mut out = Vec::new();
    batch(&mut feed, &once(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert!(rows[1..].iter().all(|row| row.contains(" 4294967294 ")), "{text}");
    let title_at = rows[0].find(" S ").unwrap();
    for row in &rows[1..] {
        let state = row.get(title_at..title_at + 3).unwrap();
        assert!(state.starts_with(' ') && state.ends_with(' ') && state.trim().len() == 1, "{text}");
    }
}

#[test]
fn the_ledger_of_a_host_of_windows_has_its_words() {
    let ledger_of = |source| {
        let mut feed = MadeUp::new(Kind::Normal, Duration::ZERO);
        feed.source = Some(source);
        let mut out = Vec::new();
        batch(&mut feed, &once(), &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().nth(1).unwrap().to_owned()
    };
    let windows = ledger_of(cpumon_model::SourceKind::Nt);
    assert!(windows.contains(" + ISR ") && windows.contains(" + DPC "), "{windows}");
    assert!(!windows.contains("irq"), "{windows}");
    let linux = ledger_of(cpumon_model::SourceKind::Procfs);
    assert!(linux.contains(" + irq ") && linux.contains(" + softirq "), "{linux}");
}

#[test]
fn every_line_has_as_many_columns_as_the_title() {
    for kind in [Kind::Normal, Kind::NoFields, Kind::Many] {
        for threads in [false, true] {
            let rows = RowOptions { threads, ..RowOptions::default() };
            let lines = lines(kind, &BatchOptions { rows, ..once() });
            let rows: Vec<&String> =
                lines.iter().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
            let columns = rows[0].split_whitespace().count();
            assert!(rows.len() > 10);
            for row in rows {
                assert_eq!(row.split_whitespace().count(), columns, "{row}");
            }
        }
    }
}

#[test]
fn json_is_one_object_a_line_and_no_data_is_null() {
    let options = BatchOptions { iterations: Some(2), format: BatchFormat::Json, ..BatchOptions::default() };
    let lines = lines(Kind::NoFields, &options);
    assert_eq!(lines.len(), 2);
    let object: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(object["sequence"], 101);
    assert_eq!(object["source"], "v1");
    let row = &object["rows"][0];
    assert_eq!((row["pid"].is_u64(), row["run_ns"].is_null(), row["user_ns"].is_i64()), (true, true, true));
}

/// Only the screens had them.
#[test]
fn what_the_agent_lost_is_in_both_formats() {
    let printed = |format| {
        let mut feed = MadeUp::new(Kind::Normal, Duration::ZERO);
        feed.exits_lost = 7;
        let mut out = Vec::new();
        batch(&mut feed, &BatchOptions { format, ..once() }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = printed(BatchFormat::Text);
    assert_eq!(text.lines().nth(2), Some("# lost since the agent's start: 7 exits lost"), "{text}");
    let object: serde_json::Value = serde_json::from_str(&printed(BatchFormat::Json)).unwrap();
    assert_eq!((&object["exits_lost"], &object["ring_drops"]), (&7.into(), &0.into()));
}

#[test]
fn hostile_names_stay_on_their_line() {
    let text = lines(Kind::Hostile, &once());
    assert_eq!(text.iter().filter(|line| !line.starts_with('#') && !line.is_empty()).count(), 9);
    assert!(!text.join("").contains('\u{1b}'));
    let options = BatchOptions { format: BatchFormat::Json, ..once() };
    let json = lines(Kind::Hostile, &options);
    let object: serde_json::Value = serde_json::from_str(&json[0]).unwrap();
    let names: Vec<&str> =
        object["rows"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    assert!(names.contains(&"line\nbreak\ttab\r"));
}

#[test]
fn what_is_left_out_is_counted() {
    let delay = Some(Duration::from_secs(3));
    let lines = lines(Kind::Normal, &BatchOptions { iterations: Some(3), delay, ..BatchOptions::default() });
    let heads: Vec<&String> = lines.iter().filter(|line| line.starts_with("# host")).collect();
    assert_eq!(heads.len(), 3);
    assert!(!heads[0].contains("not_printed"));
    assert!(heads[1].ends_with("not_printed 2") && heads[2].ends_with("not_printed 2"), "{heads:?}");
}

#[test]
fn a_past_moment_is_printed_once_and_an_unknown_one_is_an_error() {
    let at = |second: i64| BatchOptions {
        at_wall_ns: Some(crate::synthetic::EPOCH_NS + second * 1_000_000_000),
        ..BatchOptions::default()
    };
    assert!(lines(Kind::Normal, &at(50))[0].contains("14:05:50Z"));
    let mut out = Vec::new();
    let error = batch(&mut MadeUp::new(Kind::Normal, Duration::ZERO), &at(-50), &mut out).unwrap_err();
    let nearest = "nearest data after: 2026-11-21 14:05:00Z (50 s later)";
    assert_eq!(error.to_string(), format!("no data for 2026-11-21 14:04:10Z; {nearest}"));
}
