//! What a trace file is made of: a header with the machine, the time, and how the trace's clock relates to others; then chunks, each a
//! header of 32 bytes with a checksum, and a payload. Files of one recording may follow each other in one file: such a part begins with the
//! header of a file and a chunk that identifies the recording.

use std::io::Read;

use cpumon_model::{BootId, Moment};

use super::ReadError;
use super::columns::announced_bytes;

/// The newest version, of files that may have events by columns.
pub const VERSION: u16 = 2;
/// Version of files without columns.
pub(super) const WITHOUT_COLUMNS: u16 = 1;

const FILE_MAGIC: [u8; 8] = *b"cpumon-t";
const FIXED_BYTES: usize = 60;
const MAX_NAME_BYTES: usize = 255;
const MAX_HEADER_BYTES: usize = FIXED_BYTES + MAX_NAME_BYTES + 4;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileHeader {
    pub boot: BootId,
    /// When the recording began, on each clock.
    pub began: Moment,
    /// CPUs that the machine may have.
    pub cpus: u16,
    /// Name of the machine, at most 255 bytes. Hostile.
    pub host: Box<str>,
}

impl FileHeader {
    pub(super) fn encode(&self, version: u16) -> Vec<u8> {
        let mut end = self.host.len().min(MAX_NAME_BYTES);
        while !self.host.is_char_boundary(end) {
            end -= 1;
        }
        let name = &self.host.as_bytes()[..end];
        let mut bytes = [
            &FILE_MAGIC[..],
            &version.to_le_bytes(),
            &self.cpus.to_le_bytes(),
            &self.boot.0,
            &self.began.mono_ns.to_le_bytes(),
            &self.began.boot_ns.to_le_bytes(),
            &self.began.wall_ns.to_le_bytes(),
            &(name.len() as u64).to_le_bytes(),
            name,
        ]
        .concat();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    #[doc(hidden)]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode(VERSION)
    }

    /// Reads a header from the start of a file. A short read is a foreign file if its first bytes are not those of a trace.
    pub(super) fn read(from: &mut dyn Read) -> Result<(Self, u64), ReadError> {
        let mut bytes = Vec::with_capacity(MAX_HEADER_BYTES);
        fill(from, &mut bytes, 10)?;
        if bytes.len() < 10 || !bytes.starts_with(&FILE_MAGIC) {
            return Err(ReadError::Foreign);
        }
        let found = u16::from_le_bytes(array(&bytes, 8).ok_or(ReadError::Header)?);
        if !(WITHOUT_COLUMNS..=VERSION).contains(&found) {
            return Err(ReadError::Version { found, known: VERSION });
        }
        fill(from, &mut bytes, FIXED_BYTES)?;
        let name_bytes = u64::from_le_bytes(array(&bytes, 52).ok_or(ReadError::Header)?);
        let name_bytes = usize::try_from(name_bytes).unwrap_or(usize::MAX);
        if name_bytes > MAX_NAME_BYTES {
            return Err(ReadError::Header);
        }
        let end = FIXED_BYTES + name_bytes;
        fill(from, &mut bytes, end + 4)?;
        let crc = u32::from_le_bytes(array(&bytes, end).ok_or(ReadError::Header)?);
        if crc32c::crc32c(&bytes[..end]) != crc {
            return Err(ReadError::Header);
        }
        Ok((Self::decode(&bytes[..end]).ok_or(ReadError::Header)?, (end + 4) as u64))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            cpus: u16::from_le_bytes(array(bytes, 10)?),
            boot: BootId(array(bytes, 12)?),
            began: Moment {
                mono_ns: u64::from_le_bytes(array(bytes, 28)?),
                boot_ns: u64::from_le_bytes(array(bytes, 36)?),
                wall_ns: i64::from_le_bytes(array(bytes, 44)?),
            },
            host: String::from_utf8_lossy(bytes.get(FIXED_BYTES..)?).into(),
        })
    }
}

/// Reads until `bytes` has `length`, or the file ends.
fn fill(from: &mut dyn Read, bytes: &mut Vec<u8>, length: usize) -> std::io::Result<()> {
    let missing = length.saturating_sub(bytes.len());
    from.take(missing as u64).read_to_end(bytes)?;
    Ok(())
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(super) const CHUNK_HEADER_BYTES: usize = 32;
/// The largest payload, stored or unpacked. Writers close a chunk far below that.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;

const CHUNK_MAGIC: [u8; 4] = *b"chnk";
/// Bytes in which a magic is searched at a time.
const SEARCHED_BYTES: usize = 64 << 10;
/// Bytes of the payload of [`ChunkKind::PART`].
const PART_BYTES: usize = 16;

/// What a chunk has. Other numbers are of a later version of the format.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkKind(u8);

impl ChunkKind {
    pub(super) const EVENTS: Self = Self(1);
    pub(super) const IDENTITIES: Self = Self(2);
    /// All events up to `base_ns` are in the file.
    pub(super) const SYNC: Self = Self(3);
    /// The recording ended regularly at `base_ns`.
    pub(super) const END: Self = Self(4);
    pub(super) const GROUPS: Self = Self(5);
    /// The file is one of several of the recording that began at `base_ns`, on the boot in the payload.
    pub(super) const PART: Self = Self(6);
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None = 0,
    Zstd = 1,
    /// Events by column, each column a zstd frame.
    Columns = 2,
}

const PACKINGS: [Packing; 3] = [Packing::None, Packing::Zstd, Packing::Columns];

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkHeader {
    pub(super) kind: ChunkKind,
    pub(super) packing: Packing,
    pub(super) cpu: u16,
    pub(super) stored_bytes: usize,
    pub(super) raw_bytes: usize,
    pub(super) count: u32,
    pub(super) base_ns: u64,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ChunkRead {
    Whole(ChunkHeader),
    /// The file ends where a chunk would begin.
    End,
    /// The file ends inside the chunk.
    Torn,
    Damaged,
}

impl ChunkHeader {
    /// The header of `payload`, checksum included.
    pub(super) fn encode(&self, payload: &[u8]) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[..4].copy_from_slice(&CHUNK_MAGIC);
        bytes[4] = self.kind.0;
        bytes[5] = self.packing as u8;
        bytes[6..8].copy_from_slice(&self.cpu.to_le_bytes());
        bytes[8..12].copy_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::try_from(self.raw_bytes).unwrap_or(u32::MAX).to_le_bytes());
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[24..].copy_from_slice(&self.base_ns.to_le_bytes());
        let crc = checksum(&bytes, payload);
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let size = |at| usize::try_from(u32::from_le_bytes(array(bytes, at)?)).ok();
        if bytes.len() != CHUNK_HEADER_BYTES || bytes.get(..4)? != CHUNK_MAGIC {
            return None;
        }
        let header = Self {
            kind: ChunkKind(*bytes.get(4)?),
            packing: PACKINGS.into_iter().find(|packing| *packing as u8 == bytes[5])?,
            cpu: u16::from_le_bytes(array(bytes, 6)?),
            stored_bytes: size(8)?,
            raw_bytes: size(12)?,
            count: u32::from_le_bytes(array(bytes, 16)?),
            base_ns: u64::from_le_bytes(array(bytes, 24)?),
        };
        let is_sound = header.stored_bytes <= MAX_PAYLOAD_BYTES
            && header.raw_bytes <= MAX_PAYLOAD_BYTES
            && (header.packing != Packing::None || header.stored_bytes == header.raw_bytes);
        is_sound.then_some(header)
    }
}

/// Of a header, its checksum left out, and the payload.
fn checksum(header: &[u8; CHUNK_HEADER_BYTES], payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..20]), &header[24..]);
    crc32c::crc32c_append(crc, payload)
}

/// Header and payload of the chunk with which these bytes begin, if that is whole.
fn first_chunk(bytes: &[u8]) -> Option<(ChunkHeader, &[u8])> {
    let head = array::<CHUNK_HEADER_BYTES>(bytes, 0)?;
    let header = ChunkHeader::decode(&head)?;
    let payload = bytes.get(CHUNK_HEADER_BYTES..CHUNK_HEADER_BYTES + header.stored_bytes)?;
    let crc = u32::from_le_bytes(array(&head, 20)?);
    (checksum(&head, payload) == crc).then_some((header, payload))
}

/// Which recording. Only within one do the numbers of tasks mean the same.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordingId {
    /// When it began, ns on the trace's clock.
    pub(super) began_ns: u64,
    pub(super) boot: BootId,
}

impl RecordingId {
    /// What a chunk says; `None` if it says nothing of that.
    pub(super) fn of(header: &ChunkHeader, payload: &[u8]) -> Option<Self> {
        let is_part = header.kind == ChunkKind::PART && header.packing == Packing::None;
        let boot = BootId(array(payload, 0)?);
        is_part.then_some(Self { began_ns: header.base_ns, boot })
    }
}

pub(super) enum PartRead {
    /// Neither a part nor another file.
    None,
    /// A part of the same recording, which is passed up to its first chunk. When it began, ns.
    Same(u64),
    /// A file of another recording.
    Other,
}

/// The bytes of a file that is read once from its start. Bytes can be seen before they are passed, so that a search for whole chunks can
/// begin again inside a damaged one.
pub(super) struct Input<R> {
    from: R,
    bytes: Vec<u8>,
    start: usize,
    at: u64,
}

impl<R: Read> Input<R> {
    /// `at`: bytes of the file that were read before.
    pub(super) fn new(from: R, at: u64) -> Self {
        Self { from, bytes: Vec::new(), start: 0, at }
    }

    /// The next `length` bytes; fewer where the file ends.
    pub(super) fn peek(&mut self, length: usize) -> std::io::Result<&[u8]> {
        if self.bytes.len() - self.start < length {
            self.bytes.drain(..self.start);
            self.start = 0;
            let missing = length - self.bytes.len();
            self.from.by_ref().take(missing as u64).read_to_end(&mut self.bytes)?;
        }
        let rest = &self.bytes[self.start..];
        Ok(&rest[..length.min(rest.len())])
    }

    /// Moves past bytes that were seen.
    pub(super) fn pass(&mut self, length: usize) {
        let length = length.min(self.bytes.len() - self.start);
        self.start += length;
        self.at += length as u64;
    }

    /// Number of bytes in memory that were not passed yet.
    pub(super) fn seen_bytes(&self) -> u64 {
        (self.bytes.len() - self.start) as u64
    }

    /// Bytes of the file in front of the next one.
    pub(super) fn at(&self) -> u64 {
        self.at
    }
    /// Checks the chunk that begins here, and does not pass it.
    pub(super) fn check_chunk(&mut self) -> std::io::Result<ChunkRead> {
        let head = self.peek(CHUNK_HEADER_BYTES)?;
        if head.len() < CHUNK_HEADER_BYTES {
            return Ok(if head.is_empty() { ChunkRead::End } else { ChunkRead::Torn });
        }
        let Some(header) = ChunkHeader::decode(head) else { return Ok(ChunkRead::Damaged) };
        let chunk = self.peek(CHUNK_HEADER_BYTES + header.stored_bytes)?;
        if chunk.len() < CHUNK_HEADER_BYTES + header.stored_bytes {
            return Ok(ChunkRead::Torn);
        }
        Ok(if first_chunk(chunk).is_some() { ChunkRead::Whole(header) } else { ChunkRead::Damaged })
    }

    /// The payload of the chunk that begins here, as it is stored.
    pub(super) fn payload(&mut self, header: &ChunkHeader) -> std::io::Result<&[u8]> {
        let chunk = self.peek(CHUNK_HEADER_BYTES + header.stored_bytes)?;
        Ok(chunk.get(CHUNK_HEADER_BYTES..).unwrap_or_default())
    }

    /// Passes bytes up to the next magic, and at least one byte.
    ///
    /// False: the file ends before a magic.
    pub(super) fn pass_to_next_chunk(&mut self) -> std::io::Result<bool> {
        self.pass(1);
        loop {
            let bytes = self.peek(SEARCHED_BYTES)?;
            let length = bytes.len();
            if let Some(found) = bytes.windows(CHUNK_MAGIC.len()).position(|window| window == CHUNK_MAGIC) {
                self.pass(found);
                return Ok(true);
            }
            if length < SEARCHED_BYTES {
                self.pass(length);
                return Ok(false);
            }
            self.pass(length - (CHUNK_MAGIC.len() - 1));
        }
    }

    /// Reads what begins here, if it is no chunk. `recording`: that of the file, if it says one.
    pub(super) fn next_part(&mut self, recording: Option<RecordingId>) -> std::io::Result<PartRead> {
        let mut rest = self.peek(MAX_HEADER_BYTES + CHUNK_HEADER_BYTES + PART_BYTES)?;
        if !rest.starts_with(&FILE_MAGIC) {
            return Ok(PartRead::None);
        }
        let Ok((part, header_bytes)) = FileHeader::read(&mut rest) else { return Ok(PartRead::None) };
        let found = first_chunk(rest).and_then(|(header, payload)| RecordingId::of(&header, payload));
        if found.is_none() || found != recording {
            return Ok(PartRead::Other);
        }
        self.pass(usize::try_from(header_bytes).unwrap_or(usize::MAX));
        Ok(PartRead::Same(part.began.mono_ns))
    }
}

/// A chunk with a right checksum and any payload, for fuzzers. With `is_columns`, a payload that announces columns is marked as such.
#[doc(hidden)]
pub fn chunk_of(kind: u8, cpu: u16, count: u32, payload: &[u8], is_columns: bool) -> Vec<u8> {
    let announced = is_columns.then(|| announced_bytes(payload)).flatten();
    let announced = announced.and_then(|bytes| usize::try_from(bytes).ok());
    let packing = if announced.is_some() { Packing::Columns } else { Packing::None };
    let (stored_bytes, raw_bytes) = (payload.len(), announced.unwrap_or(payload.len()));
    let kind = ChunkKind(kind);
    let header = ChunkHeader { kind, packing, cpu, stored_bytes, raw_bytes, count, base_ns: 0 };
    [&header.encode(payload)[..], payload].concat()
}
