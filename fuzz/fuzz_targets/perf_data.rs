//! A `perf.data`: any bytes, and any records in a sound file, plain, from a pipe and compressed.
#![no_main]

mod cost;

#[path = "../../crates/cpumon-trace-import/tests/it/made_perf.rs"]
mod made_perf;
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

/// Five bytes of input make a record: the first selects its kind, the first two set how far the time advances.
fn records(mut bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut at_ns) = (Vec::new(), 1);
    while let Some((&[what, step, cpu, first, second], rest)) = bytes.split_first_chunk() {
        bytes = rest;
        at_ns += u64::from(step) << (what >> 4);
        let (first, second, cpu) = (u32::from(first % 8), u32::from(second), u32::from(cpu));
        out.extend(match what % 16 {
            0..6 => made_perf::sample(at_ns, cpu % 4, &made_tracepoints::switch((first, "a"), second.into(), (second % 8, "b"))),
            6 | 7 => made_perf::sample(at_ns, cpu % 4, &made_tracepoints::waking((first, "c"), second, cpu)),
            8 => made_perf::sample(at_ns, cpu % 4, &made_tracepoints::migrate(first, second)),
            9 => made_perf::sample(at_ns, cpu % 4, &made_tracepoints::fork(first, (second % 8, "d"))),
            10 => made_perf::comm(at_ns * u64::from(cpu % 2), first, second % 8, "e"),
            11 => made_perf::begun(at_ns * u64::from(cpu % 2), (first, 2), second % 8),
            12 => made_perf::lost(at_ns, cpu, second.into()),
            13 => made_perf::round(),
            14 => made_perf::sample(at_ns, cpu, &bytes[..bytes.len().min(40)]),
            _ => made_perf::record(second, &bytes[..bytes.len().min(40)]),
        });
    }
    out
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    read(&made_perf::file(bytes));
    let records = records(bytes);
    read(&made_perf::file(&records));
    read(&made_perf::piped(&records));
    read(&made_perf::piped(&made_perf::packed(&records, 3_001)));
});
