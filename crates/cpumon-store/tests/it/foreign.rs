//! Stores from elsewhere: an object that replaces a table, or acts on one, is named and never runs.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cpumon_model::{HostId, Trust};
use cpumon_store::sql::Sql;
use cpumon_store::{Query, Reader, StoreOptions, TraceIndex, Writer, check, forget_host};

use crate::data;
use crate::round_trip::read_all;

/// A view without an end.
const ENDLESS: &str = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)";

/// A store with a host, changed by statements that no cpumon runs.
fn changed(dir: &Path, statements: &str) -> PathBuf {
    let path = dir.join("s.sqlite");
    let info = data::host(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &data::day(&info, 1, 3, 4) {
        writer.put_received(&info, Trust::Local, None, interval, interval.end.wall_ns).unwrap();
    }
    drop(writer);
    rusqlite::Connection::open(&path).unwrap().execute_batch(statements).unwrap();
    path
}

/// The error of each call that opens a store; empty where there is none.
fn refusals(path: &Path) -> Vec<String> {
    let never = Arc::new(AtomicBool::new(false));
    let answers = [
        Reader::open(path).err(),
        Sql::open(path).err(),
        Writer::open(path, &StoreOptions::default()).err(),
        TraceIndex::open(path).err(),
        forget_host(path, HostId([9; 16]), Duration::ZERO).err(),
        check(path, None, &never).err(),
    ];
    answers.into_iter().map(|error| error.map(|error| error.with_causes()).unwrap_or_default()).collect()
}

#[test]
fn a_view_in_place_of_a_table_is_named_and_never_read() {
    let dir = tempfile::tempdir().unwrap();
    let view = format!(
        "ALTER TABLE host RENAME TO host_o; CREATE VIEW HOST AS {ENDLESS} SELECT o.* FROM host_o o, c"
    );
    let path = changed(dir.path(), &view);
    for words in refusals(&path) {
        assert!(words.contains("view \"host\" is in place of a store's table"), "{words}");
    }
    let (to, never) = (dir.path().join("saved.sqlite"), Arc::new(AtomicBool::new(false)));
    check(&path, Some(&to), &never).unwrap();
    let saved = Reader::open(&to).unwrap();
    assert_eq!(
        read_all(&saved, &Query::new(data::host(1).host)).len(),
        3,
        "what is in the tables is salvaged"
    );
}

#[test]
fn what_acts_on_a_table_is_named() {
    let cases = [
        ("CREATE TRIGGER t AFTER INSERT ON interval BEGIN DELETE FROM host; END", "no trigger \"t\""),
        ("CREATE TABLE Hosts (host AS (hex(zeroblob(400000000))), x)", "table \"hosts\" would hide"),
        ("CREATE INDEX i ON chunk (length(zeroblob(900000000)))", "no index \"i\""),
        (
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'key BLOB', 'key TEXT') WHERE name = 'host'",
            "table \"host\" is defined otherwise than in a store",
        ),
    ];
    for (statements, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        for words in refusals(&changed(dir.path(), statements)) {
            assert!(words.contains(expected), "{statements}: {words}");
        }
    }
}

/// The list was compared by names alone, and a trigger may have that of an index or of a table: it ran at the next import.
#[test]
fn a_trigger_with_a_name_that_is_taken_is_named() {
    let cases = [
        "DROP INDEX interval_boot; CREATE TRIGGER interval_boot AFTER INSERT ON interval BEGIN DELETE FROM host; END;
         CREATE INDEX interval_boot ON interval (host_id, boot_id, end_wall_ns)",
        "CREATE TRIGGER notes AFTER INSERT ON interval BEGIN DELETE FROM host; END; CREATE TABLE notes (x)",
        "CREATE TABLE notes (x); CREATE TRIGGER interval AFTER INSERT ON notes BEGIN DELETE FROM host; END",
    ];
    for statements in cases {
        let dir = tempfile::tempdir().unwrap();
        for words in refusals(&changed(dir.path(), statements)) {
            assert!(words.contains("a store has no trigger"), "{statements}: {words}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let behind_a_trigger = "CREATE INDEX i ON chunk (length(zeroblob(900000000))); CREATE TABLE notes (x);
        CREATE TRIGGER i AFTER INSERT ON notes BEGIN DELETE FROM host; END";
    for words in refusals(&changed(dir.path(), behind_a_trigger)) {
        assert!(words.contains("a store has no index \"i\""), "{words}");
    }
}

/// Where the list may be damaged, SQLite does not compare a name with the definition beside it.
#[test]
fn a_definition_under_another_name_is_not_run_by_a_check() {
    let dir = tempfile::tempdir().unwrap();
    let statements = "PRAGMA writable_schema = ON;
        INSERT INTO sqlite_schema (rowid, type, name, tbl_name, rootpage, sql)
        VALUES (0, 'table', 'notes', 'notes', 0, 'CREATE VIEW host AS SELECT 1 AS id, x''00'' AS key')";
    let path = changed(dir.path(), statements);
    let words = check(&path, None, &Arc::new(AtomicBool::new(false))).unwrap_err().with_causes();
    assert!(words.contains("table \"notes\" is not of a store"), "{words}");
    let to = dir.path().join("saved.sqlite");
    check(&path, Some(&to), &Arc::new(AtomicBool::new(false))).unwrap();
    assert_eq!(read_all(&Reader::open(&to).unwrap(), &Query::new(data::host(1).host)).len(), 3);
}

/// SQLite reads statistics when it loads the list of tables: ten computed rows took half a minute and 2 GB before the list was compared.
#[test]
fn computed_statistics_are_named() {
    for (table, columns) in [("sqlite_stat1", "stat"), ("sqlite_stat4", "neq, nlt, ndlt, sample")] {
        let statements = format!(
            "CREATE TABLE st (tbl, idx AS (hex(zeroblob(400000000 + tbl))), {columns});
             INSERT INTO st (tbl) VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10);
             PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET name = '{table}', tbl_name = '{table}', sql = replace(sql, 'TABLE st', 'TABLE {table}')
             WHERE name = 'st'"
        );
        let dir = tempfile::tempdir().unwrap();
        for words in refusals(&changed(dir.path(), &statements)) {
            let expected = format!("table \"{table}\" is defined otherwise than by SQLite");
            assert!(words.contains(&expected), "{words}");
        }
    }
}

/// A host could not be removed, nor old samples, while a row of a table of others named them.
#[test]
fn foreign_keys_of_others_hold_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let statements =
        "CREATE TABLE notes (x REFERENCES host(id) ON DELETE SET NULL, y REFERENCES interval(id));
        INSERT INTO notes VALUES (1, 1)";
    let path = changed(dir.path(), statements);
    assert!(forget_host(&path, data::host(1).host, Duration::ZERO).unwrap());
    assert_eq!(data::number(&path, "SELECT count(*) FROM host"), 0);
    assert_eq!(data::number(&path, "SELECT count(*) FROM notes WHERE x = 1 AND y = 1"), 1);
}

#[test]
fn what_comes_after_the_comparison_does_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = changed(dir.path(), "");
    let info = data::host(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let session = Sql::open(&path).unwrap();
    let later =
        "CREATE TRIGGER t AFTER INSERT ON interval BEGIN DELETE FROM host; END; CREATE VIEW v AS SELECT 1";
    rusqlite::Connection::open(&path).unwrap().execute_batch(later).unwrap();
    let interval = &data::day(&info, 1, 4, 4)[3];
    writer.put_received(&info, Trust::Local, None, interval, interval.end.wall_ns).unwrap();
    writer.commit().unwrap();
    let counts = "SELECT (SELECT count(*) FROM host) * 100 + (SELECT count(*) FROM interval)";
    assert_eq!(data::number(&path, counts), 104);
    let go_on = ControlFlow::Continue(());
    let viewed = session.query("SELECT * FROM v", &mut |_| go_on, &mut |_| go_on);
    let words = viewed.unwrap_err().with_causes();
    assert!(words.contains("access to view \"v\" prohibited"), "{words}");
}

#[test]
fn a_missing_table_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = changed(dir.path(), "DROP TABLE gap");
    let words = Reader::open(&path).unwrap_err().to_string();
    assert!(words.contains("table \"gap\" is missing"), "{words}");
}

/// SQLite's check of a file computes each index of each table: an expression of others took a second and a gigabyte for each row. This one
/// gives another value than the index has, which such a check reports.
#[test]
fn a_check_computes_no_index_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let statements = "CREATE TABLE notes (x); CREATE INDEX near ON notes (abs(x)); INSERT INTO notes VALUES (1);
        PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE INDEX near ON notes (abs(x) + 1)' WHERE name = 'near'";
    let path = changed(dir.path(), statements);
    let list = |text: &str| -> Vec<i64> {
        let connection = rusqlite::Connection::open(&path).unwrap();
        let mut select = connection.prepare(text).unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let pages =
        list("SELECT rootpage FROM sqlite_schema WHERE name IN ('interval_time', 'near') ORDER BY name");
    let checked = || check(&path, None, &Arc::new(AtomicBool::new(false))).unwrap();
    assert_eq!(checked().pages, [""; 0]);
    assert!(checked().is_sound());
    // Damage in a store's own pages is found all the same.
    let mut bytes = std::fs::read(&path).unwrap();
    for page in pages {
        let begin = (usize::try_from(page).unwrap() - 1) * 8_192;
        bytes[begin..begin + 8_192].fill(0);
    }
    std::fs::write(&path, bytes).unwrap();
    let report = checked();
    assert!(!report.is_sound() && report.pages.len() <= 20, "{report:?}");
    assert!(report.pages.iter().all(|line| !line.contains("notes") && !line.contains("near")), "{report:?}");
}

#[test]
fn tables_beside_ours_are_anybodys_and_views_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = changed(dir.path(), "CREATE TABLE notes (text); CREATE INDEX words ON notes (text); ANALYZE");
    let words = refusals(&path);
    assert!(words.iter().all(String::is_empty), "{words:?}");
    let view = "CREATE VIEW names AS SELECT name FROM process_info";
    rusqlite::Connection::open(&path).unwrap().execute_batch(view).unwrap();
    for words in refusals(&path) {
        assert!(words.contains("a store has no view \"names\""), "{words}");
    }
}
