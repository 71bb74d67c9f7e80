//! [`Accounts`]: what the spans of each thread and CPU add up to, cumulative, as a live source counts. A trace that is played as snapshots and
//! a session of Windows have the same.

use std::collections::{BTreeMap, HashMap};

use cpumon_model::{Counters, CpuSample, SchedTimes, TaskState, WaitReason};
use foldhash::fast::RandomState;

use crate::event::{Interrupt, Leaves, TraceTask};
use crate::slots::Slots;
use crate::spans::{CpuSpan, CpuState, InterruptSpan, SpanSink, ThreadSpan, ThreadState, Wakeup};

/// Lines of interrupts with times of their own; further ones count as line 65,535.
const MAX_LINES: usize = 1_024;

/// Cumulative counters of a thread.
#[derive(Copy, Clone, Debug, Default)]
pub struct ThreadAccount {
    run_ns: u64,
    irq_ns: u64,
    preempted_ns: u64,
    voluntary: u64,
    involuntary: u64,
    sched: SchedTimes,
    /// `None` if no event has shown the thread's state.
    pub state: Option<ThreadState>,
    /// CPU that the thread is on, was last on, or is queued for.
    pub cpu: u16,
    /// Time of the thread's last switch, ns; `None` while it lives.
    pub ended_ns: Option<u64>,
}

/// Time and count of one interrupt line, summed over all CPUs.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LineTimes {
    /// In its handlers, ns: without those that interrupted them.
    pub time_ns: u64,
    pub count: u64,
}

impl ThreadAccount {
    /// Without user and system time, which no event splits. What interrupts took is not in the run time.
    pub fn counters(&self) -> Counters {
        Counters {
            run_ns: self.run_ns.saturating_sub(self.irq_ns),
            run_delay_ns: self.preempted_ns.saturating_add(self.sched.delay_after_wakeup_ns),
            voluntary_switches: self.voluntary,
            involuntary_switches: self.involuntary,
            ..Counters::default()
        }
    }

    /// The scheduler's times, with the reason of the wait that is still open.
    pub fn sched(&self) -> SchedTimes {
        let open_wait = match self.state {
            Some(ThreadState::Blocked(reason)) => reason,
            _ => WaitReason::NONE,
        };
        SchedTimes { open_wait, ..self.sched }
    }

    /// The thread's state as a letter of proc(5); `?` if unknown.
    pub fn letter(&self) -> TaskState {
        TaskState(match self.state {
            Some(ThreadState::Blocked(WaitReason::DISK)) => b'D',
            Some(ThreadState::Blocked(_)) => b'S',
            Some(ThreadState::Dead) => b'X',
            Some(ThreadState::Unknown) | None => b'?',
            Some(_) => b'R',
        })
    }
}

#[derive(Default)]
pub struct Accounts {
    threads: Slots<ThreadAccount>,
    slots: HashMap<TraceTask, usize, RandomState>,
    cpus: BTreeMap<u16, CpuSample>,
    /// Number of running and ready threads of each CPU.
    queues: BTreeMap<u16, u32>,
    lines: BTreeMap<u16, LineTimes>,
    /// Switches that are missing: one left another thread than the one before came to.
    pub holes: u64,
    /// Threads that came to a CPU, and it is not known when they were woken.
    pub unknown_wakeups: u64,
}

impl Accounts {
    /// The account of a thread; `None`: no event named it.
    pub fn thread(&self, task: TraceTask) -> Option<&ThreadAccount> {
        self.threads.get(*self.slots.get(&task)?)
    }

    /// Begins the account of another thread, which has the place from here on.
    pub fn empty(&mut self, task: TraceTask, slot: usize) {
        self.slots.insert(task, slot);
        let account = self.threads.at(slot);
        let left = account.queue();
        *account = ThreadAccount::default();
        self.queue(left, None);
    }

    /// All CPUs, ascending. Time in threads is user time: no event splits it.
    pub fn cpus(&self) -> impl Iterator<Item = &CpuSample> {
        self.cpus.values()
    }

    /// The sums of a CPU, if any event or span named it.
    pub fn find_cpu(&self, cpu: u16) -> Option<&CpuSample> {
        self.cpus.get(&cpu)
    }

    /// The sums of a CPU, which begin here if it is new.
    pub fn cpu(&mut self, cpu: u16) -> &mut CpuSample {
        let sample = self.cpus.entry(cpu).or_default();
        sample.cpu = cpu.into();
        sample
    }

    /// Lines of hard interrupts in ascending order of their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (u16, LineTimes)> {
        self.lines.iter().map(|(line, times)| (*line, *times))
    }

    /// Resets the maxima: the longest delay to 0, the longest run queue to its current length. Sums continue.
    pub fn begin_interval(&mut self) {
        for slot in 0..self.threads.count() {
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

    fn count_line(&mut self, line: u16, ns: u64, is_first: bool) {
        let is_full = self.lines.len() >= MAX_LINES && !self.lines.contains_key(&line);
        let times = self.lines.entry(if is_full { u16::MAX } else { line }).or_default();
        times.time_ns = times.time_ns.saturating_add(ns);
        times.count += u64::from(is_first);
    }
}

impl ThreadAccount {
    /// The run queue that it is in, or the CPU that it is on.
    fn queue(&self) -> Option<u16> {
        self.state.filter(|state| is_queued(*state)).map(|_| self.cpu)
    }
}

fn time_in(sample: &mut CpuSample, state: CpuState) -> &mut u64 {
    state.pick(&mut sample.sched.unknown_ns, &mut sample.times.idle_ns, &mut sample.times.user_ns)
}

fn is_queued(state: ThreadState) -> bool {
    state.is_ready() || state == ThreadState::Running
}

impl SpanSink for Accounts {
    fn thread(&mut self, span: &ThreadSpan) {
        let ns = span.until_ns - span.from_ns;
        self.slots.insert(span.task, span.slot);
        let account = self.threads.at(span.slot);
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
        if is_queued(span.state) {
            let queue_ns = &mut self.cpu(span.cpu).sched.run_queue_ns;
            *queue_ns = queue_ns.saturating_add(ns);
        }
    }

    fn entered(&mut self, slot: usize, state: ThreadState, cpu: u16, at_ns: u64) {
        let account = self.threads.at(slot);
        if state == ThreadState::Running && account.state.is_some() && account.cpu != cpu {
            account.sched.migrations += 1;
        }
        let from = account.queue();
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
        *time_in(sample, span.state) += ns;
        sample.sched.switches += u64::from(span.is_over);
    }

    fn interrupt(&mut self, span: &InterruptSpan) {
        let ns = span.until_ns - span.from_ns;
        let sample = Self::cpu(self, span.cpu);
        let from = time_in(sample, span.state);
        let taken = ns.min(*from);
        *from -= taken;
        match span.interrupt {
            Interrupt::Hard(line) => {
                sample.times.irq_ns += taken;
                self.count_line(line, taken, span.is_first);
            }
            Interrupt::Soft(kind) => {
                sample.times.softirq_ns += taken;
                if let Some(kind_ns) = sample.sched.softirq_ns.get_mut(usize::from(kind)) {
                    *kind_ns += taken;
                }
            }
        }
        if let Some(slot) = span.slot {
            self.threads.at(slot).irq_ns += ns;
        }
    }

    fn hole(&mut self, _cpu: u16, _at_ns: u64) {
        self.holes += 1;
    }

    fn unknown_wakeup(&mut self, _slot: usize, _at_ns: u64) {
        self.unknown_wakeups += 1;
    }

    fn bytes(&self, threads: usize) -> usize {
        self.threads.bytes(threads) + self.slots.capacity() * size_of::<(TraceTask, usize)>()
    }
}
