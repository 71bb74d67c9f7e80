//! One process with its threads, its CPU clock, its kept task directory and what its ended threads ran.

use std::os::fd::OwnedFd;

use cpumon_model::{Counters, ProcessKey};

use super::super::file;
use super::ended::Ended;
use super::reader::{Miss, Reader};
use super::thread::{Leader, Thread};

pub(super) struct Process {
    pub(super) key: ProcessKey,
    /// What its main thread says about the process.
    pub(super) leader: Leader,
    /// Ascending by key. Empty if the kernel refuses to show it.
    pub(super) threads: Vec<Thread>,
    /// What threads ran that ended before they got a row.
    pub(super) ended: Ended,
    /// The main thread must be read again: its parent ended.
    pub(super) is_orphaned: bool,
    /// Whether its identity is known: it was read once.
    pub(super) is_known: bool,
    /// Threads began or ended in this pass.
    pub(super) changed: bool,
    /// /proc/PID/task, while it is kept.
    pub(super) dir: Option<OwnedFd>,
    /// Value of its CPU clock when all threads had been read last.
    pub(super) clock_ns: Option<u64>,
    /// The pass in which it was scanned last.
    pub(super) scan_pass: u64,
}

impl Process {
    /// Sum over the live threads.
    pub(super) fn live(&self) -> Counters {
        let mut sum = Counters::default();
        self.threads.iter().for_each(|thread| sum += thread.counters());
        sum
    }

    pub(super) fn close(&mut self, reader: &mut Reader) {
        self.threads.iter_mut().for_each(|thread| thread.close(reader));
        reader.close(&mut self.dir);
    }

    pub(super) fn open_dir(&mut self, proc_dir: &OwnedFd, reader: &mut Reader) -> Result<(), Miss> {
        if self.dir.is_none() {
            let opened = file::with_path(self.key.pid, "task", |path| file::open_at(proc_dir, path));
            self.dir = Some(opened.map_err(|errno| reader.miss(errno))?);
            // Counted although it may fall below zero: `scan` closes the directory again when the budget is
            // used up.
            reader.fds_left -= 1;
        }
        Ok(())
    }

    /// The main thread; `None` only for a process that the kernel refuses to show.
    pub(super) fn main_thread(&self) -> Option<&Thread> {
        let at = self.threads.binary_search_by_key(&self.key.pid, |thread| thread.sample.key.tid).ok()?;
        self.threads.get(at)
    }
}
