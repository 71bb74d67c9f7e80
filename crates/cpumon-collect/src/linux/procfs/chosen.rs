//! Threads of a few processes, chosen by their ids, read as the procfs source reads them: an idle process costs one read
//! of its clock. The BPF source uses it for the processes that are hidden from BPF.

use std::mem;
use std::os::fd::OwnedFd;
use std::path::Path;

use cpumon_model::{Counters, ProcessKey, TaskState, ThreadSample};

use super::super::{file, host};
use super::scan::Process;
use super::thread::{Leader, TaskReader};
use super::visit::Outcome;
use crate::{CollectError, parse};

const MAX_KEPT_FDS: i64 = 512;
/// Threads that are read at most, of all chosen processes together.
pub(in super::super) const MAX_THREADS: usize = 4_096;

pub(in super::super) struct Chosen {
    proc_dir: OwnedFd,
    /// Whether the CPU clocks of processes go by the ids that /proc shows.
    has_clock: bool,
    opened_ns: u64,
    reader: TaskReader,
    /// Ascending by process id.
    processes: Vec<Process>,
    /// Run time of the threads of ended processes, as far as it was seen.
    exited: Counters,
    /// Processes that are not read because they have too many threads, ascending, with how many.
    left_out: Vec<(u32, usize)>,
}

impl Chosen {
    pub(in super::super) fn open(proc_root: &Path, has_clock: bool) -> Result<Self, CollectError> {
        Ok(Self {
            proc_dir: file::open_dir(proc_root)?,
            has_clock,
            opened_ns: host::now().boot_ns,
            reader: TaskReader::keeping(MAX_KEPT_FDS, MAX_THREADS),
            processes: Vec::new(),
            exited: Counters::default(),
            left_out: Vec::new(),
        })
    }

    /// Every process id that /proc shows, ascending. One that cannot be listed shows none.
    pub(in super::super) fn list(&mut self, into: &mut Vec<u32>) {
        if let Err(error) = self.reader.list(&self.proc_dir, into) {
            log::debug!("cannot list /proc: {error}");
            into.clear();
        }
        // A process that is not listed has ended.
        self.left_out.retain(|(pid, _)| into.binary_search(pid).is_ok());
    }

    pub(in super::super) fn has(&self, pid: u32) -> bool {
        self.processes.binary_search_by_key(&pid, |process| process.key.pid).is_ok()
    }

    /// When a process began, ns since boot, and the state of its main thread; `None` if it is gone.
    pub(in super::super) fn begin_and_state(&mut self, pid: u32) -> Option<(u64, TaskState)> {
        let bytes = self.reader.read(&self.proc_dir, pid, "stat", &mut None, false).ok()?;
        let stat = parse::parse_stat(bytes)?;
        Some((self.reader.start_ns(&stat), stat.state))
    }

    /// Chooses a process. One that has too many threads is not read.
    pub(in super::super) fn choose(&mut self, pid: u32) {
        let threads = self.processes.iter().map(|process| process.threads.len()).sum::<usize>();
        self.reader.most_threads = MAX_THREADS.saturating_sub(threads);
        self.reader.crowd = None;
        let opened = Process::open(&self.proc_dir, pid, self.has_clock, self.opened_ns, &mut self.reader);
        note_crowd(&mut self.left_out, pid, self.reader.crowd);
        if let Ok(process) = opened
            && let Err(at) = self.processes.binary_search_by_key(&pid, |process| process.key.pid)
        {
            self.processes.insert(at, process);
        }
    }

    pub(in super::super) fn read_all(&mut self) {
        self.reader.pass += 1;
        let mut processes = mem::take(&mut self.processes);
        let mut others = processes.iter().map(|process| process.threads.len()).sum::<usize>();
        processes.retain_mut(|process| {
            // Its own threads do not count against it: they are within the limit already.
            others -= process.threads.len();
            self.reader.most_threads = MAX_THREADS.saturating_sub(others);
            self.reader.crowd = None;
            let outcome = process.update(&self.proc_dir, self.has_clock, &mut self.reader);
            note_crowd(&mut self.left_out, process.key.pid, self.reader.crowd);
            others += process.threads.len();
            if outcome == Outcome::Gone {
                self.exited += &process.live();
                self.exited += &process.ended.since_opened();
                process.close(&mut self.reader);
            }
            outcome != Outcome::Gone
        });
        self.processes = processes;
        if self.reader.is_starved {
            let left = self.reader.fds_left;
            self.processes.iter_mut().for_each(|process| process.close(&mut self.reader));
            self.reader.halve_budget(self.reader.fds_left - left);
        }
    }

    /// Lets go of those that are not chosen any more.
    pub(in super::super) fn keep(&mut self, is_wanted: impl Fn(u32) -> bool) {
        let Self { processes, reader, left_out, .. } = self;
        left_out.retain(|(pid, _)| is_wanted(*pid));
        processes.retain_mut(|process| {
            let is_wanted = is_wanted(process.key.pid);
            if !is_wanted {
                process.close(reader);
            }
            is_wanted
        });
    }

    /// Every thread, with its main thread's data about the process.
    pub(in super::super) fn threads(&self) -> impl Iterator<Item = (&ThreadSample, &Leader)> {
        self.processes
            .iter()
            .flat_map(|process| process.threads.iter().map(|thread| (&thread.sample, &process.leader)))
    }

    /// Every process, with the counters of its ended threads.
    pub(in super::super) fn processes(&self) -> impl Iterator<Item = (ProcessKey, &Counters)> {
        self.processes.iter().map(|process| (process.key, process.ended.total()))
    }

    /// Run time of all threads that ended since the source was opened, as far as it was seen.
    pub(in super::super) fn exited(&self) -> Counters {
        let mut sum = self.exited;
        self.processes.iter().for_each(|process| sum += &process.ended.since_opened());
        sum
    }

    /// Threads of processes that have too many to be read.
    pub(in super::super) fn left_out(&self) -> u64 {
        self.left_out.iter().map(|(_, threads)| *threads as u64).sum()
    }

    /// Processes that the kernel refused to show, and files that made no sense.
    pub(in super::super) fn refused(&self) -> (u64, u64) {
        (self.reader.denied, self.reader.malformed)
    }
}

/// Notes how many threads a process has that is not read for their number; `None`: it is read, or gone.
fn note_crowd(left_out: &mut Vec<(u32, usize)>, pid: u32, threads: Option<usize>) {
    match (left_out.binary_search_by_key(&pid, |row| row.0), threads) {
        (Ok(at), Some(threads)) => left_out[at].1 = threads,
        (Ok(at), None) => drop(left_out.remove(at)),
        (Err(at), Some(threads)) => left_out.insert(at, (pid, threads)),
        (Err(_), None) => {}
    }
}
