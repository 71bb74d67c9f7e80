//! The header of a trace file: which machine, when, and how the trace's clock relates to others.

use std::io::Read;

use cpumon_model::{BootId, Moment};

use super::ReadError;

/// The newest version, of files that may have events by columns.
pub const VERSION: u16 = 2;
/// Of files without them.
pub(super) const WITHOUT_COLUMNS: u16 = 1;

pub(super) const MAGIC: [u8; 8] = *b"cpumon-t";
/// Bytes of the fixed part.
const FIXED_BYTES: usize = 60;
const MAX_NAME_BYTES: usize = 255;
/// Bytes of the longest header.
pub(super) const MAX_BYTES: usize = FIXED_BYTES + MAX_NAME_BYTES + 4;

/// What a trace file says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileHeader {
    /// Boot of the machine.
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
        let mut bytes = Vec::with_capacity(FIXED_BYTES + name.len() + 4);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&self.cpus.to_le_bytes());
        bytes.extend_from_slice(&self.boot.0);
        bytes.extend_from_slice(&self.began.mono_ns.to_le_bytes());
        bytes.extend_from_slice(&self.began.boot_ns.to_le_bytes());
        bytes.extend_from_slice(&self.began.wall_ns.to_le_bytes());
        bytes.extend_from_slice(&u64::try_from(name.len()).unwrap_or(0).to_le_bytes());
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    #[doc(hidden)]
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode(VERSION)
    }

    /// Reads a header from the start of a file. A short read is a foreign file if its first bytes are not those of a trace.
    pub(super) fn read(from: &mut dyn Read) -> Result<(Self, u64), ReadError> {
        let mut bytes = Vec::with_capacity(MAX_BYTES);
        fill(from, &mut bytes, 10)?;
        if bytes.len() < 10 || !bytes.starts_with(&MAGIC) {
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
pub(super) fn fill(from: &mut dyn Read, bytes: &mut Vec<u8>, length: usize) -> std::io::Result<()> {
    let missing = length.saturating_sub(bytes.len());
    from.take(missing as u64).read_to_end(bytes)?;
    Ok(())
}

/// So many bytes at this place.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
