use std::path::Path;

use cpumon_legacy::{ImportOptions, import};
use cpumon_store::{Reader, StoreOptions, Writer};
use rusqlite::Connection;

use super::*;
use crate::legacy::layout::{LegacyLayout, layout_of};
use crate::{Kind, LegacyYear};

const SCHEMA: &str = "
    CREATE TABLE [Processes] ([RemoteIP] TEXT NOT NULL, [ProcID] INTEGER NOT NULL, [Process] TEXT NOT NULL,
        [User] INTEGER NOT NULL, [Kernel] INTEGER NOT NULL, [Time] INTEGER NOT NULL, [Duration] INTEGER NOT NULL,
        [idx] INTEGER PRIMARY KEY AUTOINCREMENT);
    CREATE TABLE [Threads] ([ThreadID] INTEGER NOT NULL, [ProcID] INTEGER NOT NULL, [user] INTEGER NOT NULL,
        [kernel] INTEGER NOT NULL, [duration] INTEGER NOT NULL, [timestamp] INTEGER NOT NULL, [idx] INTEGER NOT NULL);";

/// Three devices whose rows alternate; their clocks run against each other, and each process has up to three threads.
fn database(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database.execute_batch(SCHEMA).unwrap();
    for idx in 1..=200_i64 {
        let (device, set) = (idx * 7 % 3, idx * 11 % 13);
        let time = 635_327_194_966_680_000 + (if device == 1 { -set } else { set }) * 30_000_000;
        let row =
            rusqlite::params![format!("10.0.0.{device}"), idx, format!("p{}.exe", idx % 5), idx, time, idx];
        database.execute("INSERT INTO Processes VALUES (?1, ?2, ?3, ?4, 0, ?5, 3000, ?6)", row).unwrap();
        for thread in 0..idx % 4 {
            let row = rusqlite::params![idx * 10 - thread, idx, thread, time, idx];
            database.execute("INSERT INTO Threads VALUES (?1, ?2, ?3, 0, 3000, ?4, ?5)", row).unwrap();
        }
    }
    database
}

fn imported(dir: &Path, legacy: &Path) -> Reader {
    let store = dir.join("store.db");
    let mut writer =
        Writer::open(&store, &StoreOptions { max_age: None, ..StoreOptions::default() }).unwrap();
    import(&mut writer, legacy, &ImportOptions::default()).unwrap();
    writer.commit().unwrap();
    drop(writer);
    Reader::open(&store).unwrap()
}

fn lines(reader: &Reader, query: &ExportQuery, limits: Limits) -> Vec<String> {
    let source = ExportSource::open(reader, query, 1).unwrap();
    let LegacyLayout::Rows(layout) = layout_of(&source, LegacyYear::Y2013, query.kind).unwrap() else {
        panic!("rows")
    };
    let mut out = Vec::new();
    let report = write(reader, query, layout, limits, &mut out, &mut |_| {}).unwrap();
    let lines: Vec<_> = String::from_utf8(out).unwrap().lines().map(String::from).collect();
    assert_eq!(report.rows, lines.len() as u64 - 1);
    lines
}

fn query(kind: Kind) -> ExportQuery {
    ExportQuery { kind, ..ExportQuery::default() }
}

/// The number in a column of each line behind the header.
fn column(lines: &[String], at: usize) -> Vec<i64> {
    lines[1..].iter().map(|line| line.split(';').nth(at).unwrap().parse().unwrap()).collect()
}

#[test]
fn rows_are_in_the_originals_order_however_few_fit_into_memory() {
    let dir = tempfile::tempdir().unwrap();
    let legacy = dir.path().join("ProcessUsage.sqlite");
    let database = database(&legacy);
    let mut statement = database.prepare("SELECT [ThreadID] FROM [Threads] ORDER BY [idx], rowid").unwrap();
    let threads: Vec<i64> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let reader = imported(dir.path(), &legacy);
    for (window_rows, most_rows) in [(1, 1), (5, 3), (40, 1_000), (1_000, 60), (1_000, 1_000)] {
        let limits = Limits { window_rows, most_rows };
        let written = lines(&reader, &query(Kind::Processes), limits);
        assert!(column(&written, 6).into_iter().eq(1..=200), "{window_rows} {most_rows}: {written:?}");
        assert_eq!(
            column(&lines(&reader, &query(Kind::Threads), limits), 0),
            threads,
            "{window_rows} {most_rows}"
        );
    }
}

#[test]
fn a_chosen_process_keeps_its_numbers_and_sums_have_running_ones() {
    let dir = tempfile::tempdir().unwrap();
    let legacy = dir.path().join("ProcessUsage.sqlite");
    database(&legacy);
    let reader = imported(dir.path(), &legacy);
    let chosen = ExportQuery { process: Some("p3.exe".to_owned()), ..query(Kind::Processes) };
    let written = lines(&reader, &chosen, Limits::default());
    assert!(column(&written, 6).into_iter().eq((3..=200).step_by(5)), "{written:?}");
    let minutes = ExportQuery { interval_ns: Some(60_000_000_000), ..query(Kind::Processes) };
    let numbers = column(&lines(&reader, &minutes, Limits::default()), 6);
    assert!(!numbers.is_empty() && numbers.iter().copied().eq(1..=i64::try_from(numbers.len()).unwrap()));
}
