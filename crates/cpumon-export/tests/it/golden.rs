//! The original's layouts against files of the original.

use std::time::Duration;

use cpumon_export::{ExportQuery, Kind, LegacyYear};
use cpumon_legacy::{ImportOptions, import};
use cpumon_store::{StoreOptions, Writer};
use rusqlite::Connection;

use crate::fixture::{Store, shared};

/// The set for which the original's stored pivot lacks six cells, because their rows came after the pivot was made.
const LATE_SET: &str = "631770195270860000";
const NS_PER_S: i64 = 1_000_000_000;

fn imported(path: &std::path::Path) -> Store {
    Store::with(|writer| {
        import(writer, path, &ImportOptions::default()).unwrap();
    })
}

fn legacy(kind: Kind, year: LegacyYear) -> ExportQuery {
    ExportQuery { kind, legacy: Some(year), ..ExportQuery::default() }
}

#[test]
fn the_pivot_of_2012_is_what_the_original_wrote() {
    let (Some(database), Some(golden)) = (shared("ProcessUsage.sqlite"), shared("pivot_export_2012.csv"))
    else {
        return;
    };
    let golden = std::fs::read_to_string(golden).unwrap();
    // Until the end of 2003, when 79 sets were stored; the pivot was made after the first 75 had arrived.
    let until_ns = 1_072_915_200 * NS_PER_S;
    let query = ExportQuery { until_ns: Some(until_ns), ..legacy(Kind::Pivot, LegacyYear::Y2012) };
    let (ours, report) = imported(&database).export(&query);
    assert_eq!(report.rows, 79);
    let time = |line: &str| line.split(';').next().unwrap_or_default().to_owned();
    let at_export: Vec<_> = golden.split("\r\n").map(time).collect();
    let kept: Vec<_> = ours.split("\r\n").filter(|line| at_export.contains(&time(line))).collect();
    assert_eq!(at_export.len(), 77, "header, 75 rows, the end of the last line");
    assert_eq!(kept.len(), at_export.len());
    let mut late = 0;
    for (ours, golden) in kept.into_iter().zip(golden.split("\r\n")) {
        if time(golden) != LATE_SET {
            assert_eq!(ours, golden);
            continue;
        }
        let (ours, golden): (Vec<_>, Vec<_>) = (ours.split(';').collect(), golden.split(';').collect());
        assert_eq!(ours.len(), golden.len());
        for (ours, golden) in ours.iter().zip(&golden).filter(|(ours, golden)| ours != golden) {
            assert!(golden.is_empty() && !ours.is_empty());
            late += 1;
        }
    }
    assert_eq!(late, 6);
}

/// An SQL expression: the time of day of ticks in `column` on the original's clock.
fn clock(column: &str) -> String {
    let ms = format!("({column} / 10000 % 86400000)");
    let hour = format!("({ms} / 3600000 % 12)");
    format!(
        "printf('%02d:%02d:%02d.%03d', CASE {hour} WHEN 0 THEN 12 ELSE {hour} END, {ms} / 60000 % 60, \
         {ms} / 1000 % 60, {ms} % 1000)"
    )
}

#[test]
fn the_processes_export_of_2012_is_what_the_original_wrote() {
    let Some(database) = shared("ProcessUsage.sqlite") else { return };
    let (ours, report) = imported(&database).export(&legacy(Kind::Processes, LegacyYear::Y2012));
    assert_eq!(report.rows, 1716);
    let source = Connection::open(&database).unwrap();
    let sql = format!(
        "SELECT '\"' || Process || '\";' || ProcID || ';' || User || ';' || {} || ';' || Duration || ';' || idx
         FROM Processes ORDER BY idx",
        clock("Time")
    );
    let mut expected = String::from("Process;ProcID;User;Time;Duration;Idx\r\n");
    expected += &lines(&source, &sql);
    assert!(ours == expected);
    assert_eq!(
        ours.lines().nth(1),
        Some("\"NK.EXE\";479195138;0;12:36:21.594;3177;1"),
        "as the original wrote it"
    );
}

#[test]
fn the_processes_export_of_2013_has_the_device_and_all_quotes() {
    let Some(database) = shared("ProcessUsage.sqlite") else { return };
    let (ours, _) = imported(&database).export(&legacy(Kind::Processes, LegacyYear::Y2013));
    let expected = "RemoteIP;Process;ProcID;User;Time;Duration;Idx\r\n\
                    \"device\";\"NK.EXE\";479195138;0;12:36:21.594;3177;1\r\n";
    assert!(ours.starts_with(expected), "{:?}", ours.lines().next());
}

#[test]
fn the_threads_export_has_every_row_once_in_the_originals_order() {
    let Some(database) = shared("ProcessUsage.sqlite") else { return };
    let source = Connection::open(&database).unwrap();
    let sql = format!(
        "SELECT ThreadID || ';' || ProcID || ';' || user || ';' || kernel || ';' || duration || ';' || {} || ';' ||
         idx || ';' FROM Threads ORDER BY idx, rowid",
        clock("timestamp")
    );
    let mut expected = String::from("ThreadID;ProcID;user;kernel;duration;timestamp;idx;\r\n");
    expected += &lines(&source, &sql);
    for year in [LegacyYear::Y2012, LegacyYear::Y2013] {
        let (ours, report) = imported(&database).export(&legacy(Kind::Threads, year));
        assert_eq!(report.rows, 41_557);
        assert!(ours == expected);
    }
}

#[test]
fn compacting_and_a_second_import_change_nothing() {
    let Some(database) = shared("ProcessUsage.sqlite") else { return };
    let fresh = imported(&database);
    let options = StoreOptions {
        max_age: None,
        compact_after: Duration::ZERO,
        compact_partial_after: Duration::ZERO,
        ..StoreOptions::default()
    };
    let compacted = Store::with(|writer| {
        import(writer, &database, &ImportOptions::default()).unwrap();
    });
    let mut writer = Writer::open(&compacted.path, &options).unwrap();
    writer.maintain(Duration::from_secs(5)).unwrap();
    import(&mut writer, &database, &ImportOptions::default()).unwrap();
    drop(writer);
    let chunks = Connection::open(&compacted.path).unwrap();
    let count = chunks.query_row("SELECT count(*) FROM chunk", [], |row| row.get::<_, i64>(0));
    assert!(count.unwrap() > 0, "nothing was compacted");
    for kind in [Kind::Pivot, Kind::Processes, Kind::Threads] {
        let query = legacy(kind, LegacyYear::Y2012);
        assert!(fresh.export(&query).0 == compacted.export(&query).0, "{kind:?}");
    }
}

fn lines(source: &Connection, sql: &str) -> String {
    let mut statement = source.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|row| row.unwrap() + "\r\n").collect()
}

/// Two devices; same-named processes; names that break lines, spreadsheets and SQL.
fn database_of_2013(dir: &std::path::Path) -> std::path::PathBuf {
    let path = dir.join("ProcessUsage.sqlite");
    let database = Connection::open(&path).unwrap();
    let schema = "
        CREATE TABLE [Processes] ([RemoteIP] TEXT NOT NULL, [ProcID] INTEGER NOT NULL, [Process] TEXT NOT NULL,
            [User] INTEGER NOT NULL, [Kernel] INTEGER NOT NULL, [Time] INTEGER NOT NULL, [Duration] INTEGER NOT NULL,
            [idx] INTEGER PRIMARY KEY AUTOINCREMENT);
        CREATE TABLE [Threads] ([ThreadID] INTEGER NOT NULL, [ProcID] INTEGER NOT NULL, [user] INTEGER NOT NULL,
            [kernel] INTEGER NOT NULL, [duration] INTEGER NOT NULL, [timestamp] INTEGER NOT NULL, [idx] INTEGER NOT NULL);";
    database.execute_batch(schema).unwrap();
    let time = 635_327_194_966_680_000_i64;
    let rows = [
        ("10.0.0.2", 9, "twin.exe", 5, time),
        ("10.0.0.2", 8, "twin.exe", 7, time),
        ("10.0.0.1", 8, "'; DROP TABLE--", 1, time),
        ("10.0.0.1", 9, "=cmd()", 2, time),
        ("10.0.0.1", 10, "a\nb;c", 3, time),
        ("10.0.0.1", 8, "'; DROP TABLE--", 0, time + 30_000_000),
        ("10.0.0.1", 11, "", 4, time + 30_000_000),
    ];
    for (ip, pid, name, user, time) in rows {
        let insert = "INSERT INTO Processes VALUES (?1, ?2, ?3, ?4, 0, ?5, 3000, NULL)";
        database.execute(insert, rusqlite::params![ip, pid, name, user, time]).unwrap();
    }
    let threads =
        format!("INSERT INTO Threads VALUES (80, 8, 7, 1, 3000, {time}, 2), (90, 9, 5, 0, 3000, {time}, 1)");
    database.execute_batch(&threads).unwrap();
    path
}

#[test]
fn the_layouts_of_2013_with_hostile_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = imported(&database_of_2013(dir.path()));
    let all = [Kind::Pivot, Kind::Processes, Kind::Threads].map(|kind| {
        let (text, _) = store.export(&legacy(kind, LegacyYear::Y2013));
        assert!(text.ends_with("\r\n") && text.matches('\n').count() == text.matches("\r\n").count());
        text.replace("\r\n", "\u{240d}\n")
    });
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn one_layout_of_2012_cannot_hold_two_devices() {
    let dir = tempfile::tempdir().unwrap();
    let store = imported(&database_of_2013(dir.path()));
    let query = legacy(Kind::Pivot, LegacyYear::Y2012);
    let text = store.try_export(&query).unwrap_err().to_string();
    assert!(text.ends_with("choose one with --host: 10.0.0.1, 10.0.0.2"), "{text}");
    let one = ExportQuery { host: Some("10.0.0.2".to_owned()), ..query };
    let expected = "'Time';'twin.exe';\r\n635327194966680000;12;\r\n";
    assert_eq!(store.export(&one).0, expected, "same-named processes add up");
    let ledger = legacy(Kind::Ledger, LegacyYear::Y2013);
    assert!(store.try_export(&ledger).unwrap_err().to_string().starts_with("no legacy layout for ledger"));
}
