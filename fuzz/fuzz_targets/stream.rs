//! The secure stream's bytes behind TLS: a series of messages, and the records in them, down to their frames.
#![no_main]

use cpumon_wire::spool::{Entry, decode_record, push_snapshot};
use cpumon_wire::stream::{MAX_MESSAGE_BYTES, Message};
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

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some(length)) = Message::length(rest, MAX_MESSAGE_BYTES) {
        let (message, behind) = rest.split_at(length);
        if let Ok(Some(message)) = Message::decode(message) {
            let mut again = Vec::new();
            message.push(&mut again);
            assert_eq!(Message::decode(&again), Ok(Some(message)));
            if let Message::Record { record, .. } = message {
                read_record(record);
            }
        }
        rest = behind;
    }
    read_record(bytes);
    // Behind sound checksums, so that the fuzzer spends its time on what is inside.
    let mut record = Vec::new();
    if push_snapshot(&mut record, 1, 2, true, &[bytes]) {
        assert!(decode_record(&record).is_some());
        read_record(&record);
    }
});
