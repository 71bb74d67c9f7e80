//! Rows of `host_minute` and `host_hour`.

use cpumon_model::{DelayHistogram, Ledger};
use rusqlite::{Connection, params};

use crate::codec::cgroups::Cgroups;
use crate::codec::delays;
use crate::codec::varint::Cursor;
use crate::rows::HostRow;
use crate::sums::{BucketRange, Resolution, RunQueue};

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

/// Run delays by length; `None` where they are not known, or damaged.
pub(super) fn read_delays(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Option<DelayHistogram>> {
    let Some(bytes) = row.get_ref(at)?.as_blob_or_null()? else { return Ok(None) };
    match delays::read(&mut Cursor::new(bytes)) {
        Ok(histogram) => Ok(Some(histogram)),
        Err(malformed) => {
            log::warn!("a sum of run delays is damaged: {malformed}");
            Ok(None)
        }
    }
}

/// Limits of control groups; `None` where they are not known, or damaged.
fn read_cgroups(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Cgroups>> {
    let Some(bytes) = row.get_ref("cgroups")?.as_blob_or_null()? else { return Ok(None) };
    let cgroups = Cgroups::read(&mut Cursor::new(bytes));
    Ok(cgroups.inspect_err(|malformed| log::warn!("a sum of control groups is damaged: {malformed}")).ok())
}

fn read_run_queue(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<RunQueue>> {
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
) -> rusqlite::Result<Vec<HostSums>> {
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
            cgroups: read_cgroups(row)?,
        })
    })?;
    rows.collect()
}
