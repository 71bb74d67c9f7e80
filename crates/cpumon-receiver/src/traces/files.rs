//! The files of the trace store: `ID.trace` for a stored trace, `HOST-HASH.part` for a trace under way, one a host. A check decides whether
//! a file is a whole trace.

use std::fs::{self, DirEntry, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cpumon_link::tls::crypto::Sha256;
use cpumon_model::{HostId, with_causes};
use cpumon_trace::{ReadError, TraceSummary, summarise};

/// A part that received nothing for this long is deleted.
const PART_AGE: Duration = Duration::from_hours(24);
/// Part of the disk that traces leave free for the store: a twentieth, at most 256 MiB.
const RESERVED_SHARE: u64 = 20;
const MAX_RESERVED_BYTES: u64 = 256 << 20;
const PART: &str = ".part";
const TRACE: &str = ".trace";
/// A trace that shows a longer time is none.
const MAX_LENGTH_NS: u64 = 24 * 3_600_000_000_000;
/// Most CPUs in a trace of any device; the limit of a device that never reported how many it has.
const MAX_CPUS: u32 = 4_096;
/// The limit for a device is never below this: a description with added CPUs may not be stored yet.
const FEW_CPUS: u32 = 64;
const READ_BYTES: usize = 256 << 10;

/// Opens the part of a trace to go on with it, and deletes every other part of the host.
pub(super) fn open_part(dir: &Path, host: HostId, hash: &[u8; 32]) -> io::Result<(File, PathBuf)> {
    let own = hex::encode(host.0);
    let path = dir.join(format!("{own}-{}{PART}", hex::encode(hash)));
    for other in parts(dir)? {
        let name = other.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if other != path && name.starts_with(&own) {
            fs::remove_file(&other)?;
        }
    }
    // A trace that is read by everyone, or is written elsewhere, could be planted under this name.
    Ok((cpumon_files::open_to_write(&path)?, path))
}

pub(super) fn part_bytes(dir: &Path) -> io::Result<u64> {
    Ok(parts(dir)?.iter().filter_map(|path| Some(fs::metadata(path).ok()?.len())).sum())
}

/// Bytes that traces may still take of the disk, which they share with the store.
pub(super) fn free_bytes(dir: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(dir)?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Ok(beyond_reserve(bytes(disk.f_blocks), bytes(disk.f_bavail)))
}

fn beyond_reserve(total_bytes: u64, free_bytes: u64) -> u64 {
    // Some file systems do not say how large they are.
    if total_bytes == 0 {
        return u64::MAX;
    }
    free_bytes.saturating_sub((total_bytes / RESERVED_SHARE).min(MAX_RESERVED_BYTES))
}

fn parts(dir: &Path) -> io::Result<Vec<PathBuf>> {
    paths(fs::read_dir(dir)?, PART)
}

/// The paths with this ending. A directory that cannot be read to its end is an error: rows of the files behind it would be deleted.
fn paths(entries: impl Iterator<Item = io::Result<DirEntry>>, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.as_os_str().as_encoded_bytes().ends_with(ending.as_bytes()) {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Deletes parts that are old, or all that are not `in_use` if space is needed.
pub(super) fn delete_parts(dir: &Path, in_use: &[&Path], needs_space: bool) -> io::Result<()> {
    for path in parts(dir)? {
        let is_old = || {
            let age = fs::metadata(&path).and_then(|meta| meta.modified()).map(|at| at.elapsed());
            age.is_ok_and(|age| age.is_ok_and(|age| age > PART_AGE))
        };
        if !in_use.contains(&path.as_path()) && (needs_space || is_old()) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Gives a complete part its number; both names are on the disk then.
pub(super) fn publish(dir: &Path, part: &Path, id: i64) -> io::Result<()> {
    fs::rename(part, dir.join(format!("{id}{TRACE}")))?;
    File::open(dir)?.sync_all()
}

/// Undoes [`publish`]: the file has its former name again, so that it may be tried again.
pub(super) fn take_back(dir: &Path, part: &Path, id: i64) {
    let path = dir.join(format!("{id}{TRACE}"));
    if fs::rename(&path, part).is_err() {
        let _ = fs::remove_file(path);
    }
}

/// Deletes the file of a trace, if it is there.
pub(super) fn delete(dir: &Path, id: i64) -> io::Result<()> {
    cpumon_files::remove(&dir.join(format!("{id}{TRACE}")))
}

/// Numbers in the names of the stored traces.
pub(super) fn numbers(dir: &Path) -> io::Result<Vec<i64>> {
    let paths = paths(fs::read_dir(dir)?, TRACE)?;
    Ok(paths.iter().filter_map(|path| path.file_stem()?.to_str()?.parse().ok()).collect())
}

/// What a file has as a trace; `None`: no end.
type Summary = Result<Option<TraceSummary>, ReadError>;

/// Reads a file from its beginning. Returns its hash, and its summary as a trace.
pub(super) fn read_trace(file: &mut File) -> io::Result<([u8; 32], Summary)> {
    file.seek(SeekFrom::Start(0))?;
    let mut hashed = Hashed { from: file, hash: Sha256::default() };
    let summary = summarise(&mut hashed);
    // What follows a damaged chunk belongs to the hash as well.
    io::copy(&mut hashed, &mut io::sink())?;
    Ok((hashed.hash.finish(), summary))
}

/// The trace, if it is one that is stored; else the reason why it is not. `known_cpus`: the most that its device ever reported, or 0.
pub(super) fn checked(summary: Summary, known_cpus: u32) -> Result<TraceSummary, String> {
    let summary = summary.map_err(|error| with_causes(&error))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace was written to where another user's link of this name led.
    #[test]
    fn a_link_under_the_name_of_a_part_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, host, hash) = (dir.path().join("victim"), HostId([7; 16]), [9; 32]);
        fs::write(&victim, "precious").unwrap();
        let (mut part, path) = open_part(dir.path(), host, &hash).unwrap();
        io::Write::write_all(&mut part, b"begin").unwrap();
        assert_eq!(part_bytes(dir.path()).unwrap(), 5);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert_eq!(open_part(dir.path(), host, &hash).unwrap_err().to_string(), "it is a symbolic link");
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }

    /// A trace behind one I/O error had no file, so its row was deleted, and the file after it.
    #[test]
    fn a_directory_that_cannot_be_read_to_its_end_has_no_list_of_traces() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["7.trace", "12.trace", "x.trace", "12.part", "13"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let mut found = numbers(dir.path()).unwrap();
        found.sort_unstable();
        assert_eq!(found, [7, 12]);
        let entries = fs::read_dir(dir.path()).unwrap().chain([Err(io::Error::other("failed"))]);
        assert_eq!(paths(entries, TRACE).unwrap_err().to_string(), "failed");
    }

    #[test]
    fn a_part_of_the_disk_is_left_to_the_store() {
        assert_eq!(beyond_reserve(1_000, 70), 20);
        assert_eq!(beyond_reserve(1_000, 49), 0);
        assert_eq!(beyond_reserve(1 << 50, 300 << 20), 44 << 20);
        assert_eq!(beyond_reserve(0, 0), u64::MAX, "not known");
        let dir = tempfile::tempdir().unwrap();
        assert!(free_bytes(dir.path()).is_ok());
    }
}
