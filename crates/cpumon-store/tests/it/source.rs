//! Where a source was read up to, and its holes.

use cpumon_model::Trust;
use cpumon_store::{Gap, Reader, SourcePosition, StoreOptions, TimeRange, Writer};

use crate::data;

fn hole(intervals: u64) -> Gap {
    Gap {
        begin_wall_ns: 10,
        end_wall_ns: 20,
        intervals,
        reason: "no room on the device".to_owned(),
        ..Gap::default()
    }
}

#[test]
fn a_place_and_a_hole_last_and_the_same_hole_is_one_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let info = data::host(1);
    let position = SourcePosition { number: u64::MAX, wall_ns: -5 };
    for _ in 0..2 {
        let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
        writer.put(&info, Trust::Imported, None, &data::day(&info, 1, 1, 5)[0]).unwrap();
        writer.put_source_position("abc", position).unwrap();
        writer.put_gap(info.host, &hole(7)).unwrap();
        writer.commit().unwrap();
        assert_eq!(writer.source_position("abc").unwrap(), position);
        assert_eq!(writer.source_position("other").unwrap(), SourcePosition::default());
    }
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.losses(info.host, TimeRange::ALL, 10).unwrap(), [hole(7)]);
}

#[test]
fn a_hole_of_a_host_that_never_reported_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let host = data::host(3).host;
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    writer.put_gap(host, &hole(1)).unwrap();
    writer.commit().unwrap();
    let losses = Reader::open(&path).unwrap().losses(host, TimeRange::ALL, 10).unwrap();
    assert_eq!(losses, [hole(1)]);
}
