//! The single writer of a store: one transaction that the caller ends, and the parts that write in it, each in a file of its own. When
//! anything fails, the transaction is rolled back, and its content is remembered as lost until it is recorded as a gap.

mod age;
mod compact;
mod delete;
mod dims;
mod gaps;
mod insert;
mod merge_names;
mod naming;
mod pack;
mod receipts;
mod retain;
mod rollup;
mod session;
mod sweep;

use std::path::Path;
use std::time::{Duration, Instant};

use cpumon_files::LockFile;
use cpumon_model::{HostId, HostInfo, Interval, LossCounts, Moment, Trust};

pub(crate) use self::age::known_ns;
use self::age::{AgeClock, AgeTimes};
pub use self::age::{ClockDoubt, boot_id, wall_now_ns};
use self::compact::{Compactor, Due};
use self::dims::Dims;
pub(crate) use self::gaps::{Losses, LostByHost, RolledBack};
pub(crate) use self::insert::{Arrival, ListSchedule, has_all_processes, knows_resting};
use self::insert::{Inserter, load_position, save_position};
pub use self::insert::{Put, SourcePosition};
use self::merge_names::NameMerger;
pub(crate) use self::naming::Seeded;
pub(crate) use self::pack::ActiveCopy;
pub use self::receipts::EARLIEST_NS;
use self::retain::Retention;
pub use self::session::StoreOptions;
pub(crate) use self::session::open_beside_writer;
use self::session::{Transaction, WriterSession, lock_store};
use crate::Gap;
use crate::error::{At, Result, StoreError, check_is_file};
use crate::rows::{find_host, value};

#[derive(Debug)]
pub struct Writer {
    session: WriterSession,
    options: StoreOptions,
    parts: WriterParts,
    /// What was lost; the next commit records it as gaps.
    pub(crate) losses: Losses,
    age: AgeClock,
    // Last, so that the database is closed when the lock is released.
    _lock: LockFile,
}

/// What writes in a transaction.
#[derive(Debug)]
struct WriterParts {
    dims: Dims,
    inserter: Inserter,
    compactor: Compactor,
    name_merger: NameMerger,
    retention: Retention,
}

impl Writer {
    /// Opens or creates the store at `path` and takes its writer lock. An older schema is brought up to date.
    pub fn open(path: &Path, options: &StoreOptions) -> Result<Self> {
        check_is_file(path)?;
        let lock = lock_store(path)?;
        let mut session = WriterSession::open(path, options)?;
        let connection = session.connection();
        let parts = WriterParts {
            dims: Dims::load(connection).at("read ids", path)?,
            inserter: Inserter::new(options),
            compactor: Compactor::load(connection, options).at("count fresh intervals", path)?,
            name_merger: NameMerger::load(connection, options.zstd_level).at("read ids", path)?,
            retention: Retention::new(options),
        };
        let age = AgeClock::load(connection).at("read the time of the last receipt", path)?;
        session.lift_limit()?;
        Ok(Self { session, options: options.clone(), parts, losses: Losses::default(), age, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.session.path()
    }

    /// Stores the active rows of `interval`, received now. Putting the same interval again changes nothing.
    ///
    /// # Errors
    /// SQLite's errors; then the open transaction is rolled back, and the next successful [`Writer::commit`] records its content as a gap.
    pub fn put(
        &mut self,
        info: &HostInfo,
        trust: Trust,
        loss: Option<&LossCounts>,
        interval: &Interval,
    ) -> Result<Put> {
        let now = age::now();
        self.age.read(now);
        let received_wall_ns = self.age.receipt_ns(now.wall_ns);
        self.put_received(info, trust, loss, interval, received_wall_ns)
    }

    /// The receipt to store of what has just come in: while this machine's clock is behind, the time that is known. A device whose clock
    /// agrees with ours ends the doubt about it.
    pub(crate) fn weigh_receipt(&mut self, trust: Trust, interval: &Interval, received_wall_ns: i64) -> i64 {
        self.age.hear(trust, interval, received_wall_ns);
        self.age.receipt_ns(received_wall_ns)
    }

    /// Reads this machine's clock, and says whether it can be right.
    pub(crate) fn read_clock(&mut self) -> Option<ClockDoubt> {
        self.age.read(age::now());
        self.age.doubt()
    }

    /// Whether this machine's clock can be right, when it was read last.
    pub fn clock_doubt(&self) -> Option<ClockDoubt> {
        self.age.doubt()
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
        // Before anything is tried: an error below must find it in the list.
        self.losses.put_at_risk(trust, interval);
        self.insert(&Arrival { info, trust, loss, interval, received_wall_ns })
    }

    /// Inserts an interval. If that fails, a gap is recorded only where [`Losses::put_at_risk`] came before: else its sender has it still.
    pub(crate) fn insert(&mut self, arrival: &Arrival<'_>) -> Result<Put> {
        self.step("store an interval", |transaction, WriterParts { inserter, dims, compactor, .. }| {
            inserter.insert(transaction, dims, compactor, arrival)
        })
    }

    /// Records a hole that a device reports. Reporting it again changes nothing; when it is reported longer than before, it
    /// grows.
    ///
    /// # Errors
    /// As for [`Writer::put`].
    pub fn put_reported(&mut self, host: HostId, gap: &Gap) -> Result<()> {
        self.write("record a gap", |transaction| gaps::record_reported(transaction, host, gap))
    }

    /// Records a hole of an imported recording. The same hole again changes nothing.
    ///
    /// # Errors
    /// As for [`Writer::put`].
    pub fn put_gap(&mut self, host: HostId, gap: &Gap) -> Result<()> {
        self.write("record a gap", |transaction| gaps::record_imported(transaction, host, gap))
    }

    /// How far `source` was read; [`SourcePosition::default`] if it never was.
    pub fn source_position(&self, source: &str) -> Result<SourcePosition> {
        load_position(self.session.connection(), source).at("read a source's position", self.path())
    }

    /// Records in the open transaction how far `source` was read.
    ///
    /// # Errors
    /// As for [`Writer::put`].
    pub fn put_source_position(&mut self, source: &str, position: SourcePosition) -> Result<()> {
        self.write("record a source's position", |transaction| save_position(transaction, source, position))
    }

    /// Writes in the open transaction; begins one if there is none.
    pub(crate) fn write<T>(
        &mut self,
        operation: &'static str,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.step(operation, |transaction, _| write(transaction))
    }

    fn step<T>(
        &mut self,
        operation: &'static str,
        run: impl FnOnce(&Transaction<'_>, &mut WriterParts) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let done = self.session.transaction().and_then(|transaction| run(&transaction, &mut self.parts));
        done.map_err(|error| self.fail(operation, error))
    }

    /// Ends the open transaction: what was put is in the file.
    ///
    /// # Errors
    /// As for [`Writer::put`].
    pub fn commit(&mut self) -> Result<()> {
        if !self.session.is_open() && !self.losses.has_unrecorded() {
            return Ok(());
        }
        let done = self
            .session
            .transaction()
            .and_then(|transaction| self.losses.record(&transaction))
            .and_then(|()| self.session.commit());
        done.map_err(|error| self.fail("commit", error))?;
        self.losses.committed();
        Ok(())
    }

    /// Compacts, merges names and applies the limits of age and size, for about `budget`. Called often, it does a little each
    /// time.
    pub fn maintain(&mut self, budget: Duration) -> Result<()> {
        self.maintain_by(budget, age::now())
    }

    /// [`Writer::maintain`] by these clocks, which may be wrong.
    pub fn maintain_by(&mut self, budget: Duration, now: Moment) -> Result<()> {
        let times = self.age.read(now);
        if let Some(unsaved) = self.age.unsaved() {
            self.commit()?;
            self.write("record the time", |transaction| age::save(transaction, unsaved))?;
            self.commit()?;
            self.age.saved(unsaved.known_ns);
        }
        self.maintain_for(budget, times)
    }

    /// [`Writer::maintain`] as if it were `now_wall_ns`.
    pub fn maintain_at(&mut self, budget: Duration, now_wall_ns: i64) -> Result<()> {
        self.maintain_for(budget, AgeTimes::of(now_wall_ns))
    }

    fn maintain_for(&mut self, budget: Duration, times: AgeTimes) -> Result<()> {
        let begin = Instant::now();
        // Each step below is a transaction of its own: a failed one must not take intervals with it.
        self.commit()?;
        self.parts.compactor.fresh.follow_clock(times.wall_ns);
        let due = Due::by_age(times.wall_ns, &self.options);
        while begin.elapsed() < budget && self.compact_one(&due)? {}
        while begin.elapsed() < budget && self.merge_names()? {}
        while begin.elapsed() < budget && self.retain(times)? {}
        Ok(())
    }

    /// Compacts everything fresh of one host at once, whatever its age: after an import.
    pub fn compact_host(&mut self, host: HostId) -> Result<()> {
        self.commit()?;
        let found = find_host(self.session.connection(), host).at("find a host", self.session.path())?;
        if let Some(host) = found {
            while self.compact_one(&Due::all_of(host))? {}
        }
        Ok(())
    }

    /// Removes the hosts whose removal was requested, at once.
    pub(crate) fn forget_requested(&mut self) -> Result<()> {
        self.commit()?;
        loop {
            let gone = self.step("remove a host", |transaction, parts| {
                parts.retention.forget_some(transaction, &parts.dims)
            })?;
            self.commit()?;
            let Some(gone) = gone else { return Ok(()) };
            self.parts.dims.forget(&gone);
        }
    }

    fn compact_one(&mut self, due: &Due) -> Result<bool> {
        let Some(key) = self.parts.compactor.fresh.next_due(due) else { return Ok(false) };
        self.step("compact intervals", |transaction, parts| {
            parts.compactor.compact(transaction, &mut parts.dims, key, due)
        })?;
        self.commit()?;
        Ok(true)
    }

    /// Makes blocks of names, if there are enough new ones.
    fn merge_names(&mut self) -> Result<bool> {
        let last = self.parts.dims.last_ids();
        if !self.parts.name_merger.is_due(&last) {
            return Ok(false);
        }
        let merged =
            self.step("merge names", |transaction, parts| parts.name_merger.merge(transaction, &last))?;
        self.commit()?;
        Ok(self.parts.name_merger.committed(merged))
    }

    /// One step of retention; `false` if there is nothing to do.
    fn retain(&mut self, times: AgeTimes) -> Result<bool> {
        let step =
            self.step("delete old data", |transaction, WriterParts { retention, dims, compactor, .. }| {
                retention.step(transaction, dims, times, &|| compactor.fresh.oldest_received_ns())
            })?;
        self.commit()?;
        self.parts.dims.forget(&step.gone);
        Ok(!step.is_done)
    }

    /// Rolls back after an error: what the transaction held becomes a loss, and row ids from it are forgotten.
    fn fail(&mut self, operation: &'static str, error: rusqlite::Error) -> StoreError {
        self.session.roll_back();
        self.losses.roll_back();
        // Rows that these caches name may have been in the transaction.
        self.parts.dims.forget_all();
        self.parts.inserter.forget_written();
        self.parts.compactor.reload(self.session.connection(), self.session.path());
        StoreError::sqlite(operation, self.session.path(), error)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(error) = self.commit() {
            log::warn!("the last intervals were not stored: {}", error.with_causes());
        }
    }
}

/// Time between two checks whether the host is removed.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Removes `host` with all of its data and names from the store at `path`. A receiver that writes the store does it, at most about half a
/// second later; a host that still sends starts from nothing. `false`: that took longer than `timeout`, and is still to be done.
///
/// # Errors
/// The store cannot be written, or there is none.
pub fn forget_host(path: &Path, host: HostId, timeout: Duration) -> Result<bool> {
    let deadline = Instant::now() + timeout;
    let connection = open_beside_writer(path)?;
    connection
        .execute("INSERT OR IGNORE INTO forget SELECT id FROM host WHERE key = ?1", [host.0])
        .at("request the removal of a host", path)?;
    loop {
        // No limits: nothing but the host goes.
        let options =
            StoreOptions { max_age: None, minute_max_age: None, max_bytes: None, ..StoreOptions::default() };
        match Writer::open(path, &options) {
            Ok(mut writer) => return writer.forget_requested().map(|()| true),
            Err(StoreError::Locked { .. }) => {}
            Err(error) => return Err(error),
        }
        let is_pending: bool = value(&connection, "SELECT EXISTS (SELECT 1 FROM forget)", [])
            .at("check the removal of a host", path)?;
        if !is_pending || Instant::now() >= deadline {
            return Ok(!is_pending);
        }
        std::thread::sleep(CHECK_EVERY);
    }
}
