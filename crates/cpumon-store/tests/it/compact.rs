//! Compaction changes where intervals are stored, not what a reader gets.

use std::time::Duration;

use cpumon_model::{Interval, Life, Trust};
use cpumon_store::{Put, Query, Reader, StoreOptions, What, Writer};

use crate::data;
use crate::round_trip::read_all;

const HOUR_NS: i64 = 3600 * data::SECOND_NS;

/// A store with `count` intervals, received one second after their end.
fn filled(path: &std::path::Path, count: u32) -> (Writer, Vec<Interval>) {
    let info = data::host(1);
    let mut day = data::day(&info, 1, count, 24);
    // A task that begins and ends inside, and one that ends with time that no thread row has.
    day[7].threads[3].life = Life::BornEnded;
    day[9].processes[2].delta.run_ns += 77;
    let mut writer = Writer::open(path, &StoreOptions::default()).unwrap();
    for interval in &day {
        let received = interval.end.wall_ns + data::SECOND_NS;
        writer.put_received(&info, Trust::Local, Some(&data::loss(5)), interval, received).unwrap();
    }
    writer.commit().unwrap();
    (writer, day)
}

fn counts(path: &std::path::Path) -> (i64, i64) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let count = |text: &str| connection.query_row(text, [], |row| row.get(0)).unwrap();
    (count("SELECT count(*) FROM interval"), count("SELECT count(*) FROM chunk"))
}

#[test]
fn compacted_and_fresh_intervals_are_read_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (mut writer, day) = filled(&path, 530);
    let host = data::host(1).host;
    let expected: Vec<Interval> = day.iter().map(data::active).collect();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(read_all(&reader, &Query::new(host)), expected);
    // 350 s after the start: only intervals older than three minutes are compacted.
    writer.maintain_at(Duration::from_mins(1), data::START_NS + 350 * data::SECOND_NS).unwrap();
    assert_eq!(counts(&path), (430, 1));
    assert_eq!(read_all(&reader, &Query::new(host)), expected);
    writer.maintain_at(Duration::from_mins(1), data::START_NS + HOUR_NS).unwrap();
    assert_eq!(counts(&path), (30, 5));
    assert_eq!(read_all(&reader, &Query::new(host)), expected);
    for what in [What::Meta, What::Processes] {
        let part = read_all(&reader, &Query::new(host).what(what));
        assert!(part.iter().zip(&expected).all(|(part, whole)| part.ledger == whole.ledger
            && part.cpus == whole.cpus
            && (what == What::Meta || part.processes == whole.processes)));
    }
    // Two hours later what fills no chunk is folded too.
    writer.maintain_at(Duration::from_mins(1), data::START_NS + 3 * HOUR_NS).unwrap();
    assert_eq!(counts(&path), (0, 6));
    assert_eq!(read_all(&reader, &Query::new(host)), expected);
    let at = data::START_NS + 123 * data::SECOND_NS + 5;
    assert_eq!(reader.interval_at(host, at).unwrap().as_ref(), Some(&expected[123]));
    assert_eq!(reader.previous_interval(host, i64::MIN).unwrap(), None);
    assert_eq!(reader.next_interval(host, i64::MAX).unwrap(), None);
    assert_eq!(reader.previous_interval(host, i64::MAX).unwrap().as_ref(), expected.last());
    let stored = reader.first_in(&Query::new(host).range(at - 1, i64::MAX)).unwrap().unwrap();
    assert_eq!(stored.loss, Some(data::loss(5)));
    assert_eq!(stored.received_wall_ns, expected[123].end.wall_ns + data::SECOND_NS);
    let check: String = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
}

#[test]
fn a_resend_of_compacted_intervals_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (mut writer, day) = filled(&path, 250);
    data::compact_all(&mut writer);
    assert_eq!(counts(&path), (0, 3));
    for interval in &day {
        assert_eq!(writer.put(&data::host(1), Trust::Local, None, interval).unwrap(), Put::Duplicate);
    }
    drop(writer);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    assert_eq!(writer.put(&data::host(1), Trust::Local, None, &day[249]).unwrap(), Put::Duplicate);
    drop(writer);
    assert_eq!(counts(&path), (0, 3));
}

#[test]
fn intervals_that_come_late_are_compacted_beside_their_neighbours_and_read_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 300, 12);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for third in 0..3 {
        for interval in day.iter().skip(third).step_by(3) {
            assert_eq!(writer.put(&info, Trust::Local, None, interval).unwrap(), Put::Stored);
        }
        data::compact_all(&mut writer);
    }
    assert_eq!(counts(&path), (0, 3));
    let expected: Vec<Interval> = day.iter().map(data::active).collect();
    assert_eq!(read_all(&Reader::open(&path).unwrap(), &Query::new(info.host)), expected);
}

/// The first receipts were those of a clock 400 days ahead: all that came later waited until it showed that time again.
#[test]
fn a_clock_that_was_ahead_for_a_moment_stops_no_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let day = data::day(&info, 1, 650, 12);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let ahead_ns = 400 * 24 * HOUR_NS;
    for (nth, interval) in day.iter().enumerate() {
        let received = interval.end.wall_ns + if nth < 150 { ahead_ns } else { 0 };
        writer.put_received(&info, Trust::Local, None, interval, received).unwrap();
        if nth == 149 {
            writer.maintain_at(Duration::from_mins(1), received).unwrap();
            assert_eq!(counts(&path), (150, 0));
        }
    }
    writer.maintain_at(Duration::from_mins(1), data::START_NS + 2 * HOUR_NS).unwrap();
    assert_eq!(counts(&path), (0, 7));
    let expected: Vec<Interval> = day.iter().map(data::active).collect();
    assert_eq!(read_all(&Reader::open(&path).unwrap(), &Query::new(info.host)), expected);
}

#[test]
fn a_clock_set_back_again_and_again_hides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for round in 0..20_u64 {
        for mut interval in data::day(&info, round, 10, 8) {
            interval.sequence += round * 1000;
            interval.end.mono_ns += round * 10_000_000_000;
            interval.begin.mono_ns += round * 10_000_000_000;
            assert_eq!(writer.put(&info, Trust::Local, None, &interval).unwrap(), Put::Stored);
        }
        data::compact_all(&mut writer);
    }
    let mut sequences: Vec<u64> =
        read_all(&Reader::open(&path).unwrap(), &Query::new(info.host)).iter().map(|i| i.sequence).collect();
    sequences.sort_unstable();
    let expected: Vec<u64> = (0..20).flat_map(|round| (0..10).map(move |at| round * 1000 + at)).collect();
    assert_eq!(sequences, expected);
}
