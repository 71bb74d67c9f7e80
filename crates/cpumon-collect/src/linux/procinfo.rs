//! What a process is: a cache of its [`ProcessInfo`] (program, command line, cgroup, user), which takes four
//! files to read and hardly ever changes. It is read at first sight, when the name changes (exec, prctl),
//! shortly after, and then now and then, because a move between cgroups or a setuid leaves no trace
//! elsewhere.

use std::borrow::Cow;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use cpumon_model::{Comm, ProcessInfo, ProcessKey};
use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat_raw};
use rustix::io::Errno;

use super::file;
use crate::{CollectError, parse, scrub};

/// Longest command line, cgroup path and executable path that are read.
const MAX_BYTES: usize = 4096;
/// Entries up to which the map is never shrunk.
const MANY_ENTRIES: usize = 4096;
/// Passes after which a fresh entry is read again: a process is often moved to its cgroup after it began.
const SECOND_READ: u64 = 2;
/// Passes between later reads.
const NEXT_READ: u64 = 64;
/// Uid of an unreadable process (the overflow id of `user_namespaces(7)`).
const UNKNOWN_UID: u32 = 65_534;

/// What a source knows about a process without asking.
#[derive(Copy, Clone, Debug)]
pub(crate) struct About {
    pub(crate) key: ProcessKey,
    /// The main thread's name.
    pub(crate) comm: Comm,
    pub(crate) is_kernel: bool,
    /// Its real user, if known; otherwise it is read from status.
    pub(crate) uid: Option<u32>,
}

struct Entry {
    info: Arc<ProcessInfo>,
    comm: Comm,
    seen: u64,
    read_again_at: u64,
    /// Files that were refused when they were read, already counted.
    denied: u64,
}

/// Every living process's [`ProcessInfo`].
pub(crate) struct InfoCache {
    proc_dir: OwnedFd,
    with_cmdline: bool,
    entries: HashMap<ProcessKey, Entry>,
    pass: u64,
    denied: u64,
    refused: Refused,
    buffer: Box<[u8]>,
    scratch: Scratch,
}

impl InfoCache {
    pub(crate) fn open(proc_root: &Path, with_cmdline: bool) -> Result<Self, CollectError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let proc_dir =
            openat(CWD, proc_root, flags, Mode::empty()).map_err(CollectError::file("open", proc_root))?;
        Ok(Self {
            proc_dir,
            with_cmdline,
            entries: HashMap::new(),
            pass: 0,
            denied: 0,
            refused: Refused::default(),
            buffer: vec![0; MAX_BYTES].into_boxed_slice(),
            scratch: Scratch::default(),
        })
    }

    /// What the process is: kept, or read when it is due. A process that is gone already gets what `about` holds.
    pub(crate) fn resolve(&mut self, about: &About) -> Arc<ProcessInfo> {
        self.resolve_named(about, None)
    }

    /// [`InfoCache::resolve`] with the base name of its executable, used where /proc does not show it.
    pub(crate) fn resolve_named(&mut self, about: &About, program: Option<&str>) -> Arc<ProcessInfo> {
        let due = match self.entries.get_mut(&about.key) {
            Some(entry) => {
                entry.seen = self.pass;
                // A setuid changes the user and no name.
                let is_same = entry.comm == about.comm && about.uid.is_none_or(|uid| uid == entry.info.uid);
                if is_same && entry.read_again_at > self.pass {
                    return Arc::clone(&entry.info);
                }
                NEXT_READ
            }
            None => SECOND_READ,
        };
        let (denied, others_denied) = self.read(about, program);
        let (pass, read_again_at) = (self.pass, self.pass + due);
        let scratch = &self.scratch;
        let entry = self.entries.entry(about.key).or_insert_with(|| Entry {
            info: Arc::new(scratch.to_info()),
            comm: about.comm,
            seen: pass,
            read_again_at,
            denied: 0,
        });
        // A file that is refused at every read counts once.
        if denied > entry.denied {
            self.denied += denied - entry.denied;
            entry.denied = denied;
            self.refused.note(about.key.pid, others_denied);
        }
        let renamed = entry.comm != about.comm;
        entry.comm = about.comm;
        entry.read_again_at = if renamed { pass + SECOND_READ } else { read_again_at };
        // A process that just ended has no files left: what was known stays.
        if !scratch.is_gone && !scratch.says(&entry.info) {
            entry.info = Arc::new(scratch.to_info());
        }
        Arc::clone(&entry.info)
    }

    /// What was known of the process when it was last resolved, if that was in this pass or the one before.
    pub(crate) fn kept(&self, key: ProcessKey) -> Option<&Arc<ProcessInfo>> {
        self.entries.get(&key).map(|entry| &entry.info)
    }

    /// Makes the next [`InfoCache::resolve`] of this process read it again: it is known to have changed.
    pub(crate) fn expire(&mut self, key: ProcessKey) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.read_again_at = 0;
        }
    }

    /// [`InfoCache::expire`] for all of them.
    pub(crate) fn expire_all(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.read_again_at = 0);
    }

    /// Ends a pass: forgets every process that was not resolved in it.
    pub(crate) fn end_pass(&mut self) {
        let pass = self.pass;
        self.entries.retain(|_, entry| entry.seen == pass);
        // A crowd of processes is gone.
        if self.entries.capacity() > MANY_ENTRIES.max(self.entries.len() * 8) {
            self.entries.shrink_to(self.entries.len() * 2);
        }
        if let Some((level, text)) = self.refused.message(self.entries.len()) {
            log::log!(level, "{text}");
        }
        self.pass += 1;
    }

    /// Files the kernel refused to show, since the cache was opened; each counts once, however often it is read.
    pub(crate) fn denied(&self) -> u64 {
        self.denied
    }

    /// Fills the scratch; gives the number of files that were refused, and of those that are not the executable's link.
    fn read(&mut self, about: &About, program: Option<&str>) -> (u64, u64) {
        self.scratch.clear(about);
        let Scratch { name, comm, cmdline, cgroup, uid, is_gone, .. } = &mut self.scratch;
        comm.push_str(&about.comm.to_str_lossy());
        let mut files =
            Files { dir: &self.proc_dir, pid: about.key.pid, denied: 0, others_denied: 0, vanished: false };
        if let Some(path) = files.read("cgroup", &mut self.buffer).and_then(parse::parse_cgroup) {
            cgroup.push_str(&String::from_utf8_lossy(path));
        }
        *uid = about
            .uid
            .or_else(|| files.read("status", &mut self.buffer).and_then(parse::parse_uid))
            .unwrap_or(UNKNOWN_UID);
        if !about.is_kernel {
            if let Some(path) = files.link("exe", &mut self.buffer) {
                name.push_str(&base_name(path));
            } else if let Some(program) = program {
                name.push_str(program);
                // The name is known all the same: nothing is missing.
                files.denied = files.others_denied;
            }
            // Where the executable is refused, the command line may have its name in full.
            if (name.is_empty() || self.with_cmdline)
                && let Some(raw) = files.read("cmdline", &mut self.buffer)
            {
                if raw.is_empty() {
                    // A process that is ending has neither executable nor arguments: nothing was refused.
                    (files.denied, files.others_denied) = (0, 0);
                }
                if name.is_empty() {
                    name.push_str(&longer_name(raw, about.comm).unwrap_or_default());
                }
                if self.with_cmdline {
                    scrub::scrub_cmdline(raw, cmdline);
                }
            }
        }
        if name.is_empty() {
            name.push_str(comm);
        }
        *is_gone = files.vanished;
        (files.denied, files.others_denied)
    }
}

/// What was refused in the first pass in which something was. Why: the log line names how much it is.
#[derive(Debug, Default)]
struct Refused {
    /// Processes of which nothing but the executable's link is refused.
    links: u64,
    /// Processes of which another file is refused.
    files: u64,
    /// One of them, of the worse kind if there is any.
    example: u32,
    is_reported: bool,
}

impl Refused {
    /// Executables without a name up to this many are no alarm: root without every capability is refused those of processes
    /// that have more, such as init's.
    const FEW: u64 = 8;

    fn note(&mut self, pid: u32, others_denied: u64) {
        if self.files == 0 && (others_denied > 0 || self.links == 0) {
            self.example = pid;
        }
        if others_denied > 0 {
            self.files += 1;
        } else {
            self.links += 1;
        }
    }

    /// What to say of it, once. `processes`: how many there are.
    fn message(&mut self, processes: usize) -> Option<(log::Level, String)> {
        if self.is_reported || self.links + self.files == 0 {
            return None;
        }
        self.is_reported = true;
        let Self { links, files, example, .. } = *self;
        Some(if files > 0 {
            let all = links + files;
            let text = format!(
                "{all} of {processes} processes do not show all they are (/proc/{example} for one; another user's, or \
                 hidepid): their short name is shown for the program's, user or container may be missing"
            );
            (log::Level::Warn, text)
        } else {
            let level = if links <= Self::FEW { log::Level::Info } else { log::Level::Warn };
            let text = format!(
                "{links} of {processes} processes do not show their executable (/proc/{example}/exe for one; another user's, \
                 or with more privileges): their short name is shown for it, nothing else is missing"
            );
            (level, text)
        })
    }
}

struct Files<'a> {
    dir: &'a OwnedFd,
    pid: u32,
    denied: u64,
    /// Those of them that are not the executable's link.
    others_denied: u64,
    vanished: bool,
}

impl Files<'_> {
    fn read<'b>(&mut self, name: &str, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let result = file::with_path(self.pid, name, |path| file::read_at(self.dir, path, buffer));
        let before = self.denied;
        let content = self.note(result);
        self.others_denied += self.denied - before;
        content
    }

    fn link<'b>(&mut self, name: &str, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        match file::with_path(self.pid, name, |path| readlinkat_raw(self.dir, path, &mut *buffer)) {
            // A process without an executable of its own (kernel thread, zombie) says ENOENT: that is not "gone".
            Err(Errno::NOENT) => None,
            result => self.note(result).and_then(|length| buffer.get(..length)),
        }
    }

    fn note<T>(&mut self, result: Result<T, Errno>) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(Errno::ACCESS | Errno::PERM) => self.denied += 1,
            // Mostly ENOENT or ESRCH: the process has ended. What was known of it stays.
            Err(_) => self.vanished = true,
        }
        None
    }
}

/// The last part of a path; the kernel marks a replaced executable with ` (deleted)`.
fn base_name(path: &[u8]) -> Cow<'_, str> {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    String::from_utf8_lossy(path.rsplit(|&b| b == b'/').next().unwrap_or_default())
}

/// Where the executable may not be seen: the program name out of the command line, if the kernel's 15 bytes are a cut
/// form of it.
fn longer_name(cmdline: &[u8], comm: Comm) -> Option<Cow<'_, str>> {
    let program = cmdline.split(|&b| b == 0).next()?;
    let name = program.rsplit(|&b| b == b'/').next()?;
    // A process can write anything into its command line, so it counts only where it goes on from the
    // kernel's name.
    let is_cut = comm.as_bytes().len() == Comm::MAX_BYTES && name.starts_with(comm.as_bytes());
    is_cut.then(|| String::from_utf8_lossy(name))
}

/// A [`ProcessInfo`] in kept buffers, so that reading it again allocates only when something changed.
#[derive(Default)]
struct Scratch {
    name: String,
    comm: String,
    cmdline: String,
    cgroup: String,
    uid: u32,
    is_kernel: bool,
    is_gone: bool,
}

impl Scratch {
    fn clear(&mut self, about: &About) {
        for text in [&mut self.name, &mut self.comm, &mut self.cmdline, &mut self.cgroup] {
            text.clear();
        }
        (self.uid, self.is_kernel, self.is_gone) = (UNKNOWN_UID, about.is_kernel, false);
    }

    fn says(&self, info: &ProcessInfo) -> bool {
        *self.name == *info.name
            && *self.comm == *info.comm
            && *self.cmdline == *info.cmdline
            && *self.cgroup == *info.cgroup
            && self.uid == info.uid
            && self.is_kernel == info.is_kernel
    }

    fn to_info(&self) -> ProcessInfo {
        ProcessInfo {
            name: self.name.as_str().into(),
            comm: self.comm.as_str().into(),
            cmdline: self.cmdline.as_str().into(),
            cgroup: self.cgroup.as_str().into(),
            container: parse::container_name(&self.cgroup).into(),
            uid: self.uid,
            is_kernel: self.is_kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(pid: u32, comm: &str) -> About {
        About { key: ProcessKey { pid, start_ns: 1 }, comm: comm.into(), is_kernel: false, uid: None }
    }

    #[test]
    fn this_process_is_named_after_its_executable() {
        let mut cache = InfoCache::open(Path::new("/proc"), true).unwrap();
        let info = cache.resolve(&about(std::process::id(), "whatever"));
        let exe = std::env::current_exe().unwrap();
        assert_eq!(*info.name, *exe.file_name().unwrap().to_string_lossy());
        assert!(info.cmdline.contains("cpumon_collect"), "{}", info.cmdline);
        assert_eq!(&*info.comm, "whatever");
        assert_eq!(info.uid, rustix::process::getuid().as_raw());
    }

    fn tree(pid: u32, exe: &str, cgroup: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(pid.to_string());
        std::fs::create_dir(&dir).unwrap();
        std::os::unix::fs::symlink(exe, dir.join("exe")).unwrap();
        std::fs::write(dir.join("cgroup"), cgroup).unwrap();
        std::fs::write(dir.join("cmdline"), b"/opt/run\0--token=abc\0").unwrap();
        std::fs::write(dir.join("status"), "Uid:\t7\t0\t0\t0\n").unwrap();
        root
    }

    #[test]
    fn names_units_and_users_come_from_their_files() {
        let root = tree(5, "/opt/a thing (deleted)", "0::/system.slice/web.service\n");
        let mut cache = InfoCache::open(root.path(), true).unwrap();
        let info = cache.resolve(&about(5, "a thing"));
        assert_eq!((&*info.name, &*info.container, info.uid), ("a thing", "web.service", 7));
        assert_eq!(&*info.cmdline, "/opt/run --token=***");
        let again = cache.resolve(&about(5, "a thing"));
        assert!(Arc::ptr_eq(&info, &again), "kept");
    }

    #[test]
    fn a_new_name_and_a_second_read_count_and_ended_processes_retain_theirs() {
        let root = tree(5, "/opt/old", "0::/\n");
        let mut cache = InfoCache::open(root.path(), false).unwrap();
        let first = cache.resolve(&about(5, "old"));
        assert_eq!((&*first.name, &*first.cmdline), ("old", ""));
        cache.end_pass();
        std::fs::write(root.path().join("5/cgroup"), "0::/system.slice/late.service\n").unwrap();
        assert_eq!(&*cache.resolve(&about(5, "old")).cgroup, "/");
        cache.end_pass();
        assert_eq!(&*cache.resolve(&about(5, "old")).container, "late.service", "second read");
        let exe = root.path().join("5/exe");
        std::fs::remove_file(&exe).unwrap();
        std::os::unix::fs::symlink("/opt/new", &exe).unwrap();
        assert_eq!(&*cache.resolve(&about(5, "new")).name, "new", "exec");
        std::fs::remove_dir_all(root.path().join("5")).unwrap();
        assert_eq!(&*cache.resolve(&about(5, "newer")).name, "new", "gone");
        cache.end_pass();
        cache.end_pass();
        assert_eq!(&*cache.resolve(&about(5, "short")).name, "short", "forgotten, and nothing to read");
    }

    #[test]
    fn what_is_refused_is_logged_once_with_numbers() {
        let mut few = Refused::default();
        assert_eq!(few.message(90), None);
        few.note(1, 0);
        let (level, text) = few.message(90).unwrap();
        assert_eq!(level, log::Level::Info);
        assert!(text.starts_with("1 of 90 processes") && text.contains("/proc/1/exe"), "{text}");
        few.note(2, 1);
        assert_eq!(few.message(90), None, "once");

        let mut many = Refused::default();
        for pid in 1..30 {
            many.note(pid, 0);
        }
        assert_eq!(many.message(90).unwrap().0, log::Level::Warn);

        let mut worse = Refused::default();
        for (pid, others) in [(1, 0), (7, 2), (9, 1)] {
            worse.note(pid, others);
        }
        let (level, text) = worse.message(90).unwrap();
        assert_eq!(level, log::Level::Warn);
        assert!(text.starts_with("3 of 90 processes") && text.contains("/proc/7 "), "{text}");
    }

    #[test]
    fn a_cut_name_is_completed_from_the_command_line() {
        let comm = Comm::new(b"systemd-journal");
        assert_eq!(
            longer_name(b"/lib/systemd/systemd-journald\0-x\0", comm).as_deref(),
            Some("systemd-journald")
        );
        assert_eq!(longer_name(b"something else\0", comm), None);
        assert_eq!(longer_name(b"bash-x\0", "bash".into()), None);
    }
}
