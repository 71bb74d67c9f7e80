//! What every read of a pass shares: buffers, the budget of kept descriptors, counts of what went wrong.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::super::file;

/// Longest stat, status or schedstat that is read.
const MAX_BYTES: usize = 32 << 10;
/// Space for one answer of `getdents64`: about 1,300 task directories.
const DIRENT_BYTES: usize = 32 << 10;
/// Descriptors left to the rest of the program.
const SPARE_FDS: u64 = 512;
/// At most so many descriptors are kept: each holds a 4 KiB page of kernel memory.
const MAX_KEPT_FDS: u64 = 16_384;

/// Why a file of a task was not read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// The task is gone.
    Gone,
    /// The kernel refuses to show it.
    Denied,
    /// Anything else: out of descriptors, not understood. What was known stays.
    Failed,
}

pub(super) struct Reader {
    buffer: Box<[u8]>,
    dirents: Box<[MaybeUninit<u8>]>,
    /// Number of the pass, from 1.
    pub(super) pass: u64,
    /// Length of a tick in stat, ns.
    pub(super) ns_per_tick: u64,
    /// Whether the kernel has schedstat: unknown until a task was read.
    pub(super) has_schedstat: Option<bool>,
    /// Descriptors ran out in this pass.
    pub(super) is_starved: bool,
    /// A process had too many threads; that was logged.
    has_reported_crowd: bool,
    /// Threads of the process that was not read last, because it had too many.
    pub(super) crowd: Option<usize>,
    /// How many more descriptors may be kept.
    pub(super) fds_left: i64,
    /// A process with more threads than these is not read.
    pub(super) most_threads: usize,
    /// Numbers of one directory, between its listing and its use.
    pub(super) listing: Vec<u32>,
    /// Tasks that vanished between being listed and being read.
    pub(super) vanished: u64,
    /// Tasks that were refused.
    pub(super) denied: u64,
    /// Files that made no sense.
    pub(super) malformed: u64,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self::keeping(fd_budget(), usize::MAX)
    }

    /// Keeps no more descriptors than these, and reads no process with more threads.
    pub(super) fn keeping(fds_left: i64, most_threads: usize) -> Self {
        Self {
            buffer: vec![0; MAX_BYTES].into_boxed_slice(),
            dirents: vec![MaybeUninit::uninit(); DIRENT_BYTES].into_boxed_slice(),
            pass: 0,
            ns_per_tick: super::super::clock::ns_per_tick(),
            has_schedstat: None,
            is_starved: false,
            has_reported_crowd: false,
            crowd: None,
            fds_left,
            most_threads,
            listing: Vec::new(),
            vanished: 0,
            denied: 0,
            malformed: 0,
        }
    }

    /// Reads `TID/name` under a task directory: from the kept descriptor, or by opening it, which is then kept if wanted
    /// and affordable.
    pub(super) fn read(
        &mut self,
        dir: &OwnedFd,
        tid: u32,
        name: &str,
        kept: &mut Option<OwnedFd>,
        keep: bool,
    ) -> Result<&[u8], Miss> {
        if let Some(file) = kept {
            // Only opening can run out of descriptors, so this error is not checked for that.
            let read = file::read_start(&*file, &mut self.buffer);
            return read.map_err(meaning);
        }
        let opened = file::with_path(tid, name, |path| file::open_at(dir, path));
        let opened = opened.map_err(|errno| self.miss(errno))?;
        let bytes = file::read_start(&opened, &mut self.buffer).map_err(meaning)?;
        if keep && self.fds_left > 0 {
            self.fds_left -= 1;
            *kept = Some(opened);
        }
        Ok(bytes)
    }

    pub(super) fn close(&mut self, kept: &mut Option<OwnedFd>) {
        self.fds_left += i64::from(kept.take().is_some());
    }

    /// Lists the numbers in a directory.
    pub(super) fn list(&mut self, dir: &OwnedFd, into: &mut Vec<u32>) -> Result<(), Errno> {
        file::list_numbers(dir, &mut self.dirents, into)
    }

    /// Sorts an error of opening a file into what it means for the task.
    pub(super) fn miss(&mut self, errno: Errno) -> Miss {
        self.is_starved |= matches!(errno, Errno::MFILE | Errno::NFILE);
        meaning(errno)
    }

    /// Descriptors ran out although the budget allowed them: others took them. Halves the budget. All kept ones must
    /// have been closed.
    pub(super) fn halve_budget(&mut self, used: i64) {
        if std::mem::replace(&mut self.fds_left, used / 2) > 0 {
            log::warn!("out of file descriptors: keeping at most {} of them; each pass costs more", used / 2);
        }
        self.is_starved = false;
    }

    /// Counts a file that made no sense.
    pub(super) fn senseless(&mut self) -> Miss {
        self.malformed += 1;
        Miss::Failed
    }

    /// A process has more threads than are read; the first one is logged.
    pub(super) fn crowded(&mut self, pid: u32, threads: usize) -> Miss {
        self.crowd = Some(threads);
        if !std::mem::replace(&mut self.has_reported_crowd, true) {
            log::warn!(
                "process {pid} has {threads} threads, more than are read: what they run is unattributed"
            );
        }
        Miss::Failed
    }

    /// Counts a refusal; the first one is logged.
    pub(super) fn refused(&mut self, pid: u32) {
        self.denied += 1;
        if self.denied == 1 {
            log::warn!(
                "/proc/{pid}/task is refused (hidepid, or a container's limits): such processes are not measured, their time shows up as unattributed"
            );
        }
    }
}

/// What an error of opening or reading means.
fn meaning(errno: Errno) -> Miss {
    match errno {
        // The task ended: its file is not there (ENOENT), or was open and cannot be read any more (ESRCH).
        Errno::NOENT | Errno::SRCH => Miss::Gone,
        Errno::ACCESS | Errno::PERM => Miss::Denied,
        _ => Miss::Failed,
    }
}

/// Raises the soft limit of open files to the hard one, and returns how many descriptors may be kept under it.
fn fd_budget() -> i64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` is "no limit"; the kernel's own ceiling (fs.nr_open) may refuse that, and then the soft limit stays.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let limit = if raised { maximum } else { current }.unwrap_or(u64::MAX);
    i64::try_from(limit.saturating_sub(SPARE_FDS).min(MAX_KEPT_FDS)).unwrap_or(0)
}
