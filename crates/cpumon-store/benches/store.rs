//! How fast and how small a store is, on a made-up day of one host: 200 threads in 50 processes, about 67 of them active each
//! second, each with its own habits (a random walk). In: nothing. Out: a table on stdout. Writing is measured in CPU time of
//! the writing thread, reading in time that passes.
//! `cargo bench -p cpumon-store --bench store` takes a day; `-- --quick` two hours; `-- --hosts` adds a thousand hosts.

#[path = "../tests/it/data.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod data;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use cpumon_model::{Delta, HostInfo, Interval, Trust};
use cpumon_store::{ProcessFilter, Query, Reader, StoreOptions, What, Writer};
use data::{Random, SECOND_NS, START_NS};

const THREADS: u32 = 200;
/// Intervals between two commits: what a second brings when catching up.
const COMMIT_EVERY: usize = 100;

/// The habits of each thread: how often it runs, and about how long.
struct Habits {
    random: Random,
    mean_run_ns: Vec<u64>,
    chance: Vec<u64>,
}

impl Habits {
    fn new() -> Self {
        let mut random = Random::new(7);
        let count = THREADS as usize;
        let mean_run_ns = (0..count).map(|_| 20_000 << random.below(9)).collect();
        // A third is active each second: some always, most now and then.
        let chance = (0..count).map(|at| if at % 10 == 0 { 100 } else { 8 + random.below(36) }).collect();
        Self { random, mean_run_ns, chance }
    }

    /// Makes the next second out of the one before, in place.
    fn step(&mut self, interval: &mut Interval, number: u32) {
        let begin_ns = START_NS + i64::from(number) * SECOND_NS;
        let shift = u64::from(number) * 1_000_000_000;
        interval.sequence = u64::from(number);
        interval.begin = cpumon_model::Moment {
            mono_ns: 5_000_000_000 + shift,
            boot_ns: 5_000_000_000 + shift,
            wall_ns: begin_ns,
        };
        let late_ns = self.random.below(60_000);
        interval.end = cpumon_model::Moment {
            mono_ns: 6_000_000_000 + shift + late_ns,
            boot_ns: 6_000_000_000 + shift + late_ns,
            wall_ns: begin_ns + SECOND_NS + i64::try_from(late_ns).unwrap_or(0),
        };
        interval.pass_ns = 300_000 + self.random.below(80_000);
        let mut sum = Delta::default();
        for (process, threads) in interval.processes.iter_mut().zip(interval.threads.chunks_mut(4)) {
            process.delta = Delta::default();
            for thread in threads {
                let at = (thread.key.tid - 100) as usize / 10 * 4 + (thread.key.tid % 10) as usize;
                thread.delta = self.delta(at);
                thread.last_cpu ^= u16::from(self.random.below(8) == 0);
                process.delta += &thread.delta;
            }
            sum += &process.delta;
        }
        interval.ledger.threads_ns = sum.run_ns;
        interval.ledger.idle_ns = interval.ledger.capacity_ns - sum.run_ns;
        interval.health.own_cpu_ns += 900_000 + self.random.below(100_000);
    }

    fn delta(&mut self, at: usize) -> Delta {
        let mean = &mut self.mean_run_ns[at];
        *mean = (*mean * (95 + self.random.below(11)) / 100).clamp(5_000, 40_000_000);
        if self.random.below(100) >= self.chance[at] {
            return Delta::default();
        }
        let run = *mean / 2 + self.random.below(*mean);
        let system = run * self.random.below(50) / 100;
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(0);
        Delta {
            user_ns: signed(run - system),
            system_ns: signed(system),
            run_ns: signed(run),
            run_delay_ns: signed(self.random.below(run / 4 + 1)),
            voluntary_switches: signed(1 + self.random.below(run / 50_000 + 2)),
            involuntary_switches: signed(self.random.below(run / 2_000_000 + 1)),
        }
    }
}

fn active_rows(interval: &Interval) -> u64 {
    interval.threads.iter().filter(|row| !row.delta.is_zero()).count() as u64
}

fn file_bytes(path: &Path) -> u64 {
    let connection = rusqlite::Connection::open(path).expect("a store");
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("a checkpoint");
    let number = |text: &str| connection.query_row(text, [], |row| row.get::<_, i64>(0)).expect("a number");
    let used = number("PRAGMA page_count") - number("PRAGMA freelist_count");
    used.cast_unsigned() * number("PRAGMA page_size").cast_unsigned()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The median time of `runs` calls.
fn median(runs: usize, mut call: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let begin = Instant::now();
            call();
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// CPU time of this thread (proc(5), schedstat): other work on the machine does not count.
fn cpu_now() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// CPU time of this thread since `begin`.
fn cpu_since(begin: Duration) -> Duration {
    cpu_now().saturating_sub(begin)
}

/// Writes the day through [`Writer::put`]: (CPU time, thread rows).
fn write_fresh(path: &Path, info: &HostInfo, count: u32) -> (Duration, u64) {
    let mut writer = Writer::open(path, &StoreOptions::default()).expect("a store");
    let mut interval = data::day(info, 1, 1, THREADS).remove(0);
    let mut habits = Habits::new();
    let (mut rows, mut spent) = (0, Duration::ZERO);
    let batch = u32::try_from(COMMIT_EVERY).unwrap_or(1);
    for first in (0..count).step_by(COMMIT_EVERY) {
        let made: Vec<Interval> = (first..count.min(first + batch))
            .map(|number| {
                habits.step(&mut interval, number);
                rows += active_rows(&interval);
                interval.clone()
            })
            .collect();
        let begin = cpu_now();
        for interval in &made {
            writer.put(info, Trust::Local, None, interval).expect("room");
        }
        writer.commit().expect("room");
        spent += cpu_since(begin);
    }
    (spent, rows)
}

/// Writes the same blobs, unique by host and time, into a bare table with the same settings: CPU time.
fn write_bare(path: &Path, from: &Path) -> Duration {
    let source = rusqlite::Connection::open(from).expect("the store");
    let mut select =
        source.prepare("SELECT host_id, end_wall_ns, samples FROM interval ORDER BY id").expect("a query");
    let blobs: Vec<(i64, i64, Vec<u8>)> = select
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .expect("rows")
        .map(|row| row.expect("a row"))
        .collect();
    let bare = rusqlite::Connection::open(path).expect("a file");
    bare.execute_batch(
        "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         PRAGMA wal_autocheckpoint = 2000; PRAGMA cache_size = -32768;
         CREATE TABLE bare (id INTEGER PRIMARY KEY, host INTEGER, at INTEGER, samples BLOB);
         CREATE UNIQUE INDEX bare_at ON bare (host, at)",
    )
    .expect("a table");
    let begin = cpu_now();
    for batch in blobs.chunks(COMMIT_EVERY) {
        bare.execute_batch("BEGIN").expect("begin");
        let mut insert = bare
            .prepare_cached("INSERT INTO bare (host, at, samples) VALUES (?1, ?2, ?3)")
            .expect("an insert");
        for (host, at, samples) in batch {
            insert.execute(rusqlite::params![host, at, samples]).expect("room");
        }
        bare.execute_batch("COMMIT").expect("commit");
    }
    cpu_since(begin)
}

fn report(what: &str, value: f64, unit: &str, target: &str) {
    println!("{what:<58} {value:>12.1} {unit:<8} {target}");
}

fn read_back(path: &Path, info: &HostInfo, count: u32) {
    let reader = Reader::open(path).expect("a store");
    let filter = ProcessFilter::Name("program-7".into());
    let all = (i64::MIN, i64::MAX);
    let line = |points: usize| {
        median(5, || {
            let points = reader.process_line(info.host, &filter, all, points).expect("a line");
            assert!(!points.is_empty());
        })
    };
    report("a process's line over it, 600 points", ms(line(600)), "ms", "<= 300");
    report("the same, 5,000 points (from samples)", ms(line(5_000)), "ms", "");
    let scan = |what: What| {
        median(3, || {
            let mut rows = 0_usize;
            let query = Query::new(info.host).what(what);
            reader
                .for_each_interval(&query, &mut |interval| {
                    rows += interval.processes.len() + interval.threads.len();
                    ControlFlow::Continue(())
                })
                .expect("intervals");
            std::hint::black_box(rows);
        })
    };
    report("all intervals, no rows", ms(scan(What::Meta)), "ms", "");
    report("all process rows (what a pivot reads)", ms(scan(What::Processes)), "ms", "<= 1000");
    report("all thread rows", ms(scan(What::Threads)), "ms", "");
    let mut random = Random::new(3);
    let at = median(41, || {
        let fresh = Reader::open(path).expect("a store");
        let second = i64::try_from(random.below(u64::from(count) - 2)).unwrap_or(0) + 1;
        let found =
            fresh.interval_at(info.host, START_NS + second * SECOND_NS + 500_000_000).expect("an interval");
        assert!(found.is_some_and(|interval| !interval.threads.is_empty()));
    });
    report("threads at an instant, store opened anew", ms(at), "ms", "<= 10");
}

/// A thousand hosts with 200 active threads each, one interval a second: the writer's share of a core.
fn many_hosts(path: &Path) {
    const HOSTS: u16 = 1000;
    const SECONDS: u32 = 8;
    let mut writer = Writer::open(path, &StoreOptions::default()).expect("a store");
    let mut hosts: Vec<(HostInfo, Interval)> = (0..HOSTS)
        .map(|number| {
            let mut info = data::host(1);
            info.host.0[..2].copy_from_slice(&number.to_le_bytes());
            info.hostname = format!("host-{number}").into();
            let interval = data::day(&info, u64::from(number), 1, THREADS).remove(0);
            (info, interval)
        })
        .collect();
    let mut habits = Habits::new();
    habits.chance.fill(100);
    let mut spent = Vec::new();
    for second in 0..SECONDS {
        for (_, interval) in &mut hosts {
            habits.step(interval, second);
        }
        let begin = cpu_now();
        for (info, interval) in &hosts {
            writer.put(info, Trust::Unauthenticated, None, interval).expect("room");
        }
        writer.commit().expect("room");
        spent.push(cpu_since(begin));
    }
    // The first second also writes 200,000 names.
    report("1,000 hosts x 200 threads, first second", ms(spent[0]), "ms/s", "");
    spent.remove(0);
    let mean = spent.iter().sum::<Duration>() / u32::try_from(spent.len()).unwrap_or(1);
    report("the same, mean of the next ones", ms(mean), "ms/s", "< 500");
    let begin = Instant::now();
    writer.seal_all().expect("room");
    report(
        "sealing them, rows a second",
        f64::from(SECONDS) * 200_000.0 / begin.elapsed().as_secs_f64(),
        "rows/s",
        "",
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let count: u32 = if has("--quick") { 7_200 } else { 86_400 };
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store.sqlite");
    let info = data::host(1);
    let (fresh_time, rows) = write_fresh(&path, &info, count);
    println!(
        "{count} intervals, {rows} thread rows, {:.1} active an interval",
        rows as f64 / f64::from(count)
    );
    let per_second = rows as f64 / fresh_time.as_secs_f64();
    report("put and commit", per_second, "rows/s", ">= 500000");
    let bare_time = write_bare(&dir.path().join("bare.sqlite"), &path);
    report("bare SQLite, the same blobs", rows as f64 / bare_time.as_secs_f64(), "rows/s", "");
    report("share of bare SQLite", 100.0 * bare_time.as_secs_f64() / fresh_time.as_secs_f64(), "%", ">= 60");
    report("fresh, everything in the file", file_bytes(&path) as f64 / rows as f64, "B/row", "<= 26");
    let mut writer = Writer::open(&path, &StoreOptions::default()).expect("the store");
    let begin = cpu_now();
    writer.seal_all().expect("room");
    report("sealing", rows as f64 / cpu_since(begin).as_secs_f64(), "rows/s", "");
    drop(writer);
    report("sealed, everything in the file", file_bytes(&path) as f64 / rows as f64, "B/row", "<= 16");
    read_back(&path, &info, count);
    if has("--hosts") {
        many_hosts(&dir.path().join("hosts.sqlite"));
    }
}
