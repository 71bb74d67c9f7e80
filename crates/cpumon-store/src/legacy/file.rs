//! Opens a legacy file whose schema is one of the two known ones. The file may be anything, so it is checked before a row is
//! read.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::error::ImportError;

/// First bytes of every SQLite database (file format, section 1.3).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// No view, trigger or function of the file's schema may do anything.
const DISTRUST_SCHEMA: &str =
    "PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; PRAGMA cell_size_check = ON;";

const PROCESS_COLUMNS: [&str; 7] = ["ProcID", "Process", "User", "Kernel", "Time", "Duration", "idx"];
const THREAD_COLUMNS: [&str; 7] = ["ThreadID", "ProcID", "user", "kernel", "duration", "timestamp", "idx"];

/// Which of the original's two schemas.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Schema {
    /// Without a device's address.
    Y2012,
    /// `Processes.RemoteIP` names the device.
    Y2013,
}

impl Schema {
    /// The year people know it by.
    #[must_use]
    pub fn year(self) -> u16 {
        match self {
            Self::Y2012 => 2012,
            Self::Y2013 => 2013,
        }
    }
}

/// An open legacy database of a known schema.
pub(super) struct LegacyFile {
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
        let connection = Connection::open_with_flags(immutable_uri(path)?, flags).map_err(read)?;
        connection.execute_batch(DISTRUST_SCHEMA).map_err(read)?;
        let mut file = Self { connection, path: path.to_owned(), schema: Schema::Y2012 };
        file.schema = file.check_schema()?;
        Ok(file)
    }

    pub fn read_error(&self, table: &'static str) -> impl Fn(rusqlite::Error) -> ImportError + '_ {
        move |source| ImportError::Read { path: self.path.clone(), table, source }
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
        // SQLite lists virtual tables as tables too, but reading one runs the code of its module.
        let is_virtual =
            |sql: &str| sql.trim_start().get(..14).is_some_and(|s| s.eq_ignore_ascii_case("CREATE VIRTUAL"));
        match kind {
            None => return Err(self.schema_error(format!("it has no table {table}"))),
            Some((kind, _)) if kind != "table" => {
                return Err(self.schema_error(format!("{table} is a {kind}, not a table")));
            }
            Some((_, sql)) if sql.as_deref().is_some_and(is_virtual) => {
                return Err(self.schema_error(format!("{table} is a virtual table")));
            }
            Some(_) => {}
        }
        let mut statement = self
            .connection
            .prepare("SELECT name, pk, type, (SELECT max(pk) FROM pragma_table_xinfo(?1)) FROM pragma_table_xinfo(?1) WHERE hidden = 0")
            .map_err(&read)?;
        let columns = statement.query_map([table], |row| {
            let (pk, kind, max_pk): (i64, String, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
            // Only a sole key of exactly this type can be the row id, by which SQLite finds a row without an
            // index.
            let is_only_key = pk == 1 && max_pk == 1 && kind.eq_ignore_ascii_case("INTEGER");
            Ok(ColumnInfo { name: row.get(0)?, is_only_key })
        });
        columns.map_err(&read)?.collect::<Result<_, _>>().map_err(&read)
    }

    /// Only this code distinguishes an encrypted or overwritten file from a damaged one.
    fn schema_or_read(&self, error: rusqlite::Error) -> ImportError {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => ImportError::NotADatabase { path: self.path.clone() },
            _ => self.read_error("the schema")(error),
        }
    }
}

struct ColumnInfo {
    name: String,
    /// The table's one integer primary key.
    is_only_key: bool,
}

fn check_magic(path: &Path) -> Result<(), ImportError> {
    let open = |source| ImportError::Open { path: path.to_owned(), source };
    let mut file = std::fs::File::open(path).map_err(open)?;
    if !file.metadata().map_err(open)?.is_file() {
        return Err(ImportError::NotADatabase { path: path.to_owned() });
    }
    let mut head = [0; 16];
    match file.read_exact(&mut head) {
        Ok(()) if head == *MAGIC => Ok(()),
        // A file that is shorter than the header can be read well: it is just no database.
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Err(open(error)),
        _ => Err(ImportError::NotADatabase { path: path.to_owned() }),
    }
}

/// An immutable open ignores a journal, so what it holds would be missing, or half of a transaction would show.
fn check_journals(path: &Path) -> Result<(), ImportError> {
    // An empty one is harmless: SQLite leaves it behind in some journal modes.
    for suffix in ["-journal", "-wal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let journal = PathBuf::from(name);
        if std::fs::metadata(&journal).is_ok_and(|meta| meta.len() > 0) {
            return Err(ImportError::Journal { path: path.to_owned(), journal });
        }
    }
    Ok(())
}

/// `file:` URI with every byte that is not plainly safe percent-encoded.
fn immutable_uri(path: &Path) -> Result<String, ImportError> {
    let absolute =
        std::path::absolute(path).map_err(|source| ImportError::Open { path: path.to_owned(), source })?;
    let mut uri = String::from("file:");
    for &byte in absolute.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(char::from(byte)),
            _ => {
                let _infallible = write!(uri, "%{byte:02x}");
            }
        }
    }
    uri.push_str("?immutable=1");
    Ok(uri)
}
