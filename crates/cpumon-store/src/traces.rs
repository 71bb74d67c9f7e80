//! Table `trace`: the context-switch traces beside the store, each with its host and time. [`TraceIndex`] writes the table beside the
//! writer of the store, in transactions of one row; the files are the receiver's.

use std::path::{Path, PathBuf};

use cpumon_model::HostId;
#[cfg(feature = "json")]
use cpumon_model::nanos;
use rusqlite::{Connection, Row, params};

use crate::error::{At, Result, sibling};
use crate::reader::{Reader, TimeRange};
use crate::rows::{all_rows, execute, find_row, keep_last_id, next_id, signed, value};
use crate::schema;
use crate::writer::{known_ns, open_beside_writer};

/// Begins a query that [`record`] reads.
const SELECT: &str = "SELECT trace.id, host.key, hash, wall_ns, first_wall_ns, last_wall_ns, received_wall_ns, reason, bytes, events, lost
    FROM trace JOIN host ON host.id = host_id";

/// A trace that is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), schema(as = StoredTrace))]
pub struct TraceRecord {
    /// Its number, which is never given to another one: `/api/v1/traces/{id}/file` has the file. Text in JSON.
    #[cfg_attr(feature = "json", serde(with = "nanos"), schema(value_type = String))]
    pub id: i64,
    /// The host that it shows.
    pub host: HostId,
    /// SHA-256 of the file.
    #[cfg_attr(feature = "json", serde(skip))]
    pub hash: [u8; 32],
    /// When what caused it happened, ns since the UNIX epoch, on the receiver's time line as the host's intervals.
    #[cfg_attr(feature = "json", serde(rename = "at_ns", with = "nanos"), schema(value_type = nanos::Nanos))]
    pub wall_ns: i64,
    /// Its first moment.
    #[cfg_attr(
        feature = "json",
        serde(rename = "first_ns", with = "nanos"),
        schema(value_type = nanos::Nanos)
    )]
    pub first_wall_ns: i64,
    /// Its last moment.
    #[cfg_attr(
        feature = "json",
        serde(rename = "last_ns", with = "nanos"),
        schema(value_type = nanos::Nanos)
    )]
    pub last_wall_ns: i64,
    /// When it was received, by the receiver's clock.
    #[cfg_attr(
        feature = "json",
        serde(rename = "received_ns", with = "nanos"),
        schema(value_type = nanos::Nanos)
    )]
    pub received_wall_ns: i64,
    /// Why it was written, as the device says: a rule of `--flight-when`, `request`, `SIGUSR1`, or `recorded by a user`.
    pub reason: String,
    /// Length of the file.
    pub bytes: u64,
    /// Events in it.
    pub events: u64,
    /// Events that its recorder lost.
    pub lost: u64,
}

pub fn traces_dir(store: &Path) -> PathBuf {
    sibling(store, ".traces")
}

pub fn trace_file(store: &Path, id: i64) -> PathBuf {
    traces_dir(store).join(format!("{id}.trace"))
}

/// The table of a store, for writing.
#[derive(Debug)]
pub struct TraceIndex {
    path: PathBuf,
    connection: Connection,
}

impl TraceIndex {
    /// Opens the table of the store at `path`, which a writer may hold.
    ///
    /// # Errors
    /// There is no store of this version.
    pub fn open(path: &Path) -> Result<Self> {
        let connection = open_beside_writer(path)?;
        schema::sync_each_commit(&connection, path)?;
        Ok(Self { path: path.into(), connection })
    }

    /// All traces, the oldest first.
    pub fn all(&self) -> Result<Vec<TraceRecord>> {
        let text = format!("{SELECT} ORDER BY trace.id");
        all_rows(&self.connection, &text, [], record).at("list traces", &self.path)
    }

    /// What time it is for deleting by age, ns since the UNIX epoch: the last that the writer was sure of. `None`: none yet.
    pub fn known_wall_ns(&self) -> Result<Option<i64>> {
        known_ns(&self.connection).at("read the time that is known", &self.path)
    }

    pub fn next_id(&self) -> Result<i64> {
        next_id(&self.connection, "trace").at("number a trace", &self.path)
    }

    /// The most CPUs that a host ever reported; 0 where it reported none, or is not known.
    pub fn max_cpu_count(&self, host: HostId) -> Result<u32> {
        let text = "SELECT coalesce(max(cpu_count), 0) FROM host_change JOIN host ON host.id = host_id WHERE host.key = ?1";
        value(&self.connection, text, [host.0]).at("read the CPUs of a host", &self.path)
    }

    /// Adds a trace; false if the store does not know its host.
    pub fn add(&mut self, trace: &TraceRecord) -> Result<bool> {
        let text =
            "INSERT INTO trace SELECT ?1, id, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM host WHERE key = ?2";
        let values = params![
            trace.id,
            trace.host.0,
            trace.hash,
            trace.wall_ns,
            trace.first_wall_ns,
            trace.last_wall_ns,
            trace.received_wall_ns,
            trace.reason,
            trace.bytes.cast_signed(),
            trace.events.cast_signed(),
            trace.lost.cast_signed(),
        ];
        Ok(execute(&self.connection, text, values).at("add a trace", &self.path)? > 0)
    }

    pub fn remove(&mut self, id: i64) -> Result<()> {
        let mut remove = || {
            let transaction = self.connection.transaction()?;
            keep_last_id(&transaction, "trace")?;
            execute(&transaction, "DELETE FROM trace WHERE id = ?1", [id])?;
            transaction.commit()
        };
        remove().at("remove a trace", &self.path)
    }
}

impl Reader {
    /// Traces of a host, or of all hosts, whose span touches the range; the oldest first, at most `limit`.
    pub fn traces(&self, host: Option<HostId>, range: TimeRange, limit: usize) -> Result<Vec<TraceRecord>> {
        let text = format!(
            "{SELECT}
             WHERE (?1 IS NULL OR host.key = ?1) AND last_wall_ns > ?2 AND first_wall_ns <= ?3
             ORDER BY wall_ns, trace.id LIMIT ?4"
        );
        let limit = signed(limit);
        let values = params![host.map(|host| host.0), range.since_ns, range.until_ns, limit];
        all_rows(self.question(), &text, values, record).at("list traces", self.path())
    }

    pub fn trace(&self, id: i64) -> Result<Option<TraceRecord>> {
        let text = format!("{SELECT} WHERE trace.id = ?1");
        find_row(self.question(), &text, [id], record).at("find a trace", self.path())
    }
}

fn record(row: &Row<'_>) -> rusqlite::Result<TraceRecord> {
    let count = |at| Ok::<u64, rusqlite::Error>(row.get::<_, i64>(at)?.max(0).cast_unsigned());
    Ok(TraceRecord {
        id: row.get(0)?,
        host: HostId(row.get(1)?),
        hash: row.get(2)?,
        wall_ns: row.get(3)?,
        first_wall_ns: row.get(4)?,
        last_wall_ns: row.get(5)?,
        received_wall_ns: row.get(6)?,
        reason: row.get(7)?,
        bytes: count(8)?,
        events: count(9)?,
        lost: count(10)?,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cpumon_model::{HostInfo, Interval, Moment, Trust};

    use super::*;
    use crate::writer::{StoreOptions, Writer};

    fn trace(id: i64, at_s: i64) -> TraceRecord {
        let ns = |s: i64| s * 1_000_000_000;
        let id_byte = u8::try_from(id).unwrap();
        TraceRecord {
            id,
            host: HostId([1; 16]),
            hash: [id_byte; 32],
            wall_ns: ns(at_s),
            first_wall_ns: ns(at_s - 30),
            last_wall_ns: ns(at_s + 1),
            received_wall_ns: ns(at_s + 3),
            reason: "cpu>90%".to_owned(),
            bytes: 5,
            events: 6,
            lost: 7,
        }
    }

    fn store(dir: &Path) -> (PathBuf, Writer) {
        let path = dir.join("s.sqlite");
        let info = HostInfo { host: HostId([1; 16]), ..HostInfo::default() };
        let end = Moment { wall_ns: 5_000_000_000, ..Moment::default() };
        let interval = Interval { host: info.host, end, ..Interval::default() };
        let mut writer = Writer::open(&path, &StoreOptions::default()).unwrap();
        writer.put(&info, Trust::Authenticated, None, &interval).unwrap();
        writer.commit().unwrap();
        (path, writer)
    }

    #[test]
    fn traces_are_added_found_by_time_and_removed_beside_a_writer() {
        let dir = tempfile::tempdir().unwrap();
        let (path, _writer) = store(dir.path());
        let mut index = TraceIndex::open(&path).unwrap();
        assert_eq!(index.next_id().unwrap(), 1);
        for (id, at_s) in [(1, 100), (2, 1_000)] {
            assert!(index.add(&trace(id, at_s)).unwrap());
        }
        assert!(index.add(&TraceRecord { id: 3, ..trace(1, 100) }).is_err(), "the same file twice");
        assert!(!index.add(&TraceRecord { host: HostId([9; 16]), ..trace(3, 5) }).unwrap());
        assert_eq!(index.all().unwrap(), [trace(1, 100), trace(2, 1_000)]);
        let reader = Reader::open(&path).unwrap();
        let range = |since: i64, until: i64| TimeRange {
            since_ns: since * 1_000_000_000,
            until_ns: until * 1_000_000_000,
        };
        let found = |host, range| -> Vec<i64> {
            reader.traces(host, range, 10).unwrap().into_iter().map(|trace| trace.id).collect()
        };
        assert_eq!(found(Some(HostId([1; 16])), range(0, 70)), [1]);
        assert_eq!(found(None, range(101, 969)), [0_i64; 0]);
        assert_eq!(found(None, range(100, 970)), [1, 2]);
        assert_eq!(found(Some(HostId([2; 16])), range(0, 5_000)), [0_i64; 0]);
        assert_eq!(reader.trace(2).unwrap(), Some(trace(2, 1_000)));
        index.remove(2).unwrap();
        assert_eq!(
            (reader.trace(2).unwrap(), index.next_id().unwrap()),
            (None, 3),
            "no number is given twice"
        );
    }

    #[test]
    fn a_host_that_is_forgotten_loses_its_traces() {
        let dir = tempfile::tempdir().unwrap();
        let (path, writer) = store(dir.path());
        let mut index = TraceIndex::open(&path).unwrap();
        index.add(&trace(1, 100)).unwrap();
        drop(writer);
        assert!(crate::forget_host(&path, HostId([1; 16]), Duration::from_secs(5)).unwrap());
        let text = "SELECT count(*) FROM trace";
        assert_eq!(index.connection.query_row(text, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
        assert_eq!(index.next_id().unwrap(), 2);
    }
}
