//! Rows of idle processes, which no sample has, at any moment of the past.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cpumon_model::{
    BootId, Delta, Flags, HostId, HostInfo, IdleProcess, Interval, Life, Moment, ProcessInfo,
    ProcessInterval, ProcessKey, SourceKind, ThreadInterval, ThreadKey, Trust,
};
use cpumon_store::{QueueOptions, Queued, Reader, StoreOptions, Writer, WriterThread};

use crate::data::{SECOND_NS, START_NS, compact_all, host, number};

/// What a process of the test does: born and ended in these seconds, and active in those that `is_active` picks.
struct Made {
    pid: u32,
    born: i64,
    ended: i64,
    is_active: fn(i64) -> bool,
    /// Its end is not in any row: the exit was lost.
    end_is_lost: bool,
}

const NEVER: i64 = i64::MAX;

fn made() -> Vec<Made> {
    let of = |pid, born, ended, is_active| Made { pid, born, ended, is_active, end_is_lost: false };
    vec![
        of(1, -5, NEVER, |_| true),
        of(2, -5, NEVER, |_| false),
        of(3, -5, NEVER, |second| second == 3),
        of(4, -5, 250, |_| false),
        of(5, 300, NEVER, |_| false),
        of(6, 150, 160, |_| true),
        Made { end_is_lost: true, ..of(7, -5, 330, |second| second == 10) },
    ]
}

fn there(second: i64) -> Vec<u32> {
    made().iter().filter(|one| one.born <= second && second < one.ended).map(|one| one.pid).collect()
}

/// All rows, as a device sends them.
fn interval(info: &HostInfo, second: i64) -> Interval {
    let at = |second: i64| Moment {
        wall_ns: START_NS + second * SECOND_NS,
        mono_ns: ((second + 100) * SECOND_NS).unsigned_abs(),
        boot_ns: ((second + 100) * SECOND_NS).unsigned_abs(),
    };
    let row = |one: &Made| {
        let is_end = second == one.ended && !one.end_is_lost;
        let is_there = one.born <= second && second < one.ended;
        let life = if second == one.born {
            Life::Born
        } else if is_end {
            Life::Ended
        } else {
            Life::Alive
        };
        let run_ns = if (one.is_active)(second) || life != Life::Alive { 5_000_000 } else { 0 };
        (is_there || is_end).then(|| ProcessInterval {
            key: ProcessKey { pid: one.pid, start_ns: ((one.born + 100) * SECOND_NS).unsigned_abs() - 1 },
            parent_pid: 1,
            info: Arc::new(ProcessInfo { name: format!("p{}", one.pid).into(), ..ProcessInfo::default() }),
            thread_rows: 2,
            life,
            delta: Delta { run_ns, ..Delta::default() },
            ..ProcessInterval::default()
        })
    };
    Interval {
        host: info.host,
        boot: info.boot,
        sequence: second.unsigned_abs(),
        source: SourceKind::Bpf,
        begin: at(second - 1),
        end: at(second),
        processes: made().iter().filter_map(row).collect(),
        process_count: u32::try_from(there(second).len()).unwrap(),
        ..Interval::default()
    }
}

/// A row that rests, as a receiver lists it.
fn idle_of(row: &ProcessInterval) -> IdleProcess {
    let ProcessInterval { key, parent_pid, ref info, thread_rows, .. } = *row;
    IdleProcess { key, info: Arc::clone(info), parent_pid, thread_rows }
}

/// Pids with a row at the end of a second, those that ended in it left out.
fn pids_at(reader: &Reader, host: HostId, second: i64) -> Vec<u32> {
    let mut found = reader.interval_at(host, START_NS + second * SECOND_NS).unwrap().unwrap();
    assert!(reader.add_idle(&mut found).unwrap(), "{second}");
    assert!(found.processes.is_sorted_by_key(|row| row.key));
    let rows = found.processes.iter().filter(|row| row.life != Life::Ended);
    rows.map(|row| {
        assert_eq!((&*row.info.name, row.parent_pid, row.thread_rows), (&*format!("p{}", row.key.pid), 1, 2));
        row.key.pid
    })
    .collect()
}

fn check(path: &Path, host: HostId, what: &str) {
    let reader = Reader::open(path).unwrap();
    for second in [1, 2, 3, 99, 100, 149, 155, 160, 161, 249, 250, 251, 299, 300, 329, 402, 449, 450] {
        let mut expected = there(second);
        if (331..400).contains(&second) {
            expected.push(7);
        }
        assert_eq!(pids_at(&reader, host, second), expected, "{what}: {second}");
    }
    // No list came since, and no row has its end.
    assert!(pids_at(&reader, host, 335).contains(&7), "{what}");
    let idle = reader.interval_at(host, START_NS + 99 * SECOND_NS).unwrap().unwrap();
    assert_eq!(idle.processes.len(), 1, "samples have no idle rows");
}

#[test]
fn the_past_has_a_row_for_every_process_that_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.db"), host(1));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for second in 1..=450 {
        writer.put(&info, Trust::Local, None, &interval(&info, second)).unwrap();
    }
    writer.commit().unwrap();
    check(&path, info.host, "fresh");
    compact_all(&mut writer);
    check(&path, info.host, "compacted");
    // A list a hundred intervals: a few bytes each.
    assert_eq!(number(&path, "SELECT count(*) FROM process_list"), 5);
    assert!(number(&path, "SELECT max(length(processes)) FROM process_list") < 60);
}

#[test]
fn the_queue_passes_idle_rows_on_with_the_intervals_that_need_them() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.db"), host(1));
    let thread = WriterThread::spawn(&path, &StoreOptions::default(), &QueueOptions::default()).unwrap();
    for second in 1..=450 {
        let queued = thread.handle().try_put(&info, Trust::Local, None, &interval(&info, second));
        assert_eq!(queued, Queued::Yes);
    }
    assert_eq!(thread.stop().stored_intervals, 450);
    assert_eq!(number(&path, "SELECT count(*) FROM process_list"), 3);
    let reader = Reader::open(&path).unwrap();
    for second in [1, 150, 260, 320, 402, 450] {
        assert_eq!(pids_at(&reader, info.host, second), there(second), "{second}");
    }
}

/// A device without scheduler events sends no rows of idle processes; now and then the receiver lists them.
#[test]
fn lists_of_intervals_without_idle_rows_are_as_good() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.db"), host(1));
    let thread = WriterThread::spawn(&path, &StoreOptions::default(), &QueueOptions::default()).unwrap();
    for second in 1..=450 {
        let mut one = interval(&info, second);
        let rows = std::mem::take(&mut one.processes);
        let (active, idle): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| !row.delta.is_zero() || row.life != Life::Alive);
        one.processes = active;
        if second % 50 == 1 {
            one.idle_processes = Some(idle.iter().map(idle_of).collect());
        }
        // Not known to be idle.
        if second == 155 {
            one.flags = Flags::PARTIAL;
        }
        assert_eq!(thread.handle().try_put(&info, Trust::Local, None, &one), Queued::Yes);
    }
    assert_eq!(thread.stop().stored_intervals, 450);
    let reader = Reader::open(&path).unwrap();
    for second in [1, 150, 260, 320, 402, 450] {
        assert_eq!(pids_at(&reader, info.host, second), there(second), "{second}");
    }
    let mut partial = reader.interval_at(info.host, START_NS + 155 * SECOND_NS).unwrap().unwrap();
    assert!(!reader.add_idle(&mut partial).unwrap(), "what has no row may have run");
    assert_eq!(partial.processes.iter().map(|row| row.key.pid).collect::<Vec<_>>(), [1, 6]);
    assert_eq!(number(&path, "SELECT count(*) FROM process_list"), 3);
}

/// An idle process had one thread too many for as long as it rested, and a sum of exits was a process that never ended.
#[test]
fn threads_that_ended_and_sums_of_exits_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.db"), host(1));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for second in 1..=130 {
        let mut one = interval(&info, second);
        // With the first list, and between two: one of three threads of 3 ends, then the next one.
        let ends = [1, 60].contains(&second);
        let row = one.processes.iter_mut().find(|row| row.key.pid == 3).unwrap();
        row.thread_rows = if second <= 1 { 4 } else { 3 } - u32::from(second > 60);
        if ends {
            row.delta.run_ns = 1_000;
            one.threads.push(ThreadInterval {
                key: ThreadKey { tid: 31, start_ns: second.unsigned_abs() },
                process: row.key,
                life: Life::Ended,
                delta: row.delta,
                ..ThreadInterval::default()
            });
        }
        let sum = ProcessKey { pid: 0, start_ns: 9 };
        let row = ProcessInterval { key: sum, flags: Flags::SUMMED, ..one.processes[0].clone() };
        one.processes.insert(0, row);
        writer.put(&info, Trust::Local, None, &one).unwrap();
    }
    writer.commit().unwrap();
    for what in ["fresh", "compacted"] {
        let reader = Reader::open(&path).unwrap();
        for (second, threads) in [(1, 4), (2, 3), (59, 3), (60, 3), (61, 2), (99, 2), (102, 2)] {
            let mut found = reader.interval_at(info.host, START_NS + second * SECOND_NS).unwrap().unwrap();
            found.processes.retain(|row| row.key.pid != 0);
            assert!(reader.add_idle(&mut found).unwrap());
            let rows = found.processes.iter().map(|row| (row.key.pid, row.thread_rows)).collect::<Vec<_>>();
            assert_eq!(rows, [(1, 2), (2, 2), (3, threads), (4, 2), (7, 2)], "{what}: {second}");
        }
        compact_all(&mut writer);
    }
}

/// The store waited for its turn, up to 100 intervals, while the receiver knew better.
#[test]
fn a_list_that_corrects_the_last_one_is_written_before_its_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.db"), host(1));
    let thread = WriterThread::spawn(&path, &StoreOptions::default(), &QueueOptions::default()).unwrap();
    for second in 301..=370 {
        let mut one = interval(&info, second);
        // 7 ends at 330 without a row, and the receiver finds out at 340.
        one.corrects_lists = second == 340;
        assert_eq!(thread.handle().try_put(&info, Trust::Local, None, &one), Queued::Yes);
    }
    assert_eq!(thread.stop().stored_intervals, 70);
    let reader = Reader::open(&path).unwrap();
    assert!(pids_at(&reader, info.host, 339).contains(&7), "not known yet");
    for second in [340, 341, 370] {
        assert_eq!(pids_at(&reader, info.host, second), there(second), "{second}");
    }
    assert_eq!(number(&path, "SELECT count(*) FROM process_list"), 2);
}

#[test]
fn lists_go_with_the_data_that_they_are_of() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.db"), host(1));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    for second in 1..=450 {
        let one = interval(&info, second);
        writer.put_received(&info, Trust::Local, None, &one, one.end.wall_ns).unwrap();
    }
    compact_all(&mut writer);
    drop(writer);
    let options = StoreOptions { max_age: Some(Duration::from_secs(100)), ..StoreOptions::default() };
    let mut writer = Writer::open(&path, &options).unwrap();
    writer.maintain_at(Duration::from_mins(1), START_NS + 450 * SECOND_NS).unwrap();
    // The first three chunks are gone; of their lists the last one stays, for intervals behind it.
    assert_eq!(number(&path, "SELECT min(first_end_wall_ns) FROM chunk"), START_NS + 301 * SECOND_NS);
    let first_list = number(&path, "SELECT min(end_wall_ns) FROM process_list");
    assert_eq!(first_list, START_NS + 201 * SECOND_NS);
    assert_eq!(pids_at(&Reader::open(&path).unwrap(), info.host, 310), [1, 2, 3, 5, 7]);
}

#[test]
fn another_boot_or_a_gap_has_a_list_of_its_own_and_an_old_one_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.db"), host(1));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    let put = |writer: &mut Writer, second: i64, boot: u8, cut: bool| {
        let mut one = interval(&info, second);
        one.boot = BootId([boot; 16]);
        if cut {
            one.processes.pop();
        }
        let info = HostInfo { boot: one.boot, ..info.clone() };
        writer.put(&info, Trust::Local, None, &one).unwrap();
    };
    put(&mut writer, 1, 1, false);
    // Within ten seconds after a list, another boot gets none.
    put(&mut writer, 12, 2, false);
    // A gap in which 4 and 7 ended.
    put(&mut writer, 400, 2, false);
    // Rows that did not fit: no list, and none shortly before.
    put(&mut writer, 9_000, 2, true);
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    for second in [1, 12, 400] {
        assert_eq!(pids_at(&reader, info.host, second), there(second), "{second}");
    }
    let mut last = reader.interval_at(info.host, START_NS + 9_000 * SECOND_NS).unwrap().unwrap();
    let rows = last.processes.len();
    assert!(!reader.add_idle(&mut last).unwrap());
    assert_eq!(last.processes.len(), rows);
}

/// What ended in the hole was there as an idle process until the next list.
#[test]
fn a_list_is_not_followed_across_a_hole_or_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.db"), host(1));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    // Lists are of 1, 12 and 400: there is none within ten seconds after another.
    for second in [1, 12, 13, 15, 400, 401, 402, 403] {
        let flags = if second == 402 { Flags::RESTART } else { Flags::empty() };
        writer.put(&info, Trust::Local, None, &Interval { flags, ..interval(&info, second) }).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    for (second, is_known) in [(1, true), (13, true), (15, false), (400, true), (401, true), (403, false)] {
        let mut found = reader.interval_at(info.host, START_NS + second * SECOND_NS).unwrap().unwrap();
        let rows = found.processes.len();
        assert_eq!(reader.add_idle(&mut found).unwrap(), is_known, "{second}");
        assert_eq!(found.processes.len() > rows, is_known, "{second}");
    }
}

/// Of v1 and of imported databases: a length is what the device measured, an end is when it came.
#[test]
fn a_list_is_followed_where_intervals_do_not_meet_to_the_nanosecond() {
    let dir = tempfile::tempdir().unwrap();
    let (path, info) = (dir.path().join("s.db"), host(1));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    // One list, of the first: the next ones come ten seconds later.
    for second in 1..=8 {
        let mut one = interval(&info, second);
        if second % 2 == 0 {
            one.begin.mono_ns += 30_000_000;
            one.begin.wall_ns += 30_000_000;
        } else {
            one.begin.mono_ns -= 30_000_000;
            one.begin.wall_ns -= 30_000_000;
        }
        writer.put(&info, Trust::Local, None, &one).unwrap();
    }
    writer.commit().unwrap();
    assert_eq!(number(&path, "SELECT count(*) FROM process_list"), 1);
    let reader = Reader::open(&path).unwrap();
    for second in [2, 5, 8] {
        assert_eq!(pids_at(&reader, info.host, second), there(second), "{second}");
    }
}
