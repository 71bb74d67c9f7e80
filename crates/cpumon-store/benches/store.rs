//! How fast and how small a store is, on a made-up day of one host: 200 threads in 50 processes, about 67 threads active each
//! second, each with its own habits (a random walk). In: nothing. Out: a table on stdout. Writing is measured in CPU time of
//! the writing thread, reading in time that passes.
//! `cargo bench -p cpumon-store --bench store` measures a day of intervals; `-- --quick` two hours; `-- --hosts` adds a
//! thousand hosts; `-- --write-only` ends after writing; `-- --all-active` lets each of the 200 threads run in each second,
//! and `-- --commit-each` ends a transaction after each interval, as a single host does that reports once a second.

#[path = "../tests/it/data.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod data;

use std::path::Path;
use std::time::{Duration, Instant};

use cpumon_model::{Delta, HostInfo, Interval, Trust};
use cpumon_store::{ProcessFilter, Query, Reader, Resolution, StoreOptions, What, Writer};
use data::{Random, SECOND_NS, START_NS};

const THREADS: u32 = 200;
/// Intervals between two commits: what half a second brings from 200 hosts.
const COMMIT_EVERY: usize = 100;

/// How the day is made and written.
#[derive(Copy, Clone)]
struct Plan {
    intervals: u32,
    /// Each thread runs in each second.
    all_active: bool,
    commit_every: usize,
    /// Number of measurements; the fastest one counts.
    rounds: u32,
    /// Bare rows that are inserted before the clock starts.
    skip: usize,
}

/// The habits of each thread: how often it runs, and about how long.
struct Habits {
    random: Random,
    mean_run_ns: Vec<u64>,
    chance: Vec<u64>,
}

impl Habits {
    fn new(all_active: bool) -> Self {
        let mut random = Random::new(7);
        let count = THREADS as usize;
        let mean_run_ns = (0..count).map(|_| 20_000 << random.below(9)).collect();
        // A third is active each second: some always, most now and then.
        let mut chance: Vec<u64> =
            (0..count).map(|at| if at % 10 == 0 { 100 } else { 8 + random.below(36) }).collect();
        if all_active {
            chance.fill(100);
        }
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
            ..Delta::default()
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

/// Writes the day through [`Writer::put`]: (CPU time, thread rows). `active_only`: given the active rows only, which is what
/// the queue in front of the writer thread hands over.
fn write_fresh(path: &Path, info: &HostInfo, plan: Plan, active_only: bool) -> (Duration, u64) {
    let mut writer = Writer::open(path, &StoreOptions::default()).expect("a store");
    let mut interval = data::day(info, 1, 1, THREADS).remove(0);
    let mut habits = Habits::new(plan.all_active);
    let (mut rows, mut spent) = (0, Duration::ZERO);
    let batch = u32::try_from(COMMIT_EVERY).unwrap_or(1);
    for first in (0..plan.intervals).step_by(COMMIT_EVERY) {
        let made: Vec<Interval> = (first..plan.intervals.min(first + batch))
            .map(|number| {
                habits.step(&mut interval, number);
                rows += active_rows(&interval);
                if active_only { data::active(&interval) } else { interval.clone() }
            })
            .collect();
        let begin = cpu_now();
        for transaction in made.chunks(plan.commit_every) {
            for interval in transaction {
                writer.put(info, Trust::Local, None, interval).expect("space");
            }
            writer.commit().expect("space");
        }
        spent += cpu_since(begin);
    }
    (spent, rows)
}

/// What bare SQLite writes of an interval where it writes the blobs alone.
const BLOBS: &str = "host_id, end_wall_ns, samples";

/// One row of table `interval` as SQLite gave it back.
type StoredRow = Vec<rusqlite::types::Value>;

/// These columns of all rows of table `interval`, in order.
fn stored_rows(from: &Path, columns: &str) -> Vec<StoredRow> {
    let source = rusqlite::Connection::open(from).expect("the store");
    let mut select = source.prepare(&format!("SELECT {columns} FROM interval ORDER BY id")).expect("a query");
    let columns = select.column_count();
    let rows = select
        .query_map([], |row| (0..columns).map(|at| row.get(at)).collect::<rusqlite::Result<StoredRow>>())
        .expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

/// Inserts rows with one prepared statement into a new file with the settings of a store: CPU time.
fn insert_bare(path: &Path, tables: &str, insert: &str, rows: &[StoredRow], plan: Plan) -> Duration {
    let bare = rusqlite::Connection::open(path).expect("a file");
    bare.execute_batch(
        "PRAGMA page_size = 8192; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 2000; PRAGMA cache_size = -32768",
    )
    .expect("settings");
    bare.execute_batch(tables).expect("a table");
    let mut begin = cpu_now();
    let mut insert = bare.prepare(insert).expect("an insert");
    for (number, batch) in rows.chunks(plan.commit_every).enumerate() {
        if number * plan.commit_every == plan.skip {
            begin = cpu_now();
        }
        bare.execute_batch("BEGIN").expect("begin");
        for row in batch {
            for (at, value) in row.iter().enumerate() {
                insert.raw_bind_parameter(at + 1, value).expect("a value");
            }
            insert.raw_execute().expect("space");
        }
        bare.execute_batch("COMMIT").expect("commit");
    }
    cpu_since(begin)
}

/// Bare SQLite writing the same blobs, unique by host and time, and nothing else: CPU time.
fn write_bare_blobs(path: &Path, blobs: &[StoredRow], plan: Plan) -> Duration {
    let table = "CREATE TABLE bare (id INTEGER PRIMARY KEY, host INTEGER, at INTEGER, samples BLOB);
         CREATE UNIQUE INDEX bare_at ON bare (host, at)";
    insert_bare(path, table, "INSERT INTO bare (host, at, samples) VALUES (?1, ?2, ?3)", blobs, plan)
}

/// Bare SQLite writing the same rows, all columns, into the same table: CPU time.
fn write_bare_rows(path: &Path, from: &Path, rows: &[StoredRow], plan: Plan) -> Duration {
    let source = rusqlite::Connection::open(from).expect("the store");
    let mut select = source
        .prepare(
            "SELECT sql FROM sqlite_schema WHERE tbl_name = 'interval' AND sql IS NOT NULL ORDER BY rowid",
        )
        .expect("a query");
    let tables: Vec<String> =
        select.query_map([], |row| row.get(0)).expect("a schema").map(|sql| sql.expect("a text")).collect();
    let places = vec!["?"; rows[0].len()].join(", ");
    insert_bare(path, &tables.join(";"), &format!("INSERT INTO interval VALUES ({places})"), rows, plan)
}

fn report(what: &str, value: f64, unit: &str, target: &str) {
    println!("{what:<58} {value:>12.1} {unit:<8} {target}");
}

fn read_back(path: &Path, info: &HostInfo, count: u32) {
    let reader = Reader::open(path).expect("a store");
    let filter = ProcessFilter::Name("program-7".into());
    let chart = |resolution: Option<Resolution>| {
        median(5, || {
            let query = Query::new(info.host).what(What::Processes).filter(filter.clone());
            let mut segments = 0;
            let mut reading = reader.segments(&query, resolution).expect("segments");
            while reading.read().expect("segments").is_some() {
                segments += 1;
            }
            assert!(segments > 0);
        })
    };
    report("a process over it, 600 points", ms(chart(Some(Resolution::Minute))), "ms", "<= 300");
    report("the same, 5,000 points (from samples)", ms(chart(None)), "ms", "");
    let scan = |what: What| {
        median(3, || {
            let mut rows = 0_usize;
            let query = Query::new(info.host).what(what);
            let mut reading = reader.intervals(&query).expect("intervals");
            while let Some(stored) = reading.read().expect("intervals") {
                let interval = &stored.interval;
                rows += interval.processes.len() + interval.threads.len();
            }
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
    report("threads at an instant, store just opened", ms(at), "ms", "<= 10");
}

/// A thousand hosts with 200 active threads each, one interval a second and two commits: the writer's share of a core.
fn many_hosts(dir: &Path) {
    const HOSTS: u16 = 1000;
    const COMMIT: usize = 500;
    const SECONDS: u32 = 8;
    let path = dir.join("hosts.sqlite");
    let mut writer = Writer::open(&path, &StoreOptions::default()).expect("a store");
    let mut hosts: Vec<(HostInfo, Interval)> = (0..HOSTS)
        .map(|number| {
            let mut info = data::host(1);
            info.host.0[..2].copy_from_slice(&number.to_le_bytes());
            info.hostname = format!("host-{number}").into();
            let interval = data::day(&info, u64::from(number), 1, THREADS).remove(0);
            (info, interval)
        })
        .collect();
    let mut habits = Habits::new(true);
    let mut spent = Vec::new();
    for second in 0..SECONDS {
        for (_, interval) in &mut hosts {
            habits.step(interval, second);
        }
        let begin = cpu_now();
        for batch in hosts.chunks(COMMIT) {
            for (info, interval) in batch {
                writer.put(info, Trust::Unauthenticated, None, interval).expect("space");
            }
            writer.commit().expect("space");
        }
        spent.push(cpu_since(begin));
    }
    // The first second also writes 200,000 names.
    report("1,000 hosts x 200 threads, first second", ms(spent[0]), "ms/s", "");
    spent.remove(0);
    let mean = spent.iter().sum::<Duration>() / u32::try_from(spent.len()).unwrap_or(1);
    report("the same, mean of the next ones", ms(mean), "ms/s", "< 500");
    let (stored, few) = (stored_rows(&path, "*"), stored_rows(&path, BLOBS));
    let plan =
        Plan { intervals: 0, all_active: true, commit_every: COMMIT, rounds: 3, skip: usize::from(HOSTS) };
    let blobs = least(plan.rounds, dir, |bare| write_bare_blobs(bare, &few, plan)) / (SECONDS - 1);
    let rows = least(plan.rounds, dir, |bare| write_bare_rows(bare, &path, &stored, plan)) / (SECONDS - 1);
    report("  bare SQLite, the same blobs", ms(blobs), "ms/s", "");
    report("  bare SQLite, the same rows with all columns", ms(rows), "ms/s", "");
    report("  share, blobs only", 100.0 * blobs.as_secs_f64() / mean.as_secs_f64(), "%", ">= 60");
    report("  share, all columns", 100.0 * rows.as_secs_f64() / mean.as_secs_f64(), "%", "");
    let begin = Instant::now();
    data::compact_all(&mut writer);
    report(
        "compacting them, rows a second",
        f64::from(SECONDS) * 200_000.0 / begin.elapsed().as_secs_f64(),
        "rows/s",
        "",
    );
}

/// The least of `rounds` measurements, each with a new file.
fn least(rounds: u32, dir: &Path, mut measure: impl FnMut(&Path) -> Duration) -> Duration {
    (0..rounds)
        .map(|round| {
            let path = dir.join(format!("round-{round}.sqlite"));
            let took = measure(&path);
            for suffix in ["", "-wal", "-shm", "-writer"] {
                let _ = std::fs::remove_file(dir.join(format!("round-{round}.sqlite{suffix}")));
            }
            took
        })
        .min()
        .unwrap_or_default()
}

/// Compares writing with bare SQLite, the fastest of some rounds each: other work on the machine costs CPU time too, through
/// the caches.
fn report_writing(dir: &Path, info: &HostInfo, plan: Plan) -> u64 {
    let Plan { intervals: count, rounds, .. } = plan;
    let store = dir.join("store.sqlite");
    let (first, thread_rows) = write_fresh(&store, info, plan, false);
    println!(
        "{count} intervals, {thread_rows} thread rows, {:.1} active an interval",
        thread_rows as f64 / f64::from(count)
    );
    let (stored, few) = (stored_rows(&store, "*"), stored_rows(&store, BLOBS));
    let whole = least(rounds - 1, dir, |path| write_fresh(path, info, plan, false).0);
    let whole = if rounds > 1 { whole.min(first) } else { first };
    let active = least(rounds, dir, |path| write_fresh(path, info, plan, true).0);
    let blobs = least(rounds, dir, |path| write_bare_blobs(path, &few, plan));
    let rows = least(rounds, dir, |path| write_bare_rows(path, &store, &stored, plan));
    let report_time = |what: &str, time: Duration, target: &str| {
        report(what, thread_rows as f64 / time.as_secs_f64(), "rows/s", target);
        report("  an interval", time.as_secs_f64() * 1e6 / f64::from(count), "us", "");
    };
    report_time("put and commit", whole, ">= 500000");
    report_time("put and commit, given active rows only", active, "");
    report_time("bare SQLite, the same blobs", blobs, "");
    report_time("bare SQLite, the same rows with all columns", rows, "");
    for (what, bare, target) in [
        ("share of bare SQLite, blobs only", blobs, ">= 60"),
        ("share of bare SQLite, all columns", rows, ""),
    ] {
        report(what, 100.0 * bare.as_secs_f64() / whole.as_secs_f64(), "%", target);
        report("  given active rows only", 100.0 * bare.as_secs_f64() / active.as_secs_f64(), "%", "");
    }
    report("fresh, everything in the file", file_bytes(&store) as f64 / thread_rows as f64, "B/row", "<= 26");
    thread_rows
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let count: u32 = if has("--quick") { 7_200 } else { 86_400 };
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store.sqlite");
    let info = data::host(1);
    let plan = Plan {
        intervals: count,
        all_active: has("--all-active"),
        commit_every: if has("--commit-each") { 1 } else { COMMIT_EVERY },
        rounds: if has("--write-only") { 5 } else { 1 },
        skip: 0,
    };
    let rows = report_writing(dir.path(), &info, plan);
    if has("--hosts") {
        many_hosts(dir.path());
    }
    if has("--write-only") {
        return;
    }
    let mut writer = Writer::open(&path, &StoreOptions::default()).expect("the store");
    let begin = cpu_now();
    data::compact_all(&mut writer);
    report("compacting", rows as f64 / cpu_since(begin).as_secs_f64(), "rows/s", "");
    drop(writer);
    report("compacted, everything in the file", file_bytes(&path) as f64 / rows as f64, "B/row", "<= 16");
    read_back(&path, &info, count);
}
