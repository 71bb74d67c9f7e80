//! Waits by who ended them: they come back fresh, compacted and salvaged.

use std::path::Path;
use std::sync::Arc;

use cpumon_model::{Interval, Trust};
use cpumon_store::{Query, Reader, StoreOptions, Writer, check};

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
        assert_eq!(read_all(&Reader::open(path).unwrap(), &Query::new(info.host)), expected);
    };
    assert_read(&path);
    data::compact_all(&mut writer);
    assert_read(&path);
    drop(writer);
    assert!(check(&path, Some(&copy), &Arc::default()).unwrap().is_sound());
    assert_read(&copy);
}
