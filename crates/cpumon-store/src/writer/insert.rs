//! Puts intervals into table `interval`: metadata in ordinary columns, the active rows as one packed blob with row ids instead of keys. The
//! transaction of an interval also writes the correction of its boot's clock (`clock_piece`), the position in the recording that it comes
//! from (`counter`), and now and then a list of all processes (`process_list`).

use std::sync::LazyLock;

use cpumon_model::{
    BootId, ClockPiece, Fields, HostId, HostInfo, IdleProcess, Interval, LossCounts, MAX_CLOCK_PIECES,
    Recent, Resting, ThreadInterval, Trust,
};
use rusqlite::types::Null;
use rusqlite::{Connection, Result as Sql, params};

use super::compact::Compactor;
use super::dims::Dims;
use super::merge_names::mark_seen;
use super::naming::{Naming, Seeded};
use super::pack::{IntervalPacker, has_all_threads, is_stored_thread, resting_of};
use super::session::{StoreOptions, Transaction};
use crate::codec::host;
use crate::codec::lists::{
    LONGEST_LIST_NS, ListedProcess, ListedThread, MAX_IDLE_THREADS, MAX_PROCESSES, pack,
};
use crate::codec::meta::{self, MetaRow};
use crate::error::unpackable;
use crate::names::{ProcessName, ThreadName};
use crate::rows::{BootKey, BootRow, counter, execute, set_counter, signed, value};
use crate::sums::PER_SECOND;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is in the open transaction.
    Stored,
    /// The store has it already: same host, boot, end and sequence number.
    Duplicate,
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) info: &'a HostInfo,
    pub(crate) trust: Trust,
    /// Losses of the host so far; `None` where nothing travelled over a network.
    pub(crate) loss: Option<&'a LossCounts>,
    pub(crate) interval: &'a Interval,
    /// When the receiver got it, ns since the epoch on its own clock.
    pub(crate) received_wall_ns: i64,
}

/// Packs and inserts intervals, with buffers that are used again.
#[derive(Debug)]
pub(super) struct Inserter {
    packer: IntervalPacker,
    cpus: Vec<u8>,
    clock_pieces: ClockPieces,
    lists: ListSchedule,
    zstd_level: i32,
}

impl Inserter {
    pub(super) fn new(options: &StoreOptions) -> Self {
        Self {
            packer: IntervalPacker::default(),
            cpus: Vec::new(),
            clock_pieces: ClockPieces::default(),
            // Sooner than the queue, which passes idle rows on only with some intervals: those must find a list due.
            lists: ListSchedule::new(LIST_EVERY / 2),
            zstd_level: options.zstd_level,
        }
    }

    /// Inserts an interval unless the store has it.
    pub(super) fn insert(
        &mut self,
        transaction: &Transaction<'_>,
        dims: &mut Dims,
        compactor: &mut Compactor,
        arrival: &Arrival<'_>,
    ) -> Sql<Put> {
        let Arrival { info, trust, loss, interval, received_wall_ns } = *arrival;
        let host = dims.host(transaction, info, trust, interval)?;
        let key = host.key;
        // Nearly all intervals are newer than all before of their boot; only the others can be duplicates, and cost a look-up.
        let is_newest = host.newest_end_wall_ns.is_none_or(|newest| interval.end.wall_ns > newest);
        if is_newest {
            host.newest_end_wall_ns = Some(interval.end.wall_ns);
        } else if is_fresh(transaction, key, interval)? || compactor.holds(transaction, key, interval)? {
            return Ok(Put::Duplicate);
        }
        // Before the insert: after an error the counts are read from the file again.
        compactor.fresh.add(key, received_wall_ns);
        self.cpus.clear();
        host::encode(interval, &mut self.cpus);
        let mut row = meta::row_of(interval, received_wall_ns, loss);
        row[meta::TRUST] = meta::trust_code(Some(trust));
        let now_s = received_wall_ns / 1_000_000_000;
        let mut naming = dims.naming(transaction, interval.host, trust, now_s)?;
        self.packer.pack(&mut naming, interval)?;
        if is_newest && self.lists.is_due(interval, has_all_processes(interval) && knows_resting(interval)) {
            write_list(transaction, key, &mut naming, interval, self.zstd_level)?;
        }
        // In the transaction of the first interval that it placed: the one is of no use without the other.
        self.clock_pieces.write(transaction, key.boot, interval.clock_piece)?;
        let blobs = [&self.cpus, self.packer.samples(), self.packer.sched()];
        insert_row(transaction, key, &row, blobs)?;
        Ok(Put::Stored)
    }

    /// After a rollback: rows that were written in the transaction are gone.
    pub(super) fn forget_written(&mut self) {
        self.clock_pieces = ClockPieces::default();
        self.lists.forget();
    }
}

/// Text of the insert into `interval`; the columns behind the blobs are those that a chunk may leave out. It names no
/// columns, because SQLite's statement cache hashes the text at each use.
static INSERT_INTERVAL: LazyLock<String> =
    LazyLock::new(|| format!("INSERT INTO interval VALUES (NULL{})", ",?".repeat(meta::COUNT + 5)));

fn insert_row(connection: &Connection, key: BootKey, row: &MetaRow, blobs: [&[u8]; 3]) -> Sql<()> {
    let mut statement = connection.prepare_cached(&INSERT_INTERVAL)?;
    statement.raw_bind_parameter(1, key.host)?;
    statement.raw_bind_parameter(2, key.boot)?;
    for (at, &value) in row.iter().take(meta::IN_EVERY_CHUNK).enumerate() {
        if value == meta::NONE {
            statement.raw_bind_parameter(at + 3, Null)?;
        } else {
            statement.raw_bind_parameter(at + 3, value)?;
        }
    }
    for (at, blob) in blobs.into_iter().enumerate() {
        statement.raw_bind_parameter(meta::IN_EVERY_CHUNK + 3 + at, blob)?;
    }
    for (at, &value) in row.iter().enumerate().skip(meta::IN_EVERY_CHUNK) {
        // Two keys and three blobs come before it, and parameters count from 1.
        statement.raw_bind_parameter(at + 6, value)?;
    }
    statement.raw_execute()?;
    Ok(())
}

/// Whether an interval is in the store and not yet compacted.
fn is_fresh(connection: &Connection, key: BootKey, interval: &Interval) -> Sql<bool> {
    let text = "SELECT EXISTS (SELECT 1 FROM interval
                    WHERE host_id = ?1 AND end_wall_ns = ?2 AND boot_id = ?3 AND sequence = ?4)";
    let sequence = interval.sequence.cast_signed();
    value(connection, text, params![key.host, interval.end.wall_ns, key.boot, sequence])
}

/// The piece that was written last: hundreds of intervals in a row are placed by the same one.
#[derive(Debug, Default)]
struct ClockPieces {
    last: Option<(BootRow, ClockPiece)>,
}

impl ClockPieces {
    /// Writes the piece that placed an interval, unless it was the last one written.
    fn write(&mut self, transaction: &Transaction<'_>, boot: BootRow, piece: Option<ClockPiece>) -> Sql<()> {
        // Without a piece the device's clock was right, and there is nothing to remember.
        let Some(piece) = piece.filter(|piece| self.last != Some((boot, *piece))) else { return Ok(()) };
        let ClockPiece { from_boot_ns, before_ns, anchor_ns, tolerance_ns } = piece;
        let values = params![boot, from_boot_ns, before_ns, anchor_ns, tolerance_ns];
        let text = "INSERT OR IGNORE INTO clock_piece VALUES (?1, ?2, ?3, ?4, ?5)";
        if execute(transaction, text, values)? > 0 {
            // The time line of a boot in memory has the same limit: older pieces are of no use to it.
            let text = "DELETE FROM clock_piece WHERE boot_id = ?1 AND from_boot_ns <=
                (SELECT from_boot_ns FROM clock_piece WHERE boot_id = ?1 ORDER BY from_boot_ns DESC LIMIT 1 OFFSET ?2)";
            execute(transaction, text, params![boot, signed(MAX_CLOCK_PIECES)])?;
        }
        self.last = Some((boot, piece));
        Ok(())
    }
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePosition {
    /// Number of the last snapshot that was read; 0: none.
    pub number: u64,
    /// When it was made, ns since the UNIX epoch on the device's clock.
    pub wall_ns: i64,
}

/// Name of a counter; "place" is part of the file format.
fn name_of(source: &str, part: &str) -> String {
    format!("place {part} {source}")
}

/// How far `source` was read; [`SourcePosition::default`] if it never was.
pub(super) fn load_position(connection: &Connection, source: &str) -> Sql<SourcePosition> {
    let read = |part: &str| counter(connection, &name_of(source, part)).map(Option::unwrap_or_default);
    Ok(SourcePosition { number: read("number")?.cast_unsigned(), wall_ns: read("wall_ns")? })
}

pub(super) fn save_position(connection: &Connection, source: &str, position: SourcePosition) -> Sql<()> {
    set_counter(connection, &name_of(source, "number"), position.number.cast_signed())?;
    set_counter(connection, &name_of(source, "wall_ns"), position.wall_ns)
}

// Lists of processes have the idle ones too, whose rows are not stored: they can be had for any moment, because from a list to the next, rows
// of samples record who began and who ended.

/// Most intervals from one list to the next, and so about the most that are read for a moment.
const LIST_EVERY: u32 = 200;
/// After a gap or a boot a list is due at once, because who ended in it is not known, as is one that corrects the last one; but not more
/// often than this: a sender can make all three.
const LEAST_LIST_NS: i64 = 10 * PER_SECOND;
/// Hosts in memory; those that are forgotten get a list with their next interval.
const MAX_HOSTS: usize = 8192;

#[derive(Copy, Clone, Debug)]
struct LastList {
    boot: BootId,
    listed_wall_ns: i64,
    end_wall_ns: i64,
    /// Intervals since the list.
    intervals: u32,
    /// A gap came since, or it had processes that had ended.
    is_outdated: bool,
}

/// When the next list of each host is due.
#[derive(Debug)]
pub(crate) struct ListSchedule {
    every: u32,
    hosts: Recent<HostId, LastList, Seeded>,
}

impl Default for ListSchedule {
    fn default() -> Self {
        Self::new(LIST_EVERY)
    }
}

impl ListSchedule {
    /// `every`: number of intervals from one list to the next.
    pub(crate) fn new(every: u32) -> Self {
        Self { every, hosts: Recent::new(MAX_HOSTS) }
    }

    /// Whether a list is due with this interval. It then counts as written, if it can be.
    pub(crate) fn is_due(&mut self, interval: &Interval, can_be: bool) -> bool {
        let (boot, begin_ns, end_ns) = (interval.boot, interval.begin.wall_ns, interval.end.wall_ns);
        let listed_at = |listed_wall_ns, end_wall_ns| LastList {
            boot,
            listed_wall_ns,
            end_wall_ns,
            intervals: 0,
            is_outdated: false,
        };
        let last = self.hosts.get_or_insert_with(interval.host, || listed_at(i64::MIN, begin_ns));
        // What comes late belongs between lists that were written.
        if last.boot == boot && end_ns <= last.end_wall_ns {
            return false;
        }
        let passed_ns = end_ns.saturating_sub(last.listed_wall_ns);
        last.is_outdated |= last.boot != boot || begin_ns > last.end_wall_ns || interval.corrects_lists;
        last.intervals = last.intervals.saturating_add(1);
        last.end_wall_ns = end_ns;
        let is_due = last.intervals >= self.every
            || passed_ns >= LONGEST_LIST_NS
            || (last.is_outdated && passed_ns >= LEAST_LIST_NS);
        if is_due && can_be {
            *last = listed_at(end_ns, end_ns);
        }
        is_due && can_be
    }

    /// After a rollback: lists that were written in it are gone.
    pub(crate) fn forget(&mut self) {
        self.hosts.clear();
    }
}

/// Whether every process that is there is known: idle rows may have been left out, or did not fit.
pub(crate) fn has_all_processes(interval: &Interval) -> bool {
    let idle = interval.idle_processes.as_deref().map_or(0, <[_]>::len);
    interval.knows_all_processes() && interval.processes.len() + idle <= MAX_PROCESSES
}

/// Whether all threads that wait are known, or no one measures what threads wait for.
pub(crate) fn knows_resting(interval: &Interval) -> bool {
    !interval.fields.contains(Fields::SCHED | Fields::WAITS)
        || interval.resting.is_some()
        || has_all_threads(interval)
}

/// Packs which threads wait for what; `None`: not known. `naming` knows the rows of their processes.
fn pack_resting(naming: &mut Naming<'_>, interval: &Interval, level: i32) -> Sql<Option<Vec<u8>>> {
    let Some(idle) = resting_of(interval).filter(|list| list.len() <= MAX_IDLE_THREADS) else {
        return Ok(None);
    };
    let active = interval.threads.iter().filter(|row| is_stored_thread(interval, row));
    let mut list = Vec::with_capacity(idle.len());
    for one in idle.iter().copied().chain(active.filter_map(ThreadInterval::resting)) {
        let process_id = naming.process(one.process, None)?;
        let id = naming.thread(process_id, &ThreadInterval::of_resting(&one, 0))?;
        let Resting { reason, last_cpu, state, .. } = one;
        list.push(ListedThread { process_id, id, reason, last_cpu, state: state.0 });
    }
    list.sort_unstable();
    // As with processes: nothing else may name a thread that waits for weeks.
    let mut ids = list.iter().map(|one| one.id).collect();
    mark_seen::<ThreadName>(naming.connection, &mut ids, naming.now_s)?;
    pack(&list, level).map(Some).map_err(unpackable)
}

/// Writes the list of an interval that [`has_all_processes`]. `naming` knows the rows of those that are active.
fn write_list(
    connection: &Connection,
    key: BootKey,
    naming: &mut Naming<'_>,
    interval: &Interval,
    level: i32,
) -> Sql<()> {
    let idle = interval.idle_processes.as_deref().unwrap_or_default();
    let mut list = Vec::with_capacity(interval.processes.len() + idle.len());
    for (row, (_, after)) in interval.processes.iter().zip(interval.processes_after()) {
        if let Some(IdleProcess { thread_rows, .. }) = after {
            list.push(ListedProcess { id: naming.process(row.key, Some(row))?, thread_rows });
        }
    }
    for process in idle {
        list.push(ListedProcess {
            id: naming.process(process.key, Some(&process.row()))?,
            thread_rows: process.thread_rows,
        });
    }
    list.sort_unstable_by_key(|one| one.id);
    let packed = pack(&list, level).map_err(unpackable)?;
    let resting = pack_resting(naming, interval, level)?;
    let values = params![key.host, interval.end.wall_ns, key.boot, packed, resting];
    execute(connection, "INSERT OR REPLACE INTO process_list VALUES (?1, ?2, ?3, ?4, ?5)", values)?;
    // Nothing else may name an idle process for weeks, and retention keeps only names that are seen.
    let mut ids = list.iter().map(|one| one.id).collect();
    mark_seen::<ProcessName>(connection, &mut ids, naming.now_s)
}

#[cfg(test)]
mod tests {
    use cpumon_model::Moment;

    use super::*;

    fn due(schedule: &mut ListSchedule, boot: u8, begin_ns: i64, end_ns: i64) -> bool {
        let interval = Interval {
            boot: BootId([boot; 16]),
            begin: Moment { wall_ns: begin_ns, ..Moment::default() },
            end: Moment { wall_ns: end_ns, ..Moment::default() },
            ..Interval::default()
        };
        schedule.is_due(&interval, true)
    }

    #[test]
    fn a_sender_that_goes_through_boots_gets_no_list_with_each_interval() {
        let mut schedule = ListSchedule::default();
        let step_ns = LEAST_LIST_NS / 100;
        let lists = (0..100_u8)
            .filter(|&at| due(&mut schedule, at, i64::from(at) * step_ns, i64::from(at + 1) * step_ns));
        assert_eq!(lists.count(), 1);
        // The next boot has its list as soon as the pause is over.
        assert!(due(&mut schedule, 200, 101 * step_ns, 102 * step_ns));
        assert!(!due(&mut schedule, 200, 102 * step_ns, 103 * step_ns));
    }
}
