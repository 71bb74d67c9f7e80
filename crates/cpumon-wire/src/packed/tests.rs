//! Packing and back: any record that is packed comes back bit by bit, and hostile bytes cost a bounded amount.

use proptest::prelude::*;

use super::grid::Grid;
use super::*;
use crate::spool::{RECORD_HEADER_BYTES, push_snapshot};
use crate::v2::columns::{ColumnDescription, ColumnKind};

fn record(number: u64, is_full: bool, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut record = Vec::new();
    assert!(push_snapshot(&mut record, number, 5, is_full, frames));
    record
}

/// A frame of any sections behind a header of zeros.
fn frame(sections: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut frame = vec![0; crate::v2::HEADER_BYTES];
    frame[5] = 87;
    for (kind, body) in sections {
        frame.push(*kind);
        frame.extend_from_slice(&u16::try_from(body.len()).unwrap().to_le_bytes());
        frame.extend_from_slice(body);
    }
    frame
}

/// Packs and unpacks; whether it was packed.
fn both_ways(packer: &mut Packer, unpacker: &mut Unpacker, record: &[u8]) -> bool {
    let (mut packed, mut back) = (Vec::new(), Vec::new());
    if !packer.pack(record, &mut packed) {
        assert!(packed.is_empty());
        return false;
    }
    let cost = unpacker.unpack(&packed, &mut back).unwrap();
    assert!(back == record, "{} bytes came back as {}", record.len(), back.len());
    assert!(cost >= record.len() as u64);
    true
}

/// A table as an attacker could write it: any columns, any bits.
fn any_table() -> impl Strategy<Value = Vec<u8>> {
    let column = (0_u8..130, any::<u16>()).prop_map(|(id, bits)| {
        let [low, high] = bits.to_le_bytes();
        [id, low, high]
    });
    let columns = proptest::collection::vec(column, 0..12);
    (columns, 0_u8..4, 0_u16..40, proptest::collection::vec(any::<u8>(), 0..600)).prop_map(
        |(columns, groups, rows, bits)| {
            let mut body = vec![u8::try_from(columns.len()).unwrap(), groups];
            body.extend(columns.into_iter().flatten());
            body.extend(rows.to_le_bytes());
            body.extend(bits);
            body
        },
    )
}

/// A table that comes back: sound columns and values that fit them.
fn sound_table() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let column = (0_u8..130, any::<bool>(), 0_usize..8, any::<bool>());
    let columns = proptest::collection::vec(column, 1..9);
    (1_u8..10, columns, 0_usize..3, proptest::collection::vec(any::<u64>(), 0..90)).prop_map(
        |(kind, columns, groups, seeds)| {
            let mut grid = Grid::default();
            for (id, is_text, unit, zero_is_apart) in columns {
                let kind = if is_text { ColumnKind::Text } else { ColumnKind::Folded };
                // One that is there already stays.
                let _ =
                    grid.add_column(ColumnDescription { id, kind, prefix: 7, min: 1, zero_is_apart, unit });
            }
            grid.groups = groups.min(grid.columns.len());
            for row in seeds.chunks_exact(grid.columns.len()) {
                for (planned, &seed) in grid.columns.clone().iter().zip(row) {
                    let value = if planned.column.kind == ColumnKind::Text {
                        let text = &b"abcdefghij"[..usize::try_from(seed % 10).unwrap()];
                        grid.put_text(text, grid.rows(), 0).unwrap()
                    } else {
                        // Often the same, seldom far away.
                        (seed >> (seed % 40 + 20)) / planned.unit * planned.unit
                    };
                    grid.values.push(value);
                }
            }
            let mut section = Vec::new();
            // A value that does not fit its column leaves a section that is cut.
            let _ = grid.write(kind, &mut section);
            (kind, section.get(3..).unwrap_or_default().to_vec())
        },
    )
}

/// Symbols as a hostile device could send them: zstd is no protection, so it is left out of the way.
fn packed_symbols(symbols: &[u8], bits: &[u8]) -> Vec<u8> {
    let (mut compressed, mut packed) = (Vec::new(), vec![0; 4]);
    Compressor::new().unwrap().compress(symbols, &mut compressed).unwrap();
    varint::push(&mut packed, compressed.len() as u64);
    packed.extend_from_slice(&compressed);
    packed.extend_from_slice(bits);
    packed
}

proptest! {
    #[test]
    fn records_of_any_tables_come_back(
        snapshots in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec((0_u8..12, any_table()), 0..4),
             proptest::collection::vec(sound_table(), 0..4)), 1..12),
    ) {
        let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
        for (number, (is_full, any, sound)) in (1..).zip(&snapshots) {
            let frames = [frame(any), frame(sound), frame(sound)];
            prop_assert!(both_ways(&mut packer, &mut unpacker, &record(number * 3, *is_full, &frames)));
        }
    }

    #[test]
    fn records_that_are_no_frames_are_sent_as_they_are(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..4),
        cut in 0_usize..40,
    ) {
        let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
        let mut record = record(1, true, &frames);
        record.truncate(record.len() - cut.min(record.len()));
        both_ways(&mut packer, &mut unpacker, &record);
    }

    #[test]
    fn any_bytes_are_refused(
        packed in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..4),
    ) {
        let (mut unpacker, mut out) = (Unpacker::default(), Vec::new());
        for packed in packed {
            prop_assert!(unpacker.unpack(&packed, &mut out).is_err());
            prop_assert!(out.capacity() < 2 * MAX_RECORD_BYTES);
        }
    }

    #[test]
    fn any_symbols_are_refused_or_cost_a_bounded_amount(
        symbols in proptest::collection::vec(prop_oneof![0_u8..6, any::<u8>()], 0..600),
        bits in proptest::collection::vec(any::<u8>(), 0..200),
        table in any_table(),
    ) {
        // Behind the beginning of a sound record, so that tables are reached.
        let mut start = vec![1, 0, form::TABLE, 87];
        start.extend([0; 87 - 28]);
        start[4 + 5] = 87;
        for symbols in [symbols.clone(), [&start[..], &symbols].concat(), [&start[..], &[1, 5], &table].concat()] {
            let (mut unpacker, mut out) = (Unpacker::default(), Vec::new());
            let unpacked = unpacker.unpack(&packed_symbols(&symbols, &bits), &mut out);
            // An attacker can compute a checksum, but this one did not.
            prop_assert!(unpacked.is_err() || out.len() == RECORD_HEADER_BYTES);
            prop_assert!(out.capacity() < 1 << 20);
        }
    }
}

/// A table of threads: process 1, and `count` threads with ids from `first` on, each with one number.
fn threads(first: u64, count: u64) -> Vec<u8> {
    let column = |id, min| ColumnDescription {
        id,
        kind: ColumnKind::Fixed,
        prefix: 0,
        min,
        zero_is_apart: false,
        unit: 0,
    };
    let folded = ColumnDescription { kind: ColumnKind::Prefixed, prefix: 7, ..column(3, 0) };
    let mut grid = Grid { groups: 1, ..Grid::default() };
    [column(1, 1), folded, column(6, 40)].into_iter().try_for_each(|one| grid.add_column(one)).unwrap();
    for at in 0..count {
        grid.values.extend([1, first + at, (first + at) * 1_000]);
    }
    let mut section = Vec::new();
    grid.write(section::THREADS, &mut section).unwrap();
    section.split_off(3)
}

#[test]
fn what_is_remembered_is_bounded_and_the_rest_comes_back_too() {
    let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
    for number in 1..=20 {
        let frame = frame(&[(section::THREADS, threads(number * 5_000, 5_000))]);
        assert!(both_ways(&mut packer, &mut unpacker, &record(number, false, &[frame])));
    }
    let remembered = unpacker.state.tables.remembered();
    assert_eq!(remembered, packer.state.tables.remembered());
    assert_eq!(remembered, 1 << 15, "100,000 were sent");
    let frame = frame(&[(section::THREADS, threads(5_000, 10))]);
    assert!(both_ways(&mut packer, &mut unpacker, &record(21, true, &[frame])));
    assert_eq!(unpacker.state.tables.remembered(), 10, "a full snapshot has all that live");
}

#[test]
fn a_record_of_many_values_costs_its_sender_what_it_becomes() {
    let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
    let frames = vec![frame(&[(section::THREADS, threads(1, 5_000))]); 100];
    assert!(both_ways(&mut packer, &mut unpacker, &record(1, true, &frames)));
    let (mut packed, mut back) = (Vec::new(), Vec::new());
    let record = record(2, true, &frames);
    assert!(packer.pack(&record, &mut packed));
    let cost = unpacker.unpack(&packed, &mut back).unwrap();
    assert!(back == record && packed.len() * 20 < record.len());
    let rows_at_the_end = 5_000;
    assert_eq!(cost, record.len() as u64 + 100 * 5_000 * 3 + rows_at_the_end);
}

#[test]
fn the_end_of_a_record_costs_the_rows_that_it_visits() {
    let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
    let first = record(1, true, &[frame(&[(section::THREADS, threads(1, 5_000))])]);
    assert!(both_ways(&mut packer, &mut unpacker, &first));
    let mut cost_of = |number: u64, sections: &[(u8, Vec<u8>)]| {
        let (mut packed, mut back) = (Vec::new(), Vec::new());
        let record = record(number, false, &[frame(sections)]);
        assert!(packer.pack(&record, &mut packed));
        unpacker.unpack(&packed, &mut back).unwrap() - record.len() as u64
    };
    assert_eq!(cost_of(2, &[]), 0, "nothing ended, so no row is visited");
    assert_eq!(cost_of(3, &[(section::THREADS, threads(7, 1))]), 3);
    assert_eq!(cost_of(4, &[(section::EXITS, threads(7, 1))]), 3 + 5_000);
    assert_eq!(cost_of(5, &[]), 0);
}

#[test]
fn unpacking_asks_before_each_section_whether_to_go_on() {
    let tables = vec![(section::THREADS, threads(1, 10)); 50];
    let (mut packed, mut back) = (Vec::new(), Vec::new());
    assert!(Packer::default().pack(&record(1, true, &[frame(&tables)]), &mut packed));
    let mut asked = 0;
    let mut goes_on = || {
        asked += 1;
        asked < 7
    };
    assert_eq!(Unpacker::default().unpack_while(&packed, &mut back, &mut goes_on), Err(PackedError));
    assert_eq!(asked, 7);
    assert!(Unpacker::default().unpack_while(&packed, &mut back, &mut || true).is_ok());
}

#[test]
fn what_is_over_a_limit_is_sent_as_it_is_and_does_not_matter_to_the_rest() {
    let (mut packer, mut unpacker, mut packed) = (Packer::default(), Unpacker::default(), Vec::new());
    let long = vec![frame(&[(200, vec![7; 60_000])]); 300];
    assert!(!packer.pack(&record(1, true, &long), &mut packed), "longer than a message");
    let many = vec![frame(&[(section::THREADS, threads(1, 5_000))]); 150];
    assert!(!packer.pack(&record(2, true, &many), &mut packed), "more than 2^21 values");
    assert!(both_ways(&mut packer, &mut unpacker, &record(3, true, &many[..10])));
}

/// The longest valid record that a few bytes can become, and how long that takes: a device pays for it by its allowance.
#[test]
fn the_worst_valid_record_is_bounded_in_space_and_time() {
    let section = (200_u8, vec![7; 60_000]);
    let frames = vec![frame(&[section.clone(), section.clone(), section.clone(), section]); 69];
    let record = record(1, true, &frames);
    assert!((16_000_000..=MAX_RECORD_BYTES).contains(&record.len()));
    let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
    let begin = std::time::Instant::now();
    assert!(both_ways(&mut packer, &mut unpacker, &record));
    assert!(begin.elapsed() < std::time::Duration::from_secs(20));
    assert!(unpacker.symbols.capacity() <= 256 << 10 && packer.writer_bytes() <= 512 << 10);
}

#[test]
fn a_bomb_of_symbols_is_refused() {
    let packed = packed_symbols(&vec![form::BYTES; MAX_SYMBOLS + 1], &[]);
    assert!(packed.len() < 16 << 10);
    let (mut unpacker, mut out) = (Unpacker::default(), Vec::new());
    assert_eq!(unpacker.unpack(&packed, &mut out), Err(PackedError));
    assert!(out.capacity() <= 1 << 20 && unpacker.symbols.capacity() <= 256 << 10);
}
