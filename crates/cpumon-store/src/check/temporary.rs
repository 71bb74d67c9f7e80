//! [`Temporary`]: a file that is removed unless it gets another name.

use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};

/// The file, and what SQLite puts beside it.
#[derive(Debug)]
pub(super) struct Temporary(PathBuf);

impl Temporary {
    /// An empty file of mode 0600 beside `path`; `what` is another word for each of a process.
    pub(super) fn create(path: &Path, what: &str) -> Result<Self> {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.{what}", std::process::id()));
        let file = Self(path.with_file_name(name));
        // One that was left by a process of the same number goes.
        file.remove();
        let io = |source| StoreError::Io { operation: "create a file beside", path: path.into(), source };
        cpumon_files::create_empty(&file.0).map_err(io)?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn remove(&self) {
        for ending in ["", "-wal", "-shm"] {
            let mut name = self.0.as_os_str().to_owned();
            name.push(ending);
            let _gone_if_renamed = std::fs::remove_file(PathBuf::from(name));
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.remove();
    }
}
