//! Opens a legacy file whose schema is one of the two known ones, and reads the rows of its two tables as checked values. The file may be
//! anything: it is checked before a row is read, and SQLite lets any value into any column.

use std::io::Read;
use std::path::{Path, PathBuf};

use cpumon_model::packing_of;
use cpumon_store::{distrust, immutable_uri, lift_limits};
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator as _;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Rows, Statement};

use crate::report::{ImportError, OddRows, Schema};

/// First bytes of every SQLite database (file format, section 1.3).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// No view, trigger or function of the file's schema may do anything.
const DISTRUST_SCHEMA: &str =
    "PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; PRAGMA cell_size_check = ON;";

/// Steps of SQLite's machine between two checks of the limit.
const STEPS: u16 = 10_000;
/// Steps for each byte of a file. The smallest rows there can be, of 5 bytes, take 40 steps each.
const STEPS_PER_BYTE: u64 = 16;
/// Steps for a file without rows, in units of [`STEPS`].
const LEAST_STEPS: u64 = 100;

const PROCESS_COLUMNS: [&str; 7] = ["ProcID", "Process", "User", "Kernel", "Time", "Duration", "idx"];
const THREAD_COLUMNS: [&str; 7] = ["ThreadID", "ProcID", "user", "kernel", "duration", "timestamp", "idx"];

pub(crate) struct LegacyFile {
    pub connection: Connection,
    pub path: PathBuf,
    pub schema: Schema,
}

impl LegacyFile {
    pub fn open(path: &Path) -> Result<Self, ImportError> {
        check_magic(path)?;
        check_journals(path)?;
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let read = |source| ImportError::Read { path: path.to_owned(), table: "the schema", source };
        let absolute = std::path::absolute(path)
            .map_err(|source| ImportError::Open { path: path.to_owned(), source })?;
        let mut connection = Connection::open_with_flags(immutable_uri(&absolute), flags).map_err(read)?;
        distrust(&mut connection).map_err(read)?;
        connection.execute_batch(DISTRUST_SCHEMA).map_err(read)?;
        let mut file = Self { connection, path: path.to_owned(), schema: Schema::Y2012 };
        file.schema = file.check_schema()?;
        lift_limits(&mut file.connection).map_err(read)?;
        limit_steps(&mut file.connection, path).map_err(read)?;
        Ok(file)
    }

    pub fn read_error(&self, table: &'static str) -> impl Fn(rusqlite::Error) -> ImportError + '_ {
        move |source| {
            let source = match source.sqlite_error_code() {
                Some(rusqlite::ErrorCode::OperationInterrupted) => too_many_steps(),
                _ => source,
            };
            ImportError::Read { path: self.path.clone(), table, source }
        }
    }

    fn schema_error(&self, reason: String) -> ImportError {
        ImportError::Schema { path: self.path.clone(), reason }
    }

    fn check_schema(&self) -> Result<Schema, ImportError> {
        let processes = self.columns("Processes")?;
        let threads = self.columns("Threads")?;
        self.require("Processes", &processes, &PROCESS_COLUMNS)?;
        self.require("Threads", &threads, &THREAD_COLUMNS)?;
        // Threads are looked up by it: without the key each one would mean a search through the whole table.
        if !processes.iter().any(|column| column.name.eq_ignore_ascii_case("idx") && column.is_only_key) {
            return Err(self.schema_error("Processes.idx is not its primary key".to_owned()));
        }
        let has_ip = processes.iter().any(|column| column.name.eq_ignore_ascii_case("RemoteIP"));
        Ok(if has_ip { Schema::Y2013 } else { Schema::Y2012 })
    }

    fn require(&self, table: &str, found: &[ColumnInfo], wanted: &[&str]) -> Result<(), ImportError> {
        let has = |name: &str| found.iter().any(|column| column.name.eq_ignore_ascii_case(name));
        match wanted.iter().find(|name| !has(name)) {
            Some(name) => Err(self.schema_error(format!("table {table} has no column {name}"))),
            None => Ok(()),
        }
    }

    fn columns(&self, table: &'static str) -> Result<Vec<ColumnInfo>, ImportError> {
        let read = self.read_error("the schema");
        let kind: Option<(String, Option<String>)> = self
            .connection
            .query_row(
                "SELECT type, sql FROM sqlite_master WHERE lower(name) = lower(?1) AND type IN ('table', 'view')",
                [table],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()
            .map_err(|error| self.schema_or_read(error))?;
        // SQLite lists virtual tables as tables too, but reading one runs the code of its module. It writes these words itself.
        let is_ordinary = |sql: &str| sql.starts_with("CREATE TABLE ");
        match kind {
            None => return Err(self.schema_error(format!("it has no table {table}"))),
            Some((kind, _)) if kind != "table" => {
                return Err(self.schema_error(format!("{table} is a {kind}, not a table")));
            }
            Some((_, sql)) if !sql.as_deref().is_some_and(is_ordinary) => {
                return Err(self.schema_error(format!("{table} is no ordinary table")));
            }
            Some(_) => {}
        }
        // A statement, not a function in a query: a table of the file may have the function's name.
        let text = format!("PRAGMA main.table_xinfo({table})");
        let mut statement = self.connection.prepare(&text).map_err(&read)?;
        let rows = statement.query_map([], |row| {
            Ok((row.get("name")?, row.get("type")?, row.get("pk")?, row.get("hidden")?))
        });
        let columns: Vec<(String, String, i64, i64)> =
            rows.map_err(&read)?.collect::<Result<_, _>>().map_err(&read)?;
        // Reading one computes what the file says, for each row.
        if let Some((name, ..)) = columns.iter().find(|(.., hidden)| *hidden != 0) {
            return Err(self.schema_error(format!("column {name:?} of table {table} is generated")));
        }
        let keys = columns.iter().filter(|(_, _, pk, _)| *pk > 0).count();
        let column = |(name, kind, pk, _): (String, String, i64, i64)| {
            // Only a sole key of exactly this type can be the row id, by which SQLite finds a row without an index.
            let is_only_key = pk == 1 && keys == 1 && kind.eq_ignore_ascii_case("INTEGER");
            ColumnInfo { name, is_only_key }
        };
        Ok(columns.into_iter().map(column).collect())
    }

    /// Only this code distinguishes an encrypted or overwritten file from a damaged one.
    fn schema_or_read(&self, error: rusqlite::Error) -> ImportError {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => ImportError::NotADatabase { path: self.path.clone() },
            _ => self.read_error("the schema")(error),
        }
    }
}

/// Ends all reading when it took more steps than a file of this length needs: a damaged or hostile page may lead to one child any number of
/// times, and to pages that do so too.
fn limit_steps(connection: &mut Connection, path: &Path) -> rusqlite::Result<()> {
    let bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
    let mut left = LEAST_STEPS.saturating_add(bytes.saturating_mul(STEPS_PER_BYTE) / u64::from(STEPS));
    let is_over = move || {
        left = left.saturating_sub(1);
        left == 0
    };
    connection.progress_handler(STEPS.into(), Some(is_over))
}

/// What [`limit_steps`] and the limits of [`distrust`] mean; SQLite reports only "interrupted".
fn too_many_steps() -> rusqlite::Error {
    let text = "it takes more steps than a sound file of this length needs";
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some(text.to_owned()))
}

struct ColumnInfo {
    name: String,
    /// It alone is the table's primary key, and an integer.
    is_only_key: bool,
}

fn check_magic(path: &Path) -> Result<(), ImportError> {
    let open = |source| ImportError::Open { path: path.to_owned(), source };
    // Before it is opened: opening a pipe waits for a writer.
    if !std::fs::metadata(path).map_err(open)?.is_file() {
        return Err(ImportError::NotADatabase { path: path.to_owned() });
    }
    let mut file = std::fs::File::open(path).map_err(open)?;
    let mut head = [0; 16];
    match file.read_exact(&mut head) {
        Ok(()) if head == *MAGIC => return Ok(()),
        // A file that is shorter than the header can be read well: it is just no database.
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(open(error)),
        _ => {}
    }
    let path = path.to_owned();
    Err(match packing_of(&head) {
        Some((with, unpack)) => ImportError::Packed { path, with, unpack },
        None => ImportError::NotADatabase { path },
    })
}

/// An immutable open ignores a journal, so the changes in it would be missing, or half of a transaction would show.
fn check_journals(path: &Path) -> Result<(), ImportError> {
    // An empty one is harmless: SQLite leaves it behind in some journal modes.
    for suffix in ["-journal", "-wal"] {
        let mut journal = path.as_os_str().to_owned();
        journal.push(suffix);
        let journal = PathBuf::from(journal);
        if std::fs::metadata(&journal).is_ok_and(|meta| meta.len() > 0) {
            return Err(ImportError::Journal { path: path.to_owned(), journal });
        }
    }
    Ok(())
}

/// Longest name the v1 protocol can carry (its length is an i16).
const MAX_NAME_BYTES: usize = 32_767;

/// Passes `Some` through; counts `None`.
pub(crate) fn odd_or<T>(value: Option<T>, count: &mut u64) -> Option<T> {
    *count += u64::from(value.is_none());
    value
}

fn integer(row: &Row<'_>, at: usize) -> Option<i64> {
    row.get_ref(at).ok()?.as_i64().ok()
}

/// Text up to the longest name; invalid UTF-8 becomes U+FFFD as in the original.
fn text(row: &Row<'_>, at: usize) -> Option<String> {
    match row.get_ref(at).ok()? {
        ValueRef::Text(bytes) if bytes.len() <= MAX_NAME_BYTES => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        // Only the device's address may be missing: the schema of 2012 has none.
        ValueRef::Null if at == 0 => Some(String::new()),
        _ => None,
    }
}

pub(crate) struct LegacyProcess {
    pub ip: String,
    pub idx: i64,
    pub pid: u32,
    pub name: String,
    pub user_ms: i64,
    pub kernel_ms: i64,
    pub ticks: i64,
    pub duration_ms: u32,
}

impl LegacyProcess {
    /// Device by device, set by set, in order of arrival.
    pub fn query(schema: Schema) -> String {
        let (ip, order) = match schema {
            Schema::Y2012 => ("NULL", ""),
            // The file may declare a collation that takes two addresses for equal: their rows would
            // alternate.
            Schema::Y2013 => ("[RemoteIP]", "[RemoteIP] COLLATE BINARY, "),
        };
        format!(
            "SELECT {ip}, [idx], [ProcID], [Process], [User], [Kernel], [Time], [Duration] FROM [Processes] \
             ORDER BY {order}[Time], [idx]"
        )
    }

    pub fn parse(row: &Row<'_>, odd: &mut OddRows) -> Option<Self> {
        let values = || {
            let ids = (integer(row, 1)?, integer(row, 2)?);
            Some((
                text(row, 0)?,
                ids,
                text(row, 3)?,
                integer(row, 4)?,
                integer(row, 5)?,
                integer(row, 6)?,
                integer(row, 7)?,
            ))
        };
        let (ip, (idx, pid), name, user_ms, kernel_ms, ticks, duration) =
            odd_or(values(), &mut odd.wrong_type)?;
        let pid = odd_or(pid.try_into().ok(), &mut odd.out_of_range)?;
        let duration_ms = odd_or(duration.try_into().ok(), &mut odd.out_of_range)?;
        Some(Self { ip, idx, pid, name, user_ms, kernel_ms, ticks, duration_ms })
    }
}

pub(crate) struct LegacyThread {
    pub tid: u32,
    pub user_ms: i64,
    pub kernel_ms: i64,
}

impl LegacyThread {
    fn parse(row: &Row<'_>, odd: &mut OddRows) -> Option<Self> {
        let values = || Some((integer(row, 1)?, integer(row, 2)?, integer(row, 3)?));
        let (tid, user_ms, kernel_ms) = odd_or(values(), &mut odd.wrong_type)?;
        let tid = odd_or(tid.try_into().ok(), &mut odd.out_of_range)?;
        Some(Self { tid, user_ms, kernel_ms })
    }
}

/// Reads `Threads` in step with `Processes`.
pub(crate) struct ThreadCursor<'s> {
    file: &'s LegacyFile,
    rows: Rows<'s>,
    /// The process row that the current thread row belongs to; `None` at the end.
    at: Option<i64>,
    /// Thread rows that have a process row.
    pub seen: u64,
}

impl<'s> ThreadCursor<'s> {
    /// In the order of [`LegacyProcess::query`], then as stored. The join makes SQLite find each process by its key.
    pub fn query(schema: Schema) -> String {
        let order = match schema {
            Schema::Y2012 => "",
            Schema::Y2013 => "p.[RemoteIP] COLLATE BINARY, ",
        };
        format!(
            "SELECT p.[idx], t.[ThreadID], t.[user], t.[kernel] FROM [Threads] t CROSS JOIN [Processes] p \
             ON p.[idx] = t.[idx] ORDER BY {order}p.[Time], p.[idx], t._rowid_"
        )
    }

    pub fn new(file: &'s LegacyFile, statement: &'s mut Statement<'_>) -> Result<Self, ImportError> {
        let rows = statement.query([]).map_err(file.read_error("Threads"))?;
        let mut cursor = Self { file, rows, at: None, seen: 0 };
        cursor.advance()?;
        Ok(cursor)
    }

    fn advance(&mut self) -> Result<(), ImportError> {
        let read = self.file.read_error("Threads");
        let row = self.rows.next().map_err(&read)?;
        self.at = row.map(|row| row.get(0)).transpose().map_err(&read)?;
        self.seen += u64::from(self.at.is_some());
        Ok(())
    }

    /// Hands out the threads of process row `idx`, which must be asked for in the order of the query.
    pub fn for_each_of(
        &mut self,
        idx: i64,
        take: &mut dyn FnMut(&LegacyThread, &mut OddRows),
        odd: &mut OddRows,
    ) -> Result<(), ImportError> {
        while self.at == Some(idx) {
            if let Some(thread) = self.rows.get().and_then(|row| LegacyThread::parse(row, odd)) {
                take(&thread, odd);
            }
            self.advance()?;
        }
        Ok(())
    }
}
