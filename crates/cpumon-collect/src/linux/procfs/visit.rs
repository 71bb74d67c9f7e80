//! One process in one pass: read for the first time, read again, or left alone because its CPU clock did not move.

use std::os::fd::OwnedFd;

use cpumon_model::ProcessKey;

use super::cpu_clock;
use super::ended::Ended;
use super::process::Process;
use super::reader::{Miss, Reader};
use super::thread::Leader;

/// Passes without any run time after which kept descriptors are closed.
const CLOSE_AFTER: u64 = 64;

/// What a pass found of a process.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The same threads as before.
    Same,
    /// Threads began or ended.
    Changed,
    /// The process is gone.
    Gone,
}

impl Process {
    /// Reads a process for the first time. With `has_clock` its CPU clock is trusted.
    ///
    /// What ended threads ran before counts only if the process began after `opened_ns`, the start of the source.
    pub(super) fn open(
        proc_dir: &OwnedFd,
        pid: u32,
        has_clock: bool,
        opened_ns: u64,
        reader: &mut Reader,
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
        let clock_ns = if has_clock { Some(cpu_clock::process_ns(pid).ok_or(Miss::Gone)?) } else { None };
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
    pub(super) fn read(&mut self, proc_dir: &OwnedFd, has_clock: bool, reader: &mut Reader) -> Outcome {
        let mut clock_ns = None;
        if has_clock {
            clock_ns = cpu_clock::process_ns(self.key.pid);
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
            // What could not be read stays as it was; no thread becomes "new" later because of it.
            Ok(()) | Err(_) => Outcome::Same,
        }
    }

    /// Nothing ran: closes what was kept for long, and refreshes the threads whose turn it is.
    fn rest(&mut self, proc_dir: &OwnedFd, reader: &mut Reader) -> Outcome {
        let pass = reader.pass;
        if self.is_orphaned || self.threads.iter().any(|thread| thread.is_due(pass)) {
            let had_dir = self.dir.is_some();
            if self.open_dir(proc_dir, reader).is_ok() {
                self.refresh(reader);
            }
            // The process rests, so a directory that was opened for this refresh is not worth a descriptor.
            if !had_dir {
                reader.close(&mut self.dir);
            }
        }
        if self.dir.is_some() && pass - self.scan_pass > CLOSE_AFTER {
            self.close(reader);
        }
        Outcome::Same
    }

    fn refresh(&mut self, reader: &mut Reader) {
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
