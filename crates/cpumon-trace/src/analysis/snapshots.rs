//! A trace as the snapshots that a live source would have made of the same machine: the differ turns them into intervals, and all that
//! shows live data shows a trace.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cpumon_model::{
    CgroupNames, Counters, ExitSample, Fields, HostId, Moment, ProcessInfo, ProcessKey, ProcessSample,
    Snapshot, SourceKind, ThreadSample,
};
use cpumon_sched::{Accounts, Leaves, SchedEvent, SchedEventKind, ThreadAccount, TraceTask, Tracker};
use foldhash::fast::RandomState;

use super::TraceRange;
use crate::file::ReadError;
use crate::file::format::FileHeader;
use crate::source::{Ending, StoppedCpu, TraceFacts, TraceSource};
use crate::tasks::{TaskNames, Tasks};

/// Threads whose parents are held, and threads in a snapshot. Further ones are left out, and counted.
const MAX_THREADS: usize = 1 << 20;

/// Threads and CPUs that all snapshots together may read: an hour of 100 ms each with 14,000 threads.
const MAX_READ: usize = 1 << 29;

/// What a first pass over the trace finds: names that come late, and who had each CPU at the start.
#[derive(Default)]
struct Survey {
    first: BTreeMap<u16, Option<TraceTask>>,
    parents: HashMap<TraceTask, TraceTask, RandomState>,
    has_interrupts: bool,
    left_out: u64,
}

impl Survey {
    fn take(&mut self, event: &SchedEvent) {
        let first = self.first.entry(event.cpu).or_default();
        match event.kind {
            SchedEventKind::Switch { prev, .. } => drop(first.get_or_insert(prev)),
            SchedEventKind::Born { task, parent } if self.parents.len() < MAX_THREADS => {
                self.parents.insert(task, parent);
            }
            SchedEventKind::Born { .. } => self.left_out += 1,
            SchedEventKind::Interrupt { .. } => self.has_interrupts = true,
            _ => {}
        }
    }
}

/// Reads a trace twice, and hands out a snapshot of its start and then one each `every_ns`, and one of its end. `again`: the same trace.
/// `out` says whether it wants more.
///
/// # Errors
/// The trace cannot be read, or all snapshots together would read threads and CPUs too often.
pub fn snapshots(
    survey: &mut impl TraceSource,
    again: &mut impl TraceSource,
    range: TraceRange,
    every_ns: u64,
    out: &mut dyn FnMut(Snapshot) -> bool,
) -> Result<Ending, ReadError> {
    let mut found = Survey::default();
    let mut ending = survey.read(&mut |event| found.take(&event))?;
    let range = range.on_clock(survey.header().began.mono_ns);
    let until_ns = range.until_ns.min(ending.known_until_ns);
    let TraceFacts { header, tasks, is_watched_from_begin, stopped } = survey.facts();
    let mut maker = Maker {
        header,
        tasks,
        named: tasks.named(),
        infos: BTreeMap::new(),
        found: &found,
        exited: Counters::default(),
        last_ns: 0,
        sequence: 0,
        left_out: 0,
    };
    again.tasks_mut().limit(0);
    let mut tracker = survey.tracker(Accounts::default());
    for cpu in found.first.keys() {
        tracker.sink().cpu(*cpu);
    }
    // The trace names a thread that ran at the start only when it leaves. Without this event, the interval of its leaving would get all of
    // its run time.
    for (&cpu, &first) in found.first.iter().filter(|_| *is_watched_from_begin) {
        if let Some(next) = first {
            let kind = SchedEventKind::Switch { prev: TraceTask::IDLE, next, leaves: Leaves::Ready };
            tracker.event(&SchedEvent { at_ns: header.began.mono_ns, cpu, kind });
        }
    }
    let (mut next_ns, mut read, mut too_many) = (Some(range.from_ns), 0_usize, None);
    let named = maker.named.len();
    let mut cut = |tracker: &mut Tracker<Accounts>, before_ns: u64| {
        while let Some(at_ns) = next_ns.filter(|at_ns| *at_ns < before_ns) {
            for StoppedCpu { cpu, since_ns } in stopped.iter().filter(|stopped| stopped.since_ns <= at_ns) {
                tracker.stop(*cpu, *since_ns);
            }
            let threads = named.max(tracker.threads()) + found.first.len();
            let left = until_ns.saturating_sub(at_ns).div_ceil(every_ns.max(1));
            let snapshots = usize::try_from(left).unwrap_or(usize::MAX).saturating_add(1);
            if threads.saturating_mul(snapshots).saturating_add(read) > MAX_READ {
                (next_ns, too_many) = (None, Some(ReadError::TooManySnapshots { snapshots, threads }));
                return;
            }
            read += threads;
            tracker.cut(at_ns);
            let wants_more = out(maker.snapshot(tracker.sink(), at_ns));
            let later_ns = at_ns.saturating_add(every_ns).min(until_ns);
            next_ns = (wants_more && later_ns > at_ns).then_some(later_ns);
        }
    };
    again.read(&mut |event| {
        cut(&mut tracker, event.at_ns);
        tracker.event(&event);
    })?;
    cut(&mut tracker, u64::MAX);
    if let Some(error) = too_many {
        return Err(error);
    }
    ending.unfollowed = tracker.unfollowed() + found.left_out + maker.left_out;
    Ok(ending)
}

struct Maker<'t> {
    header: &'t FileHeader,
    tasks: &'t Tasks,
    /// Ascending: the first thread of a process names it.
    named: Vec<TraceTask>,
    infos: BTreeMap<ProcessKey, Arc<ProcessInfo>>,
    found: &'t Survey,
    exited: Counters,
    last_ns: u64,
    sequence: u64,
    left_out: u64,
}

impl Maker<'_> {
    fn moment(&self, mono_ns: u64) -> Moment {
        let began = self.header.began;
        let since_ns = mono_ns.saturating_sub(began.mono_ns);
        Moment {
            mono_ns,
            boot_ns: began.boot_ns.saturating_add(since_ns),
            wall_ns: began.wall_ns.saturating_add_unsigned(since_ns),
        }
    }

    fn snapshot(&mut self, accounts: &mut Accounts, at_ns: u64) -> Snapshot {
        let at = self.moment(at_ns);
        let mut snapshot = Snapshot {
            host: HostId(self.header.boot.0),
            boot: self.header.boot,
            sequence: self.sequence,
            source: SourceKind::Trace,
            fields: Fields::RUN
                | Fields::RUN_DELAY
                | Fields::SWITCHES
                | Fields::CPUS
                | Fields::EXITS
                | Fields::SCHED
                | Fields::WAITS,
            is_complete: true,
            irq_in_run_time: !self.found.has_interrupts,
            begin: at,
            end: at,
            cpus: accounts.cpus().copied().collect(),
            ..Snapshot::default()
        };
        let (mut threads, mut processes) = (BTreeMap::new(), BTreeMap::new());
        for &task in &self.named {
            let Some(names) = self.tasks.find(task) else { continue };
            if threads.len() + snapshot.exits.len() >= MAX_THREADS {
                self.left_out += 1;
                continue;
            }
            let account = accounts.thread(task);
            let ended_ns = account.and_then(|account| account.ended_ns);
            let is_gone = ended_ns.is_some_and(|ended_ns| ended_ns <= self.last_ns);
            if is_gone || names.thread.start_ns > at.boot_ns {
                continue;
            }
            let (process, thread) = (names.process, sample(&names, account));
            let info = Arc::clone(self.infos.entry(process).or_insert_with(|| info(self.tasks, &names)));
            let parent_pid = self.parent_pid(task, process);
            if let Some(ended_ns) = ended_ns {
                self.exited += &thread.counters;
                let (end_ns, ends_process) = (self.moment(ended_ns).boot_ns, names.thread.tid == process.pid);
                snapshot.exits.push(ExitSample { thread, parent_pid, info, end_ns, ends_process });
                continue;
            }
            let row = ProcessSample { key: process, parent_pid, info, ..ProcessSample::default() };
            processes.entry(process).or_insert(row);
            // Of imports: several threads without a start that had one id.
            threads.insert(thread.key, thread);
        }
        snapshot.threads = threads.into_values().collect();
        snapshot.processes = processes.into_values().collect();
        snapshot.thread_count = u32::try_from(snapshot.threads.len()).unwrap_or(u32::MAX);
        snapshot.process_count = u32::try_from(snapshot.processes.len()).unwrap_or(u32::MAX);
        snapshot.exited_total = self.exited;
        snapshot.health.sched_missed_switches = accounts.holes;
        snapshot.sort();
        accounts.begin_interval();
        (self.last_ns, self.sequence) = (at_ns, self.sequence + 1);
        snapshot
    }

    fn parent_pid(&self, task: TraceTask, process: ProcessKey) -> u32 {
        let parent = self.found.parents.get(&task).and_then(|parent| self.tasks.find(*parent));
        parent.filter(|parent| parent.process != process).map_or(0, |parent| parent.process.pid)
    }
}

fn info(tasks: &Tasks, names: &TaskNames<'_>) -> Arc<ProcessInfo> {
    let cgroup = tasks.group_path(names.group).unwrap_or_default();
    Arc::new(ProcessInfo {
        name: names.program.as_ref().into(),
        comm: names.comm.as_ref().into(),
        container: CgroupNames::of(&cgroup).container_or_service().into(),
        cgroup: cgroup.into(),
        is_kernel: names.is_kernel,
        ..ProcessInfo::default()
    })
}

fn sample(names: &TaskNames<'_>, account: Option<&ThreadAccount>) -> ThreadSample {
    let account = account.copied().unwrap_or_default();
    ThreadSample {
        key: names.thread,
        process: names.process,
        comm: names.comm.as_ref().into(),
        state: account.letter(),
        last_cpu: account.cpu,
        counters: account.counters(),
        sched: account.sched(),
        ..ThreadSample::default()
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::ThreadKey;
    use cpumon_sched::TraceGroup;

    use super::*;

    #[test]
    fn processes_in_no_container_have_their_unit() {
        let mut tasks = Tasks::default();
        for (group, parent, name) in [(1, 0, ""), (2, 1, "ssh.service"), (3, 1, "lxc.payload.web")] {
            tasks.set_group(TraceGroup { group, parent, name: name.as_bytes().into() });
        }
        let container = |group| {
            let names = TaskNames {
                thread: ThreadKey::default(),
                process: ProcessKey::default(),
                comm: "x".into(),
                program: "x".into(),
                group,
                is_kernel: false,
            };
            info(&tasks, &names).container.to_string()
        };
        assert_eq!([2, 3, 1].map(container), ["ssh.service", "web", ""]);
    }
}
