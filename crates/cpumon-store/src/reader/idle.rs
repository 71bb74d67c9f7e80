//! Rows of idle processes. Samples have none: who was there is read from the list of processes before the moment, and from the rows
//! between the two.

use std::collections::HashMap;
use std::ops::ControlFlow;

use cpumon_model::{BootId, IdleProcess, Interval, ProcessKey};
use rusqlite::{OptionalExtension, params};

use super::open::Reader;
use super::query::{Query, What};
use crate::codec::process_list::{Listed, decode};
use crate::error::{At, Result};
use crate::rows::HostRow;
use crate::writer::LONGEST_LIST_NS;

/// A list of processes.
struct ProcessList {
    end_wall_ns: i64,
    processes: Vec<Listed>,
}

impl Reader {
    /// Adds the rows of processes that were there and did nothing, all zero. `false`: it is not known which these are, because no
    /// list of processes was stored shortly before, or because what some of them did was lost.
    pub fn add_idle(&self, interval: &mut Interval) -> Result<bool> {
        if !interval.is_idle_without_row() {
            return Ok(false);
        }
        let Some(host) = self.host_row(interval.host)? else { return Ok(false) };
        let Some(list) = self.last_list(host, interval)? else { return Ok(false) };
        let mut there = self.listed(&list)?;
        // With threads: one that ended counts in the row of its process, and no longer after it.
        let range = Query::new(interval.host).range(list.end_wall_ns, interval.end.wall_ns);
        self.for_each_interval(&range.what(What::Threads).without_sched(), &mut |one| {
            if one.boot == interval.boot {
                follow(&mut there, one);
            }
            ControlFlow::Continue(())
        })?;
        let mut there: Vec<IdleProcess> = there.into_values().collect();
        there.sort_unstable_by_key(|process| process.key);
        interval.add_idle(&there);
        Ok(true)
    }

    /// The newest list of the interval's boot that is not after its end, nor too old to be followed up to it.
    fn last_list(&self, host: HostRow, interval: &Interval) -> Result<Option<ProcessList>> {
        let (BootId(boot), end_ns) = (interval.boot, interval.end.wall_ns);
        let found: Option<(i64, Vec<u8>)> = self
            .connection
            .prepare_cached(
                "SELECT end_wall_ns, processes FROM process_list
                 WHERE host_id = ?1 AND end_wall_ns BETWEEN ?2 AND ?3
                     AND boot_id = (SELECT id FROM boot WHERE host_id = ?1 AND key = ?4)
                 ORDER BY end_wall_ns DESC LIMIT 1",
            )
            .and_then(|mut select| {
                let oldest_ns = end_ns.saturating_sub(2 * LONGEST_LIST_NS);
                let row = select
                    .query_row(params![host, oldest_ns, end_ns, boot], |row| Ok((row.get(0)?, row.get(1)?)));
                row.optional()
            })
            .at("read a list of processes", self.path())?;
        Ok(found.and_then(|(end_wall_ns, bytes)| match decode(&bytes) {
            Ok(processes) => Some(ProcessList { end_wall_ns, processes }),
            Err(malformed) => {
                // Not known who was there, as without a list.
                log::warn!("the list of processes of {end_wall_ns} is damaged: {malformed}");
                None
            }
        }))
    }

    /// The processes of a list.
    fn listed(&self, list: &ProcessList) -> Result<HashMap<ProcessKey, IdleProcess>> {
        let mut cursor = self.take_cursor();
        let rows = list.processes.iter().map(|listed| {
            let process = cursor.names.process(&self.connection, listed.id)?;
            let one = IdleProcess {
                key: process.key,
                parent_pid: process.parent_pid,
                info: std::sync::Arc::clone(&process.info),
                thread_rows: listed.thread_rows,
            };
            Ok((process.key, one))
        });
        let rows: rusqlite::Result<_> = rows.collect();
        self.give_back(cursor);
        rows.at("read names", self.path())
    }
}

/// Takes who began, changed or ended in an interval.
fn follow(there: &mut HashMap<ProcessKey, IdleProcess>, interval: &Interval) {
    for (key, after) in interval.processes_after() {
        if let Some(process) = after {
            there.insert(key, process);
        } else {
            there.remove(&key);
        }
    }
}
