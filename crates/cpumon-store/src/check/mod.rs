//! Checks a store, and copies what can be read of a damaged one into a new one.
//!
//! SQLite's own check finds damaged pages. The walk reads all rows of the store's tables one by one, and decodes their packed columns. An
//! unreadable page costs the rows in it: the walk continues behind it.

mod backup;
mod files;
mod source;
mod walk;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cpumon_model::HostId;
use rusqlite::Result as Sql;
use rusqlite::types::Value;

pub use self::backup::back_up;
use self::files::Out;
use self::source::Source;
use self::walk::{CheckedTable, Content, RowFinding, tables_of_version, walk};
use crate::error::{At, Result, StoreError};
use crate::reader::{Damage, DamageReport};
use crate::rows::HostRow;
use crate::schema;

/// Checks the store at `path`; a writer may run at the same time. What can be read is copied to the new store `salvage`, if that
/// is given; there each hole is a gap.
///
/// # Errors
/// The file is no store at all, or its header or list of tables cannot be read and nothing is to be salvaged; the new one exists or
/// cannot be written, or `stop` was set.
pub fn check(path: &Path, salvage: Option<&Path>, stop: &Arc<AtomicBool>) -> Result<CheckReport> {
    let done = check_all(path, salvage, stop);
    done.map_err(|error| if stop.load(Ordering::Relaxed) { files::stopped(path) } else { error })
}

fn check_all(path: &Path, salvage: Option<&Path>, stop: &Arc<AtomicBool>) -> Result<CheckReport> {
    let source = match files::open(path, stop, false) {
        Err(StoreError::Corrupt { detail, .. }) => return check_rest(path, salvage, stop, detail),
        opened => opened?,
    };
    let version = files::version(&source, path)?;
    let out = salvage.map(|to| Out::create(to, version, stop)).transpose()?;
    let mut check = Check::new(&source, path, stop, out);
    check.pages(version)?;
    check.all(version)
}

/// [`check`] of a store whose header or list of tables cannot be read (`detail`): a copy gets new ones.
fn check_rest(
    path: &Path,
    salvage: Option<&Path>,
    stop: &Arc<AtomicBool>,
    detail: String,
) -> Result<CheckReport> {
    let corrupt = |detail| Err(StoreError::Corrupt { path: path.into(), detail });
    let Some(layout) = files::find_layout(path)? else { return corrupt(detail) };
    let Some(to) = salvage else {
        return corrupt(format!(
            "{detail}; the header or the list of tables cannot be read, but the rest can be salvaged"
        ));
    };
    let out = Out::create(to, layout.version, stop)?;
    let copy = files::repaired_copy(path, &layout, to, stop)?;
    let source = files::open(copy.path(), stop, true)?;
    let mut check = Check::new(&source, path, stop, Some(out));
    // SQLite's own check would list every page that is in no list of free pages.
    check.report.pages.push(format!(
        "the header or the list of tables cannot be read ({detail}): those of schema version {} were used",
        layout.version
    ));
    check.all(layout.version)
}

struct Check<'a> {
    source: &'a Source,
    path: &'a Path,
    stop: &'a AtomicBool,
    out: Option<Out>,
    report: CheckReport,
    hosts: BTreeMap<HostRow, HostId>,
    content: Content,
    /// Rows of the current table with a trust that they cannot have.
    wrong_trust: u64,
}

impl<'a> Check<'a> {
    fn new(source: &'a Source, path: &'a Path, stop: &'a AtomicBool, out: Option<Out>) -> Self {
        // One snapshot: otherwise compaction would move rows while they are read. A damaged first page refuses it.
        let _ = source.execute_batch("BEGIN");
        Self {
            source,
            path,
            stop,
            out,
            report: CheckReport::default(),
            hosts: BTreeMap::new(),
            content: Content::default(),
            wrong_trust: 0,
        }
    }

    fn all(mut self, version: i32) -> Result<CheckReport> {
        for table in tables_of_version(version)? {
            self.table(&table)?;
        }
        self.finish()
    }

    /// What SQLite finds. Its check of a file computes generated columns and indexes of all tables: those of others must not run, so beside them
    /// each table of a store is checked alone, and the list of free pages with that of tables.
    fn pages(&mut self, version: i32) -> Result<()> {
        /// SQLite reports at most this many faults: more would add nothing.
        const MAX_LINES: usize = 20;
        let mut checks = vec![MAX_LINES.to_string()];
        if schema::has_others(self.source, self.path, version)? {
            let own = tables_of_version(version)?.into_iter().map(|table| format!("\"{}\"", table.name));
            checks = own.chain(["sqlite_schema".to_owned()]).collect();
        }
        for of in checks {
            let lines =
                self.source.prepare(&format!("PRAGMA integrity_check({of})")).and_then(|mut pragma| {
                    let rows = pragma.query_map([], |row| row.get::<_, String>(0))?;
                    rows.collect::<Sql<Vec<String>>>()
                });
            match lines {
                Ok(lines) => self.report.pages.extend(lines.into_iter().filter(|line| line != "ok")),
                Err(error) => self.report.pages.push(self.damage(error)?),
            }
        }
        self.report.pages.truncate(MAX_LINES);
        Ok(())
    }

    fn table(&mut self, table: &CheckedTable) -> Result<()> {
        // Before the walk: what the index has and the table does not is lost.
        let mut missing = self.listed(table);
        let (mut lost, mut failure) = (LostRows::new(&table.name), None);
        let source = self.source;
        let mut visit = |found: RowFinding<'_>| {
            match found {
                RowFinding::LostRow => lost.rows += 1,
                RowFinding::LostRange => lost.ranges += 1,
                // SQLite asks only now and then.
                RowFinding::Row(..) if self.stop.load(Ordering::Relaxed) => {
                    failure = Some(files::stopped(self.path));
                }
                RowFinding::Row(key, row) => {
                    missing.remove(key.last().unwrap_or(&0));
                    match self.take(table, row) {
                        Ok(is_taken) => lost.rows += u64::from(!is_taken),
                        Err(error) => failure = Some(error),
                    }
                }
            }
            failure.is_none()
        };
        let walked = walk(source, table, &mut visit);
        if let Some(error) = failure {
            return Err(error);
        }
        if let Err(error) = walked {
            // The table itself is unknown to a damaged schema, or its first page is gone.
            lost.detail = self.damage(error)?;
            lost.ranges += 1;
        }
        if !missing.is_empty() {
            // They are named one by one.
            lost.rows = lost.rows.saturating_sub(missing.len() as u64);
            lost.ranges = 0;
        }
        for hole in missing.into_values() {
            self.hole(hole)?;
        }
        if table.name == "host" || table.name == "boot" {
            self.copy_keys(table)?;
        }
        let wrong_trust = std::mem::take(&mut self.wrong_trust);
        if wrong_trust > 0 {
            let what = "rows have a trust that their content does not have; a copy has the right one";
            self.report.pages.push(format!("table {}: {wrong_trust} {what}", table.name));
        }
        self.report.add_lost(lost);
        Ok(())
    }

    /// Takes one row. `false`: the row is lost, because its packed columns cannot be decoded, its request to forget names an unknown host,
    /// or the new store refuses it. A damaged chunk or interval becomes a hole instead; of a sum the packed columns are lost alone.
    fn take(&mut self, table: &CheckedTable, row: &[Value]) -> Result<bool> {
        if table.name == "host"
            && let (Some(id), Some(key)) = (table.integer(row, "id"), table.blob(row, "key"))
        {
            self.hosts.insert(HostRow(id), HostId(key.try_into().unwrap_or_default()));
        }
        self.report.count(&table.name);
        // A request with another number would remove another host.
        let has_host = |row: i64| self.hosts.contains_key(&HostRow(row));
        if table.name == "forget" && !table.integer(row, "host_id").is_some_and(has_host) {
            return Ok(false);
        }
        if let Err(malformed) = self.content.check(table, row) {
            let intervals = match table.name.as_str() {
                "chunk" => table.integer(row, "intervals").and_then(|count| u64::try_from(count).ok()),
                _ => Some(1),
            };
            if let Some(hole) = self.hole_of(table, row) {
                self.hole(Damage { intervals, detail: malformed.to_string(), ..hole })?;
                return Ok(true);
            }
            return Ok(false);
        }
        if let Some(rest) = Content::without_damage(table, row) {
            if let Some(out) = &mut self.out {
                out.insert(table, &rest)?;
            }
            return Ok(false);
        }
        let corrected = self.content.corrected(table, row);
        self.wrong_trust += u64::from(corrected.is_some());
        let row = corrected.as_deref().unwrap_or(row);
        self.out.as_mut().map_or(Ok(true), |out| out.insert(table, row))
    }

    /// Where the hole is that a row leaves; `None` for a table that has no intervals.
    fn hole_of(&self, table: &CheckedTable, row: &[Value]) -> Option<Damage> {
        let number = |name: &str| table.integer(row, name);
        let (first, last) = match table.name.as_str() {
            "chunk" => (number("first_end_wall_ns")?, number("last_end_wall_ns")?),
            "interval" => (number("end_wall_ns")?, number("end_wall_ns")?),
            _ => return None,
        };
        Some(self.span(HostRow(number("host_id")?), first, last))
    }

    fn span(&self, host: HostRow, first_end_wall_ns: i64, last_end_wall_ns: i64) -> Damage {
        let host = self.hosts.get(&host).copied().unwrap_or_default();
        Damage { host, first_end_wall_ns, last_end_wall_ns, ..Damage::default() }
    }

    /// The rows of chunks and of fresh intervals that the index by time has. Fewer where the index is damaged.
    fn listed(&self, table: &CheckedTable) -> BTreeMap<i64, Damage> {
        let text = match table.name.as_str() {
            "chunk" => {
                "SELECT id, host_id, first_end_wall_ns, last_end_wall_ns FROM chunk INDEXED BY chunk_time"
            }
            "interval" => {
                "SELECT id, host_id, end_wall_ns, end_wall_ns FROM interval INDEXED BY interval_time"
            }
            _ => return BTreeMap::new(),
        };
        let intervals = (table.name == "interval").then_some(1);
        let mut listed = BTreeMap::new();
        let read = self.source.prepare(text).and_then(|mut select| {
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let hole = self.span(row.get(1)?, row.get(2)?, row.get(3)?);
                let detail = "its page in the file is damaged".to_owned();
                // A damaged index may come back to the same rows without an end.
                if listed.insert(row.get(0)?, Damage { intervals, detail, ..hole }).is_some() {
                    break;
                }
            }
            Ok(())
        });
        if let Err(error) = read {
            log::debug!("index of {}: {error}", table.name);
        }
        listed
    }

    /// Copies hosts and boots that only their index has: without them, nothing finds the intervals of a host.
    fn copy_keys(&mut self, table: &CheckedTable) -> Result<()> {
        let text = if table.name == "host" {
            "SELECT id, key, 'host ' || id, 'unauthenticated' FROM host INDEXED BY sqlite_autoindex_host_1"
        } else {
            "SELECT id, host_id, key FROM boot INDEXED BY sqlite_autoindex_boot_1"
        };
        let mut rows: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
        let read = self.source.prepare(text).and_then(|mut select| {
            let width = select.column_count();
            let mut found = select.query([])?;
            while let Some(row) = found.next()? {
                let cells = (0..width).map(|at| row.get(at)).collect::<Sql<_>>()?;
                // As in `listed`.
                if rows.insert(row.get(0)?, cells).is_some() {
                    break;
                }
            }
            Ok(())
        });
        if let Err(error) = read {
            log::debug!("index of {}: {error}", table.name);
        }
        for (id, row) in rows {
            if let (true, Some(Value::Blob(key))) = (table.name == "host", row.get(1)) {
                let key = key.as_slice().try_into().unwrap_or_default();
                self.hosts.entry(HostRow(id)).or_insert(HostId(key));
            }
            if let Some(out) = &mut self.out {
                out.insert_missing(table, &row)?;
            }
        }
        Ok(())
    }

    /// Notes a hole; in the new store it is a gap.
    fn hole(&mut self, hole: Damage) -> Result<()> {
        if let Some(out) = &mut self.out {
            let host = self.hosts.iter().find(|(_, id)| **id == hole.host).map(|(row, _)| *row);
            out.add_gap(host, &hole)?;
        }
        self.report.damage.add(hole);
        Ok(())
    }

    fn finish(mut self) -> Result<CheckReport> {
        if let Some(mut out) = self.out.take() {
            for (table, added) in ["host", "boot"].into_iter().zip(out.add_missing_owners()?) {
                let detail =
                    "samples of each are in the new store, under an id made of its number".to_owned();
                self.report.add_lost(LostRows { rows: added as u64, detail, ..LostRows::new(table) });
            }
            out.finish()?;
        }
        let holes = &mut self.report.damage.holes;
        holes.sort_by_key(|hole| (hole.host, hole.first_end_wall_ns, hole.last_end_wall_ns));
        Ok(self.report)
    }

    /// Text of an error that damage causes. A stop by the user and errors of the machine (I/O, memory, a busy database) are passed on.
    fn damage(&self, error: rusqlite::Error) -> Result<String> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(files::stopped(self.path));
        }
        match error.sqlite_error_code() {
            Some(
                rusqlite::ErrorCode::SystemIoFailure
                | rusqlite::ErrorCode::OutOfMemory
                | rusqlite::ErrorCode::OperationInterrupted
                | rusqlite::ErrorCode::DatabaseBusy,
            ) => Err(error).at("check", self.path),
            _ => Ok(error.to_string()),
        }
    }
}

/// Rows of a table that cannot be read, or whose content cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostRows {
    pub table: String,
    /// Rows that are there but cannot be read.
    pub rows: u64,
    /// Places where an unknown number of rows is missing.
    pub ranges: u64,
    /// Why they are lost; empty where [`CheckReport::pages`] has the reason.
    pub detail: String,
}

impl LostRows {
    fn new(table: &str) -> Self {
        Self { table: table.to_owned(), ..Self::default() }
    }
}

/// Result of a check: the rows of a store, its damage and its losses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Rows that were read, by table.
    pub rows: BTreeMap<String, u64>,
    /// Faults of the file: at most 20 lines from SQLite or one about the list of tables, then one for each table with wrong trusts.
    pub pages: Vec<String>,
    pub damage: DamageReport,
    /// Lost rows of other tables: names, sums, lists.
    pub lost: Vec<LostRows>,
}

impl CheckReport {
    pub fn is_sound(&self) -> bool {
        self.pages.is_empty() && self.damage.is_empty() && self.lost.is_empty()
    }

    fn count(&mut self, table: &str) {
        if let Some(count) = self.rows.get_mut(table) {
            *count += 1;
        } else {
            self.rows.insert(table.to_owned(), 1);
        }
    }

    fn add_lost(&mut self, lost: LostRows) {
        if lost.rows + lost.ranges > 0 {
            self.lost.push(lost);
        }
    }
}
