//! A trace file: any bytes as a file, and any bytes as the events and identities of chunks with sound checksums.
#![no_main]

mod cost;

use cpumon_trace::{FileHeader, TraceRange, TraceReader, TraceSource, analyse, chunk_of};
use libfuzzer_sys::fuzz_target;

fn read(bytes: &[u8]) {
    cost::within(bytes.len(), || report(bytes));
}

fn report(bytes: &[u8]) {
    let Ok(mut reader) = TraceReader::open(bytes) else { return };
    let Ok((report, _ending)) = analyse(&mut reader, TraceRange::default()) else { return };
    let totals = report.totals();
    assert!(totals.ledger.capacity_ns() <= totals.length_ns.saturating_mul(totals.cpus));
    let _ = report.rows(cpumon_trace::ReportBy::Process, reader.tasks());
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    // The fuzzer cannot guess a checksum.
    let [kind, count, cpu, rest @ ..] = bytes else { return };
    let mut file = FileHeader::default().to_bytes();
    for part in rest.chunks(64) {
        file.extend(chunk_of(*kind % 5, u16::from(*cpu % 4), u32::from(*count), part, *kind >= 128));
    }
    read(&file);
});
