//! Rows of sums: of hosts (`host_minute`, `host_hour`), what those of tasks have in common, and which hours have none of threads.

use cpumon_model::{BootId, DelayHistogram, Delta, HostId, Ledger, Waits};
use rusqlite::{Connection, Result as Sql, Row, RowIndex, params};

use super::Reader;
use super::query::TimeRange;
use crate::codec::host::Cgroups;
use crate::codec::sched::{read_histogram, waits_from_bytes};
use crate::codec::varint::{Malformed, VarintCursor};
use crate::error::{At, Result};
use crate::rows::{HostRow, all_rows};
use crate::sums::{ActiveTimes, BucketRange, Resolution, RunQueue};

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

pub(super) fn read_delays(row: &Row<'_>, at: usize) -> Sql<Option<DelayHistogram>> {
    unpack(row, at, "run delays", |bytes| read_histogram(&mut VarintCursor::new(bytes)))
}

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
    all_rows(connection, &text, params![host, buckets.first, buckets.last], |row| {
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
                Cgroups::read(&mut VarintCursor::new(bytes))
            })?,
        })
    })
}

/// What a row of a sum has beside its counters.
#[derive(Copy, Clone, Debug, Default)]
pub struct SumRow {
    /// The largest run time in one interval, ns per second; of short-lived threads that share a row that of all of them together.
    pub max_run_ns_per_s: i64,
    /// Blocked time; `None`: not measured.
    pub blocked_ns: Option<i64>,
    /// When it was active; `None`: not recorded.
    pub times: Option<ActiveTimes>,
    /// The boot of its process, all zero where it is not known.
    pub boot: BootId,
    /// Of a thread: the place of its process among the process rows of the sum.
    pub process: Option<usize>,
}

impl SumRow {
    /// Reads `max_run_ns_per_s`, `blocked_ns`, `first_ns`, `last_ns`, `max_end_ns` from column `at` on; `begin_ns`: of the bucket.
    pub(super) fn read(row: &Row<'_>, at: usize, begin_ns: i64, boot: BootId) -> Sql<Self> {
        let time = |at: usize| {
            Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(|ns| ns.saturating_add(begin_ns)))
        };
        let times = match (time(at + 2)?, time(at + 3)?, time(at + 4)?) {
            (Some(first_ns), Some(last_ns), Some(max_end_ns)) => {
                Some(ActiveTimes { first_ns, last_ns, max_end_ns })
            }
            _ => None,
        };
        let (max_run_ns_per_s, blocked_ns) = (row.get(at)?, row.get(at + 1)?);
        Ok(Self { max_run_ns_per_s, blocked_ns, times, boot, process: None })
    }
}

impl Reader {
    /// The hours of a range whose threads are not all in sums, in order: those that an older version compacted. In all others sums and
    /// fresh intervals together have every thread.
    pub fn hours_without_threads(&self, host: HostId, range: TimeRange) -> Result<Vec<TimeRange>> {
        let Some(host) = self.host_row(host)? else { return Ok(Vec::new()) };
        let buckets = Resolution::Hour.buckets(range);
        let length_ns = Resolution::Hour.length_ns();
        let text = "SELECT hour FROM host_hour
             WHERE host_id = ?1 AND hour BETWEEN ?2 AND ?3 AND thread_intervals < intervals ORDER BY hour";
        let hours = all_rows(&self.connection, text, params![host, buckets.first, buckets.last], |row| {
            let since_ns = row.get::<_, i64>(0)?.saturating_mul(length_ns);
            Ok(TimeRange::new(since_ns, since_ns.saturating_add(length_ns)))
        });
        hours.at("find sums", self.path())
    }
}
