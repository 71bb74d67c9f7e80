//! [`summarise`]: whether a file is a whole trace, and what it has, from its headers and checksums alone. Nothing is unpacked, so it costs
//! hardly more than to read it, whatever is inside.

use std::io::Read;

use super::ReadError;
use super::chunk::{self, ChunkKind, ChunkRead};
use super::header::FileHeader;
use super::input::Input;
use super::part::{self, PartRead, Recording};
use super::varint::take;

/// What a trace file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSummary {
    /// What it says about itself.
    pub header: FileHeader,
    /// When the recording ended, on the clock of its events.
    pub ended_ns: u64,
    /// Events in it, as its chunks announce them.
    pub events: u64,
    /// Events that its recorder lost, by its own count.
    pub lost: u64,
    /// The highest number of a CPU that a chunk of events names.
    pub last_cpu: u16,
    /// Its length.
    pub bytes: u64,
}

/// Reads a file to its end. `None`: it is cut off, damaged, or something follows its end that is no part of the same recording.
///
/// # Errors
/// It is no trace, of another version, or cannot be read.
pub fn summarise(mut from: impl Read) -> Result<Option<TraceSummary>, ReadError> {
    let (header, at) = FileHeader::read(&mut from)?;
    let mut input = Input::new(from, at);
    let (mut events, mut lost, mut last_cpu, mut recording) = (0_u64, 0_u64, 0, None);
    loop {
        let chunk = match chunk::check(&mut input)? {
            ChunkRead::Whole(chunk) => chunk,
            // The part before was cut, because its disk was full.
            ChunkRead::Damaged => match part::next(&mut input, recording)? {
                PartRead::Same(_) => continue,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        if chunk.kind == ChunkKind::Events {
            events += u64::from(chunk.count);
            last_cpu = last_cpu.max(chunk.cpu);
        }
        if chunk.kind == ChunkKind::Part {
            let found = Recording::of(&chunk, chunk::payload(&mut input, &chunk)?);
            recording = recording.or(found);
        }
        if chunk.kind == ChunkKind::End {
            let mut payload = chunk::payload(&mut input, &chunk)?;
            let (_, lost_here) = (take(&mut payload), take(&mut payload).unwrap_or(0));
            lost = lost.saturating_add(lost_here);
            input.pass(chunk::HEADER_BYTES + chunk.stored_bytes);
            if let PartRead::Same(_) = part::next(&mut input, recording)? {
                continue;
            }
            let bytes = input.at();
            let is_end = input.peek(1)?.is_empty();
            let summary = TraceSummary { header, ended_ns: chunk.base_ns, events, lost, last_cpu, bytes };
            return Ok(is_end.then_some(summary));
        }
        input.pass(chunk::HEADER_BYTES + chunk.stored_bytes);
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::{Leaves, SchedEvent, SchedEventKind, TraceTask};

    use super::*;
    use crate::{Compression, TraceWriter};

    fn file() -> Vec<u8> {
        let header = FileHeader { cpus: 2, host: "größe".into(), ..FileHeader::default() };
        let mut writer = TraceWriter::new(Vec::new(), &header, Compression::Zstd(1)).unwrap();
        for at_ns in 0..1_000 {
            let kind =
                SchedEventKind::Switch { prev: TraceTask(1), leaves: Leaves::Ready, next: TraceTask(2) };
            writer.event(&SchedEvent { at_ns, cpu: 0, kind });
        }
        writer.sync(1_000).unwrap();
        writer.finish(2_000, 9).unwrap().0
    }

    #[test]
    fn a_whole_trace_is_counted_and_any_other_is_none() {
        let file = file();
        let summary = summarise(&file[..]).unwrap().unwrap();
        assert_eq!((summary.events, summary.lost, summary.ended_ns), (1_000, 9, 2_000));
        assert_eq!((&*summary.header.host, summary.bytes), ("größe", file.len() as u64));
        for at in 0..file.len() {
            assert!(!matches!(summarise(&file[..at]), Ok(Some(_))), "cut at {at}");
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(!matches!(summarise(&damaged[..]), Ok(Some(_))), "changed at {at}");
        }
        let longer = [&file[..], b"x"].concat();
        assert_eq!(summarise(&longer[..]).unwrap(), None);
    }
}
