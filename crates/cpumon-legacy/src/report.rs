//! What an import did: a count for every kind of odd row, every guess, and lines for people; or why it fails.

use std::path::PathBuf;

use cpumon_model::{HostId, Utc, escape};
use cpumon_store::StoreError;

/// Rows that are not as the original receiver writes them. The first group was left out, the second was stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OddRows {
    /// Left out: a value is of the wrong type.
    pub wrong_type: u64,
    /// Left out: an id does not fit 32 bits, or a duration is negative or above 32 bits of ms.
    pub out_of_range: u64,
    /// Left out: the time stamp is before 1677 or after 2262.
    pub bad_time: u64,
    /// Left out: threads whose process row is not there.
    pub orphan_threads: u64,
    /// Left out: threads of a process row that was left out.
    pub threads_of_left_out: u64,
    /// Left out: the same row twice.
    pub duplicates: u64,
    /// Stored: a second row of the same id and name in the same set, with other times; both were added up.
    pub merged: u64,
    /// Stored and flagged *impossible*: negative times, or times beyond 292 years.
    pub impossible: u64,
    /// Stored: the duration is not that of the set; the set's longest is used.
    pub other_duration: u64,
    /// Stored: the process has no name.
    pub nameless: u64,
    /// Stored: the local time occurs twice or never in the zone (clock change); the first, or the later, was taken.
    pub ambiguous_time: u64,
}

impl OddRows {
    fn table(&self) -> [(u64, &'static str); 11] {
        [
            (self.wrong_type, "left out: a value is of the wrong type"),
            (self.out_of_range, "left out: an id or a duration is out of range"),
            (self.bad_time, "left out: the time stamp is before 1677 or after 2262"),
            (self.orphan_threads, "left out: threads without a process row"),
            (self.threads_of_left_out, "left out: threads of process rows that were left out"),
            (self.duplicates, "left out: the same row twice"),
            (self.merged, "stored: same id twice in a set, added up"),
            (self.impossible, "stored, flagged impossible: negative or absurd times"),
            (self.other_duration, "stored: duration differs from that of the set"),
            (self.nameless, "stored: the process has no name"),
            (self.ambiguous_time, "stored: local time is ambiguous in the zone"),
        ]
    }
}

/// A device of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedHost {
    /// As given, as in the file, or guessed.
    pub name: String,
    /// Its id here: derived from the name, so that a second import of the file meets the first.
    pub id: HostId,
    /// Number of its intervals.
    pub sets: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    pub schema: Schema,
    /// The devices, in the order of their addresses.
    pub hosts: Vec<ImportedHost>,
    /// The zone in which local times were read, for people.
    pub zone: String,
    /// Rows of `Processes` in the file.
    pub process_rows_read: u64,
    /// Rows of `Threads` in the file.
    pub thread_rows_read: u64,
    /// Process rows given to the sink.
    pub process_rows: u64,
    /// Thread rows given to the sink.
    pub thread_rows: u64,
    /// Intervals given to the sink.
    pub sets: u64,
    /// Intervals that the store had already.
    pub sets_known: u64,
    /// Start of the first and end of the last interval, ns since the UNIX epoch.
    pub span: Option<(i64, i64)>,
    pub odd: OddRows,
    /// What neither the file nor the user gave, as sentences for people.
    pub guesses: Vec<String>,
}

impl ImportReport {
    /// Whether every row of the file was taken over.
    pub fn is_complete(&self) -> bool {
        // The first six are the rows that were left out.
        self.odd.table()[..6].iter().all(|(count, _)| *count == 0)
    }

    /// The report for people: counts, range of time, guesses, and each kind of odd row that occurred.
    pub fn lines(&self) -> Vec<String> {
        let names: Vec<_> = self.hosts.iter().take(8).map(|host| escape(&host.name).to_string()).collect();
        let more = if self.hosts.len() > 8 { ", …" } else { "" };
        let mut lines = vec![
            format!(
                "schema of {}, {} host(s): {}{more}",
                self.schema.year(),
                self.hosts.len(),
                names.join(", ")
            ),
            format!(
                "{} intervals, {} of {} process rows, {} of {} thread rows",
                self.sets, self.process_rows, self.process_rows_read, self.thread_rows, self.thread_rows_read
            ),
        ];
        if let Some((begin, end)) = self.span {
            lines.push(format!("from {} to {}", Utc(begin), Utc(end)));
        }
        if self.sets_known > 0 {
            lines.push(format!("{} intervals were in the store already", self.sets_known));
        }
        lines.extend(self.guesses.iter().map(|guess| format!("guessed: {guess}")));
        let odd = self.odd.table();
        lines.extend(odd.iter().filter(|row| row.0 > 0).map(|(count, what)| format!("{count} rows {what}")));
        lines
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    #[error("cannot open {path} for import", path = path.display())]
    Open { path: PathBuf, source: std::io::Error },
    #[error("{path} is not a SQLite database", path = path.display())]
    NotADatabase { path: PathBuf },
    /// The whole file is compressed.
    #[error("{path} is packed with {with}; unpack it first, as with `{unpack}`", path = path.display())]
    Packed {
        path: PathBuf,
        /// Name of the compression, such as `gzip`.
        with: &'static str,
        /// Command that unpacks the file into another one.
        unpack: &'static str,
    },
    /// The program that wrote the database did not close it.
    #[error(
        "{journal} is beside {path}: its writer did not finish. Close the original receiver, or open and close the \
         file once with sqlite3, then import again",
        path = path.display(),
        journal = journal.display()
    )]
    Journal { path: PathBuf, journal: PathBuf },
    /// A database, but not one of the original receiver.
    #[error("{path} is no database of the original receiver: {reason}", path = path.display())]
    Schema { path: PathBuf, reason: String },
    /// The file is damaged or cannot be read further.
    #[error("cannot read {table} of {path}", path = path.display())]
    Read {
        path: PathBuf,
        /// The table, or `the schema`.
        table: &'static str,
        source: rusqlite::Error,
    },
    /// More than the importer holds in memory at once.
    #[error("{path} holds more than {limit} {what}: refused to keep memory bounded", path = path.display())]
    TooMany {
        path: PathBuf,
        /// What there is too much of, in the plural.
        what: &'static str,
        limit: usize,
    },
    #[error("{path} holds {count} devices; a host name can be given for a file with one device only", path = path.display())]
    HostForMany { path: PathBuf, count: u64 },
    #[error("{text:?} is no time zone: expected auto, an offset like +02:00 or a name like Europe/Berlin")]
    Zone { text: String },
    /// The receiving side failed.
    #[error("cannot store an imported interval")]
    Sink(#[source] StoreError),
}

/// The tables of the original receiver, which changed once.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Schema {
    /// The file names no device.
    #[default]
    Y2012,
    /// `Processes.RemoteIP` names the device.
    Y2013,
}

impl Schema {
    /// The year of the receiver that made it.
    pub fn year(self) -> u16 {
        match self {
            Self::Y2012 => 2012,
            Self::Y2013 => 2013,
        }
    }
}
