//! Lock files: one writer of a store, of a spool, of a list. The lock is that of flock(2) or `LockFileEx`, which the system
//! releases when the process ends, however it ends.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use crate::open_for_owner;
use crate::platform::is_locked;

/// Longest content of a lock file, bytes: a process id and a line end need 11.
const MAX_BYTES: u64 = 32;

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process (or another part of this one) holds it.
    #[error("held by {holder}")]
    Held {
        /// `pid N`, or `another process` if its id could not be read.
        holder: String,
    },
    #[error("cannot {operation}: {error}")]
    Io {
        /// Operation that failed, as in "cannot …".
        operation: &'static str,
        /// The system's answer, or why the file was refused.
        error: io::Error,
    },
}

/// An exclusive lock, held as long as it lives.
#[derive(Debug)]
pub struct LockFile {
    file: File,
}

impl LockFile {
    /// Takes the lock or fails at once, and writes this process's id into the file.
    ///
    /// # Errors
    /// It is held, or the file is not one of ours: nothing is written to such a file.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let mut file = open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held { holder: holder(&mut file) }),
            Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
        // Where a lock keeps others from reading, this file may have been locked until now.
        check(&mut file).map_err(failed("read the lock file"))?;
        // Only for the message of a second process: on a full disk the lock holds without it.
        let emptied = file.set_len(0).and_then(|()| file.rewind());
        let written = emptied.and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = written {
            log::debug!("cannot write the process id in {}: {error}", path.display());
        }
        Ok(Self { file })
    }

    /// Waits until the lock is free, and takes it.
    ///
    /// # Errors
    /// The file is not one of ours, or cannot be locked.
    pub fn wait(path: &Path) -> Result<Self, LockError> {
        let file = open(path)?;
        file.lock().map_err(failed("lock"))?;
        Ok(Self { file })
    }
}

impl Drop for LockFile {
    /// Closing the file would not do: a child that another thread has just forked holds it too until its exec (flock(2)).
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Opens the lock file if it holds nothing but a process id, or is locked: then nothing is written to it. A hard link to another file
/// has a trusted owner too, so its content must decide.
fn open(path: &Path) -> Result<File, LockError> {
    let open = || {
        let mut file = open_for_owner(path)?;
        check(&mut file).or_else(|error| if is_locked(&error) { Ok(()) } else { Err(error) })?;
        Ok(file)
    };
    open().map_err(failed("open the lock file"))
}

fn check(file: &mut File) -> io::Result<()> {
    let mut content = Vec::new();
    file.rewind()?;
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    // NUL: a power cut may leave it of a write.
    let is_pid = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'\n' | 0);
    if content.len() as u64 > MAX_BYTES || !content.iter().all(is_pid) {
        return Err(io::Error::other("it is no lock file of cpumon"));
    }
    Ok(())
}

fn failed(operation: &'static str) -> impl Fn(io::Error) -> LockError {
    move |error| LockError::Io { operation, error }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(MAX_BYTES).read_to_string(&mut text));
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!("pid {pid}"),
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_holder_learns_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        std::fs::write(&path, "4294967295\n").unwrap();
        let first = LockFile::take(&path).unwrap();
        let error = LockFile::take(&path).unwrap_err().to_string();
        // Windows keeps others from reading a locked file.
        let expected = [format!("held by pid {}", std::process::id()), "held by another process".to_owned()];
        assert!(error == expected[0] || cfg!(windows) && error == expected[1], "{error}");
        drop(first);
        assert!(LockFile::take(&path).is_ok());
        assert!(LockFile::wait(&path).is_ok());
    }

    #[test]
    fn what_a_forked_child_inherits_does_not_hold_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = LockFile::take(&path).unwrap();
        let _inherited = lock.file.try_clone().unwrap();
        assert!(LockFile::take(&path).is_err());
        drop(lock);
        assert!(LockFile::take(&path).is_ok());
    }
}
