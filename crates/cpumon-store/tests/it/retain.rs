//! Retention: the oldest goes, the file gets smaller, what went is counted.

use std::path::Path;
use std::time::Duration;

use cpumon_model::{Interval, Trust};
use cpumon_store::{ProcessFilter, Query, Reader, StoreOptions, Writer};

use crate::data;
use crate::round_trip::read_all;

const HOUR_NS: i64 = 3600 * data::SECOND_NS;

fn fill(path: &Path, options: &StoreOptions, count: u32) -> (Writer, Vec<Interval>) {
    let info = data::host(1);
    let day = data::day(&info, 1, count, 80);
    let mut writer = Writer::open(path, options).unwrap();
    for interval in &day {
        writer.put_received(&info, Trust::Local, None, interval, interval.end.wall_ns).unwrap();
    }
    writer.compact_all().unwrap();
    (writer, day)
}

fn file_bytes(path: &Path) -> u64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    std::fs::metadata(path).unwrap().len()
}

#[test]
fn the_file_shrinks_to_its_limit_and_the_newest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (writer, day) = fill(&path, &StoreOptions::default(), 6_000);
    drop(writer);
    let before = file_bytes(&path);
    assert!(before > 2 << 20, "{before}");
    let limit = 3 << 19;
    let options = StoreOptions { max_bytes: Some(limit), ..StoreOptions::default() };
    let mut writer = Writer::open(&path, &options).unwrap();
    writer.maintain_at(Duration::from_mins(1), data::START_NS + 4 * HOUR_NS).unwrap();
    drop(writer);
    let after = file_bytes(&path);
    // 256 free pages may stay for what comes next.
    assert!(after <= limit + 256 * 8192, "{after}");
    let reader = Reader::open(&path).unwrap();
    let kept = read_all(&reader, &Query::new(data::host(1).host));
    assert!(!kept.is_empty() && kept.len() < day.len());
    assert_eq!(kept.last(), day.last().map(data::active).as_ref());
    let statistics = reader.statistics().unwrap();
    let retired = statistics.counters.iter().find(|(name, _)| name == "retired_intervals").unwrap().1;
    assert_eq!(retired, (day.len() - kept.len()) as u64);
    // The long line is still there: sums outlive samples.
    let hours =
        reader.process_line(data::host(1).host, &ProcessFilter::All, (i64::MIN, i64::MAX), 3).unwrap();
    let covered: i64 = hours.iter().map(|point| point.covered_ns).sum();
    assert_eq!(covered, 6_000 * data::SECOND_NS);
}

#[test]
fn what_is_too_old_goes_with_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let options = StoreOptions {
        max_age: Some(Duration::from_hours(24)),
        minute_max_age: Some(Duration::from_hours(48)),
        hour_max_age: Some(Duration::from_hours(72)),
        ..StoreOptions::default()
    };
    let (mut writer, _) = fill(&path, &options, 500);
    let count = |table: &str| -> i64 {
        rusqlite::Connection::open(&path)
            .unwrap()
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!((count("thread"), count("process")), (80, 20));
    let mut maintain =
        |hours: i64| writer.maintain_at(Duration::from_mins(1), data::START_NS + hours * HOUR_NS);
    maintain(20).unwrap();
    assert_eq!(count("chunk"), 5);
    maintain(30).unwrap();
    assert_eq!((count("chunk"), count("host_hour")), (0, 1));
    assert!(count("process_minute") > 0);
    maintain(60).unwrap();
    assert_eq!((count("process_minute"), count("thread")), (0, 0));
    assert_eq!(count("process"), 20, "hours still name them");
    maintain(100).unwrap();
    assert_eq!((count("process_hour"), count("process"), count("process_info")), (0, 0, 0));
}

#[test]
fn a_line_of_which_only_sums_are_left_is_not_empty() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let options = StoreOptions { max_age: Some(Duration::from_hours(1)), ..StoreOptions::default() };
    let (mut writer, _) = fill(&path, &options, 500);
    let line = |points: usize| {
        let reader = Reader::open(&path).unwrap();
        let all = (i64::MIN, i64::MAX);
        let points = reader.process_line(data::host(1).host, &ProcessFilter::All, all, points).unwrap();
        points.iter().map(|point| point.covered_ns).sum::<i64>()
    };
    writer.maintain_at(Duration::from_mins(1), data::START_NS + 30 * HOUR_NS).unwrap();
    let rows = read_all(&Reader::open(&path).unwrap(), &Query::new(data::host(1).host));
    assert_eq!((rows.len(), line(3), line(1000)), (0, 500 * data::SECOND_NS, 500 * data::SECOND_NS));
}
