//! When a process began, on the wall clock. Its key has the time since boot only, and sums have no begin at all.

use std::collections::HashMap;

use cpumon_model::{HostId, ProcessKey, Tables};
use rusqlite::{Connection, OptionalExtension, params};

use super::chunks::{MAX_TRIED, first_readable};
use super::error::ReadError;
use super::open::Reader;
use super::tasks::Task;
use crate::codec::meta::{END_BOOT, END_WALL};
use crate::error::Result;
use crate::rows::{BootKey, BootRow};

/// The same moment on two clocks, ns.
#[derive(Copy, Clone, Debug)]
struct Pair {
    boot_ns: i64,
    wall_ns: i64,
}

impl Pair {
    fn wall_of(self, boot_ns: i64) -> i64 {
        self.wall_ns.saturating_add(boot_ns.saturating_sub(self.boot_ns))
    }
}

impl Reader {
    /// When processes began, ns since the epoch on the host's time line: a key has the time since boot, and the interval of
    /// that boot that ends nearest to it has both clocks. Left out are those that were never stored, whose source has no start
    /// times, or of whose boot no interval is stored.
    pub fn began(&self, host: HostId, keys: &[ProcessKey]) -> Result<HashMap<ProcessKey, i64>> {
        let mut began = HashMap::new();
        let Some(host_row) = self.host_row(host)? else { return Ok(began) };
        let mut boots: HashMap<ProcessKey, Option<BootRow>> =
            keys.iter().filter(|key| key.start_ns > 0).map(|key| (*key, None)).collect();
        let mut visit = |task: &Task<'_>| {
            let process = task.process();
            if let Some(boot) = boots.get_mut(&process.key) {
                // Rows come in order of id, so of several boots with this key the newest remains.
                *boot = Some(process.boot);
            }
        };
        let pid = if let [one] = keys { Some(one.pid) } else { None };
        self.for_each_task(host, Tables::PROCESSES, pid, 0, usize::MAX, &mut visit)?;
        for (key, boot) in boots {
            let Some(boot) = boot else { continue };
            let start_ns = key.start_ns.cast_signed();
            let nearest = nearest(&self.connection, BootKey { host: host_row, boot }, start_ns);
            if let Some(pair) = nearest.map_err(|error| self.read_error(error))? {
                began.insert(key, pair.wall_of(start_ns));
            }
        }
        Ok(began)
    }
}

/// The end of an interval of a boot that is nearest to a time since boot.
fn nearest(
    connection: &Connection,
    key: BootKey,
    boot_ns: i64,
) -> std::result::Result<Option<Pair>, ReadError> {
    let fresh = connection
        .prepare_cached(
            "SELECT end_boot_ns, end_wall_ns FROM interval WHERE host_id = ?1 AND boot_id = ?2 AND end_boot_ns > 0
             ORDER BY abs(end_boot_ns - ?3) LIMIT 1",
        )?
        .query_row(params![key.host, key.boot, boot_ns], |row| {
            Ok(Pair { boot_ns: row.get(0)?, wall_ns: row.get(1)? })
        })
        .optional()?;
    // Chunks are found by wall time, which is what is sought. Any chunk of the boot gives it to within the steps of the clock,
    // and so the chunk in which the process began.
    let first = chunk_after(connection, key, Pair { boot_ns, wall_ns: i64::MIN })?;
    let about_ns = first.or(fresh).map_or(i64::MIN, |pair| pair.wall_of(boot_ns));
    let compacted = if about_ns == i64::MIN {
        None
    } else {
        chunk_after(connection, key, Pair { boot_ns, wall_ns: about_ns })?
    };
    let distance = |pair: &Pair| pair.boot_ns.abs_diff(boot_ns);
    Ok([fresh, first, compacted].into_iter().flatten().min_by_key(distance))
}

/// Of the first readable chunk of a boot that ends at `sought.wall_ns` or later, the interval's end nearest to `sought.boot_ns`.
fn chunk_after(
    connection: &Connection,
    key: BootKey,
    sought: Pair,
) -> std::result::Result<Option<Pair>, ReadError> {
    let mut select = connection.prepare_cached(
        "SELECT id FROM chunk WHERE host_id = ?1 AND boot_id = ?2 AND last_end_wall_ns >= ?3
         ORDER BY last_end_wall_ns LIMIT ?4",
    )?;
    let ids = select.query_map(params![key.host, key.boot, sought.wall_ns, MAX_TRIED], |row| row.get(0))?;
    let chunk = first_readable(connection, ids)?;
    let pairs = chunk.metas.iter().map(|row| Pair { boot_ns: row[END_BOOT], wall_ns: row[END_WALL] });
    Ok(pairs.filter(|pair| pair.boot_ns > 0).min_by_key(|pair| pair.boot_ns.abs_diff(sought.boot_ns)))
}
