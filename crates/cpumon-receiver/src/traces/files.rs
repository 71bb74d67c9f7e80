//! The files of the shelf: `ID.trace` of what is stored, `HOST-HASH.part` of what is under way, one a host.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cpumon_model::HostId;

/// A part of which nothing came for so long is deleted.
const PART_AGE: Duration = Duration::from_hours(24);
/// Part of the disk that traces leave free for the store: a twentieth, at most 256 MiB.
const RESERVED_SHARE: u64 = 20;
const MAX_RESERVED_BYTES: u64 = 256 << 20;
const PART: &str = ".part";
const TRACE: &str = ".trace";

/// Makes the directory; only its owner may read it.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Where the part of a trace is.
fn part_path(dir: &Path, host: HostId, hash: &[u8; 32]) -> PathBuf {
    dir.join(format!("{}-{}{PART}", hex::encode(host.0), hex::encode(hash)))
}

/// Opens the part of a trace to go on with it, and deletes every other part of the host.
pub(super) fn open_part(dir: &Path, host: HostId, hash: &[u8; 32]) -> io::Result<(File, PathBuf)> {
    let path = part_path(dir, host, hash);
    let own = hex::encode(host.0);
    for other in parts(dir)? {
        let name = other.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if other != path && name.starts_with(&own) {
            fs::remove_file(&other)?;
        }
    }
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
    Ok((file, path))
}

/// Bytes of all parts.
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
    let paths = fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.as_os_str().as_encoded_bytes().ends_with(PART.as_bytes())).collect())
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
    match fs::remove_file(dir.join(format!("{id}{TRACE}"))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Numbers of the files that are there.
pub(super) fn numbers(dir: &Path) -> io::Result<Vec<i64>> {
    let names = fs::read_dir(dir)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.strip_suffix(TRACE)?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

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
