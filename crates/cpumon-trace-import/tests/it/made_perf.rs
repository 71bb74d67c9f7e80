//! Makes a `perf.data` record by record.

use crate::made_tracepoints::{SWITCH, name, tracing_data};

/// Time, CPU: what every record ends with.
fn stamp(at_ns: u64, cpu: u32) -> Vec<u8> {
    let mut out = vec![0; 8];
    out.extend(at_ns.to_le_bytes());
    out.extend(cpu.to_le_bytes());
    out.extend([0; 4]);
    // The identifier.
    out.extend(1_u64.to_le_bytes());
    out
}

/// A record of `perf.data`.
pub fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend([0; 2]);
    out.extend(u16::try_from(body.len() + 8).unwrap().to_le_bytes());
    out.extend(body);
    out
}

/// A sample of a tracepoint.
pub fn sample(at_ns: u64, cpu: u32, raw: &[u8]) -> Vec<u8> {
    // Identifier, address, process and thread, time, CPU, period.
    let mut body = 1_u64.to_le_bytes().to_vec();
    body.extend([0; 16]);
    body.extend(at_ns.to_le_bytes());
    body.extend(u64::from(cpu).to_le_bytes());
    body.extend(1_u64.to_le_bytes());
    body.extend(u32::try_from(raw.len()).unwrap().to_le_bytes());
    body.extend(raw);
    body.resize(body.len().next_multiple_of(8), 0);
    record(9, &body)
}

pub fn comm(at_ns: u64, pid: u32, tid: u32, text: &str) -> Vec<u8> {
    let mut body = [pid.to_le_bytes(), tid.to_le_bytes()].concat();
    body.extend(name(text));
    body.extend(stamp(at_ns, 0));
    record(3, &body)
}

/// A thread of this process begins.
pub fn begun(at_ns: u64, (pid, parent): (u32, u32), tid: u32) -> Vec<u8> {
    let words = [pid, parent, tid, parent].map(u32::to_le_bytes).concat();
    record(7, &[words, at_ns.to_le_bytes().to_vec(), stamp(at_ns, 0)].concat())
}

pub fn lost(at_ns: u64, cpu: u32, count: u64) -> Vec<u8> {
    record(2, &[1_u64.to_le_bytes().to_vec(), count.to_le_bytes().to_vec(), stamp(at_ns, cpu)].concat())
}

/// Every CPU's buffer has been read.
pub fn round() -> Vec<u8> {
    record(68, &[])
}

/// As `-z` packs records: one zstd stream, in pieces that end anywhere.
pub fn packed(records: &[u8], piece_bytes: usize) -> Vec<u8> {
    use std::io::Write;
    let mut out = Vec::new();
    let mut packer = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    for part in records.chunks(piece_bytes) {
        packer.write_all(part).unwrap();
        packer.flush().unwrap();
        for piece in std::mem::take(packer.get_mut()).chunks(60_000) {
            out.extend(record(81, piece));
        }
    }
    out.extend(round());
    out
}

/// `perf_event_attr` of 64 bytes: samples have identifier, address, thread, time, CPU, period and the tracepoint's record.
fn attr() -> Vec<u8> {
    let mut attr = [2_u32.to_le_bytes(), 64_u32.to_le_bytes()].concat();
    let sample_type = 1_u64 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 16;
    for word in [u64::from(SWITCH), 1, sample_type, 0, 1 << 18, 0, 0] {
        attr.extend(word.to_le_bytes());
    }
    attr
}

/// Between the records and the descriptions behind them there is nothing.
pub fn file(records: &[u8]) -> Vec<u8> {
    const ATTRS_AT: u64 = 104;
    const DATA_AT: u64 = ATTRS_AT + 80 + 8;
    let mut out = b"PERFILE2".to_vec();
    let data_bytes = records.len() as u64;
    // Features 1 (descriptions), 3 (host), 7 (CPUs).
    for word in [104, 80, ATTRS_AT, 80, DATA_AT, data_bytes, 0, 0, 1 << 1 | 1 << 3 | 1 << 7, 0, 0, 0] {
        out.extend(u64::to_le_bytes(word));
    }
    out.extend(attr());
    out.extend((ATTRS_AT + 80).to_le_bytes());
    out.extend(8_u64.to_le_bytes());
    out.extend(1_u64.to_le_bytes());
    out.extend(records);
    let mut host = 16_u32.to_le_bytes().to_vec();
    host.extend(name("device1"));
    let sections = [tracing_data("0.6"), host, [2_u32.to_le_bytes(), 2_u32.to_le_bytes()].concat()];
    let mut at = out.len() as u64 + 16 * sections.len() as u64;
    for section in &sections {
        out.extend(at.to_le_bytes());
        out.extend((section.len() as u64).to_le_bytes());
        at += section.len() as u64;
    }
    out.extend(sections.concat());
    out
}

/// As perf writes to a pipe.
pub fn piped(records: &[u8]) -> Vec<u8> {
    let mut out = b"PERFILE2".to_vec();
    out.extend(16_u64.to_le_bytes());
    out.extend(record(64, &[attr(), 1_u64.to_le_bytes().to_vec()].concat()));
    let mut descriptions = tracing_data("0.6");
    let length = u32::try_from(descriptions.len()).unwrap();
    descriptions.resize(descriptions.len().next_multiple_of(8), 0);
    out.extend(record(66, &length.to_le_bytes()));
    out.extend(descriptions);
    out.extend(records);
    out
}
