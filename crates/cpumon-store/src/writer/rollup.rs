//! Sums per minute and hour over compacted intervals: rows of `host_minute`, `process_minute` and their hours, and of threads by the hour
//! (`thread_hour`). A chart of weeks reads thousands of rows instead of millions. Fresh intervals are not in the sums; the reader adds them.

use std::collections::{BTreeMap, HashMap};

use cpumon_model::{Comm, DelayHistogram, Fields, Flags, Interval, Life, ThreadKey};
use rusqlite::{Connection, Result as Sql, params};

use super::dims::Dims;
use super::naming::Seeded;
use crate::codec::chunk::FreshInterval;
use crate::codec::host::{self, Cgroups};
use crate::codec::meta::{BEGIN_WALL, CAPACITY, END_WALL, fields_of, flags_of, length_ns, measured_in_ns};
use crate::codec::sched::SchedRows;
use crate::codec::{PackedProcess, PackedThread};
use crate::names::{self, Block, SqlComm, ThreadName};
use crate::rows::{HostRow, execute};
use crate::sums::{
    CGROUPS_SUM, PER_SECOND, RUN_DELAYS_SUM, Resolution, RunQueue, TaskSum, add_known, add_more,
    cgroup_bytes, delay_bytes, known_sum, rate,
};

#[derive(Clone, Debug, Default)]
struct HostSum {
    intervals: i64,
    covered_ns: i64,
    /// capacity, threads, exited, irq, softirq, steal, idle.
    ledger: [i64; 7],
    max_busy_ppm: i64,
    /// Sum over all processes of the host.
    run_delay_ns: Option<i64>,
    blocked_ns: Option<i64>,
    run_delays: Option<DelayHistogram>,
    run_queue: Option<RunQueue>,
    cgroups: Option<Cgroups>,
}

#[derive(Clone, Debug, Default)]
struct ProcessSum {
    task: TaskSum,
    run_delays: Option<DelayHistogram>,
}

#[derive(Debug, Default)]
struct BucketSums {
    /// Sums of the host by number of the bucket.
    hosts: BTreeMap<i64, HostSum>,
    /// Sums of processes by number of the bucket and row of `process`.
    processes: BTreeMap<(i64, u64), ProcessSum>,
}

/// Sums of the intervals that were added since the last write.
#[derive(Debug, Default)]
pub(super) struct Rollup {
    /// In the order of [`Resolution::ALL`].
    sums: [BucketSums; 2],
    threads: ThreadSums,
    sched: SchedRows,
    cpus: Interval,
    /// Run time of the short-lived processes of one interval.
    short: Vec<ShortRun>,
}

/// What a short-lived process ran, and the process under which it is summed.
#[derive(Copy, Clone, Debug)]
struct ShortRun {
    id: u64,
    run_ns: i64,
}

impl HostSum {
    fn add(&mut self, one: &Self) {
        self.intervals += one.intervals;
        self.covered_ns = self.covered_ns.saturating_add(one.covered_ns);
        // Saturating: a hostile sender's ledger must not stop compaction of its host by an overflow.
        for (sum, line) in self.ledger.iter_mut().zip(one.ledger) {
            *sum = sum.saturating_add(line);
        }
        add_known(&mut self.run_delay_ns, one.run_delay_ns);
        add_more(&mut self.run_delays, one.run_delays.as_ref());
        if let Some(more) = &one.run_queue {
            self.run_queue.get_or_insert_default().add(more);
        }
        if let Some(more) = &one.cgroups {
            self.cgroups.get_or_insert_default().add(more);
        }
        self.max_busy_ppm = self.max_busy_ppm.max(one.max_busy_ppm);
    }
}

impl Rollup {
    /// Adds intervals. Short-lived processes are summed under one of their description: a row for each of them would outgrow the
    /// samples.
    pub(super) fn add(
        &mut self,
        intervals: &[FreshInterval],
        names: &mut SumNames<'_>,
    ) -> rusqlite::Result<()> {
        for interval in intervals {
            let known = self.read_sched(interval);
            self.add_host(interval, known);
            self.short.clear();
            self.threads.begin(interval, known);
            for (process, threads) in interval.rows.groups() {
                let is_short = process.life == Life::BornEnded;
                let id = if is_short { names.summed_process(process.id)? } else { process.id };
                self.add_process(interval, known, process, id);
                self.threads.add(threads, id, &self.sched, names)?;
                if is_short {
                    self.short.push(ShortRun { id, run_ns: process.delta.run_ns });
                }
            }
            self.raise_short(interval);
        }
        Ok(())
    }

    /// Short-lived processes share a row: its largest run time in one interval is that of all of them together.
    fn raise_short(&mut self, interval: &FreshInterval) {
        self.short.sort_unstable_by_key(|short| short.id);
        for row in self.short.chunk_by(|one, next| one.id == next.id) {
            let run_ns = row.iter().map(|short| short.run_ns).fold(0, i64::saturating_add);
            let run = rate(run_ns, measured_in_ns(&interval.meta), PER_SECOND);
            let [begin_ns, end_ns] = [interval.meta[BEGIN_WALL], interval.meta[END_WALL]];
            for (resolution, sums) in Resolution::ALL.iter().zip(&mut self.sums) {
                let bucket = resolution.bucket(interval.meta[END_WALL]);
                sums.processes
                    .entry((bucket, row[0].id))
                    .or_default()
                    .task
                    .largest
                    .add(run, begin_ns, end_ns);
            }
        }
    }

    fn add_host(&mut self, interval: &FreshInterval, known: Fields) {
        let row = &interval.meta;
        let covered_ns = length_ns(row);
        let run_delays = known.contains(Fields::HISTOGRAMS).then(|| self.cpus.cpu_delays());
        // Without CPUs (a source that does not list them) a queue of 0 would read as "nothing waited".
        let has_queue = known.contains(Fields::SCHED) && !self.cpus.cpus.is_empty();
        let mut run_queue = has_queue.then(|| RunQueue::new(&self.cpus.cpu_sched(), covered_ns));
        if flags_of(row).contains(Flags::RUN_QUEUE_UNKNOWN)
            && let Some(queue) = &mut run_queue
        {
            // Its sum is right together with its neighbours' (see the flag), its own mean is not known.
            queue.max_run_queue_ns_per_s = 0;
        }
        let cgroups = known.contains(Fields::CGROUPS).then(|| Cgroups::of(&self.cpus)).flatten();
        let delays = interval.rows.processes.iter().map(|row| row.delta.run_delay_ns);
        // The seven lines of the ledger are neighbours in `meta::COLUMNS`.
        let ledger: [i64; 7] = std::array::from_fn(|at| row[CAPACITY + at]);
        // The highest share in one interval, because a mean over an hour hides a second in which all CPUs were busy.
        let busy_ns = ledger[1..5].iter().fold(0_i64, |sum, line| sum.saturating_add(*line));
        let one = HostSum {
            intervals: 1,
            covered_ns,
            ledger,
            max_busy_ppm: rate(busy_ns, ledger[0], 1_000_000),
            run_delay_ns: known.contains(Fields::RUN_DELAY).then(|| delays.fold(0, i64::saturating_add)),
            blocked_ns: None,
            run_delays,
            run_queue,
            cgroups,
        };
        for (resolution, sums) in Resolution::ALL.iter().zip(&mut self.sums) {
            sums.hosts.entry(resolution.bucket(row[END_WALL])).or_default().add(&one);
        }
    }

    fn add_process(&mut self, interval: &FreshInterval, known: Fields, process: &PackedProcess, id: u64) {
        // The events do not cover a process that is hidden from them: its blocked time is unknown, not 0.
        let is_watched = known.contains(Fields::SCHED) && !process.flags.contains(Flags::UNWATCHED);
        // Without the threads that only waited, which have no row; see docs/store.md.
        let sched = is_watched.then(|| self.sched.process(process.id));
        // Where histograms were measured, a process without one had no run delay that ended: that is an empty histogram.
        let none;
        let run_delays = match self.sched.process_delays(process.id) {
            _ if !known.contains(Fields::HISTOGRAMS) => None,
            Some(delays) => Some(&**delays),
            None => {
                none = DelayHistogram::default();
                Some(&none)
            }
        };
        let run = rate(process.delta.run_ns, measured_in_ns(&interval.meta), PER_SECOND);
        for (resolution, sums) in Resolution::ALL.iter().zip(&mut self.sums) {
            let bucket = resolution.bucket(interval.meta[END_WALL]);
            if let Some(sched) = &sched {
                add_known(&mut sums.hosts.entry(bucket).or_default().blocked_ns, Some(sched.blocked_ns));
            }
            let sum = sums.processes.entry((bucket, id)).or_default();
            sum.task.add(&process.delta, sched.as_ref(), known.contains(Fields::WAITS));
            sum.task.largest.add(run, interval.meta[BEGIN_WALL], interval.meta[END_WALL]);
            add_more(&mut sum.run_delays, run_delays);
        }
    }

    /// Decodes the scheduler's events of an interval. Returns which fields are known: a damaged blob must not become zeros.
    fn read_sched(&mut self, interval: &FreshInterval) -> Fields {
        let known = fields_of(&interval.meta);
        let mut read = self.sched.read(&interval.sched);
        if read.is_ok() && known.intersects(Fields::SCHED | Fields::HISTOGRAMS | Fields::CGROUPS) {
            self.cpus.fields = known;
            read = host::decode(&interval.cpus, &mut self.cpus);
        }
        match read {
            Ok(()) => known,
            Err(malformed) => {
                log::warn!("the scheduler's events of an interval are damaged: {malformed}");
                known - Fields::SCHED - Fields::WAITS - Fields::HISTOGRAMS - Fields::CGROUPS
            }
        }
    }

    /// Adds the sums to the tables and empties itself. A bucket gets its sums in many steps: a chunk is a hundred seconds, an
    /// hour 36 of them, and late intervals come still later.
    pub(super) fn write(&mut self, connection: &Connection, host: HostRow) -> rusqlite::Result<()> {
        for (resolution, sums) in Resolution::ALL.iter().zip(&mut self.sums) {
            let sums = std::mem::take(sums);
            write_hosts(connection, resolution.name(), host, &sums.hosts)?;
            write_processes(connection, *resolution, host, &sums.processes)?;
        }
        self.threads.write(connection, host)
    }
}

/// SQL: the highest of a column in which NULL is no data; `max(NULL, 5)` would be NULL.
fn known_max(column: &str) -> String {
    format!("{column} = max(coalesce({column}, excluded.{column}), coalesce(excluded.{column}, {column}))")
}

fn write_hosts(
    connection: &Connection,
    resolution: &str,
    host: HostRow,
    sums: &BTreeMap<i64, HostSum>,
) -> rusqlite::Result<()> {
    // Sums of one bucket come in many steps, so each is an upsert. Of columns that came with later versions NULL is no data.
    let text = format!(
        "INSERT INTO host_{resolution} (host_id, {resolution}, intervals, covered_ns, capacity_ns, threads_ns, exited_ns, irq_ns,
           softirq_ns, steal_ns, idle_ns, max_busy_ppm, run_delay_ns, blocked_ns, run_delays, run_queue_ns,
           max_run_queue_ns_per_s, run_queue_max, cgroups)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
         ON CONFLICT DO UPDATE SET intervals = intervals + excluded.intervals,
           covered_ns = covered_ns + excluded.covered_ns, capacity_ns = capacity_ns + excluded.capacity_ns,
           threads_ns = threads_ns + excluded.threads_ns, exited_ns = exited_ns + excluded.exited_ns,
           irq_ns = irq_ns + excluded.irq_ns, softirq_ns = softirq_ns + excluded.softirq_ns,
           steal_ns = steal_ns + excluded.steal_ns, idle_ns = idle_ns + excluded.idle_ns,
           max_busy_ppm = max(max_busy_ppm, excluded.max_busy_ppm), {RUN_DELAYS_SUM}, {CGROUPS_SUM}, {}, {}, {}, {}, {}",
        known_sum("run_delay_ns"),
        known_sum("blocked_ns"),
        known_sum("run_queue_ns"),
        known_max("max_run_queue_ns_per_s"),
        known_max("run_queue_max")
    );
    let mut upsert = connection.prepare_cached(&text)?;
    for (bucket, sum) in sums {
        let [capacity, threads, exited, irq, softirq, steal, idle] = sum.ledger;
        upsert.execute(params![
            host,
            bucket,
            sum.intervals,
            sum.covered_ns,
            capacity,
            threads,
            exited,
            irq,
            softirq,
            steal,
            idle,
            sum.max_busy_ppm,
            sum.run_delay_ns,
            sum.blocked_ns,
            sum.run_delays.as_ref().map(delay_bytes),
            sum.run_queue.map(|queue| queue.run_queue_ns),
            sum.run_queue.map(|queue| queue.max_run_queue_ns_per_s),
            sum.run_queue.map(|queue| queue.run_queue_max),
            sum.cgroups.as_ref().map(cgroup_bytes)
        ])?;
    }
    Ok(())
}

fn write_processes(
    connection: &Connection,
    resolution: Resolution,
    host: HostRow,
    sums: &BTreeMap<(i64, u64), ProcessSum>,
) -> rusqlite::Result<()> {
    let name = resolution.name();
    let keys = format!("host_id, {name}, process_id, run_delays");
    let text = TaskSum::upsert(&format!("process_{name}"), &keys, RUN_DELAYS_SUM);
    let mut upsert = connection.prepare_cached(&text)?;
    for ((bucket, process_id), sum) in sums {
        let run_delays = sum.run_delays.as_ref().map(delay_bytes);
        let keys = params![host, bucket, process_id.cast_signed(), run_delays];
        sum.task.write(&mut upsert, keys, resolution, *bucket)?;
    }
    Ok(())
}

// A row of `thread_hour` has the key and the name of its thread itself, so that the names of threads can go with their samples. Threads that
// began and ended within one interval share a row by process and name: a row for each of them would outgrow the samples on a machine that
// compiles.

/// Names of the tasks of one chunk, for its sums.
#[derive(Debug)]
pub(super) struct SumNames<'a> {
    connection: &'a Connection,
    dims: &'a mut Dims,
    block: Option<Block<ThreadName>>,
}

impl<'a> SumNames<'a> {
    pub(super) fn new(connection: &'a Connection, dims: &'a mut Dims) -> Self {
        Self { connection, dims, block: None }
    }

    /// The process under which a short-lived one is summed.
    fn summed_process(&mut self, process_id: u64) -> Sql<u64> {
        self.dims.summed_process(self.connection, process_id)
    }

    /// Key and name of a thread; those of no thread if its block is damaged.
    fn thread(&mut self, id: u64) -> Sql<ThreadName> {
        Ok(names::find(self.connection, id, &mut self.block)?.unwrap_or_default())
    }
}

/// The key of a row of `thread_hour` within its host.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ThreadHour {
    hour: i64,
    process_id: u64,
    key: ThreadKey,
}

/// A thread row of a chunk, by what decides its sum.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
struct ThreadSumKey {
    hour: i64,
    /// The process that it is summed under.
    process_id: u64,
    thread_id: u64,
    is_short: bool,
}

#[derive(Copy, Clone, Debug, Default)]
struct ThreadSum {
    comm: Comm,
    task: TaskSum,
    /// The interval that was added last, and what all threads of the row ran in it.
    interval: usize,
    run_ns: i64,
}

#[derive(Copy, Clone, Debug, Default)]
struct IntervalAt {
    number: usize,
    hour: i64,
    begin_ns: i64,
    end_ns: i64,
    measured_in_ns: i64,
    known: Fields,
}

/// Sums of the intervals that were added since the last write.
#[derive(Debug, Default)]
struct ThreadSums {
    at: IntervalAt,
    intervals: BTreeMap<i64, i64>,
    sources: HashMap<ThreadSumKey, usize, Seeded>,
    places: HashMap<ThreadHour, usize, Seeded>,
    sums: Vec<ThreadSum>,
}

/// The key of the row that all short-lived threads of a process and a name share: no thread has the id 0, and FNV-1a of the name is
/// the same in every build. Names of equal hash share a row too.
fn shared_key(comm: &Comm) -> ThreadKey {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    ThreadKey { tid: 0, start_ns: comm.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step) }
}

impl ThreadSums {
    /// Begins an interval of which `known` fields can be read.
    fn begin(&mut self, interval: &FreshInterval, known: Fields) {
        let row = &interval.meta;
        let hour = Resolution::Hour.bucket(row[END_WALL]);
        self.at = IntervalAt {
            number: self.at.number + 1,
            hour,
            begin_ns: row[BEGIN_WALL],
            end_ns: row[END_WALL],
            measured_in_ns: measured_in_ns(row),
            known,
        };
        *self.intervals.entry(hour).or_default() += 1;
    }

    /// Adds the threads of a process of the interval; `process_id`: that it is summed under, `sched`: the interval's scheduler events.
    fn add(
        &mut self,
        threads: &[PackedThread],
        process_id: u64,
        sched: &SchedRows,
        names: &mut SumNames<'_>,
    ) -> Sql<()> {
        for thread in threads {
            let is_short = thread.life == Life::BornEnded;
            let source = ThreadSumKey { hour: self.at.hour, process_id, thread_id: thread.id, is_short };
            let place = match self.sources.get(&source) {
                Some(&place) => place,
                None => self.insert(source, names)?,
            };
            self.add_thread(place, thread, sched);
        }
        Ok(())
    }

    #[cold]
    fn insert(&mut self, source: ThreadSumKey, names: &mut SumNames<'_>) -> Sql<usize> {
        let name = names.thread(source.thread_id)?;
        let own = ThreadKey { tid: name.tid, start_ns: name.start_ns };
        let key = if source.is_short { shared_key(&name.comm) } else { own };
        let row = ThreadHour { hour: source.hour, process_id: source.process_id, key };
        let place = *self.places.entry(row).or_insert_with(|| {
            self.sums.push(ThreadSum::default());
            self.sums.len() - 1
        });
        // A thread that changed its name has several rows of `thread`; the newest one names it.
        self.sums[place].comm = name.comm;
        self.sources.insert(source, place);
        Ok(place)
    }

    fn add_thread(&mut self, place: usize, thread: &PackedThread, sched: &SchedRows) {
        let IntervalAt { number, begin_ns, end_ns, measured_in_ns, known, .. } = self.at;
        let sum = &mut self.sums[place];
        let is_watched = known.contains(Fields::SCHED) && !thread.flags.contains(Flags::UNWATCHED);
        let sched = is_watched.then(|| sched.thread(thread.id));
        sum.task.add(&thread.delta, sched.as_ref(), known.contains(Fields::WAITS));
        if sum.interval != number {
            (sum.interval, sum.run_ns) = (number, 0);
        }
        sum.run_ns = sum.run_ns.saturating_add(thread.delta.run_ns);
        sum.task.largest.add(rate(sum.run_ns, measured_in_ns, PER_SECOND), begin_ns, end_ns);
    }

    /// Adds the sums to the tables and empties itself. The rows of `host_hour` are there already.
    fn write(&mut self, connection: &Connection, host: HostRow) -> Sql<()> {
        self.sources.clear();
        let mut places: Vec<(ThreadHour, usize)> = self.places.drain().collect();
        places.sort_unstable();
        let sums = std::mem::take(&mut self.sums);
        let keys = "host_id, hour, process_id, tid, start_ns, comm";
        let text = TaskSum::upsert("thread_hour", keys, "comm = excluded.comm");
        let mut upsert = connection.prepare_cached(&text)?;
        for (ThreadHour { hour, process_id, key }, place) in places {
            let (process_id, start_ns) = (process_id.cast_signed(), key.start_ns.cast_signed());
            let keys = params![host, hour, process_id, key.tid, start_ns, SqlComm(sums[place].comm)];
            sums[place].task.write(&mut upsert, keys, Resolution::Hour, hour)?;
        }
        let text =
            "UPDATE host_hour SET thread_intervals = thread_intervals + ?3 WHERE host_id = ?1 AND hour = ?2";
        for (hour, intervals) in std::mem::take(&mut self.intervals) {
            execute(connection, text, params![host, hour, intervals])?;
        }
        self.at = IntervalAt::default();
        Ok(())
    }
}
