//! Makes a small store to try SQL on: `cargo run -p cpumon-store --example sample_store -- FILE`.
//! One host `sample`, ten seconds, processes `web` (pid 100, two threads) and `=cmd()` (pid 200, ends in the last second).

use std::sync::Arc;

use cpumon_model::{
    BootId, CpuInterval, CpuTimes, Delta, Fields, HostId, HostInfo, Interval, Ledger, Life, Moment,
    ProcessInfo, ProcessInterval, ProcessKey, SourceKind, TaskState, ThreadInterval, ThreadKey, Trust,
};
use cpumon_store::{StoreOptions, Writer};

const SECOND: u64 = 1_000_000_000;
/// 2026-01-01 00:00:00 UTC, seconds.
const BEGIN: u64 = 1_767_225_600;

fn moment(second: u64) -> Moment {
    let ns = second * SECOND;
    Moment { mono_ns: ns, boot_ns: ns, wall_ns: (BEGIN * SECOND + ns).cast_signed() }
}

fn process(pid: u32, name: &str, user_ns: i64, life: Life) -> ProcessInterval {
    let info = ProcessInfo { name: name.into(), comm: name.into(), uid: 1000, ..ProcessInfo::default() };
    ProcessInterval {
        key: ProcessKey { pid, start_ns: 42 },
        parent_pid: 1,
        info: Arc::new(info),
        thread_rows: 1,
        life,
        delta: Delta { user_ns, run_ns: user_ns, ..Delta::default() },
        ..ProcessInterval::default()
    }
}

fn thread(of: &ProcessInterval, tid: u32, share: i64) -> ThreadInterval {
    let user_ns = of.delta.user_ns / share;
    ThreadInterval {
        key: ThreadKey { tid, start_ns: 43 },
        process: of.key,
        comm: "worker".into(),
        state: TaskState(b'S'),
        priority: 20,
        life: of.life,
        delta: Delta { user_ns, run_ns: user_ns, ..Delta::default() },
        ..ThreadInterval::default()
    }
}

fn interval(second: u64) -> Interval {
    let work = (second * 1_000_000).cast_signed();
    let end = if second == 10 { Life::Ended } else { Life::Alive };
    let processes = vec![process(100, "web", work * 2, Life::Alive), process(200, "=cmd()", work, end)];
    let threads =
        vec![thread(&processes[0], 100, 2), thread(&processes[0], 101, 2), thread(&processes[1], 200, 1)];
    let times = CpuTimes { user_ns: work.cast_unsigned(), idle_ns: SECOND, ..CpuTimes::default() };
    Interval {
        host: HostId(*b"cpumon sample 01"),
        boot: BootId([1; 16]),
        sequence: second,
        source: SourceKind::Bpf,
        fields: Fields::all(),
        begin: moment(second - 1),
        end: moment(second),
        cpus: vec![CpuInterval { cpu: 0, times, went_back: false, ..CpuInterval::default() }],
        ledger: Ledger { capacity_ns: SECOND.cast_signed(), threads_ns: work * 3, ..Ledger::default() },
        thread_count: 3,
        process_count: 2,
        processes,
        threads,
        ..Interval::default()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: sample_store FILE")?;
    let mut writer = Writer::open(path.as_ref(), &StoreOptions::default())?;
    for second in 1..=10 {
        let one = interval(second);
        let info = HostInfo {
            host: one.host,
            boot: one.boot,
            hostname: "sample".into(),
            kernel: "Linux 6.18".into(),
            cpu_count: 1,
            interval_ns: SECOND,
            ..HostInfo::default()
        };
        writer.put(&info, Trust::Local, None, &one)?;
    }
    writer.commit()?;
    Ok(())
}
