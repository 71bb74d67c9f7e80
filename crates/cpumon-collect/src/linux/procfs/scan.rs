//! Reads the threads of one process and notices those that began or ended. Most of a pass's time is spent
//! here.
//!
//! Threads that ran lately are read first. If run time over all threads then adds up to the CPU clock, to the ns, no other
//! thread can have run, and the others are not read at all.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use cpumon_model::{Counters, ProcessKey};
use rustix::fs::fstat;

use super::super::file;
use super::thread::{Leader, Miss, ProcfsThread, TaskReader, split_run_time};
use crate::parse;

/// Hard links of a directory without subdirectories; the kernel adds one to /proc/PID/task for each thread.
const EMPTY_DIR_LINKS: usize = 2;
/// How often the threads that ran lately are read again because they ran on meanwhile.
const TRIES: usize = 3;
/// Re-reading pays off if at most 1 in this many threads ran recently.
const RARELY: usize = 8;

impl Process {
    /// Reads the threads. `clock_ns` is the CPU clock just before, if there is one.
    pub(super) fn scan(
        &mut self,
        proc_dir: &OwnedFd,
        clock_ns: Option<u64>,
        reader: &mut TaskReader,
    ) -> Result<(), Miss> {
        let Some(dir) = self.dir.take() else { return Err(Miss::Failed) };
        let is_first = self.threads.is_empty();
        let scanned = self.scan_threads(&dir, clock_ns, reader);
        self.dir = Some(dir);
        // At first sight no descriptor stays open: most processes are idle most of the time.
        if is_first || reader.fds_left <= 0 {
            reader.close(&mut self.dir);
        }
        match scanned? {
            Scanned::Settled(clock_ns) => self.clock_ns = Some(clock_ns),
            Scanned::All => {
                self.count_ended(proc_dir, clock_ns, reader);
                self.clock_ns = clock_ns;
            }
            // `clock_ns` stays as it was, so that the next pass does not take the process for an idle one.
            Scanned::Some => {}
        }
        Ok(())
    }

    fn scan_threads(
        &mut self,
        dir: &OwnedFd,
        clock_ns: Option<u64>,
        reader: &mut TaskReader,
    ) -> Result<Scanned, Miss> {
        // The link count is read before the threads: a thread that begins later is seen at the next pass.
        let links = fstat(dir).map_err(|errno| reader.miss(errno))?.st_nlink;
        let has_links = |count: usize| usize::try_from(links) == Ok(EMPTY_DIR_LINKS + count);
        let threads =
            usize::try_from(links).map_or(usize::MAX, |links| links.saturating_sub(EMPTY_DIR_LINKS));
        if threads > reader.most_threads {
            return Err(reader.crowded(self.key.pid, threads));
        }
        let pass = reader.pass;
        let mut is_complete = true;
        if clock_ns.is_some() && reader.has_schedstat == Some(true) && has_links(self.threads.len()) {
            let settled_ns = self.settle_by_clock(dir, reader, &mut is_complete);
            if let (Some(clock_ns), false) = (settled_ns, self.changed) {
                is_complete &= self.each(dir, reader, |_| true, ProcfsThread::settle);
                return Ok(if is_complete && !self.changed {
                    Scanned::Settled(clock_ns)
                } else {
                    Scanned::Some
                });
            }
        }
        // `settle_by_clock` has read those that ran lately.
        is_complete &= self.probe(dir, reader, |thread| !thread.is_read(pass));
        is_complete &= self.each(dir, reader, |_| true, ProcfsThread::settle);
        // The count alone is not enough: where one thread ended and another began it is the same.
        if self.changed || !has_links(self.threads.len()) {
            let mut listing = std::mem::take(&mut reader.listing);
            let listed = reader.list(dir, &mut listing).map_err(|errno| reader.miss(errno));
            let merged = listed.and_then(|()| self.merge(dir, &listing, reader));
            reader.listing = listing;
            is_complete &= merged?;
        }
        Ok(if is_complete { Scanned::All } else { Scanned::Some })
    }

    /// Reads the threads that ran lately until all run time adds up to the CPU clock, whose value it gives; `None` if it
    /// does not come to that.
    fn settle_by_clock(
        &mut self,
        dir: &OwnedFd,
        reader: &mut TaskReader,
        is_complete: &mut bool,
    ) -> Option<u64> {
        let pass = reader.pass;
        let hot = self.threads.iter().filter(|thread| thread.is_hot(pass)).count();
        // If many threads run, some run during each try, so the sum does not match the clock.
        let tries = if hot * RARELY <= self.threads.len() { TRIES } else { 1 };
        for _ in 0..tries {
            *is_complete = self.probe(dir, reader, |thread| thread.is_hot(pass));
            if self.changed || !*is_complete {
                return None;
            }
            // A sum of counters that never exceed the truth can equal the truth only if each one is true.
            let threads_ns: u64 =
                self.threads.iter().map(ProcfsThread::probed_ns).fold(0, u64::saturating_add);
            // Read after the threads: whatever ran meanwhile makes the two differ.
            let clock_ns = process_ns(self.key.pid)?;
            if threads_ns.saturating_add(self.ended.total().run_ns) == clock_ns {
                return Some(clock_ns);
            }
        }
        None
    }

    /// Reads schedstat of the threads that `which` picks; says whether all could be read.
    fn probe(
        &mut self,
        dir: &OwnedFd,
        reader: &mut TaskReader,
        which: impl Fn(&ProcfsThread) -> bool,
    ) -> bool {
        self.each(dir, reader, which, |thread, dir, reader, _| thread.probe(dir, reader))
    }

    /// Does something to the threads that `which` picks. Ended ones go, and their last counters are kept. Says whether it
    /// could be done to all others.
    fn each(
        &mut self,
        dir: &OwnedFd,
        reader: &mut TaskReader,
        which: impl Fn(&ProcfsThread) -> bool,
        act: impl Fn(&mut ProcfsThread, &OwnedFd, &mut TaskReader, &mut Leader) -> Result<(), Miss>,
    ) -> bool {
        let Self { threads, leader, ended, key, changed, .. } = self;
        let mut is_complete = true;
        threads.retain_mut(|thread| {
            if !which(thread) {
                return true;
            }
            // Only the main thread describes the process; data from the others is dropped.
            let mut other = Leader::default();
            let leader = if thread.sample.key.tid == key.pid { &mut *leader } else { &mut other };
            match act(thread, dir, reader, leader) {
                Ok(()) => true,
                Err(Miss::Gone) => {
                    ended.add(thread.counters());
                    thread.close(reader);
                    *changed = true;
                    false
                }
                Err(miss) => {
                    if miss == Miss::Denied {
                        reader.refused(key.pid);
                    }
                    is_complete = false;
                    true
                }
            }
        });
        is_complete
    }

    /// Takes in a listing: new threads are read; known ones that it does not show are asked once more, by path, because
    /// a listing that threads begin and end under can miss some. Says whether all could be read.
    fn merge(&mut self, dir: &OwnedFd, listing: &[u32], reader: &mut TaskReader) -> Result<bool, Miss> {
        let missing = |thread: &ProcfsThread| listing.binary_search(&thread.sample.key.tid).is_err();
        for thread in self.threads.iter_mut().filter(|thread| missing(thread)) {
            thread.close(reader);
        }
        let mut is_complete = self.probe(dir, reader, missing);
        is_complete &= self.each(dir, reader, missing, ProcfsThread::settle);
        let known = self.threads.len();
        for &tid in listing {
            if self.threads[..known].binary_search_by_key(&tid, |thread| thread.sample.key.tid).is_err() {
                is_complete &= self.begin_thread(dir, tid, reader)?;
            }
        }
        if self.threads.len() > known {
            self.changed = true;
            self.threads.sort_unstable_by_key(|thread| thread.sample.key);
        }
        Ok(is_complete)
    }

    fn begin_thread(&mut self, dir: &OwnedFd, tid: u32, reader: &mut TaskReader) -> Result<bool, Miss> {
        let mut leader = Leader::default();
        match ProcfsThread::open(dir, tid, reader, &mut leader) {
            // Another process under the same pid.
            Ok(_) if tid == self.key.pid && self.is_known => return Err(Miss::Gone),
            Ok(mut thread) => {
                if tid == self.key.pid {
                    self.leader = leader;
                    self.key.start_ns = thread.sample.key.start_ns;
                    // Ids come round: threads with smaller ones were read before the main thread, whose start
                    // is in the key.
                    self.threads.iter_mut().for_each(|thread| thread.belongs_to(self.key));
                }
                thread.belongs_to(self.key);
                self.threads.push(thread);
            }
            Err(Miss::Gone) => reader.vanished += 1,
            Err(Miss::Denied) => return Err(Miss::Denied),
            Err(Miss::Failed) => return Ok(false),
        }
        Ok(true)
    }

    /// Finds run time of threads that ended, seen before or not. With a CPU clock it is known to the ns; without, stat's
    /// ticks are asked when a thread began or ended.
    fn count_ended(&mut self, proc_dir: &OwnedFd, clock_ns: Option<u64>, reader: &mut TaskReader) {
        // Run times made of ticks do not add up to a clock of ns.
        let clock_ns = clock_ns.filter(|_| reader.has_schedstat == Some(true));
        if clock_ns.is_none() && !self.changed {
            return;
        }
        let live = self.live();
        if clock_ns.is_some_and(|clock_ns| self.ended.missing_ns(clock_ns, &live) == 0) {
            return;
        }
        // The next scan tries again: cumulative values show the missing time.
        let Ok(bytes) = reader.read(proc_dir, self.key.pid, "stat", &mut None, false) else { return };
        let Some(stat) = parse::parse_stat(bytes) else { return };
        let ns = |ticks: u64| ticks.saturating_mul(reader.ns_per_tick);
        let (user_ns, system_ns) = (ns(stat.user_ticks), ns(stat.system_ticks));
        let total_ns = clock_ns.unwrap_or(user_ns.saturating_add(system_ns));
        let missing_ns = self.ended.missing_ns(total_ns, &live);
        self.ended.add_unseen(missing_ns, user_ns, system_ns, &live);
    }
}

enum Scanned {
    /// All threads are as they were when the CPU clock had this value.
    Settled(u64),
    All,
    /// Something could not be read: to be tried again in the next pass, whether anybody runs or not.
    Some,
}

pub(super) struct Process {
    pub(super) key: ProcessKey,
    pub(super) leader: Leader,
    /// Ascending by key. Empty if the kernel refuses to show it.
    pub(super) threads: Vec<ProcfsThread>,
    /// Run time of threads that ended before they got a row.
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

    pub(super) fn close(&mut self, reader: &mut TaskReader) {
        self.threads.iter_mut().for_each(|thread| thread.close(reader));
        reader.close(&mut self.dir);
    }

    pub(super) fn open_dir(&mut self, proc_dir: &OwnedFd, reader: &mut TaskReader) -> Result<(), Miss> {
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
    pub(super) fn main_thread(&self) -> Option<&ProcfsThread> {
        let at = self.threads.binary_search_by_key(&self.key.pid, |thread| thread.sample.key.tid).ok()?;
        self.threads.get(at)
    }
}

// The CPU clock of another process: the run time of all its threads, ended ones included, in ns. One system
// call of 0.3 µs shows whether *any* of its threads ran, without privileges (`clock_getcpuclockid(3)`). It
// is the sum of the very counters that schedstat prints, so that sums over threads can be compared to the
// ns.

/// `CPUCLOCK_SCHED` of include/linux/posix-timers.h: the clock that reads `sum_exec_runtime`.
const CPUCLOCK_SCHED: libc::clockid_t = 2;

/// Reads the clock; `None` if no process has this pid (a thread's id is no pid).
pub(super) fn process_ns(pid: u32) -> Option<u64> {
    // The clock id of clock_getcpuclockid(3): the inverted pid above three bits that name the clock.
    let clock = !libc::pid_t::try_from(pid).ok()? << 3 | CPUCLOCK_SCHED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call; any clock id is allowed, unknown ones fail.
    #[expect(unsafe_code, reason = "rustix has no clock ids of other processes")]
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if failed != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec).ok()?)
}

/// Whether `proc_root` shows the pids of this process's own pid namespace, which is the one that the clocks go by.
/// A host's /proc seen from a container, or a test's tree, does not.
pub(in super::super) fn fits(proc_root: &Path) -> bool {
    let own = std::process::id();
    let shown = fs::read_link(proc_root.join("self")).ok();
    let is_own = shown.and_then(|link| link.to_str()?.parse::<u32>().ok()) == Some(own);
    // NSpid (Linux 4.1) lists one number for each namespace from that of the mount down to the process's own.
    let status = fs::read_to_string(proc_root.join("self/status")).unwrap_or_default();
    let levels =
        status.lines().find_map(|line| line.strip_prefix("NSpid:")).map(|ids| ids.split_whitespace().count());
    is_own && levels == Some(1) && process_ns(own).is_some()
}

// Threads that ended in a living process: the process's total less the sum over its live threads gives
// cumulative counters of the ended ones, which never fall and never exceed the truth. /proc shows no thread
// after its end, but the process keeps its time, so that even threads which no pass ever saw are counted.

#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Ended {
    total: Counters,
    before: Counters,
}

impl Ended {
    pub(super) fn total(&self) -> &Counters {
        &self.total
    }

    /// Marks all counters so far as older than the source.
    pub(super) fn begin_here(&mut self) {
        self.before = self.total;
    }

    pub(super) fn since_opened(&self) -> Counters {
        self.total.without(&self.before)
    }

    /// Adds the last known counters of threads that were found gone.
    pub(super) fn add(&mut self, last_known: &Counters) {
        self.total += last_known;
    }

    /// How much more run time than known the ended threads had, at least. `process_ns` must have been read before the
    /// live threads, so that their run time meanwhile makes the result smaller, not larger.
    pub(super) fn missing_ns(&self, process_ns: u64, live: &Counters) -> u64 {
        process_ns.saturating_sub(live.run_ns).saturating_sub(self.total.run_ns)
    }

    /// Adds run time of unknown threads. `user_ns` and `system_ns` are the whole process's; less those of live and ended
    /// threads, they give the proportion.
    pub(super) fn add_unseen(&mut self, run_ns: u64, user_ns: u64, system_ns: u64, live: &Counters) {
        let user = user_ns.saturating_sub(live.user_ns);
        let system = system_ns.saturating_sub(live.system_ns);
        self.total.run_ns = self.total.run_ns.saturating_add(run_ns);
        split_run_time(&mut self.total, user, system);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_proc_fits_and_a_tree_does_not() {
        assert!(fits(Path::new("/proc")));
        assert!(!fits(tempfile::tempdir().unwrap().path()));
    }

    #[test]
    fn own_clock_runs_and_a_missing_process_has_none() {
        let first = process_ns(std::process::id()).unwrap();
        let sum: u64 = (0..3_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        assert!(process_ns(std::process::id()).unwrap() > first, "{sum}");
        assert_eq!(process_ns(0x3fff_fff0), None);
        assert_eq!(process_ns(u32::MAX), None);
    }

    fn run(user_ns: u64, system_ns: u64) -> Counters {
        Counters { user_ns, system_ns, run_ns: user_ns + system_ns, ..Counters::default() }
    }

    #[test]
    fn what_the_process_ran_beyond_its_threads_is_that_of_ended_ones() {
        let mut ended = Ended::default();
        assert_eq!(ended.missing_ns(100, &run(60, 40)), 0);
        assert_eq!(ended.missing_ns(90, &run(60, 40)), 0, "live threads ran on while being read");
        assert_eq!(ended.missing_ns(150, &run(60, 40)), 50);
        ended.add_unseen(50, 100, 50, &run(60, 40));
        assert_eq!(*ended.total(), run(40, 10));
        // One of the live threads ends, nothing unseen is left.
        ended.add(&run(30, 30));
        assert_eq!(ended.missing_ns(150, &run(30, 10)), 0);
        assert_eq!(*ended.total(), run(70, 40));
    }

    #[test]
    fn parts_never_fall() {
        let mut ended = Ended::default();
        ended.add(&run(10, 90));
        ended.add_unseen(10, 1_000_000, 0, &Counters::default());
        assert_eq!(*ended.total(), run(20, 90));
    }
}
