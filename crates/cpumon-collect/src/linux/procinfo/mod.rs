//! A cache of each process's [`ProcessInfo`] (program, command line, cgroup, user), which takes four files to read and
//! hardly ever changes. It is read at first sight, when the name changes (exec, prctl), shortly after, and then now and
//! then, because a move between cgroups or a setuid leaves no trace elsewhere. The command line is read for the name of a
//! script only where there can be one, and not again while name and executable are the same.

mod naming;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use cpumon_model::{Comm, ProcessInfo, ProcessKey};

pub(crate) use self::naming::{About, Exec};
use self::naming::{Files, MAX_BYTES, Naming, Scratch, UserNames};
use super::file;
use crate::script::{ExecScript, ScriptCommand};
use crate::source::UNKNOWN_UID;
use crate::{CollectError, SourceOptions, parse};

/// Entries up to which the map is never shrunk.
const MANY_ENTRIES: usize = 4096;
const MAX_FRESH: usize = 16_384;
/// Most script names longer than the kernel's 15 bytes that are kept in full.
const MAX_LONG_NAMES: usize = 1024;
/// Passes after which a fresh entry is read again: a process is often moved to its cgroup after it began.
const SECOND_READ: u64 = 2;
/// Passes between later reads of an entry.
const NEXT_READ: u64 = 64;

struct InfoEntry {
    info: Arc<ProcessInfo>,
    comm: Comm,
    seen: u64,
    read_again_at: u64,
    /// Files that were refused when they were read, already counted.
    denied: u64,
    /// It was read a second time under this name.
    is_settled: bool,
}

/// Every living process's [`ProcessInfo`].
pub(crate) struct InfoCache {
    proc_dir: OwnedFd,
    with_cmdline: bool,
    script_names: bool,
    users: UserNames,
    entries: HashMap<ProcessKey, InfoEntry>,
    /// Whole names of scripts by their first 15 bytes, for processes that end before their command line is read.
    long_names: HashMap<Comm, Box<str>>,
    pass: u64,
    denied: u64,
    refused: Refused,
    buffer: Box<[u8]>,
    scratch: Scratch,
    /// Descriptions that are new or another one since this was emptied.
    fresh: Vec<Arc<ProcessInfo>>,
}

impl InfoCache {
    pub(crate) fn open(options: &SourceOptions) -> Result<Self, CollectError> {
        Ok(Self {
            proc_dir: file::open_dir(&options.proc_root)?,
            with_cmdline: options.cmdline,
            script_names: options.script_names,
            users: UserNames::new(options),
            entries: HashMap::new(),
            long_names: HashMap::new(),
            pass: 0,
            denied: 0,
            refused: Refused::default(),
            buffer: vec![0; MAX_BYTES].into_boxed_slice(),
            scratch: Scratch::default(),
            fresh: Vec::new(),
        })
    }

    #[cfg(test)]
    pub(crate) fn open_in(proc_root: &std::path::Path, cmdline: bool) -> Self {
        let options = SourceOptions { proc_root: proc_root.into(), cmdline, ..SourceOptions::default() };
        Self::open(&options).unwrap()
    }

    /// The description of the process: cached, or read when it is due. A process that has ended gets the data in `about`.
    pub(crate) fn resolve(&mut self, about: &About) -> Arc<ProcessInfo> {
        self.resolve_called(about, None)
    }

    /// [`InfoCache::resolve`] with the last exec of the process, used where /proc does not show it.
    pub(crate) fn resolve_called(&mut self, about: &About, exec: Option<&Exec<'_>>) -> Arc<ProcessInfo> {
        let (due, known) = match self.entries.get_mut(&about.key) {
            Some(entry) => {
                entry.seen = self.pass;
                // A setuid changes the user and no name.
                let is_same = entry.comm == about.comm && about.uid.is_none_or(|uid| uid == entry.info.uid);
                if is_same && entry.read_again_at > self.pass {
                    return Arc::clone(&entry.info);
                }
                let is_settled = entry.is_settled && entry.comm == about.comm && entry.read_again_at > 0;
                (NEXT_READ, is_settled.then(|| Arc::clone(&entry.info)))
            }
            None => (SECOND_READ, None),
        };
        let (denied, others_denied) = self.read(about, exec, known.as_deref());
        let (pass, read_again_at) = (self.pass, self.pass + due);
        let scratch = &self.scratch;
        let mut is_fresh = due == SECOND_READ;
        let entry = self.entries.entry(about.key).or_insert_with(|| InfoEntry {
            info: Arc::new(scratch.to_info()),
            comm: about.comm,
            seen: pass,
            read_again_at,
            denied: 0,
            is_settled: false,
        });
        // A file that is refused at every read counts once.
        if denied > entry.denied {
            self.denied += denied - entry.denied;
            entry.denied = denied;
            self.refused.note(about.key.pid, others_denied);
        }
        let renamed = entry.comm != about.comm;
        entry.is_settled = due == NEXT_READ && !renamed;
        entry.comm = about.comm;
        entry.read_again_at = if renamed { pass + SECOND_READ } else { read_again_at };
        // A process that just ended has no files left: its known description stays.
        if !scratch.is_gone && !scratch.says(&entry.info) {
            entry.info = Arc::new(scratch.to_info());
            is_fresh = true;
        }
        if is_fresh && self.fresh.len() < MAX_FRESH {
            self.fresh.push(Arc::clone(&entry.info));
        }
        Arc::clone(&entry.info)
    }

    /// Descriptions that are new or changed since this list was emptied; at most [`MAX_FRESH`].
    pub(crate) fn fresh(&mut self) -> &mut Vec<Arc<ProcessInfo>> {
        &mut self.fresh
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &ProcessInfo> {
        self.entries.values().map(|entry| &*entry.info)
    }

    /// The cached description of the process, if it was resolved in this pass or the one before.
    pub(crate) fn kept(&self, key: ProcessKey) -> Option<&Arc<ProcessInfo>> {
        self.entries.get(&key).map(|entry| &entry.info)
    }

    /// The name of a user, as it was known in this pass.
    pub(crate) fn user(&self, uid: u32) -> &str {
        self.users.known(uid).unwrap_or_default()
    }

    /// The name of a script when only the exec's data is left: its arguments, or else its executable and the 15 bytes of `comm`.
    pub(crate) fn script(&self, exec: &Exec<'_>) -> Option<Box<str>> {
        match exec.script {
            _ if !self.script_names => None,
            ExecScript::Named(name) => Some(name.clone()),
            ExecScript::None => None,
            ExecScript::Unread => {
                let (executable, comm) = (&*exec.program, exec.comm);
                let name = ScriptCommand { executable, comm, cmdline: &[], is_cut: false }.script(|| None)?;
                let long = self.long_names.get(&comm).filter(|long| long.starts_with(&name));
                Some(long.cloned().unwrap_or(name.into()))
            }
        }
    }

    /// Notes the whole name of a script, or completes one.
    fn complete(&mut self, comm: Comm) {
        let Scratch { name, interpreter, .. } = &mut self.scratch;
        if interpreter.is_empty() || Comm::new(name.as_bytes()) != comm {
            return;
        }
        match self.long_names.get(&comm) {
            Some(long) if name.len() == Comm::MAX_BYTES => {
                name.clear();
                name.push_str(long);
            }
            None if name.len() > Comm::MAX_BYTES => {
                if self.long_names.len() >= MAX_LONG_NAMES {
                    self.long_names.clear();
                }
                self.long_names.insert(comm, name.as_str().into());
            }
            _ => {}
        }
    }

    /// Makes the next [`InfoCache::resolve`] of this process read it again: it is known to have changed.
    pub(crate) fn expire(&mut self, key: ProcessKey) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.read_again_at = 0;
        }
    }

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
        self.users.end_pass();
        self.pass += 1;
    }

    /// Files the kernel refused to show, since the cache was opened; each counts once, however often it is read.
    pub(crate) fn denied(&self) -> u64 {
        self.denied
    }

    /// Fills the scratch; returns the number of refused files, and of those other than the executable's link. `known`:
    /// the description of the last read, if the process was read twice since its exec.
    fn read(&mut self, about: &About, exec: Option<&Exec<'_>>, known: Option<&ProcessInfo>) -> (u64, u64) {
        self.scratch.clear(about);
        let Scratch { comm, cgroup, uid, user, .. } = &mut self.scratch;
        comm.push_str(&about.comm.to_str_lossy());
        let mut files =
            Files { dir: &self.proc_dir, pid: about.key.pid, denied: 0, others_denied: 0, vanished: false };
        if let Some(path) = files.read("cgroup", &mut self.buffer).and_then(parse::parse_cgroup) {
            cgroup.push_str(&String::from_utf8_lossy(path));
        }
        let read_uid =
            about.uid.or_else(|| files.read("status", &mut self.buffer).and_then(parse::parse_uid));
        *uid = read_uid.unwrap_or(UNKNOWN_UID);
        user.push_str(read_uid.and_then(|uid| self.users.name(uid)).unwrap_or_default());
        if !about.is_kernel {
            let (with_cmdline, script_names) = (self.with_cmdline, self.script_names);
            let naming = Naming { about, exec, known, with_cmdline, script_names };
            naming.read(&mut files, &mut self.buffer, &mut self.scratch);
        }
        let refused = (files.denied, files.others_denied);
        self.scratch.is_gone = files.vanished;
        if self.scratch.name.is_empty() {
            self.scratch.name.push_str(&self.scratch.comm);
        }
        self.complete(about.comm);
        refused
    }
}

/// Files that were refused in the first pass with a refusal. The log line names their number.
#[derive(Debug, Default)]
struct Refused {
    /// Processes where only the executable's link is refused.
    links: u64,
    /// Processes where another file is refused.
    files: u64,
    /// An example, with more than the link refused if there is one.
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

    /// The message for the log, once. `processes`: the number of all processes.
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
            let level = if links <= Self::FEW { log::Level::Debug } else { log::Level::Warn };
            let text = format!(
                "the executable of {links} of {processes} processes is not readable (/proc/{example}/exe for one; another \
                 user's, or with more privileges): they have their short names, nothing else is missing"
            );
            (level, text)
        })
    }
}

#[cfg(test)]
mod tests;
