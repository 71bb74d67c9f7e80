//! Any bytes as what the store's blocks hold, for fuzzers: they are refused or read, whatever they are.

use cpumon_model::Interval;

use super::chunk::Chunk;
use super::varint::{Malformed, VarintCursor};
use super::{PackedInterval, blob, host, lists, zip};

/// Reads bytes as each kind of block, and in four pieces as the sections of a chunk.
pub fn exercise(bytes: &[u8]) {
    let _ = blob::decode(bytes, &mut PackedInterval::default());
    let _ = lists::unpack::<lists::ListedProcess>(bytes);
    let _ = read_row(bytes, bytes);
    let _ = Chunk::default().read_meta(bytes);
    let _ = read_chunk(bytes);
}

/// The first bytes say where the pieces end. They are compressed here: a fuzzer cannot guess what zstd checks.
fn read_chunk(bytes: &[u8]) -> Result<(), Malformed> {
    let Some((&[first, second, third], mut rest)) = bytes.split_first_chunk() else { return Ok(()) };
    let mut section = |share: u8| {
        let (piece, behind) = rest.split_at(rest.len() * usize::from(share) / 256);
        rest = behind;
        zip(piece, 1).unwrap_or_default()
    };
    let (meta, processes, sched) = (section(first), section(second), section(third));
    let threads = zip(rest, 1).unwrap_or_default();
    let mut chunk = Chunk::default();
    chunk.read_meta(&meta)?;
    chunk.read_sched(&sched)?;
    chunk.read_processes(&processes, |ids| Ok(ids.iter().map(|id| id % 3 > 0).collect()))?;
    let threads = chunk.read_threads(&threads);
    for interval in 0..chunk.metas.len() {
        let _ = read_row(chunk.cpus.of(interval), chunk.sched.of(interval));
        let rows = chunk.processes.of(interval).iter().map(|row| row.stored_rows as usize);
        assert!(
            threads.is_err() || rows.sum::<usize>() == chunk.threads.of(interval).len(),
            "each thread has its process"
        );
    }
    threads.map(drop)
}

/// What an interval has of CPUs and of scheduler events.
fn read_row(cpus: &[u8], sched: &[u8]) -> Result<(), Malformed> {
    let mut interval = Interval::default();
    host::decode(cpus, &mut interval)?;
    host::decode_events(&mut VarintCursor::new(sched), &mut interval, true)
}
