//! [`WindowFiles`]: the flight recorder's windows in its directory, which wait for a receiver.

use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};

use cpumon_link::attachments::is_attachment;

/// The windows of a directory.
#[derive(Debug, Default)]
pub(super) struct WindowFiles {
    /// Their paths and bytes, the oldest first.
    pub(super) files: Vec<(PathBuf, u64)>,
    /// Number of entries that cannot be read and are left out.
    left_out: u64,
    /// Why, of the last one.
    error: Option<io::Error>,
}

impl WindowFiles {
    fn add(&mut self, found: io::Result<Option<(PathBuf, u64)>>) {
        match found {
            Ok(window) => self.files.extend(window),
            Err(error) => {
                self.left_out += 1;
                self.error = Some(error);
            }
        }
    }

    /// What people should know of entries that cannot be read.
    pub(super) fn warning(&self, dir: &Path) -> Option<String> {
        let (error, count) = (self.error.as_ref()?, self.left_out);
        let entries = if count == 1 { "entry" } else { "entries" };
        Some(format!("{count} {entries} of {} cannot be read and do not count: {error}", dir.display()))
    }
}

/// The windows of a directory. An entry that cannot be read hides none of the others.
pub(super) fn windows_in(dir: &Path) -> io::Result<WindowFiles> {
    let mut windows = WindowFiles::default();
    for entry in cpumon_files::entries(dir)? {
        windows.add(entry.and_then(|entry| window_of(&entry)));
    }
    windows.files.sort_unstable();
    Ok(windows)
}

/// A window's path and bytes; `None`: another file, or a window that was sent and removed meanwhile.
fn window_of(entry: &DirEntry) -> io::Result<Option<(PathBuf, u64)>> {
    if !entry.file_name().to_str().is_some_and(is_attachment) {
        return Ok(None);
    }
    match entry.metadata() {
        Ok(about) => Ok(Some((entry.path(), about.len()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No window was written any more, because the oldest could not be listed.
    #[test]
    fn an_entry_that_cannot_be_read_hides_no_other_window() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["flight-2.trace", "flight-1.trace", "mine.trace"] {
            std::fs::write(dir.path().join(name), "12345").unwrap();
        }
        let listed = windows_in(dir.path()).unwrap();
        assert!(listed.warning(dir.path()).is_none());
        let paths = ["flight-1.trace", "flight-2.trace"].map(|name| (dir.path().join(name), 5_u64));
        assert_eq!(listed.files, paths);
        let mut damaged = WindowFiles::default();
        for path in paths {
            damaged.add(Err(io::Error::other("input/output error")));
            damaged.add(Ok(Some(path)));
            damaged.add(Ok(None));
        }
        assert_eq!(damaged.files, listed.files);
        let warning = damaged.warning(Path::new("/flights")).unwrap();
        assert_eq!(warning, "2 entries of /flights cannot be read and do not count: input/output error");
    }
}
