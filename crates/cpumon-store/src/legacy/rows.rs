//! Rows of the two legacy tables as checked values. SQLite lets any value into any column, and the file may be hostile.

use rusqlite::types::ValueRef;
use rusqlite::{Row, Rows, Statement};

use super::error::ImportError;
use super::file::{LegacyFile, Schema};
use super::report::OddRows;

/// Longest name the v1 protocol can carry (its length is an i16).
const MAX_NAME_BYTES: usize = 32_767;

/// Passes `Some` through; counts `None`.
pub(super) fn odd_or<T>(value: Option<T>, count: &mut u64) -> Option<T> {
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

pub(super) struct ProcessRow {
    pub ip: String,
    pub idx: i64,
    pub pid: u32,
    pub name: String,
    pub user_ms: i64,
    pub kernel_ms: i64,
    pub ticks: i64,
    pub duration_ms: u32,
}

impl ProcessRow {
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

pub(super) struct ThreadRow {
    pub tid: u32,
    pub user_ms: i64,
    pub kernel_ms: i64,
}

/// Why a thread row cannot be used.
#[derive(Copy, Clone)]
enum Unfit {
    WrongType,
    OutOfRange,
}

impl ThreadRow {
    fn parse(row: &Row<'_>) -> Result<Self, Unfit> {
        let tid = integer(row, 1).ok_or(Unfit::WrongType)?;
        let user_ms = integer(row, 2).ok_or(Unfit::WrongType)?;
        let kernel_ms = integer(row, 3).ok_or(Unfit::WrongType)?;
        Ok(Self { tid: tid.try_into().map_err(|_| Unfit::OutOfRange)?, user_ms, kernel_ms })
    }
}

/// Reads `Threads` in step with `Processes`.
pub(super) struct ThreadCursor<'s> {
    file: &'s LegacyFile,
    rows: Rows<'s>,
    /// The current thread row and the process row that it belongs to; `None` at the end.
    at: Option<(i64, Result<ThreadRow, Unfit>)>,
    /// Thread rows that have a process row.
    pub seen: u64,
}

impl<'s> ThreadCursor<'s> {
    /// In the order of [`ProcessRow::query`], then as stored. The join makes SQLite find each process by its key.
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
        self.at = match row {
            Some(row) => Some((row.get(0).map_err(&read)?, ThreadRow::parse(row))),
            None => None,
        };
        self.seen += u64::from(self.at.is_some());
        Ok(())
    }

    /// Hands out the threads of process row `idx`, which must be asked for in the order of the query.
    pub fn for_each_of(
        &mut self,
        idx: i64,
        take: &mut dyn FnMut(&ThreadRow, &mut OddRows),
        odd: &mut OddRows,
    ) -> Result<(), ImportError> {
        while let Some((_, parsed)) = self.at.as_ref().filter(|(at, _)| *at == idx) {
            match parsed {
                Ok(thread) => take(thread, odd),
                Err(Unfit::WrongType) => odd.wrong_type += 1,
                Err(Unfit::OutOfRange) => odd.out_of_range += 1,
            }
            self.advance()?;
        }
        Ok(())
    }
}
