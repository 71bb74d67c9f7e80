//! Accounts of threads, processes and CPUs at an instant, from the events of the Windows kernel (ETW) in a live session. They complete a
//! snapshot whose rows the system listed. Nothing here calls the system, so it is compiled and tested everywhere.
//!
//! [`SessionAccounts`] takes the events, which arrive nearly in order, and sorts them. `lives` knows which thread and process an id is now,
//! and [`cpumon_sched::Tracker`] derives the states. `complete` brings the accounts and the rows of the system together.

mod complete;
mod lives;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use cpumon_model::{Comm, Counters, ProcessKey, SchedTimes, TaskState, ThreadKey, WaitReason};
use cpumon_sched::windows::{Change, KernelEvent, PACKED_SWITCH, Payload, Provider, TickClock, hook_of};
use cpumon_sched::{Accounts, Interrupt, Leaves, SchedEvent, SchedEventKind, TraceTask, Tracker, up_to_zero};

use self::lives::{CpuBases, HeldEvent, HeldEvents, Lives, ProcessLife, ThreadLife};

/// `RTLostEvent`: events or buffers did not reach this session.
const LOST: Provider =
    [0xe0, 0x9a, 0x39, 0x6a, 0xc6, 0x4b, 0xe9, 0x4d, 0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e];
/// Threads that ended since the last pass, with a row of their own. Run time of further ones is in the sum of ended threads.
const MAX_ENDED: usize = 1 << 16;
/// A timer's deferred procedure call, and one with a thread of its own.
const TIMER_DPC: u16 = 0x45;
/// Indexes into [`cpumon_model::SOFTIRQ_KINDS`]: `timer`, and `tasklet` for other work that a driver defers.
const TIMER: u16 = 1;
const TASKLET: u16 = 6;

/// An event of the system, not decoded yet.
#[derive(Copy, Clone, Debug)]
pub struct Record<'b> {
    /// Time, by the performance counter.
    pub ticks: u64,
    pub cpu: u16,
    pub provider: Provider,
    /// Type within its class.
    pub opcode: u8,
    /// Version of its layout.
    pub version: u8,
    /// Size of a pointer in the payload: 4 or 8.
    pub pointer_bytes: usize,
    /// Bytes after its header.
    pub payload: &'b [u8],
}

/// Counts of errors and losses, cumulative.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Payloads that are shorter than their event type requires.
    pub malformed: u64,
    /// Events that came after later ones had had their turn.
    pub late: u64,
    /// Events and buffers that the system lost. A loss that it reports as an event and in its counts is counted twice.
    pub lost: u64,
    /// Switches in a form whose layout is not public.
    pub packed: u64,
    /// Ended threads without a row: too many, or of an unknown process.
    pub exits_lost: u64,
    /// Threads that are in no list any more, and no event reported their end.
    pub vanished: u64,
}

#[derive(Clone, Debug)]
struct Ended {
    tid: u32,
    life: ThreadLife,
    counters: Counters,
    sched: SchedTimes,
    state: TaskState,
    cpu: u16,
    end_ns: u64,
    /// Id of its process, and the process as it was then.
    process: Option<(u32, ProcessLife)>,
}

pub struct SessionAccounts {
    clock: TickClock,
    held: HeldEvents,
    lives: Lives,
    tracker: Tracker<Accounts>,
    ended: Vec<Ended>,
    exited: Counters,
    cpus: CpuBases,
    counts: SessionCounts,
    /// Events that the system counts as lost, cumulative.
    reported_lost: u64,
    /// Between [`SessionAccounts::cut`] and the snapshot, and whether events were lost there.
    is_cut: bool,
    lost_since_cut: bool,
    cpu_count: u16,
    /// All events up to this time have been processed.
    now_ns: u64,
    newest_ns: u64,
    pass: u64,
    /// Buffer that each pass uses again.
    gone: Vec<u32>,
    listed: Vec<ProcessKey>,
    ended_keys: Vec<ThreadKey>,
    lines: BTreeMap<u16, Arc<str>>,
}

impl SessionAccounts {
    /// A session that began at this tick, on a machine with this many CPUs.
    pub fn new(clock: TickClock, began_ticks: u64, cpu_count: u16) -> Self {
        let began_ns = clock.ns(began_ticks);
        let mut tracker = Tracker::new(began_ns, Accounts::default());
        (0..cpu_count).for_each(|cpu| tracker.watch(cpu));
        Self {
            clock,
            held: HeldEvents::default(),
            lives: Lives::default(),
            tracker,
            ended: Vec::new(),
            exited: Counters::default(),
            cpus: CpuBases::default(),
            counts: SessionCounts::default(),
            reported_lost: 0,
            is_cut: false,
            lost_since_cut: false,
            cpu_count,
            now_ns: began_ns,
            newest_ns: began_ns,
            pass: 0,
            gone: Vec::new(),
            listed: Vec::new(),
            ended_keys: Vec::new(),
            lines: BTreeMap::new(),
        }
    }

    /// Takes an event. Kinds that are not read change nothing.
    pub fn take(&mut self, record: &Record<'_>) {
        let at_ns = self.clock.ns(record.ticks);
        if record.provider == LOST {
            self.counts.lost += 1;
            if self.is_cut {
                self.lost_since_cut = true;
            } else {
                self.lose(at_ns);
            }
            return;
        }
        let hook = hook_of(&record.provider, record.opcode);
        self.counts.packed += u64::from(hook == PACKED_SWITCH);
        let (version, pointer_bytes, bytes) = (record.version, record.pointer_bytes, record.payload);
        match (Payload { hook, version, pointer_bytes, bytes }).read() {
            Ok(Some(event)) => self.hold(at_ns, record.cpu, event),
            Ok(None) => {}
            Err(_) => self.counts.malformed += 1,
        }
    }

    fn hold(&mut self, at_ns: u64, cpu: u16, event: KernelEvent) {
        if self.is_cut && self.held.is_overfull() {
            self.counts.lost += 1;
            self.lost_since_cut = true;
            return;
        }
        self.newest_ns = self.newest_ns.max(at_ns);
        self.counts.late += u64::from(at_ns < self.now_ns);
        self.held.push(at_ns, cpu, event);
        // Between the cut and the snapshot, all events after the cut wait, however many there are.
        if self.held.is_full() && !self.is_cut {
            self.apply_held(HeldEvents::take_half);
        }
    }

    /// The time of the newest event: all earlier events have come, except those that a CPU still buffers.
    pub fn newest_ns(&self) -> u64 {
        self.newest_ns
    }

    pub fn counts(&self) -> SessionCounts {
        self.counts
    }

    /// Sets the number of events that the system counts as lost, cumulative. It does not report which ones.
    pub fn set_lost(&mut self, lost: u64) {
        let more = lost.saturating_sub(self.reported_lost);
        self.reported_lost = self.reported_lost.max(lost);
        if more > 0 {
            self.counts.lost = self.counts.lost.saturating_add(more);
            self.lose(self.now_ns);
        }
    }

    /// Brings all accounts to this time, which must not be before that of the last call.
    pub fn cut(&mut self, at_ns: u64) {
        self.apply_held(|held, out| held.take(at_ns, out));
        self.tracker.cut(at_ns);
        self.now_ns = self.now_ns.max(at_ns);
        self.is_cut = true;
    }

    /// Continues after the snapshot is complete.
    fn go_on(&mut self) {
        self.is_cut = false;
        if std::mem::take(&mut self.lost_since_cut) {
            self.lose(self.now_ns);
        }
    }

    /// The lost events may be of any CPU, so every CPU may have missed some since the last processed one.
    fn lose(&mut self, until_ns: u64) {
        self.apply_held(|held, out| held.take(until_ns, out));
        let from_ns = self.now_ns;
        for cpu in 0..self.cpu_count {
            self.tracker.lose(cpu, from_ns, u64::from(cpu == 0), until_ns.max(from_ns));
        }
    }

    /// Processes the events that `take` hands out.
    fn apply_held(&mut self, take: impl FnOnce(&mut HeldEvents, &mut dyn FnMut(&HeldEvent))) {
        let mut held = std::mem::take(&mut self.held);
        take(&mut held, &mut |event| self.apply(event));
        self.held = held;
    }

    fn apply(&mut self, held: &HeldEvent) {
        let (at_ns, cpu) = (held.at_ns, held.cpu);
        self.now_ns = self.now_ns.max(at_ns);
        let happens = |tracker: &mut Tracker<Accounts>, kind| {
            tracker.event(&SchedEvent { at_ns, cpu, kind });
        };
        match held.event {
            KernelEvent::Switch { old_tid, new_tid, leaves } => {
                let (prev, next) = (self.task(old_tid), self.task(new_tid));
                // The idle thread waits for nothing.
                let leaves = if old_tid == 0 { Leaves::Ready } else { leaves };
                happens(&mut self.tracker, SchedEventKind::Switch { prev, next, leaves });
                if leaves == Leaves::Dead {
                    self.end(old_tid, at_ns);
                }
            }
            KernelEvent::Ready { tid } => {
                let task = self.task(tid);
                let last = self.tracker.sink().thread(task).filter(|account| account.state.is_some());
                let cpu = last.map_or(cpu, |account| account.cpu);
                let waker = TraceTask::UNKNOWN;
                happens(&mut self.tracker, SchedEventKind::Waking { task, waker, cpu });
            }
            KernelEvent::Interrupt { interrupt, began } => {
                let ran_ns = at_ns.saturating_sub(self.clock.ns(began));
                let interrupt = match interrupt {
                    Interrupt::Soft(TIMER_DPC) => Interrupt::Soft(TIMER),
                    Interrupt::Soft(_) => Interrupt::Soft(TASKLET),
                    hard @ Interrupt::Hard(_) => hard,
                };
                happens(&mut self.tracker, SchedEventKind::Interrupt { interrupt, ran_ns });
            }
            KernelEvent::Thread { change, tid, pid, name } => {
                if tid == 0 {
                    return;
                }
                if change == Change::Begins {
                    // No event reported its end.
                    self.end(tid, at_ns);
                    if self.begin(tid, Some(at_ns)).is_none() {
                        return;
                    }
                } else if change == Change::Lives {
                    self.task(tid);
                }
                self.lives.belong(tid, pid, &name);
                self.lives.process(pid, None);
                if change == Change::Begins {
                    let task = self.task(tid);
                    let parent = TraceTask::UNKNOWN;
                    happens(&mut self.tracker, SchedEventKind::Born { task, parent });
                }
            }
            KernelEvent::Called { tid, name } => {
                if let Some(life) = self.lives.threads.get_mut(&tid) {
                    life.comm = Comm::new(up_to_zero(&name));
                }
            }
            KernelEvent::Process { change, pid, parent_pid, program } => {
                let began_ns = (change == Change::Begins).then_some(at_ns);
                if let Some(life) = self.lives.process(pid, began_ns) {
                    (life.program, life.parent_pid) = (program, parent_pid);
                    life.has_ended |= change == Change::Ends;
                }
            }
        }
    }

    /// The number of the thread that has this id now. One that was never named before is older than the session, or its begin was lost.
    fn task(&mut self, tid: u32) -> TraceTask {
        if tid == 0 {
            return TraceTask::IDLE;
        }
        if let Some(life) = self.lives.threads.get(&tid) {
            return life.task;
        }
        self.begin(tid, None).unwrap_or(TraceTask::UNKNOWN)
    }

    /// A thread begins its life; `None`: there are too many.
    fn begin(&mut self, tid: u32, began_ns: Option<u64>) -> Option<TraceTask> {
        let task = self.lives.begin(tid, began_ns)?.task;
        // The number may have been that of another.
        if let Some(slot) = self.tracker.renew(task, self.now_ns) {
            self.tracker.sink().empty(task, slot);
        }
        Some(task)
    }

    /// Ends a thread after its last switch.
    fn end(&mut self, tid: u32, end_ns: u64) {
        let Some(mut life) = self.lives.end(tid) else { return };
        let account = self.tracker.sink().thread(life.task).copied().unwrap_or_default();
        let counters = life.counters(account.counters());
        self.exited += &counters;
        let process = life.pid.and_then(|pid| Some((pid, self.lives.processes.get(&pid)?.clone())));
        // A thread that no list and no event of its own named has no row that it could be in.
        if self.ended.len() >= MAX_ENDED || (process.is_none() && life.key.is_none()) {
            self.counts.exits_lost += 1;
            return;
        }
        self.ended.push(Ended {
            tid,
            counters,
            sched: SchedTimes { open_wait: WaitReason::NONE, ..account.sched() },
            state: TaskState(b'X'),
            cpu: account.cpu,
            end_ns,
            process,
            life,
        });
    }

    /// A thread is in no list any more, and no event reported its end.
    fn vanish(&mut self, tid: u32, at_ns: u64) {
        self.counts.vanished += 1;
        self.end(tid, at_ns);
    }
}
