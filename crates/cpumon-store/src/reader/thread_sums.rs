//! Sums of threads: rows of `thread_hour`, and for which hours there are any.

use cpumon_model::{
    BootId, Comm, Delta, HostId, Life, ProcessKey, SchedDelta, ThreadInterval, ThreadKey, Waits,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

use super::dims::{Names, unsigned};
use super::open::Reader;
use super::query::Query;
use crate::codec::waits;
use crate::error::{At, Result};
use crate::rows::HostRow;
use crate::sums::{ActiveTimes, Resolution};
use crate::time::TimeRange;

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

/// An hour of a host.
#[derive(Copy, Clone)]
pub(super) struct HourOf<'a> {
    pub(super) connection: &'a Connection,
    pub(super) host: HostRow,
    pub(super) hour: i64,
    /// Rows of `process` of the hour's processes, ascending.
    pub(super) processes: &'a [u64],
}

/// The thread rows of an hour.
#[derive(Debug, Default)]
pub(super) struct ThreadBucket {
    peaks: Vec<i64>,
    blocked_ns: Vec<Option<i64>>,
    times: Vec<Option<ActiveTimes>>,
    boots: Vec<BootId>,
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
    ) -> rusqlite::Result<()> {
        threads.clear();
        self.peaks.clear();
        self.blocked_ns.clear();
        self.times.clear();
        self.boots.clear();
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
                self.peaks.push(row.get(10)?);
                self.blocked_ns.push(row.get(11)?);
                let begin_ns = hour.saturating_mul(Resolution::Hour.length_ns());
                self.times.push(read_times(row, 13, begin_ns)?);
                self.boots.push(boot);
                self.processes.push(processes.binary_search(&id).ok());
            }
        }
        Ok(())
    }

    pub(super) fn rows(&self) -> ThreadRows<'_> {
        ThreadRows {
            max_run_ns_per_s: &self.peaks,
            blocked_ns: &self.blocked_ns,
            times: &self.times,
            boots: &self.boots,
            processes: &self.processes,
        }
    }
}

fn thread(row: &Row<'_>, process: ProcessKey) -> rusqlite::Result<ThreadInterval> {
    let comm = match row.get_ref(3)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Comm::new(bytes),
        _ => Comm::default(),
    };
    let key = ThreadKey { tid: row.get(1)?, start_ns: unsigned(row, 2)? };
    Ok(ThreadInterval {
        key,
        process,
        comm,
        // The row that short-lived threads of a name share is that of no thread.
        life: if key.tid == 0 { Life::BornEnded } else { Life::Alive },
        delta: Delta {
            user_ns: row.get(4)?,
            system_ns: row.get(5)?,
            run_ns: row.get(6)?,
            run_delay_ns: row.get(7)?,
            voluntary_switches: row.get(8)?,
            involuntary_switches: row.get(9)?,
        },
        sched: SchedDelta { waits: read_waits(row, 12)?.unwrap_or_default(), ..SchedDelta::default() },
        ..ThreadInterval::default()
    })
}

/// The times of a sum in three columns from `at` on, of a bucket that begins at `begin_ns`; `None` where they are not recorded.
pub(super) fn read_times(row: &Row<'_>, at: usize, begin_ns: i64) -> rusqlite::Result<Option<ActiveTimes>> {
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

/// Wait reasons of a sum; `None` where they are not known, or damaged.
pub(super) fn read_waits(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Waits>> {
    let Some(bytes) = row.get_ref(at)?.as_blob_or_null()? else { return Ok(None) };
    match waits::read(bytes) {
        Ok(waits) => Ok(Some(waits)),
        Err(malformed) => {
            log::warn!("a sum of wait reasons is damaged: {malformed}");
            Ok(None)
        }
    }
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
            hours.collect::<rusqlite::Result<Vec<_>>>()
        };
        find().at("find sums", self.path())
    }
}
