//! Threads that rest are in no sample, and yet they wait in each interval that is read.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cpumon_model::{BootId, Interval, ProcessKey, ThreadKey, Trust, WaitReason};
use cpumon_store::{
    ProcessFilter, Query, QueueOptions, Queued, Reader, StoreOptions, What, Writer, WriterThread,
};
use proptest::prelude::*;

use crate::data::{compact_all, number};
use crate::round_trip::read_all;
use crate::sleepers::{BOOT, Device, FUTEX, HOST, NAP, REASONS, SECOND_NS, Second, US, process_of};

const PIDS: [u32; 8] = [1, 1, 1, 2, 2, 3, 4, 4];
const SECOND: i64 = 1_000_000_000;

fn tid(device: &Device, nth: usize) -> Option<u32> {
    device.snapshot.threads.get(nth).map(|thread| thread.key.tid)
}

/// What the device saw, second by second; in each, these of its threads do something.
fn seen(device: &mut Device, script: &[Vec<(usize, Second)>]) -> Vec<Interval> {
    let step = |seconds: &Vec<(usize, Second)>| {
        let before = device.snapshot.clone();
        let wanted = seconds.iter().filter_map(|&(nth, second)| Some((tid(device, nth)?, second)));
        let wanted: BTreeMap<u32, Second> = wanted.collect();
        device.step(&wanted);
        Interval::between(&before, &device.snapshot)
    };
    script.iter().map(step).collect()
}

fn put_all(writer: &mut Writer, device: &Device, intervals: &[Interval]) {
    for one in intervals {
        let info = cpumon_model::HostInfo { boot: one.boot, ..device.host.clone() };
        writer.put_received(&info, Trust::Local, None, one, one.end.wall_ns).unwrap();
    }
    writer.commit().unwrap();
}

/// One worker of process 4, who naps in between; all others wait for a lock.
fn stuck(seconds: usize) -> Vec<Vec<(usize, Second)>> {
    let work = Second { run_us: 900, ready_us: 100, then: NAP, ends: false };
    vec![vec![(7, work)]; seconds]
}

/// Blocked time by reason; each time in the store is rounded to µs.
fn waits(row: &cpumon_model::SchedDelta) -> Vec<u64> {
    REASONS.iter().map(|reason| (row.waits.of(*reason) + US / 2) / US).collect()
}

type Rows = BTreeMap<(ProcessKey, ThreadKey), (Vec<u64>, i64, WaitReason)>;

/// All threads of an interval with their waits, what they ran, and what they wait for; those that ended are left out.
fn rows(interval: &Interval) -> Rows {
    let alive = interval.threads.iter().filter(|row| !row.life.has_ended());
    alive
        .map(|row| ((row.process, row.key), (waits(&row.sched), row.delta.run_ns, row.sched.open_wait)))
        .collect()
}

/// The sums of the processes are those of their threads.
fn assert_sums_agree(interval: &Interval) {
    for process in &interval.processes {
        let own = || interval.threads.iter().filter(|row| row.process == process.key);
        for reason in REASONS {
            let sum_ns: u64 = own().map(|row| row.sched.waits.of(reason)).sum();
            assert_eq!(process.sched.waits.of(reason), sum_ns, "{} of {:?}", reason.name(), process.key);
        }
        assert_eq!(process.sched.blocked_ns, own().map(|row| row.sched.blocked_ns).sum::<i64>());
    }
}

fn futex_s(intervals: &[Interval], pid: u32) -> f64 {
    let of = |one: &Interval| one.process(process_of(pid)).map_or(0, |row| row.sched.waits.of(FUTEX));
    intervals.iter().map(of).sum::<u64>() as f64 / 1e9
}

#[test]
fn a_thread_that_is_stuck_for_minutes_has_waited_for_minutes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut device = Device::new(&PIDS);
    let seen = seen(&mut device, &stuck(450));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    put_all(&mut writer, &device, &seen);
    for is_compacted in [false, true] {
        if is_compacted {
            compact_all(&mut writer);
        }
        let reader = Reader::open(&path).unwrap();
        let read = read_all(&reader, &Query::new(HOST));
        assert_eq!(read.len(), 450);
        for (read, seen) in read.iter().zip(&seen) {
            assert_eq!(rows(read), rows(seen), "compacted: {is_compacted}");
            assert_sums_agree(read);
            let sleeper = read.process(process_of(3)).unwrap();
            assert_eq!((sleeper.sched.blocked_ns, sleeper.thread_rows), (SECOND, 1));
            assert_eq!(&*sleeper.info.name, "p3");
            assert_eq!(read.process(process_of(4)).unwrap().thread_rows, 2);
        }
        let processes = read_all(&reader, &Query::new(HOST).what(What::Processes));
        for (pid, expected) in [(1, 3.0 * 450.0), (2, 900.0), (3, 450.0), (4, 450.5)] {
            let found = futex_s(&processes, pid);
            assert!((found - expected).abs() < expected / 100.0, "{pid}: {found} of {expected} s");
        }
        // A moment has the rows that a walk has, wherever it is.
        for at in [0, 1, 99, 100, 101, 200, 333, 449] {
            let end_ns = seen[at].end.wall_ns;
            let one = reader.interval_at(HOST, end_ns).unwrap().unwrap();
            assert_eq!(rows(&one), rows(&seen[at]), "second {at}");
            let mut whole = one.clone();
            assert!(reader.add_idle(&mut whole).unwrap());
            assert_eq!(whole, one, "no process is without a row");
        }
        let stored = read_all(&reader, &Query::new(HOST).without_resting());
        assert!(stored.iter().skip(1).all(|one| one.threads.len() == 1 && one.processes.len() == 1));
    }
    // A list every hundred intervals, of a few bytes a thread.
    assert_eq!(number(&path, "SELECT count(*) FROM process_list WHERE resting IS NOT NULL"), 5);
    assert!(number(&path, "SELECT max(length(resting)) FROM process_list") < 80);
}

#[test]
fn a_process_that_ended_rests_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut device = Device::new(&PIDS);
    // Process 3 ends in second 20: it waited before, and has no thread afterwards.
    let mut script = stuck(60);
    script[20].push((5, Second { run_us: 50, ready_us: 0, then: NAP, ends: true }));
    let seen = seen(&mut device, &script);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    put_all(&mut writer, &device, &seen);
    let reader = Reader::open(&path).unwrap();
    for what in [What::Processes, What::Threads] {
        let read = read_all(&reader, &Query::new(HOST).what(what));
        let with_row = read.iter().filter(|one| one.process(process_of(3)).is_some());
        assert_eq!(with_row.count(), 21, "{what:?}");
        assert!(read.iter().all(|one| one.process(process_of(1)).is_some()), "{what:?}");
    }
}

#[test]
fn the_queue_passes_threads_that_rest_on_with_the_lists() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut device = Device::new(&PIDS);
    let seen = seen(&mut device, &stuck(450));
    let thread = WriterThread::spawn(&path, &StoreOptions::default(), &QueueOptions::default()).unwrap();
    for one in &seen {
        assert_eq!(thread.handle().try_put(&device.host, Trust::Local, None, one), Queued::Yes);
    }
    assert!(thread.stop().stored_intervals == 450);
    let read = read_all(&Reader::open(&path).unwrap(), &Query::new(HOST));
    for (read, seen) in read.iter().zip(&seen) {
        assert_eq!(rows(read), rows(seen));
    }
}

#[test]
fn across_a_gap_a_restart_or_a_boot_nothing_is_charged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut device = Device::new(&PIDS);
    let mut seen = seen(&mut device, &stuck(60));
    // Seconds 20 to 29 are missing; from 40 on it is another boot, without a list for its first intervals.
    for one in &mut seen[40..] {
        one.boot = BootId([9; 16]);
        one.thread_count += 5;
    }
    seen.drain(20..30);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    put_all(&mut writer, &device, &seen);
    let reader = Reader::open(&path).unwrap();
    let read = read_all(&reader, &Query::new(HOST));
    for (at, (read, seen)) in read.iter().zip(&seen).enumerate() {
        if at < 30 {
            assert_eq!(rows(read), rows(seen), "interval {at}");
        } else {
            assert_eq!(read.threads.len(), 1, "not all threads of the other boot are known");
        }
        assert_sums_agree(read);
    }
    let expected_s = 30.0;
    assert!((futex_s(&read, 3) - expected_s).abs() < 0.01, "{} s", futex_s(&read, 3));
}

#[test]
fn a_list_that_is_damaged_or_names_what_is_gone_is_no_data() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut device = Device::new(&PIDS);
    let seen = seen(&mut device, &stuck(50));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    put_all(&mut writer, &device, &seen);
    drop(writer);
    let change = |text: &str| {
        rusqlite::Connection::open(&path).unwrap().execute(text, []).unwrap();
        let read = read_all(&Reader::open(&path).unwrap(), &Query::new(HOST));
        for (read, seen) in read.iter().zip(&seen) {
            let seen = rows(seen);
            for (key, row) in rows(read) {
                assert_eq!(Some(&row), seen.get(&key), "{text}");
            }
            assert_sums_agree(read);
        }
        read.last().unwrap().threads.len()
    };
    assert_eq!(change("SELECT 1 WHERE 0"), 8);
    assert_eq!(change("DELETE FROM thread WHERE id = (SELECT max(id) FROM thread)"), 7);
    assert_eq!(change("UPDATE process_list SET resting = x'05ffffffff'"), 1);
    assert_eq!(change("UPDATE process_list SET resting = NULL"), 1);
}

#[test]
fn retention_leaves_the_list_that_the_oldest_data_need() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut device = Device::new(&PIDS);
    let seen = seen(&mut device, &stuck(450));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    put_all(&mut writer, &device, &seen);
    compact_all(&mut writer);
    drop(writer);
    let options = StoreOptions { max_age: Some(Duration::from_secs(100)), ..StoreOptions::default() };
    let mut writer = Writer::open(&path, &options).unwrap();
    writer.maintain_at(Duration::from_mins(1), seen[449].end.wall_ns).unwrap();
    let read = read_all(&Reader::open(&path).unwrap(), &Query::new(HOST));
    assert!((100..250).contains(&read.len()), "{} intervals", read.len());
    for (read, seen) in read.iter().zip(&seen[450 - read.len()..]) {
        assert_eq!(rows(read), rows(seen));
    }
}

fn any_second() -> impl Strategy<Value = Second> {
    let reason = (0..REASONS.len()).prop_map(|at| REASONS[at]);
    (0_u64..200_000, 0_u64..200_000, reason, 0_u32..40).prop_map(|(run_us, ready_us, then, number)| Second {
        run_us,
        ready_us,
        then,
        ends: number == 0,
    })
}

/// Rows of an interval that a filter lets pass.
fn only(mut interval: Interval, filter: &ProcessFilter) -> Interval {
    interval.processes.retain(|row| filter.matches(row.key, &row.info));
    let keys: Vec<ProcessKey> = interval.processes.iter().map(|row| row.key).collect();
    interval.threads.retain(|row| keys.contains(&row.process));
    interval
}

fn check(path: &Path, seen: &[Interval], range: (usize, usize), filter: &ProcessFilter) {
    let (from, to) = (range.0.min(range.1), range.0.max(range.1));
    let since_ns = seen[from].begin.wall_ns;
    let query = Query::new(HOST).range(since_ns, seen[to].end.wall_ns).filter(filter.clone());
    let reader = Reader::open(path).unwrap();
    let read = read_all(&reader, &query);
    assert_eq!(read.len(), to - from + 1);
    let processes = read_all(&reader, &query.what(What::Processes));
    for (at, read) in read.iter().enumerate() {
        let expected = only(seen[from + at].clone(), filter);
        assert_eq!(rows(read), rows(&expected), "second {} of {from} to {to}", from + at);
        assert_sums_agree(read);
        assert_eq!(processes[at].processes, read.processes);
        let length_ns = read.duration_ns();
        for row in &read.processes {
            let most_ns = u64::from(row.thread_rows) * length_ns + 100 * US;
            let time_ns = row.delta.run_ns + row.delta.run_delay_ns + row.sched.blocked_ns;
            assert!(time_ns.unsigned_abs() <= most_ns, "{row:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the threads do, any range of any process has what the device saw: run, ready and blocked time of each thread.
    #[test]
    fn any_range_has_what_the_device_saw(
        script in prop::collection::vec(prop::collection::vec((0_usize..8, any_second()), 0..3), 120..240),
        ranges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 4),
        compacted in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        let mut device = Device::new(&PIDS);
        let seen = seen(&mut device, &script);
        let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
        let (first, rest) = seen.split_at(compacted.index(seen.len()));
        put_all(&mut writer, &device, first);
        if !first.is_empty() {
            compact_all(&mut writer);
        }
        put_all(&mut writer, &device, rest);
        drop(writer);
        let filters = [
            ProcessFilter::All,
            ProcessFilter::Key(process_of(1)),
            ProcessFilter::Name("p2".into()),
            ProcessFilter::Pid(4),
        ];
        for ((a, b), filter) in ranges.iter().zip(&filters) {
            check(&path, &seen, (a.index(seen.len()), b.index(seen.len())), filter);
        }
    }
}

#[test]
fn walks_that_break_off_and_go_on_see_what_one_walk_sees() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut device = Device::new(&PIDS);
    let seen = seen(&mut device, &stuck(250));
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    put_all(&mut writer, &device, &seen);
    compact_all(&mut writer);
    let reader = Reader::open(&path).unwrap();
    let (mut since_ns, mut at) = (i64::MIN, 0);
    for step in (1..).take_while(|step| step * (step - 1) / 2 < 250) {
        let mut taken = 0;
        let query = Query::new(HOST).range(since_ns, i64::MAX);
        let mut reading = reader.intervals(&query).unwrap();
        while let Some(stored) = reading.read().unwrap() {
            let one = &stored.interval;
            // The one that is read beyond the step is not taken: the next walk begins with it.
            if taken == step {
                break;
            }
            assert_eq!(rows(one), rows(&seen[at]), "{at}");
            (taken, at, since_ns) = (taken + 1, at + 1, one.end.wall_ns);
        }
    }
    assert_eq!((at, seen[0].boot), (250, BOOT));
    assert_eq!(u64::try_from(since_ns - seen[0].begin.wall_ns).unwrap(), 250 * SECOND_NS);
}

#[test]
fn lists_take_a_tenth_of_a_byte_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    // 440 threads in 44 processes; 40 threads do something each second.
    let pids: Vec<u32> = (0..440).map(|nth| 1 + nth / 10).collect();
    let mut device = Device::new(&pids);
    let work = Second { run_us: 900, ready_us: 100, then: FUTEX, ends: false };
    let script: Vec<_> = (0..300).map(|_| (0..40).map(|nth| (nth * 11, work)).collect()).collect();
    let seen = seen(&mut device, &script);
    let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
    put_all(&mut writer, &device, &seen);
    compact_all(&mut writer);
    let lists = number(&path, "SELECT sum(length(resting)) FROM process_list");
    let rows = number(&path, "SELECT sum(thread_rows) FROM chunk");
    println!("{rows} thread rows: lists {lists} bytes");
    assert!(rows >= 12_000 && lists * 10 < rows, "{lists} bytes of {rows} rows");
}
