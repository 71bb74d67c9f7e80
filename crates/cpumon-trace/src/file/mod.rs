//! Trace files: their bytes, by the layout in docs/trace-format.md.
//!
//! This file has what readers of all formats share: the errors of reading, and a limit of its cost by the length of the file. A recording
//! needs far less, however it was packed; a small file that was made for it could take gigabytes and hours.

mod columns;
pub(crate) mod events;
pub(crate) mod format;
pub(crate) mod reader;
pub mod segments;
mod sorter;
pub(crate) mod window;
pub(crate) mod writer;

use std::io;

/// Bytes that any file may unpack to: pages that are mostly empty pack well.
const FREE_BYTES: u64 = 16 << 20;
/// And so many for each packed byte. Recorded events shrink to a tenth at most.
const UNPACKED_TIMES: u64 = 64;

#[derive(Debug, thiserror::Error)]
#[error("cannot {operation}: {error}")]
pub struct WriteError {
    /// What was tried, as an infinitive.
    pub operation: &'static str,
    pub error: io::Error,
}

/// A file cannot be read as a trace at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read the trace: {0}")]
    Io(#[from] io::Error),
    /// The file has another format.
    #[error("this is no trace file of cpumon, perf.data, trace.dat, Perfetto or .etl")]
    Foreign,
    /// The whole file is compressed.
    #[error("this is no trace file: it is packed with {with}; unpack it first, as with `{unpack}`")]
    Packed {
        /// Name of the compression, such as `gzip`.
        with: &'static str,
        /// Command that unpacks the file into another one.
        unpack: &'static str,
    },
    /// It ends within its header, or that is damaged.
    #[error("the header of the trace is damaged or incomplete")]
    Header,
    /// A file of another recorder that has no trace of the scheduler, or lacks what is needed to read it.
    #[error("the file has no trace that can be read: {0}")]
    Unusable(&'static str),
    #[error("the trace has format version {found}; this cpumon reads version {known}")]
    Version {
        found: u16,
        /// The newest known version.
        known: u16,
    },
}

/// A limit that grows with the length of a file.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Bound {
    /// Limit of an empty file.
    pub(crate) free: usize,
    /// And so much for each byte that was read of it.
    pub(crate) times: usize,
    /// Upper bound of the limit.
    pub(crate) most: usize,
}

impl Bound {
    /// For a file of which so much was read.
    pub(crate) fn of(self, read_bytes: u64) -> usize {
        let grown = usize::try_from(read_bytes).unwrap_or(usize::MAX).saturating_mul(self.times);
        grown.saturating_add(self.free).min(self.most)
    }
}

/// Events and names that a file may become, however it is packed. The densest recordings have one for each byte.
pub(crate) const EVENTS: Bound = Bound { free: 1 << 19, times: 4, most: usize::MAX };

/// What the packed parts of a file may become together, bytes that are left.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Credit(u64);

impl Default for Credit {
    fn default() -> Self {
        Self(FREE_BYTES)
    }
}

impl Credit {
    pub(crate) fn add(&mut self, packed: usize) {
        self.0 = self.0.saturating_add((packed as u64).saturating_mul(UNPACKED_TIMES));
    }

    pub(crate) fn left(self) -> u64 {
        self.0
    }

    /// So many bytes are unpacked. False: there may not be as many.
    pub(crate) fn take(&mut self, unpacked: usize) -> bool {
        let left = self.0.checked_sub(unpacked as u64);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_parts_become_no_more_than_one_large() {
        let mut credit = Credit::default();
        let taken = (0..1_000_000).take_while(|_| {
            credit.add(100);
            credit.take(1 << 20)
        });
        // The free bytes, and 6.4 kB for each part.
        assert_eq!(taken.count(), 16);
        credit.add(1 << 20);
        assert_eq!(credit.left(), 64 << 20);
        assert!(credit.take(64 << 20) && !credit.take(1));
    }

    #[test]
    fn a_bound_grows_with_the_file_up_to_the_most() {
        let bound = Bound { free: 10, times: 3, most: 100 };
        assert_eq!([0, 20, 40, u64::MAX].map(|bytes| bound.of(bytes)), [10, 70, 100, 100]);
    }
}
