//! What a file of the shelf has: its hash, and whether it is a whole trace.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use cpumon_link::tls::crypto::Sha256;
use cpumon_trace::{ReadError, TraceSummary, summarise};

/// A trace that shows a longer time is none.
const MAX_LENGTH_NS: u64 = 24 * 3_600_000_000_000;
/// More CPUs are taken of no device; so many of one that never reported how many it has.
const MAX_CPUS: u32 = 4_096;
/// So many are taken of every device: the description with CPUs that were added may not be stored yet.
const FEW_CPUS: u32 = 64;
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

/// The trace, if it is one that is stored; else the reason why it is not. `known_cpus`: the most that its device ever reported, or 0.
pub(super) fn checked(summary: Summary, known_cpus: u32) -> Result<TraceSummary, String> {
    let summary = summary.map_err(|error| error.to_string())?;
    let summary = summary.ok_or("the trace is damaged or has no end")?;
    // A reader marks damage on each CPU that the trace claims to have.
    let most = if known_cpus == 0 { MAX_CPUS } else { known_cpus.clamp(FEW_CPUS, MAX_CPUS) };
    let (cpus, last) = (u32::from(summary.header.cpus), u32::from(summary.last_cpu));
    if cpus > most {
        return Err(format!("the trace claims {cpus} CPUs; at most {most} are taken of this device"));
    }
    // The numbers of a machine's CPUs may have holes.
    if last >= MAX_CPUS {
        return Err(format!("the trace has events of CPU {last}; numbers below {MAX_CPUS} are taken"));
    }
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
