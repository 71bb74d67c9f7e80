//! Waits by who ended them: they come back fresh, compacted and salvaged, and add up alike at every resolution.

use std::path::Path;
use std::sync::Arc;

use cpumon_model::{Fields, Interval, Trust, WaitFor};
use cpumon_store::{Query, Reader, Resolution, StoreOptions, What, Writer, check};

use crate::data;
use crate::round_trip::read_all;

#[test]
fn waits_come_back_fresh_compacted_and_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("s.sqlite"), dir.path().join("copy.sqlite"));
    let info = data::host(1);
    let mut day = data::day(&info, 3, 120, 12);
    // Not measured at first.
    data::add_waits_for(&mut day[20..]);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    writer.commit().unwrap();
    let expected: Vec<Interval> = day.iter().map(data::active).collect();
    assert_eq!(expected[20].waits_for.len(), 12);
    let assert_read = |path: &Path| {
        let reader = Reader::open(path).unwrap();
        assert_eq!(read_all(&reader, &Query::new(info.host)), expected);
        let without = read_all(&reader, &Query::new(info.host).without_sched());
        let has_waits = |one: &Interval| one.fields.contains(Fields::WAITS_FOR) || !one.waits_for.is_empty();
        assert!(!without.iter().any(has_waits), "they are not read where scheduler events are not");
    };
    assert_read(&path);
    data::compact_all(&mut writer);
    assert_read(&path);
    drop(writer);
    assert!(check(&path, Some(&copy), &Arc::default()).unwrap().is_sound());
    assert_read(&copy);
}

#[test]
fn waits_add_up_to_the_same_at_every_resolution() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 1, 300, 12);
    data::add_waits_for(&mut day[60..]);
    // Of a chunk each step adds a part of a minute.
    let options = StoreOptions { compact_intervals: 25, ..StoreOptions::default() };
    let mut writer = Writer::open(&path, &options).unwrap();
    for interval in &day {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    data::compact_all(&mut writer);
    let mut expected: Vec<WaitFor> = day.iter().flat_map(|one| &one.waits_for).copied().collect();
    WaitFor::tidy(&mut expected, WaitFor::MAX_ROWS);
    assert_eq!(expected.len(), 12);
    let reader = Reader::open(&path).unwrap();
    let query = Query::new(info.host).what(What::Meta);
    for (resolution, expected_known) in
        [(None, 240), (Some(Resolution::Minute), 4), (Some(Resolution::Hour), 1)]
    {
        let (mut rows, mut known) = (Vec::new(), 0);
        let mut reading = reader.segments(&query.clone().with_sum_details(), resolution).unwrap();
        while let Some(segment) = reading.read().unwrap() {
            rows.extend_from_slice(&segment.interval.waits_for);
            known += u32::from(segment.interval.fields.contains(Fields::WAITS_FOR));
        }
        WaitFor::tidy(&mut rows, WaitFor::MAX_ROWS);
        assert_eq!(rows, expected, "{resolution:?}");
        assert_eq!(known, expected_known, "a bucket without measurement is no data: {resolution:?}");
    }
    let mut reading = reader.segments(&query, Some(Resolution::Hour)).unwrap();
    let hour = reading.read().unwrap().unwrap().interval;
    assert!(hour.waits_for.is_empty() && !hour.fields.contains(Fields::WAITS_FOR), "nothing asked for them");
}
