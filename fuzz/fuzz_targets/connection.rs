//! A connection's bytes behind TLS: a series of messages, and the records in them, packed ones too, down to their frames.
#![no_main]

use cpumon_wire::connection::{MAX_MESSAGE_BYTES, Message};
use cpumon_wire::packed::{Packer, Unpacker};
use cpumon_wire::spool::{Entry, decode_record, push_snapshot};
use cpumon_wire::v2::{decode, host_of};
use libfuzzer_sys::fuzz_target;

fn read_record(record: &[u8]) {
    if let Some(Entry::Snapshot(snapshot)) = decode_record(record) {
        for frame in snapshot.frames() {
            let (host, decoded) = (host_of(frame), decode(frame));
            assert!(decoded.is_err() || decoded.is_ok_and(|frame| Some(frame.header.host) == host));
        }
    }
}

/// A channel: any packed bytes are refused or give a record of bounded length.
fn read_packed(unpacker: &mut Unpacker, packed: &[u8]) {
    let mut record = Vec::new();
    if unpacker.unpack(packed, &mut record).is_ok() {
        assert!(decode_record(&record).is_some());
        read_record(&record);
    }
    assert!(record.len() <= MAX_MESSAGE_BYTES);
}

/// The fuzzer cannot guess a checksum, so any frames are packed and must come back.
fn both_ways(frame: &[u8]) {
    let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
    // Behind a sound header, and in pieces of the fuzzer's choice.
    let mut head = vec![0; 87];
    head[5] = 87;
    let framed = [&head[..], frame].concat();
    for (number, cut) in [(1, frame.len()), (2, frame.len() / 2), (3, frame.len())] {
        let (mut record, mut packed, mut back) = (Vec::new(), Vec::new(), Vec::new());
        let frames = [frame, &framed[..87 + cut]];
        if push_snapshot(&mut record, number, 2, number == 1, &frames[usize::from(!is_frame(frame))..])
            && packer.pack(&record, &mut packed)
        {
            assert!(unpacker.unpack(&packed, &mut back).is_ok());
            assert!(back == record);
        }
    }
}

fn is_frame(bytes: &[u8]) -> bool {
    bytes.len() >= 87 && bytes[5] == 87
}

fuzz_target!(|bytes: &[u8]| {
    let (mut rest, mut unpacker) = (bytes, Unpacker::default());
    while let Ok(Some(length)) = Message::length(rest, MAX_MESSAGE_BYTES) {
        let (message, behind) = rest.split_at(length);
        if let Ok(Some(message)) = Message::decode(message) {
            let mut again = Vec::new();
            message.push(&mut again);
            assert_eq!(Message::decode(&again), Ok(Some(message)));
            match message {
                Message::Record { record, .. } => read_record(record),
                Message::Packed { packed, .. } => read_packed(&mut unpacker, packed),
                _ => {}
            }
        }
        rest = behind;
    }
    read_record(bytes);
    read_packed(&mut Unpacker::default(), bytes);
    both_ways(bytes);
    // Behind sound checksums, so that the fuzzer spends its time on the content.
    let mut record = Vec::new();
    if push_snapshot(&mut record, 1, 2, true, &[bytes]) {
        assert!(decode_record(&record).is_some());
        read_record(&record);
    }
});
