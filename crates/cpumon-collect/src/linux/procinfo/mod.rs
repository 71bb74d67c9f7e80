//! What a process is: a cache of its [`ProcessInfo`] (program, command line, cgroup, user), which takes four
//! files to read and hardly ever changes. It is read at first sight, when the name changes (exec, prctl),
//! shortly after, and then now and then, because a move between cgroups or a setuid leaves no trace
//! elsewhere.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use cpumon_model::{Comm, ProcessInfo, ProcessKey};
use rustix::fs::{CWD, Mode, OFlags, openat};

pub(crate) use self::about::About;
use self::files::{Files, MAX_BYTES};
use self::naming::{base_name, longer_name};
use self::refused::Refused;
use self::scratch::{Scratch, UNKNOWN_UID};
use crate::{CollectError, parse, scrub};

mod about;
mod files;
mod naming;
mod refused;
mod scratch;
#[cfg(test)]
mod tests;

/// Entries up to which the map is never shrunk.
const MANY_ENTRIES: usize = 4096;
/// Passes after which a fresh entry is read again: a process is often moved to its cgroup after it began.
const SECOND_READ: u64 = 2;
/// Passes between later reads.
const NEXT_READ: u64 = 64;

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
