//! A connection for queries. `cpumon sql` runs any text it is given; nothing can be written, attached or loaded with it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cpumon_model::Value;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, Row};

use crate::error::{At, Result, StoreError};
use crate::reader::{DamageReport, SharedDamage, open_to_read};
use crate::schema;

/// A second line of defence behind the read-only file and the authorizer.
const QUERY_ONLY: &str = "PRAGMA query_only = ON";
/// Pragmas that only describe the database.
const HARMLESS_PRAGMAS: [&str; 6] =
    ["table_info", "table_xinfo", "table_list", "compile_options", "function_list", "module_list"];

/// A read-only SQL session on a store: its virtual tables (see [`crate::sql`]) and the store's own tables.
#[derive(Debug)]
pub struct Sql {
    connection: Connection,
    path: PathBuf,
    refusal: Refusal,
    damage: SharedDamage,
}

fn is_allowed(action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        // load_extension() would run the code of any library file.
        AuthAction::Function { function_name } => !function_name.eq_ignore_ascii_case("load_extension"),
        AuthAction::Pragma { pragma_name, .. } => {
            HARMLESS_PRAGMAS.iter().any(|name| name.eq_ignore_ascii_case(pragma_name))
        }
        _ => false,
    }
}

fn describe(action: &AuthAction<'_>) -> String {
    match action {
        AuthAction::Delete { table_name }
        | AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
            if table_name.starts_with("sqlite_") =>
        {
            "a change of the schema".to_owned()
        }
        AuthAction::Delete { table_name } => format!("DELETE FROM {table_name}"),
        AuthAction::Insert { table_name } => format!("INSERT INTO {table_name}"),
        AuthAction::Update { table_name, .. } => format!("UPDATE {table_name}"),
        AuthAction::CreateTable { table_name } | AuthAction::CreateTempTable { table_name } => {
            format!("CREATE TABLE {table_name}")
        }
        AuthAction::DropTable { table_name } => format!("DROP TABLE {table_name}"),
        AuthAction::Pragma { pragma_name, .. } => format!("PRAGMA {pragma_name}"),
        AuthAction::Function { function_name } => format!("{function_name}()"),
        AuthAction::Attach { .. } => "ATTACH or VACUUM".to_owned(),
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => "a transaction".to_owned(),
        other => {
            let name = format!("{other:?}");
            name.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
        }
    }
}

/// What the authorizer refused last.
type Refusal = Arc<Mutex<Option<String>>>;

/// Allows reading and refuses everything else, with a record of what was refused.
fn authorizer(refusal: Refusal) -> impl FnMut(AuthContext<'_>) -> Authorization {
    move |context| {
        if is_allowed(&context.action) {
            return Authorization::Allow;
        }
        *refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(describe(&context.action));
        Authorization::Deny
    }
}

impl Sql {
    /// Opens the store at `path`; a writer may run at the same time.
    pub fn open(path: &Path) -> Result<Self> {
        let mut connection = open_to_read(path, &mut |connection| schema::prepare_reader(connection, path))?;
        connection.execute_batch(QUERY_ONLY).at("set up", path)?;
        let damage = SharedDamage::default();
        super::register_noting(&connection, path, &damage).at("set up tables", path)?;
        let refusal = Refusal::default();
        // After the PRAGMAs above, which it would refuse.
        connection.authorizer(Some(authorizer(Arc::clone(&refusal)))).at("set up", path)?;
        Ok(Self { connection, path: path.to_owned(), refusal, damage })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the virtual tables could not read since this session was opened. Answers were given without it.
    pub fn damage(&self) -> DamageReport {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers one statement: `columns` gets the names, then `visit` each row until it breaks off. Gives the number of rows
    /// visited. Blobs come as text, `x'0a0b'`.
    pub fn query(
        &self,
        sql: &str,
        columns: &mut dyn FnMut(&[&str]) -> ControlFlow<()>,
        visit: &mut dyn FnMut(&[Value<'_>]) -> ControlFlow<()>,
    ) -> Result<u64> {
        // A refusal of an earlier statement must not explain a failure of this one.
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let at = |source| self.failed(source);
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

    /// What stopped a query: SQLite says of a refusal only that there was one.
    fn failed(&self, source: rusqlite::Error) -> StoreError {
        let refused = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take();
        match refused {
            Some(what) => StoreError::Refused { what },
            None => StoreError::sqlite("answer the query", &self.path, source),
        }
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
