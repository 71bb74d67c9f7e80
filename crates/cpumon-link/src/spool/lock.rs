//! One writer per spool: two would give out the same numbers.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::error::{At, SpoolError};

/// Held as long as it lives; the system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of the spool in `dir`, and notes this process's number.
    pub(super) fn take(dir: &Path) -> Result<Self, SpoolError> {
        let path = dir.join("lock");
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.at("open the lock file", &path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(SpoolError::Locked { path: dir.into(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(error).at("lock", &path),
        }
        // Only for the message: on a full disk the lock holds without it.
        let noted = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = noted {
            log::debug!("cannot note the process id in {}: {error}", path.display());
        }
        Ok(Self { file })
    }
}

impl Drop for Lock {
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
    fn what_a_forked_child_inherits_does_not_hold_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        let _inherited = lock.file.try_clone().unwrap();
        assert!(Lock::take(dir.path()).is_err());
        drop(lock);
        assert!(Lock::take(dir.path()).is_ok());
    }
}
