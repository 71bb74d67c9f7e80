//! Stores of each schema version stay readable. The files are made by this test with `CPUMON_WRITE_FIXTURES=1`, once for each
//! version, and never again.

use std::path::PathBuf;

use cpumon_model::{Interval, Trust};
use cpumon_store::{Query, Reader, StoreOptions, Writer};

use crate::data;
use crate::round_trip::read_all;

fn fixture(version: i32) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"))
        .join(format!("v{version}.sqlite.zst"))
}

/// 130 intervals of one host, a hundred of them sealed.
fn write_fixture(version: i32) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let day = data::day(&info, 9, 130, 8);
    for (at, interval) in day.iter().enumerate() {
        writer
            .put_received(&info, Trust::Local, Some(&data::loss(2)), interval, interval.end.wall_ns + 5)
            .unwrap();
        if at == 99 {
            writer.seal_all().unwrap();
        }
    }
    drop(writer);
    let plain = std::fs::read(&path).unwrap();
    std::fs::create_dir_all(fixture(version).parent().unwrap()).unwrap();
    std::fs::write(fixture(version), zstd::bulk::compress(&plain, 19).unwrap()).unwrap();
}

#[test]
fn stores_of_every_version_are_brought_up_to_date_and_read() {
    if std::env::var_os("CPUMON_WRITE_FIXTURES").is_some() && !fixture(1).exists() {
        write_fixture(1);
    }
    let expected: Vec<Interval> = data::day(&data::host(1), 9, 130, 8).iter().map(data::active).collect();
    for version in 1..=1 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sqlite");
        let packed = std::fs::read(fixture(version)).unwrap();
        std::fs::write(&path, zstd::bulk::decompress(&packed, 64 << 20).unwrap()).unwrap();
        drop(Writer::open(&path, &StoreOptions::default()).unwrap());
        let reader = Reader::open(&path).unwrap();
        assert_eq!(read_all(&reader, &Query::new(data::host(1).host)), expected, "version {version}");
        let statistics = reader.statistics().unwrap();
        assert_eq!((statistics.sealed_intervals, statistics.fresh_intervals), (100, 30));
    }
}
