//! Reads small files into buffers that are used again, without allocating.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, RawDir, SeekFrom, openat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::{CollectError, parse};

/// Opens for reading, relative to `dir`.
pub(crate) fn open_at(dir: impl AsFd, path: impl Arg) -> Result<OwnedFd, Errno> {
    openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a directory that every pass needs.
pub(crate) fn open_dir(path: &Path) -> Result<OwnedFd, CollectError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
    openat(CWD, path, flags, Mode::empty()).map_err(CollectError::file("open", path))
}

/// Reads from the start as much as fits into `buffer` and gives that part. A file of /proc comes in one read when the
/// buffer is long enough; a shorter buffer gives the file's beginning.
pub(crate) fn read_start(file: impl AsFd, buffer: &mut [u8]) -> Result<&[u8], Errno> {
    let mut filled = 0;
    loop {
        let free = buffer.get_mut(filled..).unwrap_or_default();
        let space = free.len();
        let count = rustix::io::retry_on_intr(|| rustix::io::pread(&file, &mut *free, filled as u64))?;
        filled += count;
        // /proc hands out whole records: a short read is the end, which spares the read that would say so.
        if count == 0 || count < space {
            return Ok(&buffer[..filled]);
        }
    }
}

/// Opens, reads as [`read_start`], closes.
pub(crate) fn read_at<'b>(dir: impl AsFd, path: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    let file = open_at(dir, path)?;
    read_start(&file, buffer)
}

/// Reads a whole file, growing `buffer` up to `max_bytes`.
pub(crate) fn read_whole(file: impl AsFd, buffer: &mut Vec<u8>, max_bytes: usize) -> Result<usize, Errno> {
    if buffer.is_empty() {
        buffer.resize(4096.min(max_bytes), 0);
    }
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            if filled >= max_bytes {
                return Ok(filled);
            }
            buffer.resize((filled * 2).min(max_bytes), 0);
        }
        let count =
            rustix::io::retry_on_intr(|| rustix::io::pread(&file, &mut buffer[filled..], filled as u64))?;
        if count == 0 {
            return Ok(filled);
        }
        filled += count;
    }
}

/// Calls `then` with the path `NUMBER/name`, built on the stack.
pub(crate) fn with_path<R>(
    number: u32,
    name: &str,
    then: impl FnOnce(&CStr) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let mut bytes = [0_u8; 32];
    let mut rest = &mut bytes[..];
    std::io::Write::write_fmt(&mut rest, format_args!("{number}/{name}")).map_err(|_| Errno::NAMETOOLONG)?;
    then(CStr::from_bytes_until_nul(&bytes).map_err(|_| Errno::NAMETOOLONG)?)
}

/// Replaces `into` by the numbers that name entries of a kept directory, ascending. `space` is for the kernel's answers.
pub(crate) fn list_numbers(
    dir: &OwnedFd,
    space: &mut [MaybeUninit<u8>],
    into: &mut Vec<u32>,
) -> Result<(), Errno> {
    into.clear();
    // A kept descriptor would go on where the last listing ended.
    rustix::fs::seek(dir, SeekFrom::Start(0))?;
    let mut entries = RawDir::new(dir, space);
    while let Some(entry) = entries.next() {
        let number = parse::parse_u64(entry?.file_name().to_bytes()).and_then(|n| u32::try_from(n).ok());
        into.extend(number);
    }
    into.sort_unstable();
    into.dedup();
    Ok(())
}
