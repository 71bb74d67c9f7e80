//! An interval with every value set survives its JSON.

use super::*;
use cpumon_model::SourceKind;

fn delta(n: i64) -> model::Delta {
    model::Delta {
        user_ns: n,
        system_ns: -n,
        run_ns: i64::MAX,
        run_delay_ns: i64::MIN,
        voluntary_switches: n + 3,
        involuntary_switches: n + 4,
    }
}

fn sched(n: i64) -> model::SchedDelta {
    let reasons =
        [model::WaitReason::syscall(202), model::WaitReason::DISK, model::WaitReason::unknown_syscall(9)];
    model::SchedDelta {
        delay_after_wakeup_ns: n,
        blocked_ns: i64::MAX,
        wakeups: n + 1,
        migrations: n + 2,
        longest_delay_ns: n + 3,
        waits: reasons.into_iter().zip([u64::MAX, 5, 6]).collect(),
        open_wait: model::WaitReason::PAGE_FAULT,
    }
}

fn delays(process: model::ProcessKey) -> Vec<model::Delays> {
    let histogram = Arc::new([(3, 1), (255, u64::MAX - 1)].into_iter().collect());
    let thread = model::DelayOf::Thread(process, model::ThreadKey { tid: 1, start_ns: 5 });
    [model::DelayOf::Cpu(1), model::DelayOf::Process(process), thread]
        .map(|of| model::Delays { of, histogram: Arc::clone(&histogram) })
        .to_vec()
}

fn health() -> SourceHealth {
    SourceHealth {
        tasks_vanished: 1,
        permission_denied: 2,
        malformed: 3,
        exits_lost: 4,
        intervals_late: 5,
        intervals_skipped: 6,
        own_cpu_ns: 7,
        own_rss_bytes: 8,
        sched_untracked: 9,
        sched_missed_switches: 10,
        histogram_drops: 11,
        ring_drops: 12,
        execs_lost: 1,
        endings_lost: 2,
        cuts_lost: 3,
        hidden_left_out: 14,
        wakeups_unknown: 15,
        run_queue_unknown: 0,
        probes: model::Probes::SCHED | model::Probes::IRQ,
    }
}

fn process(key: model::ProcessKey) -> model::ProcessInterval {
    let info = model::ProcessInfo {
        name: "\u{1b}[2Jevil\"name".into(),
        comm: "comm".into(),
        cmdline: "a b".into(),
        cgroup: "/x".into(),
        container: "c".into(),
        interpreter: "python3.11".into(),
        session: Some(2),
        base_priority: Some(13),
        product: "Größe® 3".into(),
        user: "alice".into(),
        uid: 1000,
        is_kernel: true,
    };
    model::ProcessInterval {
        key,
        parent_pid: 1,
        info: Arc::new(info),
        thread_rows: 4,
        life: Life::Born,
        flags: Flags::NO_FINAL_COUNTERS,
        delta: delta(9),
        sched: sched(0),
    }
}

/// One of each life, with names that are text and such that are not.
fn threads(process: model::ProcessKey) -> Vec<model::ThreadInterval> {
    let thread = |tid: u32, comm: Comm, life: Life| model::ThreadInterval {
        key: model::ThreadKey { tid, start_ns: 5 },
        process,
        comm,
        state: TaskState(b'D'),
        nice: -5,
        priority: -51,
        last_cpu: 3,
        life,
        flags: Flags::FIRST_SIGHT | Flags::IMPOSSIBLE,
        delta: delta(7),
        sched: sched(4),
    };
    vec![
        thread(1, Comm::new(b"plain"), Life::Alive),
        thread(2, Comm::new(b"\xff\xfe\x01x"), Life::Born),
        thread(3, Comm::new("grüße".as_bytes()), Life::Ended),
        thread(4, Comm::default(), Life::BornEnded),
    ]
}

fn cpu() -> model::CpuInterval {
    model::CpuInterval {
        cpu: 1,
        times: model::CpuTimes::from_array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        went_back: true,
        sched: model::CpuSched {
            unknown_ns: 1,
            run_queue_ns: u64::MAX,
            run_queue_max: 3,
            switches: 4,
            softirq_ns: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        },
    }
}

fn ledger() -> model::Ledger {
    model::Ledger {
        capacity_ns: 1,
        threads_ns: 2,
        exited_ns: 3,
        irq_ns: 4,
        softirq_ns: 5,
        steal_ns: 6,
        idle_ns: -7,
        unknown_ns: 9,
        irq_in_run_time: true,
    }
}

fn full() -> model::Interval {
    let key = model::ProcessKey { pid: 10, start_ns: u64::MAX };
    model::Interval {
        host: model::HostId([1; 16]),
        boot: model::BootId([2; 16]),
        sequence: 3,
        source: SourceKind::Bpf,
        fields: Fields::all(),
        flags: Flags::SPANS_LOSS,
        begin: model::Moment { mono_ns: 1, boot_ns: 2, wall_ns: 3 },
        end: model::Moment { mono_ns: 4, boot_ns: 5, wall_ns: 6 },
        wall_shift_ns: -700,
        clock_piece: None,
        resting: None,
        idle_processes: None,
        corrects_lists: false,
        trust: Some(Trust::Authenticated),
        pass_ns: 7,
        v1_ticks: Some(634_000_000_000_000_000),
        cpus: vec![cpu()],
        processes: vec![process(key)],
        threads: threads(key),
        thread_count: 11,
        process_count: 12,
        ledger: ledger(),
        health: health(),
        irqs: vec![model::IrqInterval { irq: 9, name: "<eth0>".into(), time_ns: 5, count: u64::MAX }],
        delays: delays(key),
        cgroups: vec![
            model::CgroupInterval {
                id: 3,
                path: "/a/<b>".into(),
                limit: model::CpuLimit::Millionths(500_000),
                limiter_bytes: 2,
                throttle: Some(model::Throttle { periods: 10, throttled_periods: 8, throttled_ns: u64::MAX }),
                pressure: None,
            },
            model::CgroupInterval { path: "/c".into(), ..model::CgroupInterval::default() },
            model::CgroupInterval { limit: model::CpuLimit::Unlimited, ..model::CgroupInterval::default() },
        ],
        cgroups_left_out: 7,
        pressure: Some(model::Pressure { some_ns: 8, full_ns: 9 }),
    }
}

#[test]
fn an_interval_survives_its_json() {
    let interval = full();
    let json = serde_json::to_vec(&Interval::from(&interval)).unwrap();
    let back: Interval = serde_json::from_slice(&json).unwrap();
    assert_eq!(model::Interval::try_from(back).unwrap(), interval);
}

#[test]
fn a_count_that_nothing_measures_is_absent_and_a_zero_is_there() {
    let health = |fields| {
        let interval = model::Interval { fields, ..model::Interval::default() };
        serde_json::to_value(Interval::from(&interval).health).unwrap()
    };
    let (none, all) = (health(Fields::empty()), health(Fields::all()));
    for name in ["sched_untracked", "sched_missed_switches", "wakeups_unknown", "histogram_drops"] {
        assert_eq!((none.get(name), all[name].as_u64()), (None, Some(0)), "{name}");
    }
}

#[test]
fn an_idle_thread_costs_few_bytes() {
    let idle = model::ThreadInterval { comm: Comm::from("idle"), ..model::ThreadInterval::default() };
    let json = serde_json::to_string(&Thread::from(&idle)).unwrap();
    assert_eq!(json, r#"{"tid":0,"start_ns":0,"pid":0,"process_start_ns":0,"comm":"idle","state":63}"#);
}

#[test]
fn what_a_newer_receiver_adds_is_skipped() {
    let json = r#"{"host":"01010101010101010101010101010101","boot":"00000000000000000000000000000000","source":"crystal ball",
        "fields":["RUN","TELEPATHY"],"flags":["NEW_FLAG"],"brand_new":{"x":1}}"#;
    let back: Interval = serde_json::from_str(json).unwrap();
    let interval = model::Interval::try_from(back).unwrap();
    assert_eq!((interval.source, interval.fields), (SourceKind::Unknown, Fields::RUN));
}

#[test]
fn wrong_values_are_named() {
    let host = "01010101010101010101010101010101".to_owned();
    let bad = |thread: Thread| {
        let interval =
            Interval { host: host.clone(), boot: host.clone(), threads: vec![thread], ..Interval::default() };
        model::Interval::try_from(interval).unwrap_err().to_string()
    };
    let task = Task { life: "undead".into(), ..Task::default() };
    assert!(bad(Thread { task, ..Thread::default() }).contains("undead"));
    let nameless = model::Interval::try_from(Interval::default()).unwrap_err();
    assert!(nameless.to_string().contains("host"));
}
