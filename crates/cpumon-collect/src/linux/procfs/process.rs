//! One process. In: its CPU clock and its kept task directory. Out: its threads, up to date, and what ended ones ran.

use std::os::fd::OwnedFd;

use cpumon_model::{Counters, ProcessKey};
use rustix::fs::fstat;

use super::super::file;
use super::cpu_clock;
use super::ended::Ended;
use super::reader::{Miss, Reader, miss};
use super::thread::{Leader, Thread};
use crate::parse;

/// Passes without any run time after which kept descriptors are closed.
const CLOSE_AFTER: u64 = 64;
/// Hard links of a directory without subdirectories; the kernel adds one to /proc/PID/task for each thread.
const EMPTY_DIR_LINKS: usize = 2;

/// A known process.
pub(super) struct Process {
    /// Identity.
    pub(super) key: ProcessKey,
    /// What its main thread tells.
    pub(super) leader: Leader,
    /// Ascending by key. Empty if the kernel refuses to show it.
    pub(super) threads: Vec<Thread>,
    /// What threads ran that ended before they got a row.
    pub(super) ended: Ended,
    /// The main thread must be read again: its parent ended.
    pub(super) is_orphaned: bool,
    dir: Option<OwnedFd>,
    clock_ns: Option<u64>,
    scan_pass: u64,
    is_known: bool,
}

/// What a look at a process found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
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
            dir: None,
            clock_ns: None,
            scan_pass: reader.pass,
            is_known: false,
        };
        let clock_ns = if has_clock { Some(cpu_clock::process_ns(pid).ok_or(Miss::Gone)?) } else { None };
        let result =
            process.open_dir(proc_dir, reader).and_then(|()| process.scan(proc_dir, clock_ns, reader));
        match result {
            Ok(_) if process.threads.is_empty() => Err(Miss::Gone),
            Ok(_) if process.main_thread().is_none() => {
                process.close(reader);
                Err(Miss::Failed)
            }
            Ok(_) => {
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

    /// Brings it up to date, as cheaply as it can be told that nothing ran.
    pub(super) fn look(&mut self, proc_dir: &OwnedFd, has_clock: bool, reader: &mut Reader) -> Look {
        let mut clock_ns = None;
        if has_clock {
            clock_ns = cpu_clock::process_ns(self.key.pid);
            let Some(now_ns) = clock_ns else { return Look::Gone };
            if self.clock_ns == Some(now_ns) {
                return self.rest(proc_dir, reader);
            }
        }
        if self.threads.is_empty() {
            return Look::Same;
        }
        self.scan_pass = reader.pass;
        match self.open_dir(proc_dir, reader).and_then(|()| self.scan(proc_dir, clock_ns, reader)) {
            Ok(_) if self.threads.is_empty() => Look::Gone,
            Ok(true) => Look::Changed,
            Err(Miss::Gone) => Look::Gone,
            // What could not be read stays as it was; nobody becomes "new" later because of it.
            Ok(false) | Err(_) => Look::Same,
        }
    }

    /// Sum over the live threads.
    pub(super) fn live(&self) -> Counters {
        let mut sum = Counters::default();
        self.threads.iter().for_each(|thread| sum += thread.counters());
        sum
    }

    /// Closes all descriptors.
    pub(super) fn close(&mut self, reader: &mut Reader) {
        self.threads.iter_mut().for_each(|thread| thread.close(reader));
        reader.close(&mut self.dir);
    }

    /// Nothing ran: closes what was kept for long, and refreshes the threads whose turn it is.
    fn rest(&mut self, proc_dir: &OwnedFd, reader: &mut Reader) -> Look {
        let pass = reader.pass;
        if self.is_orphaned || self.threads.iter().any(|thread| thread.is_due(pass)) {
            let had_dir = self.dir.is_some();
            if self.open_dir(proc_dir, reader).is_ok() {
                self.refresh(reader);
            }
            if !had_dir {
                reader.close(&mut self.dir);
            }
        }
        if self.dir.is_some() && pass - self.scan_pass > CLOSE_AFTER {
            self.close(reader);
        }
        Look::Same
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

    fn open_dir(&mut self, proc_dir: &OwnedFd, reader: &mut Reader) -> Result<(), Miss> {
        if self.dir.is_none() {
            let opened = file::with_path(self.key.pid, "task", |path| file::open_at(proc_dir, path));
            self.dir = Some(opened.map_err(|errno| miss(errno, &mut reader.fds_left))?);
            reader.fds_left -= 1;
        }
        Ok(())
    }

    /// Reads every thread; says whether threads began or ended.
    fn scan(&mut self, proc_dir: &OwnedFd, clock_ns: Option<u64>, reader: &mut Reader) -> Result<bool, Miss> {
        let is_first = self.threads.is_empty();
        let Some(dir) = self.dir.take() else { return Err(Miss::Failed) };
        let scanned = self.scan_threads(&dir, reader);
        self.dir = Some(dir);
        // At first sight nothing is kept yet: most processes rest most of the time.
        if is_first || reader.fds_left <= 0 {
            reader.close(&mut self.dir);
        }
        let scanned = scanned?;
        if scanned.is_complete {
            self.count_ended(proc_dir, clock_ns, scanned.changed, reader);
            self.clock_ns = clock_ns;
        }
        Ok(scanned.changed)
    }

    fn scan_threads(&mut self, dir: &OwnedFd, reader: &mut Reader) -> Result<Scanned, Miss> {
        // The link count is read before the threads: who begins later is seen at the next pass.
        let links = fstat(dir).map_err(|errno| miss(errno, &mut reader.fds_left))?.st_nlink;
        let mut scanned = Scanned { changed: false, is_complete: true };
        self.update_known(dir, reader, |_| true, &mut scanned);
        if scanned.changed || usize::try_from(links) != Ok(EMPTY_DIR_LINKS + self.threads.len()) {
            let mut listing = std::mem::take(&mut reader.listing);
            let listed = reader.list(dir, &mut listing).map_err(|errno| miss(errno, &mut reader.fds_left));
            let merged = listed.and_then(|()| self.merge(dir, &listing, reader, &mut scanned));
            reader.listing = listing;
            merged?;
        }
        Ok(scanned)
    }

    /// Reads the known threads that `which` picks. Ended ones go, and their last counters are kept.
    fn update_known(
        &mut self,
        dir: &OwnedFd,
        reader: &mut Reader,
        which: impl Fn(&Thread) -> bool,
        scanned: &mut Scanned,
    ) {
        let Self { threads, leader, ended, key, .. } = self;
        threads.retain_mut(|thread| {
            if !which(thread) {
                return true;
            }
            let mut other = Leader::default();
            let leader = if thread.sample.key.tid == key.pid { &mut *leader } else { &mut other };
            match thread.update(dir, reader, leader) {
                Ok(_) => true,
                Err(Miss::Gone) => {
                    ended.add(thread.counters());
                    thread.close(reader);
                    scanned.changed = true;
                    false
                }
                Err(miss) => {
                    if miss == Miss::Denied {
                        reader.refused(key.pid);
                    }
                    scanned.is_complete = false;
                    true
                }
            }
        });
    }

    /// Takes in a listing: new threads are read; known ones that it does not show are asked once more, by path, because
    /// a listing that threads begin and end under can miss some.
    fn merge(
        &mut self,
        dir: &OwnedFd,
        listing: &[u32],
        reader: &mut Reader,
        scanned: &mut Scanned,
    ) -> Result<(), Miss> {
        let missing = |thread: &Thread| listing.binary_search(&thread.sample.key.tid).is_err();
        for thread in self.threads.iter_mut().filter(|thread| missing(thread)) {
            thread.close(reader);
        }
        self.update_known(dir, reader, missing, scanned);
        let known = self.threads.len();
        for &tid in listing {
            if self.threads[..known].binary_search_by_key(&tid, |thread| thread.sample.key.tid).is_err() {
                self.begin_thread(dir, tid, reader, scanned)?;
            }
        }
        if self.threads.len() > known {
            scanned.changed = true;
            self.threads.sort_unstable_by_key(|thread| thread.sample.key);
        }
        Ok(())
    }

    fn begin_thread(
        &mut self,
        dir: &OwnedFd,
        tid: u32,
        reader: &mut Reader,
        scanned: &mut Scanned,
    ) -> Result<(), Miss> {
        let mut leader = Leader::default();
        match Thread::open(dir, tid, reader, &mut leader) {
            // Another process under the same pid.
            Ok(_) if tid == self.key.pid && self.is_known => return Err(Miss::Gone),
            Ok(mut thread) => {
                if tid == self.key.pid {
                    self.leader = leader;
                    self.key.start_ns = thread.sample.key.start_ns;
                    self.threads.iter_mut().for_each(|thread| thread.belongs_to(self.key));
                }
                thread.belongs_to(self.key);
                self.threads.push(thread);
            }
            Err(Miss::Gone) => reader.vanished += 1,
            Err(Miss::Denied) => return Err(Miss::Denied),
            Err(Miss::Failed) => scanned.is_complete = false,
        }
        Ok(())
    }

    /// Finds run time of threads that ended, seen before or not. With a CPU clock it is known to the ns; without, stat's
    /// ticks are asked when a thread began or ended.
    fn count_ended(&mut self, proc_dir: &OwnedFd, clock_ns: Option<u64>, changed: bool, reader: &mut Reader) {
        if clock_ns.is_none() && !changed {
            return;
        }
        let live = self.live();
        if clock_ns.is_some_and(|clock_ns| self.ended.missing_ns(clock_ns, &live) == 0) {
            return;
        }
        let Ok(bytes) = reader.read(proc_dir, self.key.pid, "stat", &mut None, false) else { return };
        let Some(stat) = parse::parse_stat(bytes) else { return };
        let (user_ns, system_ns) = (
            stat.user_ticks.saturating_mul(reader.ns_per_tick),
            stat.system_ticks.saturating_mul(reader.ns_per_tick),
        );
        let total_ns = clock_ns.unwrap_or(user_ns.saturating_add(system_ns));
        let missing_ns = self.ended.missing_ns(total_ns, &live);
        self.ended.add_unseen(missing_ns, user_ns, system_ns, &live);
    }

    /// The main thread; `None` only for a process that the kernel refuses to show.
    pub(super) fn main_thread(&self) -> Option<&Thread> {
        let at = self.threads.binary_search_by_key(&self.key.pid, |thread| thread.sample.key.tid).ok()?;
        self.threads.get(at)
    }
}

struct Scanned {
    changed: bool,
    is_complete: bool,
}
