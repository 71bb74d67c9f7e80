//! An interval with every value set survives its JSON.

use std::sync::Arc;

use crate::{
    BootId, CgroupInterval, Comm, CpuInterval, CpuLimit, CpuSched, CpuTimes, DelayOf, Delays, Delta, Fields,
    Flags, HostClock, HostId, HostInfo, HostStatus, Interval, IrqInterval, Ledger, Life, LossCounts, Moment,
    Pressure, Probes, ProcessInfo, ProcessInterval, ProcessKey, SchedDelta, SourceHealth, SourceKind,
    TaskState, ThreadInterval, ThreadKey, Throttle, Trust, WaitFor, WaitKind, WaitReason, WaitedOn,
};

fn delta(n: i64) -> Delta {
    Delta {
        user_ns: n,
        system_ns: -n,
        run_ns: i64::MAX,
        run_delay_ns: i64::MIN,
        voluntary_switches: n + 3,
        involuntary_switches: n + 4,
        minor_faults: n + 5,
        major_faults: n + 6,
    }
}

fn sched(n: i64) -> SchedDelta {
    let reasons = [WaitReason::syscall(202), WaitReason::DISK, WaitReason::unknown_syscall(9)];
    SchedDelta {
        delay_after_wakeup_ns: n,
        blocked_ns: i64::MAX,
        wakeups: n + 1,
        migrations: n + 2,
        longest_delay_ns: n + 3,
        waits: reasons.into_iter().zip([u64::MAX, 5, 6]).collect(),
        open_wait: WaitReason::PAGE_FAULT,
    }
}

fn delays(process: ProcessKey) -> Vec<Delays> {
    let histogram = Arc::new([(3, 1), (255, u64::MAX - 1)].into_iter().collect());
    let thread = DelayOf::Thread(process, ThreadKey { tid: 1, start_ns: 5 });
    [DelayOf::Cpu(1), DelayOf::Process(process), thread]
        .map(|of| Delays { of, histogram: Arc::clone(&histogram) })
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
        wakers_unknown: 0,
        probes: Probes::SCHED | Probes::IRQ,
    }
}

fn process(key: ProcessKey) -> ProcessInterval {
    let info = ProcessInfo {
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
    ProcessInterval {
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
fn threads(process: ProcessKey) -> Vec<ThreadInterval> {
    let thread = |tid: u32, comm: Comm, life: Life| ThreadInterval {
        key: ThreadKey { tid, start_ns: 5 },
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

fn cpu() -> CpuInterval {
    CpuInterval {
        cpu: 1,
        times: CpuTimes::from_array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        went_back: true,
        sched: CpuSched {
            unknown_ns: 1,
            run_queue_ns: u64::MAX,
            run_queue_max: 3,
            switches: 4,
            softirq_ns: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        },
    }
}

fn ledger() -> Ledger {
    Ledger {
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

fn full() -> Interval {
    let key = ProcessKey { pid: 10, start_ns: u64::MAX };
    Interval {
        host: HostId([1; 16]),
        boot: BootId([2; 16]),
        sequence: 3,
        source: SourceKind::Bpf,
        fields: Fields::all(),
        flags: Flags::SPANS_LOSS,
        begin: Moment { mono_ns: 1, boot_ns: 2, wall_ns: 3 },
        end: Moment { mono_ns: 4, boot_ns: 5, wall_ns: 6 },
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
        irqs: vec![IrqInterval { irq: 9, name: "<eth0>".into(), time_ns: 5, count: u64::MAX }],
        delays: delays(key),
        cgroups: vec![
            CgroupInterval {
                id: 3,
                path: "/a/<b>".into(),
                limit: CpuLimit::Millionths(500_000),
                limiter_bytes: 2,
                throttle: Some(Throttle { periods: 10, throttled_periods: 8, throttled_ns: u64::MAX }),
                pressure: None,
            },
            CgroupInterval { path: "/c".into(), ..CgroupInterval::default() },
            CgroupInterval { limit: CpuLimit::Unlimited, ..CgroupInterval::default() },
        ],
        waits_for: vec![WaitFor {
            waiter: ProcessKey { pid: 1, start_ns: 2 },
            kind: WaitKind::Blocked(WaitReason::DISK),
            on: WaitedOn::Process(ProcessKey { pid: 3, start_ns: 4 }),
            ns: 5,
            count: 6,
        }],
        cgroups_left_out: 7,
        pressure: Some(Pressure { some_ns: 8, full_ns: 9 }),
    }
}

#[test]
fn an_interval_survives_its_json() {
    let interval = full();
    let json = serde_json::to_vec(&interval).unwrap();
    assert_eq!(serde_json::from_slice::<Interval>(&json).unwrap(), interval);
}

#[test]
fn an_idle_thread_costs_few_bytes() {
    let idle = ThreadInterval { comm: Comm::from("idle"), ..ThreadInterval::default() };
    let json = serde_json::to_string(&idle).unwrap();
    let key = r#"{"key":{"tid":0,"start_ns":0},"process":{"pid":0,"start_ns":0},"comm":"idle","state":63}"#;
    assert_eq!(json, key);
}

#[test]
fn what_a_newer_receiver_adds_is_skipped() {
    let json = r#"{"host":"01010101010101010101010101010101","boot":"00000000000000000000000000000000","source":"crystal ball",
        "fields":["RUN","TELEPATHY"],"flags":["NEW_FLAG"],"brand_new":{"x":1}}"#;
    let interval: Interval = serde_json::from_str(json).unwrap();
    assert_eq!((interval.source, interval.fields), (SourceKind::Unknown, Fields::RUN));
}

#[test]
fn wrong_values_are_named() {
    let refused = |json: &str| serde_json::from_str::<Interval>(json).unwrap_err().to_string();
    assert!(refused(r#"{"threads":[{"life":"undead"}]}"#).contains("undead"));
    assert!(refused(r#"{"host":"web"}"#).contains("32 hexadecimal digits"));
    let long = format!(r#"{{"threads":[{{"comm":[{}1]}}]}}"#, "1,".repeat(99));
    let cut: Interval = serde_json::from_str(&long).unwrap();
    assert_eq!(cut.threads[0].comm.as_bytes(), [1; Comm::MAX_BYTES]);
}

#[test]
fn a_host_survives_its_json() {
    let status = HostStatus {
        info: HostInfo {
            host: HostId([7; 16]),
            boot: BootId([9; 16]),
            hostname: "dev\u{1b}ice".into(),
            kernel: "Linux 6.18".into(),
            arch: "x86_64".into(),
            agent: "cpumon 0.1.0".into(),
            source_reason: "bpf: permitted".into(),
            cpu_count: 4,
            interval_ns: 1_000_000_000,
        },
        address: "10.0.0.2:41234".into(),
        trust: Trust::Unauthenticated,
        source: SourceKind::Bpf,
        last: Moment { mono_ns: u64::MAX, boot_ns: 2, wall_ns: i64::MIN },
        received_wall_ns: 3,
        clock: Some(HostClock { offset_ns: -9, round_trip_ns: 4, drift_ppb: Some(-5), steps: 6 }),
        thread_count: 4,
        process_count: 5,
        loss: LossCounts {
            datagrams: 1,
            bytes: 2,
            snapshots: 3,
            snapshots_lost: 4,
            snapshots_partial: 5,
            duplicates: 6,
            reordered: 7,
            rejected: 8,
            store_dropped: 9,
        },
    };
    let json = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<HostStatus>(&json).unwrap(), status);
}
