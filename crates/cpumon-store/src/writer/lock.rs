//! The lock of a store's single writer. Two receivers on one file would give different tasks the same ids.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::{At, Result, StoreError};

/// An exclusive lock (flock(2)); the system releases it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct WriterLock {
    file: File,
}

/// The lock file is beside the store: closing any handle of the database file itself would drop SQLite's own locks on it
/// (fcntl(2), "Record locks").
fn lock_path(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-writer");
    PathBuf::from(name)
}

impl WriterLock {
    /// Takes the lock of `store` and writes this process's id into it.
    pub(crate) fn take(store: &Path) -> Result<Self> {
        let path = lock_path(store);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .at("open the lock file", &path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { path: store.into(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(error).at("lock", &path),
        }
        // Only for the message of a second writer: on a full disk the lock holds without it.
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = written {
            log::debug!("cannot write the process id in {}: {error}", path.display());
        }
        Ok(Self { file })
    }
}

impl Drop for WriterLock {
    /// Closing the file would not do: a child that another thread has just forked holds it too until its exec (flock(2)).
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(32).read_to_string(&mut text));
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!("pid {pid}"),
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_writer_learns_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("s.sqlite");
        let first = WriterLock::take(&store).unwrap();
        let error = WriterLock::take(&store).unwrap_err().to_string();
        assert!(error.ends_with(&format!("is being written by pid {}", std::process::id())), "{error}");
        drop(first);
        assert!(WriterLock::take(&store).is_ok());
    }
}
