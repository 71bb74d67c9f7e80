//! The procfs source: makes complete snapshots of cumulative counters from /proc, without privileges, on
//! Linux 4.4 or later.
//!
//! # How it stays cheap
//! A pass costs system calls for what ran, not for what exists:
//! 1. *Idle processes cost one system call.* The CPU clock of a process (`scan::process_ns`) is the sum of its threads'
//!    run times in ns, ended threads included. If it did not move, no thread ran, began or ended.
//! 2. *Idle threads are not read.* In a process that did run, recently active threads are read first; if the sum over all
//!    threads then equals the CPU clock, the others need no reading (`scan`).
//! 3. *Files are read by descriptors that stay open*: schedstat by `pread`; stat and status only where schedstat moved.
//!    The link count of /proc/PID/task shows whether threads began, `ESRCH` that one ended.
//! 4. */proc is not listed* while the newest pid shows which few pids are new (`visit::NewestPid`).
//!
//! Where the clock does not fit (a container that measures its host's /proc) every thread's schedstat is read.
//!
//! # What was tried
//! CPU time per thread and pass, 10,000 sleeping and 200 active threads, one run on 2 CPUs, Linux 6.18
//! (`cargo bench -p cpumon-collect --bench procfs`; more in docs/benchmarks-collect.md):
//!
//! | way | cost | ratio |
//! |---|---|---|
//! | open, read, close of stat by path | 8.48 µs | 1.00 |
//! | openat of schedstat from kept directories | 5.26 µs | 0.62 |
//! | `io_uring` batches on kept descriptors: /proc cannot be read without blocking, so each read goes to a kernel worker | 4.58 µs | 0.54 |
//! | `pread` on kept descriptors | 1.70 µs | 0.20 |
//! | this source, whole snapshot of the machine | 0.68 µs | 0.08 |
//!
//! # Limits Processes that begin and end between two passes, and run delay, switches and page faults of threads that ended since the last pass, are
//! not seen. A change of name or nice value made from outside on an idle thread shows up to 256 passes later.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use cpumon_model::{Comm, Counters, Fields, ProcessSample, Snapshot, SourceKind, ThreadKey};
use rustix::fs::CWD;

use super::cgroups::Cgroups;
use super::cpustat::CpuStat;
use super::file;
use super::host::{self, OwnUsage};
use super::procinfo::{About, InfoCache};
use crate::{CollectError, Source, SourceOptions};

mod chosen;
mod scan;
mod thread;
mod visit;

pub(super) use chosen::Chosen;
#[cfg(test)]
pub(super) use chosen::MAX_THREADS as MAX_CHOSEN_THREADS;
use scan::Process;
pub(super) use scan::fits as shows_own_pids;
pub(super) use thread::Leader;
use thread::{Miss, TaskReader};
use visit::{NewestPid, Outcome, PidSearch};

pub(crate) struct ProcfsSource {
    proc_root: PathBuf,
    proc_dir: OwnedFd,
    loadavg: Option<OwnedFd>,
    has_clock: bool,
    opened_ns: u64,
    /// Processes of other users are not in /proc.
    hides_processes: bool,
    reader: TaskReader,
    newest: NewestPid,
    listing: Vec<u32>,
    /// Ascending by pid.
    processes: Vec<Process>,
    /// Every thread's place in `processes`, ascending by thread key.
    order: Vec<ThreadPlace>,
    /// Run time of the threads of ended processes, as far as it was seen.
    exited: Counters,
    infos: InfoCache,
    cgroups: Cgroups,
    cpus: CpuStat,
    own: OwnUsage,
    template: Snapshot,
}

/// Index of a process, and of the thread in that process.
#[derive(Copy, Clone)]
struct ThreadPlace {
    key: ThreadKey,
    process: u32,
    thread: u32,
}

impl ProcfsSource {
    pub(crate) fn open(options: &SourceOptions) -> Result<Self, CollectError> {
        let root = &options.proc_root;
        let boot = host::boot_id(root)?;
        let template = Snapshot {
            host: host::host_id(options, boot),
            boot,
            source: SourceKind::Procfs,
            irq_in_run_time: host::irq_in_run_time(options),
            is_complete: true,
            ..Snapshot::default()
        };
        let has_clock = scan::fits(root);
        let mut reader = TaskReader::new();
        // The clock of process 1 needs no /proc: if it answers, and its threads cannot be listed, that is hidepid.
        let hides_processes =
            has_clock && scan::process_ns(1).is_some() && root.join("1/task").read_dir().is_err();
        if hides_processes {
            reader.denied += 1;
        }
        // Without clocks no pid could be checked, so the newest one is useless.
        let loadavg = file::open_at(CWD, root.join("loadavg")).ok().filter(|_| has_clock);
        Ok(Self {
            proc_root: root.clone(),
            proc_dir: file::open_dir(root)?,
            loadavg,
            has_clock,
            opened_ns: host::now().boot_ns,
            hides_processes,
            reader,
            newest: NewestPid::default(),
            listing: Vec::new(),
            processes: Vec::new(),
            order: Vec::new(),
            exited: Counters::default(),
            infos: InfoCache::open(options)?,
            cgroups: Cgroups::open(root, &options.fs_root),
            cpus: CpuStat::open(root)?,
            own: OwnUsage::open(),
            template,
        })
    }

    pub(super) fn hides_processes(&self) -> bool {
        self.hides_processes
    }

    /// Brings every known process up to date; says whether threads began or ended.
    fn read_known(&mut self) -> bool {
        let Self { processes, reader, proc_dir, has_clock, exited, listing, .. } = self;
        let mut changed = false;
        // The listing's memory is free until `find_new` lists. It ascends, as `processes` does.
        let gone = listing;
        gone.clear();
        processes.retain_mut(|process| match process.update(proc_dir, *has_clock, reader) {
            Outcome::Same => true,
            Outcome::Changed => {
                changed = true;
                true
            }
            Outcome::Gone => {
                *exited += &process.live();
                *exited += &process.ended.since_opened();
                process.close(reader);
                gone.push(process.key.pid);
                false
            }
        });
        if gone.is_empty() {
            return changed;
        }
        for process in processes {
            // A child gets another parent without running, so its clock does not show it.
            process.is_orphaned |= gone.binary_search(&process.leader.parent_pid).is_ok();
        }
        true
    }

    /// Finds processes that began; says whether there are any.
    fn find_new(&mut self, search: PidSearch) -> Result<bool, CollectError> {
        let known = self.processes.len();
        match search {
            PidSearch::Probe(pids) => {
                for pid in pids {
                    // A pid may have gone to a thread, or its process has ended already: neither has a clock.
                    if !self.is_known(pid, known) && scan::process_ns(pid).is_some() {
                        self.begin_process(pid);
                    }
                }
            }
            PidSearch::List => {
                let mut listing = std::mem::take(&mut self.listing);
                let listed = self.reader.list(&self.proc_dir, &mut listing);
                // A process that is refused has no thread whose end would show.
                self.processes.retain(|process| {
                    !process.threads.is_empty()
                        || listing.binary_search(&process.key.pid).is_ok()
                        || listed.is_err()
                });
                let known = self.processes.len();
                for &pid in &listing {
                    if !self.is_known(pid, known) {
                        self.begin_process(pid);
                    }
                }
                self.listing = listing;
                // Last: the buffer is back in its place, and entries listed before the error are used.
                listed.map_err(CollectError::file("list", &self.proc_root))?;
            }
        }
        let is_grown = self.processes.len() > known;
        if is_grown {
            self.processes.sort_unstable_by_key(|process| process.key);
        }
        Ok(is_grown)
    }

    fn is_known(&self, pid: u32, among: usize) -> bool {
        self.processes[..among].binary_search_by_key(&pid, |process| process.key.pid).is_ok()
    }

    fn begin_process(&mut self, pid: u32) {
        match Process::open(&self.proc_dir, pid, self.has_clock, self.opened_ns, &mut self.reader) {
            Ok(process) => self.processes.push(process),
            Err(Miss::Gone) => self.reader.vanished += 1,
            // Tried again at the next listing.
            Err(Miss::Denied | Miss::Failed) => {}
        }
    }

    /// Gives back every kept descriptor, keeps fewer from now on, and searches for processes that were missed.
    fn close_all(&mut self) {
        let left = self.reader.fds_left;
        for process in &mut self.processes {
            process.close(&mut self.reader);
        }
        let used = self.reader.fds_left - left;
        self.reader.halve_budget(used);
        // Without an earlier pid to continue from, the next passes list /proc and find the processes that could not be opened.
        self.newest = NewestPid::default();
    }

    /// Puts the threads of all processes into one order.
    fn put_in_order(&mut self) {
        let Self { processes, order, .. } = self;
        order.clear();
        for (process, known) in (0..).zip(&*processes) {
            let places = (0..).zip(&known.threads);
            order.extend(places.map(|(thread, row)| ThreadPlace { key: row.sample.key, process, thread }));
        }
        order.sort_unstable_by_key(|place| place.key);
    }

    fn emit(&mut self, into: &mut Snapshot) {
        into.exited_total = self.exited;
        for process in self.processes.iter().filter(|process| !process.threads.is_empty()) {
            let about = About {
                key: process.key,
                comm: process.main_thread().map_or(Comm::default(), |thread| thread.sample.comm),
                is_kernel: process.leader.is_kernel,
                uid: process.leader.uid,
            };
            into.processes.push(ProcessSample {
                key: process.key,
                parent_pid: process.leader.parent_pid,
                info: self.infos.resolve(&about),
                ended_threads: *process.ended.total(),
            });
            into.exited_total += &process.ended.since_opened();
        }
        self.infos.end_pass();
        let at = |place: &ThreadPlace| {
            self.processes.get(place.process as usize)?.threads.get(place.thread as usize)
        };
        let threads = self.order.iter().filter_map(at);
        into.threads.extend(threads.map(|thread| thread.sample));
        into.count_tasks();
    }

    fn describe(&self, into: &mut Snapshot) {
        let template = &self.template;
        (into.host, into.boot, into.source) = (template.host, template.boot, template.source);
        (into.is_complete, into.irq_in_run_time) = (template.is_complete, template.irq_in_run_time);
        // Passes count from 1, snapshots from 0.
        into.sequence = self.reader.pass - 1;
        into.fields = Fields::COUNTERS | Fields::CPUS;
        // Only schedstat has the run delay.
        into.fields.set(Fields::RUN_DELAY, self.reader.has_schedstat == Some(true));
        into.health.tasks_vanished = self.reader.vanished;
        into.health.permission_denied = self.reader.denied + self.infos.denied();
        into.health.malformed = self.reader.malformed + self.cpus.malformed();
    }
}

impl Source for ProcfsSource {
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        into.clear();
        self.reader.pass += 1;
        into.begin = host::now();
        // The newest pid is read first: a process that begins during the pass is found in the next one.
        let newest = self.loadavg.as_ref().and_then(NewestPid::read);
        let changed = self.read_known();
        let search = self.newest.search(newest, self.reader.pass, self.processes.len());
        let grown = self.find_new(search)?;
        if self.reader.is_starved {
            self.close_all();
        }
        if changed || grown {
            self.put_in_order();
        }
        self.emit(into);
        self.cpus.read(&mut into.cpus)?;
        into.end = host::now();
        self.own.fill(&mut into.health);
        self.describe(into);
        self.cgroups.read(&mut self.infos, into);
        Ok(())
    }
}
