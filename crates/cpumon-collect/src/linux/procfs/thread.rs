//! One thread: makes its sample, whose counters never fall, from its files under an open task directory. schedstat alone
//! shows whether it ran: stat and status are read only then. [`TaskReader`]: shared by all reads of a pass: buffers, the
//! budget of open descriptors, counts of errors.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use cpumon_model::{Counters, ProcessKey, ThreadKey, ThreadSample};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::super::file;
use crate::parse::{self, SchedStat, Stat};
use crate::split::Split;

/// A descriptor is kept when the thread was read, and had run, this many passes ago at most.
const KEEP_WITHIN: u64 = 8;
/// Passes after which each thread's stat is read even if it never ran: others can rename it or change its nice value.
const REFRESH_PASSES: u64 = 256;

#[derive(Default)]
struct Files {
    schedstat: Option<OwnedFd>,
    stat: Option<OwnedFd>,
    status: Option<OwnedFd>,
}

pub(super) struct ProcfsThread {
    pub(super) sample: ThreadSample,
    sched: SchedStat,
    files: Files,
    read_pass: u64,
    moved_pass: u64,
    is_unsettled: bool,
}

/// The main thread's data about its process.
#[derive(Copy, Clone, Debug, Default)]
pub(in super::super) struct Leader {
    pub(in super::super) parent_pid: u32,
    pub(in super::super) is_kernel: bool,
    pub(in super::super) uid: Option<u32>,
}

impl ProcfsThread {
    /// Reads a thread for the first time. `leader` gets the data of stat and status.
    pub(super) fn open(
        dir: &OwnedFd,
        tid: u32,
        reader: &mut TaskReader,
        leader: &mut Leader,
    ) -> Result<Self, Miss> {
        let sched = Self::first_schedstat(dir, tid, reader)?;
        let stat = read_stat(dir, tid, reader, &mut None, false)?;
        if sched == Some(SchedStat::default()) && stat.user_ticks + stat.system_ticks > 0 {
            // A kernel with schedstat but without the numbers (delay accounting switched off).
            reader.has_schedstat = Some(false);
        }
        let start_ns = reader.start_ns(&stat);
        let mut thread = Self {
            sample: ThreadSample { key: ThreadKey { tid, start_ns }, ..ThreadSample::default() },
            sched: sched.unwrap_or_default(),
            files: Files::default(),
            read_pass: reader.pass,
            moved_pass: reader.pass,
            is_unsettled: false,
        };
        thread.take(&stat, leader);
        thread.count(Some(&stat), reader);
        thread.read_status(dir, reader, false, leader)?;
        Ok(thread)
    }

    /// The first schedstat shows whether the kernel has it: a task with a stat but no schedstat means that it has not.
    fn first_schedstat(dir: &OwnedFd, tid: u32, reader: &mut TaskReader) -> Result<Option<SchedStat>, Miss> {
        if reader.has_schedstat == Some(false) {
            return Ok(None);
        }
        let read = reader.read(dir, tid, "schedstat", &mut None, false).map(parse::parse_schedstat);
        match read {
            Ok(sched) => {
                reader.has_schedstat.get_or_insert(true);
                sched.map(Some).ok_or_else(|| reader.senseless())
            }
            Err(Miss::Gone) if reader.has_schedstat.is_none() => {
                reader.read(dir, tid, "stat", &mut None, false)?;
                reader.has_schedstat = Some(false);
                Ok(None)
            }
            Err(miss) => Err(miss),
        }
    }

    /// Reads schedstat: whether it ran. If so, [`ProcfsThread::settle`] has to follow.
    pub(super) fn probe(&mut self, dir: &OwnedFd, reader: &mut TaskReader) -> Result<(), Miss> {
        let keep = reader.pass - self.read_pass <= KEEP_WITHIN;
        self.read_pass = reader.pass;
        if reader.has_schedstat == Some(false) {
            // Without schedstat only stat shows whether it ran.
            self.is_unsettled = true;
            return Ok(());
        }
        let bytes = reader.read(dir, self.sample.key.tid, "schedstat", &mut self.files.schedstat, keep)?;
        let Some(sched) = parse::parse_schedstat(bytes) else { return Err(reader.senseless()) };
        // A second probe in the same pass must not undo that the first one saw it move.
        self.is_unsettled |= sched != self.sched;
        self.sched = sched;
        Ok(())
    }

    /// Brings the sample up to date if [`ProcfsThread::probe`] saw that it ran. `Err(Gone)` leaves the counters at the last
    /// ones known.
    pub(super) fn settle(
        &mut self,
        dir: &OwnedFd,
        reader: &mut TaskReader,
        leader: &mut Leader,
    ) -> Result<(), Miss> {
        if !std::mem::take(&mut self.is_unsettled) {
            return Ok(());
        }
        let keep = self.is_hot(reader.pass);
        self.moved_pass = reader.pass;
        let stat = match read_stat(dir, self.sample.key.tid, reader, &mut self.files.stat, keep) {
            Ok(stat) if reader.start_ns(&stat) == self.sample.key.start_ns => stat,
            // Another thread under the same number.
            Ok(_) => return Err(Miss::Gone),
            Err(miss) => {
                // schedstat was read before stat failed: the run time of its last moments counts.
                self.count(None, reader);
                return Err(miss);
            }
        };
        self.take(&stat, leader);
        self.count(Some(&stat), reader);
        self.read_status(dir, reader, keep, leader)
    }

    /// Reads stat of a thread that has not run.
    pub(super) fn refresh(
        &mut self,
        dir: &OwnedFd,
        reader: &mut TaskReader,
        leader: &mut Leader,
    ) -> Result<(), Miss> {
        // No descriptor stays open: an idle thread is read here once in `REFRESH_PASSES`.
        let stat = read_stat(dir, self.sample.key.tid, reader, &mut None, false)?;
        if reader.start_ns(&stat) != self.sample.key.start_ns {
            return Err(Miss::Gone);
        }
        self.take(&stat, leader);
        Ok(())
    }

    /// Whether it is this thread's turn to be refreshed.
    pub(super) fn is_due(&self, pass: u64) -> bool {
        // Offset by id, so that each pass refreshes some threads and none refreshes all.
        (u64::from(self.sample.key.tid) + pass).is_multiple_of(REFRESH_PASSES)
    }

    /// Whether the thread ran in the last `KEEP_WITHIN` passes.
    pub(super) fn is_hot(&self, pass: u64) -> bool {
        pass - self.moved_pass <= KEEP_WITHIN
    }

    pub(super) fn is_read(&self, pass: u64) -> bool {
        self.read_pass == pass
    }

    /// Run time by the last read of schedstat, ns.
    pub(super) fn probed_ns(&self) -> u64 {
        self.sched.run_ns
    }

    pub(super) fn belongs_to(&mut self, process: ProcessKey) {
        self.sample.process = process;
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.sample.counters
    }

    pub(super) fn close(&mut self, reader: &mut TaskReader) {
        for file in [&mut self.files.schedstat, &mut self.files.stat, &mut self.files.status] {
            reader.close(file);
        }
    }

    fn take(&mut self, stat: &Stat, leader: &mut Leader) {
        self.sample.comm = stat.comm;
        self.sample.state = stat.state;
        self.sample.nice = stat.nice;
        self.sample.priority = stat.priority;
        self.sample.last_cpu = stat.last_cpu;
        leader.parent_pid = stat.parent_pid;
        leader.is_kernel = stat.is_kernel();
    }

    /// Brings run time and its split up to date. Without a stat the proportion stays as it was.
    fn count(&mut self, stat: Option<&Stat>, reader: &TaskReader) {
        let counters = &mut self.sample.counters;
        let (user, system) =
            stat.map_or((counters.user_ns, counters.system_ns), |stat| (stat.user_ticks, stat.system_ticks));
        let ticks_ns = user.saturating_add(system).saturating_mul(reader.ns_per_tick);
        counters.run_ns = match (reader.has_schedstat, stat) {
            (Some(false), Some(_)) => ticks_ns,
            (Some(false), None) => counters.run_ns,
            _ => self.sched.run_ns,
        };
        counters.run_delay_ns = self.sched.run_delay_ns;
        if let Some(stat) = stat {
            (counters.minor_faults, counters.major_faults) = (stat.minor_faults, stat.major_faults);
        }
        split_run_time(counters, user, system);
    }

    fn read_status(
        &mut self,
        dir: &OwnedFd,
        reader: &mut TaskReader,
        keep: bool,
        leader: &mut Leader,
    ) -> Result<(), Miss> {
        let bytes = reader.read(dir, self.sample.key.tid, "status", &mut self.files.status, keep)?;
        let Some(status) = parse::parse_status(bytes) else { return Err(reader.senseless()) };
        let counters = &mut self.sample.counters;
        counters.voluntary_switches = status.voluntary_switches;
        counters.involuntary_switches = status.involuntary_switches;
        leader.uid = Some(status.uid);
        Ok(())
    }
}

/// Splits the run time of `counters` in the proportion `user : system`, as [`Split::advance`] does from the split that they have.
pub(super) fn split_run_time(counters: &mut Counters, user: u64, system: u64) {
    let split = Split::of(counters).advance(user, system, counters.run_ns);
    (counters.user_ns, counters.system_ns) = (split.user_ns, split.system_ns);
}

fn read_stat(
    dir: &OwnedFd,
    tid: u32,
    reader: &mut TaskReader,
    kept: &mut Option<OwnedFd>,
    keep: bool,
) -> Result<Stat, Miss> {
    let bytes = reader.read(dir, tid, "stat", kept, keep)?;
    match parse::parse_stat(bytes) {
        Some(stat) if stat.pid == tid => Ok(stat),
        _ => Err(reader.senseless()),
    }
}

/// Longest stat, status or schedstat that is read.
const MAX_BYTES: usize = 32 << 10;
/// Space for one answer of `getdents64`: about 1,300 task directories.
const DIRENT_BYTES: usize = 32 << 10;
/// Descriptors left to the rest of the program.
const SPARE_FDS: u64 = 512;
/// Most descriptors that stay open: each holds a 4 KiB page of kernel memory.
const MAX_KEPT_FDS: u64 = 16_384;

/// Why a file of a task was not read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    Gone,
    Denied,
    /// Anything else: out of descriptors, malformed. Known values stay.
    Failed,
}

pub(super) struct TaskReader {
    buffer: Box<[u8]>,
    dirents: Box<[MaybeUninit<u8>]>,
    /// Number of the pass, from 1.
    pub(super) pass: u64,
    /// Length of a tick in stat, ns.
    pub(super) ns_per_tick: u64,
    /// Whether the kernel has schedstat: unknown until a task was read.
    pub(super) has_schedstat: Option<bool>,
    /// Whether descriptors ran out in this pass.
    pub(super) is_starved: bool,
    /// A process had too many threads; that was logged.
    has_reported_crowd: bool,
    /// Threads of the process that was not read last, because it had too many.
    pub(super) crowd: Option<usize>,
    pub(super) fds_left: i64,
    /// A process with more threads than these is not read.
    pub(super) most_threads: usize,
    /// Numbers of one directory, between its listing and its use.
    pub(super) listing: Vec<u32>,
    /// Tasks that vanished between being listed and being read.
    pub(super) vanished: u64,
    pub(super) denied: u64,
    /// Files that could not be parsed.
    pub(super) malformed: u64,
}

impl TaskReader {
    pub(super) fn new() -> Self {
        Self::keeping(fd_budget(), usize::MAX)
    }

    /// Keeps no more descriptors than these, and reads no process with more threads.
    pub(super) fn keeping(fds_left: i64, most_threads: usize) -> Self {
        Self {
            buffer: vec![0; MAX_BYTES].into_boxed_slice(),
            dirents: vec![MaybeUninit::uninit(); DIRENT_BYTES].into_boxed_slice(),
            pass: 0,
            ns_per_tick: super::super::host::ns_per_tick(),
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

    /// Start of a thread since boot, ns.
    pub(super) fn start_ns(&self, stat: &Stat) -> u64 {
        stat.start_ticks.saturating_mul(self.ns_per_tick)
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

    /// Lists the entries of a directory whose names are numbers.
    pub(super) fn list(&mut self, dir: &OwnedFd, into: &mut Vec<u32>) -> Result<(), Errno> {
        file::list_numbers(dir, &mut self.dirents, into)
    }

    /// Classifies an error of opening a file by its meaning for the task.
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

/// The meaning of an error of opening or reading.
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
