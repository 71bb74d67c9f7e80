//! A channel of a connection with records of any tasks and tables, tables that the fuzzer makes up included: packed records come back as
//! they were, and changed packed bytes are refused or give a record.
#![no_main]

mod made;

use cpumon_wire::connection::{MAX_MESSAGE_BYTES, Message};
use cpumon_wire::packed::{Packer, Unpacker};
use cpumon_wire::spool::{Entry, decode_record, push_snapshot};
use cpumon_wire::v2::decode;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fn read(record: &[u8]) {
    if let Some(Entry::Snapshot(snapshot)) = decode_record(record) {
        for frame in snapshot.frames() {
            let _ = decode(frame);
        }
    }
}

fn run(from: &mut Unstructured<'_>) -> Result<()> {
    let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
    // Gets changed bytes only, so its memory may differ from the packer's after the first record.
    let mut misled = Unpacker::default();
    for number in 1..=from.int_in_range(1..=6)? {
        let mut frames = made::encoded(from, number)?;
        if from.ratio(1, 3)? {
            frames.push(made::framed(from, number)?);
        }
        if from.ratio(1, 8)? {
            for frame in &mut frames {
                made::change(from, frame)?;
            }
        }
        let (mut record, mut packed, mut back) = (Vec::new(), Vec::new(), Vec::new());
        if !push_snapshot(&mut record, number, 2, from.arbitrary()?, &frames) || !packer.pack(&record, &mut packed) {
            return Ok(());
        }
        assert!(unpacker.unpack(&packed, &mut back).is_ok() && back == record, "it comes back");
        read(&back);
        made::change(from, &mut packed)?;
        if misled.unpack(&packed, &mut back).is_ok() {
            assert!(back.len() <= MAX_MESSAGE_BYTES);
            read(&back);
        }
        // The same in a message.
        let mut message = Vec::new();
        Message::Packed { channel: 0, packed: &packed }.push(&mut message);
        made::change(from, &mut message)?;
        let _ = Message::length(&message, MAX_MESSAGE_BYTES);
        let _ = Message::decode(&message);
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _ = run(&mut Unstructured::new(bytes));
});
