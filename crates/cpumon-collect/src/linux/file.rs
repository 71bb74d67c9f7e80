//! Reading small files without allocating. In: a kept directory and a path. Out: the bytes, in a kept buffer.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// Opens for reading, relative to `dir`.
pub(crate) fn open_at(dir: impl AsFd, path: &CStr) -> Result<OwnedFd, Errno> {
    openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Reads from the start as much as fits into `buffer` and gives that part. A file of /proc comes in one read when the
/// buffer is long enough; a shorter buffer gives the file's beginning.
pub(crate) fn read_start(file: impl AsFd, buffer: &mut [u8]) -> Result<&[u8], Errno> {
    let mut filled = 0;
    loop {
        let free = buffer.get_mut(filled..).unwrap_or_default();
        let room = free.len();
        let count = rustix::io::retry_on_intr(|| rustix::io::pread(&file, &mut *free, filled as u64))?;
        filled += count;
        // /proc hands out whole records: a short read is the end, which spares the read that would say so.
        if count == 0 || count < room {
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
