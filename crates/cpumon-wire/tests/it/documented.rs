//! docs/wire-format.md: its worked example is what the encoder writes, byte for byte.

use std::sync::Arc;

use cpumon_model::{
    BootId, Comm, Counters, CpuSample, CpuTimes, Fields, HostId, HostInfo, Interval, Moment, ProcessInfo,
    ProcessKey, ProcessSample, Snapshot, SourceKind, TaskState, ThreadKey, ThreadSample,
};
use cpumon_wire::Datagrams;
use cpumon_wire::v2::{Encoder, EncoderOptions, decode};

/// The second snapshot of an agent start: one CPU, one process, and two threads that both ran.
fn example() -> (HostInfo, Snapshot, Interval) {
    let host = HostInfo {
        host: HostId(std::array::from_fn(|at| u8::try_from(at).unwrap())),
        boot: BootId(std::array::from_fn(|at| 0xf0 + u8::try_from(at).unwrap())),
        ..HostInfo::default()
    };
    let process = ProcessKey { pid: 700, start_ns: 5_000_000_000 };
    let thread = |tid, start_ns, counters| ThreadSample {
        key: ThreadKey { tid, start_ns },
        process,
        comm: Comm::from("pump"),
        state: TaskState(b'S'),
        priority: 20,
        counters,
        ..ThreadSample::default()
    };
    let counters = |run_ns, user_ns, voluntary_switches| Counters {
        run_ns,
        user_ns,
        system_ns: run_ns - user_ns,
        voluntary_switches,
        ..Counters::default()
    };
    let before = Snapshot {
        host: host.host,
        boot: host.boot,
        sequence: 6,
        source: SourceKind::Bpf,
        fields: Fields::FIRST_RELEASE,
        is_complete: true,
        end: Moment { mono_ns: 99_000_000_000, boot_ns: 99_000_000_000, wall_ns: 1_700_000_000_000_000_000 },
        processes: vec![ProcessSample {
            key: process,
            parent_pid: 1,
            info: Arc::new(ProcessInfo { name: "pump".into(), ..ProcessInfo::default() }),
            ..ProcessSample::default()
        }],
        threads: vec![
            thread(700, 5_000_000_000, counters(1_000_000, 400_000, 10)),
            thread(703, 5_000_020_000, counters(2_000_000, 0, 4)),
        ],
        thread_count: 2,
        process_count: 1,
        ..Snapshot::default()
    };
    let mut after = before.clone();
    after.sequence = 7;
    after.end =
        Moment { mono_ns: 100_000_000_000, boot_ns: 100_000_000_000, wall_ns: 1_700_000_001_000_000_000 };
    after.begin =
        Moment { mono_ns: 99_999_000_000, boot_ns: 99_999_000_000, wall_ns: 1_700_000_000_999_000_000 };
    after.cpus = vec![CpuSample {
        cpu: 0,
        times: CpuTimes { user_ns: 30_000_000, idle_ns: 99_970_000_000, ..CpuTimes::default() },
        ..CpuSample::default()
    }];
    after.threads[0].counters = counters(1_234_567, 600_000, 12);
    after.threads[1].counters = counters(2_050_000, 0, 5);
    let interval = Interval::between(&before, &after);
    (host, after, interval)
}

/// The hexadecimal lines of the block that follows a heading.
fn documented(heading: &str) -> Vec<u8> {
    let page = include_str!("../../../../docs/wire-format.md");
    let (_, rest) = page.split_once(heading).expect("the heading is there");
    let block = rest.split("```").nth(1).expect("a block follows");
    let digits = block.lines().skip(1).flat_map(|line| {
        let bytes = line.split("  ").nth(1).unwrap_or("");
        bytes.split(' ').filter(|byte| !byte.is_empty())
    });
    digits.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[test]
fn the_worked_example_of_a_frame_is_right() {
    let (host, snapshot, interval) = example();
    let options = EncoderOptions { full_snapshots: 1, agent_start: 0x1122_3344, ..EncoderOptions::default() };
    let mut encoder = Encoder::new(options);
    let mut out = Datagrams::new();
    let mut first = snapshot.clone();
    first.sequence = 6;
    // Names are sent twice, so the third snapshot is the first without.
    for _ in 0..3 {
        encoder.encode(&host, &first, &interval, &mut out);
    }
    encoder.encode(&host, &snapshot, &interval, &mut out);
    let [datagram] = out.as_slice() else { panic!("one datagram") };
    let hex: Vec<String> = datagram.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(documented("### A worked example"), *datagram, "{}", hex.join(" "));
    let frame = decode(datagram).unwrap();
    let rows: Vec<_> = frame.threads.iter().map(|row| row.sample.counters).collect();
    assert_eq!(rows, snapshot.threads.iter().map(|thread| thread.counters).collect::<Vec<_>>());
}
