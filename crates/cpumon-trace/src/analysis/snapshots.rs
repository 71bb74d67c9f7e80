//! A trace as the snapshots that a live source would have made of the same machine: the differ makes intervals of them, and all that
//! shows live data shows a trace.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cpumon_model::{
    CgroupNames, Counters, CpuSample, ExitSample, Fields, HostId, Interrupt, Leaves, Moment, ProcessInfo,
    ProcessKey, ProcessSample, SchedEvent, SchedEventKind, SchedTimes, Snapshot, SourceKind, TaskState,
    ThreadSample, TraceTask, WaitReason,
};
use foldhash::fast::FixedState;

use super::pass::TraceRange;
use super::slots::Slots;
use crate::file::ReadError;
use crate::file::header::FileHeader;
use crate::file::reader::Ending;
use crate::sink::SpanSink;
use crate::source::TraceSource;
use crate::state::{CpuSpan, CpuState, InterruptSpan, ThreadSpan, ThreadState, Wakeup};
use crate::tasks::Tasks;
use crate::tracker::Tracker;

/// What a first pass over the trace finds: names that come late, and who had each CPU at the start.
#[derive(Default)]
struct Survey {
    first: BTreeMap<u16, Option<TraceTask>>,
    parents: HashMap<TraceTask, TraceTask, FixedState>,
    has_interrupts: bool,
}

impl Survey {
    fn take(&mut self, event: &SchedEvent) {
        let first = self.first.entry(event.cpu).or_default();
        match event.kind {
            SchedEventKind::Switch { prev, .. } => drop(first.get_or_insert(prev)),
            SchedEventKind::Born { task, parent } => drop(self.parents.insert(task, parent)),
            SchedEventKind::Interrupt { .. } => self.has_interrupts = true,
            _ => {}
        }
    }
}

/// Cumulative counters of a thread.
#[derive(Clone, Debug, Default)]
struct Account {
    task: TraceTask,
    run_ns: u64,
    irq_ns: u64,
    preempted_ns: u64,
    voluntary: u64,
    involuntary: u64,
    sched: SchedTimes,
    state: Option<ThreadState>,
    cpu: u16,
    ended_ns: Option<u64>,
}

impl Account {
    fn counters(&self) -> Counters {
        Counters {
            run_ns: self.run_ns.saturating_sub(self.irq_ns),
            run_delay_ns: self.preempted_ns.saturating_add(self.sched.delay_after_wakeup_ns),
            voluntary_switches: self.voluntary,
            involuntary_switches: self.involuntary,
            ..Counters::default()
        }
    }
}

#[derive(Default)]
struct Accounts {
    threads: Slots<Account>,
    slots: HashMap<TraceTask, usize, FixedState>,
    cpus: BTreeMap<u16, CpuSample>,
    /// Threads that run or are ready.
    queues: BTreeMap<u16, u32>,
    exited: Counters,
    holes: u64,
}

/// Reads a trace twice, and hands out a snapshot of its start and then one each `every_ns`, and one of its end. `again`: the same trace.
/// `out` says whether it wants more.
pub fn snapshots(
    survey: &mut impl TraceSource,
    again: &mut impl TraceSource,
    range: TraceRange,
    every_ns: u64,
    out: &mut dyn FnMut(Snapshot) -> bool,
) -> Result<Ending, ReadError> {
    let mut found = Survey::default();
    let ending = survey.read(&mut |event| found.take(&event))?;
    let range = range.on_clock(survey.header().began.mono_ns);
    let until_ns = range.until_ns.min(ending.known_until_ns);
    let is_watched = survey.is_watched_from_begin();
    let header = survey.header().clone();
    let mut maker = Maker {
        header: &header,
        tasks: survey.tasks(),
        infos: BTreeMap::new(),
        found: &found,
        last_ns: 0,
        sequence: 0,
    };
    let mut tracker = Tracker::new(header.began.mono_ns, Accounts::default());
    if !is_watched {
        tracker = tracker.with_unknown_begin();
    }
    for cpu in found.first.keys() {
        tracker.sink().cpus.entry(*cpu).or_default().cpu = (*cpu).into();
    }
    // What ran at the start is in the trace only when it leaves: else all of it would be in that interval.
    for (&cpu, &first) in found.first.iter().filter(|_| is_watched) {
        if let Some(next) = first {
            let kind = SchedEventKind::Switch { prev: TraceTask::IDLE, next, leaves: Leaves::Ready };
            tracker.event(&SchedEvent { at_ns: header.began.mono_ns, cpu, kind });
        }
    }
    let mut next_ns = Some(range.from_ns);
    let mut cut = |tracker: &mut Tracker<Accounts>, before_ns: u64| {
        while let Some(at_ns) = next_ns.filter(|at_ns| *at_ns < before_ns) {
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
    Ok(ending)
}

struct Maker<'t> {
    header: &'t FileHeader,
    tasks: &'t Tasks,
    infos: BTreeMap<ProcessKey, Arc<ProcessInfo>>,
    found: &'t Survey,
    last_ns: u64,
    sequence: u64,
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
            cpus: accounts.cpus.values().copied().collect(),
            ..Snapshot::default()
        };
        let (mut threads, mut processes) = (BTreeMap::new(), BTreeMap::new());
        for task in self.tasks.iter() {
            let Some(names) = self.tasks.find(task) else { continue };
            let slot = accounts.slots.get(&task).copied();
            let account = slot.and_then(|slot| accounts.threads.get(slot));
            let ended_ns = account.and_then(|account| account.ended_ns);
            let is_gone = ended_ns.is_some_and(|ended_ns| ended_ns <= self.last_ns);
            if is_gone || names.thread.start_ns > at.boot_ns {
                continue;
            }
            let (process, thread) = (names.process, sample(&names, account));
            let info = Arc::clone(self.infos.entry(process).or_insert_with(|| info(self.tasks, &names)));
            let parent_pid = self.parent_pid(task, process);
            if let Some(ended_ns) = ended_ns {
                accounts.exited = add(accounts.exited, thread.counters);
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
        snapshot.exited_total = accounts.exited;
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

fn info(tasks: &Tasks, names: &crate::tasks::TaskNames<'_>) -> Arc<ProcessInfo> {
    let cgroup = tasks.group_path(names.group).unwrap_or_default();
    Arc::new(ProcessInfo {
        name: names.program.as_ref().into(),
        comm: names.comm.as_ref().into(),
        container: CgroupNames::of(&cgroup).container().into(),
        cgroup: cgroup.into(),
        is_kernel: names.is_kernel,
        ..ProcessInfo::default()
    })
}

fn sample(names: &crate::tasks::TaskNames<'_>, account: Option<&Account>) -> ThreadSample {
    let state = account.and_then(|account| account.state);
    let (letter, open_wait) = match state {
        Some(ThreadState::Blocked(reason)) if reason == WaitReason::DISK => (b'D', reason),
        Some(ThreadState::Blocked(reason)) => (b'S', reason),
        Some(ThreadState::Dead) => (b'X', WaitReason::NONE),
        Some(ThreadState::Unknown) | None => (b'?', WaitReason::NONE),
        Some(_) => (b'R', WaitReason::NONE),
    };
    let sched = account.map_or_else(SchedTimes::default, |account| account.sched);
    ThreadSample {
        key: names.thread,
        process: names.process,
        comm: names.comm.as_ref().into(),
        state: TaskState(letter),
        last_cpu: account.map_or(0, |account| account.cpu),
        counters: account.map_or_else(Counters::default, Account::counters),
        sched: SchedTimes { open_wait, ..sched },
        ..ThreadSample::default()
    }
}

fn add(sum: Counters, more: Counters) -> Counters {
    Counters {
        run_ns: sum.run_ns.saturating_add(more.run_ns),
        run_delay_ns: sum.run_delay_ns.saturating_add(more.run_delay_ns),
        voluntary_switches: sum.voluntary_switches.saturating_add(more.voluntary_switches),
        involuntary_switches: sum.involuntary_switches.saturating_add(more.involuntary_switches),
        ..sum
    }
}

impl Accounts {
    /// What is a maximum, not a sum, starts again.
    fn begin_interval(&mut self) {
        for slot in 0..self.threads.len() {
            self.threads.at(slot).sched.longest_delay_ns = 0;
        }
        for (cpu, sample) in &mut self.cpus {
            sample.sched.run_queue_max = self.queues.get(cpu).copied().unwrap_or(0);
        }
    }

    /// A thread leaves a run queue for another, or none.
    fn queue(&mut self, from: Option<u16>, to: Option<u16>) {
        if from == to {
            return;
        }
        if let Some(length) = from.and_then(|cpu| self.queues.get_mut(&cpu)) {
            *length = length.saturating_sub(1);
        }
        if let Some(cpu) = to {
            let length = self.queues.entry(cpu).or_default();
            *length += 1;
            let length = *length;
            let longest = &mut self.cpu(cpu).sched.run_queue_max;
            *longest = length.max(*longest);
        }
    }

    fn cpu(&mut self, cpu: u16) -> &mut CpuSample {
        let sample = self.cpus.entry(cpu).or_default();
        sample.cpu = cpu.into();
        sample
    }
}

impl SpanSink for Accounts {
    fn thread(&mut self, span: &ThreadSpan) {
        let ns = span.until_ns - span.from_ns;
        self.slots.insert(span.task, span.slot);
        let account = self.threads.at(span.slot);
        account.task = span.task;
        match span.state {
            ThreadState::Running => account.run_ns += ns,
            ThreadState::ReadyWoken => account.sched.delay_after_wakeup_ns += ns,
            ThreadState::ReadyPreempted => account.preempted_ns += ns,
            ThreadState::Blocked(reason) => {
                account.sched.blocked_ns += ns;
                account.sched.waits.add(reason, ns);
            }
            ThreadState::Unknown | ThreadState::Dead => {}
        }
        if span.state.is_ready() {
            let waited_ns = span.until_ns - span.since_ns;
            account.sched.longest_delay_ns = account.sched.longest_delay_ns.max(waited_ns);
        }
        if span.state.is_ready() || span.state == ThreadState::Running {
            let queue_ns = &mut self.cpu(span.cpu).sched.run_queue_ns;
            *queue_ns = queue_ns.saturating_add(ns);
        }
    }

    fn entered(&mut self, slot: usize, state: ThreadState, cpu: u16, at_ns: u64) {
        let account = self.threads.at(slot);
        if state == ThreadState::Running && account.state.is_some() && account.cpu != cpu {
            account.sched.migrations += 1;
        }
        let is_queued = |state: ThreadState| state.is_ready() || state == ThreadState::Running;
        let from = account.state.filter(|state| is_queued(*state)).map(|_| account.cpu);
        (account.state, account.cpu) = (Some(state), cpu);
        account.ended_ns = (state == ThreadState::Dead).then_some(at_ns);
        self.queue(from, is_queued(state).then_some(cpu));
    }

    fn woken(&mut self, wakeup: &Wakeup) {
        self.slots.insert(wakeup.task, wakeup.slot);
        self.threads.at(wakeup.slot).sched.wakeups += 1;
    }

    fn left(&mut self, slot: usize, leaves: Leaves, _at_ns: u64) {
        let account = self.threads.at(slot);
        match leaves {
            Leaves::Ready => account.involuntary += 1,
            Leaves::Asleep(_) | Leaves::Dead => account.voluntary += 1,
        }
    }

    fn cpu(&mut self, span: &CpuSpan) {
        let ns = span.until_ns - span.from_ns;
        let sample = Self::cpu(self, span.cpu);
        match span.state {
            CpuState::Unknown => sample.sched.unknown_ns += ns,
            CpuState::Idle => sample.times.idle_ns += ns,
            CpuState::Run(_) => sample.times.user_ns += ns,
        }
        sample.sched.switches += u64::from(span.is_over);
    }

    fn interrupt(&mut self, span: &InterruptSpan) {
        let ns = span.until_ns - span.from_ns;
        let sample = Self::cpu(self, span.cpu);
        let from = match span.state {
            CpuState::Unknown => &mut sample.sched.unknown_ns,
            CpuState::Idle => &mut sample.times.idle_ns,
            CpuState::Run(_) => &mut sample.times.user_ns,
        };
        let taken = ns.min(*from);
        *from -= taken;
        match span.interrupt {
            Interrupt::Hard(_) => sample.times.irq_ns += taken,
            Interrupt::Soft(_) => sample.times.softirq_ns += taken,
        }
        if let Some(slot) = span.slot {
            self.threads.at(slot).irq_ns += ns;
        }
    }

    fn hole(&mut self, _cpu: u16, _at_ns: u64) {
        self.holes += 1;
    }

    fn moved(&mut self, _slot: usize, _at_ns: u64) {}
    fn unknown_wakeup(&mut self, _slot: usize, _at_ns: u64) {}
    fn lost(&mut self, _cpu: u16, _count: u64, _at_ns: u64) {}
}
