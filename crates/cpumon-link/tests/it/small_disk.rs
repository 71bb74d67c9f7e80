//! A small disk for tests: a tmpfs, mounted on a directory of the test's own and unmounted when dropped. Needs root.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted tmpfs.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `size` as mount(8) takes it. `None`, said, where that is not permitted; with `CI` set it must be.
    pub fn mount(at: &Path, size: &str) -> Option<Self> {
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(at).output();
        let is_mounted = mounted.is_ok_and(|mounted| mounted.status.success());
        assert!(is_mounted || std::env::var_os("CI").is_none(), "this test must run in CI");
        if !is_mounted {
            eprintln!("skipped: needs root to mount a tmpfs");
        }
        is_mounted.then(|| Self(at.into()))
    }

    /// Makes it read-only, or writable again.
    pub fn set_read_only(&self, is_read_only: bool) {
        let options = if is_read_only { "remount,ro" } else { "remount,rw" };
        let done = Command::new("mount").args(["-o", options]).arg(&self.0).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A test that failed must not fail again while it cleans up.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
