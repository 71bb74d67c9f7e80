//! Reads and writes the fixed, little-endian fields and checksums of a spool.

/// The next `N` bytes; `None` where they reach beyond the end.
pub(super) fn take<const N: usize>(bytes: &[u8], at: &mut usize) -> Option<[u8; N]> {
    let field = bytes.get(*at..)?.first_chunk()?;
    *at += N;
    Some(*field)
}

pub(super) fn take_u32(bytes: &[u8], at: &mut usize) -> Option<u32> {
    take(bytes, at).map(u32::from_le_bytes)
}

pub(super) fn take_u64(bytes: &[u8], at: &mut usize) -> Option<u64> {
    take(bytes, at).map(u64::from_le_bytes)
}

pub(super) fn take_i64(bytes: &[u8], at: &mut usize) -> Option<i64> {
    take(bytes, at).map(i64::from_le_bytes)
}

/// Appends the CRC32C of everything from `begin` on.
pub(super) fn add_checksum(out: &mut Vec<u8>, begin: usize) {
    let sum = crc32c::crc32c(out.get(begin..).unwrap_or_default());
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Whether the last four of these bytes are the CRC32C of those before.
pub(super) fn has_checksum(bytes: &[u8]) -> bool {
    bytes.split_last_chunk().is_some_and(|(body, sum)| crc32c::crc32c(body) == u32::from_le_bytes(*sum))
}
