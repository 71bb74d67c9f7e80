//! Reads a trace file from its begin to its end, once, also while it is being written.

use std::io::Read;

use cpumon_model::SchedEvent;
use zstd::bulk::Decompressor;

use super::ReadError;
use super::chunk::{self, ChunkHeader, ChunkKind, ChunkRead};
use super::header::FileHeader;
use super::identities::take_identity;
use super::sorter::Sorter;
use super::varint::take;
use crate::tasks::Tasks;

/// How the reading of a file ended, and what was wrong on the way.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// The recording ended in order at this time, and the file says so.
    pub ended_ns: Option<u64>,
    /// The file ends inside a chunk, or has a damaged one, here (byte): what follows is not read.
    pub damaged_at: Option<u64>,
    /// Chunks whose events cannot be read though their checksum is right.
    pub malformed: u64,
    /// Events out of order.
    pub late: u64,
    /// Events that the recorder lost, by its own count at the end.
    pub lost: u64,
    /// All events up to here are known, ns.
    pub known_until_ns: u64,
}

impl Ending {
    /// Whether the file is whole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.ended_ns.is_some() && self.damaged_at.is_none() && self.malformed == 0
    }
}

/// A trace file that is being read.
pub struct TraceReader<R: Read> {
    from: R,
    header: FileHeader,
    at: u64,
    tasks: Tasks,
    sorter: Sorter,
    stored: Vec<u8>,
    unpacker: Decompressor<'static>,
    ending: Ending,
}

impl<R: Read> TraceReader<R> {
    /// Reads the header.
    pub fn open(mut from: R) -> Result<Self, ReadError> {
        let (header, at) = FileHeader::read(&mut from)?;
        let ending = Ending { known_until_ns: header.began.mono_ns, ..Ending::default() };
        Ok(Self {
            from,
            header,
            at,
            tasks: Tasks::default(),
            sorter: Sorter::default(),
            stored: Vec::new(),
            unpacker: Decompressor::new()?,
            ending,
        })
    }

    /// What the file says about itself.
    #[must_use]
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Who the tasks are, as far as the file has been read.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Hands out every event, in the order of their time, up to the end of the file or the first damage.
    ///
    /// Errors: the file cannot be read. A damaged file is no error: [`Ending`] says where the damage is.
    pub fn read(&mut self, out: &mut impl FnMut(SchedEvent)) -> Result<Ending, ReadError> {
        loop {
            match chunk::read(&mut self.from, &mut self.stored)? {
                ChunkRead::Whole(header) => {
                    if !self.take(&header, out) {
                        self.ending.damaged_at = Some(self.at);
                        break;
                    }
                    self.at += (chunk::HEADER_BYTES + header.stored_bytes) as u64;
                    if self.ending.ended_ns.is_some() {
                        break;
                    }
                }
                ChunkRead::End => break,
                ChunkRead::Torn | ChunkRead::Damaged => {
                    self.ending.damaged_at = Some(self.at);
                    break;
                }
            }
        }
        self.emit(u64::MAX, out);
        (self.ending.malformed, self.ending.late) = (self.sorter.malformed, self.sorter.late);
        if let Some(ended_ns) = self.ending.ended_ns {
            self.ending.known_until_ns = self.ending.known_until_ns.max(ended_ns);
        }
        Ok(self.ending)
    }

    fn emit(&mut self, until_ns: u64, out: &mut impl FnMut(SchedEvent)) {
        let known_ns = &mut self.ending.known_until_ns;
        self.sorter.emit(until_ns, &mut |event| {
            *known_ns = (*known_ns).max(event.at_ns);
            out(event);
        });
    }

    /// False if the payload is not what its header says.
    fn take(&mut self, header: &ChunkHeader, out: &mut impl FnMut(SchedEvent)) -> bool {
        match header.kind {
            ChunkKind::Events => {
                let mut raw = self.sorter.buffer();
                if !self.unpack(header, &mut raw) {
                    return false;
                }
                self.sorter.add(header.cpu, header.base_ns, header.count, raw);
                if self.sorter.is_full() {
                    self.emit(u64::MAX, out);
                }
                true
            }
            ChunkKind::Identities => {
                let mut raw = self.sorter.buffer();
                self.unpack(header, &mut raw) && self.take_identities(&raw)
            }
            ChunkKind::Sync => {
                self.emit(header.base_ns, out);
                self.ending.known_until_ns = self.ending.known_until_ns.max(header.base_ns);
                true
            }
            ChunkKind::End => {
                let mut raw = self.stored.as_slice();
                let _events = take(&mut raw);
                self.ending.lost = take(&mut raw).unwrap_or(0);
                self.ending.ended_ns = Some(header.base_ns);
                true
            }
            // Of a later minor version, which may be left out.
            ChunkKind::Other(_) => true,
        }
    }

    fn take_identities(&mut self, mut raw: &[u8]) -> bool {
        while !raw.is_empty() {
            let Some(identity) = take_identity(&mut raw) else { return false };
            self.tasks.set(identity);
        }
        true
    }

    fn unpack(&mut self, header: &ChunkHeader, raw: &mut Vec<u8>) -> bool {
        raw.clear();
        if !header.is_packed {
            raw.extend_from_slice(&self.stored);
            return true;
        }
        raw.reserve(header.raw_bytes);
        // zstd writes no more than there is space for, whatever the frame announces.
        self.unpacker.decompress_to_buffer(&self.stored, raw).is_ok_and(|bytes| bytes == header.raw_bytes)
    }
}
