//! Sections and chunks of version 7 that are compressed: two sizes, then the data.

use std::io::{Read, Seek, SeekFrom};

use super::super::bytes::{Bytes, Order, read_up_to};
use crate::cost::Credit;
use crate::file::ReadError;

/// The largest section that is read. The descriptions of all tracepoints of a kernel have 2 to 4 MB.
pub(super) const MAX_SECTION_BYTES: u64 = 64 << 20;
const HEADER_BYTES: u64 = 16;
const IS_PACKED: u16 = 1;

/// How a file compresses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Zstd,
}

impl Packing {
    pub(super) fn of(name: &[u8]) -> Result<Self, ReadError> {
        match name {
            b"none" => Ok(Self::None),
            b"zstd" => Ok(Self::Zstd),
            _ => Err(ReadError::Unusable(
                "it is compressed with a method other than zstd; `trace-cmd convert --compression zstd` makes one that can be read",
            )),
        }
    }

    /// `None`: the bytes are damaged, or become more than they may.
    pub(super) fn unpack(self, packed: &[u8], unpacked: u32, credit: &mut Credit) -> Option<Vec<u8>> {
        let unpacked = usize::try_from(unpacked).ok()?;
        // Only what is there counts, not what the header claims.
        credit.add(packed.len());
        if !credit.take(unpacked) {
            return None;
        }
        let bytes = match self {
            Self::None => packed.to_vec(),
            Self::Zstd => zstd::bulk::decompress(packed, unpacked).ok()?,
        };
        (bytes.len() == unpacked).then_some(bytes)
    }
}

/// How the sections of a file are read.
#[derive(Debug)]
pub(super) struct Sections {
    order: Order,
    packing: Packing,
    credit: Credit,
}

/// What is in front of a section.
pub(super) struct SectionHeader {
    id: u16,
    bytes: u64,
    pub(super) is_packed: bool,
}

impl Sections {
    pub(super) fn new(order: Order, packing: Packing) -> Self {
        Self { order, packing, credit: Credit::default() }
    }

    /// Goes to the content of a section.
    pub(super) fn open<R: Read + Seek>(&self, from: &mut R, at: u64) -> Result<SectionHeader, ReadError> {
        // Beyond the largest possible place of a file a seek fails with a message that says nothing.
        let at = i64::try_from(at).map_err(|_| ReadError::Header)?.unsigned_abs();
        from.seek(SeekFrom::Start(at))?;
        let raw = read_up_to(from, HEADER_BYTES, HEADER_BYTES)?.unwrap_or_default();
        let mut bytes = Bytes::new(&raw, self.order);
        let mut take = || {
            let (id, flags) = (bytes.u16()?, bytes.u16()?);
            bytes.skip(4)?;
            Some(SectionHeader { id, bytes: bytes.u64()?, is_packed: flags & IS_PACKED != 0 })
        };
        take().ok_or(ReadError::Header)
    }

    /// The content of a section with this number.
    pub(super) fn load<R: Read + Seek>(
        &mut self,
        from: &mut R,
        at: u64,
        id: u16,
    ) -> Result<Vec<u8>, ReadError> {
        let header = self.open(from, at)?;
        if header.id != id {
            return Err(ReadError::Header);
        }
        let Some(raw) = read_up_to(from, header.bytes, MAX_SECTION_BYTES)? else {
            return Err(ReadError::Unusable("a section of it is larger than any that trace-cmd writes"));
        };
        if raw.len() as u64 != header.bytes {
            return Err(ReadError::Unusable("it ends early: sections that say what is in it are missing"));
        }
        if !header.is_packed {
            return Ok(raw);
        }
        let mut bytes = Bytes::new(&raw, self.order);
        let mut unpack = || {
            let (packed, unpacked) = (bytes.u32()?, bytes.u32()?);
            let packed = bytes.take(usize::try_from(packed).ok()?)?;
            self.packing.unpack(packed, unpacked, &mut self.credit)
        };
        unpack().ok_or(ReadError::Header)
    }
}
