//! [`Passes`] makes a [`Snapshot`] of rows of processes and threads, from whichever call of Windows, and accounts for run time that no row
//! has. It caches the descriptions of processes, so that a pass in which nothing begins or ends allocates nothing.

use std::collections::HashMap;
use std::sync::Arc;

use cpumon_model::{
    Comm, Counters, Fields, ProcessInfo, ProcessKey, ProcessSample, SchedTimes, Snapshot, TaskState,
    ThreadKey, ThreadSample, WaitReason,
};

use super::names::Services;
use super::ns;
use super::records::{ReportedProcess, ReportedThread};
use crate::source::UNKNOWN_UID;

/// The counters that Windows has for threads and CPUs without an event session. It counts the switches of a thread, but
/// not which ones were voluntary, so these are no data.
const FIELDS: Fields = Fields::USER.union(Fields::SYSTEM).union(Fields::RUN).union(Fields::CPUS);

/// The instant that start times count from, since 1601: the start of the system.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemStart(pub u64);

impl SystemStart {
    /// ns from the base to a time since 1601; an earlier one is 0, which is "not known".
    pub fn ns_since(self, time: u64) -> u64 {
        ns(time.saturating_sub(self.0))
    }
}

/// State of a process from pass to pass.
#[derive(Debug)]
struct ProcessState {
    info: Arc<ProcessInfo>,
    comm: Comm,
    /// Counters of its ended threads. `before`: the part from before the first pass that saw the process.
    ended: Counters,
    before: Counters,
    live: Counters,
    /// Counters of the process and its ended threads in all.
    total: Counters,
    /// Page faults as reported last, all and those that needed a disk.
    faults: [u32; 2],
    /// Page faults of both kinds since the process began.
    all_faults: u64,
    pass: u64,
}

#[derive(Debug)]
pub struct Passes {
    base: SystemStart,
    known: HashMap<ProcessKey, ProcessState>,
    pass: u64,
    /// Counters of ended processes, as far as they were seen.
    exited: Counters,
    /// Counters of ended processes since their start.
    gone: Counters,
    /// Run time that no pass saw; `None`: the CPUs' times do not show it.
    unseen: Option<Unseen>,
    has_events: bool,
    service: String,
}

impl Passes {
    pub fn new(base: SystemStart) -> Self {
        let none = Counters::default();
        Self {
            base,
            known: HashMap::new(),
            pass: 0,
            exited: none,
            gone: none,
            unseen: None,
            has_events: false,
            service: String::new(),
        }
    }

    /// CPU time that no process of a pass accounts for is from now on reported as that of ended threads. Only for a source that shows
    /// every process, on a system whose CPUs run nothing else.
    #[must_use]
    pub fn with_unseen(mut self) -> Self {
        self.unseen = Some(Unseen::default());
        self
    }

    /// For callers that follow the events of threads: [`SchedTimes::open_wait`] is each waiting thread's reason, whose length they
    /// measure, and ended threads, which they report, count nothing here.
    #[must_use]
    pub fn with_events(mut self) -> Self {
        self.has_events = true;
        self
    }

    /// Adds a process and its threads. `about` describes it if it is new.
    ///
    /// The process's times must have been read before those of its threads.
    pub fn add(
        &mut self,
        process: &ReportedProcess,
        threads: impl Iterator<Item = ReportedThread>,
        about: impl FnOnce() -> ProcessInfo,
        into: &mut Snapshot,
    ) {
        let key = ProcessKey { pid: process.pid, start_ns: self.base.ns_since(process.created) };
        let (pass, base, has_events) = (self.pass, self.base, self.has_events);
        let mut is_new = false;
        let known = self.known.entry(key).or_insert_with(|| {
            is_new = true;
            let info = about();
            ProcessState::new(ProcessInfo { session: process.session.or(info.session), ..info }, pass)
        });
        known.pass = pass;
        if known.info.base_priority != process.base_priority {
            let ReportedProcess { base_priority, .. } = *process;
            known.info = Arc::new(ProcessInfo { base_priority, ..(*known.info).clone() });
        }
        (known.live, known.total) = (Counters::default(), counters(process.user, process.kernel));
        for thread in threads {
            let counters = counters(thread.user, thread.kernel);
            known.live += &counters;
            into.threads.push(ThreadSample {
                key: ThreadKey { tid: thread.tid, start_ns: base.ns_since(thread.created) },
                process: key,
                comm: if thread.name.is_empty() { known.comm } else { thread.name },
                state: thread.state.map_or_else(Default::default, |(state, reason)| letter(state, reason)),
                priority: i16::try_from(thread.priority).unwrap_or(0),
                counters,
                sched: if has_events { open_wait(thread.state) } else { SchedTimes::default() },
                ..ThreadSample::default()
            });
        }
        if let Some(faults) = process.faults {
            known.count_faults(faults);
            into.fields |= Fields::FAULTS;
        }
        if !has_events {
            known.end_threads();
        }
        if is_new && pass == 0 {
            known.before = known.ended;
        }
        into.processes.push(ProcessSample {
            key,
            parent_pid: process.parent_pid,
            info: Arc::clone(&known.info),
            ended_threads: known.ended,
        });
    }

    /// Names services again: which process is which changes when one begins in a process that runs already.
    pub fn set_services(&mut self, services: &Services) {
        let Self { known, service, .. } = self;
        for (key, one) in known {
            services.name_of(key.pid, service);
            if *one.info.container != **service {
                one.info =
                    Arc::new(ProcessInfo { container: service.as_str().into(), ..(*one.info).clone() });
            }
        }
    }

    /// Names the product of a process of the pass before: its image was not read when it was new.
    pub fn set_product(&mut self, pid: u32, product: &str) {
        for (_, one) in self.known.iter_mut().filter(|(key, _)| key.pid == pid) {
            one.info = Arc::new(ProcessInfo { product: product.into(), ..(*one.info).clone() });
        }
    }

    /// Called after the last process and the CPUs: counts, sorts, and forgets processes that ended.
    pub fn finish(&mut self, into: &mut Snapshot) {
        let Self { known, pass, exited, gone, unseen, .. } = self;
        let (mut living, mut total) = (Counters::default(), Counters::default());
        known.retain(|_, one| {
            let since_first = one.ended_since_first();
            if one.pass == *pass {
                living += &since_first;
                total += &one.total;
                return true;
            }
            *exited += &since_first;
            *exited += &one.live;
            *gone += &one.total;
            false
        });
        into.exited_total = *exited;
        into.exited_total += &living;
        into.fields = FIELDS | into.fields & Fields::FAULTS;
        (into.sequence, into.is_complete) = (*pass, true);
        into.count_tasks();
        if let Some(unseen) = unseen {
            total += gone;
            unseen.fill(&total, into);
        }
        into.sort();
        *pass += 1;
    }
}

impl ProcessState {
    fn new(info: ProcessInfo, pass: u64) -> Self {
        let comm = comm_of(&info.name);
        let none = Counters::default();
        let (faults, all_faults) = ([0; 2], 0);
        Self {
            info: Arc::new(info),
            comm,
            ended: none,
            before: none,
            live: none,
            total: none,
            faults,
            all_faults,
            pass,
        }
    }

    /// Windows counts page faults of the whole process: every fault counts as one of an ended thread.
    fn count_faults(&mut self, faults: [u32; 2]) {
        let before = std::mem::replace(&mut self.faults, faults);
        let [all, major] = [0, 1].map(|at| {
            let more = faults[at].wrapping_sub(before[at]);
            // A count that fell a little did not pass its end.
            if before[at] == 0 || more <= u32::MAX / 2 { u64::from(more) } else { 0 }
        });
        self.all_faults += all;
        self.ended.major_faults += major;
        // A fault that waits for its disk may be in one of the two counts already, and not yet in the other.
        let minor = self.all_faults.saturating_sub(self.ended.major_faults);
        self.ended.minor_faults = self.ended.minor_faults.max(minor);
    }

    /// Run time of the process beyond its live threads belongs to ended ones. It never falls: live threads may continue
    /// to run while they are read.
    ///
    /// The sum decides, and its modes follow. Wine's times are those of Linux, which splits a sum into modes for the process and for each
    /// thread apart: user time would grow by the error of one pass, system time by that of another.
    fn end_threads(&mut self) {
        let Self { ended, live, total, .. } = self;
        let grown = |total: u64, live: u64, ended: u64| total.saturating_sub(live).saturating_sub(ended);
        let run_ns = grown(total.run_ns, live.run_ns, ended.run_ns);
        let user_ns = grown(total.user_ns, live.user_ns, ended.user_ns).min(run_ns);
        ended.user_ns += user_ns;
        ended.system_ns += run_ns - user_ns;
        ended.run_ns += run_ns;
    }

    fn ended_since_first(&self) -> Counters {
        self.ended.without(&self.before)
    }
}

fn counters(user: u64, kernel: u64) -> Counters {
    let (user_ns, system_ns) = (ns(user), ns(kernel));
    Counters { user_ns, system_ns, run_ns: user_ns.saturating_add(system_ns), ..Counters::default() }
}

/// `Waiting` of `KTHREAD_STATE`.
const WAITING: u32 = 5;

fn open_wait(state: Option<(u32, u32)>) -> SchedTimes {
    let open_wait = match state {
        Some((WAITING, reason)) => WaitReason::windows(u8::try_from(reason).unwrap_or(u8::MAX)),
        _ => WaitReason::NONE,
    };
    SchedTimes { open_wait, ..SchedTimes::default() }
}

/// A process's name as the name of its threads: without `.exe`, as many whole characters as fit.
pub(crate) fn comm_of(name: &str) -> Comm {
    let bare = match name.len().checked_sub(4).and_then(|at| name.split_at_checked(at)) {
        Some((bare, ending)) if ending.eq_ignore_ascii_case(".exe") => bare,
        _ => name,
    };
    Comm::new(&bare.as_bytes()[..bare.floor_char_boundary(Comm::MAX_BYTES)])
}

// Run time without a row: processes that began and ended between two passes, and the time of others between the last
// pass that saw them and their end. Windows does not record that time, but the CPUs' own times include it: they and the
// threads' times are counted by the same ticks.

/// CPU time that no process accounts for, as a row without a process, which [`cpumon_model::Flags::SUMMED`] marks in intervals.
#[derive(Debug, Default)]
struct Unseen {
    /// User and system time of the CPUs less that of the processes at the first pass.
    first: Option<[i128; 2]>,
    highest: Counters,
    /// Key and name of the row, from when it is needed.
    row: Option<(ProcessKey, Arc<ProcessInfo>)>,
}

impl Unseen {
    /// Adds the run time that no pass saw since the first one to `into`, which has its CPUs. `total` is the run time of
    /// all processes ever seen.
    fn fill(&mut self, total: &Counters, into: &mut Snapshot) {
        self.raise(total, into);
        if self.highest.run_ns == 0 {
            return;
        }
        let start_ns = into.begin.boot_ns / 1_000 * 1_000;
        let (key, info) = self.row.get_or_insert_with(|| {
            (ProcessKey { pid: 0, start_ns: start_ns.max(1) }, Arc::new(unseen_info()))
        });
        let info = Arc::clone(info);
        into.processes.push(ProcessSample { key: *key, parent_pid: 0, info, ended_threads: self.highest });
        into.exited_total += &self.highest;
    }

    /// CPUs and processes are read one after the other, so their difference goes up and down by a tick for each CPU. A
    /// counter may not fall; the ledger shows a smaller difference as unattributed.
    fn raise(&mut self, total: &Counters, from: &Snapshot) {
        let cpus = from.cpus.iter().map(|cpu| [cpu.times.user_ns, cpu.times.system_ns].map(i128::from));
        let ran = cpus.fold([0; 2], |sum, cpu| [sum[0] + cpu[0], sum[1] + cpu[1]]);
        let rest = [ran[0] - i128::from(total.user_ns), ran[1] - i128::from(total.system_ns)];
        let first = self.first.get_or_insert(rest);
        let [user, system] =
            [rest[0] - first[0], rest[1] - first[1]].map(|ns| u64::try_from(ns).unwrap_or(0));
        let highest = &mut self.highest;
        (highest.user_ns, highest.system_ns) = (highest.user_ns.max(user), highest.system_ns.max(system));
        highest.run_ns = highest.user_ns.saturating_add(highest.system_ns);
    }
}

fn unseen_info() -> ProcessInfo {
    let name = "ended between passes (summed)";
    ProcessInfo { name: name.into(), comm: name.into(), uid: UNKNOWN_UID, ..ProcessInfo::default() }
}

/// `KWAIT_REASON`: `Suspended` and `WrSuspended`.
const SUSPENDED: [u32; 2] = [5, 12];
/// Waits of the kernel's own for memory and disk: `FreePage`, `PageIn`, `WrFreePage`, `WrPageIn`, `WrPageOut`.
const UNINTERRUPTIBLE: [u32; 5] = [1, 2, 8, 9, 19];

/// The letter of a `KTHREAD_STATE`. Ready, standby and on its way to a CPU are R, as a ready thread is on Linux.
fn letter(state: u32, wait_reason: u32) -> TaskState {
    TaskState(match state {
        1 | 2 | 3 | 7 => b'R',
        4 => b'X',
        5 | 8 if SUSPENDED.contains(&wait_reason) => b'T',
        5 | 8 if UNINTERRUPTIBLE.contains(&wait_reason) => b'D',
        5 | 8 => b'S',
        // The thread's kernel stack is being read from the disk.
        6 => b'D',
        // 0: initialized, not started. Wine reports it for every thread.
        _ => b'?',
    })
}

#[cfg(test)]
mod tests;
