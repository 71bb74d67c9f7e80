//! The files of a check: a store that may be damaged, opened for reading only; a copy with a new first page, where the header or list of
//! tables is damaged; and the new store for the salvaged rows, under a temporary name until it is complete.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Result as Sql, params, params_from_iter};

use super::source::{Source, interrupt_on};
use super::walk::CheckedTable;
use crate::error::{At, Result, StoreError, sibling};
use crate::reader::{Damage, open_to_read};
use crate::rows::{HostRow, signed};
use crate::schema::{self, VERSION};

/// With a schema that may be written (which a file that is open for reading only still cannot be), SQLite reads a file that is
/// shorter than its header says. Pages are checked before they are used.
const READ_DAMAGED: &str = "PRAGMA writable_schema = ON; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;";

/// Opens a connection that reads a damaged file as far as possible, until `stop` is set. `is_repaired`: the file is a copy whose list of
/// tables was made here.
pub(super) fn open(path: &Path, stop: &Arc<AtomicBool>, is_repaired: bool) -> Result<Source> {
    let connection = open_to_read(path, &mut |connection| {
        // It compares each name with the definition beside it, but not in a schema that may be written.
        let is_readable = read_list(connection).is_ok();
        connection.execute_batch(READ_DAMAGED).at("open", path)?;
        let version = version(connection, path)?;
        if is_repaired { Ok(()) } else { schema::compare_damaged(connection, path, version, is_readable) }
    })?;
    Source::of(connection, stop).at("open", path)
}

/// The error of a check that the user stopped.
pub(super) fn stopped(path: &Path) -> StoreError {
    StoreError::stopped("check", path)
}

/// The schema version, of a file that is a store and whose list of tables can be read.
pub(super) fn version(source: &Connection, path: &Path) -> Result<i32> {
    let found = schema::version_of(source, path)?;
    read_list(source).at("read the header", path)?;
    Ok(found)
}

fn read_list(source: &Connection) -> rusqlite::Result<()> {
    // Not count(*), which is one step of SQLite's machine: no limit of steps would end it.
    source.query_row("SELECT count(1) FROM sqlite_schema", [], |_| Ok(()))
}

/// SQLite makes no file and follows no link: [`Temporary`] has made the file, in a directory without a link in its path.
pub(super) const WRITE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX)
    .union(OpenFlags::SQLITE_OPEN_NOFOLLOW);
/// No journal: a copy that is not complete is removed.
const COPY_FAST: &str = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA trusted_schema = OFF;";

#[derive(Debug)]
pub(super) struct Out {
    connection: Connection,
    path: PathBuf,
    temporary: Temporary,
}

impl Out {
    /// A new store of a schema version, under a temporary name beside `path`.
    pub(super) fn create(path: &Path, version: i32, stop: &Arc<AtomicBool>) -> Result<Self> {
        refuse_existing(path, "salvage into")?;
        let (temporary, _) = Temporary::create(path, "part")?;
        let mut connection = Connection::open_with_flags(temporary.path(), WRITE).at("create", path)?;
        schema::create(&mut connection, path, version)?;
        connection.execute_batch(COPY_FAST).at("create", path)?;
        connection.execute_batch("BEGIN").at("write", path)?;
        interrupt_on(&mut connection, stop).at("open", path)?;
        Ok(Self { connection, path: path.into(), temporary })
    }

    /// Inserts a row; false if it breaks a rule of the table, as only a damaged one does.
    pub(super) fn insert(&mut self, table: &CheckedTable, row: &[Value]) -> Result<bool> {
        let (columns, places) = (table.columns.join(", "), vec!["?"; row.len()].join(", "));
        let text = format!("INSERT OR IGNORE INTO {} ({columns}) VALUES ({places})", table.name);
        let inserted = self
            .connection
            .prepare_cached(&text)
            .and_then(|mut insert| insert.execute(params_from_iter(row)));
        match inserted {
            Ok(rows) => Ok(rows > 0),
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => {
                Ok(false)
            }
            Err(error) => Err(error).at("write", &self.path),
        }
    }

    /// Inserts a row of the table's first columns unless it is there.
    pub(super) fn insert_missing(&mut self, table: &CheckedTable, row: &[Value]) -> Result<()> {
        let columns = table.columns.iter().take(row.len()).cloned().collect();
        let table = CheckedTable { columns, ..table.clone() };
        self.insert(&table, row).map(|_| ())
    }

    /// Adds the hosts and boots of samples that have none: where their table and its index are lost, a reader finds the samples only
    /// under an id of ours. Gives the number of hosts and of boots.
    pub(super) fn add_missing_owners(&mut self) -> Result<[usize; 2]> {
        // The first digits are "lost" and "boot".
        let host = "INSERT OR IGNORE INTO host (id, key, name, trust)
             SELECT host_id, unhex('6c6f7374' || printf('%024x', host_id)), 'host ' || host_id, 'unauthenticated'
             FROM (SELECT DISTINCT host_id FROM chunk UNION SELECT host_id FROM interval)
             WHERE host_id NOT IN (SELECT id FROM host)";
        let boot = "INSERT OR IGNORE INTO boot (id, host_id, key)
             SELECT boot_id, host_id, unhex('626f6f74' || printf('%024x', boot_id))
             FROM (SELECT DISTINCT host_id, boot_id FROM chunk UNION SELECT host_id, boot_id FROM interval)
             WHERE boot_id NOT IN (SELECT id FROM boot)";
        let mut added = [0; 2];
        for (text, added) in [host, boot].into_iter().zip(&mut added) {
            *added = self.connection.execute(text, []).at("write", &self.path)?;
        }
        Ok(added)
    }

    /// Records a hole as a gap; of a host that is not known there is nothing to show.
    pub(super) fn add_gap(&mut self, host: Option<HostRow>, hole: &Damage) -> Result<()> {
        let Some(host) = host else { return Ok(()) };
        let intervals = signed(hole.intervals.unwrap_or(0));
        self.connection
            .prepare_cached(
                "INSERT INTO gap (host_id, begin_wall_ns, end_wall_ns, intervals, reason)
                 VALUES (?1, ?2, ?3, ?4, 'damaged')",
            )
            .and_then(|mut insert| {
                insert.execute(params![host, hole.first_end_wall_ns, hole.last_end_wall_ns, intervals])
            })
            .at("write", &self.path)?;
        Ok(())
    }

    /// Brings the store up to date and gives it its name.
    pub(super) fn finish(self) -> Result<()> {
        let Self { mut connection, path, temporary } = self;
        connection.execute_batch("COMMIT").at("write", &path)?;
        schema::bring_up_to_date(&mut connection, &path)?;
        connection.close().map_err(|(_, error)| error).at("write", &path)?;
        temporary.put_in_place(&path)
    }
}

/// No file is replaced.
pub(super) fn refuse_existing(path: &Path, operation: &'static str) -> Result<()> {
    match path.symlink_metadata() {
        Ok(_) => Err(std::io::Error::from(std::io::ErrorKind::AlreadyExists)).at(operation, path),
        Err(_) => Ok(()),
    }
}

/// A file and those that SQLite puts beside it; removed when dropped.
#[derive(Debug)]
pub(super) struct Temporary(PathBuf);

impl Temporary {
    /// An empty file of mode 0600 beside `path`, open for writing; `what` is another word for each of a process.
    pub(super) fn create(path: &Path, what: &str) -> Result<(Self, File)> {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.{what}", std::process::id()));
        let dir = cpumon_files::directory_of(path).canonicalize().at("create a file beside", path)?;
        let temporary = Self(dir.join(name));
        // One that was left by a process of the same number goes. One of another user may stay, who would own what is written.
        temporary.remove();
        let file = cpumon_files::create_new(&temporary.0).at("create", &temporary.0)?;
        Ok((temporary, file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Gives the file, which is closed, its name.
    pub(super) fn put_in_place(self, path: &Path) -> Result<()> {
        let file = File::open(self.path()).at("write", path)?;
        // Before it gets its name: after a crash that must not be an incomplete file.
        file.sync_all().at("write", path)?;
        // A link refuses a file that came into being meanwhile; a rename would replace it.
        match std::fs::hard_link(self.path(), path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists && !path.exists() => {
                std::fs::rename(self.path(), path).at("put in place", path)
            }
            linked => linked.at("put in place", path),
        }
    }

    fn remove(&self) {
        for ending in ["", "-wal", "-shm"] {
            let _gone_if_renamed = std::fs::remove_file(sibling(&self.0, ending));
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.remove();
    }
}

// A store whose header or list of tables is damaged can be read. Both are known: a store has the tables of its version, and with
// `auto_vacuum` SQLite puts the first page of each table and index behind that of the one before, from page 3 on. So a copy of the
// file gets a new first page, with a header and a list of tables that fits into it. Whether the pages are where they should be is
// checked first, because another file must not be taken for a store.

/// All stores have pages of this size, bytes.
const PAGE_BYTES: usize = 8_192;
/// More pages than there are tables and indexes.
const FIRST_PAGES: usize = 64;
/// Bytes copied between two checks whether to stop.
const COPY_BYTES: usize = 4 << 20;

/// A row of `sqlite_schema`.
#[derive(Clone, Debug)]
struct Listed {
    kind: String,
    name: String,
    table: String,
    first_page: u32,
    /// `None`: an index that a table's definition implies.
    text: Option<String>,
    /// Its pages are those of an index: an index, or a table without row ids.
    is_index: bool,
}

#[derive(Clone, Debug)]
pub(super) struct SchemaLayout {
    pub(super) version: i32,
    listed: Vec<Listed>,
}

impl SchemaLayout {
    fn of_version(version: i32) -> Result<Self> {
        let listed = list(&schema::model(version)?).at("read the schema of", Path::new(":memory:"))?;
        Ok(Self { version, listed })
    }

    /// How many first pages of tables are where they should be, and how many there are.
    fn matches(&self, pages: &[u8]) -> [usize; 2] {
        let is_there = |one: &&Listed| {
            let at = (one.first_page as usize - 1) * PAGE_BYTES;
            let kinds = if one.is_index { [2, 10] } else { [5, 13] };
            pages.get(at).is_some_and(|kind| kinds.contains(kind))
        };
        [self.listed.iter().filter(is_there).count(), self.listed.len()]
    }

    /// A first page for a file of `pages` pages.
    fn first_page(&self, pages: u32, has_log: bool, beside: &Path) -> Result<Vec<u8>> {
        let (made, _) = Temporary::create(beside, "list")?;
        let connection = Connection::open_with_flags(made.path(), WRITE).at("create", made.path())?;
        self.write_list(&connection).at("write", made.path())?;
        connection.close().map_err(|(_, error)| error).at("write", made.path())?;
        let mut page = std::fs::read(made.path()).at("read", made.path())?;
        page.truncate(PAGE_BYTES);
        let last = self.listed.iter().map(|one| one.first_page).max().unwrap_or(0);
        // The fields are described in SQLite's file format: 2 means that there may be a log beside the file.
        let log = if has_log { 2 } else { 1 };
        page[18..20].fill(log);
        let number = |page: &mut Vec<u8>, at: usize, number: u32| {
            page[at..at + 4].copy_from_slice(&number.to_be_bytes());
        };
        number(&mut page, 24, 1);
        number(&mut page, 28, pages);
        // The list of free pages is lost.
        number(&mut page, 32, 0);
        number(&mut page, 36, 0);
        number(&mut page, 52, last);
        number(&mut page, 64, 1);
        number(&mut page, 92, 1);
        Ok(page)
    }

    fn write_list(&self, connection: &Connection) -> Sql<()> {
        connection.execute_batch(&format!(
            "PRAGMA page_size = {PAGE_BYTES}; PRAGMA journal_mode = OFF; PRAGMA writable_schema = ON;
             PRAGMA application_id = {}; PRAGMA user_version = {}",
            schema::APPLICATION_ID,
            self.version
        ))?;
        let mut insert = connection.prepare("INSERT INTO sqlite_schema VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for one in &self.listed {
            insert.execute(params![one.kind, one.name, one.table, one.first_page, one.text])?;
        }
        Ok(())
    }
}

/// The tables of a store, and the indexes that are read, as short as they can be: the list must fit into a page.
fn list(model: &Connection) -> Sql<Vec<Listed>> {
    let mut select = model.prepare(
        "SELECT type, name, tbl_name, rootpage, sql,
             type = 'index' OR (SELECT wr FROM pragma_table_list AS list WHERE list.name = sqlite_schema.name) FROM sqlite_schema",
    )?;
    let rows = select.query_map([], |row| {
        Ok(Listed {
            kind: row.get(0)?,
            name: row.get(1)?,
            table: row.get(2)?,
            first_page: row.get(3)?,
            text: row.get::<_, Option<String>>(4)?.map(|text| shortened(&text)),
            is_index: row.get(5)?,
        })
    })?;
    rows.collect()
}

/// A definition without the words that only a writer needs, and in one spacing.
fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace(" NOT NULL", "").replace(", ", ",").replace("( ", "(").replace(" )", ")")
}

/// The layout of a damaged file, if it was a store.
pub(super) fn find_layout(path: &Path) -> Result<Option<SchemaLayout>> {
    let mut pages = Vec::new();
    let file = File::open(path).at("open", path)?;
    file.take((FIRST_PAGES * PAGE_BYTES) as u64).read_to_end(&mut pages).at("read", path)?;
    let mut best: Option<(SchemaLayout, [usize; 2])> = None;
    // Versions that added columns only have the same layout: of these the newest one, because rows without a column have its default.
    for version in 1..=VERSION {
        let layout = SchemaLayout::of_version(version)?;
        let [found, all] = layout.matches(&pages);
        if best.as_ref().is_none_or(|(_, [most, of])| found * of >= most * all) {
            best = Some((layout, [found, all]));
        }
    }
    // Some of these pages may be damaged too. Of another file by chance one in sixty is of the right kind.
    Ok(best.filter(|(_, [found, all])| 2 * found >= *all).map(|(layout, _)| layout))
}

/// A copy of a damaged store with a new first page, under a temporary name beside `beside`.
pub(super) fn repaired_copy(
    path: &Path,
    layout: &SchemaLayout,
    beside: &Path,
    stop: &AtomicBool,
) -> Result<Temporary> {
    let log_of = |path: &Path| sibling(path, "-wal");
    let (copy, mut file) = Temporary::create(beside, "copy")?;
    let bytes = copy_file(path, copy.path(), &mut file, stop)?;
    let log = log_of(path);
    let has_log = std::fs::metadata(&log).is_ok_and(|log| log.len() > 0);
    if has_log {
        let to = log_of(copy.path());
        let mut file = cpumon_files::create_new(&to).at("create", &to)?;
        copy_file(&log, &to, &mut file, stop)?;
    }
    let pages = u32::try_from(bytes.div_ceil(PAGE_BYTES as u64)).unwrap_or(u32::MAX);
    let page = layout.first_page(pages, has_log, beside)?;
    file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&page)).at("write", copy.path())?;
    // A page that was cut off reads as zeros.
    file.set_len(u64::from(pages) * PAGE_BYTES as u64).at("write", copy.path())?;
    Ok(copy)
}

/// Copies a file to the new file at `to`, and gives its length.
fn copy_file(from: &Path, to: &Path, target: &mut File, stop: &AtomicBool) -> Result<u64> {
    let mut source = File::open(from).at("open", from)?;
    let (mut buffer, mut copied) = (vec![0; COPY_BYTES], 0);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(stopped(from));
        }
        let read = source.read(&mut buffer).at("read", from)?;
        if read == 0 {
            return Ok(copied);
        }
        target.write_all(&buffer[..read]).at("write", to)?;
        copied += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_each_version_fits_into_a_page() {
        let dir = tempfile::tempdir().unwrap();
        for version in 1..=VERSION {
            let layout = SchemaLayout::of_version(version).unwrap();
            let page = layout.first_page(99, false, &dir.path().join("s.db")).unwrap();
            // 13: the list is this page alone.
            assert_eq!((page.len(), page[100]), (PAGE_BYTES, 13), "version {version}");
            let pages: Vec<u32> = layout.listed.iter().map(|one| one.first_page).collect();
            let places: Vec<u32> = (3..).take(pages.len()).collect();
            let mut sorted = pages.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, places, "version {version}: one behind the other");
        }
    }
}
