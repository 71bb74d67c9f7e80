//! Makes a store that is the same each time, for pictures of the page that are compared: `cargo run -p cpumon-store --example
//! picture_store -- FILE`. One host `picture`, two CPUs, ten minutes at 1 s with a hole of one; `encoder` works in waves, `database`
//! steadily with four threads, `nightly <job>` for two minutes. Nothing in it depends on this machine or this day.
//!
//! With `night` behind FILE: three hosts over the nine hours of a night, at 10 s; `beta` makes a `backup` for an hour and a half.
//! With `hostile`: names that somebody would send to break a page.

mod hostile;

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

/// Adds a process with `threads` threads that run `run_ms` ms together, the first one longest.
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
            minor_faults: 3,
            major_faults: 1,
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

/// An interval without rows.
fn blank(host: HostId, boot: u8, sequence: u64, [begin, end]: [Moment; 2]) -> Interval {
    let (boot, source) = (BootId([boot; 16]), SourceKind::Bpf);
    let fields = Fields::all() - Fields::HISTOGRAMS - Fields::IRQ;
    Interval { host, boot, sequence, source, fields, begin, end, ..Interval::default() }
}

/// Gives the interval two CPUs that share the run time of its processes, and the matching ledger.
fn account(one: &mut Interval, capacity_ns: i64) {
    let run_ns: i64 = one.processes.iter().map(|row| row.delta.run_ns).sum();
    let idle_ns = capacity_ns - run_ns;
    let each = |ns: i64| (ns / 2).unsigned_abs();
    let times = CpuTimes { user_ns: each(run_ns), idle_ns: each(idle_ns), ..CpuTimes::default() };
    one.cpus = (0..2).map(|cpu| CpuInterval { cpu, times, ..CpuInterval::default() }).collect();
    one.ledger = Ledger { capacity_ns, threads_ns: run_ns, idle_ns, ..Ledger::default() };
}

/// Puts an interval of the host with this name.
fn put(writer: &mut Writer, hostname: &str, kernel: &str, one: &Interval) -> cpumon_store::Result<()> {
    let info = HostInfo {
        host: one.host,
        boot: one.boot,
        hostname: hostname.into(),
        kernel: kernel.into(),
        cpu_count: 2,
        interval_ns: one.duration_ns(),
        ..HostInfo::default()
    };
    writer.put_received(&info, Trust::Local, None, one, one.end.wall_ns).map(drop)
}

fn interval(second: u64) -> Interval {
    let host = HostId(*b"cpumon picture 1");
    let mut one = blank(host, 1, second, [moment(second - 1), moment(second)]);
    (one.thread_count, one.process_count) = (84, 31);
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

/// Hosts of the night, and for how many ms of a second the service of each runs.
const NIGHT_HOSTS: [(&str, u64); 3] = [("alpha", 300), ("beta", 100), ("gamma", 200)];
const NIGHT_SECONDS: u64 = 9 * 3_600;
const NIGHT_BEGINS_EARLIER: u64 = 3 * 3_600;
const NIGHT_STEP: u64 = 10;
/// When the backup runs, seconds of the night.
const BACKUP: std::ops::Range<u64> = 4 * 3_600..5 * 3_600 + 1_800;

/// An interval of a host in the night around [`BEGIN`].
fn of_night(host: usize, second: u64) -> Interval {
    let at = |second: u64| {
        let wall_ns = ((BEGIN - NIGHT_BEGINS_EARLIER + second) * SECOND).cast_signed();
        Moment { mono_ns: second * SECOND, boot_ns: second * SECOND, wall_ns }
    };
    let number = u8::try_from(host).unwrap_or(0);
    let times = [at(second - NIGHT_STEP), at(second)];
    let mut one = blank(HostId([number + 1; 16]), number + 1, second / NIGHT_STEP, times);
    process(&mut one, (100, "service"), (1, NIGHT_HOSTS[host].1 * NIGHT_STEP), (Life::Alive, 70));
    if host == 1 && BACKUP.contains(&second) {
        process(&mut one, (400, "backup"), (2, 1_800 * NIGHT_STEP), (Life::Alive, 0));
    }
    account(&mut one, (2 * NIGHT_STEP * SECOND).cast_signed());
    one
}

fn make_night(writer: &mut Writer) -> Result<(), Box<dyn std::error::Error>> {
    for (host, (name, _)) in NIGHT_HOSTS.iter().enumerate() {
        for second in (NIGHT_STEP..=NIGHT_SECONDS).step_by(10) {
            put(writer, name, "", &of_night(host, second))?;
        }
        writer.compact_host(of_night(host, NIGHT_STEP).host)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: picture_store FILE [night|hostile]")?;
    let options = StoreOptions { max_age: None, ..StoreOptions::default() };
    let mut writer = Writer::open(path.as_ref(), &options)?;
    match std::env::args().nth(2).as_deref() {
        Some("night") => return make_night(&mut writer),
        Some("hostile") => return hostile::make(&mut writer),
        _ => {}
    }
    for second in (1..=SECONDS).filter(|second| !HOLE.contains(second)) {
        put(&mut writer, "picture", "Linux 6.18", &interval(second))?;
    }
    writer.compact_host(interval(1).host)?;
    Ok(())
}
