//! Files that are packed as a whole, by their first bytes. No program here reads one; each names the remedy.

/// Name of a compression, and a command that unpacks a file of it into a new one.
pub type Packing = (&'static str, &'static str);

/// Bytes from the start of a file that [`packing_of`] needs.
pub const PACKING_BYTES: u64 = 8;

/// How the file that begins with these bytes is packed; `None`: it is not.
pub fn packing_of(begin: &[u8]) -> Option<Packing> {
    const KINDS: [(&[u8], Packing); 7] = [
        (&[0x1f, 0x8b], ("gzip", "gzip -dc FILE > NEW")),
        (b"PK\x03\x04", ("zip", "unzip FILE")),
        (&[0x28, 0xb5, 0x2f, 0xfd], ("zstd", "zstd -d FILE -o NEW")),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], ("xz", "xz -dc FILE > NEW")),
        (b"BZh", ("bzip2", "bzip2 -dc FILE > NEW")),
        (&[0x04, 0x22, 0x4d, 0x18], ("lz4", "lz4 -d FILE NEW")),
        (&[b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c], ("7-Zip", "7z x FILE")),
    ];
    KINDS.into_iter().find(|(magic, _)| begin.starts_with(magic)).map(|(_, packing)| packing)
}
