//! A small disk for tests: a tmpfs, mounted on a directory of the test's own and unmounted when dropped. Needs root.

use std::io;
use std::path::{Path, PathBuf};

use crate::skip::skip;

/// A mounted tmpfs.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `size` and more options behind a comma as tmpfs(5) has them. `None`, with a message, where that is not permitted; with `CI` set this
    /// fails.
    pub fn mount(at: &Path, size: &str) -> Option<Self> {
        if let Err(error) = mount(at, size) {
            skip(format!("needs root to mount a tmpfs: {error}"));
            return None;
        }
        Some(Self(at.into()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A test that failed must not fail again while it cleans up.
        let _ = unmount(&self.0);
    }
}

// By system calls: a child that mount(8) would run in holds the open files of other tests until it executes.
#[cfg(unix)]
fn mount(at: &Path, size: &str) -> io::Result<()> {
    let options = std::ffi::CString::new(format!("size={size}"))?;
    Ok(rustix::mount::mount("none", at, "tmpfs", rustix::mount::MountFlags::empty(), options.as_c_str())?)
}

#[cfg(unix)]
fn unmount(at: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH)?)
}

#[cfg(not(unix))]
fn mount(_: &Path, _: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn unmount(_: &Path) -> io::Result<()> {
    Ok(())
}
