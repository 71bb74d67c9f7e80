//! A small disk for tests: a tmpfs, mounted on a directory of the test's own and unmounted when dropped. Needs root.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::skip;

/// A mounted tmpfs.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `size` as mount(8) takes it, more options behind a comma. `None`, with a message, where that is not permitted; with `CI` set this fails.
    pub fn mount(at: &Path, size: &str) -> Option<Self> {
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(at).output();
        let is_mounted = mounted.is_ok_and(|mounted| mounted.status.success());
        if !is_mounted {
            skip("needs root to mount a tmpfs");
        }
        is_mounted.then(|| Self(at.into()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A test that failed must not fail again while it cleans up.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
