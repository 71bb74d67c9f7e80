//! A connection for questions. In: a store's path, SQL text. Out: the answer's rows. Why: `cpumon sql` takes any text; whatever
//! it says, nothing is written, attached or loaded.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use cpumon_model::Value;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, OpenFlags, Row};

use crate::error::{At, Result, StoreError};
use crate::reader::Reader;

/// Belt and braces beside the read-only file and the authorizer.
const QUERY_ONLY: &str = "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;";
/// Pragmas that only describe.
const HARMLESS_PRAGMAS: [&str; 6] =
    ["table_info", "table_xinfo", "table_list", "compile_options", "function_list", "module_list"];

/// A read-only SQL session on a store: its virtual tables (see [`crate::sql`]) and the store's own tables.
#[derive(Debug)]
pub struct Sql {
    connection: Connection,
    path: PathBuf,
}

/// Reading is allowed, everything else is not.
fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } if !function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Allow
        }
        AuthAction::Pragma { pragma_name, .. }
            if HARMLESS_PRAGMAS.iter().any(|name| name.eq_ignore_ascii_case(pragma_name)) =>
        {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

impl Sql {
    /// Opens the store at `path`; a writer may run at the same time.
    pub fn open(path: &Path) -> Result<Self> {
        // Opening a reader says best what is wrong with a file that is no store.
        drop(Reader::open(path)?);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).at("open", path)?;
        connection.busy_timeout(std::time::Duration::from_secs(5)).at("set up", path)?;
        connection.execute_batch(QUERY_ONLY).at("set up", path)?;
        super::register(&connection, path).at("set up tables", path)?;
        connection.authorizer(Some(authorize)).at("set up", path)?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// Answers one statement: `columns` gets the names, then `visit` each row until it breaks off. Gives the number of rows
    /// visited. Blobs come as text, `x'0a0b'`.
    pub fn query(
        &self,
        sql: &str,
        columns: &mut dyn FnMut(&[&str]) -> ControlFlow<()>,
        visit: &mut dyn FnMut(&[Value<'_>]) -> ControlFlow<()>,
    ) -> Result<u64> {
        let at = |source| StoreError::sqlite("answer the query", &self.path, source);
        let mut batch = Batch::new(&self.connection, sql);
        let Some(mut statement) = batch.next().map_err(at)? else { return Ok(0) };
        if batch.next().map_err(at)?.is_some() {
            return Err(StoreError::SeveralStatements);
        }
        let width = statement.column_count();
        if columns(&statement.column_names().collect::<Vec<_>>()).is_break() {
            return Ok(0);
        }
        let mut rows = statement.query([]).map_err(at)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(at)? {
            count += 1;
            let cells =
                (0..width).map(|column| cell(row, column)).collect::<Result<Vec<_>, _>>().map_err(at)?;
            if visit(&cells).is_break() {
                break;
            }
        }
        Ok(count)
    }
}

fn cell<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<Value<'r>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes)),
        ValueRef::Blob(bytes) => {
            let mut text = String::with_capacity(bytes.len() * 2 + 3);
            text.push_str("x'");
            for byte in bytes {
                // Writing into a String cannot fail.
                let _infallible = write!(text, "{byte:02x}");
            }
            text.push('\'');
            Value::Text(Cow::Owned(text))
        }
    })
}
