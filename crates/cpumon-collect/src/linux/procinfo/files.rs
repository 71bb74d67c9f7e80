//! The files of one process in /proc, with a count of those that were refused.

use std::os::fd::OwnedFd;

use rustix::fs::readlinkat_raw;
use rustix::io::Errno;

use super::super::file;

/// Longest command line, cgroup path and executable path that are read.
pub(super) const MAX_BYTES: usize = 4096;

/// Of one process, as long as it is read.
pub(super) struct Files<'a> {
    pub(super) dir: &'a OwnedFd,
    pub(super) pid: u32,
    pub(super) denied: u64,
    /// Those of them that are not the executable's link.
    pub(super) others_denied: u64,
    pub(super) vanished: bool,
}

impl Files<'_> {
    pub(super) fn read<'b>(&mut self, name: &str, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let result = file::with_path(self.pid, name, |path| file::read_at(self.dir, path, buffer));
        let before = self.denied;
        let content = self.note(result);
        self.others_denied += self.denied - before;
        content
    }

    pub(super) fn link<'b>(&mut self, name: &str, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        match file::with_path(self.pid, name, |path| readlinkat_raw(self.dir, path, &mut *buffer)) {
            // A process without an executable of its own (kernel thread, zombie) says ENOENT: that is not "gone".
            Err(Errno::NOENT) => None,
            result => self.note(result).and_then(|length| buffer.get(..length)),
        }
    }

    fn note<T>(&mut self, result: Result<T, Errno>) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(Errno::ACCESS | Errno::PERM) => self.denied += 1,
            // Mostly ENOENT or ESRCH: the process has ended. What was known of it stays.
            Err(_) => self.vanished = true,
        }
        None
    }
}
