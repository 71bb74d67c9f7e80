//! Where the hierarchies with the files of the CPU are mounted (/proc/self/mountinfo, proc(5)): cgroup v2, the `cpu` controller of
//! cgroup v1, or both. On a mixed host the `cpu` controller belongs to one of them.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Longest mountinfo that is read, bytes.
const MAX_BYTES: u64 = 4 << 20;

#[derive(Debug)]
pub(super) struct Mount {
    dir: OwnedFd,
    /// Path of the group that is mounted: not `/` inside some containers.
    root: Box<str>,
}

/// The hierarchies that have the files.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    /// For pressure, and for quotas unless v1 has them.
    pub(super) v2: Option<Mount>,
    /// Controller `cpu` of v1, for quotas.
    pub(super) v1_cpu: Option<Mount>,
}

impl Mounts {
    /// `fs_root`: directory under which the mount points of mountinfo are found.
    pub(super) fn open(proc_root: &Path, fs_root: &Path) -> Self {
        let mut text = Vec::new();
        if let Ok(file) = std::fs::File::open(proc_root.join("self/mountinfo")) {
            // The part read before an error is used.
            let _ = std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_BYTES), &mut text);
        }
        let mut mounts = Self::default();
        for line in text.split(|&byte| byte == b'\n') {
            let Some(found) = MountLine::parse(line) else { continue };
            let place = if found.is_v2 { &mut mounts.v2 } else { &mut mounts.v1_cpu };
            if place.is_none() {
                *place = Mount::open(fs_root, &found);
            }
        }
        mounts
    }

    pub(super) fn is_empty(&self) -> bool {
        self.v2.is_none() && self.v1_cpu.is_none()
    }

    /// Whether the path of a group, existing or not, is below the mount.
    pub(super) fn reach(&self, path: &str) -> bool {
        [&self.v2, &self.v1_cpu].into_iter().flatten().any(|mount| mount.below(path).is_some())
    }
}

/// A cgroup line of mountinfo.
#[derive(Debug, PartialEq, Eq)]
struct MountLine {
    is_v2: bool,
    root: Box<str>,
    at: PathBuf,
}

impl MountLine {
    /// `36 35 98:0 ROOT AT OPTIONS [OPTIONAL]... - TYPE SOURCE OPTIONS`
    fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let (mount, rest) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut rest = rest.split(' ');
        let (kind, options) = (rest.next()?, rest.nth(1)?);
        let is_v2 = match kind {
            "cgroup2" => true,
            "cgroup" if options.split(',').any(|option| option == "cpu") => false,
            _ => return None,
        };
        // A mount of another namespace: /proc/PID/cgroup means another directory by the same name.
        if root.split('/').any(|part| part == "..") {
            return None;
        }
        Some(Self { is_v2, root: unescaped(root).into(), at: unescaped(at).into() })
    }
}

/// Blanks and backslashes are written as three octal digits.
fn unescaped(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((plain, coded)) = rest.split_once('\\') {
        out.push_str(plain);
        let code = coded.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(code.map_or('\\', char::from));
        rest = if code.is_some() { &coded[3..] } else { coded };
    }
    out + rest
}

impl Mount {
    fn open(fs_root: &Path, found: &MountLine) -> Option<Self> {
        let at = fs_root.join(found.at.strip_prefix("/").unwrap_or(&found.at));
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let dir = openat(CWD, at, flags, Mode::empty()).ok()?;
        Some(Self { dir, root: found.root.clone() })
    }

    /// Opens the directory of a group. `None`: it does not exist, or is not below the mount.
    pub(super) fn open_dir(&self, path: &str) -> Option<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        openat(&self.dir, self.below(path)?, flags, Mode::empty()).ok()
    }

    /// The path relative to the mount point; `None` if it is not below.
    fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        // Outside of the namespace of this process: such a path would leave the hierarchy.
        if path.split('/').any(|part| part == "..") {
            return None;
        }
        let path = path.strip_prefix(self.root.trim_end_matches('/'))?;
        if path.is_empty() || path == "/" {
            return Some(".");
        }
        path.strip_prefix('/').map(|path| path.trim_start_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(root: &str) -> Mount {
        Mount { dir: openat(CWD, "/", OFlags::PATH, Mode::empty()).unwrap(), root: root.into() }
    }

    #[test]
    fn lines_about_the_cpu_are_found() {
        let found =
            |line: &str| MountLine::parse(line.as_bytes()).map(|found| (found.is_v2, found.root, found.at));
        let v1 = found(
            "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct",
        );
        assert_eq!(v1, Some((false, "/".into(), "/sys/fs/cgroup/cpu,cpuacct".into())));
        let v2 = found("41 31 0:38 /docker/1 /sys/a\\040b rw master:1 propagate_from:2 - cgroup2 cgroup2 rw");
        assert_eq!(v2, Some((true, "/docker/1".into(), "/sys/a b".into())));
        for other in [
            "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct",
            "41 31 0:38 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs cgroup2 rw",
            "- cgroup2",
            "",
            " - cgroup2 x y",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
        assert_eq!(unescaped("a\\134\\x\\12"), "a\\\\x\\12");
    }

    #[test]
    fn paths_stay_below_what_is_mounted() {
        let whole = mount("/");
        assert_eq!(whole.below("/"), Some("."));
        assert_eq!(whole.below("/a/b"), Some("a/b"));
        assert_eq!(whole.below("//etc"), Some("etc"), "no absolute path");
        let part = mount("/docker/1");
        assert_eq!(part.below("/docker/1"), Some("."));
        assert_eq!(part.below("/docker/1/x"), Some("x"));
        for outside in ["/..", "/../x", "/a/../../etc", "relative", ""] {
            assert_eq!(whole.below(outside).filter(|path| *path != "."), None, "{outside}");
            assert_eq!(part.below(outside), None, "{outside}");
        }
        assert_eq!(part.below("/docker/12"), None, "another container");
        assert_eq!(part.below("/"), None);
    }
}
