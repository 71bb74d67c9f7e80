//! The header of a buffer.

use super::super::bytes::{Bytes, Order};

pub(super) const HEADER_BYTES: usize = 72;
/// Larger ones are not read: Windows makes them up to 16 MiB.
pub(super) const MAX_BUFFER_BYTES: u32 = 16 << 20;

const EVENTS_LOST: u16 = 2;
const BUFFER_LOST: u16 = 4;
const HAS_LARGE_CPU: u16 = 0x20;
const IS_PACKED: u16 = 0x40;

/// What is in front of the events of a buffer.
#[derive(Copy, Clone, Debug)]
pub(super) struct BufferHeader {
    /// Bytes of the buffer in the file, this header among them.
    pub(super) bytes: u32,
    /// Bytes of it that are used, unpacked.
    pub(super) used: u32,
    /// It counts the buffers of all CPUs as they were filled.
    pub(super) sequence: u64,
    pub(super) cpu: u16,
    pub(super) is_packed: bool,
    /// Events or whole buffers were dropped in front of it or behind it.
    pub(super) is_lossy: bool,
    /// Which algorithm packed the buffers, in the first one of a file.
    pub(super) packing: u16,
}

/// What lies where a buffer should be.
#[derive(Copy, Clone, Debug)]
pub(super) enum Found {
    Buffer(BufferHeader),
    /// The rest of the file is not used.
    End,
    /// No buffer has such a header.
    Damaged,
}

impl BufferHeader {
    pub(super) fn read(from: &[u8; HEADER_BYTES]) -> Found {
        if from.starts_with(&[0xff; 4]) || *from == [0; HEADER_BYTES] {
            return Found::End;
        }
        match Self::fields(from) {
            Some(header) if header.is_possible() => Found::Buffer(header),
            _ => Found::Damaged,
        }
    }

    fn fields(from: &[u8; HEADER_BYTES]) -> Option<Self> {
        let at = |at: usize| Bytes::new(from.get(at..).unwrap_or_default(), Order::Little);
        let flags = at(52).u16()?;
        let (saved, offset) = (at(4).u32()?, at(48).u32()?);
        let cpu = if flags & HAS_LARGE_CPU == 0 { u16::from(from[40]) } else { at(40).u16()? };
        Some(Self {
            bytes: at(0).u32()?,
            // Windows 7 leaves either of them 0.
            used: if saved == 0 { offset } else { saved },
            sequence: at(24).u64()?,
            cpu,
            is_packed: flags & IS_PACKED != 0,
            is_lossy: flags & (EVENTS_LOST | BUFFER_LOST) != 0,
            packing: at(44).u16()?,
        })
    }

    fn is_possible(&self) -> bool {
        let least = u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX);
        let sizes = least..=MAX_BUFFER_BYTES;
        sizes.contains(&self.bytes)
            && sizes.contains(&self.used)
            && (self.is_packed || self.used <= self.bytes)
    }

    /// Bytes behind the header in the file.
    pub(super) fn body_bytes(&self) -> u64 {
        u64::from(self.bytes).saturating_sub(HEADER_BYTES as u64)
    }

    /// Bytes of events.
    pub(super) fn event_bytes(&self) -> usize {
        usize::try_from(self.used).unwrap_or(0).saturating_sub(HEADER_BYTES)
    }
}
