//! Imports a `ProcessUsage.sqlite` of the original receiver (schemas of 2012 and 2013) into a store: one interval for each device and
//! time stamp, and a report that accounts for every row.
//!
//! The file is opened read-only and immutable: nothing is written, locked or created beside it. Its content is not trusted: each
//! value's type and range is checked, and what cannot be used is counted in the report.
//!
//! # What the file does not contain
//! The 2012 schema names no device, and neither schema names a time zone or the number of CPUs. Host and zone are given in
//! [`ImportOptions`] or guessed, and the report says so; the capacity in the ledger stays 0, *unknown*.

#[cfg(test)]
#[path = "../../../testing/cpu_time.rs"]
mod cpu_time;
mod file;
#[cfg(test)]
#[path = "../../../testing/held_memory.rs"]
mod held_memory;
mod report;
mod sets;
#[cfg(test)]
mod tests;
mod zone;

use std::collections::BTreeSet;
use std::path::Path;

use cpumon_model::Trust;
use cpumon_store::{Put, Writer};

pub use crate::report::{ImportError, ImportReport, ImportedHost, OddRows, Schema};
pub use crate::sets::ImportOptions;
use crate::sets::SetSink;
pub use crate::zone::Zone;

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

/// Checks that [`import`] can begin, before there is a store to import into.
///
/// # Errors
/// The file is none of the original receiver, or the options do not fit it.
pub fn check(path: &Path, options: &ImportOptions) -> Result<(), ImportError> {
    let file = file::LegacyFile::open(path)?;
    sets::Sets::new(&file, options, options.zone.resolve()?).map(drop)
}

/// Sets put between two commits.
const COMMIT_EVERY: u64 = 256;

/// Imports the original receiver's database at `path` into the store of `writer` and compacts it at once. A second import of the same
/// file under the same host name and zone changes nothing; the report counts what was there already.
///
/// # Errors
/// The file is none of the original receiver, cannot be read to its end or needs too much memory, the options do not fit it, or the store
/// fails. Intervals are committed 256 at a time, so those before the error may be in the store.
pub fn import(
    writer: &mut Writer,
    path: &Path,
    options: &ImportOptions,
) -> Result<ImportReport, ImportError> {
    let (mut done, mut known) = (0, 0);
    let mut hosts = BTreeSet::new();
    let mut report = import_sets(path, options, &mut |host, interval, order| {
        hosts.insert(interval.host);
        match writer.put(host, Trust::Imported, None, interval)? {
            Put::Stored => writer.put_legacy_order(interval.host, interval.end.wall_ns, order)?,
            Put::Duplicate => known += 1,
        }
        done += 1;
        if done % COMMIT_EVERY == 0 {
            writer.commit()?;
        }
        Ok(())
    })?;
    writer.commit().map_err(ImportError::Sink)?;
    // Nothing is added to the past later, and perhaps no receiver opens this store again: left to maintenance, it could stay
    // twice as large as necessary.
    for host in hosts {
        writer.compact_host(host).map_err(ImportError::Sink)?;
    }
    report.sets_known = known;
    Ok(report)
}
