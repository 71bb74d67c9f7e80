//! The accounting of switches as a pure state machine. In: events of each CPU, with their times. Out: the time of each
//! thread and of each CPU, at any instant. Why: the BPF programs of `cpumon-collect` (`linux/bpf/sched/threads.h`,
//! `cpus.h`) do the same transition by transition, inside the kernel, where no test can reach; here each transition is
//! under scenario tests (`tests/scenarios-switches`).
//!
//! Rules that hold after every event: the modes of a CPU add up to the time since it was first seen; run, ready and
//! blocked time of a thread add up to the time since it was first seen, unless one of its switches was missed
//! ([`ThreadAccount::is_broken`]); nothing is counted twice.

use std::collections::BTreeMap;

use cpumon_model::{WaitReason, Waits};

/// One task of the kernel. Not its tid, which is reused. 0 is the idle task of every CPU, and has no account.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task(pub u32);

/// The idle task.
pub const IDLE: Task = Task(0);

/// Mode of a CPU.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A thread.
    Run,
    /// Nothing.
    Idle,
    /// A hard interrupt.
    Irq,
    /// A soft interrupt.
    Softirq,
    /// No event shows which thread ran.
    #[default]
    Unknown,
    /// The hypervisor runs another.
    Steal,
}

/// Number of modes.
const MODES: usize = 6;

/// How a task leaves its CPU.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Pushed off while runnable.
    Ready,
    /// To wait.
    Asleep(WaitReason),
}

/// A switch.
#[derive(Copy, Clone, Debug)]
pub struct Switch {
    /// The task that leaves.
    pub prev: Task,
    /// How.
    pub leaves: Leaves,
    /// The task that comes.
    pub next: Task,
    /// Time that the hypervisor has stolen from this CPU so far, ns, cumulative.
    pub steal_ns: u64,
    /// Run time by the kernel's count of the last known `next`, if it is another task than `prev`: it left unseen.
    pub lost_run_ns: Option<u64>,
}

/// State of a thread.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Neither running nor runnable, or woken at `ready_ns` and waiting for a CPU.
    #[default]
    Blocked,
    /// Pushed off while runnable.
    Ready,
    /// On a CPU.
    Running,
}

/// The times of one thread, ns, up to `at_ns`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadAccount {
    /// Start of the open state.
    pub at_ns: u64,
    /// Woken at.
    pub ready_ns: Option<u64>,
    /// Its state.
    pub state: State,
    /// On a CPU, interrupts and steal taken out.
    pub run_ns: u64,
    /// Runnable after a wakeup.
    pub delay_wakeup_ns: u64,
    /// Runnable after being pushed off.
    pub delay_preempt_ns: u64,
    /// Neither.
    pub blocked_ns: u64,
    /// `blocked_ns` by reason.
    pub waits: Waits,
    /// Reason of the open wait.
    pub reason: WaitReason,
    /// Times it left to wait.
    pub voluntary_switches: u64,
    /// Times it was pushed off.
    pub involuntary_switches: u64,
    /// Longest single time in [`State::Ready`] or woken.
    pub longest_delay_ns: u64,
    /// A switch was missed: the times fall short.
    pub is_broken: bool,
    /// It sleeps though the scheduler has stamped it as queued, and no wakeup renews that stamp.
    is_stamped: bool,
    /// Times it came, and it is not known when it was woken.
    pub unknown_wakeups: u64,
}

/// The times of one CPU.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuAccount {
    modes: [u64; MODES],
    since_ns: u64,
    task: Option<Task>,
    mode: Mode,
    base: Mode,
    irq_depth: u32,
    in_softirq: bool,
    slice_ns: u64,
    slice_base_ns: u64,
    steal_ns: u64,
    /// Switches away from another task than was switched to.
    pub missed: u64,
}

/// The accounts of all CPUs and threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    cpus: BTreeMap<u32, CpuAccount>,
    threads: BTreeMap<Task, ThreadAccount>,
}

impl CpuAccount {
    /// Time in a mode since the CPU was first seen, ns.
    #[must_use]
    pub fn mode_ns(&self, mode: Mode) -> u64 {
        self.modes[mode as usize]
    }

    /// A clock of another CPU may be ahead: time never runs backwards in an account.
    fn advance(&mut self, now: u64) {
        self.modes[self.mode as usize] += now.saturating_sub(self.since_ns);
        self.since_ns = self.since_ns.max(now);
    }

    /// Accounts for everything up to `now`. Returns the part of the slice that belongs to `current`, and when it came, if
    /// that was missed.
    fn close_slice(
        &mut self,
        now: u64,
        current: Task,
        steal_ns: u64,
        lost_run_ns: Option<u64>,
    ) -> (u64, Option<u64>) {
        self.advance(now);
        let base = self.base as usize;
        let mut own = self.modes[base].saturating_sub(self.slice_base_ns);
        let stolen = steal_ns.saturating_sub(self.steal_ns).min(own);
        self.steal_ns = self.steal_ns.max(steal_ns);
        self.modes[base] -= stolen;
        self.modes[Mode::Steal as usize] += stolen;
        own -= stolen;
        match self.task {
            Some(task) if task == current => return (if self.base == Mode::Run { own } else { 0 }, None),
            // The first event of this CPU: the thread that leaves came unseen.
            None => return (0, Some(now)),
            Some(_) => {}
        }
        self.missed += 1;
        let rest =
            if self.task == Some(IDLE) { 0 } else { lost_run_ns.map_or(0, |run| own.saturating_sub(run)) };
        self.modes[base] -= own;
        self.modes[Mode::Unknown as usize] += own - rest;
        self.modes[mode_of(current) as usize] += rest;
        let its = if current == IDLE { 0 } else { rest };
        (its, Some(now.saturating_sub(its)))
    }

    fn open_slice(&mut self, next: Task) {
        self.base = mode_of(next);
        self.mode = self.base;
        (self.irq_depth, self.in_softirq) = (0, false);
        self.slice_ns = self.since_ns;
        self.slice_base_ns = self.modes[self.base as usize];
        self.task = Some(next);
    }

    fn set_mode(&mut self) {
        self.mode = match (self.irq_depth, self.in_softirq) {
            (0, false) => self.base,
            (0, true) => Mode::Softirq,
            _ => Mode::Irq,
        };
    }
}

fn mode_of(task: Task) -> Mode {
    if task == IDLE { Mode::Idle } else { Mode::Run }
}

impl ThreadAccount {
    fn new(now: u64, state: State, reason: WaitReason) -> Self {
        Self { at_ns: now, state, reason, ..Self::default() }
    }

    /// Accounts for the open wait or delay up to `now`.
    fn close(&mut self, now: u64) {
        let delay = match self.state {
            State::Blocked => {
                let until = self.ready_ns.map_or(now, |ready| ready.clamp(self.at_ns, now.max(self.at_ns)));
                let blocked = until.saturating_sub(self.at_ns);
                self.blocked_ns += blocked;
                self.waits.add(self.reason, blocked);
                let delay = now.saturating_sub(until);
                self.delay_wakeup_ns += delay;
                delay
            }
            State::Ready => {
                let delay = now.saturating_sub(self.at_ns);
                self.delay_preempt_ns += delay;
                delay
            }
            State::Running => return,
        };
        self.longest_delay_ns = self.longest_delay_ns.max(delay);
    }

    fn come(&mut self, now: u64) {
        self.is_broken |= self.state == State::Running;
        self.unknown_wakeups += u64::from(std::mem::take(&mut self.is_stamped));
        self.close(now);
        (self.at_ns, self.ready_ns, self.state) = (self.at_ns.max(now), None, State::Running);
    }

    fn leave(&mut self, now: u64, own_ns: u64, leaves: Leaves) {
        if self.state == State::Running {
            self.run_ns += own_ns;
        } else {
            self.is_broken = true;
        }
        (self.at_ns, self.ready_ns) = (self.at_ns.max(now), None);
        match leaves {
            Leaves::Ready => {
                self.state = State::Ready;
                self.involuntary_switches += 1;
            }
            Leaves::Asleep(reason) => {
                (self.state, self.reason) = (State::Blocked, reason);
                self.voluntary_switches += 1;
            }
        }
    }
}

impl Accounts {
    /// A task begins; it runs when it is woken and switched to.
    pub fn born(&mut self, now: u64, task: Task) {
        self.threads.insert(task, ThreadAccount::new(now, State::Blocked, WaitReason::OTHER));
    }

    /// A task becomes runnable. Of one that runs, or is runnable already, a wakeup changes nothing.
    pub fn wake(&mut self, now: u64, task: Task) {
        let sleeps = |thread: &&mut ThreadAccount| thread.state == State::Blocked && !thread.is_stamped;
        if let Some(thread) = self.threads.get_mut(&task).filter(sleeps) {
            thread.ready_ns.get_or_insert(now);
        }
    }

    /// The scheduler moves a task that sleeps, and that it had left in its queue, to another queue.
    pub fn moved(&mut self, task: Task) {
        if let Some(thread) = self.threads.get_mut(&task).filter(|thread| thread.state == State::Blocked) {
            (thread.is_stamped, thread.ready_ns) = (true, None);
        }
    }

    /// A pass over all tasks finds this one asleep.
    pub fn seen_asleep(&mut self, task: Task) {
        match self.threads.get_mut(&task) {
            // It was not woken when it was stamped.
            Some(thread) if thread.state == State::Blocked && thread.ready_ns.is_some() => {
                (thread.is_stamped, thread.ready_ns) = (true, None);
            }
            // It has run since it was pushed off: that was missed.
            Some(thread) if thread.state == State::Ready => thread.is_broken = true,
            _ => {}
        }
    }

    /// A CPU switches.
    pub fn switch(&mut self, now: u64, cpu: u32, switch: &Switch) {
        let Switch { prev, leaves, next, .. } = *switch;
        let account = self.cpu(now, cpu);
        let (own, came) = account.close_slice(now, prev, switch.steal_ns, switch.lost_run_ns);
        account.open_slice(next);
        if prev != IDLE {
            self.leave(now, prev, own, came, leaves);
        }
        if next != IDLE {
            let fresh = || ThreadAccount::new(now, State::Blocked, WaitReason::NONE);
            self.threads.entry(next).or_insert_with(fresh).come(now);
        }
    }

    fn leave(&mut self, now: u64, task: Task, own_ns: u64, came: Option<u64>, leaves: Leaves) {
        if let Some(thread) = self.threads.get_mut(&task) {
            if let Some(came) = came {
                thread.come(came);
            }
            thread.leave(now, own_ns, leaves);
            return;
        }
        let (state, reason) = match leaves {
            Leaves::Ready => (State::Ready, WaitReason::NONE),
            Leaves::Asleep(reason) => (State::Blocked, reason),
        };
        self.threads.insert(task, ThreadAccount::new(now, state, reason));
    }

    /// A hard interrupt begins or ends.
    pub fn irq(&mut self, now: u64, cpu: u32, begins: bool) {
        let account = self.cpu(now, cpu);
        account.advance(now);
        account.irq_depth = if begins { account.irq_depth + 1 } else { account.irq_depth.saturating_sub(1) };
        account.set_mode();
    }

    /// A soft interrupt begins or ends.
    pub fn softirq(&mut self, now: u64, cpu: u32, begins: bool) {
        let account = self.cpu(now, cpu);
        account.advance(now);
        account.in_softirq = begins;
        account.set_mode();
    }

    /// A task has made its last switch; its account is closed and handed out.
    pub fn ended(&mut self, task: Task) -> Option<ThreadAccount> {
        self.threads.remove(&task)
    }

    fn cpu(&mut self, now: u64, cpu: u32) -> &mut CpuAccount {
        self.cpus.entry(cpu).or_insert_with(|| CpuAccount { since_ns: now, ..CpuAccount::default() })
    }

    /// All accounts as of an instant, open slices, delays and waits counted up to it.
    #[must_use]
    pub fn as_of(&self, now: u64) -> Self {
        let mut at = self.clone();
        for account in at.cpus.values_mut() {
            let (steal_ns, current) = (account.steal_ns, account.task.unwrap_or(IDLE));
            let (own, _) = account.close_slice(now, current, steal_ns, None);
            if let Some(thread) = at.threads.get_mut(&current) {
                thread.run_ns += own;
            }
        }
        for thread in at.threads.values_mut() {
            thread.close(now);
        }
        at
    }

    /// Every CPU, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = (u32, &CpuAccount)> {
        self.cpus.iter().map(|(&cpu, account)| (cpu, account))
    }

    /// Every task, ascending.
    pub fn threads(&self) -> impl Iterator<Item = (Task, &ThreadAccount)> {
        self.threads.iter().map(|(&task, account)| (task, account))
    }
}
