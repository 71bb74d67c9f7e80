//! One writer per spool. In: its directory. Out: a held lock, or who holds it. Why: two writers would give out the same
//! numbers.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::error::{At, SpoolError};

/// Held as long as it lives; the system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
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
        Ok(Self { _file: file })
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
