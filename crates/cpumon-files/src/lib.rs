//! Files that belong to cpumon alone: mode 0600 in directories of mode 0700, on Windows with rights for their owner, SYSTEM and
//! administrators only; lock files, the audit log, and threads that write.
//!
//! Root writes stores and recordings also into directories where other users may create files. A link or file that
//! another user left under our name must not be written to: every file that is opened for writing here is checked first.

mod audit;
mod lock;
mod platform;
mod thread;

use std::fs::{DirEntry, File};
use std::io;
use std::path::Path;

pub use audit::{AuditEvent, AuditLog};
pub use lock::{LockError, LockFile};
pub use platform::{
    Owner, check_to_write, create_dir, create_dir_for, create_new, create_own_dir, directory_of,
    give_to_owner_of_directory, is_privileged, keep_mode, let_others_read, open_private, open_special,
    open_to_write, readable_by_others, resolve, sync_dir, this_user,
};
pub use thread::DiskThread;

/// Creates an empty private file, and says whether it did. Whatever has this name already stays as it is.
///
/// # Errors
/// The file cannot be created.
pub fn create_empty(path: &Path) -> io::Result<bool> {
    match create_new(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a file as [`open_to_write`] does, and gives a new one to the owner of its directory. One that is there keeps its owner: in that
/// directory it may be another file of root with a new name.
fn open_for_owner(path: &Path) -> io::Result<File> {
    // An error other than that it is there is one of opening too.
    if let Ok(new) = create_new(path) {
        give_to_owner_of_directory(&new, path);
    }
    open_to_write(path)
}

/// The entries of a directory. An error of the list itself is its last entry: some systems return one again and again.
///
/// # Errors
/// The directory cannot be opened.
pub fn entries(dir: &Path) -> io::Result<impl Iterator<Item = io::Result<DirEntry>> + use<>> {
    std::fs::read_dir(dir).map(until_error)
}

fn until_error<T, E>(entries: impl Iterator<Item = Result<T, E>>) -> impl Iterator<Item = Result<T, E>> {
    let mut is_over = false;
    entries.take_while(move |entry| !std::mem::replace(&mut is_over, entry.is_err()))
}

/// Removes a file, if it is there.
///
/// # Errors
/// It is there and cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The disk, the quota or the file-size limit is exhausted, in contrast to a disk that fails.
pub fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_list_is_its_last_entry() {
        let entries = [Ok(1), Err("failed"), Err("failed"), Ok(2)];
        assert_eq!(until_error(entries.into_iter()).collect::<Vec<_>>(), [Ok(1), Err("failed")]);
        let dir = tempfile::tempdir().unwrap();
        assert!(create_empty(&dir.path().join("a")).unwrap());
        assert_eq!(super::entries(dir.path()).unwrap().count(), 1);
    }
}
