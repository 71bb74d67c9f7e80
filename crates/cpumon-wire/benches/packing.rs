//! Bytes and time of packed records, on recordings of a real machine beside zstd alone:
//! `cpumon-agent --log DIR`, then `cargo bench -p cpumon-wire --bench packing -- DIR...`. Without DIR: the simulated machine of the
//! tests. Why its results are as they are: docs/adr/0011-connection-packing.md.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cpumon_model::Interval;
use cpumon_wire::Datagrams;
use cpumon_wire::packed::{Packer, Unpacker};
use cpumon_wire::spool::{Entry, Records, Step, decode_record, push_snapshot};
use cpumon_wire::v2::{Encoder, EncoderOptions, Frame};
use machine::Machine;
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{CCtx, CParameter, DCtx, InBuffer, OutBuffer, ResetDirective};

#[path = "../tests/it/machine.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod machine;

/// Each variant runs so often; the shortest time counts.
const RUNS: usize = 7;
/// What a message and TLS add to a record: 9 and 22 bytes.
const AROUND_BYTES: usize = 31;
const BUFFER_BYTES: usize = 16 << 20;

/// Records, and how many threads they have behind the first one.
struct Recording {
    records: Vec<Vec<u8>>,
    threads: usize,
}

/// What a variant did with a recording.
#[derive(Default)]
struct Outcome {
    /// Of all records but the first: that one has everything, and comes once a connection.
    bytes: usize,
    pack: Duration,
    unpack: Duration,
}

fn main() {
    let directories: Vec<PathBuf> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).map(PathBuf::from).collect();
    if directories.is_empty() {
        report("simulated machine", &simulated());
    }
    for directory in &directories {
        report(&directory.display().to_string(), &read(directory));
    }
}

fn report(name: &str, recording: &Recording) {
    let count = recording.records.len();
    println!("{name}: {count} records, {} threads a record", recording.threads / (count - 1).max(1));
    let plain = recording.records[1..].iter().map(|record| record.len() + AROUND_BYTES).sum();
    line("as they are", recording, &Outcome { bytes: plain, ..Outcome::default() });
    line("packed", recording, &best(|| packed(recording)));
    for level in [1, 2, 3] {
        let set = [CParameter::CompressionLevel(level)];
        line(
            &format!("zstd {level} over the connection"),
            recording,
            &best(|| over_connection(recording, &set)),
        );
    }
    let long = [
        CParameter::CompressionLevel(3),
        CParameter::WindowLog(23),
        CParameter::EnableLongDistanceMatching(true),
    ];
    line("zstd 3, 8 MiB window, long distances", recording, &best(|| over_connection(recording, &long)));
    line("zstd 3, last full record as prefix", recording, &best(|| by_prefix(recording, 3)));
}

fn line(name: &str, recording: &Recording, outcome: &Outcome) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / recording.records.len() as f64;
    let bytes = outcome.bytes as f64 / recording.threads as f64;
    let (pack, unpack) = (micros(outcome.pack), micros(outcome.unpack));
    println!(
        "  {name:40} {bytes:6.2} bytes a thread, {pack:6.0} µs to pack, {unpack:6.0} µs to unpack a record"
    );
}

fn best(run: impl Fn() -> Outcome) -> Outcome {
    let runs: Vec<Outcome> = (0..RUNS).map(|_| run()).collect();
    let least = |time: fn(&Outcome) -> Duration| runs.iter().map(time).min().unwrap_or_default();
    Outcome { bytes: runs[0].bytes, pack: least(|run| run.pack), unpack: least(|run| run.unpack) }
}

fn packed(recording: &Recording) -> Outcome {
    let (mut packer, mut unpacker, mut outcome) =
        (Packer::default(), Unpacker::default(), Outcome::default());
    let (mut packed, mut back) = (Vec::new(), Vec::new());
    for (at, record) in recording.records.iter().enumerate() {
        packed.clear();
        let begin = Instant::now();
        assert!(packer.pack(record, &mut packed));
        outcome.pack += begin.elapsed();
        let begin = Instant::now();
        assert!(unpacker.unpack(&packed, &mut back).is_ok());
        outcome.unpack += begin.elapsed();
        assert!(back == *record);
        outcome.bytes += if at == 0 { 0 } else { packed.len() + AROUND_BYTES };
    }
    outcome
}

fn over_connection(recording: &Recording, set: &[CParameter]) -> Outcome {
    let (mut packer, mut unpacker, mut outcome) = (CCtx::create(), DCtx::create(), Outcome::default());
    for parameter in set {
        packer.set_parameter(*parameter).unwrap();
    }
    let (mut packed, mut back) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    for (at, record) in recording.records.iter().enumerate() {
        let begin = Instant::now();
        let length = compress(&mut packer, record, &mut packed, ZSTD_EndDirective::ZSTD_e_flush);
        outcome.pack += begin.elapsed();
        let begin = Instant::now();
        let (mut input, mut output) = (InBuffer::around(&packed[..length]), OutBuffer::around(&mut back[..]));
        while input.pos() < length {
            unpacker.decompress_stream(&mut output, &mut input).unwrap();
        }
        outcome.unpack += begin.elapsed();
        assert!(output.as_slice() == record);
        outcome.bytes += if at == 0 { 0 } else { length + AROUND_BYTES };
    }
    outcome
}

fn by_prefix(recording: &Recording, level: i32) -> Outcome {
    let (mut packer, mut outcome) = (CCtx::create(), Outcome::default());
    packer.set_parameter(CParameter::CompressionLevel(level)).unwrap();
    let (mut packed, mut full) = (vec![0; BUFFER_BYTES], &[][..]);
    for (at, record) in recording.records.iter().enumerate() {
        let begin = Instant::now();
        packer.reset(ResetDirective::SessionOnly).unwrap();
        packer.ref_prefix(full).unwrap();
        let length = compress(&mut packer, record, &mut packed, ZSTD_EndDirective::ZSTD_e_end);
        outcome.pack += begin.elapsed();
        outcome.bytes += if at == 0 { 0 } else { length + AROUND_BYTES };
        if let Some(Entry::Snapshot(snapshot)) = decode_record(record)
            && snapshot.is_full
        {
            full = record;
        }
    }
    outcome
}

fn compress(context: &mut CCtx<'_>, bytes: &[u8], out: &mut [u8], end: ZSTD_EndDirective) -> usize {
    let (mut input, mut output) = (InBuffer::around(bytes), OutBuffer::around(out));
    while context.compress_stream2(&mut output, &mut input, end).unwrap() != 0 {}
    output.pos()
}

/// The records of a recording, which has no holes.
fn read(directory: &Path) -> Recording {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "segment"));
    files.sort();
    let mut records = Vec::new();
    for file in files {
        let bytes = std::fs::read(file).unwrap();
        let mut reader = Records::new(&bytes).unwrap();
        loop {
            let begin = reader.offset();
            match reader.step() {
                Step::Entry(_) => records.push(bytes[begin..reader.offset()].to_vec()),
                Step::Damaged(damaged) => panic!("{damaged:?}"),
                Step::End { .. } => break,
            }
        }
    }
    counted(records)
}

fn simulated() -> Recording {
    let mut machine = Machine::new(1, 50, 400, 200);
    let options =
        EncoderOptions { max_datagram: 65_000, full_snapshots: 1, is_lossless: true, ..Default::default() };
    let (mut encoder, mut datagrams) = (Encoder::new(options), Datagrams::new());
    let record = |number: u64| {
        let before = machine.snapshot.clone();
        machine.run();
        let (is_full, interval) = (encoder.is_next_full(), Interval::between(&before, &machine.snapshot));
        encoder.encode(&machine.host, &machine.snapshot, &interval, &mut datagrams);
        let mut record = Vec::new();
        assert!(push_snapshot(
            &mut record,
            number,
            machine.snapshot.end.wall_ns,
            is_full,
            datagrams.as_slice()
        ));
        record
    };
    counted((1..=60).map(record).collect())
}

fn counted(records: Vec<Vec<u8>>) -> Recording {
    let (mut threads, mut frame) = (0, Frame::default());
    for record in &records[1..] {
        let Some(Entry::Snapshot(snapshot)) = decode_record(record) else { continue };
        for bytes in snapshot.frames() {
            frame.decode(bytes).unwrap();
            threads += frame.threads.len();
        }
    }
    Recording { records, threads }
}
