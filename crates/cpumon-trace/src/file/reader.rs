//! Reads a trace file from its start to its end, once, also while it is being written. [`summarise`] checks whether a file is a whole
//! trace, and sums up its contents, by headers and checksums alone: nothing is unpacked, so it costs hardly more than reading the file.

use std::io::Read;

use cpumon_model::varint::take as take_varint;
use cpumon_sched::SchedEvent;
use zstd::bulk::Decompressor;

use super::ReadError;
use super::columns::ColumnPlaces;
use super::events::{take_group, take_identity};
use super::format::{
    CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, ChunkRead, FileHeader, Input, Packing, PartRead, RecordingId,
};
use super::sorter::{ChunkLayout, Sorter};
use crate::limits::{Credit, EVENTS};
use crate::source::{Ending, TraceFacts, TraceSource};
use crate::tasks::Tasks;

/// Damaged places that are passed. Reading ends at the next one.
const MAX_GAPS: u64 = 1 << 10;
/// CPUs of all gaps: each gets a mark or two of lost events. A file may claim more CPUs than any machine has.
const MAX_MARKS: u64 = 1 << 18;
/// Bytes that all searches for a whole chunk may check in vain: a fixed number, and a multiple of the bytes that they pass. Damage has few
/// seeming chunks; a file that was made of nothing else must not take hours.
const VAIN_BYTES: u64 = 64 << 20;
const VAIN_TIMES: u64 = 16;

pub struct TraceReader<R: Read> {
    input: Input<R>,
    facts: TraceFacts,
    sorter: Sorter,
    unpacker: Decompressor<'static>,
    /// Recording that the file is a part of; `None` if the file names none so far.
    recording: Option<RecordingId>,
    ending: Ending,
    /// Number of gaps opened so far, counted for each CPU.
    marks: u64,
    credit: Credit,
    /// Number of events that the chunks so far announced.
    events: usize,
    /// Bytes that were read to check payloads without success.
    vain_bytes: u64,
}

impl<R: Read> TraceReader<R> {
    pub fn open(mut from: R) -> Result<Self, ReadError> {
        let (header, at) = FileHeader::read(&mut from)?;
        let ending = Ending { known_until_ns: header.began.mono_ns, ..Ending::default() };
        Ok(Self {
            input: Input::new(from, at),
            facts: TraceFacts { header, is_watched_from_begin: true, ..TraceFacts::default() },
            sorter: Sorter::default(),
            unpacker: Decompressor::new()?,
            recording: None,
            ending,
            marks: 0,
            credit: Credit::default(),
            events: 0,
            vain_bytes: 0,
        })
    }

    /// Continues with the next part of the recording, if one begins here: several files of one recording may follow each other.
    fn next_part(&mut self) -> Result<bool, ReadError> {
        let began_ns = match self.input.next_part(self.recording)? {
            PartRead::Same(began_ns) => began_ns,
            PartRead::None => return Ok(false),
            PartRead::Other => {
                self.ending.other_at.get_or_insert(self.input.at());
                return Ok(false);
            }
        };
        let ended_ns = self.ending.ended_ns.take().unwrap_or(0).max(self.sorter.synced_ns);
        if ended_ns < began_ns {
            self.ending.holes += 1;
            if self.marks >= MAX_MARKS {
                self.note_damage(self.input.at());
                return Ok(false);
            }
            self.sorter.sync(ended_ns);
            self.marks += self.sorter.open_gaps(self.facts.header.cpus);
        }
        Ok(true)
    }

    /// Whether its events, unpacked, would be too many for the file's size.
    fn is_blown_up(&mut self, header: &ChunkHeader) -> bool {
        let chunk_bytes = CHUNK_HEADER_BYTES + header.stored_bytes;
        self.credit.add(chunk_bytes);
        let count = usize::try_from(header.count).unwrap_or(usize::MAX);
        let events = self.events.saturating_add(if header.kind == ChunkKind::EVENTS { count } else { 0 });
        let is_more = events > EVENTS.of(self.input.at() + chunk_bytes as u64);
        if !is_more {
            self.events = events;
        }
        is_more || !self.credit.take(header.raw_bytes)
    }

    /// A part of the file cannot be read: what every CPU did there is unknown. False: there are too many such parts.
    fn open_gaps(&mut self) -> bool {
        if self.ending.gaps >= MAX_GAPS || self.marks >= MAX_MARKS {
            return false;
        }
        self.ending.gaps += 1;
        self.marks += self.sorter.open_gaps(self.facts.header.cpus);
        true
    }

    fn note_damage(&mut self, at: u64) {
        self.ending.damaged_at.get_or_insert(at);
    }

    /// Passes damage up to the next whole chunk; false if none is found.
    fn pass_damage(&mut self) -> Result<bool, ReadError> {
        let from = self.input.at();
        self.note_damage(from);
        let mut is_found = false;
        while self.input.pass_to_next_chunk()? {
            if let ChunkRead::Whole(_) = self.input.check_chunk()? {
                is_found = true;
                break;
            }
            self.vain_bytes += self.input.seen_bytes();
            let passed_bytes = self.ending.unreadable_bytes + self.input.at() - from;
            if self.vain_bytes > VAIN_BYTES + VAIN_TIMES * passed_bytes {
                break;
            }
        }
        self.ending.unreadable_bytes += self.input.at() - from;
        Ok(is_found)
    }

    fn emit(&mut self, until_ns: u64, out: &mut impl FnMut(SchedEvent)) {
        let known_ns = &mut self.ending.known_until_ns;
        self.sorter.emit(until_ns, &mut |event| {
            *known_ns = (*known_ns).max(event.at_ns);
            out(event);
        });
    }

    /// False if the payload is not what its header says.
    fn take(&mut self, header: &ChunkHeader, out: &mut impl FnMut(SchedEvent)) -> Result<bool, ReadError> {
        match header.kind {
            ChunkKind::EVENTS => {
                let Some(raw) = self.unpack(header)? else { return Ok(false) };
                self.sorter.add(header.cpu, header.base_ns, header.count, raw);
                if self.sorter.is_full(self.input.at()) {
                    self.emit(u64::MAX, out);
                }
            }
            ChunkKind::IDENTITIES => return self.take_names(header, take_identity, Tasks::set),
            ChunkKind::GROUPS => return self.take_names(header, take_group, Tasks::set_group),
            ChunkKind::SYNC => {
                self.sorter.sync(header.base_ns);
                self.emit(header.base_ns, out);
                self.ending.known_until_ns = self.ending.known_until_ns.max(header.base_ns);
            }
            ChunkKind::END => {
                let mut raw = self.input.payload(header)?;
                let _events = take_varint(&mut raw);
                self.ending.lost = self.ending.lost.saturating_add(take_varint(&mut raw).unwrap_or(0));
                self.ending.ended_ns = Some(header.base_ns);
            }
            // Damage may have hidden the file header before this chunk.
            ChunkKind::PART => {
                let payload = self.input.payload(header)?;
                let Some(found) = RecordingId::of(header, payload) else { return Ok(false) };
                if *self.recording.get_or_insert(found) != found {
                    self.ending.other_at.get_or_insert(self.input.at());
                }
            }
            // Of a later minor version, which may be left out.
            _ => {}
        }
        Ok(true)
    }

    fn take_names<T>(
        &mut self,
        header: &ChunkHeader,
        take: fn(&mut &[u8]) -> Option<T>,
        set: fn(&mut Tasks, T),
    ) -> Result<bool, ReadError> {
        // Only events can be in columns.
        let Some((raw, ChunkLayout::Rows(_))) = self.unpack(header)? else { return Ok(false) };
        let mut rows = raw.as_slice();
        self.facts.tasks.allow(self.input.at());
        while !rows.is_empty() {
            let Some(name) = take(&mut rows) else { return Ok(false) };
            set(&mut self.facts.tasks, name);
        }
        Ok(true)
    }

    /// Unpacks a payload; `None` if it does not match its header.
    fn unpack(&mut self, header: &ChunkHeader) -> Result<Option<(Vec<u8>, ChunkLayout)>, ReadError> {
        let mut raw = Vec::new();
        let stored = self.input.payload(header)?;
        let layout = match header.packing {
            Packing::None => {
                raw.extend_from_slice(stored);
                Some(ChunkLayout::default())
            }
            Packing::Zstd => {
                raw.reserve_exact(header.raw_bytes);
                // zstd writes no more than there is space for, whatever the frame announces.
                let unpacked = self.unpacker.decompress_to_buffer(stored, &mut raw);
                unpacked.is_ok_and(|bytes| bytes == header.raw_bytes).then(ChunkLayout::default)
            }
            Packing::Columns => ColumnPlaces::unpack(stored, header.raw_bytes, &mut self.unpacker, &mut raw)
                .map(ChunkLayout::Columns),
        };
        Ok(layout.map(|layout| (raw, layout)))
    }
}

impl<R: Read> TraceSource for TraceReader<R> {
    fn facts(&self) -> &TraceFacts {
        &self.facts
    }

    fn facts_mut(&mut self) -> &mut TraceFacts {
        &mut self.facts
    }

    /// Hands out every event, in the order of their time. A damaged part is passed: in its place each CPU has a
    /// [`Lost`](cpumon_sched::SchedEventKind::Lost) event without a count.
    ///
    /// Errors: the file cannot be read. A damaged file is no error: [`Ending`] says where the damage is.
    fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError> {
        while self.ending.other_at.is_none() && (self.ending.ended_ns.is_none() || self.next_part()?) {
            match self.input.check_chunk()? {
                ChunkRead::Whole(header) => {
                    let is_taken = !self.is_blown_up(&header) && self.take(&header, out)?;
                    if !is_taken {
                        self.note_damage(self.input.at());
                        if !self.open_gaps() {
                            break;
                        }
                    }
                    self.input.pass(CHUNK_HEADER_BYTES + header.stored_bytes);
                }
                ChunkRead::End => break,
                // The recorder was killed, or its disk was full, and it began a part again.
                ChunkRead::Torn | ChunkRead::Damaged if self.next_part()? => {}
                ChunkRead::Torn | ChunkRead::Damaged => {
                    if !self.pass_damage()? || !self.open_gaps() {
                        break;
                    }
                }
            }
        }
        let mut until_ns = self.ending.ended_ns.unwrap_or(0).max(self.ending.known_until_ns);
        if let (None, Some(last_ns)) = (self.ending.ended_ns, self.sorter.unsynced_ns()) {
            // The file has the last events of some CPUs, and not those of others.
            self.sorter.open_gaps(self.facts.header.cpus);
            until_ns = until_ns.max(last_ns);
        }
        self.sorter.end_gaps(until_ns);
        self.emit(u64::MAX, out);
        (self.ending.malformed, self.ending.late) = (self.sorter.malformed(), self.sorter.late);
        self.ending.unnamed = self.facts.tasks.left_out();
        if let Some(ended_ns) = self.ending.ended_ns {
            self.ending.known_until_ns = self.ending.known_until_ns.max(ended_ns);
        }
        Ok(self.ending)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSummary {
    pub header: FileHeader,
    /// When the recording ended, on the clock of its events.
    pub ended_ns: u64,
    /// Number of events, as the chunks announce them.
    pub events: u64,
    /// Events that its recorder lost, by its own count.
    pub lost: u64,
    /// The highest number of a CPU that a chunk of events names.
    pub last_cpu: u16,
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
        let chunk = match input.check_chunk()? {
            ChunkRead::Whole(chunk) => chunk,
            // The part before was cut, because its disk was full.
            ChunkRead::Damaged => match input.next_part(recording)? {
                PartRead::Same(_) => continue,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        if chunk.kind == ChunkKind::EVENTS {
            events += u64::from(chunk.count);
            last_cpu = last_cpu.max(chunk.cpu);
        }
        if chunk.kind == ChunkKind::PART {
            let found = RecordingId::of(&chunk, input.payload(&chunk)?);
            recording = recording.or(found);
        }
        if chunk.kind == ChunkKind::END {
            let mut payload = input.payload(&chunk)?;
            let (_, lost_here) = (take_varint(&mut payload), take_varint(&mut payload).unwrap_or(0));
            lost = lost.saturating_add(lost_here);
            input.pass(CHUNK_HEADER_BYTES + chunk.stored_bytes);
            if let PartRead::Same(_) = input.next_part(recording)? {
                continue;
            }
            let bytes = input.at();
            let is_end = input.peek(1)?.is_empty();
            let summary = TraceSummary { header, ended_ns: chunk.base_ns, events, lost, last_cpu, bytes };
            return Ok(is_end.then_some(summary));
        }
        input.pass(CHUNK_HEADER_BYTES + chunk.stored_bytes);
    }
}

#[cfg(test)]
mod tests {
    use cpumon_sched::{Leaves, SchedEventKind, TraceTask};

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
