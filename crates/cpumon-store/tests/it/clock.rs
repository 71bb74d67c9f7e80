//! Intervals on the receiver's time line have the device's own stamps too, and are recognised as duplicates.

use cpumon_model::{ClockEstimate, ClockLine, HostClock, Interval, Trust};
use cpumon_store::{Gap, Put, Query, Reader, StoreOptions, TimeRange, Writer};

use crate::data;
use crate::round_trip::read_all;

const IN_2003: i64 = -700_000_000_000_000_000;

/// A day as its device stamped it: in 2003, set in the middle.
fn stamped(count: u32) -> Vec<Interval> {
    let mut day = data::day(&data::host(1), 3, count, 8);
    let middle = day.len() / 2;
    for (at, interval) in day.iter_mut().enumerate() {
        (interval.begin.boot_ns, interval.end.boot_ns) = (interval.begin.mono_ns, interval.end.mono_ns);
        if at < middle {
            interval.end.wall_ns += IN_2003;
        }
        if at <= middle {
            interval.begin.wall_ns += IN_2003;
        }
    }
    day
}

fn estimate(day: &[Interval], error_ns: i64) -> ClockEstimate {
    let last = day.last().unwrap().end;
    let offset_ns = last.boot_ns.cast_signed() - last.wall_ns + error_ns;
    ClockEstimate::measured(&HostClock { offset_ns, round_trip_ns: 1_000, ..HostClock::default() })
}

#[test]
fn a_device_in_2003_is_found_today_and_its_own_stamps_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (info, day) = (data::host(1), stamped(250));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let mut line = ClockLine::default();
    let mut put = |line: &mut ClockLine, raw: &Interval, error_ns| {
        let mut placed = raw.clone();
        line.place(&mut placed, Some(estimate(&day, error_ns)));
        writer.put_received(&info, Trust::Authenticated, None, &placed, placed.end.wall_ns).unwrap()
    };
    assert!(day.iter().all(|raw| put(&mut line, raw, 0) == Put::Stored));
    // Sent again to a receiver that was started again and measures a little else.
    let reader = Reader::open(&path).unwrap();
    let mut again = ClockLine::default();
    assert!(day.iter().take(1).all(|raw| put(&mut again, raw, 0) == Put::Duplicate));
    writer.commit().unwrap();
    let mut again = reader.clock_line(info.host, info.boot).unwrap();
    for raw in &day {
        let mut placed = raw.clone();
        again.place(&mut placed, Some(estimate(&day, 900_000_000)));
        let known = writer.put_received(&info, Trust::Authenticated, None, &placed, placed.end.wall_ns);
        assert_eq!(known.unwrap(), Put::Duplicate, "{}", raw.sequence);
    }
    let check = || {
        let read = read_all(&reader, &Query::new(info.host).range(data::START_NS, i64::MAX));
        assert_eq!(read.len(), day.len());
        for (read, raw) in read.iter().zip(&day) {
            assert_eq!((read.sequence, read.device_end_wall_ns()), (raw.sequence, raw.end.wall_ns));
            let true_ns = data::START_NS + (raw.sequence.cast_signed() + 1) * data::SECOND_NS;
            assert_eq!(read.end.wall_ns, true_ns);
            assert_eq!(read.clock_piece, None);
        }
    };
    check();
    data::compact_all(&mut writer);
    check();
    let mut stored = reader.clock_line(info.host, info.boot).unwrap();
    let mut placed = day[3].clone();
    stored.place(&mut placed, None);
    let known = writer.put_received(&info, Trust::Authenticated, None, &placed, placed.end.wall_ns);
    assert_eq!(known.unwrap(), Put::Duplicate, "compacted");
}

#[test]
fn a_hole_is_known_again_by_the_devices_own_stamp() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let host = data::host(1).host;
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for (error_ns, intervals) in [(0, 4), (77, 6)] {
        let gap = Gap {
            begin_wall_ns: data::START_NS + error_ns,
            end_wall_ns: data::START_NS + data::SECOND_NS + error_ns,
            wall_shift_ns: IN_2003 - error_ns,
            intervals,
            reason: "lost there".into(),
        };
        writer.put_reported(host, &gap).unwrap();
    }
    writer.commit().unwrap();
    let gaps = Reader::open(&path).unwrap().gaps(host, TimeRange::new(0, i64::MAX), 9).unwrap();
    let found: Vec<_> =
        gaps.iter().map(|gap| (gap.begin_wall_ns, gap.wall_shift_ns, gap.intervals)).collect();
    assert_eq!(found, [(data::START_NS, IN_2003, 6)]);
}
