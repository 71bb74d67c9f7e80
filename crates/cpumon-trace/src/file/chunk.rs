//! Chunks: a header of 32 bytes with a checksum, and what it announces.

use std::io::Read;

use super::columns;
use super::header::array;
use super::input::Input;

pub(super) const HEADER_BYTES: usize = 32;
/// The largest payload, stored or unpacked. Writers close a chunk far below that.
pub(super) const MAX_PAYLOAD_BYTES: usize = 1 << 20;

const MAGIC: [u8; 4] = *b"chnk";
/// Bytes in which a magic is searched at a time.
const SEARCHED_BYTES: usize = 64 << 10;

/// What a chunk has inside.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ChunkKind {
    /// Events of one CPU.
    Events,
    /// Who tasks are.
    Identities,
    /// All events up to `base_ns` are in the file.
    Sync,
    /// The recording ended in order at `base_ns`.
    End,
    /// How control groups are called.
    Groups,
    /// The file is one of several of the recording that began at `base_ns`, on the boot in the payload.
    Part,
    /// Of a later version of the format.
    Other(u8),
}

/// How a payload is stored.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// As it is.
    None,
    /// As a zstd frame.
    Zstd,
    /// Events by columns, each a zstd frame.
    Columns,
}

/// The header of a chunk.
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

/// What begins at some place of the file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ChunkRead {
    Whole(ChunkHeader),
    /// The file ends where a chunk would begin.
    End,
    /// The file ends inside.
    Torn,
    Damaged,
}

impl ChunkKind {
    fn number(self) -> u8 {
        match self {
            Self::Events => 1,
            Self::Identities => 2,
            Self::Sync => 3,
            Self::End => 4,
            Self::Groups => 5,
            Self::Part => 6,
            Self::Other(number) => number,
        }
    }

    fn of(number: u8) -> Self {
        match number {
            1 => Self::Events,
            2 => Self::Identities,
            3 => Self::Sync,
            4 => Self::End,
            5 => Self::Groups,
            6 => Self::Part,
            other => Self::Other(other),
        }
    }
}

impl Packing {
    fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Zstd => 1,
            Self::Columns => 2,
        }
    }

    fn of(number: u8) -> Option<Self> {
        [Self::None, Self::Zstd, Self::Columns].into_iter().find(|one| one.number() == number)
    }
}

impl ChunkHeader {
    /// The header of `payload`, checksum included.
    pub(super) fn encode(&self, payload: &[u8]) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind.number();
        bytes[5] = self.packing.number();
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
        if bytes.len() != HEADER_BYTES || bytes.get(..4)? != MAGIC {
            return None;
        }
        let header = Self {
            kind: ChunkKind::of(*bytes.get(4)?),
            packing: Packing::of(*bytes.get(5)?)?,
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
fn checksum(header: &[u8; HEADER_BYTES], payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..20]), &header[24..]);
    crc32c::crc32c_append(crc, payload)
}

/// Checks the chunk that begins here, and does not pass it.
pub(super) fn check<R: Read>(input: &mut Input<R>) -> std::io::Result<ChunkRead> {
    let bytes = input.peek(HEADER_BYTES)?;
    if bytes.is_empty() {
        return Ok(ChunkRead::End);
    }
    let Some(bytes) = array::<HEADER_BYTES>(bytes, 0) else { return Ok(ChunkRead::Torn) };
    let Some(header) = ChunkHeader::decode(&bytes) else { return Ok(ChunkRead::Damaged) };
    let payload = payload(input, &header)?;
    if payload.len() < header.stored_bytes {
        return Ok(ChunkRead::Torn);
    }
    let crc = u32::from_le_bytes([bytes[20], bytes[21], bytes[22], bytes[23]]);
    Ok(if checksum(&bytes, payload) == crc { ChunkRead::Whole(header) } else { ChunkRead::Damaged })
}

/// Header and payload of the chunk with which these bytes begin, if that is whole.
pub(super) fn first_of(bytes: &[u8]) -> Option<(ChunkHeader, &[u8])> {
    let head = array::<HEADER_BYTES>(bytes, 0)?;
    let header = ChunkHeader::decode(&head)?;
    let payload = bytes.get(HEADER_BYTES..HEADER_BYTES + header.stored_bytes)?;
    let crc = u32::from_le_bytes(array(&head, 20)?);
    (checksum(&head, payload) == crc).then_some((header, payload))
}

/// What the chunk that begins here has inside, as it is stored.
pub(super) fn payload<'i, R: Read>(
    input: &'i mut Input<R>,
    header: &ChunkHeader,
) -> std::io::Result<&'i [u8]> {
    let chunk = input.peek(HEADER_BYTES + header.stored_bytes)?;
    Ok(chunk.get(HEADER_BYTES..).unwrap_or_default())
}

/// Passes what is no chunk. The first bytes are passed in any case, then all up to the next magic.
///
/// False: the file ends before one.
pub(super) fn pass_to_next<R: Read>(input: &mut Input<R>) -> std::io::Result<bool> {
    input.pass(1);
    loop {
        let bytes = input.peek(SEARCHED_BYTES)?;
        let length = bytes.len();
        if let Some(found) = bytes.windows(MAGIC.len()).position(|window| window == MAGIC) {
            input.pass(found);
            return Ok(true);
        }
        if length < SEARCHED_BYTES {
            input.pass(length);
            return Ok(false);
        }
        input.pass(length - (MAGIC.len() - 1));
    }
}

/// A chunk with a right checksum and any payload, for fuzzers: as it is, or what is in columns where it announces such.
#[doc(hidden)]
#[must_use]
pub fn chunk_of(kind: u8, cpu: u16, count: u32, payload: &[u8], is_columns: bool) -> Vec<u8> {
    let announced = is_columns.then(|| columns::announced_bytes(payload)).flatten();
    let announced = announced.and_then(|bytes| usize::try_from(bytes).ok());
    let packing = if announced.is_some() { Packing::Columns } else { Packing::None };
    let (stored_bytes, raw_bytes) = (payload.len(), announced.unwrap_or(payload.len()));
    let kind = ChunkKind::of(kind);
    let header = ChunkHeader { kind, packing, cpu, stored_bytes, raw_bytes, count, base_ns: 0 };
    [&header.encode(payload)[..], payload].concat()
}
