//! Reads a store whose header or list of tables is damaged. Both are known: a store has the tables of its version, and with
//! `auto_vacuum` SQLite puts the first page of each table and index behind that of the one before, from page 3 on. So a copy of the
//! file gets a new first page, with a header and a list of tables that fits into it. Whether the pages are where they should be is
//! checked first, because another file must not be taken for a store.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, Result as Sql, params};

use super::files::{Temporary, stopped};
use crate::error::{At, Result, sibling};
use crate::schema::{self, VERSION};

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

    /// A first page for a file of so many pages.
    fn first_page(&self, pages: u32, has_log: bool, beside: &Path) -> Result<Vec<u8>> {
        let made = Temporary::create(beside, "list")?;
        let connection = Connection::open(made.path()).at("create", made.path())?;
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
pub(super) fn find(path: &Path) -> Result<Option<SchemaLayout>> {
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
    let copy = Temporary::create(beside, "copy")?;
    let bytes = copy_file(path, copy.path(), stop)?;
    let log = log_of(path);
    let has_log = std::fs::metadata(&log).is_ok_and(|log| log.len() > 0);
    if has_log {
        copy_file(&log, &log_of(copy.path()), stop)?;
    }
    let pages = u32::try_from(bytes.div_ceil(PAGE_BYTES as u64)).unwrap_or(u32::MAX);
    let page = layout.first_page(pages, has_log, beside)?;
    let mut file = File::options().write(true).open(copy.path()).at("open", copy.path())?;
    file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&page)).at("write", copy.path())?;
    // A page that was cut off reads as zeros.
    file.set_len(u64::from(pages) * PAGE_BYTES as u64).at("write", copy.path())?;
    Ok(copy)
}

/// Copies a file, and gives its length.
fn copy_file(from: &Path, to: &Path, stop: &AtomicBool) -> Result<u64> {
    let mut source = File::open(from).at("open", from)?;
    let mut target = cpumon_files::open_to_write(to).at("write", to)?;
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
