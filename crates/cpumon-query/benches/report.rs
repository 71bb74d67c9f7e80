//! What `cpumon report` and `cpumon find` take over a day, a week and a month of one host, and `cpumon why` over an hour and a day: 70 or so active threads of 40 processes at a
//! time, out of 100 names, 5 users and 10 containers, and one short-lived process in each interval. Intervals are a second long on the
//! newest day (6 M thread rows) and a minute on the 29 days before. Sums have as many rows as with seconds throughout; only the intervals
//! read again to find a peak are fewer. `cargo bench -p cpumon-query --bench report`. The store is made in a temporary directory, or
//! reused: `-- FILE` names a file that is made if it is not there. Times are of whole questions, each with a new reader: the first, the
//! best of five, and the least CPU time of all, which other load changes less. `-- FILE WORD` asks only those with WORD in their name.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_model::{
    Delta, Fields, HostId, HostInfo, Interval, Ledger, Life, Moment, ProcessInfo, ProcessInterval,
    ProcessKey, SchedDelta, SourceKind, ThreadInterval, ThreadKey, Trust, WaitReason,
};
use cpumon_query::Answers;
use cpumon_query::history::History;

use cpumon_query::report::{ReportBy, ReportQuery};
use cpumon_query::time::Page;
use cpumon_query::why::{WhyQuery, WhySubject};
use cpumon_store::{StoreOptions, Writer};
use rustix::time::{ClockId, clock_gettime};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;
const DAYS: i64 = 30;
const NAMES: u32 = 100;
/// 2026-01-01 00:00:00 UTC.
const BEGIN_NS: i64 = 1_767_225_600 * SECOND_NS;
/// End of the stored range, s after `BEGIN_NS`: not the end of a minute or an hour.
const END_S: i64 = DAYS * DAY_S + 1234;

fn moment(second: i64) -> Moment {
    let ns = (second * SECOND_NS).unsigned_abs();
    Moment { mono_ns: ns, boot_ns: ns, wall_ns: BEGIN_NS + second * SECOND_NS }
}

fn mixed(seed: i64) -> i64 {
    let mut z = seed.cast_unsigned().wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 2).cast_signed()
}

fn infos() -> Vec<Arc<ProcessInfo>> {
    let info = |n: u32| ProcessInfo {
        name: format!("program-{n}").into(),
        uid: 1000 + n % 5,
        container: format!("service-{}.service", n % 10).into(),
        cgroup: format!("/system.slice/service-{}.service", n % 10).into(),
        ..ProcessInfo::default()
    };
    (0..NAMES).map(|n| Arc::new(info(n))).collect()
}

/// What a task that ran so long did in an interval.
fn counters(run_ns: i64, length_ns: i64) -> (Delta, SchedDelta) {
    let blocked_us = (length_ns - run_ns).max(0) / 1000;
    let waits = [(WaitReason::syscall(202), blocked_us * 2), (WaitReason::syscall(232), blocked_us)];
    let delta = Delta {
        user_ns: run_ns / 3 * 2,
        system_ns: run_ns - run_ns / 3 * 2,
        run_ns,
        run_delay_ns: run_ns / 50,
        voluntary_switches: run_ns / 100_000,
        involuntary_switches: run_ns / 5_000_000,
        ..Delta::default()
    };
    let waits = waits.into_iter().map(|(reason, us)| (reason, (us / 3 * 1000).unsigned_abs())).collect();
    (delta, SchedDelta { blocked_ns: blocked_us * 1000, waits, ..SchedDelta::default() })
}

fn process(
    at: Moment,
    length_ns: i64,
    pid: u32,
    info: &Arc<ProcessInfo>,
) -> (ProcessInterval, Vec<ThreadInterval>) {
    let is_short = pid < 1000;
    let key = ProcessKey { pid, start_ns: if is_short { at.boot_ns } else { 7 } };
    let life = if is_short { Life::BornEnded } else { Life::Alive };
    let mut row = ProcessInterval { key, info: Arc::clone(info), life, ..ProcessInterval::default() };
    let count = if is_short { 1 } else { 1 + pid % 3 };
    let thread = |tid: u32| {
        let run_ns = mixed(at.wall_ns ^ i64::from(tid)) % (length_ns / 80);
        let (delta, sched) = counters(run_ns, length_ns);
        let key = ThreadKey { tid, start_ns: key.start_ns };
        let comm = format!("worker-{}", tid % 10).as_str().into();
        ThreadInterval { key, process: row.key, comm, life, delta, sched, ..ThreadInterval::default() }
    };
    let threads: Vec<_> = (pid..pid + count).map(thread).collect();
    for thread in &threads {
        row.delta += &thread.delta;
        row.sched += &thread.sched;
    }
    row.thread_rows = count;
    (row, threads)
}

fn interval(end_s: i64, length_s: i64, infos: &[Arc<ProcessInfo>]) -> Interval {
    let mut one = Interval {
        host: HostId([5; 16]),
        sequence: end_s.unsigned_abs(),
        source: SourceKind::Bpf,
        fields: Fields::all(),
        begin: moment(end_s - length_s),
        end: moment(end_s),
        ..Interval::default()
    };
    let length_ns = length_s * SECOND_NS;
    for (number, info) in (0_u32..).zip(infos) {
        let is_active = number < 33 || mixed(end_s ^ i64::from(number) << 32) % 15 == 0;
        let pid = if number == NAMES - 1 { 500 } else { 1000 + number * 10 };
        if is_active || pid == 500 {
            let (row, threads) = process(one.end, length_ns, pid, info);
            one.processes.push(row);
            one.threads.extend(threads);
        }
    }
    one.processes.sort_by_key(|row| row.key);
    one.threads.sort_by_key(|row| row.key);
    let threads_ns = one.processes.iter().map(|row| row.delta.run_ns).sum();
    one.ledger = Ledger { capacity_ns: 2 * length_ns, threads_ns, ..Ledger::default() };
    one
}

fn fill(path: &Path) -> Result<(), Failure> {
    let (infos, info) = (infos(), host());
    let options = StoreOptions { max_age: None, max_bytes: None, ..StoreOptions::default() };
    let mut writer = Writer::open(path, &options)?;
    let (mut end_s, mut rows, mut count) = (0, 0, 0_u64);
    while end_s < END_S {
        let length_s = if end_s < END_S - DAY_S { 60 } else { 1 };
        end_s += length_s;
        let one = interval(end_s, length_s, &infos);
        rows += if length_s == 1 { one.threads.len() } else { 0 };
        writer.put_received(&info, Trust::Local, None, &one, one.end.wall_ns)?;
        count += 1;
        if count.is_multiple_of(1000) {
            writer.commit()?;
            writer.compact_host(info.host)?;
        }
    }
    writer.commit()?;
    writer.maintain(Duration::from_mins(10))?;
    println!("{rows} thread rows in the last day, {} MB", std::fs::metadata(path)?.len() / 1_000_000);
    Ok(())
}

fn host() -> HostInfo {
    HostInfo { host: HostId([5; 16]), hostname: "bench".into(), cpu_count: 2, ..HostInfo::default() }
}

/// CPU time of this process, ms.
fn cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Times a question.
fn time(path: &Path, name: &str, ask: &dyn Fn(&History) -> Result<usize, Failure>) -> Result<(), Failure> {
    let (mut times, mut cpu, mut rows) = (Vec::new(), f64::MAX, 0);
    for _ in 0..6 {
        let (begin, cpu_begin) = (Instant::now(), cpu_ms());
        rows = ask(&History::of_store(path)?)?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        cpu = cpu.min(cpu_ms() - cpu_begin);
    }
    let best = times[1..].iter().copied().fold(f64::MAX, f64::min);
    println!("{name:<24} {best:8.1} ms, CPU {cpu:8.1} ms, the first time {:8.1} ms, {rows} rows", times[0]);
    Ok(())
}

fn main() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let mut named = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let path = named.next().map_or_else(|| dir.path().join("report.db"), Into::into);
    let word = named.next().unwrap_or_default();
    let time = |name: &str, ask: &dyn Fn(&History) -> Result<usize, Failure>| {
        if name.contains(&word) { time(&path, name, ask) } else { Ok(()) }
    };
    if !path.exists() {
        fill(&path)?;
    }
    for days in [1, 7, 30] {
        for &by in ReportBy::ALL {
            // The start is within a minute.
            let since_ns = BEGIN_NS + (END_S - days * DAY_S) * SECOND_NS + SECOND_NS / 3;
            let query = ReportQuery { since_ns: Some(since_ns), by, ..ReportQuery::default() };
            time(&format!("report {days} d by {}", by.name()), &|history| {
                Ok(history.report(&[], &query)?.rows.len())
            })?;
        }
    }
    for text in ["program-17", "program", "1003", "service-4"] {
        time(&format!("find {text}, 30 d"), &|history| Ok(history.find(&[], text, Page::ALL)?.rows.len()))?;
    }
    for hours in [1, 24] {
        for subject in [WhySubject::Machine, WhySubject::Named("program-17".into())] {
            let of = if subject == WhySubject::Machine { "the machine" } else { "a program" };
            let since_ns = Some(BEGIN_NS + (END_S - hours * 3600) * SECOND_NS);
            let query = WhyQuery { subject, since_ns, ..WhyQuery::default() };
            time(&format!("why {of}, {hours} h"), &|history| Ok(history.why("bench", &query)?.causes.len()))?;
        }
    }
    Ok(())
}
