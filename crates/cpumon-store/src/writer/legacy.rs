//! Imports a database of the original receiver of 2012, with the order of its rows: the original's exports show row numbers,
//! which intervals do not have.

use std::collections::BTreeSet;
use std::path::Path;

use cpumon_model::{HostId, Trust};
use rusqlite::params;

use super::{Put, Writer};
use crate::error::Result;
use crate::legacy::{ImportError, ImportOptions, ImportReport, SetOrder, import_sets};

/// Sets put between two commits.
const COMMIT_EVERY: u64 = 256;

impl Writer {
    /// Imports the original receiver's database at `path` and compacts it at once. A second import of the same file under the
    /// same host name and zone changes nothing; the report counts what was there already.
    pub fn import_legacy(
        &mut self,
        path: &Path,
        options: &ImportOptions,
    ) -> Result<ImportReport, ImportError> {
        let (mut done, mut known) = (0, 0);
        let mut hosts = BTreeSet::new();
        let mut report = import_sets(path, options, &mut |host, interval, order| {
            hosts.insert(interval.host);
            match self.put(host, Trust::Imported, None, interval)? {
                Put::Stored => self.put_legacy_order(interval.host, interval.end.wall_ns, order)?,
                Put::Duplicate => known += 1,
            }
            done += 1;
            if done % COMMIT_EVERY == 0 {
                self.commit()?;
            }
            Ok(())
        })?;
        self.commit().map_err(|error| ImportError::Sink(error.into()))?;
        // Nothing is added to the past later, and perhaps no receiver opens this store again: left to maintenance, it could stay
        // twice as large as necessary.
        for host in hosts {
            self.compact_host(host).map_err(|error| ImportError::Sink(error.into()))?;
        }
        report.sets_known = known;
        Ok(report)
    }

    fn put_legacy_order(&mut self, host: HostId, end_wall_ns: i64, order: &SetOrder) -> Result<()> {
        self.write("store the order of imported rows", |transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT OR REPLACE INTO legacy_order (host_id, end_wall_ns, idx)
                 SELECT id, ?2, ?3 FROM host WHERE key = ?1",
            )?;
            insert.execute(params![host.0, end_wall_ns, order.encode()])?;
            Ok(())
        })
    }
}
