//! Imports a `ProcessUsage.sqlite` of the original receiver (schemas of 2012 and 2013): one interval for each device and time
//! stamp, and a report that accounts for every row.
//!
//! The file is opened read-only and immutable: nothing is written, locked or created beside it. Its content is not trusted: each
//! value's type and range is checked, and what cannot be used is counted in the report.
//!
//! # What the file does not contain
//! The 2012 schema names no device, and neither schema names a time zone or the number of CPUs. Host and zone are given in
//! [`ImportOptions`] or guessed, and the report says so; the capacity in the ledger stays 0, *unknown*.

mod file;
mod report;
mod sets;
#[cfg(test)]
mod tests;
mod zone;

use std::collections::BTreeSet;
use std::path::Path;

use cpumon_model::Trust;

pub use self::report::{ImportError, ImportReport, ImportedHost, OddRows, Schema};
use self::sets::SetSink;
pub use self::sets::{ImportOptions, SetOrder};
pub use self::zone::Zone;
use crate::writer::{Put, Writer};

/// Reads `path` and hands each interval to `sink`, host by host, ascending in time, with the order of its rows that the original's exports
/// show as `Idx`. An error of the sink ends the import.
fn import_sets(
    path: &Path,
    options: &ImportOptions,
    sink: &mut SetSink<'_>,
) -> Result<ImportReport, ImportError> {
    let file = file::LegacyFile::open(path)?;
    let zone = options.zone.resolve()?;
    sets::Sets::new(&file, options, zone)?.run(sink)
}

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
        self.commit().map_err(ImportError::Sink)?;
        // Nothing is added to the past later, and perhaps no receiver opens this store again: left to maintenance, it could stay
        // twice as large as necessary.
        for host in hosts {
            self.compact_host(host).map_err(ImportError::Sink)?;
        }
        report.sets_known = known;
        Ok(report)
    }
}
