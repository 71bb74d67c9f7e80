//! Puts intervals into table `interval`: metadata in ordinary columns, the active rows as one packed blob with row ids in
//! place of keys. What belongs to an interval is written in its transaction: how its boot's clock was corrected (`clock_piece`), and how
//! far the recording that it is read from was read (`counter`).

use std::sync::LazyLock;

use cpumon_model::{ClockPiece, HostInfo, Interval, LossCounts, MAX_CLOCK_PIECES, Trust};
use rusqlite::types::Null;
use rusqlite::{Connection, Result as Sql, params};

use super::compact::Compactor;
use super::dims::Dims;
use super::pack::IntervalPacker;
use super::process_lists::{EVERY, ListSchedule, has_all, knows_resting, write_list};
use super::session::{StoreOptions, Transaction};
use crate::codec::host;
use crate::codec::meta::{self, MetaRow};
use crate::rows::{BootKey, BootRow, counter, execute, set_counter, signed, value};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is in the open transaction.
    Stored,
    /// The store has it already: same host, boot, end and sequence number.
    Duplicate,
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) info: &'a HostInfo,
    pub(super) trust: Trust,
    /// Losses of the host so far; `None` where nothing travelled over a network.
    pub(super) loss: Option<&'a LossCounts>,
    pub(super) interval: &'a Interval,
    /// When the receiver got it, ns since the epoch on its own clock.
    pub(super) received_wall_ns: i64,
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
            lists: ListSchedule::new(EVERY / 2),
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
        if is_newest && self.lists.is_due(interval, has_all(interval) && knows_resting(interval)) {
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
pub(super) struct ClockPieces {
    last: Option<(BootRow, ClockPiece)>,
}

impl ClockPieces {
    /// Writes the piece that placed an interval, unless it was the last one written.
    pub(super) fn write(
        &mut self,
        transaction: &Transaction<'_>,
        boot: BootRow,
        piece: Option<ClockPiece>,
    ) -> Sql<()> {
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
