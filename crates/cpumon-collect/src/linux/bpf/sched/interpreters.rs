//! The table by which the probe knows of which executables the arguments may name a script (execs.h). Made of the list by which the
//! names are made, so that there is one.

use crate::script;

/// Bytes of a name that are compared.
const NAME_BYTES: usize = 8;

/// `struct interpreter`.
#[repr(C)]
struct Entry {
    name: [u8; NAME_BYTES],
    mask: [u8; NAME_BYTES],
    length: u64,
}

const _: () = assert!(size_of::<Entry>() == 24);

impl Entry {
    fn new(executable: &str) -> Self {
        let (mut name, mut mask) = ([0; NAME_BYTES], [0; NAME_BYTES]);
        for ((name, mask), byte) in name.iter_mut().zip(&mut mask).zip(executable.bytes()) {
            (*name, *mask) = (byte, 0xff);
        }
        Self { name, mask, length: executable.len() as u64 }
    }

    fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        let parts = [self.name, self.mask, self.length.to_ne_bytes()];
        bytes.as_chunks_mut().0.copy_from_slice(&parts);
        bytes
    }
}

/// Fills the table; what does not fit is not known to the probe.
pub(super) fn fill(table: &mut [u8]) {
    for (place, executable) in table.chunks_exact_mut(size_of::<Entry>()).zip(script::executables()) {
        place.copy_from_slice(&Entry::new(executable).to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `MAX_INTERPRETERS` of execs.h.
    const ENTRIES: usize = 48;

    #[test]
    fn each_interpreter_is_in_the_table() {
        let mut table = vec![0; ENTRIES * size_of::<Entry>()];
        fill(&mut table);
        let entries: Vec<_> = table.chunks_exact(size_of::<Entry>()).collect();
        let named = |name: &str| {
            let begin = &name.as_bytes()[..name.len().min(NAME_BYTES)];
            entries
                .iter()
                .any(|entry| entry.starts_with(begin) && entry[16..] == (name.len() as u64).to_ne_bytes())
        };
        for name in script::executables() {
            assert!(named(name), "{name}");
        }
        assert!(named("python") && named("sh") && named("busybox"));
        assert_eq!(entries.last().unwrap().to_vec(), [0; 24], "the list ends");
        assert_eq!(&entries[0][..16], b"python\0\0\xff\xff\xff\xff\xff\xff\0\0");
    }
}
