//! Writes a store. In: intervals. Out: rows in the file, in transactions that the caller ends. Why: the one place that
//! inserts; everything that can go wrong with a disk goes wrong here, and what was lost by it is remembered.

mod clock;
mod compact;
mod copy;
mod dims;
mod fold;
mod gaps;
mod infos;
#[cfg(feature = "import")]
mod legacy;
mod lock;
mod merge;
mod naming;
mod pack;
mod retain;
mod rollup;
mod source;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cpumon_model::{HostId, HostInfo, Interval, LossCounts, Trust};
use rusqlite::types::Null;
use rusqlite::{Connection, OpenFlags, params};

use self::compact::{CompactedKeys, FreshCounts};
pub(crate) use self::copy::ActiveCopy;
use self::dims::Dims;
use self::fold::FoldedTo;
pub use self::gaps::ReportedGap;
pub(crate) use self::gaps::{Lost, merge_lost};
use self::gaps::{record_gaps, record_reported};
use self::lock::WriterLock;
use self::naming::Seeded;
use self::pack::Packer;
use self::retain::Sweep;
use self::rollup::Rollup;
pub(crate) use self::rollup::{PER_SECOND, rate};
pub use self::rollup::{Resolution, RunQueue};
pub(crate) use self::source::POSITIONS;
pub use self::source::SourcePosition;
use crate::codec::meta::{self, MetaRow};
use crate::codec::{cpus, host_sched};
use crate::error::{At, Result, StoreError, check_is_no_directory};
use crate::options::StoreOptions;
use crate::schema;

/// What became of an interval.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is in the open transaction.
    Stored,
    /// The store has it already: same host, boot, end and sequence number.
    Duplicate,
}

/// Tasks kept in memory over all hosts (about 100 bytes each); beyond it all are forgotten and named anew.
const MAX_TASKS: usize = 4 << 20;

/// The single writer of a store.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    connection: Connection,
    options: StoreOptions,
    dims: Dims,
    fresh: FreshCounts,
    rollup: Rollup,
    compacted_keys: CompactedKeys,
    sweep: Sweep,
    folded: FoldedTo,
    packer: Packer,
    cpus: Vec<u8>,
    clock: clock::LastPiece,
    in_transaction: bool,
    /// What the open transaction holds, per host: it is lost if the transaction fails.
    pending: HashMap<HostId, Lost, Seeded>,
    /// Intervals per host that were rolled back since someone asked.
    rolled_back: Vec<(HostId, u64)>,
    /// What was lost and is not yet recorded.
    lost: HashMap<HostId, Lost, Seeded>,
    _lock: WriterLock,
}

/// Nanoseconds since the UNIX epoch on this machine's clock.
pub(crate) fn wall_now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Writer {
    /// Opens or makes the store at `path` and takes its writer lock. An older schema is brought up to date.
    pub fn open(path: &Path, options: &StoreOptions) -> Result<Self> {
        check_is_no_directory(path)?;
        let lock = WriterLock::take(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).at("open", path)?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.busy_timeout(Duration::from_secs(5)).at("set up", path)?;
        schema::prepare_writer(&mut connection, path, options.sync_each_commit)?;
        merge::register(&connection).at("set up", path)?;
        if let Some(pages) = options.max_page_count {
            let set = format!("PRAGMA max_page_count = {pages}");
            connection.query_row(&set, [], |_| Ok(())).at("set up", path)?;
        }
        let dims = Dims::load(&connection).at("read ids", path)?;
        let fresh = compact::load_counts(&connection).at("count fresh intervals", path)?;
        let folded = fold::load_folded(&connection).at("read ids", path)?;
        Ok(Self {
            path: path.into(),
            connection,
            options: options.clone(),
            dims,
            fresh,
            rollup: Rollup::default(),
            compacted_keys: CompactedKeys::default(),
            sweep: Sweep::default(),
            folded,
            packer: Packer::default(),
            cpus: Vec::new(),
            clock: clock::LastPiece::default(),
            in_transaction: false,
            pending: HashMap::default(),
            rolled_back: Vec::new(),
            lost: HashMap::default(),
            _lock: lock,
        })
    }

    /// The store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores the active rows of `interval`, received now. Putting the same interval again changes nothing.
    ///
    /// # Errors
    /// Whatever SQLite says; then the open transaction is rolled back, and what it held is recorded as a gap by the next
    /// [`Writer::commit`] that succeeds.
    pub fn put(
        &mut self,
        info: &HostInfo,
        trust: Trust,
        loss: Option<&LossCounts>,
        interval: &Interval,
    ) -> Result<Put> {
        self.put_received(info, trust, loss, interval, wall_now_ns())
    }

    /// [`Writer::put`] of an interval that was received at `received_wall_ns`.
    pub fn put_received(
        &mut self,
        info: &HostInfo,
        trust: Trust,
        loss: Option<&LossCounts>,
        interval: &Interval,
        received_wall_ns: i64,
    ) -> Result<Put> {
        self.begin()?;
        merge_lost(&mut self.pending, interval.host, Lost::of(interval, "not stored"));
        let put = self.put_rows(info, trust, loss, interval, received_wall_ns);
        put.map_err(|error| self.fail("store an interval", error))
    }

    /// [`Writer::put_received`] of an interval that its sender keeps until it is committed: if it fails, no gap is recorded,
    /// because it will come again.
    pub fn put_resendable(
        &mut self,
        info: &HostInfo,
        trust: Trust,
        loss: Option<&LossCounts>,
        interval: &Interval,
        received_wall_ns: i64,
    ) -> Result<Put> {
        self.begin()?;
        let put = self.put_rows(info, trust, loss, interval, received_wall_ns);
        put.map_err(|error| self.fail("store an interval", error))
    }

    /// Records a hole that a device reports over the stream. Doing so again changes nothing; when it is reported longer than
    /// before, it grows.
    ///
    /// # Errors
    /// As for [`Writer::put`].
    pub fn put_reported(&mut self, host: HostId, gap: &ReportedGap) -> Result<()> {
        self.begin()?;
        record_reported(&self.connection, host, gap).map_err(|error| self.fail("record a gap", error))
    }

    fn put_rows(
        &mut self,
        info: &HostInfo,
        trust: Trust,
        loss: Option<&LossCounts>,
        interval: &Interval,
        received_wall_ns: i64,
    ) -> rusqlite::Result<Put> {
        let host = self.dims.host(&self.connection, info, trust, interval)?;
        let (host_id, boot_id) = (host.id, host.boot_id);
        let is_newest = host.newest_end_wall_ns.is_none_or(|newest| interval.end.wall_ns > newest);
        if is_newest {
            host.newest_end_wall_ns = Some(interval.end.wall_ns);
        } else if is_fresh(&self.connection, host_id, boot_id, interval)?
            || self.is_compacted(host_id, boot_id, interval)?
        {
            return Ok(Put::Duplicate);
        }
        let fresh = self.fresh.entry((host_id, boot_id)).or_default();
        if fresh.intervals == 0 {
            fresh.oldest_received_ns = received_wall_ns;
        }
        fresh.intervals += 1;
        self.cpus.clear();
        cpus::encode(&interval.cpus, &mut self.cpus);
        host_sched::encode(interval, &mut self.cpus);
        let row = meta::row_of(interval, received_wall_ns, loss);
        let now_s = received_wall_ns / 1_000_000_000;
        let mut naming = self.dims.naming(&self.connection, interval.host, now_s)?;
        self.packer.pack(&mut naming, interval)?;
        clock::keep(&self.connection, &mut self.clock, boot_id, interval.clock_piece)?;
        let blobs = [&self.cpus, self.packer.samples(), self.packer.sched()];
        insert(&self.connection, (host_id, boot_id), &row, blobs)?;
        Ok(Put::Stored)
    }

    /// Ends the open transaction: what was put is in the file.
    ///
    /// # Errors
    /// As for [`Writer::put`].
    pub fn commit(&mut self) -> Result<()> {
        if !self.in_transaction && self.lost.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let done = record_gaps(&self.connection, &self.lost)
            .and_then(|()| self.connection.prepare_cached("COMMIT")?.execute([]));
        match done {
            Ok(_) => {
                self.in_transaction = false;
                self.pending.clear();
                self.lost.clear();
                Ok(())
            }
            Err(error) => Err(self.fail("commit", error)),
        }
    }

    /// Keeps the store in shape, for about `budget`: called often, it does a little each time.
    pub fn maintain(&mut self, budget: Duration) -> Result<()> {
        self.maintain_at(budget, wall_now_ns())
    }

    /// [`Writer::maintain`] as if it were `now_wall_ns`.
    pub fn maintain_at(&mut self, budget: Duration, now_wall_ns: i64) -> Result<()> {
        let begin = Instant::now();
        if self.dims.task_count() > MAX_TASKS {
            self.dims.forget_tasks();
        }
        self.commit()?;
        while begin.elapsed() < budget && self.compact_step(now_wall_ns)? {}
        while begin.elapsed() < budget && self.fold_step()? {}
        retain::retain_for(self, begin, budget, now_wall_ns)
    }

    /// Notes that an interval of a host was not put at all (`reason`: why); the next commit records it as a gap.
    pub fn note_dropped(&mut self, interval: &Interval, reason: &'static str) {
        merge_lost(&mut self.lost, interval.host, Lost::of(interval, reason));
    }

    /// [`Writer::note_dropped`] for what a queue counted.
    pub(crate) fn add_losses(&mut self, losses: HashMap<HostId, Lost>) {
        for (host, lost) in losses {
            merge_lost(&mut self.lost, host, lost);
        }
    }

    /// Intervals per host that were put, then rolled back because of an error, since the last call.
    pub fn take_rolled_back(&mut self) -> Vec<(HostId, u64)> {
        std::mem::take(&mut self.rolled_back)
    }

    /// Intervals that were lost and are not yet recorded as gaps.
    #[must_use]
    pub fn unrecorded_losses(&self) -> u64 {
        self.lost.values().map(|lost| lost.intervals).sum()
    }

    fn begin(&mut self) -> Result<()> {
        if !self.in_transaction {
            let begun =
                self.connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
            begun.map_err(|error| self.fail("begin", error))?;
            self.in_transaction = true;
        }
        Ok(())
    }

    /// Rolls back after an error: what the transaction held becomes a loss, and ids it gave out are forgotten.
    fn fail(&mut self, operation: &'static str, error: rusqlite::Error) -> StoreError {
        if !self.connection.is_autocommit()
            && let Err(again) = self.connection.execute_batch("ROLLBACK")
        {
            log::warn!("cannot roll back in store {}: {again}", self.path.display());
        }
        self.in_transaction = false;
        for (host, lost) in self.pending.drain() {
            self.rolled_back.push((host, lost.intervals));
            merge_lost(&mut self.lost, host, lost);
        }
        self.dims.forget_all();
        self.clock = clock::LastPiece::default();
        self.compacted_keys = CompactedKeys::default();
        self.rollup = Rollup::default();
        match compact::load_counts(&self.connection) {
            Ok(fresh) => self.fresh = fresh,
            Err(again) => log::warn!("cannot count fresh intervals of {}: {again}", self.path.display()),
        }
        StoreError::sqlite(operation, &self.path, error)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(error) = self.commit() {
            log::warn!("the last intervals were not stored: {error}");
        }
    }
}

/// Text of the insert into `interval`; the columns behind the blobs are those that a chunk may leave out. It names no columns, because the text is hashed each time it is used.
static INSERT_INTERVAL: LazyLock<String> =
    LazyLock::new(|| format!("INSERT INTO interval VALUES (NULL{})", ",?".repeat(meta::COUNT + 5)));

/// Inserts a row of `interval`.
fn insert(
    connection: &Connection,
    (host_id, boot_id): (i64, i64),
    row: &MetaRow,
    blobs: [&[u8]; 3],
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(&INSERT_INTERVAL)?;
    statement.raw_bind_parameter(1, host_id)?;
    statement.raw_bind_parameter(2, boot_id)?;
    for (at, &value) in row.iter().take(meta::IN_EVERY_CHUNK).enumerate() {
        if value == meta::NONE {
            statement.raw_bind_parameter(at + 3, Null)?;
        } else {
            statement.raw_bind_parameter(at + 3, value)?;
        }
    }
    for (at, blob) in blobs.into_iter().enumerate() {
        statement.raw_bind_parameter(meta::IN_EVERY_CHUNK + 3 + at, blob)?;
    }
    statement.raw_bind_parameter(meta::SHIFT + 6, row[meta::SHIFT])?;
    statement.raw_execute()?;
    Ok(())
}

/// Whether an interval is in the store and not yet sealed.
fn is_fresh(
    connection: &Connection,
    host_id: i64,
    boot_id: i64,
    interval: &Interval,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM interval
             WHERE host_id = ?1 AND end_wall_ns = ?2 AND boot_id = ?3 AND sequence = ?4)",
        )?
        .query_row(params![host_id, interval.end.wall_ns, boot_id, interval.sequence.cast_signed()], |row| {
            row.get(0)
        })
}
