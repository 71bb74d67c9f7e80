//! Whatever numbers and texts a snapshot holds: they come out of its frames as they went in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cpumon_model::{
    CgroupSample, Comm, Counters, CpuLimit, CpuSample, CpuSched, CpuTimes, DelayOf, Delays, ExitSample,
    Fields, HostInfo, Interval, IrqSample, Moment, Pressure, Probes, ProcessInfo, ProcessKey, ProcessSample,
    SchedTimes, Snapshot, SourceHealth, SourceKind, TaskState, ThreadKey, ThreadSample, Throttle, WaitFor,
    WaitKind, WaitReason, WaitedOn, Waits,
};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions, decode};
use proptest::prelude::*;

use crate::carried::as_carried;
use crate::v2_frames::gather;

/// Small, round, huge: the shapes that choose different codings.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0..100_u64,
        (0..5_000_000_u64).prop_map(|ticks| ticks * 10_000_000),
        (0..u64::from(u32::MAX)).prop_map(|us| us * 1_000),
        any::<u64>(),
        Just(u64::MAX)
    ]
    // On the heap: unoptimized, the strategies of all numbers together are too large for a test's stack.
    .boxed()
}

fn counters() -> impl Strategy<Value = Counters> {
    prop::array::uniform8(number()).prop_map(
        |[user, system, run, delay, voluntary, involuntary, minor, major]| Counters {
            user_ns: user,
            system_ns: system,
            run_ns: run,
            run_delay_ns: delay,
            voluntary_switches: voluntary,
            involuntary_switches: involuntary,
            minor_faults: minor,
            major_faults: major,
        },
    )
}

/// Times whose sums fit 64 bits.
fn time() -> impl Strategy<Value = u64> {
    number().prop_map(|ns| ns >> 5)
}

/// The time of a CPU in a mode, up to the bound that sources keep to.
fn mode() -> impl Strategy<Value = u64> {
    prop_oneof![number().prop_map(|ns| ns.min(CpuTimes::MAX_NS)), Just(CpuTimes::MAX_NS)].boxed()
}

fn sched() -> impl Strategy<Value = SchedTimes> {
    let reason = prop_oneof![0_u16..8, 0x1000_u16..0x3000].prop_map(WaitReason);
    let waits = prop::collection::btree_map(reason.clone(), time(), 0..6);
    (waits, prop::array::uniform5(time()), reason)
        .prop_map(|(waits, [delay, rest, wakeups, migrations, longest], open)| {
            let waits: Waits = waits.into_iter().collect();
            SchedTimes {
                delay_after_wakeup_ns: delay,
                blocked_ns: rest + waits.total_ns(),
                wakeups,
                migrations,
                longest_delay_ns: longest,
                waits,
                open_wait: open,
            }
        })
        // On the heap: unoptimized, its state is too much for the stack of a test.
        .boxed()
}

fn cpu_sched() -> impl Strategy<Value = CpuSched> {
    (prop::array::uniform3(number()), any::<u32>(), prop::array::uniform10(number())).prop_map(
        |([unknown_ns, run_queue_ns, switches], run_queue_max, softirq_ns)| CpuSched {
            unknown_ns,
            run_queue_ns,
            run_queue_max,
            switches,
            softirq_ns,
        },
    )
}

fn irq() -> impl Strategy<Value = IrqSample> {
    (any::<u32>(), "\\PC{0,12}", number(), number()).prop_map(|(irq, name, time_ns, count)| IrqSample {
        irq,
        name: name.into(),
        time_ns,
        count,
    })
}

fn pressure() -> impl Strategy<Value = Option<Pressure>> {
    prop::option::of((number(), number()).prop_map(|(some_ns, full_ns)| Pressure { some_ns, full_ns }))
}

fn cgroup() -> impl Strategy<Value = CgroupSample> {
    let throttle = (number(), number(), number()).prop_map(|(periods, throttled_periods, throttled_ns)| {
        Throttle { periods, throttled_periods, throttled_ns }
    });
    let about = (number(), "/\\PC{0,12}", number(), any::<u16>());
    (about, prop::option::of(throttle), pressure()).prop_map(
        |((id, path, limit, limiter_bytes), throttle, pressure)| {
            let limit = CpuLimit::from_code(limit);
            CgroupSample { id, path: path.into(), limit, limiter_bytes, throttle, pressure }
        },
    )
}

fn process_key() -> impl Strategy<Value = ProcessKey> {
    (prop_oneof![0..6_u32, any::<u32>()], number()).prop_map(|(pid, start_ns)| ProcessKey { pid, start_ns })
}

fn wait_for() -> impl Strategy<Value = WaitFor> {
    let reason = prop_oneof![0_u16..8, 0x1000_u16..0x3000].prop_map(WaitReason);
    let kind =
        prop_oneof![Just(WaitKind::Ready), Just(WaitKind::Throttled), reason.prop_map(WaitKind::Blocked)];
    let on = prop_oneof![
        Just(WaitedOn::Others),
        Just(WaitedOn::Interrupt),
        process_key().prop_map(WaitedOn::Process),
        (0..9_u32, number()).prop_map(|(tid, start_ns)| WaitedOn::Thread(ThreadKey { tid, start_ns })),
    ];
    (process_key(), kind, on, number(), number())
        .prop_map(|(waiter, kind, on, ns, count)| WaitFor { waiter, kind, on, ns, count })
        .boxed()
}

fn thread() -> impl Strategy<Value = ThreadSample> {
    let key = (prop_oneof![0..9_u32, any::<u32>()], number());
    let rest = (
        prop::collection::vec(1..=255_u8, 0..15),
        any::<u8>(),
        any::<i8>(),
        any::<i16>(),
        any::<(u16, bool)>(),
    );
    (key, process_key(), rest, counters(), sched())
        .prop_map(|((tid, start_ns), process, rest, counters, sched)| {
            let (comm, state, nice, priority, (last_cpu, has_one_cpu)) = rest;
            ThreadSample {
                key: ThreadKey { tid, start_ns },
                process,
                comm: Comm::new(&comm),
                state: TaskState(state),
                nice,
                priority,
                last_cpu,
                has_one_cpu,
                counters,
                sched,
            }
        })
        // On the heap: unoptimized, their state is too much for the stack of a test.
        .boxed()
}

fn info() -> impl Strategy<Value = Arc<ProcessInfo>> {
    let beside = ("\\PC{0,9}", "[a-b]{0,2}", "\\PC{0,9}");
    let of_process = ("\\PC{0,8}", "[a-b]{0,2}", "\\PC{0,30}", "[a-b/]{0,9}", "[a-b]{0,2}");
    let numbers = (any::<u32>(), any::<bool>(), any::<Option<u32>>(), any::<Option<u8>>());
    (of_process, beside, numbers).prop_map(
        |((name, comm, cmdline, cgroup, container), (interpreter, user, product), numbers)| {
            let (uid, is_kernel, session, base_priority) = numbers;
            Arc::new(ProcessInfo {
                name: name.into(),
                comm: comm.into(),
                cmdline: cmdline.into(),
                cgroup: cgroup.into(),
                container: container.into(),
                interpreter: interpreter.into(),
                user: user.into(),
                uid,
                is_kernel,
                session,
                base_priority,
                product: product.into(),
            })
        },
    )
}

/// 0 is no CPU, and a bucket without delays is not sent.
fn delays() -> impl Strategy<Value = Delays> {
    let key = || (1..u32::MAX, any::<u64>());
    let of = prop_oneof![
        any::<u32>().prop_map(DelayOf::Cpu),
        key().prop_map(|(pid, start_ns)| DelayOf::Process(ProcessKey { pid, start_ns })),
        (key(), key()).prop_map(|((pid, start), (tid, start_ns))| {
            DelayOf::Thread(ProcessKey { pid, start_ns: start }, ThreadKey { tid, start_ns })
        }),
    ];
    let counts = prop::collection::btree_map(any::<u8>(), 1..u64::MAX, 1..20);
    (of, counts)
        .prop_map(|(of, counts)| Delays { of, histogram: Arc::new(counts.into_iter().collect()) })
        .boxed()
}

fn moment() -> impl Strategy<Value = Moment> {
    (any::<u64>(), any::<u64>(), any::<i64>()).prop_map(|(mono_ns, boot_ns, wall_ns)| Moment {
        mono_ns,
        boot_ns,
        wall_ns,
    })
}

fn exit() -> impl Strategy<Value = ExitSample> {
    (thread(), any::<u32>(), info(), any::<u64>(), any::<bool>())
        .prop_map(|(thread, parent_pid, info, end_ns, ends_process)| ExitSample {
            thread,
            parent_pid,
            info,
            end_ns,
            ends_process,
        })
        .boxed()
}

prop_compose! {
    fn snapshot()(
        moments in (moment(), moment()),
        numbers in (any::<u64>(), any::<u32>(), any::<u32>(), any::<bool>()),
        fields in any::<u32>().prop_map(|bits| Fields::CARRIED & Fields::from_bits_truncate(bits)),
        exited_total in counters(),
        health in prop::array::uniform19(number()),
        cpus in prop::collection::btree_map(any::<u32>(), (prop::array::uniform10(mode()), cpu_sched()), 0..6),
        irqs in (any::<u16>(), prop::collection::vec(irq(), 0..9)),
        processes in prop::collection::btree_map(process_key(), (any::<u32>(), info(), counters()), 0..20),
        threads in prop::collection::vec(thread(), 0..60),
        exits in prop::collection::vec(exit(), 0..20),
        delays in prop::collection::vec(delays(), 0..9),
        cgroups in (prop::collection::vec(cgroup(), 0..9), pressure(), any::<u32>(), prop::collection::vec(wait_for(), 0..40)),
    ) -> Snapshot {
        let [tasks_vanished, permission_denied, malformed, exits_lost, late, skipped, cpu, rss, untracked, missed, drops, ring_drops, execs_lost, endings_lost, cuts_lost, hidden_left_out, wakeups_unknown, run_queue_unknown, wakers_unknown] = health;
        let threads: BTreeMap<_, _> = threads.into_iter().map(|thread| (thread.key, thread)).collect();
        let mut keys = BTreeSet::new();
        let mut snapshot = Snapshot {
            sequence: numbers.0,
            thread_count: numbers.1,
            process_count: numbers.2,
            irq_in_run_time: numbers.3,
            source: SourceKind::Procfs,
            is_complete: true,
            fields,
            begin: moments.0,
            end: moments.1,
            exited_total,
            health: SourceHealth {
                tasks_vanished, permission_denied, malformed, exits_lost,
                intervals_late: late, intervals_skipped: skipped, own_cpu_ns: cpu, own_rss_bytes: rss,
                sched_untracked: untracked, sched_missed_switches: missed, histogram_drops: drops, ring_drops, execs_lost, endings_lost, cuts_lost, hidden_left_out, wakeups_unknown, run_queue_unknown, wakers_unknown, probes: Probes::from_bits_truncate(irqs.0),
            },
            cpus: cpus.into_iter().map(|(cpu, (modes, sched))| CpuSample { cpu, times: CpuTimes::from_array(modes), sched }).collect(),
            processes: processes.into_iter().map(|(key, (parent_pid, info, ended_threads))| {
                ProcessSample { key, parent_pid, info, ended_threads }
            }).collect(),
            threads: threads.into_values().collect(),
            irqs: irqs.1.into_iter().map(|irq| (irq.irq, irq)).collect::<BTreeMap<_, _>>().into_values().collect(),
            delays: delays.into_iter().map(|row| (row.of, row)).collect::<BTreeMap<_, _>>().into_values().collect(),
            cgroups: cgroups.0.into_iter().map(|row| (row.id, row)).collect::<BTreeMap<_, _>>().into_values().collect(),
            pressure: cgroups.1,
            cgroups_left_out: cgroups.2,
            waits_for: cgroups.3.into_iter().map(|row| (row.key(), row)).collect::<BTreeMap<_, _>>().into_values().collect(),
            exits: exits.into_iter().filter(|exit| keys.insert(exit.thread.key)).collect(),
            ..Snapshot::default()
        };
        snapshot.sort();
        snapshot
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_survives_its_frames(snapshot in snapshot(), max_datagram in prop_oneof![860..2_000_usize, Just(65_000)]) {
        let host = HostInfo { hostname: "h".into(), ..HostInfo::default() };
        let mut encoder = Encoder::new(EncoderOptions { max_datagram, ..EncoderOptions::default() });
        let mut out = Datagrams::new();
        let report = encoder.encode(&host, &snapshot, &Interval::default(), &mut out);
        prop_assert_eq!((report.rows_lost, report.texts_cut), (0, 0));
        prop_assert!(out.iter().all(|datagram| datagram.len() <= max_datagram));
        prop_assert_eq!(gather(&out), as_carried(&snapshot));
    }
}

/// Every unprivileged agent warned of a name that is too long, because of this text.
#[test]
fn a_long_reason_for_the_source_comes_whole() {
    for (length, cut) in [(300, 0), (512, 0), (513, 1)] {
        let reason = "r".repeat(length);
        let host = HostInfo { source_reason: reason.as_str().into(), ..HostInfo::default() };
        let mut out = Datagrams::new();
        let snapshot = Snapshot { is_complete: true, ..Snapshot::default() };
        let report =
            Encoder::new(EncoderOptions::default()).encode(&host, &snapshot, &Interval::default(), &mut out);
        assert_eq!((report.rows_lost, report.texts_cut), (0, cut), "{length}");
        let came = out.iter().find_map(|datagram| decode(datagram).unwrap().host).unwrap().source_reason;
        assert!(if cut == 0 { *came == *reason } else { came.ends_with("r…") }, "{length}: {came}");
    }
}

#[test]
fn a_giant_command_line_is_cut_and_marked() {
    let info =
        ProcessInfo { name: "sh".into(), cmdline: "é".repeat(40_000).into(), ..ProcessInfo::default() };
    let process = ProcessSample { info: Arc::new(info), ..ProcessSample::default() };
    let snapshot = Snapshot { processes: vec![process], is_complete: true, ..Snapshot::default() };
    let mut out = Datagrams::new();
    let report = Encoder::new(EncoderOptions::default()).encode(
        &HostInfo::default(),
        &snapshot,
        &Interval::default(),
        &mut out,
    );
    assert_eq!((report.rows_lost, report.texts_cut), (0, 1));
    assert!(out.iter().all(|datagram| datagram.len() <= 1_400));
    let process = &gather(&out).processes[0];
    assert_eq!(&*process.info.name, "sh");
    assert!(process.info.cmdline.ends_with("é…") && process.info.cmdline.len() > 1_000);
}

/// A thread of years, with as many wait reasons as it can have: its last row was lost where its command line was long, too.
#[test]
fn the_largest_exit_fits_beside_a_long_command_line() {
    let most = (1 << 58) + 0x2_3456_789a_bcdf;
    let waits: Waits = (0..6).map(|nth| (WaitReason(0x1001 + nth), most / 7 + u64::from(nth))).collect();
    let thread = ThreadSample {
        key: ThreadKey { tid: u32::MAX, start_ns: most },
        process: ProcessKey { pid: u32::MAX - 1, start_ns: most - 1_000_001 },
        comm: Comm::new(b"fifteen letters"),
        nice: -20,
        priority: i16::MIN,
        last_cpu: u16::MAX,
        counters: Counters {
            user_ns: most,
            system_ns: most,
            run_ns: most,
            run_delay_ns: most,
            voluntary_switches: most,
            involuntary_switches: most,
            minor_faults: most,
            major_faults: most,
        },
        sched: SchedTimes {
            delay_after_wakeup_ns: most,
            blocked_ns: most,
            wakeups: most,
            migrations: most,
            longest_delay_ns: most,
            waits,
            open_wait: WaitReason(0x1001),
        },
        ..ThreadSample::default()
    };
    let info = ProcessInfo {
        name: "n".repeat(255).into(),
        cmdline: "é".repeat(40_000).into(),
        ..ProcessInfo::default()
    };
    let exit =
        ExitSample { thread, parent_pid: u32::MAX, info: Arc::new(info), end_ns: most, ends_process: true };
    let snapshot =
        Snapshot { exits: vec![exit], is_complete: true, fields: Fields::all(), ..Snapshot::default() };
    for max_datagram in [768, 1_400] {
        let mut out = Datagrams::new();
        let mut encoder = Encoder::new(EncoderOptions { max_datagram, ..EncoderOptions::default() });
        let report = encoder.encode(&HostInfo::default(), &snapshot, &Interval::default(), &mut out);
        assert_eq!((report.rows_lost, report.texts_cut > 0), (0, true), "{max_datagram}");
        let rows: Vec<_> = out.iter().flat_map(|datagram| decode(datagram).unwrap().exits).collect();
        assert_eq!(rows[0].thread.counters.major_faults, most, "{max_datagram}");
    }
}

/// In a file nothing is repeated: an interrupt line that was handled before and not since has no row.
#[test]
fn a_record_has_no_line_that_was_not_handled() {
    let lines = |count| Snapshot {
        irqs: vec![IrqSample { irq: 7, name: "eth0".into(), time_ns: 5_000 * count, count }],
        is_complete: true,
        fields: Fields::all(),
        ..Snapshot::default()
    };
    let mut encoder =
        Encoder::new(EncoderOptions { is_lossless: true, full_snapshots: 1, ..EncoderOptions::default() });
    let mut rows = |snapshot: &Snapshot, before: &Snapshot| {
        let mut out = Datagrams::new();
        encoder.encode(&HostInfo::default(), snapshot, &Interval::between(before, snapshot), &mut out);
        out.iter().map(|datagram| decode(datagram).unwrap().irqs.len()).sum::<usize>()
    };
    let (first, same, handled) = (lines(1), lines(1), lines(2));
    assert_eq!(rows(&first, &Snapshot::default()), 1);
    assert_eq!(rows(&same, &first), 0);
    assert_eq!(rows(&handled, &same), 1);
}
