//! What traces that were made to cost take: memory and CPU time by the length of the file, whatever it unpacks to.

use std::hint::black_box;
use std::io::Cursor;

use cpumon_trace::{ReadError, ReportBy, TraceRange, TraceSource, analyse};
use cpumon_trace_import::AnyTrace;

use crate::cpu_time::cpu_ns;
use crate::held_memory::taken_by;
use crate::worst::{cases, large_buffers, shortest_events};

/// Bytes that a reader may hold for any file, and for each byte of the file. Threads in a report have limits of their own.
const FREE_BYTES: usize = 64 << 20;
const HELD_TIMES: usize = 64;
/// Length of the files, bytes: so short that the 16 MiB that any file may unpack to are most of their limit.
const FILE_BYTES: usize = 30_000;

/// Reads a file without an analysis. Returns its events.
fn read(file: &[u8]) -> Result<u64, ReadError> {
    let mut events = 0;
    let mut trace = AnyTrace::open(Cursor::new(file))?;
    trace.read(&mut |event| {
        black_box(event);
        events += 1;
    })?;
    Ok(events)
}

fn report(file: &[u8]) -> Result<usize, ReadError> {
    let mut trace = AnyTrace::open(Cursor::new(file))?;
    let (report, _) = analyse(&mut trace, TraceRange::default())?;
    Ok(report.groups(ReportBy::Thread, trace.tasks()).iter().take(20).count())
}

/// The measure is a file that becomes as many events as there may be, because a test knows neither machine nor optimization: others of
/// its length may take thirty times its CPU time. What they take in seconds for a MB: docs/trace.md.
#[test]
fn no_reader_costs_more_than_its_file_explains() {
    let usual = shortest_events(FILE_BYTES);
    let usual_ns = cpu_ns(|| report(&usual));
    for case in cases(FILE_BYTES) {
        let (what, bytes) = (format!("{}, {}", case.reader, case.name), case.file.len());
        let (result, taken) = taken_by(|| read(&case.file));
        let most = FREE_BYTES + HELD_TIMES * bytes;
        assert!(taken.most <= most, "{what}: {} of {most} bytes, {result:?}", taken.most);
        let its_ns = cpu_ns(|| report(&case.file));
        let most_ns = 30 * usual_ns * bytes.div_ceil(FILE_BYTES) as u64;
        assert!(its_ns <= most_ns, "{what}: {its_ns} of {most_ns} ns, {result:?}");
    }
}

/// Each buffer of 1 MiB was kept for a chunk of two bytes that waited: 62 bytes for each byte of a file.
#[test]
fn small_chunks_hold_no_buffers_of_large_ones() {
    let file = large_buffers(1_500_000);
    let (events, taken) = taken_by(|| read(&file).unwrap());
    // Eight full chunks wait for their mark.
    assert!(events > 150 && taken.most < 12 << 20, "{events} events, {taken:?}");
}
