//! What is known about an interval as a whole, as a fixed row of numbers. The columns of table `interval`, the order of binding
//! and reading them, and the columns of a chunk are one list, [`COLUMNS`].

use cpumon_model::{
    BootId, Fields, Flags, HostId, Interval, Ledger, LossCounts, Moment, SourceHealth, SourceKind, Trust,
};

use super::varint::{self, Cursor, Malformed, write_section};
use crate::rows::signed;

/// How a column is written in a chunk. Every way wraps, so that any numbers come back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum ColumnCoding {
    /// The value itself.
    Plain,
    /// Less the value before.
    Delta,
    /// Less the value before in that other column: an interval begins where the one before ended.
    Continues(usize),
    /// Its growth less the growth of that other column: clocks run alike.
    Alongside(usize),
    /// Less that other column of the same row.
    Minus(usize),
}

/// Number of columns.
pub(crate) const COUNT: usize = 42;
/// Number of columns that each chunk has; those behind them are written only up to the last one that is not zero, and are the last
/// ones of table `interval`.
pub(crate) const IN_EVERY_CHUNK: usize = 40;
/// Position of `wall_shift_ns`: the device's own wall clock less `end_wall_ns`.
pub(crate) const SHIFT: usize = 40;
/// Position of `trust`: how the interval came in, see [`trust_code`].
pub(crate) const TRUST: usize = 41;

/// The fields that the store has columns for. The rest of what a source measures reads as no data.
const CARRIED: Fields = Fields::FIRST_RELEASE
    .union(Fields::SCHED)
    .union(Fields::WAITS)
    .union(Fields::IRQ)
    .union(Fields::HISTOGRAMS)
    .union(Fields::CGROUPS);

/// A value that is not there; NULL in SQL.
pub(crate) const NONE: i64 = i64::MIN;

/// One interval's numbers, in the order of [`COLUMNS`]. Unsigned values are stored as signed ones of the same bits.
pub(crate) type MetaRow = [i64; COUNT];

/// Position of `end_mono_ns`: ns of the device's `CLOCK_MONOTONIC`.
pub(crate) const END_MONO: usize = 1;
/// Position of `end_wall_ns`: ns since the epoch, on the time line.
pub(crate) const END_WALL: usize = 2;
/// Position of `end_boot_ns`: ns of the device's `CLOCK_BOOTTIME`.
pub(crate) const END_BOOT: usize = 3;
/// Position of `begin_mono_ns`: ns of the device's `CLOCK_MONOTONIC`.
pub(crate) const BEGIN_MONO: usize = 4;
/// Position of `begin_wall_ns`: ns since the epoch, on the time line.
pub(crate) const BEGIN_WALL: usize = 5;
/// Position of `fields`: bits of [`Fields`].
const FIELDS: usize = 9;
/// Position of `flags`: bits of [`Flags`].
const FLAGS: usize = 10;
/// Position of `capacity_ns`; the ledger's other lines follow.
pub(crate) const CAPACITY: usize = 15;
/// Position of `sequence`: the number of the snapshot at the end.
pub(crate) const SEQUENCE: usize = 0;
/// Position of `received_wall_ns`: ns since the epoch, on the receiver's clock.
pub(crate) const RECEIVED: usize = 7;

/// Names as in table `interval`, and how a chunk writes them. A column refers to earlier ones only.
pub(crate) const COLUMNS: [(&str, ColumnCoding); COUNT] = [
    ("sequence", ColumnCoding::Delta),
    ("end_mono_ns", ColumnCoding::Delta),
    ("end_wall_ns", ColumnCoding::Alongside(END_MONO)),
    ("end_boot_ns", ColumnCoding::Alongside(END_MONO)),
    ("begin_mono_ns", ColumnCoding::Continues(END_MONO)),
    ("begin_wall_ns", ColumnCoding::Continues(END_WALL)),
    ("begin_boot_ns", ColumnCoding::Continues(END_BOOT)),
    ("received_wall_ns", ColumnCoding::Minus(END_WALL)),
    ("source", ColumnCoding::Delta),
    ("fields", ColumnCoding::Delta),
    ("flags", ColumnCoding::Delta),
    ("v1_ticks", ColumnCoding::Delta),
    ("pass_ns", ColumnCoding::Plain),
    ("thread_count", ColumnCoding::Delta),
    ("process_count", ColumnCoding::Delta),
    ("capacity_ns", ColumnCoding::Delta),
    ("threads_ns", ColumnCoding::Plain),
    ("exited_ns", ColumnCoding::Plain),
    ("irq_ns", ColumnCoding::Plain),
    ("softirq_ns", ColumnCoding::Plain),
    ("steal_ns", ColumnCoding::Plain),
    ("idle_ns", ColumnCoding::Plain),
    ("irq_in_run_time", ColumnCoding::Delta),
    ("tasks_vanished", ColumnCoding::Delta),
    ("permission_denied", ColumnCoding::Delta),
    ("malformed", ColumnCoding::Delta),
    ("exits_lost", ColumnCoding::Delta),
    ("intervals_late", ColumnCoding::Delta),
    ("intervals_skipped", ColumnCoding::Delta),
    ("own_cpu_ns", ColumnCoding::Delta),
    ("own_rss_bytes", ColumnCoding::Delta),
    ("datagrams", ColumnCoding::Delta),
    ("datagram_bytes", ColumnCoding::Delta),
    ("snapshots", ColumnCoding::Delta),
    ("snapshots_lost", ColumnCoding::Delta),
    ("snapshots_partial", ColumnCoding::Delta),
    ("duplicates", ColumnCoding::Delta),
    ("reordered", ColumnCoding::Delta),
    ("rejected", ColumnCoding::Delta),
    ("store_dropped", ColumnCoding::Delta),
    ("wall_shift_ns", ColumnCoding::Delta),
    ("trust", ColumnCoding::Delta),
];

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

/// Whether [`trust_code`] gives this number.
#[cfg(feature = "bundled")]
pub(crate) fn is_trust_code(code: i64) -> bool {
    code == 0 || trust_of(code).is_some()
}

/// The reverse of [`trust_code`]; `None` for a number that it never gives, too.
fn trust_of(code: i64) -> Option<Trust> {
    let all = [Trust::Unauthenticated, Trust::Imported, Trust::Encrypted, Trust::Authenticated, Trust::Local];
    all.into_iter().find(|trust| trust_code(Some(*trust)) == code)
}

/// The numbers of `interval`.
pub(crate) fn row_of(interval: &Interval, received_wall_ns: i64, loss: Option<&LossCounts>) -> MetaRow {
    let (ledger, health) = (&interval.ledger, &interval.health);
    let [lost_0, lost_1, lost_2, lost_3, lost_4, lost_5, lost_6, lost_7, lost_8] = loss_row(loss);
    [
        interval.sequence.cast_signed(),
        interval.end.mono_ns.cast_signed(),
        interval.end.wall_ns,
        interval.end.boot_ns.cast_signed(),
        interval.begin.mono_ns.cast_signed(),
        interval.begin.wall_ns,
        interval.begin.boot_ns.cast_signed(),
        received_wall_ns,
        i64::from(interval.source.code()),
        i64::from(interval.fields.intersection(CARRIED).bits()),
        i64::from(interval.flags.bits()),
        interval.v1_ticks.unwrap_or(NONE),
        interval.pass_ns.cast_signed(),
        i64::from(interval.thread_count),
        i64::from(interval.process_count),
        ledger.capacity_ns,
        ledger.threads_ns,
        ledger.exited_ns,
        ledger.irq_ns,
        ledger.softirq_ns,
        ledger.steal_ns,
        ledger.idle_ns,
        i64::from(ledger.irq_in_run_time),
        health.tasks_vanished.cast_signed(),
        health.permission_denied.cast_signed(),
        health.malformed.cast_signed(),
        health.exits_lost.cast_signed(),
        health.intervals_late.cast_signed(),
        health.intervals_skipped.cast_signed(),
        health.own_cpu_ns.cast_signed(),
        health.own_rss_bytes.cast_signed(),
        lost_0,
        lost_1,
        lost_2,
        lost_3,
        lost_4,
        lost_5,
        lost_6,
        lost_7,
        lost_8,
        interval.wall_shift_ns,
        trust_code(interval.trust),
    ]
}

fn loss_row(loss: Option<&LossCounts>) -> [i64; 9] {
    loss.map_or([NONE; 9], |loss| {
        [
            loss.datagrams,
            loss.bytes,
            loss.snapshots,
            loss.snapshots_lost,
            loss.snapshots_partial,
            loss.duplicates,
            loss.reordered,
            loss.rejected,
            loss.store_dropped,
        ]
        .map(u64::cast_signed)
    })
}

/// Sets everything of an interval but its lists, which are filled elsewhere into the same buffers.
pub(crate) fn apply(row: &MetaRow, host: HostId, boot: BootId, interval: &mut Interval) {
    let unsigned = |at: usize| row[at].cast_unsigned();
    let small = |at: usize| u32::try_from(row[at]).unwrap_or(0);
    interval.host = host;
    interval.boot = boot;
    interval.sequence = unsigned(SEQUENCE);
    interval.end =
        Moment { mono_ns: unsigned(END_MONO), wall_ns: row[END_WALL], boot_ns: unsigned(END_BOOT) };
    interval.begin = Moment { mono_ns: unsigned(4), wall_ns: row[5], boot_ns: unsigned(6) };
    (interval.wall_shift_ns, interval.clock_piece) = (row[SHIFT], None);
    interval.trust = trust_of(row[TRUST]);
    interval.source = SourceKind::from_code(u8::try_from(row[8]).unwrap_or(0));
    interval.fields = fields_of(row);
    interval.flags = flags_of(row);
    interval.v1_ticks = (row[11] != NONE).then_some(row[11]);
    interval.pass_ns = unsigned(12);
    interval.thread_count = small(13);
    interval.process_count = small(14);
    interval.ledger = Ledger {
        capacity_ns: row[15],
        threads_ns: row[16],
        exited_ns: row[17],
        irq_ns: row[18],
        softirq_ns: row[19],
        steal_ns: row[20],
        idle_ns: row[21],
        // No column: it comes with the host's events (`host_sched`), where they are measured.
        unknown_ns: 0,
        irq_in_run_time: row[22] != 0,
    };
    interval.health = SourceHealth {
        tasks_vanished: unsigned(23),
        permission_denied: unsigned(24),
        malformed: unsigned(25),
        exits_lost: unsigned(26),
        intervals_late: unsigned(27),
        intervals_skipped: unsigned(28),
        own_cpu_ns: unsigned(29),
        own_rss_bytes: unsigned(30),
        // The other counts come with the host's events. The buffer is reused, so the last interval's must go.
        ..SourceHealth::default()
    };
}

/// Measured length of the interval, ns.
pub(crate) fn length_ns(row: &MetaRow) -> i64 {
    row[END_MONO].saturating_sub(row[BEGIN_MONO]).max(0)
}

/// [`Ledger::measured_in_ns`] of the interval.
pub(crate) fn measured_in_ns(row: &MetaRow) -> i64 {
    // The first lines of the ledger are neighbours.
    let [capacity_ns, threads_ns, exited_ns] = std::array::from_fn(|at| row[CAPACITY + at]);
    let ledger = Ledger { capacity_ns, threads_ns, exited_ns, ..Ledger::default() };
    signed(ledger.measured_in_ns(length_ns(row).unsigned_abs()))
}

/// What is odd about the interval.
pub(crate) fn flags_of(row: &MetaRow) -> Flags {
    Flags::from_bits_retain(u16::try_from(row[FLAGS]).unwrap_or(0))
}

/// Which counters are known.
pub(crate) fn fields_of(row: &MetaRow) -> Fields {
    Fields::from_bits_retain(u32::try_from(row[FIELDS]).unwrap_or(0))
}

/// The loss counts of a row, if it has some.
pub(crate) fn loss_of(row: &MetaRow) -> Option<LossCounts> {
    let unsigned = |at: usize| row[at].cast_unsigned();
    // The nine counts are there together or not at all (`loss_row`).
    (row[31] != NONE).then(|| LossCounts {
        datagrams: unsigned(31),
        bytes: unsigned(32),
        snapshots: unsigned(33),
        snapshots_lost: unsigned(34),
        snapshots_partial: unsigned(35),
        duplicates: unsigned(36),
        reordered: unsigned(37),
        rejected: unsigned(38),
        store_dropped: unsigned(39),
    })
}

/// What a column's value is written as the difference to.
#[inline]
fn expected(coding: ColumnCoding, at: usize, row: &MetaRow, before: &MetaRow) -> i64 {
    match coding {
        ColumnCoding::Plain => 0,
        ColumnCoding::Delta => before[at],
        ColumnCoding::Continues(other) => before[other],
        ColumnCoding::Alongside(other) => before[at].wrapping_add(row[other].wrapping_sub(before[other])),
        ColumnCoding::Minus(other) => row[other],
    }
}

/// Writes the numbers of all intervals, column by column.
pub(crate) fn write_meta(rows: &[MetaRow], out: &mut Vec<u8>) {
    let mut column = Vec::new();
    // The last columns are written by `write_optional`, behind what older versions wrote.
    for (at, (_, coding)) in COLUMNS.iter().take(IN_EVERY_CHUNK).enumerate() {
        column.clear();
        let mut before = &[0; COUNT];
        for row in rows {
            varint::write_signed(&mut column, row[at].wrapping_sub(expected(*coding, at, row, before)));
            before = row;
        }
        write_section(out, &column);
    }
}

/// Reads what [`write_meta`] wrote into `rows`, which has the right length.
pub(crate) fn read_meta(cursor: &mut Cursor<'_>, rows: &mut [MetaRow]) -> Result<(), Malformed> {
    // Column by column: `expected` uses columns of the same row that were read before.
    for (at, (_, coding)) in COLUMNS.iter().take(IN_EVERY_CHUNK).enumerate() {
        let mut column = cursor.section()?;
        let mut before = [0; COUNT];
        for row in rows.iter_mut() {
            row[at] = column.i64()?.wrapping_add(expected(*coding, at, row, &before));
            before = *row;
        }
    }
    Ok(())
}

/// Writes the columns that a chunk may leave out, up to the last one that is not zero somewhere.
pub(crate) fn write_optional(rows: &[MetaRow], out: &mut Vec<u8>) {
    let is_needed = |at: &usize| rows.iter().any(|row| row[*at] != 0);
    let end = (IN_EVERY_CHUNK..COUNT).rfind(is_needed).map_or(IN_EVERY_CHUNK, |last| last + 1);
    for at in IN_EVERY_CHUNK..end {
        let (mut column, mut before) = (Vec::new(), 0_i64);
        for row in rows {
            varint::write_signed(&mut column, row[at].wrapping_sub(before));
            before = row[at];
        }
        write_section(out, &column);
    }
}

/// Reads what [`write_optional`] wrote; columns that are not there are zero.
pub(crate) fn read_optional(cursor: &mut Cursor<'_>, rows: &mut [MetaRow]) -> Result<(), Malformed> {
    for at in IN_EVERY_CHUNK..COUNT {
        // Chunks of stores before schema version 7 have none of them, those before version 10 the first at most.
        if cursor.remaining() == 0 {
            return Ok(());
        }
        let (mut column, mut before) = (cursor.section()?, 0_i64);
        for row in rows.iter_mut() {
            before = before.wrapping_add(column.i64()?);
            row[at] = before;
        }
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
        let mut interval = Interval::default();
        apply(&row, HostId([1; 16]), BootId([2; 16]), &mut interval);
        assert_eq!(row_of(&interval, row[RECEIVED], loss_of(&row).as_ref()), row);
        (interval.v1_ticks, row[11]) = (None, NONE);
        assert_eq!(row_of(&interval, row[RECEIVED], None)[31..IN_EVERY_CHUNK], [NONE; 9]);
        assert_eq!(row_of(&interval, row[RECEIVED], None)[11], NONE);
    }

    #[test]
    fn columns_refer_to_earlier_ones() {
        for (at, (name, coding)) in COLUMNS.iter().enumerate() {
            if let ColumnCoding::Continues(other)
            | ColumnCoding::Alongside(other)
            | ColumnCoding::Minus(other) = coding
            {
                assert!(*other < at, "{name}");
            }
        }
        assert_eq!(COLUMNS[END_WALL].0, "end_wall_ns");
        assert_eq!(COLUMNS[RECEIVED].0, "received_wall_ns");
        assert_eq!(COLUMNS[SEQUENCE].0, "sequence");
        assert_eq!(COLUMNS[SHIFT].0, "wall_shift_ns");
        assert_eq!(COLUMNS[TRUST].0, "trust");
    }
}
