//! Lines of a process: the same sums whether they come from samples, minutes or hours.

use std::ops::ControlFlow;
use std::time::Duration;

use cpumon_model::{Delta, Interval, Life, Trust};
use cpumon_store::{Grain, ProcessFilter, Query, Reader, Span, StoreOptions, What, Writer};

use crate::data;

const MINUTE_NS: i64 = 60 * data::SECOND_NS;

fn sum_of<'a>(intervals: impl Iterator<Item = &'a Interval>, pid: u32) -> Delta {
    let mut sum = Delta::default();
    for interval in intervals {
        interval.processes.iter().filter(|row| row.key.pid == pid).for_each(|row| sum += &row.delta);
    }
    sum
}

#[test]
fn minutes_hold_the_sum_of_sealed_and_fresh_intervals_and_gaps_stay_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 1, 1800, 12);
    // Five minutes without data.
    day.retain(|interval| !(600..900).contains(&interval.sequence));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put_received(&info, Trust::Local, None, interval, interval.end.wall_ns).unwrap();
    }
    writer.maintain_at(Duration::from_mins(1), data::START_NS + 30 * MINUTE_NS).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(reader.statistics().unwrap().fresh_intervals > 100, "some of it must be fresh for this test");
    let wanted = &day[0].processes[1];
    for filter in [ProcessFilter::Key(wanted.key), ProcessFilter::Name(wanted.info.name.clone())] {
        let all = (i64::MIN, i64::MAX);
        let minutes = reader.process_line(info.host, &filter, all, 30).unwrap();
        assert_eq!(minutes.len(), 25);
        for point in &minutes {
            assert_eq!(point.end_wall_ns - point.begin_wall_ns, MINUTE_NS);
            assert_eq!(point.covered_ns, MINUTE_NS);
            let inside = day.iter().filter(|interval| {
                interval.end.wall_ns > point.begin_wall_ns && interval.end.wall_ns <= point.end_wall_ns
            });
            assert_eq!(point.delta, sum_of(inside.clone(), wanted.key.pid));
            let max = inside.map(|interval| sum_of(std::iter::once(interval), wanted.key.pid).run_ns).max();
            assert_eq!(Some(point.max_run_ns_per_s), max);
        }
        // Finer than a minute: from the samples themselves.
        let fine = reader.process_line(info.host, &filter, all, 300).unwrap();
        assert!((240..=260).contains(&fine.len()), "{}", fine.len());
        assert_eq!(
            fine.iter().map(|point| point.delta.run_ns).sum::<i64>(),
            sum_of(day.iter(), wanted.key.pid).run_ns
        );
    }
}

#[test]
fn short_lived_processes_are_summed_under_their_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 1, 240, 12);
    for interval in &mut day {
        // The same program, another process in each interval.
        let start_ns = interval.end.boot_ns;
        let row = interval.processes.last_mut().unwrap();
        row.key.start_ns = start_ns;
        row.life = Life::BornEnded;
        let pid = row.key.pid;
        interval
            .threads
            .iter_mut()
            .filter(|row| row.process.pid == pid)
            .for_each(|row| row.process.start_ns = start_ns);
    }
    let wanted = day[0].processes.last().unwrap().clone();
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    writer.seal_all().unwrap();
    let reader = Reader::open(&path).unwrap();
    let filter = ProcessFilter::Name(wanted.info.name.clone());
    let points = reader.process_line(info.host, &filter, (i64::MIN, i64::MAX), 4).unwrap();
    assert_eq!(points.len(), 4);
    assert_eq!(
        points.iter().map(|point| point.delta.run_ns).sum::<i64>(),
        sum_of(day.iter(), wanted.key.pid).run_ns
    );
    let sums: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM process_minute", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sums, 4 * 3, "one row a minute for the two others and for the stand-in");
}

#[test]
fn spans_add_up_to_the_same_whatever_their_grain() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 1, 1800, 12);
    day.retain(|interval| !(600..900).contains(&interval.sequence));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put_received(&info, Trust::Local, None, interval, interval.end.wall_ns).unwrap();
    }
    writer.maintain_at(Duration::from_mins(1), data::START_NS + 30 * MINUTE_NS).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(reader.statistics().unwrap().fresh_intervals > 100, "some of it must be fresh for this test");
    let wanted = day[0].processes[1].key;
    let query = Query::new(info.host).what(What::Processes);
    let walk = |grain| {
        let (mut sum, mut covered_ns, mut threads_ns, mut peak, mut ends) = (Delta::default(), 0, 0, 0, 0);
        reader
            .for_each_span(&query, grain, &mut |span| {
                covered_ns += span.interval.duration_ns();
                threads_ns += span.interval.ledger.threads_ns;
                ends = ends.max(span.interval.end.wall_ns);
                for (at, row) in
                    span.interval.processes.iter().enumerate().filter(|(_, row)| row.key == wanted)
                {
                    sum += &row.delta;
                    peak = peak.max(span.max_run_ns_per_s.get(at).copied().unwrap_or(row.delta.run_ns));
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        (sum, covered_ns, threads_ns, peak)
    };
    let exact = walk(None);
    assert_eq!(exact.0, sum_of(day.iter(), wanted.pid));
    assert_eq!(exact.1, day.len() as u64 * data::SECOND_NS.unsigned_abs());
    for grain in [Grain::Minute, Grain::Hour] {
        assert_eq!(walk(Some(grain)), exact, "{grain:?}");
    }
    let mut spans = 0;
    let stop_at_once = &mut |_: &Span<'_>| {
        spans += 1;
        ControlFlow::Break(())
    };
    reader.for_each_span(&query, Some(Grain::Minute), stop_at_once).unwrap();
    assert_eq!(spans, 1);
}

#[test]
fn a_plan_is_as_coarse_as_the_picture_allows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &data::day(&info, 1, 600, 3) {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    writer.seal_all().unwrap();
    let reader = Reader::open(&path).unwrap();
    let range = |minutes| (data::START_NS, data::START_NS + minutes * MINUTE_NS);
    let plan = |minutes, points| reader.plan(info.host, range(minutes), points).unwrap().unwrap();
    assert_eq!((plan(10, 100).grain, plan(10, 100).width_ns), (None, 6 * data::SECOND_NS));
    assert_eq!((plan(10, 10).grain, plan(10, 10).width_ns), (Some(Grain::Minute), MINUTE_NS));
    assert_eq!(plan(10, 4).width_ns, 3 * MINUTE_NS, "whole minutes");
    assert_eq!(plan(60 * 24, 4).grain, Some(Grain::Hour));
    assert!(plan(60 * 24, 4).until_ns <= data::START_NS + 11 * MINUTE_NS, "no further than what is kept");
    assert_eq!(reader.plan(data::host(9).host, range(1), 5).unwrap(), None);
}

#[test]
fn blocked_time_and_run_delay_are_in_the_sums_where_they_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 3, 600, 6);
    // The events of the scheduler begin after five minutes.
    data::add_sched(&mut day[300..]);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put_received(&info, Trust::Local, None, interval, interval.end.wall_ns).unwrap();
    }
    writer.seal_all().unwrap();
    let wanted = &day[0].processes[1];
    let expected: i64 = day.iter().map(|interval| interval.processes[1].sched.blocked_ns).sum();
    assert!(expected > 0);
    let reader = Reader::open(&path).unwrap();
    for points in [10, 600] {
        let line =
            reader.process_line(info.host, &ProcessFilter::Key(wanted.key), (i64::MIN, i64::MAX), points);
        let line = line.unwrap();
        assert_eq!(line.iter().filter_map(|point| point.blocked_ns).sum::<i64>(), expected, "{points}");
        assert!(line[0].blocked_ns.is_none(), "before, nothing told of it");
    }
    let connection = rusqlite::Connection::open(&path).unwrap();
    for table in ["host_minute", "host_hour"] {
        let text = format!("SELECT sum(run_delay_ns), sum(blocked_ns) FROM {table}");
        let sums: (i64, i64) = connection.query_row(&text, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let rows = || day.iter().flat_map(|interval| &interval.processes);
        assert_eq!(sums.0, rows().map(|row| row.delta.run_delay_ns).sum::<i64>(), "{table}");
        assert_eq!(sums.1, rows().map(|row| row.sched.blocked_ns).sum::<i64>(), "{table}");
    }
}
