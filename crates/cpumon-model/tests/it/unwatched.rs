//! Threads that no event reports: their run time is in the ledger, and what only events measure is no data.

use std::sync::Arc;

use cpumon_model::{
    ColumnId, Counters, CpuSample, CpuSched, CpuTimes, Fields, Flags, Interval, IntervalView, Life, Moment,
    ProcessKey, ProcessSample, SchedTimes, Snapshot, ThreadKey, ThreadSample, Value,
};

const MS: u64 = 1_000_000;
const INIT: ProcessKey = ProcessKey { pid: 1, start_ns: 100 * MS };

/// One CPU at this second: the time that no event explains, and the run times of the two threads of process 1 and of its ended threads.
fn at(second: u64, unknown_ms: u64, runs_ms: [u64; 2], ended_ms: u64, fields: Fields) -> Snapshot {
    let ns = second * 1_000 * MS;
    let moment = Moment { mono_ns: ns, boot_ns: ns, wall_ns: 0 };
    let run = |ms: u64| Counters { run_ns: ms * MS, user_ns: ms * MS, ..Counters::default() };
    let thread = |tid: u32, run_ms: u64, sched| ThreadSample {
        key: ThreadKey { tid, start_ns: INIT.start_ns },
        process: if tid == 30 { ProcessKey { pid: 30, ..INIT } } else { INIT },
        counters: run(run_ms),
        sched,
        ..ThreadSample::default()
    };
    let watched = SchedTimes { blocked_ns: ns / 2, wakeups: second, ..SchedTimes::default() };
    let process = |key, ended_ms| ProcessSample {
        key,
        parent_pid: 0,
        info: Arc::default(),
        ended_threads: run(ended_ms),
    };
    let times = CpuTimes { idle_ns: (second * 900 - unknown_ms) * MS, ..CpuTimes::default() };
    let sched = CpuSched { unknown_ns: unknown_ms * MS, ..CpuSched::default() };
    Snapshot {
        fields,
        is_complete: true,
        begin: moment,
        end: moment,
        cpus: vec![CpuSample { cpu: 0, times, sched }],
        processes: vec![process(INIT, ended_ms), process(ProcessKey { pid: 30, ..INIT }, 0)],
        threads: vec![
            thread(1, runs_ms[0], SchedTimes::unwatched()),
            thread(7, runs_ms[1], SchedTimes::unwatched()),
            thread(30, second * 100, watched),
        ],
        ..Snapshot::default()
    }
}

#[test]
fn what_unwatched_threads_ran_is_theirs_and_unknown_no_more() {
    let first = at(10, 50, [500, 40], 0, Fields::all());
    let mut second = at(11, 90, [520, 45], 9, Fields::all());
    let interval = Interval::between(&first, &second);
    let flags: Vec<Flags> = interval.threads.iter().map(|row| row.flags).collect();
    assert_eq!(flags, [Flags::UNWATCHED, Flags::UNWATCHED, Flags::empty()]);
    let init = interval.process(INIT).unwrap();
    assert_eq!((init.delta.run_ns, init.flags), (34_000_000, Flags::UNWATCHED));
    let ledger = &interval.ledger;
    assert_eq!((ledger.threads_ns, ledger.exited_ns), (125_000_000, 9_000_000));
    // Of the 40 ms that no event explains, 34 are theirs.
    assert_eq!((ledger.unattributed_ns(), ledger.unknown_ns), (6_000_000, 6_000_000));
    assert_eq!(interval.cpus[0].sched.unknown_ns, 40_000_000, "it is not known on which CPU they ran");
    // Counted late, they ran more than was unexplained: the cause is the same.
    second = at(11, 60, [520, 45], 0, Fields::all());
    let ledger = Interval::between(&first, &second).ledger;
    assert_eq!((ledger.unattributed_ns(), ledger.unknown_ns), (-15_000_000, -15_000_000));
    assert_eq!(Life::Alive, interval.threads[0].life);
}

#[test]
fn what_only_events_measure_is_no_data_for_unwatched_threads() {
    let (first, second) = (at(10, 50, [500, 40], 0, Fields::all()), at(11, 90, [520, 45], 0, Fields::all()));
    let interval = Interval::between(&first, &second);
    let view = IntervalView::new("host", &interval);
    let of_events = [
        ColumnId::BlockedNs,
        ColumnId::DelayAfterWakeupNs,
        ColumnId::LongestRunDelayNs,
        ColumnId::Wakeups,
        ColumnId::Migrations,
        ColumnId::WaitReason,
        ColumnId::WaitNs,
        ColumnId::OpenWait,
    ];
    for id in of_events {
        assert_eq!(view.thread(&interval.threads[0], id), Value::Null, "{id:?}");
        assert_eq!(view.process(interval.process(INIT).unwrap(), id), Value::Null, "{id:?}");
    }
    assert_eq!(view.thread(&interval.threads[2], ColumnId::Wakeups), Value::Int(1));
    assert_eq!(view.thread(&interval.threads[0], ColumnId::RunNs), Value::Int(20_000_000));
    assert_eq!(view.thread(&interval.threads[0], ColumnId::RunDelayNs), Value::Int(0));
    assert_eq!(view.host(ColumnId::UnknownNs), Value::Int(15_000_000));
    assert_eq!(view.thread(&interval.threads[0], ColumnId::Flags), Value::Text("unwatched".into()));
}

#[test]
fn where_no_switch_is_watched_no_thread_is_less_known_than_others() {
    let known = Fields::FIRST_RELEASE;
    let interval = Interval::between(&at(10, 0, [500, 40], 0, known), &at(11, 0, [520, 45], 0, known));
    assert!(interval.threads.iter().all(|row| row.flags.is_empty()), "{:?}", interval.threads);
    assert_eq!(interval.ledger.unknown_ns, 0);
}
