//! Reads a store while a writer writes: hosts, intervals in order of time, sums, gaps. A store is also read on a file or medium that
//! cannot be written at all.

mod build;
mod chunks;
mod cursor;
mod damage;
mod gaps;
pub(crate) mod hosts;
mod query;
mod resting;
mod segment;
mod tasks;

use std::cell::RefCell;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cpumon_model::{HostId, Interval};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use self::cursor::{IntervalCursor, IntervalWalk};
use self::damage::ReadError;
pub(crate) use self::damage::SharedDamage;
pub use self::damage::{Damage, DamageReport};
pub use self::gaps::{Gap, GapFinder};
pub use self::query::{BootSpan, HostRecord, ProcessFilter, Query, TimeRange, What};
pub use self::segment::{Segment, SegmentReader, StoredReach};
pub(crate) use self::tasks::Task;
pub use self::tasks::{InfoAndParent, StoredProcess};
pub use crate::codec::meta::StoredInterval;
use crate::error::{At, Result, StoreError, check_is_there, sibling};
use crate::rows::{HostRow, find_host};
use crate::schema;
use crate::steps::StepLimit;

#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    connection: Connection,
    limit: StepLimit,
    /// Reused buffers and names; taken out while a query runs, so that another one may start meanwhile.
    cursor: RefCell<IntervalCursor>,
}

impl Reader {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the store at `path` for reading only; a writer may run at the same time. Where the file's directory cannot be
    /// written (SQLite needs a file for readers' locks there) and no writer left a log, it is read without locks.
    pub fn open(path: &Path) -> Result<Self> {
        let mut connection = open_to_read(path, &mut |connection| schema::prepare_reader(connection, path))?;
        let limit = StepLimit::set(&mut connection, path).at("set up", path)?;
        Ok(Self { path: path.into(), connection, limit, cursor: RefCell::new(IntervalCursor::default()) })
    }

    /// The connection, at the begin of a question: what it reads until the next one is limited.
    pub(crate) fn question(&self) -> &Connection {
        self.limit.begin();
        &self.connection
    }

    /// Frees the memory of the last question. Call it where the next one may be long in coming.
    pub fn rest(&mut self) {
        self.cursor.get_mut().rest();
    }

    /// What could not be read since this reader was opened. Answers were given without it.
    pub fn damage(&self) -> DamageReport {
        self.cursor.borrow().damage_report()
    }

    /// Runs a query with the buffers.
    fn with_cursor<T>(&self, run: impl FnOnce(&mut IntervalCursor) -> T) -> T {
        let mut cursor = self.cursor.take();
        let done = run(&mut cursor);
        self.give_back(cursor);
        done
    }

    /// Takes the buffers back for the next query, with what was damaged.
    fn give_back(&self, cursor: IntervalCursor) {
        let meanwhile = self.cursor.replace(cursor);
        self.cursor.borrow_mut().merge_damage(meanwhile);
    }

    fn host_row(&self, host: HostId) -> Result<Option<HostRow>> {
        find_host(self.question(), host).at("find a host", &self.path)
    }

    fn read_error(&self, error: ReadError) -> StoreError {
        match error {
            ReadError::Sql(source) => StoreError::sqlite("read intervals", &self.path, source),
            damage => StoreError::Corrupt { path: self.path.clone(), detail: damage.to_string() },
        }
    }

    /// Reads the intervals of a query in order of their ends. Memory is bounded for any range, because one buffer is reused. Rows are the
    /// active ones; `thread_rows` of a process counts its idle threads too.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn intervals(&self, query: &Query) -> Result<IntervalReader<'_>> {
        let Some(host) = self.host_row(query.host)? else { return Ok(IntervalReader::new(self, None)) };
        let mut cursor = self.cursor.take();
        match cursor.walk(self.question(), host, query.clone()) {
            Ok(walk) => Ok(IntervalReader::new(self, Some((cursor, walk)))),
            Err(error) => {
                self.give_back(cursor);
                Err(self.read_error(error))
            }
        }
    }

    /// The interval of a host that covers `wall_ns` (begin < `wall_ns` ≤ end); `None` in a gap.
    pub fn interval_at(&self, host: HostId, wall_ns: i64) -> Result<Option<Interval>> {
        // One nanosecond earlier, because a range does not include its start.
        let next = self.next_interval(host, wall_ns.saturating_sub(1))?;
        Ok(next.filter(|next| next.begin.wall_ns < wall_ns))
    }

    /// The first interval of a host that ends after `wall_ns`.
    pub fn next_interval(&self, host: HostId, wall_ns: i64) -> Result<Option<Interval>> {
        Ok(self.first_in(&Query::new(host).range(wall_ns, i64::MAX))?.map(|stored| stored.interval))
    }

    /// The last interval of a host that ends before `wall_ns`. Damaged intervals are left out ([`Reader::damage`]).
    pub fn previous_interval(&self, host: HostId, wall_ns: i64) -> Result<Option<Interval>> {
        let Some(host_id) = self.host_row(host)? else { return Ok(None) };
        let mut before_ns = wall_ns;
        loop {
            let end = cursor::last_end_before(self.question(), host_id, before_ns);
            let Some(end) = end.map_err(|error| self.read_error(error))? else { return Ok(None) };
            let query = Query::new(host);
            if let Some(found) = self.first_in(&query.clone().range(end.saturating_sub(1), end))? {
                return Ok(Some(found.interval));
            }
            // It is damaged. In the time of its chunk others may be: fresh ones, and those that came late.
            before_ns = self.begin_of_hole(host, end);
            if let Some(found) =
                self.last_in(&query.range(before_ns.saturating_sub(1), end.saturating_sub(1)))?
            {
                return Ok(Some(found));
            }
        }
    }

    /// The first end in the holes around an end that was met as damaged.
    fn begin_of_hole(&self, host: HostId, end: i64) -> i64 {
        let cursor = self.cursor.borrow();
        let around = cursor
            .damage_of(host)
            .filter(|hole| hole.first_end_wall_ns <= end && hole.last_end_wall_ns >= end);
        around.map(|hole| hole.first_end_wall_ns).min().unwrap_or(end)
    }

    /// The last interval of a query, which reads all of them.
    fn last_in(&self, query: &Query) -> Result<Option<Interval>> {
        let (mut reading, mut last) = (self.intervals(query)?, None);
        while let Some(stored) = reading.read()? {
            last = Some(stored.interval.clone());
        }
        Ok(last)
    }

    /// The first interval of a query, with receipt time and losses.
    pub fn first_in(&self, query: &Query) -> Result<Option<StoredInterval>> {
        Ok(self.intervals(query)?.read()?.cloned())
    }
}

/// The intervals of a query, read one after the other.
#[derive(Debug)]
pub struct IntervalReader<'r> {
    reader: &'r Reader,
    /// The reader's buffers and the position; `None` at the end, and where nothing is stored of the host.
    walking: Option<(IntervalCursor, IntervalWalk)>,
}

impl<'r> IntervalReader<'r> {
    fn new(reader: &'r Reader, walking: Option<(IntervalCursor, IntervalWalk)>) -> Self {
        Self { reader, walking }
    }

    /// The next interval, with receipt time and losses; `None` behind the last one. Damaged intervals are left out ([`Reader::damage`]).
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn read(&mut self) -> Result<Option<&StoredInterval>> {
        if let Some((cursor, walk)) = &mut self.walking {
            let is_there = cursor.advance(&self.reader.connection, walk);
            if !is_there.map_err(|error| self.reader.read_error(error))? {
                self.end();
            }
        }
        Ok(self.walking.as_ref().map(|(cursor, _)| cursor.stored()))
    }

    /// Gives the buffers back. An interval that was read last counts as not read: the next walk may begin with it.
    fn end(&mut self) {
        if let Some((mut cursor, mut walk)) = self.walking.take() {
            cursor.leave(&mut walk, false);
            self.reader.give_back(cursor);
        }
    }
}

impl Drop for IntervalReader<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A connection for reading only, on which `prepare` worked.
pub(crate) fn open_to_read(
    path: &Path,
    prepare: &mut dyn FnMut(&Connection) -> Result<()>,
) -> Result<Connection> {
    check_is_there(path)?;
    // SQLite takes a path that begins with "file:" for a URI; an absolute one begins otherwise.
    let file = std::path::absolute(path).at("open", path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut open_with = |name: &Path, flags| -> Result<Connection> {
        let mut connection = Connection::open_with_flags(name, flags).at("open", path)?;
        schema::distrust(&mut connection).at("set up", path)?;
        connection.set_prepared_statement_cache_capacity(64);
        // Plans do not depend on bound values: else each use of a statement with a bound LIMIT prepares it again.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).at("set up", path)?;
        connection.busy_timeout(Duration::from_secs(5)).at("set up", path)?;
        prepare(&connection)?;
        schema::lift_limits(&mut connection).at("set up", path)?;
        Ok(connection)
    };
    // An immutable file has no locks, so it must not be used where a writer may be: only after an ordinary open failed for
    // lack of write access, and without a log.
    match open_with(&file, flags) {
        // SQLite's errors there are READONLY and CANTOPEN, which `is_no_space` includes.
        Err(error) if error.is_no_space() => match log_of(path) {
            Some(log) => Err(error.with_log(log)),
            None => open_with(Path::new(&immutable_uri(&file)), flags | OpenFlags::SQLITE_OPEN_URI),
        },
        opened => opened,
    }
}

/// The log beside the file that is not empty: the database file alone lacks changes, or has half of a transaction.
fn log_of(path: &Path) -> Option<PathBuf> {
    let mut logs = ["-wal", "-journal"].into_iter().map(|ending| sibling(path, ending));
    logs.find(|log| std::fs::metadata(log).is_ok_and(|log| log.len() > 0))
}

/// The URI (RFC 3986) by which SQLite opens a file that nothing writes: everything but unreserved characters and `/` is escaped. SQLite
/// then takes no lock, creates no file beside it, and ignores a journal.
pub fn immutable_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri + "?immutable=1"
}
