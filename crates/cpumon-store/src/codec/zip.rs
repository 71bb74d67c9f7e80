//! zstd around a section, with its plain length in front. The largest length is checked here, so neither damaged bytes nor a few that become
//! many reserve memory.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

use super::limits::MAX_SECTION_BYTES;
use super::varint::{self, Malformed, VarintCursor};

/// Compresses `plain`; an error if it is too large to be read back.
pub(crate) fn zip(plain: &[u8], level: i32) -> std::io::Result<Vec<u8>> {
    // Checked here too: what `unzip` refuses must not be written.
    if plain.len() > MAX_SECTION_BYTES {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "a section of more than 64 MiB"));
    }
    let mut out = Vec::with_capacity(plain.len() / 2 + 16);
    varint::write(&mut out, plain.len() as u64);
    let mut compressor = Compressor::new(level)?;
    // Four bytes, without which a flipped bit can decode to other numbers.
    compressor.include_checksum(true)?;
    out.extend(compressor.compress(plain)?);
    Ok(out)
}

thread_local! {
    /// What zstd needs to decompress: 160 KB that are made once a thread and not for each section.
    static DECOMPRESSOR: RefCell<Decompressor<'static>> = RefCell::default();
}

/// Decompresses at most so many bytes into `plain`, in place of what was there.
pub(crate) fn unzip(zipped: &[u8], plain: &mut Vec<u8>, most: usize) -> Result<(), Malformed> {
    let mut cursor = VarintCursor::new(zipped);
    let len: usize = cursor.narrow()?;
    if len > most {
        return Err(cursor.malformed("section too large"));
    }
    // A few damaged bytes in front reserve no memory.
    let frame = cursor.bytes(cursor.remaining())?;
    if !matches!(zstd_safe::get_frame_content_size(frame), Ok(Some(size)) if size == len as u64) {
        return Err(cursor.malformed("compressed data damaged"));
    }
    if len > plain.capacity() {
        plain.clear();
        plain.reserve_exact(len);
    }
    // zstd writes into this memory and never adds to it: a frame that holds more cannot take more.
    plain.resize(len, 0);
    let read = DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.decompress_to_buffer(frame, plain));
    match read {
        // The memory may be larger than `len`, because of an earlier section: more than `len` can fit.
        Ok(read) if read == len => Ok(()),
        _ => Err(cursor.malformed("compressed data damaged")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_false_length_reserves_no_memory() {
        let mut zipped = Vec::new();
        varint::write(&mut zipped, 60 << 20);
        zipped.extend(zstd::bulk::compress(b"a few bytes", 1).unwrap());
        let mut back = Vec::new();
        assert!(unzip(&zipped, &mut back, MAX_SECTION_BYTES).is_err());
        assert_eq!(back.capacity(), 0);
    }

    #[test]
    fn each_flipped_bit_is_noticed() {
        // Numbers that compress badly are stored as they are: without a checksum any bit of them could change.
        let plain: Vec<u8> =
            (0..200_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let zipped = zip(&plain, 3).unwrap();
        let mut back = Vec::new();
        unzip(&zipped, &mut back, 200).unwrap_err();
        unzip(&zipped, &mut back, plain.len()).unwrap();
        assert_eq!(back, plain);
        for bit in 0..zipped.len() * 8 {
            let mut damaged = zipped.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(unzip(&damaged, &mut back, plain.len()).is_err() || back == plain, "bit {bit}");
        }
    }
}
