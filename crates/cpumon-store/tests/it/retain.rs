//! Retention: the oldest goes, the file gets smaller, what went is counted.

use std::path::Path;
use std::time::Duration;

use cpumon_model::{BootId, HostInfo, Interval, Moment, Trust};
use cpumon_store::{
    Query, QueueOptions, Reader, Resolution, StoreOptions, What, Writer, WriterThread, wall_now_ns,
};

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
    data::compact_all(&mut writer);
    (writer, day)
}

/// Measured time of everything, ns.
fn covered_ns(path: &Path, resolution: Option<Resolution>) -> i64 {
    let reader = Reader::open(path).unwrap();
    let host = data::host(1).host;
    let mut sum = 0;
    let query = Query::new(host).what(What::Processes);
    let mut reading = reader.segments(&query, resolution).unwrap();
    while let Some(segment) = reading.read().unwrap() {
        sum += segment.interval.duration_ns().cast_signed();
    }
    sum
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
    let left = read_all(&reader, &Query::new(data::host(1).host));
    assert!(!left.is_empty() && left.len() < day.len());
    assert_eq!(left.last(), day.last().map(data::active).as_ref());
    let retired = data::number(&path, "SELECT value FROM counter WHERE name = 'retired_intervals'");
    assert_eq!(retired.cast_unsigned(), (day.len() - left.len()) as u64);
    // Sums outlive samples.
    let covered = covered_ns(&path, Some(Resolution::Hour));
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
    assert_eq!((count("chunk"), count("host_hour"), count("thread_hour")), (0, 1, 80));
    assert!(count("process_minute") > 0);
    maintain(60).unwrap();
    assert_eq!((count("process_minute"), count("thread")), (0, 0));
    assert_eq!(count("process"), 20, "hours still name them");
    maintain(100).unwrap();
    assert_eq!((count("process_hour"), count("process"), count("process_info")), (0, 0, 0));
    assert_eq!(count("thread_hour"), 0);
}

/// Of a recording, or of this machine while its clock was behind: they went a moment after they had been made.
#[test]
fn sums_of_old_data_that_was_received_lately_stay_with_their_samples() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let received_ns = data::START_NS + 400 * 24 * HOUR_NS;
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &data::day(&info, 1, 500, 80) {
        writer.put_received(&info, Trust::Local, None, interval, received_ns).unwrap();
    }
    data::compact_all(&mut writer);
    let counts = || {
        ["chunk", "host_minute"].map(|table| data::number(&path, &format!("SELECT count(*) FROM {table}")))
    };
    writer.maintain_at(Duration::from_mins(1), received_ns + HOUR_NS).unwrap();
    assert_eq!(counts(), [5, 9]);
    writer.maintain_at(Duration::from_mins(1), received_ns + 31 * 24 * HOUR_NS).unwrap();
    assert_eq!(counts(), [0, 0]);
}

/// Before sums of 1970 were made, each boot without samples seemed to have ended before the oldest sum.
#[test]
fn a_boot_that_begins_in_1970_leaves_the_earlier_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let options = StoreOptions { max_age: Some(Duration::from_hours(24)), ..StoreOptions::default() };
    let (mut writer, day) = fill(&path, &options, 500);
    writer.maintain_at(Duration::from_mins(1), data::START_NS + 30 * HOUR_NS).unwrap();
    let info = HostInfo { boot: BootId([2; 16]), ..data::host(1) };
    let mut early = Interval { boot: info.boot, ..day[0].clone() };
    (early.begin.wall_ns, early.end.wall_ns) = (7, 7 + data::SECOND_NS);
    let received_ns = data::START_NS + 31 * HOUR_NS;
    writer.put_received(&info, Trust::Local, None, &early, received_ns).unwrap();
    writer.maintain_at(Duration::from_mins(1), received_ns + HOUR_NS / 3).unwrap();
    let counts = ["chunk", "interval", "boot"]
        .map(|table| data::number(&path, &format!("SELECT count(*) FROM {table}")));
    assert_eq!(counts, [0, 1, 2]);
}

#[test]
fn a_clock_that_is_wrong_at_the_start_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let options = StoreOptions { max_age: Some(Duration::from_hours(24)), ..StoreOptions::default() };
    let (writer, _) = fill(&path, &options, 500);
    drop(writer);
    // Each start of the machine: its clock, and the hours that it runs.
    let start = |wall_ns: i64, hours: u64| {
        let mut writer = Writer::open(&path, &options).unwrap();
        for hour in 0..=hours {
            let boot_ns = hour * HOUR_NS.unsigned_abs();
            let now = Moment { mono_ns: boot_ns, boot_ns, wall_ns: wall_ns + boot_ns.cast_signed() };
            writer.maintain_by(Duration::from_mins(1), now).unwrap();
        }
        writer.clock_doubt().is_some()
    };
    let chunks = || data::number(&path, "SELECT count(*) FROM chunk");
    assert!(start(data::START_NS + 400 * 24 * HOUR_NS, 30));
    assert!(start(data::START_NS + 400 * 24 * HOUR_NS, 30), "and again");
    assert!(start(7, 0), "nor behind");
    assert_eq!(chunks(), 5);
    assert!(!start(data::START_NS + HOUR_NS, 20));
    assert_eq!(chunks(), 5);
    assert!(!start(data::START_NS + 20 * HOUR_NS, 10));
    assert_eq!(chunks(), 0, "by a clock that is right they are too old");
}

/// Of a new receiver without a battery: once its clock was right, its first days were old, and went.
#[test]
fn what_came_in_by_the_first_clock_of_a_store_is_not_old_once_it_is_right() {
    const WEEK: i64 = 7 * 24;
    let options = StoreOptions { max_age: Some(Duration::from_hours(24)), ..StoreOptions::default() };
    // In 1970, there after another start whose clock was behind the first one's, and three months behind.
    let behind_ns = data::START_NS - 90 * 24 * HOUR_NS;
    for (first_ns, received_after_ns) in
        [(HOUR_NS, data::SECOND_NS), (HOUR_NS, 5 * 24 * HOUR_NS), (behind_ns, data::SECOND_NS)]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sqlite");
        let mut writer = Writer::open(&path, &options).unwrap();
        let maintain = |writer: &mut Writer, hours: i64, wall_ns: i64| {
            let boot_ns = (hours * HOUR_NS).unsigned_abs();
            let now = Moment { mono_ns: boot_ns, boot_ns, wall_ns };
            writer.maintain_by(Duration::from_mins(1), now).unwrap();
        };
        maintain(&mut writer, 0, first_ns);
        let info = data::host(1);
        for interval in &data::day(&info, 1, 500, 80) {
            let received_ns = first_ns + received_after_ns;
            writer.put_received(&info, Trust::Local, None, interval, received_ns).unwrap();
        }
        data::compact_all(&mut writer);
        let counts = || {
            ["chunk", "thread", "process"]
                .map(|table| data::number(&path, &format!("SELECT count(*) FROM {table}")))
        };
        // It is set in the first hour, and believed a week later.
        for hours in [1, 1 + WEEK, 20 + WEEK] {
            maintain(&mut writer, hours, data::START_NS + hours * HOUR_NS);
            assert_eq!(counts(), [5, 80, 20], "after {hours} h");
        }
        let moved = data::number(&path, "SELECT value FROM counter WHERE name = 'receipts_moved'");
        assert_eq!(moved, 5, "the last receipt of each chunk");
        maintain(&mut writer, 60 + WEEK, data::START_NS + (60 + WEEK) * HOUR_NS);
        assert_eq!(counts()[0], 0, "they are a day old then");
    }
}

/// Moved receipts are new, which made the store new again: one on a machine that is off for two days each week deleted nothing.
#[test]
fn receipts_are_moved_on_once_in_the_life_of_a_store() {
    const WEEK: i64 = 7 * 24;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let options = StoreOptions { max_age: Some(Duration::from_hours(24)), ..StoreOptions::default() };
    let mut writer = Writer::open(&path, &options).unwrap();
    let chunks_after = |writer: &mut Writer, hours: i64, wall_hours: i64| {
        let boot_ns = (hours * HOUR_NS).unsigned_abs();
        let wall_ns = data::START_NS + wall_hours * HOUR_NS;
        writer.maintain_by(Duration::from_mins(1), Moment { mono_ns: boot_ns, boot_ns, wall_ns }).unwrap();
        data::number(&path, "SELECT count(*) FROM chunk")
    };
    assert_eq!(chunks_after(&mut writer, 0, -90 * 24), 0);
    let info = data::host(1);
    let received_ns = data::START_NS - 90 * 24 * HOUR_NS + data::SECOND_NS;
    for interval in &data::day(&info, 1, 500, 80) {
        writer.put_received(&info, Trust::Local, None, interval, received_ns).unwrap();
    }
    data::compact_all(&mut writer);
    let mut after = [1, 1 + WEEK].map(|hours| chunks_after(&mut writer, hours, hours));
    assert_eq!(after, [5; 2], "moved on by the first step");
    after = [2 + WEEK, 2 + 2 * WEEK].map(|hours| chunks_after(&mut writer, hours, hours + 48));
    assert_eq!(after, [5, 0], "not by the second one, which a week confirms");
}

/// It was known at the first commit, when the first devices had been let in.
#[test]
fn a_clock_that_is_wrong_at_the_start_is_doubted_before_anything_comes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let received_ns = wall_now_ns() - 30 * 24 * HOUR_NS;
    writer.put_received(&info, Trust::Local, None, &data::day(&info, 1, 1, 80)[0], received_ns).unwrap();
    drop(writer);
    let thread = WriterThread::spawn(&path, &StoreOptions::default(), &QueueOptions::default()).unwrap();
    let doubt = thread.handle().status().clock_doubt.unwrap();
    assert_eq!(doubt.ahead_ns / HOUR_NS, 30 * 24);
}

#[test]
fn a_chart_of_which_only_sums_are_left_is_not_empty() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let options = StoreOptions { max_age: Some(Duration::from_hours(1)), ..StoreOptions::default() };
    let (mut writer, _) = fill(&path, &options, 500);
    writer.maintain_at(Duration::from_mins(1), data::START_NS + 30 * HOUR_NS).unwrap();
    let rows = read_all(&Reader::open(&path).unwrap(), &Query::new(data::host(1).host));
    assert_eq!(
        (rows.len(), covered_ns(&path, Some(Resolution::Hour)), covered_ns(&path, Some(Resolution::Minute))),
        (0, 500 * data::SECOND_NS, 500 * data::SECOND_NS)
    );
}
