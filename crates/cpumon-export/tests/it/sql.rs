//! Answers of SQL queries as people and programs get them.

use cpumon_export::{Format, sql};
use cpumon_store::sql::Sql;

use crate::fixture::{Store, interval, process};

fn store() -> Store {
    let mut one = interval(10);
    one.processes = vec![process(1, "web", 5), process(200, "=\u{1b}[2J,\"日本\"", 123_456)];
    Store::of([("alpha", one)])
}

fn answer(statement: &str, format: Option<Format>) -> String {
    let store = store();
    let mut out = Vec::new();
    sql(&Sql::open(&store.path).unwrap(), statement, format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const STATEMENT: &str = "SELECT pid, name, user_ns, cgroup, cpu_pct, pid FROM process_interval";

#[test]
fn a_table_is_aligned_and_escaped() {
    let table = answer(STATEMENT, None);
    assert!(!table.contains('\u{1b}'));
    insta::assert_snapshot!(table);
}

#[test]
fn csv_and_json_lines_can_be_read_back() {
    let text = answer(STATEMENT, Some(Format::Csv));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!((&rows[1][1], &rows[1][2], &rows[1][3]), ("'=\\x1b[2J,\"日本\"", "123456", ""));
    let text = answer(STATEMENT, Some(Format::Jsonl));
    let row: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!(row["name"], "=\u{1b}[2J,\"日本\"");
    assert_eq!(
        (&row["pid"], &row["pid_2"], &row["cgroup"]),
        (&200.into(), &200.into(), &serde_json::Value::Null)
    );
}

#[test]
fn an_answer_without_rows_shows_its_columns() {
    let none = "SELECT host, trust FROM hosts WHERE host = 'absent'";
    assert_eq!(answer(none, None), "host  trust\n────  ─────\n");
    assert_eq!(answer(none, Some(Format::Csv)), "host,trust\r\n");
    assert_eq!(answer(none, Some(Format::Jsonl)), "");
    assert_eq!(answer("", None), "");
}

#[test]
fn an_invalid_statement_is_an_error() {
    let store = store();
    let session = Sql::open(&store.path).unwrap();
    let error = sql(&session, "SELECT nonsense FROM hosts", None, &mut Vec::new()).unwrap_err();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let text: Vec<String> = causes.map(ToString::to_string).collect();
    assert!(text.concat().contains("no such column: nonsense"), "{text:?}");
}
