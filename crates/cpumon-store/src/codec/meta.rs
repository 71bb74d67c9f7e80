//! An interval as a whole, as a fixed row of numbers. The columns of table `interval`, the order of binding and reading them, the columns of a
//! chunk, and where each value comes from and goes to are one list, [`COLUMNS`].

use cpumon_model::{
    BootId, Fields, Flags, HostId, Interval, Ledger, LossCounts, SourceHealth, SourceKind, Trust,
};

use self::ColumnCoding::{Alongside, Continues, Delta, Minus, Plain};
use super::varint::{self, Malformed, VarintCursor, write_section};
use crate::rows::signed;

/// How a column is written in a chunk. Every way wraps, so that any numbers come back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum ColumnCoding {
    /// The value itself.
    Plain,
    /// Difference to the value in the row before.
    Delta,
    /// Less the value before in that other column: an interval begins where the one before ended.
    Continues(usize),
    /// Its growth less the growth of that other column: clocks run alike.
    Alongside(usize),
    /// Difference to that other column of the same row.
    Minus(usize),
}

pub(crate) const COUNT: usize = 42;
/// Number of columns that each chunk has; those behind them are written only up to the last one that is not zero, and are the last
/// ones of table `interval`.
pub(crate) const IN_EVERY_CHUNK: usize = 40;

/// A value that is not there; NULL in SQL.
pub(crate) const NONE: i64 = i64::MIN;

/// One interval's numbers, in the order of [`COLUMNS`]. Unsigned values are stored as signed ones of the same bits.
pub(crate) type MetaRow = [i64; COUNT];

// Positions of columns. Times that end in `MONO` and `BOOT` are ns of the device's `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME`, those in `WALL` ns
// since the epoch, on the time line; `RECEIVED` is on the receiver's clock; `SHIFT` is the device's own wall clock less `end_wall_ns`.
pub(crate) const SEQUENCE: usize = 0;
pub(crate) const END_MONO: usize = 1;
pub(crate) const END_WALL: usize = 2;
pub(crate) const END_BOOT: usize = 3;
pub(crate) const BEGIN_MONO: usize = 4;
pub(crate) const BEGIN_WALL: usize = 5;
pub(crate) const RECEIVED: usize = 7;
const SOURCE: usize = 8;
const FIELDS: usize = 9;
const FLAGS: usize = 10;
/// The first of the ledger's lines, which are neighbours here and in sums.
pub(crate) const CAPACITY: usize = 15;
pub(crate) const LEDGER_LINES: usize = 7;
pub(crate) const SHIFT: usize = 40;
pub(crate) const TRUST: usize = 41;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredInterval {
    /// The interval: active rows, and those of threads and processes that waited.
    pub interval: Interval,
    /// When the receiver got it, ns since the epoch on the receiver's clock.
    pub received_wall_ns: i64,
    /// The host's losses at that time, cumulative since that receiver started; `None` where nothing travelled over a network.
    pub loss: Option<LossCounts>,
}

/// An interval that is about to be stored.
struct MetaSource<'a> {
    interval: &'a Interval,
    received_wall_ns: i64,
    loss: Option<&'a LossCounts>,
}

/// A column: its name in table `interval`, how a chunk writes it, and where its value comes from and goes to.
pub(crate) struct MetaColumn {
    pub(crate) name: &'static str,
    coding: ColumnCoding,
    get: fn(&MetaSource<'_>) -> i64,
    set: fn(&mut StoredInterval, i64),
}

macro_rules! get {
    ($from:ident unsigned $($field:ident).+) => { $from.interval.$($field).+.cast_signed() };
    ($from:ident signed $($field:ident).+) => { $from.interval.$($field).+ };
    ($from:ident small $($field:ident).+) => { i64::from($from.interval.$($field).+) };
    ($from:ident flag $($field:ident).+) => { i64::from($from.interval.$($field).+) };
    ($from:ident loss $field:ident) => { $from.loss.map_or(NONE, |loss| loss.$field.cast_signed()) };
    ($from:ident received) => { $from.received_wall_ns };
    ($from:ident source) => { i64::from($from.interval.source.code()) };
    ($from:ident fields) => { i64::from($from.interval.fields.intersection(Fields::CARRIED).bits()) };
    ($from:ident flags) => { i64::from($from.interval.flags.bits()) };
    ($from:ident ticks) => { $from.interval.v1_ticks.unwrap_or(NONE) };
    ($from:ident trust) => { trust_code($from.interval.trust) };
}

macro_rules! set {
    ($into:ident $value:ident unsigned $($field:ident).+) => {
        $into.interval.$($field).+ = $value.cast_unsigned()
    };
    ($into:ident $value:ident signed $($field:ident).+) => { $into.interval.$($field).+ = $value };
    ($into:ident $value:ident small $($field:ident).+) => {
        $into.interval.$($field).+ = u32::try_from($value).unwrap_or(0)
    };
    ($into:ident $value:ident flag $($field:ident).+) => { $into.interval.$($field).+ = $value != 0 };
    // The nine counts are there together or not at all.
    ($into:ident $value:ident loss $field:ident) => {
        if $value != NONE {
            $into.loss.get_or_insert_default().$field = $value.cast_unsigned();
        }
    };
    ($into:ident $value:ident received) => { $into.received_wall_ns = $value };
    ($into:ident $value:ident source) => {
        $into.interval.source = source_from($value)
    };
    ($into:ident $value:ident fields) => { $into.interval.fields = fields_from($value) };
    ($into:ident $value:ident flags) => { $into.interval.flags = flags_from($value) };
    ($into:ident $value:ident ticks) => { $into.interval.v1_ticks = ($value != NONE).then_some($value) };
    ($into:ident $value:ident trust) => { $into.interval.trust = trust_of($value) };
}

macro_rules! columns {
    ($($name:literal $coding:expr, $kind:ident $($field:ident).*;)+) => {
        [$(MetaColumn {
            name: $name,
            coding: $coding,
            get: |from| get!(from $kind $($field).*),
            set: |into, value| set!(into value $kind $($field).*),
        }),+]
    };
}

/// In the order of table `interval`. A column refers to earlier ones only.
pub(crate) static COLUMNS: [MetaColumn; COUNT] = columns! {
    "sequence" Delta, unsigned sequence;
    "end_mono_ns" Delta, unsigned end.mono_ns;
    "end_wall_ns" Alongside(END_MONO), signed end.wall_ns;
    "end_boot_ns" Alongside(END_MONO), unsigned end.boot_ns;
    "begin_mono_ns" Continues(END_MONO), unsigned begin.mono_ns;
    "begin_wall_ns" Continues(END_WALL), signed begin.wall_ns;
    "begin_boot_ns" Continues(END_BOOT), unsigned begin.boot_ns;
    "received_wall_ns" Minus(END_WALL), received;
    "source" Delta, source;
    "fields" Delta, fields;
    "flags" Delta, flags;
    "v1_ticks" Delta, ticks;
    "pass_ns" Plain, unsigned pass_ns;
    "thread_count" Delta, small thread_count;
    "process_count" Delta, small process_count;
    "capacity_ns" Delta, signed ledger.capacity_ns;
    "threads_ns" Plain, signed ledger.threads_ns;
    "exited_ns" Plain, signed ledger.exited_ns;
    "irq_ns" Plain, signed ledger.irq_ns;
    "softirq_ns" Plain, signed ledger.softirq_ns;
    "steal_ns" Plain, signed ledger.steal_ns;
    "idle_ns" Plain, signed ledger.idle_ns;
    "irq_in_run_time" Delta, flag ledger.irq_in_run_time;
    "tasks_vanished" Delta, unsigned health.tasks_vanished;
    "permission_denied" Delta, unsigned health.permission_denied;
    "malformed" Delta, unsigned health.malformed;
    "exits_lost" Delta, unsigned health.exits_lost;
    "intervals_late" Delta, unsigned health.intervals_late;
    "intervals_skipped" Delta, unsigned health.intervals_skipped;
    "own_cpu_ns" Delta, unsigned health.own_cpu_ns;
    "own_rss_bytes" Delta, unsigned health.own_rss_bytes;
    "datagrams" Delta, loss datagrams;
    "datagram_bytes" Delta, loss bytes;
    "snapshots" Delta, loss snapshots;
    "snapshots_lost" Delta, loss snapshots_lost;
    "snapshots_partial" Delta, loss snapshots_partial;
    "duplicates" Delta, loss duplicates;
    "reordered" Delta, loss reordered;
    "rejected" Delta, loss rejected;
    "store_dropped" Delta, loss store_dropped;
    "wall_shift_ns" Delta, signed wall_shift_ns;
    "trust" Delta, trust;
};

/// The number of a trust in the file; 0 where it was not recorded.
pub(crate) fn trust_code(trust: Option<Trust>) -> i64 {
    match trust {
        None => 0,
        Some(Trust::Unauthenticated) => 1,
        Some(Trust::Imported) => 2,
        Some(Trust::Encrypted) => 3,
        Some(Trust::Authenticated) => 4,
        Some(Trust::Local) => 5,
    }
}

#[cfg(feature = "bundled")]
pub(crate) fn is_trust_code(code: i64) -> bool {
    code == 0 || trust_of(code).is_some()
}

/// The reverse of [`trust_code`]; `None` for a number that it never gives, too.
fn trust_of(code: i64) -> Option<Trust> {
    let all = [Trust::Unauthenticated, Trust::Imported, Trust::Encrypted, Trust::Authenticated, Trust::Local];
    all.into_iter().find(|trust| trust_code(Some(*trust)) == code)
}

pub(crate) fn row_of(interval: &Interval, received_wall_ns: i64, loss: Option<&LossCounts>) -> MetaRow {
    let source = MetaSource { interval, received_wall_ns, loss };
    std::array::from_fn(|at| (COLUMNS[at].get)(&source))
}

/// Sets everything of an interval but its lists, which are filled elsewhere into the same buffers.
pub(crate) fn apply(row: &MetaRow, host: HostId, boot: BootId, into: &mut StoredInterval) {
    let interval = &mut into.interval;
    (interval.host, interval.boot, interval.clock_piece) = (host, boot, None);
    // Some of their numbers have no column, but come with the host's events: the buffer is reused, so those of the last interval must go.
    (interval.ledger, interval.health, into.loss) = (Ledger::default(), SourceHealth::default(), None);
    for (column, &value) in COLUMNS.iter().zip(row) {
        (column.set)(into, value);
    }
}

/// Measured length of the interval, ns.
pub(crate) fn length_ns(row: &MetaRow) -> i64 {
    row[END_MONO].saturating_sub(row[BEGIN_MONO]).max(0)
}

/// [`Ledger::measured_in_ns`] of the interval.
pub(crate) fn measured_in_ns(row: &MetaRow) -> i64 {
    signed(ledger_of(ledger_lines(row)).measured_in_ns(length_ns(row).unsigned_abs()))
}

pub(crate) fn ledger_lines(row: &MetaRow) -> [i64; LEDGER_LINES] {
    std::array::from_fn(|at| row[CAPACITY + at])
}

pub(crate) fn ledger_of(lines: [i64; LEDGER_LINES]) -> Ledger {
    let [capacity_ns, threads_ns, exited_ns, irq_ns, softirq_ns, steal_ns, idle_ns] = lines;
    let ledger = Ledger { capacity_ns, threads_ns, exited_ns, irq_ns, softirq_ns, ..Ledger::default() };
    Ledger { steal_ns, idle_ns, ..ledger }
}

pub(crate) fn flags_of(row: &MetaRow) -> Flags {
    flags_from(row[FLAGS])
}

fn flags_from(bits: i64) -> Flags {
    Flags::from_bits_retain(u16::try_from(bits).unwrap_or(0))
}

pub(crate) fn fields_of(row: &MetaRow) -> Fields {
    fields_from(row[FIELDS])
}

pub(crate) fn source_of(row: &MetaRow) -> SourceKind {
    source_from(row[SOURCE])
}

fn source_from(code: i64) -> SourceKind {
    SourceKind::from_code(u8::try_from(code).unwrap_or(0))
}

fn fields_from(bits: i64) -> Fields {
    Fields::from_bits_retain(u32::try_from(bits).unwrap_or(0))
}

/// What a column's value is written as the difference to.
#[inline]
fn expected(coding: ColumnCoding, at: usize, row: &MetaRow, before: &MetaRow) -> i64 {
    match coding {
        Plain => 0,
        Delta => before[at],
        Continues(other) => before[other],
        Alongside(other) => before[at].wrapping_add(row[other].wrapping_sub(before[other])),
        Minus(other) => row[other],
    }
}

/// Writes one column of all intervals.
fn write_column(rows: &[MetaRow], at: usize, out: &mut Vec<u8>) {
    let (mut column, mut before) = (Vec::new(), &[0; COUNT]);
    for row in rows {
        varint::write_signed(
            &mut column,
            row[at].wrapping_sub(expected(COLUMNS[at].coding, at, row, before)),
        );
        before = row;
    }
    write_section(out, &column);
}

/// Reads what [`write_column`] wrote. The columns before it are read already.
fn read_column(cursor: &mut VarintCursor<'_>, rows: &mut [MetaRow], at: usize) -> Result<(), Malformed> {
    let (mut column, mut before) = (cursor.section()?, [0; COUNT]);
    for row in rows.iter_mut() {
        row[at] = column.i64()?.wrapping_add(expected(COLUMNS[at].coding, at, row, &before));
        before = *row;
    }
    Ok(())
}

/// Writes the columns that each chunk has.
pub(crate) fn write_meta(rows: &[MetaRow], out: &mut Vec<u8>) {
    (0..IN_EVERY_CHUNK).for_each(|at| write_column(rows, at, out));
}

/// Reads what [`write_meta`] wrote into `rows`, which has the right length.
pub(crate) fn read_meta(cursor: &mut VarintCursor<'_>, rows: &mut [MetaRow]) -> Result<(), Malformed> {
    (0..IN_EVERY_CHUNK).try_for_each(|at| read_column(cursor, rows, at))
}

/// Writes the columns that a chunk may leave out, up to the last one that is not zero somewhere: behind what older versions wrote.
pub(crate) fn write_optional(rows: &[MetaRow], out: &mut Vec<u8>) {
    let is_needed = |at: &usize| rows.iter().any(|row| row[*at] != 0);
    let end = (IN_EVERY_CHUNK..COUNT).rfind(is_needed).map_or(IN_EVERY_CHUNK, |last| last + 1);
    (IN_EVERY_CHUNK..end).for_each(|at| write_column(rows, at, out));
}

/// Reads what [`write_optional`] wrote; columns that are not there are zero.
pub(crate) fn read_optional(cursor: &mut VarintCursor<'_>, rows: &mut [MetaRow]) -> Result<(), Malformed> {
    for at in IN_EVERY_CHUNK..COUNT {
        // Chunks of stores before schema version 7 have no optional column, those before version 10 at most the first.
        if cursor.remaining() == 0 {
            return Ok(());
        }
        read_column(cursor, rows, at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_from_its_own_column() {
        let mut row: MetaRow = std::array::from_fn(|at| 1000 + i64::try_from(at).unwrap());
        (row[8], row[9], row[10], row[22], row[TRUST]) = (2, 9, 5, 1, 4);
        let mut stored = StoredInterval::default();
        apply(&row, HostId([1; 16]), BootId([2; 16]), &mut stored);
        let StoredInterval { mut interval, received_wall_ns, loss } = stored;
        assert_eq!(row_of(&interval, received_wall_ns, loss.as_ref()), row);
        (interval.v1_ticks, row[11]) = (None, NONE);
        assert_eq!(row_of(&interval, row[RECEIVED], None)[31..IN_EVERY_CHUNK], [NONE; 9]);
        assert_eq!(row_of(&interval, row[RECEIVED], None)[11], NONE);
        assert_eq!(COLUMNS[SOURCE].name, "source");
    }

    #[test]
    fn columns_refer_to_earlier_ones() {
        for (at, column) in COLUMNS.iter().enumerate() {
            if let Continues(other) | Alongside(other) | Minus(other) = column.coding {
                assert!(other < at, "{}", column.name);
            }
        }
        assert_eq!(COLUMNS[END_WALL].name, "end_wall_ns");
        assert_eq!(COLUMNS[RECEIVED].name, "received_wall_ns");
        assert_eq!(COLUMNS[SEQUENCE].name, "sequence");
        assert_eq!(COLUMNS[SHIFT].name, "wall_shift_ns");
        assert_eq!(COLUMNS[TRUST].name, "trust");
    }
}
