//! What hosts take of a store, and which of them has the next samples to go. This machine, enrolled hosts and the group have at least half of
//! the store before anything of theirs goes; within each half the host that has most goes first.

use std::collections::BTreeMap;

use rusqlite::{Connection, Result as Sql, Row};

use crate::rows::{HostRow, IdRange, all_rows};

/// About how many bytes a row of `interval` takes, with its indexes, beside its blobs.
pub(super) const INTERVAL_BYTES: i64 = 400;
/// The same of `chunk`.
pub(super) const CHUNK_BYTES: i64 = 250;
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
    ("host_minute", "130 + coalesce(length(cgroups), 0)"),
    ("host_hour", "130 + coalesce(length(cgroups), 0)"),
    ("boot", "500"),
    ("process_list", "60 + length(processes) + coalesce(length(resting), 0)"),
];
/// Time until samples are counted again, for each chunk or fresh interval that was counted: data comes in meanwhile, and 100,000 of
/// them are counted every second.
const SAMPLES_NS_A_ROW: i64 = 10_000;
/// The same for everything else: a million rows are counted every 36 s.
const OTHERS_NS_A_ROW: i64 = 36_000;

/// Samples of one host that came in with trust, or without.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SampleOwner {
    pub(super) range: IdRange,
    pub(super) host: HostRow,
}

/// Bytes of samples and names at the last count.
#[derive(Debug, Default)]
pub(super) struct Usage {
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

/// SQL: 1 where a row of `chunk` or `interval` is unauthenticated. Rows before version 10 are as their host is now.
pub(super) const IS_UNAUTHENTICATED: &str = "iif(trust = 0,
    coalesce((SELECT host.trust = 'unauthenticated' FROM host WHERE host.id = host_id), 1), trust = 1)";

impl Usage {
    /// Counts all that is in the file, if that was not done lately.
    pub(super) fn refresh(&mut self, connection: &Connection, now_ns: i64) -> Sql<()> {
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
    pub(super) fn count_samples(&mut self, connection: &Connection, now_ns: i64) -> Sql<()> {
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
    pub(super) fn who_pays(&self) -> IdRange {
        let unauthenticated = self.samples_of(IdRange::Unauthenticated) + self.others.bytes;
        let is_more = unauthenticated > self.samples_of(IdRange::Trusted);
        if is_more { IdRange::Unauthenticated } else { IdRange::Trusted }
    }

    pub(super) fn has_unauthenticated_names(&self) -> bool {
        self.has_unauthenticated_names
    }

    /// The owner with most samples of a range.
    pub(super) fn largest(&self, range: IdRange) -> Option<SampleOwner> {
        let owners = self.samples.iter().filter(|(owner, _)| owner.range == range);
        owners.max_by_key(|(_, bytes)| **bytes).map(|(owner, _)| *owner)
    }

    /// Bytes of samples were deleted; 0: there are none to delete.
    pub(super) fn freed(&mut self, owner: SampleOwner, bytes: i64) {
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
