//! Retention: deletes the oldest data by age and size, counts what went, and gives free pages back to the file system. It
//! works in small steps, one transaction each, so that storing never waits long for it.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, Result as Sql, Row};

use super::age::{AgeTimes, ns_of};
use super::delete::{
    CHUNK_BYTES, INTERVAL_BYTES, IS_UNAUTHENTICATED, SampleOwner, Wipe, delete_host, delete_older,
    delete_oldest_of, delete_oldest_sums, delete_sums, empty_host,
};
use super::dims::Dims;
use super::naming::Gone;
use super::session::{StoreOptions, Transaction};
use super::sweep::{Purge, Sweep, SweepLimits, SweepStep, prune_infos};
use crate::rows::{HostRow, IdRange, all_rows, execute, find_row, signed, value};
use crate::sums::Resolution;

/// Free pages (8 KB) that stay in the file for the next intervals; the rest goes back to the file system.
const FREE_PAGES: i64 = 256;
/// Pages given back in one transaction.
const PAGES_AT_ONCE: i64 = 1024;

/// Limits of a store by age and size, and how far they were applied.
#[derive(Debug)]
pub(super) struct Retention {
    max_age: Option<Duration>,
    minute_max_age: Option<Duration>,
    hour_max_age: Option<Duration>,
    max_bytes: Option<i64>,
    zstd_level: i32,
    sweep: Sweep,
    usage: Usage,
    wipe: Option<Wipe>,
    /// Deletes the names of a host that was forgotten.
    purge: Purge,
}

impl Retention {
    pub(super) fn new(options: &StoreOptions) -> Self {
        Self {
            max_age: options.max_age,
            minute_max_age: options.minute_max_age,
            hour_max_age: options.hour_max_age,
            max_bytes: options.max_bytes.map(signed),
            zstd_level: options.zstd_level,
            sweep: Sweep::default(),
            usage: Usage::default(),
            wipe: None,
            purge: Purge::default(),
        }
    }

    /// One step: a host that is to be removed, samples that are too old, names of a wipe, then data above the size limit, then free pages,
    /// then the sweep. `oldest_fresh_ns`: receipt of the oldest interval that waits for compaction.
    pub(super) fn step(
        &mut self,
        transaction: &Transaction<'_>,
        dims: &Dims,
        times: AgeTimes,
        oldest_fresh_ns: &dyn Fn() -> Option<i64>,
    ) -> Sql<SweepStep> {
        if let Some(gone) = self.forget_some(transaction, dims)? {
            return Ok(gone.into());
        }
        let limit = self.max_age.map(|age| times.age_ns.saturating_sub(ns_of(age)));
        if let Some(limit) = limit
            && delete_older(transaction, limit)?
        {
            return Ok(Gone::default().into());
        }
        if let Some(wipe) = self.wipe {
            if wipe.step(transaction)? {
                self.wipe = None;
                // So that everything is counted again.
                self.usage = Usage::default();
            }
            return Ok(Gone::default().into());
        }
        // Free pages do not count: data is deleted first and the file shrinks afterwards, or each step would delete more.
        let pages = Pages::read(transaction)?;
        if let Some(excess) = self.max_bytes.map(|max| pages.used_bytes - max).filter(|excess| *excess > 0) {
            self.usage.refresh(transaction, times.running_ns)?;
            if let Some(gone) = self.free_space(transaction, dims, excess, times.running_ns)? {
                return Ok(gone.into());
            }
        }
        // Returned in small steps, because each moves pages within the file, and the writer waits meanwhile.
        if pages.free > FREE_PAGES {
            shrink(transaction, (pages.free - FREE_PAGES).min(PAGES_AT_ONCE))?;
            return Ok(Gone::default().into());
        }
        if !self.sweep.is_due(times.running_ns) {
            return Ok(SweepStep { is_done: true, gone: Gone::default() });
        }
        if self.sweep.is_resting() {
            self.drop_old_sums(transaction, times.age_ns)?;
        }
        let limits = SweepLimits { times, samples_ns: limit, zstd_level: self.zstd_level, oldest_fresh_ns };
        self.sweep.step(transaction, &dims.last_ids(), &limits)
    }

    /// Removes some of a host whose removal was requested: its data, the host, its names. `None`: there is no request.
    pub(super) fn forget_some(&mut self, transaction: &Transaction<'_>, dims: &Dims) -> Sql<Option<Gone>> {
        let text = "SELECT host_id, EXISTS (SELECT 1 FROM host WHERE id = host_id) FROM forget ORDER BY host_id LIMIT 1";
        let requested =
            find_row(transaction, text, [], |row| Ok((row.get::<_, HostRow>(0)?, row.get::<_, bool>(1)?)))?;
        let Some((host, is_there)) = requested else { return Ok(None) };
        if is_there {
            self.purge = Purge::default();
            return remove_host(transaction, host).map(Some);
        }
        let next = self.purge.step(transaction, &dims.last_ids(), self.zstd_level)?;
        self.purge = next.unwrap_or_default();
        if next.is_some() {
            return Ok(Some(Gone::default()));
        }
        prune_infos(transaction)?;
        execute(transaction, "DELETE FROM forget WHERE host_id = ?1", [host])?;
        Ok(Some(Gone { infos: true, ..Gone::default() }))
    }

    /// Deletes the oldest data of the host that has too much. `excess`: bytes above the size limit. `None`: nothing is left to delete.
    fn free_space(
        &mut self,
        transaction: &Transaction<'_>,
        dims: &Dims,
        excess: i64,
        running_ns: i64,
    ) -> Sql<Option<Gone>> {
        if self.usage.who_pays() == IdRange::Unauthenticated
            && let Some(gone) = self.drop_unauthenticated(transaction, dims, excess, running_ns)?
        {
            return Ok(Some(gone));
        }
        let is_less =
            self.drop_samples(transaction, IdRange::Trusted, excess)? || delete_oldest_sums(transaction)?;
        Ok(is_less.then(Gone::default))
    }

    /// Deletes samples of unauthenticated hosts; without any, those hosts; without those, their remaining names.
    fn drop_unauthenticated(
        &mut self,
        transaction: &Transaction<'_>,
        dims: &Dims,
        excess: i64,
        running_ns: i64,
    ) -> Sql<Option<Gone>> {
        if self.drop_samples(transaction, IdRange::Unauthenticated, excess)? {
            return Ok(Some(Gone::default()));
        }
        // Samples that came in since they were counted would lose their names below.
        self.usage.count_samples(transaction, running_ns)?;
        if self.usage.largest(IdRange::Unauthenticated).is_some() {
            return Ok(Some(Gone::default()));
        }
        if let Some(host) = empty_host(transaction)? {
            return remove_host(transaction, host).map(Some);
        }
        if !self.usage.has_unauthenticated_names() {
            return Ok(None);
        }
        let range = IdRange::Unauthenticated;
        log::warn!("names of unauthenticated hosts exceed their share of the store: deleting all of them");
        self.wipe = Some(Wipe { names: dims.last_ids()[range], info: dims.last_info(range) });
        Ok(Some(Gone { unauthenticated_names: true, ..Gone::default() }))
    }

    /// Deletes the oldest samples of the host of a range that has most. Whether there were any.
    fn drop_samples(&mut self, transaction: &Transaction<'_>, range: IdRange, excess: i64) -> Sql<bool> {
        while let Some(owner) = self.usage.largest(range) {
            let bytes = delete_oldest_of(transaction, owner, excess)?;
            self.usage.freed(owner, bytes);
            if bytes > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn drop_old_sums(&self, connection: &Connection, now_ns: i64) -> Sql<()> {
        for (resolution, age) in
            [(Resolution::Minute, self.minute_max_age), (Resolution::Hour, self.hour_max_age)]
        {
            if let Some(age) = age {
                let limit_ns = now_ns.saturating_sub(ns_of(age));
                delete_sums(connection, resolution, limit_ns.div_euclid(resolution.length_ns()), limit_ns)?;
            }
        }
        Ok(())
    }
}

/// Deletes some data of a host, or the host.
fn remove_host(connection: &Connection, host: HostRow) -> Sql<Gone> {
    let hosts = if delete_host(connection, host)? { vec![host] } else { Vec::new() };
    Ok(Gone { hosts, ..Gone::default() })
}

struct Pages {
    used_bytes: i64,
    free: i64,
}

impl Pages {
    fn read(connection: &Connection) -> Sql<Self> {
        let number = |text: &str| value::<i64>(connection, text, []);
        let (count, free) = (number("PRAGMA page_count")?, number("PRAGMA freelist_count")?);
        Ok(Self { used_bytes: (count - free).saturating_mul(number("PRAGMA page_size")?), free })
    }
}

/// Cuts free pages off the file.
fn shrink(connection: &Connection, pages: i64) -> Sql<()> {
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = vacuum.query([])?;
    // Each step frees one page; a statement that is dropped early frees no more.
    while rows.next()?.is_some() {}
    Ok(())
}

// The space that hosts take in a store, and the choice of the host whose samples go next. This machine, enrolled hosts and the group have
// at least half of the store before any of their data goes; within each half the host that has most goes first.

/// Names: each table, its id, and about how many bytes a row takes.
const NAMES: [(&str, &str, &str); 5] = [
    ("thread", "id", "48"),
    ("process", "id", "56"),
    ("thread_block", "first_id", "length(names)"),
    ("process_block", "first_id", "length(names)"),
    (
        "process_info",
        "id",
        "40 + octet_length(name) + octet_length(interpreter) + octet_length(comm) + octet_length(cmdline)
         + octet_length(cgroup) + octet_length(container) + octet_length(user) + octet_length(product)",
    ),
];
/// Everything of a host but names and samples: each table, and about how many bytes a row takes. Paths of control groups are as long as
/// their sender likes; a boot comes with a description of the host, a gap and their indexes.
const OTHERS: [(&str, &str); 7] = [
    ("process_minute", "64"),
    ("process_hour", "64"),
    ("thread_hour", "80"),
    ("host_minute", "130 + coalesce(length(cgroups), 0) + coalesce(length(waits_for), 0)"),
    ("host_hour", "130 + coalesce(length(cgroups), 0) + coalesce(length(waits_for), 0)"),
    ("boot", "500"),
    ("process_list", "60 + length(processes) + coalesce(length(resting), 0)"),
];
/// Time until samples are counted again, for each chunk or fresh interval that was counted: data comes in meanwhile, and a store with
/// 100,000 is counted every second.
const SAMPLES_NS_A_ROW: i64 = 10_000;
/// Time until everything else is counted again, for each counted row: a million rows are counted every 36 s.
const OTHERS_NS_A_ROW: i64 = 36_000;

/// Bytes of samples and names at the last count.
#[derive(Debug, Default)]
struct Usage {
    samples: BTreeMap<SampleOwner, i64>,
    samples_counted_ns: i64,
    samples_next_ns: i64,
    /// Of all unauthenticated hosts: everything but samples.
    others: RowBytes,
    has_unauthenticated_names: bool,
    others_next_ns: i64,
}

/// Rows and about how many bytes they take.
#[derive(Copy, Clone, Debug, Default)]
struct RowBytes {
    rows: i64,
    bytes: i64,
}

impl Usage {
    /// Counts all that is in the file, if that was not done lately.
    fn refresh(&mut self, connection: &Connection, now_ns: i64) -> Sql<()> {
        if now_ns >= self.samples_next_ns {
            self.count_samples(connection, now_ns)?;
        }
        if now_ns >= self.others_next_ns {
            self.others = RowBytes::default();
            let above = IdRange::Unauthenticated.after();
            for (table, id, bytes) in NAMES {
                self.others.count(connection, bytes, &format!("{table} WHERE {id} > {above}"))?;
            }
            self.has_unauthenticated_names = self.others.rows > 0;
            for (table, bytes) in OTHERS {
                let of_hosts = format!(
                    "host CROSS JOIN {table} ON {table}.host_id = host.id WHERE host.trust = 'unauthenticated'"
                );
                self.others.count(connection, bytes, &of_hosts)?;
            }
            self.others_next_ns = now_ns.saturating_add(self.others.rows.saturating_mul(OTHERS_NS_A_ROW));
        }
        Ok(())
    }

    /// Counts samples, unless that was done at the same time: between two steps no data comes in.
    fn count_samples(&mut self, connection: &Connection, now_ns: i64) -> Sql<()> {
        if now_ns == self.samples_counted_ns {
            return Ok(());
        }
        let read = |row: &Row<'_>| {
            let range = if row.get(1)? { IdRange::Unauthenticated } else { IdRange::Trusted };
            Ok((SampleOwner { range, host: row.get(0)? }, RowBytes { rows: row.get(2)?, bytes: row.get(3)? }))
        };
        let counted = all_rows(connection, &samples_query(), [], read)?;
        let rows: i64 = counted.iter().map(|(_, counted)| counted.rows).sum();
        self.samples = counted.into_iter().map(|(owner, counted)| (owner, counted.bytes)).collect();
        self.samples_counted_ns = now_ns;
        self.samples_next_ns = now_ns.saturating_add(rows.saturating_mul(SAMPLES_NS_A_ROW));
        Ok(())
    }

    fn samples_of(&self, range: IdRange) -> i64 {
        self.samples.iter().filter(|(owner, _)| owner.range == range).map(|(_, bytes)| bytes).sum()
    }

    /// Whose data goes next: that of unauthenticated hosts as long as it is more than the samples of all others.
    fn who_pays(&self) -> IdRange {
        let unauthenticated = self.samples_of(IdRange::Unauthenticated) + self.others.bytes;
        let is_more = unauthenticated > self.samples_of(IdRange::Trusted);
        if is_more { IdRange::Unauthenticated } else { IdRange::Trusted }
    }

    fn has_unauthenticated_names(&self) -> bool {
        self.has_unauthenticated_names
    }

    /// The owner with most samples of a range.
    fn largest(&self, range: IdRange) -> Option<SampleOwner> {
        let owners = self.samples.iter().filter(|(owner, _)| owner.range == range);
        owners.max_by_key(|(_, bytes)| **bytes).map(|(owner, _)| *owner)
    }

    /// Bytes of samples were deleted; 0: there are none to delete.
    fn freed(&mut self, owner: SampleOwner, bytes: i64) {
        let left = self.samples.get(&owner).map_or(0, |had| had - bytes);
        if bytes > 0 && left > 0 {
            self.samples.insert(owner, left);
        } else {
            self.samples.remove(&owner);
        }
    }
}

impl RowBytes {
    /// Adds the rows of a query behind `FROM`.
    fn count(&mut self, connection: &Connection, bytes: &str, from: &str) -> Sql<()> {
        let text = format!("SELECT count(*), coalesce(sum({bytes}), 0) FROM {from}");
        connection.prepare_cached(&text)?.query_row([], |row| {
            self.rows += row.get::<_, i64>(0)?;
            self.bytes += row.get::<_, i64>(1)?;
            Ok(())
        })
    }
}

fn samples_query() -> String {
    format!(
        "SELECT host_id, unauthenticated, count(*), sum(bytes) FROM (
             SELECT host_id, {IS_UNAUTHENTICATED} AS unauthenticated, bytes + {CHUNK_BYTES} AS bytes
             FROM chunk INDEXED BY chunk_host
             UNION ALL
             SELECT host_id, {IS_UNAUTHENTICATED}, length(cpus) + length(samples) + length(sched) + {INTERVAL_BYTES}
             FROM interval)
         GROUP BY 1, 2"
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::schema::prepare_writer;

    #[test]
    fn chunks_are_counted_by_the_index_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        prepare_writer(&mut connection, Path::new(":memory:"), false).unwrap();
        let root: i64 = connection
            .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'chunk'", [], |row| row.get(0))
            .unwrap();
        let mut explain = connection.prepare(&format!("EXPLAIN {}", samples_query())).unwrap();
        let steps = explain
            .query_map([], |row| Ok((row.get::<_, String>("opcode")?, [row.get("p1")?, row.get("p2")?])))
            .unwrap();
        let steps: Vec<(String, [i64; 2])> = steps.map(Result::unwrap).collect();
        let opened = steps.iter().find(|(step, [_, page])| step == "OpenRead" && *page == root);
        let table = opened.map(|(_, [cursor, _])| *cursor).unwrap();
        let reads = |cursor: i64| {
            steps.iter().filter(|(step, [from, _])| step == "Column" && *from == cursor).count()
        };
        // A store of 20 GB has 200,000 chunks, and a row of one is 1 KB before its first overflow page. SQLite opens the table, but
        // takes all columns, the computed one too, from the index, whose cursor comes later.
        assert_eq!(reads(table), 0, "{steps:?}");
        assert!((table + 1..table + 9).any(|cursor| reads(cursor) > 2), "{steps:?}");
    }
}
