//! Parquet: the values are those of JSON, whatever is exported, and memory is bounded.

use bytes::Bytes;
use cpumon_export::{ExportQuery, Format, GroupBy, Kind, PivotValue, export, sql};
use cpumon_store::sql::Sql;
use cpumon_store::{Reader, TimeRange};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Map, Value};

use crate::fixture::{Counted, SECOND, Store, interval, process, thread};
use crate::held_memory::taken_by;

fn store() -> Store {
    let of = |second: i64| {
        let mut one = interval(second);
        for (pid, name) in (1_u32..).zip(["=cmd()", "host", "'; DROP TABLE--", "\u{1b}[2J日本", "web"]) {
            let process = process(pid, name, i64::from(pid) * second);
            one.threads.push(thread(&process, pid + 100));
            one.processes.push(process);
        }
        one
    };
    Store::of((10..40).map(|second| ("=host", of(second))))
}

fn written(store: &Store, query: &ExportQuery, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    let query = ExportQuery { format, ..query.clone() };
    export(&Reader::open(&store.path).unwrap(), &query, &mut out, &mut |_| {}).unwrap();
    out
}

/// Rows of a file, as JSON has them.
fn read(file: Vec<u8>) -> Vec<Map<String, Value>> {
    let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
    let value = |field: &Field| match field {
        Field::Null => Value::Null,
        Field::Long(number) => (*number).into(),
        Field::Double(number) => (*number).into(),
        Field::Str(text) => text.as_str().into(),
        other => panic!("{other:?}"),
    };
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    let object = |row: Row| row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect();
    rows.map(object).collect()
}

/// Rows of a JSON array, with a pivot's cells behind its keys.
fn flat(array: &[u8]) -> Vec<Map<String, Value>> {
    let mut rows: Vec<Map<String, Value>> = serde_json::from_slice(array).unwrap();
    for row in &mut rows {
        let Some(Value::Object(values)) = row.remove("values") else { continue };
        for (name, value) in values {
            let name = if row.contains_key(&name) { format!("{name}_2") } else { name };
            row.insert(name, value);
        }
    }
    rows
}

#[test]
fn every_export_has_the_values_of_json() {
    let store = store();
    let of = |kind| ExportQuery { kind, ..ExportQuery::default() };
    let compared = cpumon_query::report::CompareRanges {
        before: TimeRange::new(9 * SECOND, 20 * SECOND),
        after: TimeRange::new(20 * SECOND, 39 * SECOND),
    };
    let queries = [
        of(Kind::Processes),
        of(Kind::Threads),
        of(Kind::Cgroups),
        of(Kind::Ledger),
        of(Kind::Pivot),
        ExportQuery { pivot_value: PivotValue::Pct, ..of(Kind::Pivot) },
        ExportQuery { group_by: GroupBy::Process, compared: Some(compared), ..of(Kind::Compare) },
    ];
    for query in queries {
        let json = flat(&written(&store, &query, Format::Json));
        assert_eq!(read(written(&store, &query, Format::Parquet)), json, "{query:?}");
        let lines = written(&store, &query, Format::Jsonl);
        let lines: Vec<_> = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let array = [b"[".as_slice(), &lines.join(&b','), b"]"].concat();
        assert_eq!(flat(&array), json, "{query:?}");
        assert!(query.kind == Kind::Cgroups || json.len() >= 5, "{query:?}");
    }
}

fn answer(statement: &str) -> Result<Vec<u8>, String> {
    let (store, mut out) = (store(), Vec::new());
    let session = Sql::open(&store.path).unwrap();
    let written = sql(&session, statement, Some(Format::Parquet), &mut out);
    written.map(|_| out).map_err(|error| {
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    })
}

#[test]
fn a_column_of_an_answer_has_the_kind_of_its_first_rows() {
    let kinds = |statement| {
        let rows = read(answer(statement).unwrap());
        rows.iter().map(|row| row["x"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("SELECT 1 AS x UNION ALL SELECT NULL"), [1.into(), Value::Null]);
    assert_eq!(kinds("SELECT 1 AS x UNION ALL SELECT 2.5"), [Value::from(1.0), 2.5.into()]);
    assert_eq!(kinds("SELECT 1 AS x UNION ALL SELECT 'a'"), [Value::from("1"), "a".into()]);
    assert_eq!(kinds("SELECT NULL AS x"), [Value::Null]);
    let twins = read(answer("SELECT 1 AS x, 2 AS x").unwrap());
    assert_eq!((&twins[0]["x"], &twins[0]["x_2"]), (&1.into(), &2.into()));
    assert!(read(answer("SELECT pid FROM processes WHERE pid < 0").unwrap()).is_empty());
}

#[test]
fn a_later_value_that_does_not_fit_names_its_column() {
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 70000)";
    let odd = format!("{numbers} SELECT iif(i > 69999, 'x', i) AS odd FROM n");
    let error = answer(&odd).unwrap_err();
    assert!(error.contains("column odd") && error.contains("CAST"), "{error}");
    let cast = format!("{numbers} SELECT CAST(iif(i > 69999, 'x', i) AS TEXT) AS odd FROM n");
    let rows = read(answer(&cast).unwrap());
    assert_eq!((rows.len(), &rows[69_999]["odd"]), (70_000, &"x".into()));
}

#[test]
fn large_texts_are_written_before_there_are_many_rows() {
    let long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000) \
                SELECT hex(randomblob(50000)) AS text FROM n";
    let (store, mut out) = (store(), Counted::default());
    let session = Sql::open(&store.path).unwrap();
    let (rows, taken) = taken_by(|| sql(&session, long, Some(Format::Parquet), &mut out).unwrap());
    // 300 MB of text; its digits are hexadecimal, and become half.
    assert!(rows == 3000 && out.0 > 100 << 20, "{rows} rows, {} bytes", out.0);
    assert!(taken.most < 128 << 20, "{taken:?}");
}
