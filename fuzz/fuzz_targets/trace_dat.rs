//! A `trace.dat`: any bytes, and any records in any pages of a sound file, in both versions, plain and compressed.
#![no_main]

mod cost;

#[allow(dead_code)]
#[path = "../../crates/cpumon-trace-import/tests/it/made_trace_dat.rs"]
mod made_trace_dat;
#[allow(dead_code)]
#[path = "../../crates/cpumon-trace-import/tests/it/made_tracepoints.rs"]
mod made_tracepoints;

use std::io::Cursor;

use cpumon_trace::{ReportBy, TraceRange, TraceSource, analyse};
use cpumon_trace_import::AnyTrace;
use libfuzzer_sys::fuzz_target;

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

/// Four bytes of input make a record: the first selects its kind, the first two set how far the time advances. Some pages have lost
/// events in front, some are damaged.
fn pages(mut bytes: &[u8]) -> [Vec<u8>; 2] {
    let (mut out, mut at_ns, mut held) = ([Vec::new(), Vec::new()], 1, Vec::new());
    while let Some((&[what, step, first, second], rest)) = bytes.split_first_chunk() {
        bytes = rest;
        at_ns += u64::from(step) << (what >> 4) * 3;
        let (first, second) = (u32::from(first), u32::from(second));
        held.push((
            at_ns,
            match what % 16 {
                0..6 => made_tracepoints::switch((first % 8, "a"), second.into(), (second % 8, "b")),
                6 | 7 => made_tracepoints::waking((first % 8, "c"), second, first),
                8 => made_tracepoints::migrate(first % 8, second),
                9 => made_tracepoints::fork(first % 8, (second % 8, "d")),
                10 => made_tracepoints::new_task(first % 8, (second % 8, "e"), u64::from(first) << 12),
                11 | 12 => made_tracepoints::softirq(what % 2 == 0, first, second % 4),
                13 => bytes[..bytes.len().min(40)].to_vec(),
                _ => {
                    let mut page = made_trace_dat::page(&held, (what & 16 != 0).then_some(second.into()));
                    page.truncate(made_trace_dat::PAGE_BYTES);
                    if what & 32 != 0 {
                        page[16 + second as usize * 4] ^= first as u8;
                    }
                    out[usize::from(what & 1)].extend(page);
                    held.clear();
                    continue;
                }
            },
        ));
        if held.len() == 40 {
            out[0].extend(made_trace_dat::page(&held, None));
            held.clear();
        }
    }
    if !held.is_empty() {
        out[1].extend(made_trace_dat::page(&held, None));
    }
    out
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let any = [made_tracepoints::intro(if bytes.len() % 2 == 0 { "6" } else { "7" }), bytes.to_vec()].concat();
    read(&any);
    let buffers = [pages(bytes).to_vec(), vec![bytes.to_vec()]];
    read(&made_trace_dat::version_6(&buffers[..1], "local"));
    read(&made_trace_dat::version_7(&buffers, "local", false, &[]));
    let mut packed = made_trace_dat::version_7(&buffers, "x86-tsc", true, &made_trace_dat::tsc(3, 1));
    read(&packed);
    for change in bytes.chunks_exact(4).take(8) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % packed.len();
        packed[at] ^= change[2];
    }
    read(&packed);
});
