//! Whether /proc and BPF speak of the same processes by the same ids. BPF names every task by its id in the first pid namespace. Where
//! /proc is that of another one (a container, WSL), the same number is another process there, with another name and command line. And a
//! pass of the iterator shows only the tasks of the reader's own namespace, also where the host's /proc is mounted beside its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::parse;

/// The inode of the first pid namespace (`PROC_PID_INIT_INO`, `linux/proc_ns.h`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// The process that starts kernel threads. Only the first namespace has it.
const KTHREADD: &str = "2/stat";

/// The pid namespace that a /proc shows, compared with that of BPF.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ProcIds {
    /// The first pid namespace, as BPF.
    Hosts,
    /// Another namespace, or this process is in one.
    Others,
    /// Not known: it shows no process 1, as a tree made for a test.
    Unknown,
}

impl ProcIds {
    pub(super) fn of(proc_root: &Path) -> Self {
        Self::seen_from(own_namespace(Path::new("/proc"), proc_root).as_deref(), proc_root)
    }

    /// `own`: the namespace of this process, if known.
    fn seen_from(own: Option<&Path>, proc_root: &Path) -> Self {
        if own.is_some_and(|own| own.as_os_str() != FIRST_NAMESPACE) {
            return Self::Others;
        }
        let namespace = |process: &str| fs::read_link(proc_root.join(process).join("ns/pid"));
        // Process 1 is in the namespace that /proc was mounted for.
        if let Ok(link) = namespace("1") {
            return if link.as_os_str() == FIRST_NAMESPACE { Self::Hosts } else { Self::Others };
        }
        // Without CAP_SYS_PTRACE the link is refused; stat is not.
        let has_kernel_threads = fs::read(proc_root.join(KTHREADD))
            .is_ok_and(|bytes| parse::parse_stat(&bytes).is_some_and(|stat| stat.is_kernel()));
        if has_kernel_threads || namespace("self").is_ok_and(|link| link.as_os_str() == FIRST_NAMESPACE) {
            return Self::Hosts;
        }
        if proc_root.join("1").exists() { Self::Others } else { Self::Unknown }
    }
}

/// The pid namespace of this process. Where its own /proc is not mounted, the one that is measured says it.
fn own_namespace(own_proc: &Path, proc_root: &Path) -> Option<PathBuf> {
    let link = |root: &Path| fs::read_link(root.join("self/ns/pid"));
    link(own_proc).or_else(|_| link(proc_root)).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const INNER: &str = "pid:[4026532573]";

    fn tree(process: &str, namespace: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(process).join("ns")).unwrap();
        symlink(namespace, root.path().join(process).join("ns/pid")).unwrap();
        root
    }

    #[test]
    fn process_1_shows_whose_ids_they_are() {
        let ids = |root: &tempfile::TempDir| ProcIds::seen_from(Some(FIRST_NAMESPACE.as_ref()), root.path());
        assert_eq!(ids(&tree("1", FIRST_NAMESPACE)), ProcIds::Hosts);
        assert_eq!(ids(&tree("1", INNER)), ProcIds::Others);
        assert_eq!(ids(&tempfile::tempdir().unwrap()), ProcIds::Unknown);
        let of_host = tree("1", FIRST_NAMESPACE);
        let from_inside = ProcIds::seen_from(Some(INNER.as_ref()), of_host.path());
        assert_eq!(from_inside, ProcIds::Others, "a container with the host's /proc");
    }

    #[test]
    fn without_a_proc_of_its_own_the_measured_one_has_its_namespace() {
        let (unmounted, of_host) = (tempfile::tempdir().unwrap(), tree("1", FIRST_NAMESPACE));
        fs::create_dir_all(of_host.path().join("self/ns")).unwrap();
        symlink(INNER, of_host.path().join("self/ns/pid")).unwrap();
        let own = own_namespace(unmounted.path(), of_host.path());
        assert_eq!(own.as_deref(), Some(Path::new(INNER)));
        assert_eq!(ProcIds::seen_from(own.as_deref(), of_host.path()), ProcIds::Others);
        let own = own_namespace(tree("self", FIRST_NAMESPACE).path(), of_host.path());
        assert_eq!(own.as_deref(), Some(Path::new(FIRST_NAMESPACE)), "its own /proc comes first");
    }

    #[test]
    fn where_process_1_is_refused_kernel_threads_show_it() {
        let root = tree("self", INNER);
        fs::create_dir(root.path().join("1")).unwrap();
        assert_eq!(ProcIds::seen_from(None, root.path()), ProcIds::Others);
        fs::create_dir(root.path().join("2")).unwrap();
        let stat = |flags: u32| {
            format!(
                "2 (kthreadd) S 0 0 0 0 -1 {flags} 0 0 0 0 1 2 0 0 20 0 1 0 2 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3 0 0 0 0 0\n"
            )
        };
        fs::write(root.path().join(KTHREADD), stat(0x0040_0000)).unwrap();
        assert_eq!(ProcIds::seen_from(None, root.path()), ProcIds::Others);
        fs::write(root.path().join(KTHREADD), stat(0x0020_8040)).unwrap();
        assert_eq!(ProcIds::seen_from(None, root.path()), ProcIds::Hosts);
    }
}
