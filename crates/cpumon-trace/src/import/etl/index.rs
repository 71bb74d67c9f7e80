//! Where the buffers of a file are, in the order of their first events, and between which of them events are missing.
//!
//! A session writes the buffers of all CPUs as they become full or are flushed, and a circular file begins in the middle; buffers of
//! two sessions may be merged into one file. So the headers and the first event of each are read in advance.

use std::io::{Read, Seek, SeekFrom};

use super::super::decoder::read_up_to;
use super::buffer::{BufferHeader, BufferRead, EventRead, HEADER_BYTES, take_event};
use super::unpack::unpack;
use crate::file::ReadError;
use crate::source::Ending;

/// Buffers of a file; with 64 KiB each it has 128 GiB.
const MAX_BUFFERS: usize = 1 << 21;
/// Of a buffer, so much is read and unpacked to find its first event with a time.
const FIRST_BYTES: usize = 1024;

#[derive(Copy, Clone, Debug)]
pub(super) struct BufferEntry {
    /// Offset in the file.
    pub(super) at: u64,
    /// Time of the first event, ticks.
    pub(super) first: u64,
    /// That of the next buffer of its CPU; `None`: it is the last.
    pub(super) next: Option<u64>,
    sequence: u64,
    pub(super) cpu: u16,
    is_lossy: bool,
    /// Events are missing between it and the next one of its CPU.
    pub(super) is_gap_behind: bool,
    /// Events are missing in front of it, and no buffer of its CPU is there.
    pub(super) is_gap_before: bool,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) entries: Vec<BufferEntry>,
    /// Sequence numbers of all readable buffers.
    sequences: Vec<u64>,
}

/// Properties that all buffers share.
#[derive(Copy, Clone, Debug)]
pub(super) struct Shape {
    pub(super) packing: u16,
    /// Bytes from one to the next; 0: each has a size of its own, because they are packed.
    pub(super) buffer_bytes: u32,
}

/// The first events of a buffer; `None`: they cannot be unpacked.
fn first_events(
    from: &mut dyn Read,
    header: &BufferHeader,
    packing: u16,
) -> std::io::Result<Option<Vec<u8>>> {
    let wanted = header.event_bytes().min(FIRST_BYTES);
    let most = header.body_bytes().min(2 * FIRST_BYTES as u64);
    let mut body = read_up_to(from, most, most)?.unwrap_or_default();
    if header.is_packed {
        let mut events = Vec::new();
        return Ok(unpack(packing, &body, wanted, &mut events).then_some(events));
    }
    body.truncate(wanted);
    Ok(Some(body))
}

impl Index {
    /// Reads all headers from `at` on.
    pub(super) fn read<R: Read + Seek>(
        from: &mut R,
        mut at: u64,
        shape: Shape,
        ending: &mut Ending,
    ) -> Result<Self, ReadError> {
        let mut index = Self::default();
        loop {
            from.seek(SeekFrom::Start(at))?;
            let mut header = Vec::with_capacity(HEADER_BYTES);
            from.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header)?;
            if header.is_empty() {
                break;
            }
            let found = header.first_chunk().map_or(BufferRead::Damaged, BufferHeader::read);
            let bytes = match found {
                BufferRead::End => break,
                BufferRead::Buffer(header) if [0, header.bytes].contains(&shape.buffer_bytes) => {
                    match first_events(from, &header, shape.packing)? {
                        Some(events) => index.add(at, &header, &events)?,
                        None => note_damage(ending, at, usize::try_from(header.bytes).unwrap_or(0)),
                    }
                    header.bytes
                }
                BufferRead::Buffer(_) | BufferRead::Damaged => {
                    note_damage(ending, at, if header.len() < HEADER_BYTES { header.len() } else { 0 });
                    // The next one is where it would be, if they all have one size.
                    if shape.buffer_bytes == 0 || header.len() < HEADER_BYTES {
                        break;
                    }
                    ending.unreadable_bytes += u64::from(shape.buffer_bytes);
                    shape.buffer_bytes
                }
            };
            at = at.saturating_add(bytes.into());
            if i64::try_from(at).is_err() {
                break;
            }
        }
        index.arrange();
        Ok(index)
    }

    /// Adds a buffer; `events` are its first ones.
    fn add(&mut self, at: u64, header: &BufferHeader, mut events: &[u8]) -> Result<(), ReadError> {
        if self.sequences.len() >= MAX_BUFFERS {
            return Err(ReadError::Unusable("it has more than 2,097,152 buffers"));
        }
        self.sequences.push(header.sequence);
        let first = loop {
            match take_event(&mut events) {
                EventRead::Event(event) => break event.ticks,
                EventRead::Other => {}
                // It is empty, or begins with messages of programs; what is damaged is found when it is read.
                EventRead::End | EventRead::Damaged => {
                    break self.entries.last().map_or(0, |before| before.first);
                }
            }
        };
        self.entries.push(BufferEntry {
            at,
            first,
            next: None,
            sequence: header.sequence,
            cpu: header.cpu,
            is_lossy: header.is_lossy,
            is_gap_behind: false,
            is_gap_before: false,
        });
        Ok(())
    }

    /// Sorts the entries and finds the gaps.
    fn arrange(&mut self) {
        self.entries.sort_by_key(|entry| (entry.first, entry.cpu, entry.sequence));
        self.sequences.sort_unstable();
        // Buffers that are missing: the numbers around them.
        let jumps = self.sequences.windows(2).filter(|pair| pair[1] - pair[0] > 1);
        let holes: Vec<(u64, u64)> = jumps.map(|pair| (pair[0], pair[1])).collect();
        let mut behind: Vec<Option<usize>> = Vec::new();
        for place in (0..self.entries.len()).rev() {
            let mut entry = self.entries[place];
            let cpu = usize::from(entry.cpu);
            if cpu >= behind.len() {
                behind.resize(cpu + 1, None);
            }
            if let Some(next) = behind[cpu].replace(place).map(|next| self.entries[next]) {
                let hole = holes.get(holes.partition_point(|hole| hole.0 < entry.sequence));
                let is_hole = hole.is_some_and(|hole| hole.1 <= next.sequence);
                entry.is_gap_behind = entry.is_lossy || next.is_lossy || is_hole;
                entry.next = Some(next.first);
            }
            self.entries[place] = entry;
        }
        for first in behind.into_iter().flatten() {
            self.entries[first].is_gap_before = self.entries[first].is_lossy;
        }
    }
}

pub(super) fn note_damage(ending: &mut Ending, at: u64, bytes: usize) {
    ending.damaged_at = Some(ending.damaged_at.map_or(at, |known| known.min(at)));
    ending.gaps += 1;
    ending.unreadable_bytes += bytes as u64;
}
