//! Which thread and process an id is: Windows uses ids again, so each life of one is another, with a number of its own for the tracker.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cpumon_model::{Comm, Counters, CpuSample, CpuSched, CpuTimes, ProcessInfo, ProcessKey, ThreadKey};
use cpumon_sched::windows::KernelEvent;
use cpumon_sched::{Accounts, Name, ProgramName, TraceTask, up_to_zero};

use crate::nt::comm_of;
use crate::source::UNKNOWN_UID;
use crate::split::{Split, settle};

/// Threads that are followed at one time. Further ones have the counters of the system's list.
pub(super) const MAX_THREADS: usize = 1 << 16;
/// Processes that are followed at one time.
const MAX_PROCESSES: usize = 1 << 16;

#[derive(Clone, Debug)]
pub(super) struct ThreadLife {
    pub(super) task: TraceTask,
    /// `None`: no event and no list has the process of the thread.
    pub(super) pid: Option<u32>,
    /// When it began, on the clock of the events; `None`: before the session, or unseen.
    pub(super) began_ns: Option<u64>,
    /// Key from the system's list; `None` if not listed yet.
    pub(super) key: Option<ThreadKey>,
    pub(super) comm: Comm,
    pub(super) priority: i16,
    /// Run time before its account began.
    pub(super) base_ns: u64,
    /// User and kernel time by the system's count, sampled at ticks.
    pub(super) sampled: (u64, u64),
    /// What the last pass showed.
    pub(super) shown: Counters,
    /// The pass that listed it last, and for how many passes no list has it.
    pub(super) seen: u64,
    pub(super) missed: u8,
}

impl ThreadLife {
    /// Those of its account, with the run time split in proportion to the ticks.
    pub(super) fn counters(&mut self, of_account: Counters) -> Counters {
        // An interrupt that turns out to be its own takes nothing back that was shown.
        let run_ns = self.base_ns.saturating_add(of_account.run_ns).max(self.shown.run_ns);
        let (user_ns, system_ns) = self.sampled;
        let mut counters = Counters { user_ns, system_ns, run_ns, ..of_account };
        settle(&mut counters, &self.shown);
        self.shown = counters;
        counters
    }
}

/// A process that lives, or has ended since the last pass.
#[derive(Clone, Debug)]
pub(super) struct ProcessLife {
    /// Number of this life of the pid.
    pub(super) number: u64,
    pub(super) began_ns: Option<u64>,
    pub(super) parent_pid: u32,
    pub(super) program: ProgramName,
    /// Key and description from the system's list.
    pub(super) listed: Option<(ProcessKey, Arc<ProcessInfo>)>,
    pub(super) has_ended: bool,
    pub(super) seen: u64,
}

impl ProcessLife {
    /// Description of a process that no list has shown.
    pub(super) fn info(&self, pid: u32) -> ProcessInfo {
        let name = String::from_utf8_lossy(up_to_zero(&self.program)).into_owned();
        let name = if name.is_empty() { format!("process {pid}") } else { name };
        let comm = comm_of(&name).to_str_lossy().into_owned();
        ProcessInfo {
            name: name.into(),
            comm: comm.into(),
            uid: UNKNOWN_UID,
            is_kernel: pid == 4,
            ..ProcessInfo::default()
        }
    }
}

/// Living threads and processes by id; Windows uses ids again.
#[derive(Debug, Default)]
pub(super) struct Lives {
    pub(super) threads: HashMap<u32, ThreadLife>,
    pub(super) processes: HashMap<u32, ProcessLife>,
    /// Numbers of ended threads, to be given to new ones.
    free: Vec<TraceTask>,
    numbers: u32,
    last_number: u64,
    /// Threads of the last list that found no place.
    pub(super) left_out: u64,
}

impl Lives {
    /// A thread begins a life; `None`: there are too many. The one that had the id must have been ended.
    pub(super) fn begin(&mut self, tid: u32, began_ns: Option<u64>) -> Option<&mut ThreadLife> {
        if self.threads.len() >= MAX_THREADS {
            return None;
        }
        let task = self.free.pop().unwrap_or_else(|| {
            self.numbers += 1;
            TraceTask(self.numbers)
        });
        let life = ThreadLife {
            task,
            pid: None,
            began_ns,
            key: None,
            comm: Comm::default(),
            priority: 0,
            base_ns: 0,
            sampled: (0, 0),
            shown: Counters::default(),
            seen: 0,
            missed: 0,
        };
        self.threads.insert(tid, life);
        self.threads.get_mut(&tid)
    }

    /// Its id may be reused from here on.
    pub(super) fn end(&mut self, tid: u32) -> Option<ThreadLife> {
        let life = self.threads.remove(&tid)?;
        self.free.push(life.task);
        Some(life)
    }

    /// Notes the process and name in a thread's event.
    pub(super) fn belong(&mut self, tid: u32, pid: u32, name: &Name) {
        if let Some(life) = self.threads.get_mut(&tid) {
            life.pid = Some(pid);
            if name[0] != 0 {
                life.comm = Comm::new(up_to_zero(name));
            }
        }
    }

    /// The process that has this id now; a new one begins at this time, if it is known.
    pub(super) fn process(&mut self, pid: u32, began_ns: Option<u64>) -> Option<&mut ProcessLife> {
        let is_new = began_ns.is_some() || !self.processes.contains_key(&pid);
        if is_new {
            if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
                return None;
            }
            self.last_number += 1;
            let life = ProcessLife {
                number: self.last_number,
                began_ns,
                parent_pid: 0,
                program: [0; 48],
                listed: None,
                has_ended: false,
                seen: 0,
            };
            self.processes.insert(pid, life);
        }
        self.processes.get_mut(&pid)
    }
}

// Events that wait for their turn. The system merges the buffers of all CPUs by time, but one that is flushed late comes late.

/// Most events that wait. Beyond it, the older half is processed early.
const MAX_HELD: usize = 1 << 15;

/// An event that waits to be processed in time order.
#[derive(Copy, Clone, Debug)]
pub(super) struct HeldEvent {
    pub(super) at_ns: u64,
    /// Orders events of the same time.
    number: u64,
    pub(super) cpu: u16,
    pub(super) event: KernelEvent,
}

// 6 MiB for all that wait between an instant and its snapshot, at most.
const _: () = assert!(size_of::<HeldEvent>() <= 96);

#[derive(Debug, Default)]
pub(super) struct HeldEvents {
    events: Vec<HeldEvent>,
    number: u64,
    is_sorted: bool,
}

impl HeldEvents {
    pub(super) fn push(&mut self, at_ns: u64, cpu: u16, event: KernelEvent) {
        self.number += 1;
        let is_next = self.events.last().is_none_or(|last| last.at_ns <= at_ns);
        self.is_sorted = (self.is_sorted || self.events.is_empty()) && is_next;
        self.events.push(HeldEvent { at_ns, number: self.number, cpu, event });
    }

    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= MAX_HELD
    }

    /// Whether twice as many events wait as [`HeldEvents::is_full`] permits.
    pub(super) fn is_overfull(&self) -> bool {
        self.events.len() >= 2 * MAX_HELD
    }

    /// Hands out the events up to this time in their order.
    pub(super) fn take(&mut self, until_ns: u64, out: &mut dyn FnMut(&HeldEvent)) {
        self.sort();
        let count = self.events.partition_point(|event| event.at_ns <= until_ns);
        self.events.drain(..count).for_each(|event| out(&event));
    }

    /// Hands out the older half.
    pub(super) fn take_half(&mut self, out: &mut dyn FnMut(&HeldEvent)) {
        self.sort();
        let half = self.events.len() / 2;
        self.events.drain(..half).for_each(|event| out(&event));
    }

    fn sort(&mut self) {
        if !std::mem::replace(&mut self.is_sorted, true) {
            // By number too, because a stable sort would need memory.
            self.events.sort_unstable_by_key(|event| (event.at_ns, event.number));
        }
    }
}

// CPUs by their events, in the place of the system's ticks: the modes of a CPU add up to the time between two instants. Only the split of run
// time into user and system time, and interrupts without events, are taken from the ticks.

/// Data of one CPU: the system's times and the account when it was first seen, and the split since.
#[derive(Copy, Clone, Debug)]
struct CpuBase {
    sampled: CpuTimes,
    account: CpuSample,
    split: Split,
    aside: [u64; 2],
}

#[derive(Debug, Default)]
pub(super) struct CpuBases {
    cpus: BTreeMap<u32, CpuBase>,
}

impl CpuBases {
    /// Turns the system's times into those of the events. Without events of interrupts, their sampled time is taken out of the run time.
    pub(super) fn fill(&mut self, accounts: &Accounts, has_interrupts: bool, cpus: &mut [CpuSample]) {
        for sample in cpus {
            let found = u16::try_from(sample.cpu).ok().and_then(|cpu| accounts.find_cpu(cpu));
            let Some(account) = found.copied() else { continue };
            let base = self.cpus.entry(sample.cpu).or_insert_with(|| CpuBase {
                sampled: sample.times,
                account,
                split: Split::default(),
                aside: [0; 2],
            });
            *sample = base.sample(sample, &account, has_interrupts);
        }
    }
}

impl CpuBase {
    fn sample(&mut self, sampled: &CpuSample, account: &CpuSample, has_interrupts: bool) -> CpuSample {
        let (now, then) = (&account.times, &self.account.times);
        let grown = |now: u64, then: u64| now.saturating_sub(then);
        let run_ns = grown(now.user_ns, then.user_ns);
        let ticks = |of: fn(&CpuTimes) -> u64| grown(of(&sampled.times), of(&self.sampled));
        let (user, system) = (ticks(|times| times.user_ns), ticks(|times| times.system_ns));
        let [irq_ns, softirq_ns] = if has_interrupts {
            [grown(now.irq_ns, then.irq_ns), grown(now.softirq_ns, then.softirq_ns)]
        } else {
            // Ticks may run ahead of the run time, and the shown values may not fall.
            let split_ns = self.split.user_ns + self.split.system_ns;
            let mut left = run_ns.saturating_sub(split_ns).saturating_sub(self.aside[0] + self.aside[1]);
            let wanted = [ticks(|times| times.irq_ns), ticks(|times| times.softirq_ns)];
            for (aside, wanted) in self.aside.iter_mut().zip(wanted) {
                let more = grown(wanted, *aside).min(left);
                (*aside, left) = (*aside + more, left - more);
            }
            self.aside
        };
        let own_ns = if has_interrupts { run_ns } else { run_ns.saturating_sub(irq_ns + softirq_ns) };
        self.split = self.split.advance(user, system, own_ns);
        CpuSample {
            cpu: sampled.cpu,
            times: CpuTimes {
                // From the system's values on: times are since its start, as in every source.
                user_ns: self.sampled.user_ns.saturating_add(self.split.user_ns),
                system_ns: self.sampled.system_ns.saturating_add(self.split.system_ns),
                idle_ns: self.sampled.idle_ns.saturating_add(grown(now.idle_ns, then.idle_ns)),
                irq_ns: self.sampled.irq_ns.saturating_add(irq_ns),
                softirq_ns: self.sampled.softirq_ns.saturating_add(softirq_ns),
                ..CpuTimes::default()
            }
            .clamped(),
            sched: CpuSched {
                unknown_ns: grown(account.sched.unknown_ns, self.account.sched.unknown_ns),
                ..account.sched
            },
        }
    }
}
