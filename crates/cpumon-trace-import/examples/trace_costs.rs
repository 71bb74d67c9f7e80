//! What the worst traces that are known cost each reader: `cargo run --release -p cpumon-trace-import --example trace_costs -- [BYTES]`. Each
//! is read by a report, as `cpumon trace report` reads it. Prints CPU time for each megabyte of the file, and the most memory that was held.

#![allow(dead_code, reason = "the files are shared with the tests, which use more of each")]

#[path = "../../../testing/held_memory.rs"]
mod held_memory;
#[path = "../tests/it/made_etl.rs"]
mod made_etl;
#[path = "../tests/it/made_perf.rs"]
mod made_perf;
#[path = "../tests/it/made_perfetto.rs"]
mod made_perfetto;
#[path = "../tests/it/made_trace.rs"]
mod made_trace;
#[path = "../tests/it/made_trace_dat.rs"]
mod made_trace_dat;
#[path = "../tests/it/made_tracepoints.rs"]
mod made_tracepoints;
#[path = "../../../testing/seeded_rng.rs"]
mod seeded_rng;
#[path = "../tests/it/worst.rs"]
mod worst;

use std::io::Cursor;

use cpumon_trace::{ReadError, ReportBy, TraceRange, TraceSource, analyse};
use cpumon_trace_import::AnyTrace;

fn read(file: &[u8]) -> Result<u64, ReadError> {
    let mut events = 0;
    let mut trace = AnyTrace::open(Cursor::new(file))?;
    trace.read(&mut |_| events += 1)?;
    Ok(events)
}

fn report(file: &[u8]) -> Result<(), ReadError> {
    let mut trace = AnyTrace::open(Cursor::new(file))?;
    let (report, _) = analyse(&mut trace, TraceRange::default())?;
    let _ = report.groups(ReportBy::Thread, trace.tasks()).iter().take(20).count();
    Ok(())
}

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn main() {
    let bytes = std::env::args().nth(1).and_then(|bytes| bytes.parse().ok()).unwrap_or(4_000_000);
    for case in worst::cases(bytes) {
        let (events, held) = held_memory::taken_by(|| read(&case.file));
        let before = cpu_ns();
        let (_, reported) = held_memory::taken_by(|| report(&case.file));
        let (seconds, megabytes) = ((cpu_ns() - before) as f64 / 1e9, case.file.len() as f64 / 1e6);
        let bytes = |bytes: usize| bytes as f64 / 1e6;
        println!(
            "{:9} {:40} {megabytes:4.1} MB: {:5.2} s/MB; held {:6.1} MB, report {:6.1} MB; {}",
            case.reader,
            case.name,
            seconds / megabytes,
            bytes(held.most),
            bytes(reported.most),
            events.map_or_else(|error| error.to_string(), |events| format!("{events} events")),
        );
    }
}
