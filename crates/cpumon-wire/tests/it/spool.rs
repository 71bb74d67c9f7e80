//! Segments of a spool: what went in comes out, and whatever happens to the bytes, nothing else does.

use cpumon_model::{BootId, HostId};
use cpumon_wire::spool::{
    DamageReason, Entry, Gap, GapReason, Origin, RECORD_HEADER_BYTES, Records, STATE_BYTES, SegmentHeader,
    State, Step, push_gap, push_snapshot,
};
use proptest::prelude::*;

/// A record, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Record {
    Snapshot { number: u64, wall_ns: i64, is_full: bool, frames: Vec<Vec<u8>> },
    Gap(Gap),
}

/// The result of reading a segment.
#[derive(Debug, Default)]
struct Read {
    records: Vec<Record>,
    damaged: Vec<DamageReason>,
    tail_bytes: usize,
}

fn header() -> SegmentHeader {
    SegmentHeader {
        spool: [7; 16],
        origin: Origin { host: HostId([1; 16]), boot: BootId([2; 16]) },
        first: 1,
        spool_begin_wall_ns: 40,
        begin_wall_ns: 50,
    }
}

fn write(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    header().push(&mut out);
    for record in records {
        match record {
            Record::Snapshot { number, wall_ns, is_full, frames } => {
                assert!(push_snapshot(&mut out, *number, *wall_ns, *is_full, frames));
            }
            Record::Gap(gap) => push_gap(&mut out, gap),
        }
    }
    out
}

fn read(segment: &[u8]) -> Read {
    let mut read = Read::default();
    let mut records = match Records::new(segment) {
        Ok(records) => records,
        Err(damaged) => {
            read.damaged.push(damaged.reason);
            return read;
        }
    };
    loop {
        match records.step() {
            Step::Entry(Entry::Snapshot(snapshot)) => read.records.push(Record::Snapshot {
                number: snapshot.number,
                wall_ns: snapshot.wall_ns,
                is_full: snapshot.is_full,
                frames: snapshot.frames().map(<[u8]>::to_vec).collect(),
            }),
            Step::Entry(Entry::Gap(gap)) => read.records.push(Record::Gap(gap)),
            Step::Entry(Entry::Unknown(number)) => panic!("an unknown record {number}"),
            Step::Damaged(damaged) => read.damaged.push(damaged.reason),
            Step::End { tail_bytes } => {
                read.tail_bytes = tail_bytes;
                assert_eq!(records.step(), Step::End { tail_bytes: 0 });
                return read;
            }
        }
    }
}

fn three() -> Vec<Record> {
    let snapshot = |number: u64, frames: &[&[u8]]| Record::Snapshot {
        number,
        wall_ns: 1_000 * number.cast_signed(),
        is_full: number == 1,
        frames: frames.iter().map(|frame| frame.to_vec()).collect(),
    };
    let (begin_wall_ns, end_wall_ns) = (1_000, 4_000);
    let gap = Gap { first: 2, last: 3, begin_wall_ns, end_wall_ns, reason: GapReason::NoSpace };
    vec![snapshot(1, &[b"a frame", b"", b"another"]), Record::Gap(gap), snapshot(4, &[b"the last one"])]
}

/// Records with ascending numbers.
fn records() -> impl Strategy<Value = Vec<Record>> {
    let frames = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..4);
    let kind = prop_oneof![
        3 => (any::<bool>(), frames).prop_map(Some),
        1 => Just(None),
    ];
    prop::collection::vec((1..5_u64, any::<i64>(), any::<i64>(), 0..6_u8, kind), 0..12).prop_map(|rows| {
        let mut number = 0;
        let of_row = |(jump, wall_ns, begin_wall_ns, reason, kind): (u64, i64, i64, u8, Option<_>)| {
            let first = number + 1;
            number += jump;
            match kind {
                Some((is_full, frames)) => Record::Snapshot { number, wall_ns, is_full, frames },
                None => Record::Gap(Gap {
                    first,
                    last: number,
                    begin_wall_ns,
                    end_wall_ns: wall_ns,
                    reason: GapReason::from_code(reason),
                }),
            }
        };
        rows.into_iter().map(of_row).collect()
    })
}

proptest! {
    #[test]
    fn what_went_into_a_segment_comes_out(records in records()) {
        let segment = write(&records);
        prop_assert_eq!(*Records::new(&segment).unwrap().header(), header());
        let read = read(&segment);
        prop_assert_eq!(read.records, records);
        prop_assert!(read.damaged.is_empty() && read.tail_bytes == 0);
    }

    #[test]
    fn bytes_of_any_kind_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes);
        let mut behind_a_header = write(&[]);
        behind_a_header.extend_from_slice(&bytes);
        let read = read(&behind_a_header);
        prop_assert!(read.records.is_empty());
        prop_assert!(bytes.is_empty() || read.tail_bytes > 0 || !read.damaged.is_empty());
    }
}

#[test]
fn a_torn_tail_at_every_byte_of_the_last_record_costs_that_record_only() {
    let records = three();
    let whole = write(&records);
    let last_at = write(&records[..2]).len();
    for length in last_at..whole.len() {
        let read = read(&whole[..length]);
        assert_eq!(read.records, records[..2], "cut at {length}");
        assert_eq!((read.damaged.len(), read.tail_bytes), (0, length - last_at), "cut at {length}");
        // The same, where the file system made the file longer and did not write the bytes.
        let mut zeros = whole[..last_at].to_vec();
        zeros.resize(length, 0);
        let read = self::read(&zeros);
        assert_eq!((read.records.len(), read.damaged.len(), read.tail_bytes), (2, 0, length - last_at));
    }
}

#[test]
fn a_flipped_bit_is_seen_and_never_makes_another_record() {
    let records = three();
    let whole = write(&records);
    for at in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        let read = read(&flipped);
        let is_seen = !read.damaged.is_empty() || read.tail_bytes > 0;
        assert!(is_seen && read.records.len() < records.len(), "bit {at}: {read:?}");
        assert!(read.records.iter().all(|record| records.contains(record)), "bit {at}: {read:?}");
    }
}

#[test]
fn a_damaged_payload_does_not_hide_the_records_behind_it() {
    let records = three();
    let mut segment = write(&records);
    let payload_at = write(&[]).len() + RECORD_HEADER_BYTES;
    segment[payload_at + 5] ^= 0x10;
    let read = read(&segment);
    assert_eq!(read.records, records[1..]);
    assert_eq!(read.damaged, [DamageReason::Payload]);
}

#[test]
fn a_record_inside_a_payload_is_none_of_the_segment() {
    // A process can call itself anything: its name must not become a record when the head before it is damaged.
    let mut inner = Vec::new();
    push_snapshot(&mut inner, 77, 0, true, &[b"made up"]);
    let record = Record::Snapshot { number: 1, wall_ns: 0, is_full: true, frames: vec![inner] };
    let mut segment = write(&[record]);
    let head_at = write(&[]).len();
    segment[head_at] ^= 1;
    let read = read(&segment);
    assert!(read.records.is_empty());
    assert_eq!(read.damaged, [DamageReason::Head]);
}

#[test]
fn numbers_that_do_not_ascend_are_damage() {
    let mut segment = write(&three());
    push_snapshot(&mut segment, 4, 0, true, &[b"again"]);
    let read = read(&segment);
    assert_eq!(read.records, three());
    assert_eq!(read.damaged, [DamageReason::Order]);
}

#[test]
fn a_state_torn_at_any_byte_leaves_the_one_before() {
    let lost = Gap { first: 3, last: 8, begin_wall_ns: -1, end_wall_ns: 9, reason: GapReason::DiskFailed };
    let before = State {
        generation: 6,
        next: 9,
        spool: [3; 16],
        begin_wall_ns: 5,
        lost: Some(lost),
        acked: 4,
        dropped_begin_wall_ns: 2,
        dropped_reason: GapReason::NoSpace,
    };
    let after = State { generation: 7, next: 12, lost: None, ..before };
    let mut file = vec![0; STATE_BYTES];
    let put = |file: &mut [u8], state: &State, bytes: usize| {
        let (at, slot) = state.slot();
        let at = usize::try_from(at).unwrap();
        file[at..at + bytes].copy_from_slice(&slot[..bytes]);
        slot.len()
    };
    let length = put(&mut file, &before, before.slot().1.len());
    assert_eq!(State::decode(&file), Some(before));
    for bytes in 0..length {
        let mut torn = file.clone();
        put(&mut torn, &after, bytes);
        let found = State::decode(&torn);
        assert!(found == Some(before) || found == Some(after), "{bytes}: {found:?}");
    }
    put(&mut file, &after, length);
    assert_eq!(State::decode(&file), Some(after));
    assert_eq!(State::decode(&[]), None);
}
