//! Stores of each schema version stay readable. The files are made by this test with `CPUMON_WRITE_FIXTURES=1`, once for each
//! version, and never again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cpumon_model::{Interval, Trust};
use cpumon_store::{Query, Reader, StoreOptions, TimeRange, Writer, back_up};

use crate::data;
use crate::round_trip::read_all;

fn fixture(version: i32) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"))
        .join(format!("v{version}.sqlite.zst"))
}

/// The newest schema version.
const NEWEST: i32 = 20;

/// Writes the store of a schema version to `path`.
pub fn unpack(version: i32, path: &Path) {
    let packed = std::fs::read(fixture(version)).unwrap();
    std::fs::write(path, zstd::bulk::decompress(&packed, 64 << 20).unwrap()).unwrap();
}

/// The content of each fixture: intervals of one host, and the number of compacted ones. From version 2 on names are in blocks,
/// from version 3 on it has scheduler events, from version 4 on run-delay histograms, from version 5 on those are in the sums,
/// from version 6 on run queues too, from version 7 on clocks that are off, from version 8 on lists of processes; version 9 added
/// an index, version 10 how each interval came in, version 11 what retention chooses by, version 12 which threads wait, version 13
/// sums of threads, version 14 limits of control groups in sums, version 15 interpreters and names of users, version 16 a table
/// for traces, version 17 sessions and base priorities of processes of Windows, version 18 products of executables, version 19
/// page faults, version 20 waits by who ended them.
fn content(version: i32) -> (Vec<Interval>, usize) {
    let info = data::host(1);
    if version == 1 {
        return (data::day(&info, 9, 130, 8), 100);
    }
    let mut day = data::day(&info, 9, 500, 8);
    data::add_short_lived(&mut day);
    if version > 2 {
        data::add_sched(&mut day);
    }
    if version > 3 {
        data::add_delays(&mut day);
    }
    if version > 6 {
        for interval in day.iter_mut().filter(|one| one.sequence % 7 < 3) {
            interval.wall_shift_ns = -700_000_000_000_000_000 + interval.sequence.cast_signed();
        }
    }
    if version > 14 {
        data::add_names(&mut day);
    }
    if version > 16 {
        data::add_sessions(&mut day);
    }
    if version > 17 {
        data::add_products(&mut day);
    }
    if version > 18 {
        data::add_faults(&mut day);
    }
    if version > 19 {
        data::add_waits_for(&mut day);
    }
    (day, 400)
}

fn write_fixture(version: i32) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let (day, compacted) = content(version);
    for (at, interval) in day.iter().enumerate() {
        writer
            .put_received(&info, Trust::Local, Some(&data::loss(2)), interval, interval.end.wall_ns + 5)
            .unwrap();
        if at + 1 == compacted {
            data::compact_all(&mut writer);
        }
    }
    writer.commit().unwrap();
    writer.maintain_at(Duration::from_mins(1), day.last().unwrap().end.wall_ns).unwrap();
    drop(writer);
    let plain = std::fs::read(&path).unwrap();
    std::fs::create_dir_all(fixture(version).parent().unwrap()).unwrap();
    std::fs::write(fixture(version), zstd::bulk::compress(&plain, 19).unwrap()).unwrap();
}

#[test]
fn stores_of_every_version_are_brought_up_to_date_and_read() {
    if std::env::var_os("CPUMON_WRITE_FIXTURES").is_some() && !fixture(NEWEST).exists() {
        write_fixture(NEWEST);
    }
    for version in 1..=NEWEST {
        let dir = tempfile::tempdir().unwrap();
        let (old, path) = (dir.path().join("old.sqlite"), dir.path().join("s.sqlite"));
        unpack(version, &old);
        // As before an upgrade. The copy is of the same version, and has all.
        let report = back_up(&old, &path, &Arc::default()).unwrap();
        assert!(report.is_sound(), "version {version}: {report:?}");
        let connection = rusqlite::Connection::open(&path).unwrap();
        let found = || connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i32>(0)).unwrap();
        assert_eq!(found(), version);
        drop(Writer::open(&path, &StoreOptions::default()).unwrap());
        assert_eq!(found(), NEWEST);
        let (day, compacted) = content(version);
        let trust = (version > 9).then_some(Trust::Local);
        let active = if version > 11 { data::active } else { data::active_before_12 };
        let expected: Vec<Interval> = day.iter().map(|one| Interval { trust, ..active(one) }).collect();
        let reader = Reader::open(&path).unwrap();
        let query = Query::new(data::host(1).host);
        let stored = read_all(&reader, &query.clone().without_resting());
        assert!(stored == expected, "version {version}");
        let knows_resting = read_all(&reader, &query) != stored;
        assert_eq!(knows_resting, version > 11, "who rested, in version {version}");
        let in_chunks = data::number(&path, "SELECT sum(intervals) FROM chunk");
        let fresh = data::number(&path, "SELECT count(*) FROM interval");
        let counts = (in_chunks.cast_unsigned(), fresh.cast_unsigned());
        assert_eq!(counts, (compacted as u64, (day.len() - compacted) as u64));
        let blocks: i64 =
            connection.query_row("SELECT count(*) FROM thread_block", [], |row| row.get(0)).unwrap();
        assert_eq!(blocks, i64::from(version > 1), "names of version {version} in blocks");
        let mut newest = day.last().unwrap().clone();
        let knows_idle = reader.add_idle(&mut newest).unwrap();
        assert_eq!(knows_idle, version > 7, "who was idle, in version {version}");
        let hours = reader.hours_without_threads(query.host, TimeRange::ALL).unwrap();
        assert_eq!(hours.is_empty(), version > 12, "sums of threads, in version {version}: {hours:?}");
    }
}
