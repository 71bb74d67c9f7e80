//! Names in blocks: a task keeps its name, whether that is a row, in a block, or both.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cpumon_model::{Delta, HostInfo, Interval, ProcessInterval, ProcessKey, Trust};
use cpumon_store::{ProcessFilter, Query, Reader, Resolution, StoreOptions, What, Writer, sql};
use rusqlite::Connection;

use crate::data;
use crate::round_trip::read_all;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR_NS: i64 = 3600 * data::SECOND_NS;

/// A day of long-lived and short-lived tasks, put and compacted; names are rows still.
fn filled(path: &Path, options: &StoreOptions, count: u32) -> (Writer, Vec<Interval>) {
    let info = data::host(1);
    let mut day = data::day(&info, 3, count, 24);
    data::add_short_lived(&mut day);
    let mut writer = Writer::open(path, options).unwrap();
    put(&mut writer, &day);
    data::compact_all(&mut writer);
    (writer, day.iter().map(data::active).collect())
}

fn put(writer: &mut Writer, day: &[Interval]) {
    for interval in day {
        writer
            .put_received(
                &data::host(1),
                Trust::Local,
                None,
                interval,
                interval.end.wall_ns + data::SECOND_NS,
            )
            .unwrap();
    }
    writer.commit().unwrap();
}

fn count(path: &Path, text: &str) -> i64 {
    Connection::open(path).unwrap().query_row(text, [], |row| row.get(0)).unwrap()
}

/// What the virtual tables `processes` and `threads` list.
fn listed(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    sql::register(&connection, path).unwrap();
    let mut all = Vec::new();
    for text in [
        "SELECT concat_ws('|', pid, name, start_ns, parent_pid, uid, cgroup) FROM processes ORDER BY 1",
        "SELECT concat_ws('|', pid, tid, name, process_name, start_ns) FROM threads ORDER BY 1",
    ] {
        let mut select = connection.prepare(text).unwrap();
        let rows = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
        all.extend(rows.map(Result::unwrap));
    }
    all
}

#[test]
fn names_in_blocks_are_read_as_rows_were() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (mut writer, mut expected) = filled(&path, &StoreOptions::default(), 1100);
    let (before, rows) = (listed(&path), count(&path, "SELECT count(*) FROM thread"));
    assert!(rows > 2900, "{rows}");
    let end = expected.last().unwrap().end.wall_ns;
    writer.maintain_at(MINUTE, end).unwrap();
    assert_eq!(count(&path, "SELECT count(*) FROM thread_block"), 2);
    assert_eq!(count(&path, "SELECT count(*) FROM process_block"), 1);
    assert_eq!(count(&path, "SELECT count(*) FROM thread"), rows - 2048);
    assert_eq!(
        count(&path, "SELECT count(*) FROM process WHERE boot_id = 0"),
        5,
        "one row for each description of short-lived ones"
    );
    let reader = Reader::open(&path).unwrap();
    assert_eq!(read_all(&reader, &Query::new(data::host(1).host)), expected);
    assert_eq!(listed(&path), before);
    let in_blocks = count(&path, "SELECT sum(count) FROM thread_block");
    assert_eq!(count(&path, "SELECT count(*) FROM thread") + in_blocks, rows);

    // A writer that starts again gives new ids, also where the highest ones are in blocks.
    drop(writer);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let mut later = data::day(&data::host(1), 3, 1200, 24).split_off(1100);
    data::add_short_lived(&mut later);
    put(&mut writer, &later);
    data::compact_all(&mut writer);
    expected.extend(later.iter().map(data::active));
    assert_eq!(read_all(&Reader::open(&path).unwrap(), &Query::new(data::host(1).host)), expected);
}

/// They were "(no name)" in a report, which did not mention damage.
#[test]
fn names_of_a_damaged_block_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (mut writer, expected) = filled(&path, &StoreOptions::default(), 1100);
    writer.maintain_at(MINUTE, expected.last().unwrap().end.wall_ns).unwrap();
    drop(writer);
    let change = "UPDATE process_block SET names = x'00'";
    assert_eq!(Connection::open(&path).unwrap().execute(change, []).unwrap(), 1);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(read_all(&reader, &Query::new(data::host(1).host)).len(), expected.len());
    assert!(reader.damage().nameless > 0);
    let reader = Reader::open(&path).unwrap();
    for _ in 0..2 {
        reader.each_process(data::host(1).host, &mut |_| {}).unwrap();
        let lost = count(&path, "SELECT sum(count) FROM process_block");
        assert_eq!(reader.damage().nameless, lost.cast_unsigned(), "met twice, counted once");
    }
}

#[test]
fn a_task_that_is_still_seen_after_an_hour_gets_its_row_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (mut writer, mut expected) = filled(&path, &StoreOptions::default(), 1100);
    let end = expected.last().unwrap().end.wall_ns;
    writer.maintain_at(MINUTE, end).unwrap();
    let (before, rows) = (listed(&path), count(&path, "SELECT count(*) FROM thread"));
    let long_lived = "SELECT count(*) FROM thread WHERE comm LIKE 't%-%'";
    assert_eq!(count(&path, long_lived), 0, "they came first and are in blocks");
    let mut later = data::day(&data::host(1), 3, 5100, 24).split_off(5000);
    for interval in &mut later {
        interval.sequence += 1;
    }
    put(&mut writer, &later);
    data::compact_all(&mut writer);
    assert_eq!(count(&path, long_lived), 24);
    assert_eq!(count(&path, "SELECT count(*) FROM thread"), rows + 24);
    assert_eq!(count(&path, "SELECT count(*) FROM thread_block"), 2, "blocks stay as they are");
    expected.extend(later.iter().map(data::active));
    assert_eq!(read_all(&Reader::open(&path).unwrap(), &Query::new(data::host(1).host)), expected);
    assert_eq!(listed(&path), before, "nothing is listed twice");
}

#[test]
fn blocks_go_when_nothing_can_name_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let options = StoreOptions {
        max_age: Some(Duration::from_hours(24)),
        minute_max_age: Some(Duration::from_hours(96)),
        hour_max_age: Some(Duration::from_hours(96)),
        ..StoreOptions::default()
    };
    let (mut writer, _) = filled(&path, &options, 1100);
    let run_ns = || {
        let reader = Reader::open(&path).unwrap();
        let name = ProcessFilter::Name("program-3".into());
        let query = Query::new(data::host(1).host).what(What::Processes).filter(name);
        let mut sum = 0;
        let mut reading = reader.segments(&query, Some(Resolution::Hour)).unwrap();
        while let Some(segment) = reading.read().unwrap() {
            sum += segment.interval.processes.iter().map(|row| row.delta.run_ns).sum::<i64>();
        }
        sum
    };
    let mut maintain = |hours: i64| writer.maintain_at(MINUTE, data::START_NS + hours * HOUR_NS).unwrap();
    maintain(1);
    let whole = run_ns();
    assert!(whole > 0);
    let names = |path: &Path| count(path, "SELECT sum(count) FROM process_block");
    let long_lived = count(&path, "SELECT count(*) FROM process WHERE NOT is_short AND boot_id <> 0");
    assert_eq!(names(&path), 1024);
    maintain(60);
    assert_eq!(count(&path, "SELECT count(*) FROM chunk"), 0);
    assert_eq!(count(&path, "SELECT count(*) FROM thread_block"), 0, "threads are named by samples only");
    let left = names(&path);
    assert!(left > 0 && left < 400, "sums name {left} processes that lived longer, beside {long_lived} rows");
    assert_eq!(run_ns(), whole);
    maintain(130);
    assert_eq!(count(&path, "SELECT count(*) FROM process_block"), 0);
    assert_eq!(count(&path, "SELECT count(*) FROM process_block_info"), 0);
    let retired = "SELECT value FROM counter WHERE name = 'retired_thread_names'";
    assert!(count(&path, retired) > 2900);
}

#[test]
fn a_damaged_block_leaves_tasks_without_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (mut writer, expected) = filled(&path, &StoreOptions::default(), 1100);
    writer.maintain_at(MINUTE, expected.last().unwrap().end.wall_ns).unwrap();
    drop(writer);
    Connection::open(&path).unwrap().execute_batch("UPDATE thread_block SET names = x'0102'").unwrap();
    let read = read_all(&Reader::open(&path).unwrap(), &Query::new(data::host(1).host));
    assert_eq!(read.len(), expected.len());
    assert_eq!(read[0].threads.len(), expected[0].threads.len());
    assert!(read[0].threads.iter().all(|row| row.comm.is_empty()));
}

#[test]
fn names_are_cut_at_255_bytes_and_between_characters() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    // 255 is odd, and each of these letters takes two bytes.
    let long: Box<str> = "ä".repeat(30_000).into();
    let info = HostInfo { hostname: long.clone(), agent: long.clone(), ..data::host(1) };
    let mut day = data::day(&info, 1, 2, 4);
    for one in &mut day {
        let process = Arc::make_mut(&mut one.processes[0].info);
        (process.name, process.comm, process.container) = (long.clone(), long.clone(), long.clone());
    }
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for one in &day {
        writer.put(&info, Trust::Unauthenticated, None, one).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    let cut = "ä".repeat(127);
    let host = reader.find_host(&cut).unwrap();
    assert_eq!(*host.info.agent, *cut);
    for one in read_all(&reader, &Query::new(info.host)) {
        let process = &one.processes[0].info;
        assert_eq!((&*process.name, &*process.comm, process.container.len()), (&*cut, &*cut, 4096));
    }
    assert_eq!(count(&path, "SELECT count(*) FROM process_info"), 1);
    assert_eq!(count(&path, "SELECT count(*) FROM host_change"), 1);
}

/// The same intervals, `hours` hours later.
fn later(day: &[Interval], hours: u64) -> Vec<Interval> {
    let shift_ns = hours * 3_600 * data::SECOND_NS.cast_unsigned();
    let mut day = day.to_vec();
    for interval in &mut day {
        interval.sequence += shift_ns;
        for moment in [&mut interval.begin, &mut interval.end] {
            moment.mono_ns += shift_ns;
            moment.boot_ns += shift_ns;
            moment.wall_ns += shift_ns.cast_signed();
        }
    }
    day
}

#[test]
fn a_task_that_runs_again_after_its_name_went_has_it_again() {
    for with_blocks in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sqlite");
        let options = StoreOptions { max_age: Some(MINUTE), ..StoreOptions::default() };
        let mut day = data::day(&data::host(1), 3, if with_blocks { 1_100 } else { 20 }, 24);
        if with_blocks {
            data::add_short_lived(&mut day);
        }
        let mut writer = Writer::open(&path, &options).unwrap();
        put(&mut writer, &day);
        data::compact_all(&mut writer);
        if with_blocks {
            writer.maintain_at(MINUTE, day.last().unwrap().begin.wall_ns).unwrap();
            assert!(count(&path, "SELECT count(*) FROM thread_block") > 0);
        }
        // Two days without a sample: all names go.
        let end_ns = day.last().unwrap().end.wall_ns;
        for hours in [1, 47, 48] {
            writer.maintain_at(MINUTE, end_ns + hours * HOUR_NS).unwrap();
        }
        assert_eq!(count(&path, "SELECT count(*) FROM chunk"), 0);
        let names = "SELECT (SELECT count(*) FROM thread) + (SELECT count(*) FROM thread_block)";
        assert_eq!(count(&path, names), 0, "with blocks: {with_blocks}");
        let again = later(&day[..20], 48);
        put(&mut writer, &again);
        data::compact_all(&mut writer);
        let expected: Vec<Interval> = again.iter().map(data::active).collect();
        let read = read_all(&Reader::open(&path).unwrap(), &Query::new(data::host(1).host));
        assert_eq!(read, expected, "with blocks: {with_blocks}");
    }
}

#[test]
fn names_of_intervals_that_wait_for_compaction_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    // Compaction is behind for days, as with a disk that is too slow.
    let late = Duration::from_hours(400);
    let options =
        StoreOptions { compact_after: late, compact_partial_after: late, ..StoreOptions::default() };
    let day = data::day(&data::host(1), 3, 20, 24);
    let mut writer = Writer::open(&path, &options).unwrap();
    put(&mut writer, &day);
    let end_ns = day.last().unwrap().end.wall_ns;
    for hours in [1, 27, 90] {
        writer.maintain_at(MINUTE, end_ns + hours * HOUR_NS).unwrap();
    }
    let expected: Vec<Interval> = day.iter().map(data::active).collect();
    assert_eq!(read_all(&Reader::open(&path).unwrap(), &Query::new(data::host(1).host)), expected);
}

/// Puts one second of a host, as it comes in at that second.
fn put_second(writer: &mut Writer, info: &HostInfo, second: u32, interval: &Interval) {
    let received_wall_ns = data::START_NS + i64::from(second) * data::SECOND_NS;
    writer.put_received(info, Trust::Unauthenticated, None, interval, received_wall_ns).unwrap();
}

#[test]
fn strangers_that_invent_tasks_take_the_names_of_no_small_host() {
    const TASKS: u32 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let (runs, rests) = (data::host(1), data::host(2));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let day = |info: &HostInfo, pid, count| -> Vec<Interval> {
        data::day(info, 3, 120, 1).iter().map(|one| with_processes(one, pid, count)).collect()
    };
    let (running, resting) = (day(&runs, 1, 1), day(&rests, 1, 1));
    put_second(&mut writer, &rests, 0, &resting[0]);
    // Twice in a row all that they invent at once, which takes more memory than the names of strangers may.
    for second in 0..2 {
        put_second(&mut writer, &runs, second, &running[second as usize]);
        for number in 3..13 {
            let stranger = data::host(number);
            let interval = &data::day(&stranger, 3, 2, 1)[second as usize];
            put_second(&mut writer, &stranger, second, &with_processes(interval, 1_000, TASKS));
        }
    }
    put_second(&mut writer, &runs, 100, &running[100]);
    put_second(&mut writer, &rests, 100, &resting[100]);
    writer.commit().unwrap();
    let rows_of = |host: u8| {
        let of_host = format!(
            "SELECT count(*) FROM process WHERE boot_id = (SELECT id FROM boot WHERE key = x'{}')",
            format!("{host:02x}").repeat(16)
        );
        count(&path, &of_host)
    };
    assert_eq!((rows_of(1), rows_of(2)), (1, 1));
    let of_strangers: Vec<i64> = (3..13).map(rows_of).collect();
    assert!(of_strangers.iter().all(|rows| *rows >= i64::from(TASKS)), "{of_strangers:?}");
    let most = of_strangers.iter().max();
    assert!(
        most > Some(&i64::from(TASKS)),
        "none was forgotten, so the memory has no limit: {of_strangers:?}"
    );
}

/// The interval with `count` processes that ran, from `first_pid` on, instead of its own.
fn with_processes(interval: &Interval, first_pid: u32, count: u32) -> Interval {
    let process = |pid| ProcessInterval {
        key: ProcessKey { pid, start_ns: 1 },
        delta: Delta { run_ns: 1_000, ..Delta::default() },
        ..ProcessInterval::default()
    };
    let processes = (first_pid..first_pid + count).map(process).collect();
    Interval { processes, threads: Vec::new(), process_count: count, ..interval.clone() }
}

#[test]
fn a_fleet_of_small_hosts_keeps_the_names_of_all() {
    const HOSTS: u8 = 200;
    const TASKS: u32 = 800;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sqlite");
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for second in 0..2 {
        for number in 0..HOSTS {
            let info = data::host(number);
            let interval = &data::day(&info, 3, 2, 1)[second as usize];
            put_second(&mut writer, &info, second, &with_processes(interval, 1_000, TASKS));
        }
    }
    writer.commit().unwrap();
    let rows = count(&path, "SELECT count(*) FROM process");
    assert_eq!(rows, i64::from(HOSTS) * i64::from(TASKS), "each has one row");
}
