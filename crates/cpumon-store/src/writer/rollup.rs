//! Sums per minute and hour over compacted intervals: rows of `host_minute`, `process_minute` and their hours, and of threads by the hour
//! (`thread_hour`). A chart of weeks reads thousands of rows instead of millions. Fresh intervals are not in the sums; the reader adds them.

use std::collections::{BTreeMap, HashMap};

use cpumon_model::{Comm, DelayHistogram, Fields, Flags, Interval, Life, ThreadKey};
use rusqlite::{Connection, Result as Sql, params};

use super::dims::Dims;
use super::naming::Seeded;
use crate::codec::chunk::FreshInterval;
use crate::codec::host::{self, Cgroups};
use crate::codec::meta::{
    BEGIN_WALL, END_WALL, fields_of, flags_of, ledger_lines, length_ns, measured_in_ns, source_of,
};
use crate::codec::sched::SchedRows;
use crate::codec::waits_for::WaitsFor;
use crate::codec::{Packed, PackedProcess, PackedThread};
use crate::names::{self, Block, SqlComm, ThreadName};
use crate::rows::{HostRow, execute};
use crate::sums::{COMM, HostSum, IntervalAt, RUN_DELAYS, Resolution, RunQueue, TaskSum, add_known, rate};

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
    /// The current interval, with the scheduler's events of its tasks and CPUs.
    at: IntervalAt,
    sched: SchedRows,
    cpus: Interval,
}

impl Rollup {
    /// Adds intervals. Short-lived processes of one description are summed under one process: a row for each would outgrow the samples.
    pub(super) fn add(
        &mut self,
        intervals: &[FreshInterval],
        names: &mut SumNames<'_>,
    ) -> rusqlite::Result<()> {
        for interval in intervals {
            let row = &interval.meta;
            self.at = IntervalAt {
                number: self.at.number + 1,
                begin_ns: row[BEGIN_WALL],
                end_ns: row[END_WALL],
                measured_in_ns: measured_in_ns(row),
                known: self.read_sched(interval),
            };
            let known = self.at.known.of_threads(source_of(row));
            let (mut blocked_ns, of_threads) = (None, IntervalAt { known, ..self.at });
            for (process, threads) in interval.rows.groups() {
                let is_short = process.life == Life::BornEnded;
                let id = if is_short { names.summed_process(process.id)? } else { process.id };
                add_known(&mut blocked_ns, self.add_process(process, id));
                self.threads.add(&of_threads, threads, id, &self.sched, names)?;
            }
            self.add_host(interval, blocked_ns);
        }
        Ok(())
    }

    /// `blocked_ns`: of all its processes.
    fn add_host(&mut self, interval: &FreshInterval, blocked_ns: Option<i64>) {
        let (row, known) = (&interval.meta, self.at.known);
        let covered_ns = length_ns(row);
        let run_delays = known.contains(Fields::HISTOGRAMS).then(|| self.cpus.cpu_delays());
        // Without CPUs (a source that does not list them) a queue of 0 would read as "nothing waited".
        let has_queue = known.contains(Fields::SCHED) && !self.cpus.cpus.is_empty();
        let queue = has_queue.then(|| RunQueue::new(&self.cpus.cpu_sched(), covered_ns));
        // Its sum is right together with its neighbours' (see the flag), its own mean is not known.
        let has_mean = !flags_of(row).contains(Flags::RUN_QUEUE_UNKNOWN);
        let queue =
            queue.map_or([None; 3], |RunQueue { run_queue_ns, max_run_queue_ns_per_s, run_queue_max }| {
                let max_mean = if has_mean { max_run_queue_ns_per_s } else { 0 };
                [run_queue_ns, max_mean, run_queue_max].map(Some)
            });
        let cgroups = known.contains(Fields::CGROUPS).then(|| Cgroups::of(&self.cpus)).flatten();
        let waits_for = known.contains(Fields::WAITS_FOR).then(|| WaitsFor::of(&self.cpus)).flatten();
        let delays = interval.rows.processes.iter().map(|row| row.delta.run_delay_ns);
        let ledger = ledger_lines(row);
        // The highest share in one interval, because a mean over an hour hides a second in which all CPUs were busy.
        let busy_ns = ledger[1..5].iter().fold(0_i64, |sum, line| sum.saturating_add(*line));
        // Lines may be negative: devices have sent such times.
        let busy_ppm = rate(busy_ns, ledger[0], 1_000_000).max(0);
        let run_delay_ns = known.contains(Fields::RUN_DELAY).then(|| delays.fold(0, i64::saturating_add));
        let first = [1, covered_ns].into_iter().chain(ledger).chain([busy_ppm]).map(Some);
        let mut numbers = first.chain([run_delay_ns, blocked_ns]).chain(queue);
        let numbers = std::array::from_fn(|_| numbers.next().flatten());
        let one = HostSum { numbers, run_delays, cgroups, waits_for };
        for (resolution, sums) in Resolution::ALL.iter().zip(&mut self.sums) {
            sums.hosts.entry(resolution.bucket(row[END_WALL])).or_default().add(&one);
        }
    }

    /// Adds a process. Returns its blocked time, where it is known.
    fn add_process(&mut self, process: &PackedProcess, id: u64) -> Option<i64> {
        // Without the threads that only waited, which have no row; see docs/store.md.
        let sched = self.at.watches(process.flags).then(|| self.sched.process(process.id));
        for (resolution, sums) in Resolution::ALL.iter().zip(&mut self.sums) {
            let sum = sums.processes.entry((resolution.bucket(self.at.end_ns), id)).or_default();
            sum.task.add(&self.at, &process.delta, sched.as_ref());
            // Where histograms were measured, a process without one had no run delay that ended: that is an empty histogram.
            if self.at.known.contains(Fields::HISTOGRAMS) {
                let run_delays = sum.run_delays.get_or_insert_default();
                if let Some(delays) = self.sched.process_delays(process.id) {
                    *run_delays += &**delays;
                }
            }
        }
        sched.map(|sched| sched.blocked_ns)
    }

    /// Decodes the scheduler's events of an interval. Returns which fields are known: a damaged blob must not become zeros.
    fn read_sched(&mut self, interval: &FreshInterval) -> Fields {
        let of_cpus = Fields::SCHED | Fields::HISTOGRAMS | Fields::CGROUPS | Fields::WAITS_FOR;
        let known = fields_of(&interval.meta);
        let mut read = self.sched.read(&interval.sched);
        if read.is_ok() && known.intersects(of_cpus) {
            self.cpus.fields = known;
            read = host::decode(&interval.cpus, &mut self.cpus);
        }
        match read {
            Ok(()) => known,
            Err(malformed) => {
                log::warn!("the scheduler's events of an interval are damaged: {malformed}");
                known - Fields::WAITS - of_cpus
            }
        }
    }

    /// Adds the sums to the tables and empties itself. A bucket gets its sums in many steps: a chunk is a hundred seconds, an hour 36
    /// chunks, and late intervals come still later.
    pub(super) fn write(&mut self, connection: &Connection, host: HostRow) -> rusqlite::Result<()> {
        for (resolution, sums) in Resolution::ALL.iter().zip(&mut self.sums) {
            let sums = std::mem::take(sums);
            let mut upsert = connection.prepare_cached(&HostSum::upsert(*resolution))?;
            for (bucket, sum) in &sums.hosts {
                sum.write(&mut upsert, host, *bucket)?;
                if *resolution == Resolution::Hour {
                    count_threads_summed(connection, host, *bucket, sum)?;
                }
            }
            write_processes(connection, *resolution, host, &sums.processes)?;
        }
        self.threads.write(connection, host)
    }
}

/// Records that the threads of intervals are in sums: an older version left them out.
fn count_threads_summed(connection: &Connection, host: HostRow, hour: i64, sum: &HostSum) -> Sql<()> {
    let text =
        "UPDATE host_hour SET thread_intervals = thread_intervals + ?3 WHERE host_id = ?1 AND hour = ?2";
    execute(connection, text, params![host, hour, sum.numbers[0]]).map(drop)
}

fn write_processes(
    connection: &Connection,
    resolution: Resolution,
    host: HostRow,
    sums: &BTreeMap<(i64, u64), ProcessSum>,
) -> rusqlite::Result<()> {
    let name = resolution.name();
    let keys = format!("host_id, {name}, process_id");
    let text = TaskSum::upsert(&format!("process_{name}"), &keys, RUN_DELAYS);
    let mut upsert = connection.prepare_cached(&text)?;
    for ((bucket, process_id), sum) in sums {
        let run_delays = sum.run_delays.as_ref().map(Packed::pack);
        let before = params![host, bucket, process_id.cast_signed(), run_delays];
        sum.task.write(&mut upsert, before, resolution, *bucket)?;
    }
    Ok(())
}

// A row of `thread_hour` has the key and the name of its thread itself, so that the names of threads can go with their samples. Threads
// that began and ended within one interval share a row by process and name: a row for each would outgrow the samples on a machine that
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
}

/// Sums of the intervals that were added since the last write.
#[derive(Debug, Default)]
struct ThreadSums {
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
    /// Adds the threads of a process of the interval; `process_id`: that it is summed under, `sched`: the interval's scheduler events.
    fn add(
        &mut self,
        at: &IntervalAt,
        threads: &[PackedThread],
        process_id: u64,
        sched: &SchedRows,
        names: &mut SumNames<'_>,
    ) -> Sql<()> {
        let hour = Resolution::Hour.bucket(at.end_ns);
        for thread in threads {
            let is_short = thread.life == Life::BornEnded;
            let source = ThreadSumKey { hour, process_id, thread_id: thread.id, is_short };
            let place = match self.sources.get(&source) {
                Some(&place) => place,
                None => self.insert(source, names)?,
            };
            let sched = at.watches(thread.flags).then(|| sched.thread(thread.id));
            self.sums[place].task.add(at, &thread.delta, sched.as_ref());
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

    /// Adds the sums to the table and empties itself.
    fn write(&mut self, connection: &Connection, host: HostRow) -> Sql<()> {
        self.sources.clear();
        let mut places: Vec<(ThreadHour, usize)> = self.places.drain().collect();
        places.sort_unstable();
        let sums = std::mem::take(&mut self.sums);
        let text = TaskSum::upsert("thread_hour", "host_id, hour, process_id, tid, start_ns", COMM);
        let mut upsert = connection.prepare_cached(&text)?;
        for (ThreadHour { hour, process_id, key }, place) in places {
            let (process_id, start_ns) = (process_id.cast_signed(), key.start_ns.cast_signed());
            let before = params![host, hour, process_id, key.tid, start_ns, SqlComm(sums[place].comm)];
            sums[place].task.write(&mut upsert, before, Resolution::Hour, hour)?;
        }
        Ok(())
    }
}
