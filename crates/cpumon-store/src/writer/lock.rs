//! The lock of a store's single writer. Two receivers on one file would give different tasks the same ids.

use std::path::{Path, PathBuf};

use cpumon_files::{LockError, LockFile};

use crate::error::{At, Result, StoreError};

/// The lock file is beside the store: closing any handle of the database file itself would drop SQLite's own locks on it
/// (fcntl(2), "Record locks").
fn lock_path(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-writer");
    PathBuf::from(name)
}

/// Takes the lock of `store`.
pub(super) fn lock_store(store: &Path) -> Result<LockFile> {
    let path = lock_path(store);
    match LockFile::take(&path) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held { holder }) => Err(StoreError::Locked { path: store.into(), holder }),
        Err(LockError::Io { operation, error }) => Err(error).at(operation, &path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_writer_learns_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("s.sqlite");
        let first = lock_store(&store).unwrap();
        let error = lock_store(&store).unwrap_err().to_string();
        assert!(error.ends_with(&format!("is being written by pid {}", std::process::id())), "{error}");
        drop(first);
        assert!(lock_store(&store).is_ok());
    }

    #[test]
    fn a_link_planted_as_the_writers_lock_keeps_its_target_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let (store, victim) = (dir.path().join("i.db"), dir.path().join("victim"));
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, lock_path(&store)).unwrap();
        let error = crate::Writer::open(&store, &crate::StoreOptions::default()).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!store.exists());
    }
}
