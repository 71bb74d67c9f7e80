//! Segments: the same sums whether they come from samples, minutes or hours.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use cpumon_model::{
    BootId, CgroupInterval, CpuLimit, DelayHistogram, DelayOf, Delta, Fields, Flags, Interval, Life,
    Pressure, ProcessKey, SchedDelta, ThreadKey, Throttle, Trust, delay_bucket, delay_range_ns,
};
use cpumon_store::sql::Sql;
use cpumon_store::{
    ProcessFilter, Query, Reader, Resolution, RunQueue, StoreOptions, TimeRange, What, Writer,
};

use crate::data;

const MINUTE_NS: i64 = 60 * data::SECOND_NS;

fn fresh_count(path: &Path) -> i64 {
    data::number(path, "SELECT count(*) FROM interval")
}

fn sum_of<'a>(intervals: impl Iterator<Item = &'a Interval>, pid: u32) -> Delta {
    let mut sum = Delta::default();
    for interval in intervals {
        interval.processes.iter().filter(|row| row.key.pid == pid).for_each(|row| sum += &row.delta);
    }
    sum
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
    data::compact_all(&mut writer);
    let reader = Reader::open(&path).unwrap();
    let filter = ProcessFilter::Name(wanted.info.name.clone());
    let query = Query::new(info.host).what(What::Processes).filter(filter);
    let mut run_ns = Vec::new();
    let mut reading = reader.segments(&query, Some(Resolution::Minute)).unwrap();
    while let Some(segment) = reading.read().unwrap() {
        run_ns.push(segment.interval.processes.iter().map(|row| row.delta.run_ns).sum::<i64>());
    }
    assert_eq!(run_ns.len(), 4);
    assert_eq!(run_ns.iter().sum::<i64>(), sum_of(day.iter(), wanted.key.pid).run_ns);
    let sums: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM process_minute", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sums, 4 * 3, "one row a minute for the two others and for all short-lived ones");
}

#[test]
fn hours_have_threads_and_those_that_live_for_an_instant_share_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 1, 4_000, 12);
    for interval in &mut day {
        // The last two threads are others in each interval, of the same name.
        let (start_ns, count) = (interval.end.boot_ns, interval.threads.len());
        for row in &mut interval.threads[count - 2..] {
            (row.key.start_ns, row.life, row.comm) = (start_ns, Life::BornEnded, "made".into());
        }
    }
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put_received(&info, Trust::Local, None, interval, interval.end.wall_ns).unwrap();
    }
    writer.maintain_at(Duration::from_mins(1), data::START_NS + 66 * MINUTE_NS).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(fresh_count(&path) > 100, "some of it must be fresh for this test");
    assert_eq!(reader.hours_without_threads(info.host, TimeRange::ALL).unwrap(), []);
    let sums = |resolution| {
        let mut sums: BTreeMap<ThreadKey, (Delta, i64, i64)> = BTreeMap::new();
        let mut times = 0;
        let query = Query::new(info.host).without_resting().with_sum_details();
        let mut reading = reader.segments(&query, resolution).unwrap();
        while let Some(segment) = reading.read().unwrap() {
            for (at, row) in segment.interval.threads.iter().enumerate() {
                // Rows of short-lived threads have no key of their own in sums.
                let key = if row.life == Life::BornEnded { ThreadKey::default() } else { row.key };
                let blocked_ns = segment.threads.get(at).and_then(|sum| sum.blocked_ns);
                let waits: u64 = row.sched.waits.iter().map(|(_, ns)| ns).sum();
                let sum = sums.entry(key).or_default();
                sum.0 += &row.delta;
                sum.1 += blocked_ns.unwrap_or(row.sched.blocked_ns);
                sum.2 += waits.cast_signed();
                times += i64::from(segment.threads.get(at).is_some_and(|sum| sum.times.is_some()));
            }
        }
        (sums, times)
    };
    let ((exact, _), (hours, times)) = (sums(None), sums(Some(Resolution::Hour)));
    assert_eq!(hours, exact);
    let rows = data::number(&path, "SELECT count(*) FROM thread_hour");
    assert_eq!(times, rows, "each row has its times");
    let shared = data::number(&path, "SELECT count(*) FROM thread_hour WHERE tid = 0");
    assert!((2..=6).contains(&shared) && rows < 200, "{shared} of {rows}");
}

#[test]
fn segments_add_up_to_the_same_at_every_resolution() {
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
    assert!(fresh_count(&path) > 100, "some of it must be fresh for this test");
    let wanted = day[0].processes[1].key;
    let query = Query::new(info.host).what(What::Processes);
    let walk = |resolution| {
        let (mut sum, mut covered_ns, mut threads_ns, mut peak, mut ends) = (Delta::default(), 0, 0, 0, 0);
        let mut reading = reader.segments(&query, resolution).unwrap();
        while let Some(segment) = reading.read().unwrap() {
            covered_ns += segment.interval.duration_ns();
            threads_ns += segment.interval.ledger.threads_ns;
            ends = ends.max(segment.interval.end.wall_ns);
            for (at, row) in
                segment.interval.processes.iter().enumerate().filter(|(_, row)| row.key == wanted)
            {
                sum += &row.delta;
                peak =
                    peak.max(segment.processes.get(at).map_or(row.delta.run_ns, |sum| sum.max_run_ns_per_s));
            }
        }
        (sum, covered_ns, threads_ns, peak)
    };
    let exact = walk(None);
    assert_eq!(exact.0, sum_of(day.iter(), wanted.pid));
    assert_eq!(exact.1, day.len() as u64 * data::SECOND_NS.unsigned_abs());
    for resolution in [Resolution::Minute, Resolution::Hour] {
        assert_eq!(walk(Some(resolution)), exact, "{resolution:?}");
    }
    // A walk that is left half way does not hinder the next question.
    assert!(reader.segments(&query, Some(Resolution::Minute)).unwrap().read().unwrap().is_some());
    assert_eq!(walk(Some(Resolution::Minute)), exact);
}

#[test]
fn a_reader_knows_how_far_each_kind_of_data_reaches() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &data::day(&info, 1, 600, 3) {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    data::compact_all(&mut writer);
    let reader = Reader::open(&path).unwrap();
    let reach = reader.reach(info.host).unwrap().unwrap();
    let begun = |length_ns: i64| Some(data::START_NS.div_euclid(length_ns) * length_ns);
    assert_eq!((reach.minutes_ns, reach.hours_ns), (begun(MINUTE_NS), begun(60 * MINUTE_NS)));
    assert!(reach.first_ns.is_some_and(|first_ns| first_ns > data::START_NS), "{reach:?}");
    assert_eq!(Some(reach.oldest_ns), reach.hours_ns);
    assert!((1..=11 * MINUTE_NS).contains(&(reach.last_ns - data::START_NS)), "{reach:?}");
    assert_eq!(reader.reach(data::host(9).host).unwrap(), None);
}

/// Makes a process one that no event covers.
fn hide(interval: &mut Interval, whose: ProcessKey) {
    for row in interval.processes.iter_mut().filter(|row| row.key == whose) {
        (row.flags, row.sched) = (Flags::UNWATCHED, SchedDelta::default());
    }
    for row in interval.threads.iter_mut().filter(|row| row.process == whose) {
        (row.flags, row.sched) = (Flags::UNWATCHED, SchedDelta::default());
    }
}

#[test]
fn blocked_time_and_run_delay_are_in_the_sums_where_they_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 3, 600, 6);
    // The events of the scheduler begin after five minutes.
    data::add_sched(&mut day[300..]);
    // They do not cover one of the processes.
    let hidden = day[0].processes[0].key;
    day[300..].iter_mut().for_each(|interval| hide(interval, hidden));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put_received(&info, Trust::Local, None, interval, interval.end.wall_ns).unwrap();
    }
    data::compact_all(&mut writer);
    let wanted = &day[0].processes[1];
    let expected: i64 = day.iter().map(|interval| interval.processes[1].sched.blocked_ns).sum();
    assert!(expected > 0);
    let reader = Reader::open(&path).unwrap();
    let mut blocked_ns = 0;
    let query = Query::new(info.host).what(What::Processes).without_resting();
    let mut reading = reader.intervals(&query).unwrap();
    while let Some(stored) = reading.read().unwrap() {
        let interval = &stored.interval;
        let row = interval.processes.iter().find(|row| row.key == wanted.key);
        blocked_ns += row.map_or(0, |row| row.sched.blocked_ns);
    }
    assert_eq!(blocked_ns, expected);
    let of_process = |column: &str, key: ProcessKey| {
        let pid = key.pid;
        format!(
            "SELECT coalesce(sum({column}), -1) FROM process_minute JOIN process ON process.id = process_id WHERE pid = {pid}"
        )
    };
    assert_eq!(data::number(&path, &of_process("blocked_ns", wanted.key)), expected);
    assert_eq!(data::number(&path, &of_process("blocked_ns", hidden)), -1, "no event covers it");
    assert!(data::number(&path, &of_process("run_ns", hidden)) > 0);
    let unknown = "SELECT count(*) FROM host_minute WHERE blocked_ns IS NULL";
    assert_eq!(data::number(&path, unknown), 5, "before, no events were measured");
    let connection = rusqlite::Connection::open(&path).unwrap();
    for table in ["host_minute", "host_hour"] {
        let text = format!("SELECT sum(run_delay_ns), sum(blocked_ns) FROM {table}");
        let sums: (i64, i64) = connection.query_row(&text, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let rows = || day.iter().flat_map(|interval| &interval.processes);
        assert_eq!(sums.0, rows().map(|row| row.delta.run_delay_ns).sum::<i64>(), "{table}");
        assert_eq!(sums.1, rows().map(|row| row.sched.blocked_ns).sum::<i64>(), "{table}");
    }
}

/// All run delays of a process, or of the host.
fn merged(day: &[Interval], key: Option<ProcessKey>) -> DelayHistogram {
    let mut sum = DelayHistogram::default();
    for interval in day {
        match key {
            Some(key) => interval.delays_of(DelayOf::Process(key)).into_iter().for_each(|more| sum += more),
            None => sum += &interval.cpu_delays(),
        }
    }
    sum
}

/// The one cell of an answer.
fn ask(path: &Path, text: &str) -> String {
    let mut found = String::new();
    let mut take = |row: &[cpumon_model::Value<'_>]| {
        found = match &row[0] {
            cpumon_model::Value::Int(number) => number.to_string(),
            cpumon_model::Value::Text(text) => text.to_string(),
            other => format!("{other:?}"),
        };
        ControlFlow::Continue(())
    };
    Sql::open(path).unwrap().query(text, &mut |_| ControlFlow::Continue(()), &mut take).unwrap();
    found
}

/// Whether any histogram is decoded.
fn reads_histograms(reader: &Reader, query: &Query, resolution: Option<Resolution>) -> bool {
    let mut read = false;
    let mut reading = reader.segments(query, resolution).unwrap();
    while let Some(segment) = reading.read().unwrap() {
        let is_sum = segment.max_busy_ppm.is_some();
        read |= is_sum && !segment.interval.delays.is_empty();
        read |= segment.interval.fields.contains(Fields::HISTOGRAMS);
    }
    read
}

#[test]
fn run_delays_are_merged_over_any_range_in_samples_sums_and_sql() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 3, 1200, 6);
    // They are measured from the sixth minute on.
    data::add_sched(&mut day[300..]);
    data::add_delays(&mut day[300..]);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put_received(&info, Trust::Local, None, interval, interval.end.wall_ns).unwrap();
    }
    // Some intervals stay fresh; an hour is compacted in several steps, so its sums are merged in the file.
    writer.maintain_at(Duration::from_mins(1), data::START_NS + 20 * MINUTE_NS).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(fresh_count(&path) > 100, "some of it must be fresh for this test");
    let key = day[0].processes[1].key;
    let (of_process, of_host) = (merged(&day, Some(key)), merged(&day, None));
    assert!(of_process.total() > 100 && of_host.total() > 100);
    for resolution in [None, Some(Resolution::Minute), Some(Resolution::Hour)] {
        let (mut process, mut host, mut unknown) = (DelayHistogram::default(), DelayHistogram::default(), 0);
        let query = Query::new(info.host).what(What::Processes);
        let mut reading = reader.segments(&query, resolution).unwrap();
        while let Some(segment) = reading.read().unwrap() {
            if let Some(more) = segment.interval.delays_of(DelayOf::Process(key)) {
                process += more;
            }
            host += &segment.interval.cpu_delays();
            unknown += u32::from(!segment.interval.fields.contains(Fields::HISTOGRAMS));
        }
        assert_eq!((&process, &host), (&of_process, &of_host), "{resolution:?}");
        let without = match resolution {
            None => 300,
            Some(Resolution::Minute) => 5,
            Some(Resolution::Hour) => 0,
        };
        assert_eq!(unknown, without, "where none are measured there is no data: {resolution:?}");
        assert!(
            !reads_histograms(&reader, &query.without_sched(), resolution),
            "histograms are not decoded where the scheduler's events are not wanted: {resolution:?}"
        );
    }
    data::compact_all(&mut writer);
    let from = format!("FROM process_interval WHERE pid = {} AND start_ns = {}", key.pid, { key.start_ns });
    assert_eq!(
        ask(&path, &format!("SELECT merge_run_delays(run_delay_histogram) {from}")),
        of_process.to_string()
    );
    for percent in [50, 90, 99, 100] {
        let expected = of_process.percentile_ns(percent, None).unwrap().to_string();
        let text = format!("SELECT run_delay_percentile_ns(run_delay_histogram, {percent}) {from}");
        assert_eq!(ask(&path, &text), expected, "p{percent}");
        // A longest delay of 1 ns lies below every bucket but the first: a percentile stays within its bucket.
        let bucket = delay_bucket(of_process.percentile_ns(percent, None).unwrap());
        let text = format!("SELECT run_delay_percentile_ns(run_delay_histogram, {percent}, 1) {from}");
        assert_eq!(
            ask(&path, &text),
            delay_range_ns(bucket).start().to_string(),
            "p{percent} with a longest delay"
        );
    }
    for table in ["host_minute", "host_hour"] {
        let text = format!("SELECT run_delay_percentile_ns(run_delays, 99) FROM {table}");
        assert_eq!(ask(&path, &text), of_host.percentile_ns(99, None).unwrap().to_string(), "{table}");
        let text = format!("SELECT merge_run_delays(run_delays) FROM {table}");
        assert_eq!(ask(&path, &text), of_host.to_string(), "{table}");
    }
    let buckets = "SELECT sum(value ->> 1) FROM host_interval, json_each(run_delay_histogram)";
    assert_eq!(ask(&path, buckets), of_host.total().to_string(), "each bucket is a row");
    let before = format!("{} AND end_ns <= {}", from, day[299].end.wall_ns);
    assert_eq!(ask(&path, &format!("SELECT merge_run_delays(run_delay_histogram) {before}")), "Null");
}

#[test]
fn what_is_no_histogram_is_refused_and_a_damaged_sum_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 3, 200, 6);
    data::add_sched(&mut day);
    data::add_delays(&mut day);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let (first, second) = day.split_at(100);
    let mut put = |intervals: &[Interval]| {
        for interval in intervals {
            writer.put(&info, Trust::Local, None, interval).unwrap();
        }
        data::compact_all(&mut writer);
    };
    put(first);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("UPDATE host_hour SET run_delays = x'ff'", []).unwrap();
    put(second);
    assert_eq!(
        ask(&path, "SELECT merge_run_delays(run_delays) FROM host_hour"),
        merged(second, None).to_string()
    );
    let sql = Sql::open(&path).unwrap();
    for (wrong, expected) in [
        ("merge_run_delays('x')", "not a run-delay histogram"),
        ("merge_run_delays(7)", "not a run-delay histogram"),
        ("merge_run_delays(x'ff')", "malformed"),
        ("run_delay_percentile_ns('[]', 101)", "0 to 100"),
    ] {
        let go_on = &mut |_: &[&str]| ControlFlow::Continue(());
        let error =
            sql.query(&format!("SELECT {wrong}"), go_on, &mut |_| ControlFlow::Continue(())).unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains(expected), "{wrong}: {text}");
    }
    assert_eq!(ask(&path, "SELECT run_delay_percentile_ns('[]', 50)"), "Null", "no delay has no percentile");
}

#[test]
fn sums_have_the_run_queue_of_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 6, 200, 4);
    let plain = day.clone();
    data::add_sched(&mut day);
    // A step down for a while: of those intervals nothing is known.
    day.iter_mut().zip(plain).skip(120).for_each(|(interval, plain)| *interval = plain);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    let sums = |resolution| {
        let (mut total, mut known, mut unknown) = (RunQueue::default(), 0, 0);
        let query = Query::new(info.host).what(What::Meta);
        let mut reading = reader.segments(&query, resolution).unwrap();
        while let Some(segment) = reading.read().unwrap() {
            match segment.run_queue {
                Some(queue) => {
                    known += 1;
                    total.run_queue_ns += queue.run_queue_ns;
                    total.max_run_queue_ns_per_s =
                        total.max_run_queue_ns_per_s.max(queue.max_run_queue_ns_per_s);
                    total.run_queue_max = total.run_queue_max.max(queue.run_queue_max);
                }
                None => unknown += 1,
            }
        }
        (total, known, unknown)
    };
    let (expected, known, unknown) = sums(None);
    assert_eq!((known, unknown), (120, 80));
    assert!(expected.run_queue_ns > 0 && (1..=7).contains(&expected.run_queue_max));
    assert_eq!(sums(Some(Resolution::Minute)).0, expected, "fresh");
    data::compact_all(&mut writer);
    for resolution in [Resolution::Minute, Resolution::Hour] {
        let (found, known, unknown) = sums(Some(resolution));
        assert_eq!(found, expected, "{resolution:?}");
        assert!(
            known > 0 && (resolution == Resolution::Hour || unknown > 0),
            "{resolution:?}: {known}, {unknown}"
        );
    }
}

#[test]
fn a_begin_is_computed_from_the_nearest_interval() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 1, 600, 12);
    // An hour is put on the wall clock in the middle.
    for interval in &mut day[300..] {
        interval.begin.wall_ns += 60 * MINUTE_NS;
        interval.end.wall_ns += 60 * MINUTE_NS;
    }
    // Born then, and as the first one at the start.
    let (early, mut late) = (day[0].processes[1].key, day[0].processes[2].key);
    late.start_ns = day[400].end.boot_ns - 5;
    let row = day[450].processes.iter_mut().find(|row| row.key.pid == late.pid).unwrap();
    row.key = late;
    let wall_ns = |at: usize, boot_ns: u64| {
        day[at].end.wall_ns - (day[at].end.boot_ns.cast_signed() - boot_ns.cast_signed())
    };
    let (early_ns, late_ns) = (wall_ns(0, early.start_ns), wall_ns(400, late.start_ns));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put_received(&info, Trust::Local, None, interval, interval.end.wall_ns).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    let check = |what: &str| {
        let began = |key| reader.began(info.host, &BTreeMap::from([(key, None)])).unwrap().get(&key).copied();
        assert_eq!([began(early), began(late)], [Some(early_ns), Some(late_ns)], "{what}");
        assert_eq!(began(ProcessKey { pid: early.pid, start_ns: 1 }), None, "never stored");
        let of = |boot| BTreeMap::from([(early, Some(boot))]);
        assert_eq!(reader.began(info.host, &of(day[0].boot)).unwrap()[&early], early_ns);
        assert!(reader.began(info.host, &of(BootId([9; 16]))).unwrap().is_empty(), "of another boot");
        assert!(reader.began(data::host(2).host, &of(day[0].boot)).unwrap().is_empty());
    };
    check("fresh");
    writer.maintain_at(Duration::from_mins(1), day[500].end.wall_ns + 3 * MINUTE_NS).unwrap();
    let chunks = data::number(&path, "SELECT count(*) FROM chunk");
    assert!(fresh_count(&path) > 0 && chunks > 1, "{chunks}");
    check("both");
    data::compact_all(&mut writer);
    check("compacted");
}

#[test]
fn limits_of_control_groups_add_up_to_the_same_at_every_resolution() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 1, 300, 4);
    for (at, interval) in (0_u64..).zip(&mut day) {
        // Not measured at first.
        if at < 60 {
            continue;
        }
        interval.fields |= Fields::CGROUPS;
        interval.pressure = Some(Pressure { some_ns: at * 1_000, full_ns: 0 });
        interval.cgroups_left_out = u32::from(at == 70);
        for (group, limit) in [("/pod/b", CpuLimit::Millionths(500_000)), ("/pod/a", CpuLimit::Unlimited)] {
            let throttle = limit.is_limited().then_some(Throttle {
                periods: 10,
                throttled_periods: 3,
                throttled_ns: at,
            });
            let pressure = Some(Pressure { some_ns: 5, full_ns: 1 });
            let path = group.into();
            interval.cgroups.push(CgroupInterval {
                id: 9,
                path,
                limit,
                limiter_bytes: 4,
                throttle,
                pressure,
            });
        }
    }
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    data::compact_all(&mut writer);
    let reader = Reader::open(&path).unwrap();
    let query = Query::new(info.host).what(What::Meta);
    for resolution in [None, Some(Resolution::Minute), Some(Resolution::Hour)] {
        let (mut throttled, mut host, mut waited, mut known) =
            (Throttle::default(), Pressure::default(), 0, 0);
        let mut reading = reader.segments(&query, resolution).unwrap();
        while let Some(segment) = reading.read().unwrap() {
            let interval = segment.interval;
            known += u32::from(interval.fields.contains(Fields::CGROUPS));
            host.add(interval.pressure.unwrap_or_default());
            for row in &interval.cgroups {
                throttled.add(row.throttle.unwrap_or_default());
                waited += row.pressure.unwrap().some_ns;
                let expected = if &*row.path == "/pod/b" { Some(0.5) } else { None };
                assert_eq!((row.limit.cpus(), row.limiter()), (expected, "/pod"));
            }
        }
        let sum: u64 = (60..300).sum();
        assert_eq!(
            throttled,
            Throttle { periods: 2_400, throttled_periods: 720, throttled_ns: sum },
            "{resolution:?}"
        );
        assert_eq!((host.some_ns, waited), (sum * 1_000, 2_400));
        let expected = match resolution {
            None => 240,
            Some(Resolution::Minute) => 4,
            Some(Resolution::Hour) => 1,
        };
        assert_eq!(known, expected, "a bucket without measurement is no data: {resolution:?}");
    }
}

#[test]
fn sums_have_a_counter_only_where_it_was_measured_all_the_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 1, 240, 12);
    // An agent of an earlier version, and after one minute and a half one that counts page faults.
    data::add_faults(&mut day[90..]);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for interval in &day {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    data::compact_all(&mut writer);
    let reader = Reader::open(&path).unwrap();
    let query = Query::new(info.host).what(What::Processes);
    let mut reading = reader.segments(&query, Some(Resolution::Minute)).unwrap();
    let mut found = Vec::new();
    while let Some(segment) = reading.read().unwrap() {
        let faults: i64 = segment.interval.processes.iter().map(|row| row.delta.minor_faults).sum();
        found.push((segment.interval.fields.contains(Fields::FAULTS), faults));
    }
    let made = |minute: usize| -> i64 {
        let rows = day[minute * 60..][..60].iter().flat_map(|one| &one.processes);
        rows.map(|row| row.delta.minor_faults).sum()
    };
    assert!(made(1) > 0 && made(2) > 0);
    assert_eq!(found, [(false, 0), (false, 0), (true, made(2)), (true, made(3))]);
}

#[test]
fn sums_beyond_64_bits_stop_no_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let info = data::host(1);
    let mut day = data::day(&info, 1, 40, 4);
    data::add_faults(&mut day);
    for row in day.iter_mut().flat_map(|one| &mut one.processes) {
        (row.delta.involuntary_switches, row.delta.minor_faults) = (i64::MAX, i64::MAX);
    }
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    // Two steps, whose sums are of the same minute.
    for part in day.chunks(20) {
        for interval in part {
            writer.put(&info, Trust::Local, None, interval).unwrap();
        }
        data::compact_all(&mut writer);
    }
    assert_eq!(fresh_count(&path), 0);
    let reader = Reader::open(&path).unwrap();
    let query = Query::new(info.host).what(What::Processes);
    let mut reading = reader.segments(&query, Some(Resolution::Minute)).unwrap();
    let row = reading.read().unwrap().unwrap().interval.processes[0].clone();
    assert_eq!((row.delta.involuntary_switches, row.delta.minor_faults), (i64::MAX, i64::MAX));
}
