//! One process in one pass: read for the first time, read again, or left alone because its CPU clock did not move.

use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use cpumon_model::ProcessKey;

use super::super::file;
use super::scan::{self, Ended, Process};
use super::thread::{Leader, Miss, TaskReader};
use crate::parse;

/// Passes without any run time after which kept descriptors are closed.
const CLOSE_AFTER: u64 = 64;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The same threads as before.
    Same,
    /// Threads began or ended.
    Changed,
    Gone,
}

impl Process {
    /// Reads a process for the first time. With `has_clock` its CPU clock is trusted.
    ///
    /// Earlier run time of ended threads counts only if the process began after `opened_ns`, the start of the source.
    pub(super) fn open(
        proc_dir: &OwnedFd,
        pid: u32,
        has_clock: bool,
        opened_ns: u64,
        reader: &mut TaskReader,
    ) -> Result<Self, Miss> {
        let mut process = Self {
            key: ProcessKey { pid, start_ns: 0 },
            leader: Leader::default(),
            threads: Vec::new(),
            ended: Ended::default(),
            is_orphaned: false,
            is_known: false,
            changed: false,
            dir: None,
            clock_ns: None,
            scan_pass: reader.pass,
        };
        let clock_ns = if has_clock { Some(scan::process_ns(pid).ok_or(Miss::Gone)?) } else { None };
        let result =
            process.open_dir(proc_dir, reader).and_then(|()| process.scan(proc_dir, clock_ns, reader));
        match result {
            Ok(()) if process.threads.is_empty() => Err(Miss::Gone),
            // The key has the main thread's start: without it there is no key.
            Ok(()) if process.main_thread().is_none() => {
                process.close(reader);
                Err(Miss::Failed)
            }
            Ok(()) => {
                process.is_known = true;
                if process.key.start_ns < opened_ns {
                    process.ended.begin_here();
                }
                Ok(process)
            }
            Err(Miss::Denied) => {
                reader.refused(pid);
                // Kept without threads, so that it is not tried and counted again in every pass.
                process.close(reader);
                process.threads.clear();
                process.clock_ns = clock_ns;
                Ok(process)
            }
            Err(miss) => {
                process.close(reader);
                Err(miss)
            }
        }
    }

    /// Brings it up to date; a process that did not run costs no more than finding that out.
    pub(super) fn update(&mut self, proc_dir: &OwnedFd, has_clock: bool, reader: &mut TaskReader) -> Outcome {
        let mut clock_ns = None;
        if has_clock {
            clock_ns = scan::process_ns(self.key.pid);
            let Some(now_ns) = clock_ns else { return Outcome::Gone };
            if self.clock_ns == Some(now_ns) {
                return self.rest(proc_dir, reader);
            }
        }
        // It was refused when it was opened: its clock may move, but there is nothing to read.
        if self.threads.is_empty() {
            return Outcome::Same;
        }
        (self.scan_pass, self.changed) = (reader.pass, false);
        match self.open_dir(proc_dir, reader).and_then(|()| self.scan(proc_dir, clock_ns, reader)) {
            Err(Miss::Gone) => Outcome::Gone,
            _ if self.threads.is_empty() => Outcome::Gone,
            _ if self.changed => Outcome::Changed,
            // A process that could not be read stays as it was, so no thread becomes "new" later.
            Ok(()) | Err(_) => Outcome::Same,
        }
    }

    /// Nothing ran: closes descriptors that were open for long, and refreshes the threads whose turn it is.
    fn rest(&mut self, proc_dir: &OwnedFd, reader: &mut TaskReader) -> Outcome {
        let pass = reader.pass;
        if self.is_orphaned || self.threads.iter().any(|thread| thread.is_due(pass)) {
            let had_dir = self.dir.is_some();
            if self.open_dir(proc_dir, reader).is_ok() {
                self.refresh(reader);
            }
            // The process is idle, so a directory that was opened for this refresh is not worth a descriptor.
            if !had_dir {
                reader.close(&mut self.dir);
            }
        }
        if self.dir.is_some() && pass - self.scan_pass > CLOSE_AFTER {
            self.close(reader);
        }
        Outcome::Same
    }

    fn refresh(&mut self, reader: &mut TaskReader) {
        let Some(dir) = &self.dir else { return };
        let (pid, pass) = (self.key.pid, reader.pass);
        for thread in &mut self.threads {
            let is_leader = thread.sample.key.tid == pid;
            if thread.is_due(pass) || (is_leader && self.is_orphaned) {
                let mut other = Leader::default();
                let leader = if is_leader { &mut self.leader } else { &mut other };
                // A thread that is gone shows up as such in the next scan: its end moves the clock.
                let _ = thread.refresh(dir, reader, leader);
            }
        }
        self.is_orphaned = false;
    }
}

// Finds the pids of new processes from the newest pid that the kernel handed out (last field of
// /proc/loadavg). Listing /proc costs about 5 µs for each process that was there all along; asking the CPU
// clock of each pid handed out since then costs 0.3 µs.

/// Passes after which /proc is listed at least once: pids can be assigned out of turn (`/proc/sys/kernel/ns_last_pid`).
const LIST_EVERY: u64 = 32;
/// How many clock probes cost as much as listing one process.
const PROBES_PER_LISTED: usize = 12;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PidSearch {
    List,
    /// Among these pids; an empty range if none was handed out.
    Probe(RangeInclusive<u32>),
}

/// The newest pid at the two passes before.
#[derive(Debug, Default)]
pub(super) struct NewestPid {
    previous: Option<u32>,
    earlier: Option<u32>,
}

impl NewestPid {
    /// Reads the newest pid out of a kept /proc/loadavg.
    pub(super) fn read(loadavg: &OwnedFd) -> Option<u32> {
        let mut buffer = [0; 128];
        let line = file::read_start(loadavg, &mut buffer).ok()?;
        let last = line.trim_ascii_end().rsplit(|&b| b == b' ').next()?;
        u32::try_from(parse::parse_u64(last)?).ok()
    }

    /// Which pids to try in this pass, given the newest pid and how many processes are known.
    ///
    /// The range covers the pass before as well: a pid is handed out a moment before its process can be asked.
    pub(super) fn search(&mut self, newest: Option<u32>, pass: u64, known: usize) -> PidSearch {
        let from = self.earlier;
        self.earlier = std::mem::replace(&mut self.previous, newest);
        let (Some(from), Some(newest)) = (from, newest) else { return PidSearch::List };
        // Pids go up and start over at their maximum.
        let is_few =
            newest.checked_sub(from).is_some_and(|count| count as usize <= PROBES_PER_LISTED * known);
        if is_few && !pass.is_multiple_of(LIST_EVERY) {
            PidSearch::Probe(from + 1..=newest)
        } else {
            PidSearch::List
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_new_pids_are_probed_twice() {
        let mut pids = NewestPid::default();
        assert_eq!(pids.search(Some(100), 1, 50), PidSearch::List, "nothing to compare with");
        assert_eq!(pids.search(Some(100), 2, 50), PidSearch::List);
        assert_eq!(pids.search(Some(103), 3, 50), PidSearch::Probe(101..=103));
        assert_eq!(pids.search(Some(103), 4, 50), PidSearch::Probe(101..=103));
        let PidSearch::Probe(none) = pids.search(Some(103), 5, 50) else { panic!("listed") };
        assert!(none.is_empty());
    }

    #[test]
    fn many_pids_a_wrap_and_every_32nd_pass_are_listed() {
        let mut pids = NewestPid::default();
        for (newest, pass) in [(100, 1), (100, 2), (701, 3), (30, 4), (30, 5), (30, 32)] {
            assert_eq!(pids.search(Some(newest), pass, 50), PidSearch::List, "{newest} {pass}");
        }
        assert_eq!(pids.search(None, 33, 50), PidSearch::List, "unreadable");
    }
}
