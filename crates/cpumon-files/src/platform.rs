//! Picks the operating system's part of this crate: the only file here that may (docs/adr/0023-platform-files.md). [`directory_of`] is the
//! same on all systems.

#[cfg(unix)]
#[path = "unix.rs"]
mod system;

#[cfg(windows)]
#[path = "windows/mod.rs"]
mod system;

use std::path::Path;

pub use system::{
    Owner, check_to_write, create_dir, create_dir_for, create_new, create_own_dir,
    give_to_owner_of_directory, is_privileged, keep_mode, let_others_read, open_private, open_special,
    open_to_write, readable_by_others, resolve, sync_dir, this_user,
};
pub(crate) use system::{has_other_names, is_locked};

/// The directory of a file; `.` if its path has none.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
