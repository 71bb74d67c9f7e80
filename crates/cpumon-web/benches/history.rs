//! The page's questions about a day of one host: 86,400 intervals of a second, 120 or so active threads each (10.4 M thread rows), 40
//! processes active at a time out of 100 names, with the scheduler's events of each, 2 CPUs. `cargo bench -p cpumon-web --bench
//! history`. The store is made first, in a temporary directory, or reused: `-- FILE` names a file that is made if it does not exist.
//! Times are those of whole requests over a socket, the first one of each kind (nothing read yet) and the best of five.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_model::{
    CpuInterval, CpuTimes, Delta, Fields, HostId, HostInfo, HostStatus, Interval, Ledger, Moment,
    ProcessInfo, ProcessInterval, ProcessKey, SchedDelta, SourceKind, ThreadInterval, ThreadKey, Trust,
    WaitReason,
};
use cpumon_query::status::Status;
use cpumon_query::{Bell, Live, Seek, Shown};
use cpumon_store::{Reader, StoreOptions, Writer};
use cpumon_web::{HttpServer, WebOptions};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SECONDS: u64 = 86_400;
const NAMES: u32 = 100;
const SECOND_NS: u64 = 1_000_000_000;
/// 2026-01-01 00:00:00 UTC.
const BEGIN_NS: u64 = 1_767_225_600 * SECOND_NS;

fn moment(second: u64) -> Moment {
    let ns = second * SECOND_NS;
    Moment { mono_ns: ns, boot_ns: ns, wall_ns: (BEGIN_NS + ns).cast_signed() }
}

/// A pseudo-random number.
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The waits of a thread that worked for this long.
fn sched(work_ns: i64) -> SchedDelta {
    let blocked_ns = SECOND_NS - work_ns.unsigned_abs();
    let waits = [(WaitReason::syscall(202), blocked_ns / 3 * 2), (WaitReason::syscall(232), blocked_ns / 3)];
    SchedDelta {
        delay_after_wakeup_ns: work_ns / 60,
        blocked_ns: (blocked_ns / 3 * 3).cast_signed(),
        wakeups: work_ns / 100_000,
        longest_delay_ns: work_ns / 200,
        migrations: work_ns / 3_000_000,
        waits: waits.into_iter().collect(),
        ..SchedDelta::default()
    }
}

fn process(second: u64, number: u32, info: &Arc<ProcessInfo>) -> (ProcessInterval, Vec<ThreadInterval>) {
    let key = ProcessKey { pid: 1000 + number * 10, start_ns: 7 };
    let count = 2 + number % 3;
    let mut row =
        ProcessInterval { key, info: Arc::clone(info), thread_rows: count, ..ProcessInterval::default() };
    let threads = (0..count).map(|thread| {
        let work = (mixed(second * 1000 + u64::from(number * 8 + thread)) % 12_000_000).cast_signed();
        let delta = Delta {
            user_ns: work / 3 * 2,
            system_ns: work - work / 3 * 2,
            run_ns: work,
            run_delay_ns: work / 50,
            voluntary_switches: work / 100_000,
            involuntary_switches: work / 5_000_000,
            ..Delta::default()
        };
        let sched = sched(work);
        row.delta += &delta;
        row.sched += &sched;
        let tid = key.pid + thread;
        let key = ThreadKey { tid, start_ns: 7 };
        ThreadInterval { key, process: row.key, delta, sched, ..ThreadInterval::default() }
    });
    let threads = threads.collect();
    (row, threads)
}

fn interval(second: u64, infos: &[Arc<ProcessInfo>]) -> Interval {
    let mut one = Interval {
        host: HostId([5; 16]),
        sequence: second,
        source: SourceKind::Bpf,
        fields: Fields::all(),
        begin: moment(second - 1),
        end: moment(second),
        thread_count: 700,
        process_count: NAMES,
        ..Interval::default()
    };
    for (number, info) in (0_u32..).zip(infos) {
        if number >= 36 && !mixed(second ^ u64::from(number) << 32).is_multiple_of(15) {
            continue;
        }
        let (row, threads) = process(second, number, info);
        one.processes.push(row);
        one.threads.extend(threads);
    }
    let run_ns: i64 = one.processes.iter().map(|row| row.delta.run_ns).sum();
    let capacity_ns = 2 * SECOND_NS.cast_signed();
    one.ledger =
        Ledger { capacity_ns, threads_ns: run_ns, idle_ns: capacity_ns - run_ns, ..Ledger::default() };
    let times =
        CpuTimes { user_ns: run_ns.unsigned_abs() / 2, idle_ns: SECOND_NS / 2, ..CpuTimes::default() };
    one.cpus = vec![
        CpuInterval { cpu: 0, times, ..CpuInterval::default() },
        CpuInterval { cpu: 1, times, ..CpuInterval::default() },
    ];
    one
}

fn fill(path: &Path) -> Result<(), Failure> {
    let infos: Vec<_> = (0..NAMES)
        .map(|n| Arc::new(ProcessInfo { name: format!("program-{n}").into(), ..ProcessInfo::default() }))
        .collect();
    let options = StoreOptions { max_age: None, max_bytes: None, ..StoreOptions::default() };
    let mut writer = Writer::open(path, &options)?;
    let mut rows = 0;
    for second in 1..=SECONDS {
        let one = interval(second, &infos);
        rows += one.threads.len();
        writer.put_received(&info(), Trust::Local, None, &one, one.end.wall_ns)?;
        if second % 100 == 0 {
            writer.commit()?;
        }
    }
    writer.commit()?;
    writer.maintain(Duration::from_mins(10))?;
    println!("{rows} thread rows");
    Ok(())
}

fn info() -> HostInfo {
    HostInfo { host: HostId([5; 16]), hostname: "bench".into(), cpu_count: 2, ..HostInfo::default() }
}

/// A receiver that only has a past.
struct Past {
    path: PathBuf,
    bell: Bell,
}

impl Live for Past {
    fn hosts(&self) -> Vec<HostStatus> {
        vec![HostStatus { info: info(), ..HostStatus::default() }]
    }
    fn host(&self, _host: HostId) -> Option<HostStatus> {
        self.hosts().pop()
    }
    fn fleet(&self) -> Vec<(HostStatus, Option<Shown>)> {
        Vec::new()
    }
    fn newest(&self, _host: HostId) -> Option<Shown> {
        None
    }
    fn newer(&self, _host: HostId, _number: u64) -> Option<Shown> {
        None
    }
    fn recent(&self, _host: HostId, _since_ns: i64) -> Vec<Shown> {
        Vec::new()
    }
    fn seek(&self, host: HostId, to: Seek) -> Result<Option<Shown>, String> {
        let Seek::At(ns) = to else { return Ok(None) };
        let reader = Reader::open(&self.path).map_err(|error| error.to_string())?;
        let found = reader.interval_at(host, ns).map_err(|error| error.to_string())?;
        Ok(found.map(|interval| Shown { serial: 0, number: 0, interval: Arc::new(interval) }))
    }
    fn status(&self) -> Status {
        Status::default()
    }
    fn bell(&self) -> &Bell {
        &self.bell
    }
}

/// Bytes of the answer.
fn get(address: SocketAddr, path: &str) -> Result<usize, Failure> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if !answer.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&answer).into_owned().into());
    }
    Ok(answer.len())
}

fn time(address: SocketAddr, name: &str, path: &str) -> Result<(), Failure> {
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..6 {
        let begin = Instant::now();
        bytes = get(address, path)?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let best = times[1..].iter().copied().fold(f64::MAX, f64::min);
    println!("{name:<44} first {:>7.0} ms  best {best:>7.0} ms  {:>6} kB", times[0], bytes / 1000);
    Ok(())
}

fn main() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let given = std::env::args().skip(1).find(|word| !word.starts_with('-')).map(PathBuf::from);
    let path = given.unwrap_or_else(|| dir.path().join("day.sqlite"));
    if !path.exists() {
        fill(&path)?;
    }
    let options = WebOptions { store: Some(path.clone()), ..WebOptions::default() };
    let server = HttpServer::bind("127.0.0.1:0".parse()?, options)?;
    let (address, shutdown) = (server.local_addr(), server.shutdown());
    let live = Arc::new(Past { path, bell: Bell::default() });
    let thread = std::thread::spawn(move || server.run(live));
    let span = |hours: u64| {
        format!(
            "since={}&until={}",
            BEGIN_NS + (24 - hours) * 3600 * SECOND_NS,
            BEGIN_NS + SECONDS * SECOND_NS
        )
    };
    let host = "/api/v1/hosts/bench";
    for hours in [24, 6, 1] {
        let span = span(hours);
        for (name, path) in [
            ("series, 1200 points", format!("{host}/series?{span}&points=1200")),
            ("series, 600 points", format!("{host}/series?{span}&points=600")),
            ("one process, 600 points", format!("{host}/processes/1010-7?{span}&points=600")),
            ("landscape, 200 points", format!("{host}/landscape?{span}&points=200")),
            ("landscape, 600 points", format!("{host}/landscape?{span}&points=600")),
            ("sum", format!("{host}/sum?{span}")),
            ("report by program", format!("{host}/report?{span}")),
            ("report by process", format!("{host}/report?{span}&by=process")),
            ("report by user", format!("{host}/report?{span}&by=user")),
            ("report by thread", format!("{host}/report?{span}&by=thread")),
            ("report by program, compared", format!("{host}/report?{span}&compare=before")),
            ("threads of a process, 200 points", format!("{host}/processes/1010-7/threads?{span}")),
            (
                "two threads as lines",
                format!("{host}/lines?{span}&threads=1010-7/1010-7,1030-7/1031-7&columns=run_ns"),
            ),
        ] {
            time(address, &format!("{hours:>2} h: {name}"), &path)?;
        }
    }
    time(address, "a search over all that is stored", "/api/v1/find?text=program-7")?;
    let noon = BEGIN_NS + 43_210 * SECOND_NS + 5;
    time(address, "a moment, its processes and threads", &format!("{host}/at?at={noon}&threads=all"))?;
    shutdown.stop();
    thread.join().map_err(|_| "the server panicked")??;
    Ok(())
}
