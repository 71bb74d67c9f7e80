//! A damaged store: what can be read is read, and what cannot is named.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cpumon_model::{BootId, HostInfo, Interval, Trust};
use cpumon_store::{LostRows, Query, Reader, Resolution, StoreOptions, TimeRange, What, Writer, check};
use rusqlite::Connection;

use crate::data::{self, SECOND_NS, START_NS};
use crate::round_trip::read_all;

/// Intervals in a chunk.
const CHUNK: u32 = 20;

/// 100 intervals in five chunks and ten fresh ones; gives all as they are read back.
fn store(path: &Path, info: &HostInfo) -> Vec<Interval> {
    let options = StoreOptions { compact_intervals: CHUNK, ..StoreOptions::default() };
    let mut writer = Writer::open(path, &options).unwrap();
    let day = data::day(info, 1, 110, 8);
    for interval in &day[..100] {
        writer.put(info, Trust::Local, None, interval).unwrap();
    }
    data::compact_all(&mut writer);
    for interval in &day[100..] {
        writer.put(info, Trust::Local, None, interval).unwrap();
    }
    writer.commit().unwrap();
    day.iter().map(data::active).collect()
}

fn change(path: &Path, text: &str) {
    assert!(Connection::open(path).unwrap().execute(text, []).unwrap() > 0);
}

/// Without those of the chunk of this number, from 1.
fn without_chunk(all: &[Interval], number: usize) -> Vec<Interval> {
    let (begin, end) = ((number - 1) * CHUNK as usize, number * CHUNK as usize);
    all[..begin].iter().chain(&all[end..]).cloned().collect()
}

#[test]
fn a_damaged_chunk_hides_no_other_and_is_a_named_hole() {
    for (section, text) in [
        ("meta", "UPDATE chunk SET meta = zeroblob(100) WHERE id = 2"),
        ("processes", "UPDATE chunk SET processes = substr(processes, 1, 20) WHERE id = 2"),
        ("threads", "UPDATE chunk SET threads = x'' WHERE id = 2"),
        // Of another time: it decodes, but is not what the index says.
        ("span", "UPDATE chunk SET meta = (SELECT meta FROM chunk WHERE id = 1) WHERE id = 2"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (path, info) = (dir.path().join("s.sqlite"), data::host(1));
        let all = store(&path, &info);
        change(&path, text);
        let reader = Reader::open(&path).unwrap();
        for _ in 0..2 {
            assert_eq!(read_all(&reader, &Query::new(info.host)), without_chunk(&all, 2), "{section}");
            let damage = reader.damage();
            assert_eq!(
                (damage.holes.len(), damage.more, damage.nameless),
                (1, 0, 0),
                "met twice, listed once"
            );
            let hole = &damage.holes[0];
            assert_eq!((hole.host, hole.intervals), (info.host, Some(20)));
            let end = |number: i64| START_NS + number * SECOND_NS;
            assert_eq!((hole.first_end_wall_ns, hole.last_end_wall_ns), (end(21), end(40)));
            assert!(!hole.detail.is_empty());
        }
        let gaps = reader.gaps(info.host, TimeRange::ALL, 10).unwrap();
        let found: Vec<_> = gaps.iter().map(|gap| (gap.intervals, gap.reason.as_str())).collect();
        assert_eq!(found, [(20, "damaged")], "{section}");
        assert!(Reader::open(&path).unwrap().damage().is_empty(), "of what was read");
    }
}

#[test]
fn questions_about_a_moment_do_not_fail_on_a_damaged_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.sqlite"), data::host(1));
    let all = store(&path, &info);
    change(&path, "UPDATE chunk SET meta = x'01ff' WHERE id IN (1, 5)");
    let reader = Reader::open(&path).unwrap();
    let key = all[0].processes[0].key;
    assert_eq!(reader.began(info.host, &BTreeMap::from([(key, None)])).unwrap().len(), 1);
    reader.clock_line(info.host, BootId([1; 16])).unwrap();
    let (host, end) = (info.host, |number: i64| START_NS + number * SECOND_NS);
    assert_eq!(reader.interval_at(host, end(90)).unwrap(), None, "in the hole");
    assert_eq!(reader.interval_at(host, end(50)).unwrap(), Some(all[49].clone()));
    assert_eq!(reader.next_interval(host, end(85)).unwrap(), Some(all[100].clone()));
    // It was none: `cpumon top --store` waited for the newest interval for ever.
    assert_eq!(reader.previous_interval(host, end(101)).unwrap(), Some(all[79].clone()));
    assert_eq!(reader.previous_interval(host, end(21)).unwrap(), None, "the first chunk");
    assert_eq!(reader.gaps(host, TimeRange::ALL, 10).unwrap().len(), 2);
    let mut segments = 0;
    let query = Query::new(host).what(What::Processes);
    let mut reading = reader.segments(&query, Some(Resolution::Minute)).unwrap();
    while reading.read().unwrap().is_some() {
        segments += 1;
    }
    assert_eq!(segments, 2 + 10, "sums of minutes are not in the chunk");
    let mut idle = all[60].clone();
    reader.add_idle(&mut idle).unwrap();
    change(&path, "UPDATE chunk SET threads = x'' WHERE id = 3");
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.previous_interval(host, end(55)).unwrap(), Some(all[39].clone()), "its ends are known");
    change(&path, "UPDATE process_list SET processes = x'00'");
    assert!(!reader.add_idle(&mut idle).unwrap(), "not known");
}

#[test]
fn a_damaged_fresh_interval_is_a_hole_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.sqlite"), data::host(1));
    let all = store(&path, &info);
    change(&path, "UPDATE interval SET samples = x'ff00' WHERE sequence = 103");
    let reader = Reader::open(&path).unwrap();
    let expected: Vec<Interval> = all.iter().filter(|one| one.sequence != 103).cloned().collect();
    assert_eq!(read_all(&reader, &Query::new(info.host)), expected);
    let damage = reader.damage();
    assert_eq!((damage.holes.len(), damage.holes[0].intervals), (1, Some(1)));
    assert_eq!(damage.holes[0].last_end_wall_ns, all[103].end.wall_ns);
}

/// A report lacked them without a word, and `store check` found the store sound.
#[test]
fn damaged_sums_are_counted_and_their_numbers_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.sqlite"), data::host(1));
    store(&path, &info);
    change(&path, "UPDATE host_minute SET run_delays = x'ff', cgroups = x'ff', waits_for = x'ff'");
    change(&path, "UPDATE process_hour SET waits = x'ff'");
    let reader = Reader::open(&path).unwrap();
    let query = Query::new(info.host).what(What::Meta).with_sum_details();
    let mut reading = reader.segments(&query, Some(Resolution::Minute)).unwrap();
    while reading.read().unwrap().is_some() {}
    drop(reading);
    assert_eq!(reader.damage().sums, 3 * 2, "three columns of two minutes");

    let number = |path: &Path, text: &str| -> i64 {
        Connection::open(path).unwrap().query_row(text, [], |row| row.get(0)).unwrap()
    };
    let hours = number(&path, "SELECT count(*) FROM process_hour").cast_unsigned();
    let copy = dir.path().join("copy.sqlite");
    let report = check(&path, Some(&copy), &Arc::default()).unwrap();
    let lost = |table: &str, rows| LostRows { table: table.to_owned(), rows, ..LostRows::default() };
    assert_eq!(report.lost, [lost("host_minute", 2), lost("process_hour", hours)]);
    for text in ["SELECT sum(threads_ns) FROM host_minute", "SELECT sum(run_ns) FROM process_hour"] {
        assert_eq!(number(&copy, text), number(&path, text), "{text}");
    }
    assert!(check(&copy, None, &Arc::default()).unwrap().is_sound());
}

#[test]
fn names_that_are_gone_take_no_rows_along() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.sqlite"), data::host(1));
    let all = store(&path, &info);
    // Bytes where a text must be: a STRICT table cannot have it, a flipped bit can.
    let of = "sql FROM sqlite_schema WHERE name = 'process_info'";
    let strict: String =
        Connection::open(&path).unwrap().query_row(&format!("SELECT {of}"), [], |row| row.get(0)).unwrap();
    let define = |text: &str| {
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "writable_schema", true).unwrap();
        let update = "UPDATE sqlite_schema SET sql = ?1 WHERE name = 'process_info'";
        connection.execute(update, [text]).unwrap();
    };
    define(&strict.replace("STRICT", ""));
    change(&path, "UPDATE process_info SET cmdline = x'ff00' WHERE id = 1");
    define(&strict);
    let reader = Reader::open(&path).unwrap();
    let read = read_all(&reader, &Query::new(info.host));
    assert_eq!(read.len(), all.len());
    assert!(read.iter().zip(&all).all(|(read, one)| read.threads == one.threads));
    assert_eq!((reader.damage().nameless, reader.damage().holes.len()), (1, 0));
}
