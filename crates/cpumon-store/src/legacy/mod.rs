//! Imports a `ProcessUsage.sqlite` of the original receiver (schemas of 2012 and 2013): one [`Interval`] for each device and time
//! stamp, and a report that accounts for every row.
//!
//! The file is opened read-only and immutable: nothing is written, locked or created beside it. Its content is not trusted: each
//! value's type and range is checked, and what cannot be used is counted in the report.
//!
//! # What the file does not contain
//! The 2012 schema names no device, and neither schema names a time zone or the number of CPUs. Host and zone are given in
//! [`ImportOptions`] or guessed, and the report says so; the capacity in the ledger stays 0, *unknown*.

mod error;
mod file;
mod order;
mod report;
mod rows;
mod set;
mod sets;
#[cfg(test)]
mod tests;
mod zone;

use std::path::Path;

use cpumon_model::{HostInfo, Interval, Trust};

pub use error::ImportError;
pub use file::Schema;
pub use order::SetOrder;
pub use report::{ImportReport, ImportedHost, OddRows};
pub use sets::{ImportOptions, SetSink};
pub use zone::Zone;

/// Reads `path` and hands each interval to `sink`, host by host, ascending in time.
///
/// To import into a store, use [`Writer::import_legacy`](crate::Writer::import_legacy), which also stores the order of the
/// rows that the original's exports show as `Idx`.
pub fn import(
    path: &Path,
    options: &ImportOptions,
    sink: &mut dyn FnMut(&HostInfo, Trust, &Interval),
) -> Result<ImportReport, ImportError> {
    import_sets(path, options, &mut |host, interval, _order| {
        sink(host, Trust::Imported, interval);
        Ok(())
    })
}

/// As [`import`], with the order of the rows, and with a sink that may fail, which ends the import.
pub fn import_sets(
    path: &Path,
    options: &ImportOptions,
    sink: &mut SetSink<'_>,
) -> Result<ImportReport, ImportError> {
    let file = file::LegacyFile::open(path)?;
    let zone = options.zone.resolve()?;
    sets::Sets::new(&file, options, zone)?.run(sink)
}
