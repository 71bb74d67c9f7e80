//! What a file of the shelf has: its hash, and whether it is a whole trace.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use cpumon_link::tls::crypto::Sha256;
use cpumon_trace::{ReadError, TraceSummary, summarise};

/// A trace that shows a longer time is none.
const MAX_LENGTH_NS: u64 = 24 * 3_600_000_000_000;
/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;

/// What a file has as a trace; `None`: no end.
pub(super) type Summary = Result<Option<TraceSummary>, ReadError>;

/// Reads a file from its begin. Gives its hash, and what it has as a trace.
pub(super) fn read(file: &mut File) -> io::Result<([u8; 32], Summary)> {
    file.seek(SeekFrom::Start(0))?;
    let mut hashed = Hashed { from: file, hash: Sha256::default() };
    let summary = summarise(&mut hashed);
    // What follows a damaged chunk belongs to the hash as well.
    io::copy(&mut hashed, &mut io::sink())?;
    Ok((hashed.hash.finish(), summary))
}

/// The trace, if it is one that is stored; else the reason why it is not.
pub(super) fn checked(summary: Summary) -> Result<TraceSummary, String> {
    let summary = summary.map_err(|error| error.to_string())?;
    let summary = summary.ok_or("the trace is damaged or has no end")?;
    let length_ns = summary.ended_ns.checked_sub(summary.header.began.mono_ns);
    if length_ns.is_some_and(|length| length <= MAX_LENGTH_NS) {
        Ok(summary)
    } else {
        Err("the trace ends before it begins, or a day later".to_owned())
    }
}

/// Hashes what is read.
struct Hashed<'f> {
    from: &'f mut File,
    hash: Sha256,
}

impl Read for Hashed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(READ_BYTES);
        let count = self.from.read(&mut bytes[..most])?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }
}
