//! Makes a store that is the same each time, for pictures of the page that are compared: `cargo run -p cpumon-store --example
//! picture_store -- FILE`. One host `picture`, two CPUs, ten minutes at 1 s with a hole of one; `encoder` works in waves, `database`
//! steadily with four threads, `nightly <job>` for two minutes. Nothing in it depends on this machine or this day.

use std::sync::Arc;

use cpumon_model::{
    BootId, CpuInterval, CpuSched, CpuTimes, Delta, Fields, HostId, HostInfo, Interval, Ledger, Life, Moment,
    ProcessInfo, ProcessInterval, ProcessKey, SchedDelta, SourceKind, TaskState, ThreadInterval, ThreadKey,
    Trust, WaitReason,
};
use cpumon_store::{StoreOptions, Writer};

const SECOND: u64 = 1_000_000_000;
/// 2026-01-01 00:00:00 UTC, seconds.
const BEGIN: u64 = 1_767_225_600;
const SECONDS: u64 = 600;
/// Where nothing was measured.
const HOLE: std::ops::Range<u64> = 330..390;
/// When the job runs.
const JOB: std::ops::Range<u64> = 430..550;

fn moment(second: u64) -> Moment {
    let ns = second * SECOND;
    Moment { mono_ns: ns, boot_ns: ns, wall_ns: (BEGIN * SECOND + ns).cast_signed() }
}

/// A triangle between 0 and 100 with this period, s.
fn wave(second: u64, period: u64) -> u64 {
    let at = second % period * 200 / period;
    at.min(200 - at)
}

/// A process of so many threads that together ran for so many ms.
fn process(
    into: &mut Interval,
    (pid, name): (u32, &str),
    (threads, run_ms): (u32, u64),
    (life, uid): (Life, u32),
) {
    let key = ProcessKey { pid, start_ns: 42 };
    let info = ProcessInfo { name: name.into(), comm: name.into(), uid, ..ProcessInfo::default() };
    let mut row = ProcessInterval {
        key,
        parent_pid: 1,
        info: Arc::new(info),
        thread_rows: threads,
        life,
        ..ProcessInterval::default()
    };
    for nth in 0..threads {
        let run_ns = (run_ms * 1_000_000 * u64::from(2 * (threads - nth))
            / u64::from(threads * (threads + 1)))
        .cast_signed();
        let delta = Delta {
            user_ns: run_ns / 4 * 3,
            system_ns: run_ns - run_ns / 4 * 3,
            run_ns,
            run_delay_ns: run_ns / 10,
            voluntary_switches: 40,
            involuntary_switches: 2,
        };
        let blocked_ns = SECOND.cast_signed() - run_ns - run_ns / 10;
        let sched = SchedDelta {
            blocked_ns,
            wakeups: 40,
            longest_delay_ns: 900_000 + run_ns / 1_000,
            waits: [(WaitReason::syscall(202), blocked_ns.unsigned_abs())].into_iter().collect(),
            ..SchedDelta::default()
        };
        row.delta += &delta;
        row.sched += &sched;
        into.threads.push(ThreadInterval {
            key: ThreadKey { tid: pid + nth, start_ns: 42 },
            process: key,
            comm: format!("worker-{nth}").as_str().into(),
            state: TaskState(b'S'),
            priority: 20,
            life,
            delta,
            sched,
            ..ThreadInterval::default()
        });
    }
    into.processes.push(row);
}

fn interval(second: u64) -> Interval {
    let mut one = Interval {
        host: HostId(*b"cpumon picture 1"),
        boot: BootId([1; 16]),
        sequence: second,
        source: SourceKind::Bpf,
        fields: Fields::all() - Fields::HISTOGRAMS - Fields::IRQ,
        begin: moment(second - 1),
        end: moment(second),
        thread_count: 84,
        process_count: 31,
        ..Interval::default()
    };
    process(&mut one, (100, "database"), (4, 220), (Life::Alive, 70));
    process(&mut one, (200, "encoder"), (2, 7 * wave(second, 120)), (Life::Alive, 1000));
    if JOB.contains(&second) {
        let life = if second == JOB.start {
            Life::Born
        } else if second + 1 == JOB.end {
            Life::Ended
        } else {
            Life::Alive
        };
        process(&mut one, (300, "nightly <job>"), (1, 350), (life, 0));
    }
    let run_ns: i64 = one.processes.iter().map(|row| row.delta.run_ns).sum();
    let delay_ns: i64 = one.processes.iter().map(|row| row.delta.run_delay_ns).sum();
    let each = |ns: i64| (ns / 2).unsigned_abs();
    let times = CpuTimes {
        user_ns: each(run_ns) / 4 * 3,
        system_ns: each(run_ns) / 4,
        idle_ns: SECOND - each(run_ns),
        ..CpuTimes::default()
    };
    let sched = CpuSched {
        run_queue_ns: each(run_ns + delay_ns * 4),
        run_queue_max: 2 + u32::try_from(wave(second, 120) / 25).unwrap_or(0),
        switches: 900,
        ..CpuSched::default()
    };
    one.cpus = (0..2).map(|cpu| CpuInterval { cpu, times, went_back: false, sched }).collect();
    let capacity_ns = 2 * SECOND.cast_signed();
    one.ledger =
        Ledger { capacity_ns, threads_ns: run_ns, idle_ns: capacity_ns - run_ns, ..Ledger::default() };
    one
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: picture_store FILE")?;
    let options = StoreOptions { max_age: None, ..StoreOptions::default() };
    let mut writer = Writer::open(path.as_ref(), &options)?;
    for second in (1..=SECONDS).filter(|second| !HOLE.contains(second)) {
        let one = interval(second);
        let info = HostInfo {
            host: one.host,
            boot: one.boot,
            hostname: "picture".into(),
            kernel: "Linux 6.18".into(),
            cpu_count: 2,
            interval_ns: SECOND,
            ..HostInfo::default()
        };
        writer.put_received(&info, Trust::Local, None, &one, one.end.wall_ns)?;
    }
    writer.compact_host(interval(1).host)?;
    Ok(())
}
