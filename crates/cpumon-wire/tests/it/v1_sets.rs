//! v1 sets both ways: datagrams of a device become intervals, and our intervals become sets that originals read.

use std::sync::Arc;

use cpumon_model::{
    Delta, Fields, Flags, HostId, Interval, Life, Moment, ProcessInfo, ProcessInterval, ProcessKey,
    ThreadInterval, ThreadKey,
};
use cpumon_wire::Datagrams;
use cpumon_wire::v1::{
    Assembler, AssemblerLimits, Datagram, END_OF_TRANSFER, MAX_ORIGINAL_DATAGRAM, ProcessDatagram,
    SetEncoder, SetReport, ThreadEntry, UNIX_EPOCH_TICKS, decode, ticks_from_wall,
};

const MS: i64 = 1_000_000;

fn process(pid: u32, name: &str, ticks: i64, user_ms: i64, kernel_ms: i64) -> ProcessDatagram {
    ProcessDatagram {
        name: name.into(),
        timestamp_ticks: ticks,
        duration_ms: 3_000,
        kernel_ms,
        user_ms,
        process_id: pid,
        threads: vec![thread(pid, pid + 1, user_ms, kernel_ms)],
    }
}

fn thread(owner: u32, tid: u32, user_ms: i64, kernel_ms: i64) -> ThreadEntry {
    ThreadEntry {
        owner_process_id: owner,
        kernel_ms,
        user_ms,
        thread_id: tid,
        duration_ms: 3_000,
        timestamp_ticks: 7,
    }
}

/// An assembler and the intervals that it gave out.
struct Set {
    assembler: Assembler,
    intervals: Vec<Interval>,
    now_ns: u64,
}

impl Set {
    fn new(limits: AssemblerLimits) -> Self {
        let assembler = Assembler::new(HostId([7; 16]), limits);
        Self { assembler, intervals: Vec::new(), now_ns: 60_000_000_000 }
    }

    fn now(&self) -> Moment {
        Moment { mono_ns: self.now_ns, boot_ns: self.now_ns, wall_ns: 1_700_000_000_000_000_000 }
    }

    fn accept(&mut self, datagram: &Datagram) {
        let now = self.now();
        let intervals = &mut self.intervals;
        self.assembler.accept(datagram, now, &mut |interval| intervals.push(interval.clone()));
    }

    fn process(&mut self, process: ProcessDatagram) {
        self.accept(&Datagram::Process(process));
    }

    fn end(&mut self) {
        self.accept(&Datagram::EndOfTransfer);
    }
}

#[test]
fn a_set_becomes_one_interval_on_the_receivers_clock() {
    let mut set = Set::new(AssemblerLimits::default());
    let stood_in_2003 = 631_771_077_815_940_000;
    set.process(process(9, "twin.exe", stood_in_2003, 20, 1));
    set.process(process(5, "twin.exe", stood_in_2003, 10, 0));
    assert!(set.intervals.is_empty());
    set.end();
    let interval = &set.intervals[0];
    assert_eq!(interval.v1_ticks, Some(stood_in_2003));
    assert_eq!(interval.end, set.now());
    assert_eq!(interval.duration_ns(), 3_000_000_000);
    assert_eq!(interval.end.wall_ns - interval.begin.wall_ns, 3_000 * MS);
    assert_eq!(interval.fields, Fields::USER | Fields::SYSTEM | Fields::RUN);
    let rows: Vec<_> =
        interval.processes.iter().map(|row| (row.key.pid, &*row.info.name, row.delta.run_ns / MS)).collect();
    assert_eq!(rows, [(5, "twin.exe", 10), (9, "twin.exe", 21)]);
    assert_eq!(
        interval.threads[1].delta,
        Delta { user_ns: 20 * MS, system_ns: MS, run_ns: 21 * MS, ..Delta::default() }
    );
    assert_eq!(interval.threads[1].process, ProcessKey { pid: 9, start_ns: 0 });
    assert_eq!((interval.flags, interval.processes[0].thread_rows), (Flags::empty(), 1));
}

#[test]
fn a_new_stamp_or_the_timeout_ends_a_set_whose_marker_was_lost() {
    let mut set = Set::new(AssemblerLimits::default());
    set.process(process(5, "a", 1, 10, 0));
    set.process(process(5, "a", 2, 11, 0));
    assert_eq!((set.intervals.len(), set.intervals[0].v1_ticks), (1, Some(1)));
    let (now, later) = (set.now(), Moment { mono_ns: set.now_ns + 2_000_000_000, ..set.now() });
    let intervals = &mut set.intervals;
    set.assembler.flush(now, &mut |interval| intervals.push(interval.clone()));
    assert_eq!(intervals.len(), 1);
    set.assembler.flush(later, &mut |interval| intervals.push(interval.clone()));
    assert_eq!((intervals.len(), intervals[1].v1_ticks, intervals[1].sequence), (2, Some(2), 1));
    assert_eq!(set.assembler.counts().sets_without_end, 2);
}

#[test]
fn threads_that_a_sender_split_come_together_and_doubles_count_once() {
    let mut set = Set::new(AssemblerLimits::default());
    let first = process(5, "big.exe", 1, 30, 3);
    let mut second = process(5, "big.exe", 1, 0, 0);
    second.threads = vec![thread(5, 70, 4, 0), thread(5, 71, 5, 0)];
    set.process(first.clone());
    set.process(second);
    set.process(first);
    set.end();
    let interval = &set.intervals[0];
    assert_eq!(interval.processes.len(), 1);
    assert_eq!(interval.processes[0].delta.run_ns, 33 * MS);
    assert_eq!(interval.processes[0].thread_rows, 3);
    assert_eq!(interval.threads.iter().map(|row| row.key.tid).collect::<Vec<_>>(), [6, 70, 71]);
    assert_eq!(set.assembler.counts().duplicates, 1);
}

#[test]
fn a_number_used_twice_in_a_set_keeps_its_rows_apart() {
    let mut set = Set::new(AssemblerLimits::default());
    set.process(process(5, "one", 1, 1, 0));
    set.process(process(5, "two", 1, 2, 0));
    let mut third = process(8, "three", 1, 3, 0);
    third.threads[0].thread_id = 6;
    set.process(third);
    set.end();
    let interval = &set.intervals[0];
    let processes: Vec<_> = interval.processes.iter().map(|row| (row.key.pid, row.key.start_ns)).collect();
    assert_eq!(processes, [(5, 0), (5, 1), (8, 0)]);
    let threads: Vec<_> =
        interval.threads.iter().map(|row| (row.key.tid, row.key.start_ns, row.process.pid)).collect();
    assert_eq!(threads, [(6, 0, 5), (6, 1, 5), (6, 2, 8)]);
}

#[test]
fn impossible_times_are_flagged_and_never_wrapped() {
    let mut set = Set::new(AssemblerLimits::default());
    set.process(process(1, "neg.exe", 1, -2, -1));
    set.process(process(3, "max.exe", 1, i64::MAX, i64::MAX));
    set.process(process(5, "min.exe", 1, i64::MIN, 0));
    set.process(process(7, "odd.exe", 1, 3_001, 0));
    set.process(process(9, "good.exe", 1, 3_000, 0));
    set.end();
    let interval = &set.intervals[0];
    let runs: Vec<i64> = interval.processes.iter().map(|row| row.delta.run_ns).collect();
    assert_eq!(runs, [-3 * MS, i64::MAX, i64::MIN, 3_001 * MS, 3_000 * MS]);
    let flagged: Vec<bool> =
        interval.processes.iter().map(|row| row.flags.contains(Flags::IMPOSSIBLE)).collect();
    assert_eq!(flagged, [true, true, true, true, false]);
    assert!(interval.flags.contains(Flags::IMPOSSIBLE));
}

#[test]
fn a_straggler_is_counted_but_a_clock_that_does_not_move_loses_nothing() {
    let mut set = Set::new(AssemblerLimits::default());
    set.process(process(1, "a", 1, 5, 0));
    set.end();
    set.process(process(3, "b", 1, 5, 0));
    assert_eq!((set.assembler.counts().late, set.intervals.len()), (1, 1));
    set.now_ns += 3_000_000_000;
    set.process(process(1, "a", 1, 6, 0));
    set.end();
    assert_eq!((set.assembler.counts().late, set.intervals.len()), (1, 2));
}

#[test]
fn a_set_is_bounded_and_what_is_beyond_is_counted() {
    let limits = AssemblerLimits { max_processes: 3, max_threads: 2, ..AssemblerLimits::default() };
    let mut set = Set::new(limits);
    for pid in 0..5 {
        set.process(process(pid * 10, "p", 1, 5, 0));
    }
    set.end();
    let interval = &set.intervals[0];
    assert_eq!((interval.processes.len(), interval.threads.len()), (3, 2));
    assert!(interval.processes.iter().all(|row| row.delta.run_ns == 5 * MS));
    let counts = set.assembler.counts();
    assert_eq!((counts.processes_over_limit, counts.threads_over_limit), (2, 3));
}

/// An interval with one process whose threads ran `(user, system)` ns.
fn interval(pid: u32, name: &str, threads: &[(i64, i64)]) -> Interval {
    let delta =
        |user_ns, system_ns| Delta { user_ns, system_ns, run_ns: user_ns + system_ns, ..Delta::default() };
    let key = ProcessKey { pid, start_ns: 5 };
    let rows = (0_u32..).zip(threads).map(|(at, &(user, system))| ThreadInterval {
        key: ThreadKey { tid: pid + at, start_ns: 5 },
        process: key,
        delta: delta(user, system),
        ..ThreadInterval::default()
    });
    let sum = |part: fn(&(i64, i64)) -> i64| threads.iter().map(part).sum();
    Interval {
        fields: Fields::all(),
        begin: Moment { mono_ns: 1_000_000_000, ..Moment::default() },
        end: Moment { mono_ns: 4_006_700_000, boot_ns: 0, wall_ns: 1_700_000_000_123_456_789 },
        processes: vec![ProcessInterval {
            key,
            info: Arc::new(ProcessInfo { name: name.into(), ..ProcessInfo::default() }),
            delta: delta(sum(|row| row.0), sum(|row| row.1)),
            ..ProcessInterval::default()
        }],
        threads: rows.collect(),
        ..Interval::default()
    }
}

fn processes(datagrams: &Datagrams) -> Vec<ProcessDatagram> {
    let (last, rest) = datagrams.as_slice().split_last().unwrap();
    assert_eq!(last, &END_OF_TRANSFER);
    let process = |bytes: &Vec<u8>| match decode(bytes).unwrap() {
        Datagram::Process(process) => process,
        Datagram::EndOfTransfer => panic!("the end comes last"),
    };
    rest.iter().map(process).collect()
}

#[test]
fn an_interval_becomes_a_set_in_local_ticks_and_ms() {
    let mut out = Datagrams::new();
    let report =
        SetEncoder::default().encode(&interval(42, "sleep", &[(5 * MS, 2 * MS), (0, 0)]), 3_600, &mut out);
    let [process] = &processes(&out)[..] else { panic!("one process") };
    assert_eq!((process.process_id, &*process.name, process.duration_ms), (42, "sleep", 3_006));
    assert_eq!((process.user_ms, process.kernel_ms), (5, 2));
    assert_eq!(process.timestamp_ticks, UNIX_EPOCH_TICKS + 17_000_000_001_234_567 + 36_000_000_000);
    assert_eq!(process.threads.len(), 2);
    assert_eq!(
        (process.threads[0].owner_process_id, process.threads[0].user_ms, process.threads[0].kernel_ms),
        (42, 5, 2)
    );
    assert_eq!(process.threads[0].timestamp_ticks, process.timestamp_ticks);
    assert_eq!(report, SetReport { processes: 1, threads: 2, ..SetReport::default() });
}

#[test]
fn an_idle_process_is_sent_with_zeros_behind_those_with_time() {
    let mut all = interval(42, "idle", &[(0, 0), (0, 0)]);
    let busy = interval(99, "busy", &[(MS, 0)]);
    all.processes.extend(busy.processes);
    all.threads.extend(busy.threads);
    let mut out = Datagrams::new();
    let report = SetEncoder::default().encode(&all, 0, &mut out);
    let rows: Vec<_> = processes(&out)
        .into_iter()
        .map(|row| (row.name, row.user_ms, row.kernel_ms, row.threads.len()))
        .collect();
    assert_eq!(rows, [("busy".to_owned(), 1, 0, 1), ("idle".to_owned(), 0, 0, 2)]);
    assert_eq!(report, SetReport { processes: 2, threads: 3, ..SetReport::default() });

    // For our own receiver it is idle: a row of zeros, not no row.
    let mut set = Set::new(AssemblerLimits::default());
    for datagram in &out {
        set.accept(&decode(datagram).unwrap());
    }
    let rows: Vec<_> = set.intervals[0].processes.iter().map(|row| (row.key.pid, row.delta.run_ns)).collect();
    assert_eq!(rows, [(42, 0), (99, MS)]);
}

#[test]
fn a_process_that_falls_idle_is_sent_with_zeros_once_its_time_is_reported() {
    let mut encoder = SetEncoder::default();
    let mut out = Datagrams::new();
    let mut user_ms = |threads| {
        encoder.encode(&interval(42, "pulse", threads), 0, &mut out);
        processes(&out)[0].user_ms
    };
    assert_eq!([user_ms(&[(432 * MS, 0)]), user_ms(&[(0, 0)]), user_ms(&[(0, 0)])], [432, 0, 0]);
}

#[test]
fn the_rests_of_a_process_that_ended_without_time_are_sent() {
    let mut encoder = SetEncoder::default();
    let mut out = Datagrams::new();
    // Each thread has less than a ms, the process more than one.
    encoder.encode(&interval(42, "short", &[(600_000, 0), (600_000, 0)]), 0, &mut out);
    let mut ended = interval(42, "short", &[(0, 0), (0, 0)]);
    ended.processes[0].life = Life::Ended;
    ended.threads.iter_mut().for_each(|row| row.life = Life::Ended);
    encoder.encode(&ended, 0, &mut out);
    let process = &processes(&out)[0];
    assert_eq!((process.user_ms, process.threads[0].user_ms, process.threads[1].user_ms), (0, 1, 1));
    // It is over: no later set has it.
    let over = Interval { processes: Vec::new(), threads: Vec::new(), ..ended };
    encoder.encode(&over, 0, &mut out);
    assert_eq!(out.as_slice(), [END_OF_TRANSFER.to_vec()]);
}

#[test]
fn an_apostrophe_does_not_reach_the_originals_sql() {
    let mut out = Datagrams::new();
    let name = "x',1,1,1,1,NULL);DROP TABLE Threads;--";
    SetEncoder::default().encode(&interval(9, name, &[(MS, 0)]), 0, &mut out);
    assert_eq!(processes(&out)[0].name, "x’,1,1,1,1,NULL);DROP TABLE Threads;--");
    // What takes its place is longer, and still within the limit.
    let report = SetEncoder::default().encode(&interval(9, &"'".repeat(400), &[(MS, 0)]), 0, &mut out);
    assert_eq!((report.names_cut, processes(&out)[0].name.as_str()), (1, "’".repeat(341).as_str()));
}

#[test]
fn parts_of_a_millisecond_are_carried_so_that_nothing_is_lost_over_time() {
    let mut encoder = SetEncoder::default();
    let mut out = Datagrams::new();
    let (mut process_ms, mut thread_ms, mut length_ms) = ([0, 0], [0, 0], 0);
    let (user, system) = (333_333, 1_900_001);
    for round in 0..1_000_u64 {
        let mut interval = interval(42, "busy", &[(user, system), (user, 0)]);
        interval.begin.mono_ns = round * 1_000_333_333;
        interval.end.mono_ns = (round + 1) * 1_000_333_333;
        encoder.encode(&interval, 0, &mut out);
        for process in processes(&out) {
            process_ms = [process_ms[0] + process.user_ms, process_ms[1] + process.kernel_ms];
            length_ms += i64::from(process.duration_ms);
            for thread in &process.threads {
                thread_ms = [thread_ms[0] + thread.user_ms, thread_ms[1] + thread.kernel_ms];
            }
        }
    }
    assert_eq!(process_ms, [2 * 333, 1_900]);
    assert_eq!(thread_ms, [2 * 333, 1_900]);
    assert_eq!(length_ms, 1_000_333);
}

#[test]
fn the_rest_of_a_task_that_ended_is_rounded() {
    let mut out = Datagrams::new();
    let mut ended = interval(42, "short", &[(1_600_000, 400_000)]);
    ended.threads[0].life = Life::BornEnded;
    ended.processes[0].life = Life::BornEnded;
    SetEncoder::default().encode(&ended, 0, &mut out);
    let process = &processes(&out)[0];
    assert_eq!((process.user_ms, process.kernel_ms), (2, 0));
    assert_eq!((process.threads[0].user_ms, process.threads[0].kernel_ms), (2, 0));
}

#[test]
fn idle_threads_are_dropped_first_and_then_threads_are_split_with_right_sums() {
    let mut out = Datagrams::new();
    // 909 threads under a 7-byte name are the most that an original receives.
    let mut threads = vec![(MS, 0); 909];
    threads.extend(vec![(0, 0); 500]);
    let report = SetEncoder::default().encode(&interval(9, "big.exe", &threads), 0, &mut out);
    assert_eq!((report.threads, report.idle_threads_dropped, report.processes_split), (909, 500, 0));
    assert_eq!(out.as_slice()[0].len(), 32_767);

    let report =
        SetEncoder::default().encode(&interval(9, "big.exe", &vec![(MS, 2 * MS); 2_000]), 0, &mut out);
    assert_eq!((report.threads, report.idle_threads_dropped, report.processes_split), (2_000, 0, 1));
    assert!(out.iter().all(|datagram| datagram.len() <= MAX_ORIGINAL_DATAGRAM));
    let list = processes(&out);
    assert_eq!(list.iter().map(|process| process.threads.len()).collect::<Vec<_>>(), [909, 909, 182]);
    // The process's time is in the first datagram only: an original stores each as a row and sums them.
    assert_eq!(list.iter().map(|process| process.user_ms).collect::<Vec<_>>(), [2_000, 0, 0]);
    assert_eq!(list.iter().map(|process| process.kernel_ms).collect::<Vec<_>>(), [4_000, 0, 0]);

    // Our own receiver puts the parts together.
    let mut set = Set::new(AssemblerLimits::default());
    for datagram in &out {
        set.accept(&decode(datagram).unwrap());
    }
    let interval = &set.intervals[0];
    assert_eq!((interval.processes.len(), interval.threads.len()), (1, 2_000));
    assert_eq!(interval.processes[0].delta.run_ns, 6_000 * MS);
    assert_eq!(interval.threads.iter().map(|row| row.delta.run_ns).sum::<i64>(), 6_000 * MS);
}

#[test]
fn a_long_name_is_cut_between_characters_and_counted() {
    let mut out = Datagrams::new();
    let report = SetEncoder::default().encode(&interval(9, &"字".repeat(5_000), &[(MS, 0)]), 0, &mut out);
    assert_eq!((report.names_cut, processes(&out)[0].name.as_str()), (1, "字".repeat(341).as_str()));
}

#[test]
fn ticks_begin_in_the_year_one_and_saturate() {
    assert_eq!(ticks_from_wall(0, 0), 621_355_968_000_000_000);
    assert_eq!(ticks_from_wall(-100, -1), 621_355_968_000_000_000 - 1 - 10_000_000);
    assert_eq!(
        ticks_from_wall(i64::MAX, i32::MAX),
        i64::MAX / 100 + UNIX_EPOCH_TICKS + i64::from(i32::MAX) * 10_000_000
    );
}
