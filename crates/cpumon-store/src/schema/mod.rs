//! The store's tables: how they are made, and how an older store becomes a newer one, step by step. A store of a newer version is refused
//! rather than misread. So is a file from elsewhere that has a view instead of a table, a trigger or an index of its own: reading or
//! writing would run them. Until that is known, SQLite is limited in what it may run of the file.

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use cpumon_model::Tables;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, Result as Sql};

use crate::error::{At, Result, StoreError};

/// `PRAGMA application_id`: "cpum". file(1) and we know a store by it.
pub(crate) const APPLICATION_ID: i32 = 0x6370_756d;

macro_rules! steps {
    ($($version:literal)+) => { [$(include_str!(concat!("v", $version, ".sql"))),+] };
}
/// Each step brings a store from version `index` to `index + 1`. Steps are frozen once released.
const MIGRATIONS: [&str; VERSION as usize] = steps!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20);

/// The version that this build reads and writes.
pub(crate) const VERSION: i32 = 20;

/// Size of a database page, bytes. Samples of a fresh interval are often 1 KB, and a page is filled until the next one does
/// not fit: larger pages than the default of 4096 leave less of themselves empty.
const PAGE_SIZE: &str = "PRAGMA page_size = 8192";
/// Freed pages can be given back to the file system step by step; must be set before the first table.
const AUTO_VACUUM: &str = "PRAGMA auto_vacuum = INCREMENTAL";
/// Readers and the writer do not wait for each other, and a commit is one append.
const JOURNAL_MODE: &str = "PRAGMA journal_mode = WAL";
/// No fsync at commit, one at each checkpoint: a killed process loses nothing that is committed, a power cut loses at most
/// what came after the last checkpoint, and neither damages the file.
const SYNCHRONOUS_NORMAL: &str = "PRAGMA synchronous = NORMAL";
/// fsync at each commit.
const SYNCHRONOUS_FULL: &str = "PRAGMA synchronous = FULL";
/// Pages (8 KB) of log that start a checkpoint: 16 MB, so that a page written each second is copied once per checkpoint.
const WAL_AUTOCHECKPOINT: &str = "PRAGMA wal_autocheckpoint = 2000";
/// The log file is cut to this size (64 MB) after a checkpoint, should a slow reader have let it grow.
const JOURNAL_SIZE_LIMIT: &str = "PRAGMA journal_size_limit = 67108864";
/// Page cache of a reader: 4 MB; it mostly reads each page once.
const READER_CACHE_SIZE: &str = "PRAGMA cache_size = -4096";
/// A damaged file cannot call functions or write shadow tables through its own schema.
const TRUSTED_SCHEMA: &str = "PRAGMA trusted_schema = OFF";
/// Sorting and temporary tables stay in memory: they are small.
const TEMP_STORE: &str = "PRAGMA temp_store = MEMORY";

/// Bytes of a value in a file that is not compared yet. The longest definition of a store has 1,400.
const MAX_VALUE_BYTES: i32 = 16 << 10;
/// Steps of SQLite's machine that one statement may take on such a file; a list of a thousand tables takes fewer.
#[cfg(feature = "bundled")]
const MAX_STEPS: std::ffi::c_int = 10_000;

/// Prepares for a file from elsewhere; to be called before the first statement. No foreign key, trigger or view of it acts. SQLite
/// reads the statistics in `sqlite_stat1` when it loads the list of tables, before that can be compared, and their columns may be
/// computed: until [`lift_limits`] such work is ended early, and the list is loaded without statistics.
pub fn distrust(connection: &mut Connection) -> Sql<()> {
    for config in [
        DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY,
        DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
    ] {
        connection.set_db_config(config, false)?;
    }
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    // The program that loads the extension has opened the file before.
    #[cfg(feature = "bundled")]
    connection.progress_handler(MAX_STEPS, Some(|| true))?;
    Ok(())
}

/// Ends the limits of [`distrust`] for a file whose list of tables was compared.
pub fn lift_limits(connection: &mut Connection) -> Sql<()> {
    // SQLite takes the largest limit that it was built with.
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::MAX)?;
    #[cfg(feature = "bundled")]
    connection.progress_handler(0, None::<fn() -> bool>)?;
    Ok(())
}

/// Makes a new database a store, or brings an old store up to date; sets what a writer needs.
pub(crate) fn prepare_writer(connection: &mut Connection, path: &Path, sync_each_commit: bool) -> Result<()> {
    distrust(connection).at("set up", path)?;
    let tables = number(connection, path, "SELECT count(*) FROM sqlite_schema")?;
    // A file without tables has no id yet: it is a new store.
    let id = if tables > 0 { Some(APPLICATION_ID) } else { None };
    let found = version_with(connection, path, id)?;
    if tables > 0 {
        compare(connection, path, found)?;
    } else {
        // These two can be set only before the first table.
        pragma(connection, path, PAGE_SIZE)?;
        pragma(connection, path, AUTO_VACUUM)?;
    }
    lift_limits(connection).at("set up", path)?;
    let sync = if sync_each_commit { SYNCHRONOUS_FULL } else { SYNCHRONOUS_NORMAL };
    for text in [JOURNAL_MODE, sync, WAL_AUTOCHECKPOINT, JOURNAL_SIZE_LIMIT, TRUSTED_SCHEMA, TEMP_STORE] {
        pragma(connection, path, text)?;
    }
    migrate(connection, path, found..VERSION)
}

/// Each commit of this connection waits for the disk.
pub(crate) fn sync_each_commit(connection: &Connection, path: &Path) -> Result<()> {
    pragma(connection, path, SYNCHRONOUS_FULL)
}

/// The schema version of a file that is a store, and not of a newer version.
pub(crate) fn version_of(connection: &Connection, path: &Path) -> Result<i32> {
    version_with(connection, path, Some(APPLICATION_ID))
}

/// The schema version of a file with this application id, if one is given.
fn version_with(connection: &Connection, path: &Path, id: Option<i32>) -> Result<i32> {
    let application_id = number(connection, path, "PRAGMA application_id")?;
    if id.is_some_and(|id| id != application_id) {
        return Err(StoreError::NotAStore { path: path.into(), application_id });
    }
    let found = number(connection, path, "PRAGMA user_version")?;
    if found > VERSION {
        return Err(StoreError::NewerSchema { path: path.into(), found, known: VERSION });
    }
    Ok(found)
}

/// Checks that an open database, of which [`distrust`] was called, is a store that this build can read; sets what a reader needs.
pub(crate) fn prepare_reader(connection: &Connection, path: &Path) -> Result<()> {
    let found = version_of(connection, path)?;
    if found < VERSION {
        return Err(StoreError::OlderSchema { path: path.into(), found, known: VERSION });
    }
    for text in [READER_CACHE_SIZE, TRUSTED_SCHEMA, TEMP_STORE] {
        pragma(connection, path, text)?;
    }
    compare(connection, path, found)
}

/// Runs one PRAGMA; some answer with a row, which is ignored.
fn pragma(connection: &Connection, path: &Path, text: &'static str) -> Result<()> {
    let mut statement = connection.prepare(text).at("set up", path)?;
    let mut rows = statement.query([]).at(text, path)?;
    while rows.next().at(text, path)?.is_some() {}
    Ok(())
}

fn number(connection: &Connection, path: &Path, text: &'static str) -> Result<i32> {
    connection.query_row(text, [], |row| row.get(0)).at("read the header", path)
}

/// Makes an empty database a store of an older version, or of this one.
pub(crate) fn create(connection: &mut Connection, path: &Path, version: i32) -> Result<()> {
    for text in [PAGE_SIZE, AUTO_VACUUM] {
        pragma(connection, path, text)?;
    }
    migrate(connection, path, 0..version)
}

/// An empty store of a version, in memory.
pub(crate) fn model(version: i32) -> Result<Connection> {
    let path = Path::new(":memory:");
    let mut model = Connection::open_in_memory().at("open", path)?;
    create(&mut model, path, version)?;
    Ok(model)
}

/// Brings a store of an older version up to date.
#[cfg(feature = "bundled")]
pub(crate) fn bring_up_to_date(connection: &mut Connection, path: &Path) -> Result<()> {
    let from = number(connection, path, "PRAGMA user_version")?;
    migrate(connection, path, from..VERSION)
}

/// Runs the steps from a version to another one, all in one transaction.
fn migrate(connection: &mut Connection, path: &Path, versions: Range<i32>) -> Result<()> {
    let at = |version: i32| usize::try_from(version).unwrap_or(0).min(MIGRATIONS.len());
    let steps = MIGRATIONS.get(at(versions.start)..at(versions.end)).unwrap_or_default();
    if steps.is_empty() {
        return Ok(());
    }
    // All steps or none: a store of a version in between would fit no reader.
    let transaction = connection.transaction().at("write the schema", path)?;
    for step in steps {
        transaction.execute_batch(step).at("write the schema", path)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).at("write the schema", path)?;
    // In the same transaction: the version always names the steps that were done.
    transaction.pragma_update(None, "user_version", versions.end).at("write the schema", path)?;
    transaction.commit().at("write the schema", path)
}

/// A table, an index, a view or a trigger. All names are in lower case: SQLite compares them without it.
#[derive(Debug, PartialEq, Eq)]
struct Object {
    /// `table`, `index`, `view` or `trigger`. Triggers have names of their own: one may be called as an index is.
    kind: String,
    name: String,
    table: String,
    /// Its definition; `None`: an index that a table's definition implies.
    text: Option<String>,
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} \"{}\"", self.kind, self.name)
    }
}

/// Checks that each object of a store of this version is as cpumon made it, and that there is no other one that SQLite could run: no view, no
/// trigger, and no index on its tables. Tables beside them, which nothing here reads, may be anybody's.
pub(crate) fn compare(connection: &Connection, path: &Path, version: i32) -> Result<()> {
    if version == VERSION && is_current(connection).at("read the list of tables of", path)? {
        return Ok(());
    }
    let compared = compare_found(connection, path, version)?;
    match compared.own.iter().zip(&compared.is_there).find(|(_, is_there)| !**is_there) {
        Some((object, _)) => corrupt(path, format!("{object} is missing")),
        None => Ok(()),
    }
}

/// The objects of a store of this version, a line each: type, name, table and definition between tabs.
const CURRENT: &str = include_str!("current.tsv");

/// Whether a store has exactly the objects of [`CURRENT`]. Most have: no other store has to be made to compare them with, which takes longer
/// than to open one.
fn is_current(connection: &Connection) -> Sql<bool> {
    let found = objects(connection)?;
    let mut own = CURRENT.lines().map(|line| {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        let (kind, name, table) = (next(), next(), next());
        Object { kind, name, table, text: Some(next()).filter(|text| !text.is_empty()) }
    });
    Ok(found.len() == CURRENT.lines().count() && own.all(|object| found.contains(&object)))
}

/// [`compare`] of a list that may be damaged: only the objects found are checked. In a list that SQLite cannot read as a whole, definitions
/// may differ from the names beside them; only a list without foreign objects is safe from that.
#[cfg(feature = "bundled")]
pub(crate) fn compare_damaged(
    connection: &Connection,
    path: &Path,
    version: i32,
    is_readable: bool,
) -> Result<()> {
    match compare_found(connection, path, version)?.other {
        Some(other) if !is_readable => corrupt(path, format!("{other} is not of a store")),
        _ => Ok(()),
    }
}

/// Whether a file that was compared has tables beside those of a store.
#[cfg(feature = "bundled")]
pub(crate) fn has_others(connection: &Connection, path: &Path, version: i32) -> Result<bool> {
    compare_found(connection, path, version).map(|compared| compared.other.is_some())
}

fn corrupt<T>(path: &Path, detail: String) -> Result<T> {
    Err(StoreError::Corrupt { path: path.into(), detail })
}

/// Objects found in a list of tables, all acceptable.
struct Compared {
    own: &'static [Object],
    /// Which objects of `own` were found.
    is_there: Vec<bool>,
    /// A table beside them, or an index on one.
    other: Option<Object>,
}

fn compare_found(connection: &Connection, path: &Path, version: i32) -> Result<Compared> {
    let own = of_version(version)?;
    let mut compared = Compared { own, is_there: vec![false; own.len()], other: None };
    for object in objects(connection).at("read the list of tables of", path)? {
        if let Some(at) = own.iter().position(|known| *known == object) {
            if std::mem::replace(&mut compared.is_there[at], true) {
                return corrupt(path, format!("{object} is there twice"));
            }
            continue;
        }
        if let Some(fault) = fault_of(&object, own) {
            return corrupt(path, fault);
        }
        compared.other.get_or_insert(object);
    }
    Ok(compared)
}

/// Tables that SQLite makes and reads, as it defines them.
const OF_SQLITE: [&str; 3] = [
    "CREATE TABLE sqlite_sequence(name,seq)",
    "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
];

/// Why an object that is none of a store's is refused; `None`: nothing here comes to it.
fn fault_of(object: &Object, own: &[Object]) -> Option<String> {
    let kind = object.kind.as_str();
    if own.iter().any(|known| known.kind == kind && known.name == object.name) {
        return Some(format!("{object} is defined otherwise than in a store"));
    }
    let namesake = own.iter().find(|known| known.name == object.name && kind != "trigger");
    if let Some(known) = namesake {
        return Some(format!("{object} is in place of a store's {}", known.kind));
    }
    let text = object.text.as_deref().unwrap_or_default();
    if kind == "table" && object.name.starts_with("sqlite_") && !OF_SQLITE.contains(&text) {
        return Some(format!("{object} is defined otherwise than by SQLite"));
    }
    let is_for_queries =
        || Tables::all().iter_names().any(|(name, _)| name.eq_ignore_ascii_case(&object.name));
    if kind == "table" && is_for_queries() {
        return Some(format!("{object} would hide cpumon's table of that name in queries"));
    }
    let is_on_own = || own.iter().any(|known| known.kind == "table" && known.name == object.table);
    let is_harmless = kind == "table" || kind == "index" && !is_on_own();
    (!is_harmless).then(|| format!("a store has no {object}"))
}

fn of_version(version: i32) -> Result<&'static [Object]> {
    static MODELS: [OnceLock<Vec<Object>>; VERSION as usize + 1] =
        [const { OnceLock::new() }; VERSION as usize + 1];
    let path = Path::new(":memory:");
    let Some(known) = MODELS.get(usize::try_from(version).unwrap_or(0)) else {
        return Err(StoreError::NewerSchema { path: path.into(), found: version, known: VERSION });
    };
    if let Some(objects) = known.get() {
        return Ok(objects);
    }
    let objects = objects(&model(version)?).at("read the list of tables of", path)?;
    Ok(known.get_or_init(|| objects))
}

fn objects(connection: &Connection) -> Sql<Vec<Object>> {
    let mut select = connection.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema")?;
    let rows = select.query_map([], |row| {
        let lower = |at| row.get::<_, String>(at).map(|text| text.to_ascii_lowercase());
        let text: Option<String> = row.get(3)?;
        // To SQLite other spaces are letters.
        let text = text.map(|text| text.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
        Ok(Object { kind: row.get(0)?, name: lower(1)?, table: lower(2)?, text })
    })?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::meta;

    #[test]
    fn the_interval_table_has_the_columns_of_the_codec_in_order() {
        let mut connection = Connection::open_in_memory().unwrap();
        prepare_writer(&mut connection, Path::new(":memory:"), false).unwrap();
        let mut statement = connection.prepare("SELECT name FROM pragma_table_info('interval')").unwrap();
        let names: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let expected: Vec<&str> = ["id", "host_id", "boot_id"]
            .into_iter()
            .chain(meta::COLUMNS.iter().take(meta::IN_EVERY_CHUNK).map(|column| column.name))
            .chain(["cpus", "samples", "sched"])
            .chain(meta::COLUMNS.iter().skip(meta::IN_EVERY_CHUNK).map(|column| column.name))
            .collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn the_newest_interval_of_a_boot_is_found_without_a_walk() {
        let mut connection = Connection::open_in_memory().unwrap();
        prepare_writer(&mut connection, Path::new(":memory:"), false).unwrap();
        let text =
            "EXPLAIN QUERY PLAN SELECT max(end_wall_ns) FROM interval WHERE host_id = 1 AND boot_id = 2";
        let plan: String = connection.query_row(text, [], |row| row.get("detail")).unwrap();
        let expected = "SEARCH interval USING COVERING INDEX interval_boot (host_id=? AND boot_id=?)";
        assert_eq!(plan, expected);
    }

    #[test]
    fn scripts_of_older_stores_show_their_comm() {
        let mut connection = Connection::open_in_memory().unwrap();
        create(&mut connection, Path::new(":memory:"), 14).unwrap();
        let rows = [
            ("python3.11", "nightly-report", ("nightly-report", "python3.11")),
            ("python3.11", "python3", ("python3.11", "")),
            ("dash", "sh", ("dash", "")),
            ("node", "MainThread", ("node", "")),
            ("nginx", "worker", ("nginx", "")),
            ("pythonista", "x", ("pythonista", "")),
            ("bash", "rotate-logs.sh", ("rotate-logs.sh", "bash")),
        ];
        for (name, comm, _) in rows {
            let text =
                "INSERT INTO process_info (hash, name, comm, cmdline, cgroup, container, uid, is_kernel)
                VALUES (1, ?1, ?2, '', '', '', 0, 0)";
            connection.execute(text, [name, comm]).unwrap();
        }
        bring_up_to_date(&mut connection, Path::new(":memory:")).unwrap();
        let text = "SELECT name, interpreter, user FROM process_info ORDER BY id";
        let mut statement = connection.prepare(text).unwrap();
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        let found: Vec<(String, String, String)> = found.map(Result::unwrap).collect();
        let expected =
            rows.map(|(_, _, (name, interpreter))| (name.into(), interpreter.into(), String::new()));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_list_of_objects_is_that_of_a_new_store() {
        let new = model(VERSION).unwrap();
        let line = |object: &Object| {
            let Object { kind, name, table, text } = object;
            [kind, name, table, text.as_deref().unwrap_or_default()].join("\t")
        };
        let mut lines: Vec<String> = objects(&new).unwrap().iter().map(line).collect();
        lines.sort_unstable();
        assert_eq!(lines, CURRENT.lines().collect::<Vec<_>>(), "write them to src/schema/current.tsv");
        assert!(is_current(&new).unwrap());
        new.execute_batch("CREATE VIEW more AS SELECT 1").unwrap();
        assert!(!is_current(&new).unwrap());
    }

    #[test]
    fn a_space_that_is_a_letter_to_sqlite_is_compared() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (a  INTEGER\u{a0}NOT NULL)").unwrap();
        let found = objects(&connection).unwrap();
        assert_eq!(found[0].text.as_deref(), Some("CREATE TABLE t (a INTEGER\u{a0}NOT NULL)"));
    }

    #[test]
    fn the_version_is_the_number_of_steps() {
        assert_eq!(usize::try_from(VERSION).unwrap(), MIGRATIONS.len());
    }
}
