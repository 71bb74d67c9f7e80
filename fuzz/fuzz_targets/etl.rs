//! An `.etl`: any bytes, any events in sound buffers, packed in each way, and any bytes behind the header of packed buffers.
#![no_main]

mod cost;

#[allow(dead_code)]
#[path = "../../crates/cpumon-trace-import/tests/it/made_etl.rs"]
mod made_etl;

use std::io::Cursor;

use cpumon_trace::{ReportBy, TraceRange, TraceSource, analyse};
use cpumon_trace_import::AnyTrace;
use libfuzzer_sys::fuzz_target;
use made_etl::{
    BUFFER_BYTES, BufferOptions, DPC, HEADER_BYTES, ISR, LAYOUTS, LZNT1, PLAIN, READY, SESSION, SWITCH, SessionOptions,
    XPRESS, XPRESS_HUFFMAN,
};

fn read(bytes: &[u8]) {
    cost::within(bytes.len(), || report(bytes));
}

fn report(bytes: &[u8]) {
    let Ok(mut trace) = AnyTrace::open(Cursor::new(bytes)) else { return };
    let Ok((report, _ending)) = analyse(&mut trace, TraceRange::default()) else { return };
    let totals = report.totals();
    assert!(totals.ledger.capacity_ns() <= totals.length_ns.saturating_mul(totals.cpus));
    let _ = report.rows(ReportBy::Process, trace.tasks());
}

/// Five bytes of input make an event: the first selects its kind, the first two set how far the time advances.
fn events(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut out, mut at) = (Vec::new(), made_etl::BEGAN_NS);
    while let Some((&[what, step, layout, first, second], rest)) = bytes.split_first_chunk() {
        bytes = rest;
        at += u64::from(step) << (what >> 4);
        let (tid, other, pid) = (u32::from(first % 8), u32::from(second % 8), u32::from(second % 4) * 4);
        let (hook, payload) = match what % 16 {
            0..6 => (SWITCH, made_etl::switch(tid, other, second >> 4, first >> 3)),
            6 | 7 => (READY, made_etl::ready(tid)),
            8 => (DPC, made_etl::interrupt(DPC, at.saturating_sub(u64::from(second) << 4))),
            9 => (ISR, made_etl::interrupt(ISR, u64::from(second) << (first % 32))),
            10 => (0x0500 | u16::from(layout % 6), made_etl::thread(pid, tid, "t")),
            11 => (0x0300 | u16::from(layout % 6), made_etl::process(pid, "p.exe")),
            12 => (made_etl::SET_NAME, made_etl::renamed(pid, tid, "n")),
            13 => (u16::from_le_bytes([first, second]), bytes[..bytes.len().min(40)].to_vec()),
            14 => ([SWITCH, DPC, ISR, 0x0303, 0x0503][usize::from(layout % 5)], bytes[..bytes.len().min(60)].to_vec()),
            _ => {
                out.push(bytes[..bytes.len().min(40)].to_vec());
                continue;
            }
        };
        out.push(made_etl::event(LAYOUTS[usize::from(layout) % LAYOUTS.len()], hook, (at, other), &payload));
    }
    out
}

/// What follows the header of each buffer comes from the input.
fn file(packing: u16, flags: &[u8], parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = made_etl::log_header(SessionOptions { packing, ..SESSION });
    for (at, part) in parts.iter().enumerate() {
        let flag = u16::from(flags.get(at % flags.len().max(1)).copied().unwrap_or(0));
        let options = BufferOptions { cpu: flag >> 6, sequence: at as u64, flags: flag & 6, packing };
        let most = part.len().min(BUFFER_BYTES - HEADER_BYTES);
        out.extend(made_etl::buffer(options, &part[..most]));
    }
    out
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let events = events(bytes);
    let parts: Vec<Vec<u8>> = events.chunks(usize::from(bytes.first().copied().unwrap_or(0) % 16) + 1).map(<[_]>::concat).collect();
    read(&file(PLAIN, bytes, &parts));
    for packing in [LZNT1, XPRESS, XPRESS_HUFFMAN] {
        read(&file(packing, bytes, &parts[..parts.len().min(4)]));
        // The packed bytes themselves.
        let mut damaged = file(packing, bytes, &parts[..parts.len().min(1)]);
        let behind = BUFFER_BYTES + HEADER_BYTES;
        for (byte, by) in damaged.iter_mut().skip(behind).zip(bytes) {
            *byte ^= by;
        }
        read(&damaged);
    }
});
