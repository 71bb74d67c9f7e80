//! Legacy import. In: a `ProcessUsage.sqlite` of the original receiver (schemas of 2012 and 2013). Out: one [`Interval`]
//! for each device and time stamp, and a report that accounts for every row. Why: old measurements stay usable.
//!
//! The file is opened read-only and immutable: nothing is written, locked or created beside it. What is in it is
//! hostile until proven: each value's type and range is checked, and what cannot be used is counted, never dropped in
//! silence.
//!
//! # What the file does not say
//! The 2012 schema names no device, and neither schema names a time zone or the number of CPUs. Host and zone are given
//! in [`ImportOptions`] or guessed, and the report says so; the capacity in the ledger stays 0, *unknown*.

mod file;
mod order;
mod report;
mod rows;
mod set;
mod sets;
#[cfg(test)]
mod tests;
mod zone;

use std::path::{Path, PathBuf};

use cpumon_model::{HostInfo, Interval, Trust};

pub use file::Schema;
pub use order::SetOrder;
pub use report::{ImportReport, ImportedHost, OddRows};
pub use zone::Zone;

/// What the user knows about the file.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Name for the device; in 2013 it replaces the address if there is only one. The 2012 schema names none: without this it
    /// is the file's name without its ending, or `device` if the file has the name the original gave it.
    pub host: Option<String>,
    /// The zone of the file's local times.
    pub zone: Zone,
}

/// Why a file could not be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file could not be opened.
    #[error("cannot open {path} for import: {source}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a SQLite database.
    #[error("{path} is not a SQLite database", path = path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The database was not closed by whoever wrote it.
    #[error(
        "{journal} lies beside {path}: its writer did not finish. Close the original receiver, or open and close the \
         file once with sqlite3, then import again",
        path = path.display(),
        journal = journal.display()
    )]
    Journal {
        /// The file.
        path: PathBuf,
        /// What lies beside it.
        journal: PathBuf,
    },
    /// A database, but not one of the original receiver.
    #[error("{path} is no database of the original receiver: {reason}", path = path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },
    /// The file is damaged or cannot be read further.
    #[error("cannot read {table} of {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// More than this reader is ready to keep in memory at once.
    #[error("{path} holds more than {limit} {what}: refused to keep memory bounded", path = path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// Of what.
        what: &'static str,
        /// How many are accepted.
        limit: usize,
    },
    /// One name for several devices.
    #[error("{path} holds {count} devices; a host name can be given for a file with one device only", path = path.display())]
    HostForMany {
        /// The file.
        path: PathBuf,
        /// Devices in it.
        count: u64,
    },
    /// Unknown time zone.
    #[error("{text:?} is no time zone: expected auto, an offset like +02:00 or a name like Europe/Berlin")]
    Zone {
        /// What was given.
        text: String,
    },
    /// The receiving side failed.
    #[error("cannot store an imported interval: {0}")]
    Sink(Box<dyn std::error::Error + Send + Sync>),
}

/// Reads `path` and hands each interval to `sink`, host by host, ascending in time.
///
/// To import into a store, use [`Writer::import_legacy`](crate::Writer::import_legacy), which also keeps the order of the
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

/// What [`import_sets`] calls for each interval.
pub type SetSink<'a> =
    dyn FnMut(&HostInfo, &Interval, &SetOrder) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;

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
