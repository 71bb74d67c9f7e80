//! Sums of threads by the hour: rows of `thread_hour`. A row has the key and the name of its thread itself, so that the names of
//! threads can go with their samples. Threads that began and ended within one interval share a row by process and name: a row for
//! each of them would outgrow the samples on a machine that compiles.

use std::collections::{BTreeMap, HashMap};

use cpumon_model::{Comm, Fields, Flags, Life, ThreadKey};
use rusqlite::{Connection, Result as Sql, params};

use super::dims::Dims;
use super::naming::Seeded;
use crate::codec::PackedThread;
use crate::codec::chunk::FreshInterval;
use crate::codec::meta::{BEGIN_WALL, END_WALL, measured_in_ns};
use crate::codec::sched::SchedRows;
use crate::names::{self, Block, SqlComm, ThreadName};
use crate::rows::{HostRow, execute};
use crate::sums::{PER_SECOND, Resolution, TaskSum, rate};

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
    pub(super) fn summed_process(&mut self, process_id: u64) -> Sql<u64> {
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
pub(super) struct ThreadSums {
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
    pub(super) fn begin(&mut self, interval: &FreshInterval, known: Fields) {
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
    pub(super) fn add(
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
    pub(super) fn write(&mut self, connection: &Connection, host: HostRow) -> Sql<()> {
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
