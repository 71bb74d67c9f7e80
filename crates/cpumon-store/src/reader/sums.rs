//! Rows of sums: of hosts (`host_minute`, `host_hour`) and of threads (`thread_hour`), and for which hours there are any of these.

use cpumon_model::{
    BootId, DelayHistogram, Delta, HostId, Ledger, Life, ProcessKey, SchedDelta, ThreadInterval, ThreadKey,
    Waits,
};
use rusqlite::{Connection, Result as Sql, Row, RowIndex, params};

use super::Reader;
use super::build::Names;
use super::query::Query;
use crate::codec::host::Cgroups;
use crate::codec::sched::{read_histogram, waits_from_bytes};
use crate::codec::varint::{Cursor, Malformed};
use crate::error::{At, Result};
use crate::names::SqlComm;
use crate::rows::{HostRow, unsigned};
use crate::sums::{ActiveTimes, BucketRange, Resolution, RunQueue};
use crate::time::TimeRange;

/// Sums of one bucket over a host.
#[derive(Clone, Debug, Default)]
pub(super) struct HostSums {
    pub(super) bucket: i64,
    pub(super) covered_ns: i64,
    pub(super) ledger: Ledger,
    pub(super) max_busy_ppm: i64,
    pub(super) run_queue: Option<RunQueue>,
    pub(super) run_delays: Option<DelayHistogram>,
    pub(super) cgroups: Option<Cgroups>,
}

/// What is packed in a column of a sum; `None` where it is not known, or damaged.
fn unpack<T>(
    row: &Row<'_>,
    at: impl RowIndex,
    what: &str,
    read: impl Fn(&[u8]) -> Result<T, Malformed>,
) -> Sql<Option<T>> {
    let Some(bytes) = row.get_ref(at)?.as_blob_or_null()? else { return Ok(None) };
    let unpacked = read(bytes);
    Ok(unpacked.inspect_err(|malformed| log::warn!("a sum of {what} is damaged: {malformed}")).ok())
}

/// Run delays by length.
pub(super) fn read_delays(row: &Row<'_>, at: usize) -> Sql<Option<DelayHistogram>> {
    unpack(row, at, "run delays", |bytes| read_histogram(&mut Cursor::new(bytes)))
}

/// Wait reasons.
pub(super) fn read_waits(row: &Row<'_>, at: usize) -> Sql<Option<Waits>> {
    unpack(row, at, "wait reasons", waits_from_bytes)
}

/// The six counters of a task in columns from `at` on.
pub(super) fn read_counters(row: &Row<'_>, at: usize) -> Sql<Delta> {
    Ok(Delta {
        user_ns: row.get(at)?,
        system_ns: row.get(at + 1)?,
        run_ns: row.get(at + 2)?,
        run_delay_ns: row.get(at + 3)?,
        voluntary_switches: row.get(at + 4)?,
        involuntary_switches: row.get(at + 5)?,
    })
}

fn read_run_queue(row: &Row<'_>) -> Sql<Option<RunQueue>> {
    let Some(run_queue_ns) = row.get("run_queue_ns")? else { return Ok(None) };
    let known = |name: &str| row.get::<_, Option<i64>>(name).map(Option::unwrap_or_default);
    Ok(Some(RunQueue {
        run_queue_ns,
        max_run_queue_ns_per_s: known("max_run_queue_ns_per_s")?,
        run_queue_max: known("run_queue_max")?,
    }))
}

/// The sums of a host over some buckets, in order.
pub(super) fn host_sums(
    connection: &Connection,
    host: HostRow,
    resolution: Resolution,
    buckets: BucketRange,
) -> Sql<Vec<HostSums>> {
    let name = resolution.name();
    let text = format!(
        "SELECT {name}, covered_ns, capacity_ns, threads_ns, exited_ns, irq_ns, softirq_ns, steal_ns, idle_ns, max_busy_ppm,
                run_delays, run_queue_ns, max_run_queue_ns_per_s, run_queue_max, cgroups
         FROM host_{name} WHERE host_id = ?1 AND {name} BETWEEN ?2 AND ?3 ORDER BY {name}"
    );
    let mut select = connection.prepare_cached(&text)?;
    let rows = select.query_map(params![host, buckets.first, buckets.last], |row| {
        Ok(HostSums {
            bucket: row.get(0)?,
            covered_ns: row.get(1)?,
            ledger: Ledger {
                capacity_ns: row.get(2)?,
                threads_ns: row.get(3)?,
                exited_ns: row.get(4)?,
                irq_ns: row.get(5)?,
                softirq_ns: row.get(6)?,
                steal_ns: row.get(7)?,
                idle_ns: row.get(8)?,
                ..Ledger::default()
            },
            max_busy_ppm: row.get(9)?,
            run_delays: read_delays(row, 10)?,
            run_queue: read_run_queue(row)?,
            cgroups: unpack(row, "cgroups", "control groups", |bytes| {
                Cgroups::read(&mut Cursor::new(bytes))
            })?,
        })
    })?;
    rows.collect()
}

/// What is known of the thread rows of a sum beside their counters, in their order.
#[derive(Copy, Clone, Debug, Default)]
pub struct ThreadRows<'a> {
    /// The largest run time in one interval, ns per second; of short-lived threads that share a row that of all of them together.
    pub max_run_ns_per_s: &'a [i64],
    /// Blocked time; `None`: not measured.
    pub blocked_ns: &'a [Option<i64>],
    /// When it was active; `None`: not recorded.
    pub times: &'a [Option<ActiveTimes>],
    /// The boot, all zero where it is not known.
    pub boots: &'a [BootId],
    /// The place of its process among the rows of the sum.
    pub processes: &'a [Option<usize>],
}

#[derive(Copy, Clone)]
pub(super) struct HourOf<'a> {
    pub(super) connection: &'a Connection,
    pub(super) host: HostRow,
    pub(super) hour: i64,
    /// Rows of `process` of the hour's processes, ascending.
    pub(super) processes: &'a [u64],
}

/// What is known of the rows of a sum beside their counters, in their order.
#[derive(Debug, Default)]
pub(super) struct RowSums {
    pub(super) max_run_ns_per_s: Vec<i64>,
    pub(super) blocked_ns: Vec<Option<i64>>,
    pub(super) times: Vec<Option<ActiveTimes>>,
    pub(super) boots: Vec<BootId>,
}

impl RowSums {
    pub(super) fn clear(&mut self) {
        self.max_run_ns_per_s.clear();
        self.blocked_ns.clear();
        self.times.clear();
        self.boots.clear();
    }
}

/// The thread rows of an hour.
#[derive(Debug, Default)]
pub(super) struct ThreadBucket {
    rows: RowSums,
    processes: Vec<Option<usize>>,
}

impl ThreadBucket {
    /// Reads the threads of an hour in place of what was there.
    pub(super) fn read(
        &mut self,
        HourOf { connection, host, hour, processes }: HourOf<'_>,
        query: &Query,
        names: &mut Names,
        threads: &mut Vec<ThreadInterval>,
    ) -> Sql<()> {
        threads.clear();
        self.rows.clear();
        self.processes.clear();
        let mut select = connection.prepare_cached(
            "SELECT process_id, tid, start_ns, comm, user_ns, system_ns, run_ns, run_delay_ns, voluntary_switches,
                    involuntary_switches, max_run_ns_per_s, blocked_ns, waits, first_ns, last_ns, max_end_ns
             FROM thread_hour WHERE host_id = ?1 AND hour = ?2 ORDER BY process_id, tid, start_ns",
        )?;
        let mut rows = select.query(params![host, hour])?;
        let (mut last_id, mut boot, mut process, mut is_wanted) =
            (None, BootId::default(), ProcessKey::default(), false);
        while let Some(row) = rows.next()? {
            let id = unsigned(row, 0)?;
            if last_id.replace(id) != Some(id) {
                let boot_row = names.process(connection, id)?.boot;
                boot = names.boot(connection, boot_row)?;
                let found = names.process(connection, id)?;
                is_wanted = query.filter.matches(found.key, &found.info);
                process = found.key;
            }
            if is_wanted {
                threads.push(thread(row, process)?);
                self.rows.max_run_ns_per_s.push(row.get(10)?);
                self.rows.blocked_ns.push(row.get(11)?);
                let begin_ns = hour.saturating_mul(Resolution::Hour.length_ns());
                self.rows.times.push(read_times(row, 13, begin_ns)?);
                self.rows.boots.push(boot);
                self.processes.push(processes.binary_search(&id).ok());
            }
        }
        Ok(())
    }

    pub(super) fn rows(&self) -> ThreadRows<'_> {
        ThreadRows {
            max_run_ns_per_s: &self.rows.max_run_ns_per_s,
            blocked_ns: &self.rows.blocked_ns,
            times: &self.rows.times,
            boots: &self.rows.boots,
            processes: &self.processes,
        }
    }
}

fn thread(row: &Row<'_>, process: ProcessKey) -> Sql<ThreadInterval> {
    let key = ThreadKey { tid: row.get(1)?, start_ns: unsigned(row, 2)? };
    Ok(ThreadInterval {
        key,
        process,
        comm: row.get::<_, SqlComm>(3)?.0,
        // The row that short-lived threads of a name share is that of no thread.
        life: if key.tid == 0 { Life::BornEnded } else { Life::Alive },
        delta: read_counters(row, 4)?,
        sched: SchedDelta { waits: read_waits(row, 12)?.unwrap_or_default(), ..SchedDelta::default() },
        ..ThreadInterval::default()
    })
}

/// The times of a sum in three columns from `at` on, of a bucket that begins at `begin_ns`; `None` where they are not recorded.
pub(super) fn read_times(row: &Row<'_>, at: usize, begin_ns: i64) -> Sql<Option<ActiveTimes>> {
    let time = |at: usize| {
        Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(|ns| ns.saturating_add(begin_ns)))
    };
    Ok(match (time(at)?, time(at + 1)?, time(at + 2)?) {
        (Some(first_ns), Some(last_ns), Some(max_end_ns)) => {
            Some(ActiveTimes { first_ns, last_ns, max_end_ns })
        }
        _ => None,
    })
}

impl Reader {
    /// The hours of a range whose threads are not all in sums, in order: those that an older version compacted. In all others sums and
    /// fresh intervals together have every thread.
    pub fn hours_without_threads(&self, host: HostId, range: TimeRange) -> Result<Vec<TimeRange>> {
        let Some(host) = self.host_row(host)? else { return Ok(Vec::new()) };
        let buckets = Resolution::Hour.buckets(range);
        let length_ns = Resolution::Hour.length_ns();
        let find = || {
            let mut select = self.connection.prepare_cached(
                "SELECT hour FROM host_hour
                 WHERE host_id = ?1 AND hour BETWEEN ?2 AND ?3 AND thread_intervals < intervals ORDER BY hour",
            )?;
            let hours = select.query_map(params![host, buckets.first, buckets.last], |row| {
                let since_ns = row.get::<_, i64>(0)?.saturating_mul(length_ns);
                Ok(TimeRange::new(since_ns, since_ns.saturating_add(length_ns)))
            })?;
            hours.collect::<Sql<Vec<_>>>()
        };
        find().at("find sums", self.path())
    }
}
