//! Compaction: fresh intervals become chunks. Up to a hundred rows of `interval` of one boot become one row of `chunk` and are
//! added to the sums per minute and hour, all in one transaction. That halves their space, and makes reads fewer and larger. Which boots
//! are due is known in order of time: finding the next one takes no longer with a hundred thousand boots than with ten.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use cpumon_model::Interval;
use rusqlite::{Connection, Result as Sql, Row, params};

use super::age::ns_of;
use super::dims::Dims;
use super::gaps::record_damage;
use super::merge_names::mark_seen;
use super::rollup::{Rollup, SumNames};
use super::session::{StoreOptions, Transaction};
use crate::codec::chunk::{self, Chunk, FreshInterval, MAX_CHUNK_SPAN_NS};
use crate::codec::meta::{END_WALL, RECEIVED, SEQUENCE, TRUST};
use crate::codec::varint::Malformed;
use crate::codec::{MAX_INTERVALS, MAX_ROWS, MAX_SECTION_BYTES, PackedInterval, blob};
use crate::error::unpackable;
use crate::fresh::{self, FreshRow};
use crate::names::{ProcessName, ThreadName};
use crate::rows::{BootKey, BootRow, HostRow, all_rows, execute, find_row, first, next_id, signed, value};
use crate::sums::PER_SECOND;

/// Thread rows in a chunk, unless one interval alone has more: bounds the memory of compaction and of reading.
const MAX_THREAD_ROWS: usize = 200_000;
/// Bytes of host state in a chunk, and of scheduler's events, each in a section. An interval with more becomes a gap.
const MAX_EXTRA_BYTES: usize = MAX_SECTION_BYTES / 2;
/// A boot that was due but had nothing ready is not tried again before.
const RETRY_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct ChunkKeys {
    chunk_id: i64,
    /// End and sequence number of each interval.
    keys: Vec<(i64, i64)>,
}

#[derive(Debug)]
pub(super) struct Compactor {
    /// So that nothing is read until there is something to do.
    pub(super) fresh: FreshBoots,
    rollup: Rollup,
    /// Of the chunk that a duplicate was looked up in last.
    last_keys: ChunkKeys,
    zstd_level: i32,
}

impl Compactor {
    pub(super) fn load(connection: &Connection, options: &StoreOptions) -> Sql<Self> {
        Ok(Self {
            fresh: FreshBoots::load(connection, options)?,
            rollup: Rollup::default(),
            last_keys: ChunkKeys::default(),
            zstd_level: options.zstd_level,
        })
    }

    /// After a rollback: counts the fresh intervals again, and forgets sums and keys that are not in the file.
    pub(super) fn reload(&mut self, connection: &Connection, store: &Path) {
        self.rollup = Rollup::default();
        self.last_keys = ChunkKeys::default();
        // The old counts are about right, and a boot without fresh intervals is skipped.
        if let Err(error) = self.fresh.reload(connection) {
            log::warn!("cannot count fresh intervals of {}: {error}", store.display());
        }
    }

    /// Makes one chunk of a boot's oldest fresh intervals.
    pub(super) fn compact(
        &mut self,
        transaction: &Transaction<'_>,
        dims: &mut Dims,
        key: BootKey,
        due: &Due,
    ) -> Sql<()> {
        let mut rows = load_oldest(transaction, key, self.fresh.full)?;
        // A chunk is of one trust: retention takes chunks by trust.
        let trust = rows.first().map_or(0, |(_, row)| row.meta[TRUST]);
        let of_one_trust = rows.iter().take_while(|(_, row)| row.meta[TRUST] == trust).count();
        let is_cut = of_one_trust < rows.len();
        rows.truncate(of_one_trust);
        // What was received later than now is old: the clock went back since.
        let is_by = |row: &FreshRow, ns: i64| row.meta[RECEIVED] <= ns || row.meta[RECEIVED] > due.now_ns;
        let ready = rows.iter().take_while(|(_, row)| is_by(row, due.full_ns)).count();
        let is_old = is_cut || rows.first().is_some_and(|(_, row)| is_by(row, due.partial_ns));
        // A partial chunk now would leave the rest for another partial one: wait until it is full, or old.
        rows.truncate(if is_old || ready >= self.fresh.full as usize { ready } else { 0 });
        let (ids, intervals) = unpack(transaction, key.host, rows)?;
        if !intervals.is_empty() {
            self.write_chunk(transaction, dims, key, &intervals)?;
        }
        for id in &ids {
            execute(transaction, "DELETE FROM interval WHERE id = ?1", [id])?;
        }
        self.recount(transaction, key, due, ids.len())
    }

    /// Updates the count of a boot after `compacted` of its fresh intervals went.
    fn recount(
        &mut self,
        transaction: &Transaction<'_>,
        key: BootKey,
        due: &Due,
        compacted: usize,
    ) -> Sql<()> {
        let text = "SELECT received_wall_ns FROM interval WHERE host_id = ?1 AND boot_id = ?2
                    ORDER BY end_wall_ns, sequence LIMIT 1";
        let oldest: Option<i64> = find_row(transaction, text, params![key.host, key.boot], first)?;
        let Some(received_ns) = oldest else {
            self.fresh.remove(key);
            return Ok(());
        };
        let oldest_received_ns = if received_ns > due.now_ns { due.full_ns } else { received_ns };
        // The boot was due by its count and its oldest receipt, but not enough of its rows were old enough: some came late. Without
        // a pause it would be found again at once, and the boots behind it would never be.
        let not_before_ns = if compacted == 0 { due.later_ns(RETRY_AFTER) } else { 0 };
        let before = self.fresh.count(key).intervals;
        let intervals = before.saturating_sub(u32::try_from(compacted).unwrap_or(u32::MAX));
        self.fresh.set(key, FreshCount { intervals, oldest_received_ns, not_before_ns });
        Ok(())
    }

    fn write_chunk(
        &mut self,
        transaction: &Transaction<'_>,
        dims: &mut Dims,
        key: BootKey,
        intervals: &[FreshInterval],
    ) -> Sql<()> {
        let sections = chunk::encode(intervals, self.zstd_level).map_err(unpackable)?;
        let ends = || intervals.iter().map(|interval| interval.meta[END_WALL]);
        let received = intervals.iter().map(|interval| interval.meta[RECEIVED]).max().unwrap_or(0);
        let text =
            "INSERT INTO chunk (id, host_id, boot_id, first_end_wall_ns, last_end_wall_ns, last_received_wall_ns,
                                intervals, process_rows, thread_rows, meta, processes, threads, sched, trust)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        let values = params![
            next_id(transaction, "chunk")?,
            key.host,
            key.boot,
            ends().min().unwrap_or(0),
            ends().max().unwrap_or(0),
            received,
            signed(intervals.len()),
            signed(sections.process_rows),
            signed(sections.thread_rows),
            sections.meta,
            sections.processes,
            sections.threads,
            sections.sched,
            intervals.first().map_or(0, |interval| interval.meta[TRUST])
        ];
        execute(transaction, text, values)?;
        // In the same transaction as the chunk: a crash between the two would leave sums that lack an interval or have it twice.
        self.rollup.add(intervals, &mut SumNames::new(transaction, dims))?;
        self.rollup.write(transaction, key.host)?;
        let rows = || intervals.iter().map(|interval| &interval.rows);
        let mut threads = rows().flat_map(|rows| rows.threads.iter().map(|row| row.id)).collect();
        let mut processes = rows().flat_map(|rows| rows.processes.iter().map(|row| row.id)).collect();
        mark_seen::<ThreadName>(transaction, &mut threads, received / PER_SECOND)?;
        mark_seen::<ProcessName>(transaction, &mut processes, received / PER_SECOND)
    }

    pub(super) fn holds(
        &mut self,
        transaction: &Transaction<'_>,
        key: BootKey,
        interval: &Interval,
    ) -> Sql<bool> {
        let end = interval.end.wall_ns;
        let wanted = (end, interval.sequence.cast_signed());
        let text = "SELECT id FROM chunk WHERE host_id = ?1 AND boot_id = ?2 AND first_end_wall_ns <= ?3
                    AND last_end_wall_ns BETWEEN ?3 AND ?4";
        let latest = end.saturating_add(MAX_CHUNK_SPAN_NS);
        for id in all_rows::<i64>(transaction, text, params![key.host, key.boot, end, latest], first)? {
            // A device that sends its spool again sends a hundred intervals in a row of the same chunk.
            if self.last_keys.chunk_id != id {
                self.last_keys = read_keys(transaction, id)?;
            }
            if self.last_keys.keys.contains(&wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn read_keys(connection: &Connection, chunk_id: i64) -> Sql<ChunkKeys> {
    let meta: Vec<u8> = value(connection, "SELECT meta FROM chunk WHERE id = ?1", [chunk_id])?;
    let mut chunk = Chunk::default();
    if let Err(malformed) = chunk.read_meta(&meta) {
        // The intervals of a damaged chunk are not known: one that comes again is stored again.
        log::warn!("chunk {chunk_id} is damaged: {malformed}");
        chunk = Chunk::default();
    }
    let keys = chunk.metas.iter().map(|row| (row[END_WALL], row[SEQUENCE])).collect();
    Ok(ChunkKeys { chunk_id, keys })
}

/// The oldest fresh intervals of a boot with their row ids, in order of time.
fn load_oldest(connection: &Connection, key: BootKey, count: u32) -> Sql<Vec<(i64, FreshRow)>> {
    let text = format!(
        "SELECT {}, id FROM interval WHERE host_id = ?2 AND boot_id = ?3 ORDER BY end_wall_ns, sequence LIMIT ?4",
        fresh::columns()
    );
    let read = |row: &Row<'_>| Ok((row.get("id")?, fresh::read(row)?));
    all_rows(connection, &text, params![true, key.host, key.boot, count], read)
}

/// Unpacks as many intervals as one chunk takes; gives with them the rows of `interval` that go, damaged ones included. A damaged one
/// becomes a gap: it would stop compaction at each attempt.
fn unpack(
    connection: &Connection,
    host: HostRow,
    rows: Vec<(i64, FreshRow)>,
) -> Sql<(Vec<i64>, Vec<FreshInterval>)> {
    let (mut ids, mut intervals) = (Vec::new(), Vec::<FreshInterval>::new());
    let mut size = ChunkSize::default();
    for (id, row) in rows {
        let mut packed = PackedInterval::default();
        if let Err(malformed) = decode(&row, &mut packed) {
            log::warn!("interval {id} is damaged and becomes a gap: {malformed}");
            record_damage(connection, host, &row.meta)?;
            ids.push(id);
            continue;
        }
        // Readers find chunks by their last end only, and rely on no chunk being longer than this.
        let first_end = intervals.first().map_or(row.meta[END_WALL], |first| first.meta[END_WALL]);
        let is_too_long = row.meta[END_WALL].saturating_sub(first_end) > MAX_CHUNK_SPAN_NS;
        size.add(&row, &packed);
        if !intervals.is_empty() && (is_too_long || size.is_too_large()) {
            break;
        }
        ids.push(id);
        intervals.push(FreshInterval { meta: row.meta, cpus: row.cpus, sched: row.sched, rows: packed });
    }
    Ok((ids, intervals))
}

/// Takes a fresh interval apart, unless no chunk can have it.
fn decode(row: &FreshRow, into: &mut PackedInterval) -> Result<(), Malformed> {
    if row.cpus.len().max(row.sched.len()) > MAX_EXTRA_BYTES {
        return Err(Malformed { offset: MAX_EXTRA_BYTES, what: "more bytes than an interval has" });
    }
    blob::decode(&row.samples, into)
}

#[derive(Copy, Clone, Debug, Default)]
struct ChunkSize {
    thread_rows: usize,
    /// Rows of processes and threads together.
    rows: usize,
    cpu_bytes: usize,
    sched_bytes: usize,
}

impl ChunkSize {
    fn add(&mut self, row: &FreshRow, packed: &PackedInterval) {
        self.thread_rows += packed.threads.len();
        self.rows += packed.threads.len() + packed.processes.len();
        self.cpu_bytes += row.cpus.len();
        self.sched_bytes += row.sched.len();
    }

    /// Whether a reader would refuse it, or it is more than compaction takes at once.
    fn is_too_large(&self) -> bool {
        self.thread_rows > MAX_THREAD_ROWS
            || self.rows > MAX_ROWS
            || self.cpu_bytes.max(self.sched_bytes) > MAX_EXTRA_BYTES
    }
}

#[derive(Copy, Clone, Debug, Default)]
pub(super) struct FreshCount {
    pub(super) intervals: u32,
    /// Earliest receipt; ns since the epoch on this machine's clock.
    pub(super) oldest_received_ns: i64,
    /// The boot is not due before this time, ns since the epoch.
    pub(super) not_before_ns: i64,
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Due {
    now_ns: i64,
    /// Full chunks are made of intervals received before this.
    pub(super) full_ns: i64,
    /// Chunks of any size are made of intervals received before this.
    pub(super) partial_ns: i64,
    /// Only intervals of this host; `None`: of all hosts.
    host: Option<HostRow>,
}

impl Due {
    /// Intervals that are old enough at `now_ns`.
    pub(super) fn by_age(now_ns: i64, options: &StoreOptions) -> Self {
        let before = |age: Duration| now_ns.saturating_sub(ns_of(age));
        let (full_ns, partial_ns) = (before(options.compact_after), before(options.compact_partial_after));
        Self { now_ns, full_ns, partial_ns, host: None }
    }

    /// Everything of one host, whatever its age.
    pub(super) fn all_of(host: HostRow) -> Self {
        Self { now_ns: i64::MAX, full_ns: i64::MAX, partial_ns: i64::MAX, host: Some(host) }
    }

    /// The time `after` from now, for [`FreshCount::not_before_ns`].
    pub(super) fn later_ns(&self, after: Duration) -> i64 {
        self.now_ns.saturating_add(ns_of(after))
    }
}

#[derive(Debug)]
pub(super) struct FreshBoots {
    counts: BTreeMap<BootKey, FreshCount>,
    /// The boots by the due time of their next chunk.
    by_due: BTreeSet<(i64, BootKey)>,
    /// The latest time that this machine's clock showed.
    latest_ns: i64,
    full: u32,
    /// Age at which a full chunk is made, ns.
    full_age_ns: i64,
    /// Age at which a chunk of any size is made, ns.
    partial_age_ns: i64,
}

impl FreshBoots {
    pub(super) fn load(connection: &Connection, options: &StoreOptions) -> Sql<Self> {
        let mut boots = Self {
            counts: BTreeMap::new(),
            by_due: BTreeSet::new(),
            latest_ns: i64::MAX,
            full: options.compact_intervals.min(u32::try_from(MAX_INTERVALS).unwrap_or(u32::MAX)),
            full_age_ns: ns_of(options.compact_after),
            partial_age_ns: ns_of(options.compact_partial_after),
        };
        boots.reload(connection)?;
        Ok(boots)
    }

    /// Counts the fresh intervals again. After an error the old counts remain.
    pub(super) fn reload(&mut self, connection: &Connection) -> Sql<()> {
        let text = "SELECT host_id, boot_id, count(*), min(received_wall_ns) FROM interval GROUP BY host_id, boot_id";
        let counts = all_rows(connection, text, [], |row| {
            let count =
                FreshCount { intervals: row.get(2)?, oldest_received_ns: row.get(3)?, not_before_ns: 0 };
            Ok((BootKey { host: row.get(0)?, boot: row.get(1)? }, count))
        })?;
        self.counts.clear();
        self.by_due.clear();
        self.latest_ns = i64::MAX;
        for (key, count) in counts {
            self.set(key, count);
        }
        Ok(())
    }

    pub(super) fn add(&mut self, key: BootKey, received_wall_ns: i64) {
        let mut count = self.count(key);
        if count.intervals == 0 || received_wall_ns < count.oldest_received_ns {
            count.oldest_received_ns = received_wall_ns;
        }
        count.intervals += 1;
        self.latest_ns = self.latest_ns.max(received_wall_ns);
        self.set(key, count);
    }

    /// Once this machine's clock went back, what was received later than `now_ns` counts as received now: it would not be due before the
    /// clock shows that time again. Only then it walks over all boots.
    pub(super) fn follow_clock(&mut self, now_ns: i64) {
        let retry_ns = now_ns.saturating_add(ns_of(RETRY_AFTER));
        if self.latest_ns <= retry_ns {
            self.latest_ns = self.latest_ns.max(now_ns);
            return;
        }
        self.latest_ns = now_ns;
        for (key, count) in self.counts.clone() {
            let oldest_received_ns = count.oldest_received_ns.min(now_ns);
            let not_before_ns = count.not_before_ns.min(retry_ns);
            self.set(key, FreshCount { oldest_received_ns, not_before_ns, ..count });
        }
    }

    /// Receipt of the oldest interval. Walks over all boots.
    pub(super) fn oldest_received_ns(&self) -> Option<i64> {
        self.counts.values().map(|count| count.oldest_received_ns).min()
    }

    pub(super) fn count(&self, key: BootKey) -> FreshCount {
        self.counts.get(&key).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, key: BootKey, count: FreshCount) {
        let due_ns = self.due_ns(&count);
        let before_ns = self.counts.insert(key, count).map(|before| self.due_ns(&before));
        if before_ns == Some(due_ns) {
            return;
        }
        if let Some(before_ns) = before_ns {
            self.by_due.remove(&(before_ns, key));
        }
        self.by_due.insert((due_ns, key));
    }

    pub(super) fn remove(&mut self, key: BootKey) {
        if let Some(before) = self.counts.remove(&key) {
            self.by_due.remove(&(self.due_ns(&before), key));
        }
    }

    /// The boot whose chunk has been due for longest; if `due` names a host, the first boot of that host, due or not.
    pub(super) fn next_due(&self, due: &Due) -> Option<BootKey> {
        let Some(host) = due.host else {
            return self.by_due.first().filter(|(due_ns, _)| *due_ns <= due.now_ns).map(|(_, key)| *key);
        };
        let first = BootKey { host, boot: BootRow(i64::MIN) };
        self.counts.range(first..).next().map(|(key, _)| *key).filter(|key| key.host == host)
    }

    fn due_ns(&self, count: &FreshCount) -> i64 {
        let is_full = count.intervals >= self.full;
        let age_ns = if is_full { self.full_age_ns.min(self.partial_age_ns) } else { self.partial_age_ns };
        count.oldest_received_ns.saturating_add(age_ns).max(count.not_before_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: i64 = 60_000_000_000;

    fn key(host: i64, boot: i64) -> BootKey {
        BootKey { host: HostRow(host), boot: BootRow(boot) }
    }

    fn boots() -> (FreshBoots, StoreOptions) {
        let options = StoreOptions { compact_intervals: 3, ..StoreOptions::default() };
        let connection = Connection::open_in_memory().unwrap();
        let table = "CREATE TABLE interval (host_id INTEGER, boot_id INTEGER, received_wall_ns INTEGER)";
        connection.execute_batch(table).unwrap();
        (FreshBoots::load(&connection, &options).unwrap(), options)
    }

    #[test]
    fn a_full_boot_is_due_after_minutes_and_any_other_after_an_hour() {
        let (mut boots, options) = boots();
        boots.add(key(1, 1), 0);
        (0..3).for_each(|at| boots.add(key(2, 2), at * MINUTE_NS));
        let next = |boots: &FreshBoots, minute| boots.next_due(&Due::by_age(minute * MINUTE_NS, &options));
        assert_eq!((next(&boots, 2), next(&boots, 3)), (None, Some(key(2, 2))));
        boots.remove(key(2, 2));
        assert_eq!((next(&boots, 59), next(&boots, 60)), (None, Some(key(1, 1))));
        assert_eq!(boots.next_due(&Due::all_of(HostRow(2))), None);
        assert_eq!(boots.next_due(&Due::all_of(HostRow(1))), Some(key(1, 1)));
        let due = Due::by_age(60 * MINUTE_NS, &options);
        let not_before_ns = due.later_ns(Duration::from_mins(1));
        boots.set(key(1, 1), FreshCount { not_before_ns, ..boots.count(key(1, 1)) });
        assert_eq!((next(&boots, 60), next(&boots, 61)), (None, Some(key(1, 1))));
        boots.remove(key(1, 1));
        assert!(boots.by_due.is_empty() && boots.counts.is_empty());
    }

    #[test]
    fn what_came_while_the_clock_was_ahead_is_due_soon_after_it_is_right() {
        const AHEAD: i64 = 400 * 24 * 60;
        let (mut boots, options) = boots();
        let next = |boots: &FreshBoots, minute| boots.next_due(&Due::by_age(minute * MINUTE_NS, &options));
        boots.follow_clock(0);
        boots.add(key(1, 1), AHEAD * MINUTE_NS);
        boots.follow_clock(2 * MINUTE_NS);
        assert_eq!((next(&boots, 61), next(&boots, 62)), (None, Some(key(1, 1))));
    }

    #[test]
    fn both_lists_have_the_same_boots_whatever_is_done() {
        let (mut boots, options) = boots();
        let mut state = 1_u64;
        for step in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = i64::try_from(state >> 58).unwrap();
            let key = key(number % 4, number);
            match state >> 32 & 3 {
                0 => boots.remove(key),
                1 => boots.set(key, FreshCount { intervals: 1, oldest_received_ns: step, not_before_ns: 9 }),
                _ => boots.add(key, step * MINUTE_NS / 1_000),
            }
            assert_eq!(boots.by_due.len(), boots.counts.len());
            let due = Due::by_age(step * MINUTE_NS / 500, &options);
            let (first, counts) = (boots.next_due(&due), &boots.counts);
            let earliest = counts.values().map(|count| boots.due_ns(count)).min();
            assert_eq!(first.is_some(), earliest.is_some_and(|at_ns| at_ns <= due.now_ns));
            assert_eq!(first.map(|key| boots.due_ns(&counts[&key])), earliest.filter(|_| first.is_some()));
        }
    }
}
