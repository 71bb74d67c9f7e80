//! Any bytes: decoders refuse or take them, but never panic and never hoard memory.

use cpumon_model::{CpuTimes, Interval, WaitFor, WaitKind, WaitReason};
use cpumon_wire::connection::{ChannelKind, MAX_MESSAGE_BYTES, Message};
use cpumon_wire::dns_sd::{Instance, PORT, read_answer, read_query};
use cpumon_wire::spool::{Entry, Records, Step, decode_record, push_snapshot};
use cpumon_wire::v2::{Encoder, EncoderOptions};
use cpumon_wire::{Datagrams, Reason, v1, v2};
use proptest::prelude::*;

use crate::damage::{damage, seeds};
use crate::machine::{Machine, Random};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = v1::decode(&bytes);
        let _ = v2::decode(&bytes);
        let framed = [&frame_header()[..], &bytes].concat();
        let _ = v2::decode(&framed);
    }
}

#[test]
fn a_refusal_names_the_column() {
    let mut machine = Machine::new(1, 3, 3, 1);
    machine.snapshot.cpus[1].times.steal_ns = CpuTimes::MAX_NS + 1;
    let mut out = Datagrams::new();
    let mut encoder = Encoder::new(EncoderOptions { max_datagram: 65_000, ..EncoderOptions::default() });
    encoder.encode(&machine.host, &machine.snapshot, &Interval::default(), &mut out);
    let refused = out.iter().find_map(|frame| v2::decode(frame).err()).unwrap();
    assert_eq!((refused.reason, refused.column), (Reason::OutOfRange, Some(71)));
    let text = refused.to_string();
    assert!(text.ends_with(", steal time of a CPU (column 71): a value out of range"), "{text}");
}

/// Whatever a fuzzer found worth keeping is read again: by its own parser and by all others.
#[test]
fn what_fuzzers_kept_is_read_without_a_panic() {
    let corpora = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus"));
    let own = Instance { name: "own".to_owned(), pin: [1; 32], addresses: Vec::new() };
    for target in ["connection", "sealed", "spool", "v1", "v2"] {
        let files = std::fs::read_dir(corpora.join(target)).unwrap();
        let inputs: Vec<Vec<u8>> = files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
        assert!(inputs.len() > 20, "{target}: {} inputs", inputs.len());
        for bytes in &inputs {
            let _ =
                (v1::decode(bytes), v2::decode(bytes), v2::decode(&[&frame_header()[..], bytes].concat()));
            let _ = (read_query(bytes, PORT, &own), read_answer(bytes, 0), decode_record(bytes));
            if let Ok(Some(length)) = Message::length(bytes, MAX_MESSAGE_BYTES) {
                let _ = Message::decode(&bytes[..length]);
            }
            let _ =
                Records::new(bytes).map(|mut records| while !matches!(records.step(), Step::End { .. }) {});
        }
    }
}

/// A header as any encoder writes it.
fn frame_header() -> Vec<u8> {
    let machine = Machine::new(1, 1, 1, 1);
    let mut out = Datagrams::new();
    Encoder::new(EncoderOptions::default()).encode(
        &machine.host,
        &machine.snapshot,
        &Interval::default(),
        &mut out,
    );
    out.as_slice()[0][..v2::HEADER_BYTES].to_vec()
}

/// A frame with one section.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_le_bytes();
    [&frame_header()[..], &[kind, length[0], length[1]], body].concat()
}

/// A column's description.
fn column(id: u8, kind: u16, prefix: u16, min: u16, unit: u16) -> [u8; 3] {
    let [low, high] = (kind | prefix << 2 | min << 5 | unit << 13).to_le_bytes();
    [id, low, high]
}

const THREADS: u8 = 5;
const CPUS: u8 = 3;
const WAITS_FOR: u8 = 11;

#[test]
fn each_kind_of_damage_is_named_with_its_place() {
    let sections = v2::HEADER_BYTES;
    let columns = |list: &[[u8; 3]], groups: u8, rows: u16, bits: &[u8]| {
        let count = u8::try_from(list.len()).unwrap();
        [&[count, groups][..], &list.concat(), &rows.to_le_bytes(), bits].concat()
    };
    let fixed_64 = column(6, 0, 0, 64, 0);
    let cases = [
        (frame_header()[..50].to_vec(), 50, Reason::Truncated),
        ([&frame_header()[..], &[5, 9]].concat(), sections, Reason::Truncated),
        (frame(THREADS, &[]), sections + 3, Reason::Truncated),
        (frame(THREADS, &[65, 0]), sections + 3, Reason::BadColumn),
        (frame(THREADS, &[1, 2]), sections + 3, Reason::BadColumn),
        // Column 6 twice.
        (frame(THREADS, &columns(&[fixed_64, fixed_64], 0, 0, &[])), sections + 8, Reason::BadColumn),
        (frame(THREADS, &columns(&[fixed_64], 0, 60_000, &[0; 20])), sections + 8, Reason::TooManyRows),
        (frame(THREADS, &columns(&[fixed_64], 0, 1, &[0; 7])), sections + 10, Reason::Truncated),
        // 2^63 seconds in ns.
        (
            frame(THREADS, &columns(&[column(6, 0, 0, 64, 7)], 0, 1, &[0xff; 8])),
            sections + 18,
            Reason::Overflow,
        ),
        // 127 bits more than the shortest.
        (
            frame(THREADS, &columns(&[column(6, 1, 7, 64, 0)], 0, 1, &[0xff; 9])),
            sections + 10,
            Reason::Overflow,
        ),
        // A thread id of 33 bits.
        (
            frame(THREADS, &columns(&[column(3, 0, 0, 33, 0)], 0, 1, &[0xff; 5])),
            sections + 14,
            Reason::OutOfRange,
        ),
        // Thread 1 twice.
        (frame(THREADS, &columns(&[column(3, 0, 0, 4, 0)], 0, 2, &[0x01])), sections + 11, Reason::Unsorted),
        (frame(CPUS, &columns(&[column(5, 0, 0, 4, 0)], 0, 2, &[0x01])), sections + 11, Reason::Unsorted),
        // 292 years of one CPU in one mode.
        (
            frame(CPUS, &columns(&[column(64, 0, 0, 63, 0)], 0, 1, &[0xff; 8])),
            sections + 17,
            Reason::OutOfRange,
        ),
        // The first row repeats the row before; a text longer than its section.
        (
            frame(THREADS, &columns(&[column(17, 2, 4, 0, 0)], 0, 1, &[0; 1])),
            sections + 10,
            Reason::NothingToRepeat,
        ),
        (
            frame(THREADS, &columns(&[column(17, 2, 4, 0, 0)], 0, 1, &[0xff; 3])),
            sections + 12,
            Reason::Truncated,
        ),
    ];
    for (at, (bytes, offset, reason)) in cases.into_iter().enumerate() {
        let error = v2::decode(&bytes).err().unwrap_or_else(|| panic!("case {at} decodes"));
        assert_eq!((error.reason, error.offset), (reason, offset), "case {at}");
    }
}

#[test]
fn waits_that_no_agent_has_are_rows_like_others_and_their_number_is_bounded() {
    let table = |columns: &[[u8; 3]], rows: u16, bits: &[u8]| {
        let count = u8::try_from(columns.len()).unwrap();
        let body = [&[count, 0][..], &columns.concat(), &rows.to_le_bytes(), bits].concat();
        let decoded = v2::decode(&frame(WAITS_FOR, &body));
        decoded.map(|frame| frame.waits_for).map_err(|error| error.reason)
    };
    // All ones: a reason and someone to wait for of later versions, times and counts of 64 bits.
    let widest =
        [(3, 32), (148, 64), (149, 8), (150, 64), (151, 64)].map(|(id, bits)| column(id, 0, 0, bits, 0));
    let kind = WaitKind::Blocked(WaitReason::OTHER);
    let waits = WaitFor { kind, ns: u64::MAX, count: u64::MAX, ..WaitFor::default() };
    assert_eq!(table(&widest, 1, &[0xff; 29]), Ok(vec![waits]));
    assert_eq!(table(&[column(3, 0, 0, 33, 0)], 1, &[0xff; 5]), Err(Reason::OutOfRange), "an id of 33 bits");
    let short = [column(150, 0, 0, 4, 0)];
    assert_eq!(table(&short, 4_096, &[0; 2_048]).map(|rows| rows.len()), Ok(4_096));
    assert_eq!(table(&short, 4_097, &[0; 2_049]).map(|rows| rows.len()), Err(Reason::TooManyRows));
}

#[test]
fn header_faults_are_named() {
    let good = frame_header();
    let with = |at: usize, bytes: &[u8]| {
        let mut header = good.clone();
        header[at..at + bytes.len()].copy_from_slice(bytes);
        v2::decode(&header)
            .map(|frame| frame.header.fragment_count)
            .map_err(|error| (error.offset, error.reason))
    };
    assert_eq!(with(0, b"c"), Ok(good[54].into()));
    assert_eq!(with(0, b"x"), Err((0, Reason::WrongMagic)));
    assert_eq!(with(4, &[3]), Err((4, Reason::UnknownVersion)));
    assert_eq!(with(5, &[86]), Err((5, Reason::HeaderTooShort)));
    assert_eq!(with(5, &[88]), Err((87, Reason::Truncated)));
    assert_eq!(with(52, &[9, 0, 9, 0]), Err((52, Reason::BadFragment)));
    assert_eq!(with(52, &[0, 0, 0, 0]), Err((52, Reason::BadFragment)));
    assert_eq!(with(52, &[0, 0, 0, 0x7f]), Err((52, Reason::BadFragment)));
    assert_eq!(with(52, &[8, 0, 9, 0]), Ok(9));
}

/// Messages of a secure connection, sound ones, with records of the spool in them.
fn messages() -> Vec<Vec<u8>> {
    let mut list = Vec::new();
    for (number, frames) in (1..).zip(seeds().chunks(4)) {
        let mut record = Vec::new();
        assert!(push_snapshot(&mut record, number, 5, number == 1, frames));
        let mut bytes = Vec::new();
        Message::Begin { channel: 1, kind: ChannelKind::Live }.push(&mut bytes);
        Message::Record { channel: 1, record: &record }.push(&mut bytes);
        Message::Ping { token: number, clock: None }.push(&mut bytes);
        Message::Hello { version: 1, host: [1; 16], spool: [2; 16], agent: "agent" }.push(&mut bytes);
        Message::Enrol { secret: [3; 32], host: [4; 16], name: "name", request: &record }.push(&mut bytes);
        list.push(bytes);
    }
    list
}

#[test]
fn damaged_messages_of_a_connection_never_panic_and_sound_ones_survive() {
    let (seeds, mut random, mut bytes) = (messages(), Random(20_261_122), Vec::new());
    let (mut decoded, mut snapshots) = (0_u64, 0_u64);
    for round in 0..if cfg!(debug_assertions) { 20_000 } else { 100_000 } {
        damage(&seeds, &mut random, &mut bytes);
        if round % 10 == 0 {
            bytes.clone_from(&seeds[round / 10 % seeds.len()]);
        }
        let mut rest = bytes.as_slice();
        while let Ok(Some(length)) = Message::length(rest, MAX_MESSAGE_BYTES) {
            let (message, behind) = rest.split_at(length);
            if let Ok(Some(message)) = Message::decode(message) {
                let mut again = Vec::new();
                message.push(&mut again);
                assert_eq!(Message::decode(&again), Ok(Some(message)));
                decoded += 1;
                if let Message::Record { record, .. } = message
                    && let Some(Entry::Snapshot(snapshot)) = decode_record(record)
                {
                    snapshots += u64::from(snapshot.frames().all(|frame| v2::decode(frame).is_ok()));
                }
            }
            rest = behind;
        }
    }
    assert!(decoded > 10_000 && snapshots > 1_000, "{decoded} messages, {snapshots} snapshots");
}
