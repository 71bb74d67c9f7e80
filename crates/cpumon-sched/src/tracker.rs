//! The state machine of threads and CPUs: events in, spans of states out. What no event says is unknown, and never charged to
//! who came before or after.

use cpumon_model::WaitReason;

use crate::event::{Interrupt, Leaves, SchedEvent, SchedEventKind, TraceTask};
use crate::interrupts::PendingInterrupts;
use crate::slots::reserve_some;
use crate::spans::{CpuSpan, CpuState, InterruptSpan, SpanSink, ThreadSpan, ThreadState, Wakeup};
use crate::threads::{Threads, TrackedCpu, TrackedThread};

pub struct Tracker<S> {
    sink: S,
    began_ns: u64,
    /// Every CPU was watched from then on. Else the trace does not say since when it has all events: what a CPU did before its first switch
    /// is unknown.
    pub is_watched_from_begin: bool,
    now_ns: u64,
    /// Events of some CPU were lost up to here.
    lossy_until_ns: u64,
    cpus: Vec<TrackedCpu>,
    interrupts: PendingInterrupts,
    /// A thread left a CPU, and it had not been seen to come there.
    has_holes: bool,
    threads: Threads,
    /// Threads that have entered any known state since events were last lost: only these have to be forgotten at the next loss.
    entered: Vec<u32>,
}

impl<S: SpanSink> Tracker<S> {
    pub fn new(began_ns: u64, sink: S) -> Self {
        Self {
            sink,
            began_ns,
            is_watched_from_begin: true,
            now_ns: began_ns,
            lossy_until_ns: 0,
            cpus: Vec::new(),
            interrupts: PendingInterrupts::default(),
            has_holes: false,
            threads: Threads::default(),
            entered: Vec::new(),
        }
    }

    /// Marks a CPU as watched from the start: the time before its first switch belongs to the thread that leaves with this switch.
    pub fn watch(&mut self, cpu: u16) {
        let at = self.cpu(cpu);
        let began_ns = self.began_ns;
        self.cpus[at] = TrackedCpu {
            is_seen: true,
            at_ns: began_ns,
            lossy_until_ns: Some(began_ns),
            ..TrackedCpu::default()
        };
    }

    /// Sets the state of a thread that no event gave.
    pub fn assume(&mut self, task: TraceTask, at_ns: u64, state: ThreadState, cpu: u16) {
        if let Some(slot) = self.slot(task, at_ns)
            && !self.threads[slot].has_entered
            && self.threads[slot].state == ThreadState::Unknown
        {
            self.emit(slot, at_ns, true);
            self.enter(slot, at_ns, state, cpu);
        }
    }

    /// Gives the number of a task to a new thread in an unknown state: an endless session would otherwise need a place for every thread
    /// that ever existed. Returns the place; the sink has to empty it.
    pub fn renew(&mut self, task: TraceTask, at_ns: u64) -> Option<usize> {
        let slot = self.slot(task, at_ns)?;
        for at in 0..self.cpus.len() {
            if self.cpus[at].current == Some(task) {
                self.settle(at);
                self.cpus[at].current = None;
            }
        }
        let TrackedThread { has_entered, at_ns: before_ns, .. } = self.threads[slot];
        self.threads[slot] = TrackedThread { has_entered, ..TrackedThread::new(task, at_ns.max(before_ns)) };
        Some(slot)
    }

    /// Memory of `threads` threads in the tracker and its sink, bytes.
    pub fn bytes(&self, threads: usize) -> usize {
        Threads::bytes(threads) + self.sink.bytes(threads)
    }

    /// Threads that events named so far and that are followed.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// How often an event named a thread that is not followed, because there are too many. The CPUs' times have them all the same.
    pub fn unfollowed(&self) -> u64 {
        self.threads.unfollowed()
    }

    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Takes the next event. Time does not go back: an event that is out of order gets the time of the latest one before it.
    pub fn event(&mut self, event: &SchedEvent) {
        let at_ns = event.at_ns.max(self.now_ns);
        self.now_ns = at_ns;
        match event.kind {
            SchedEventKind::Switch { prev, next, leaves } => {
                self.switch(event.cpu, at_ns, prev, next, leaves);
            }
            SchedEventKind::Waking { task, waker, cpu } => {
                if let Some(slot) = self.slot(task, at_ns) {
                    self.wake(&Wakeup { task, slot, waker, from_cpu: event.cpu, cpu, at_ns });
                }
            }
            SchedEventKind::Migrate { task, to_cpu } => self.migrate(task, at_ns, to_cpu),
            SchedEventKind::Born { task, .. } => {
                if let Some(slot) = self.slot(task, at_ns) {
                    self.enter(slot, at_ns, ThreadState::Blocked(WaitReason::OTHER), event.cpu);
                }
            }
            SchedEventKind::Exit { .. } => {}
            SchedEventKind::Interrupt { interrupt, ran_ns } => {
                self.interrupt(event.cpu, at_ns, interrupt, ran_ns);
            }
            SchedEventKind::Lost { count, until_ns } => self.lose(event.cpu, at_ns, count, until_ns),
        }
    }

    /// Hands out all open spans up to this time; their states continue from there. Events that are taken later count no earlier.
    pub fn cut(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
        for cpu in 0..self.cpus.len() {
            self.hand_out(cpu, at_ns);
        }
        for slot in 0..self.threads.len() {
            self.emit(slot, at_ns, false);
        }
    }

    /// Notes that a CPU went offline: behind its last event, the states of the CPU and of the thread that came to it last are unknown.
    pub fn stop(&mut self, number: u16, since_ns: u64) {
        let at = self.cpu(number);
        self.close_cpu(at, since_ns, false);
        self.forget_current(at);
    }

    /// Ends the trace: all open states count up to this time. Returns the sink.
    pub fn finish(mut self, end_ns: u64) -> S {
        self.forget_unfollowed();
        self.cut(end_ns.max(self.now_ns));
        self.sink
    }

    /// Other recorders can record some threads only: with the switches to others, and not those away from them. Where such switches are
    /// missing, and who came to a CPU last was never seen to leave any, it is not known how long it stayed.
    fn forget_unfollowed(&mut self) {
        if self.is_watched_from_begin || !self.has_holes {
            return;
        }
        for at in 0..self.cpus.len() {
            let TrackedCpu { current: Some(task), left_idle, .. } = self.cpus[at] else { continue };
            let slot = self.threads.find(task);
            if !slot.map_or(left_idle || task != TraceTask::IDLE, |slot| self.threads[slot].has_left) {
                self.forget_current(at);
            }
        }
    }

    /// Who came to the CPU last is not known to have stayed for longer than was handed out.
    fn forget_current(&mut self, at: usize) {
        self.settle(at);
        let TrackedCpu { current, at_ns, .. } = self.cpus[at];
        self.cpus[at].current = None;
        let slot = current.and_then(|task| self.threads.find(task));
        if let Some(slot) = slot.filter(|slot| self.threads[*slot].state == ThreadState::Running) {
            self.forget(slot, at_ns);
        }
    }

    #[inline]
    fn slot(&mut self, task: TraceTask, at_ns: u64) -> Option<usize> {
        let sink = &self.sink;
        self.threads.slot(task, at_ns, |threads| sink.bytes(threads))
    }

    /// Counts what the thread is in up to `until_ns`.
    #[inline]
    fn emit(&mut self, slot: usize, until_ns: u64, is_over: bool) {
        let thread = &mut self.threads[slot];
        let until_ns = until_ns.max(thread.at_ns);
        if thread.state == ThreadState::Dead || (until_ns == thread.at_ns && !is_over) {
            return;
        }
        let span = ThreadSpan {
            task: thread.task,
            slot,
            state: thread.state,
            from_ns: thread.at_ns,
            until_ns,
            since_ns: thread.since_ns,
            cpu: thread.cpu,
            is_over,
        };
        thread.at_ns = until_ns;
        self.sink.thread(&span);
    }

    #[inline]
    fn enter(&mut self, slot: usize, at_ns: u64, state: ThreadState, cpu: u16) {
        // While events of a CPU are missing, a thread that does not run may come there unseen.
        let is_sure =
            at_ns > self.lossy_until_ns || matches!(state, ThreadState::Running | ThreadState::Dead);
        let thread = &mut self.threads[slot];
        thread.state = if is_sure { state } else { ThreadState::Unknown };
        thread.at_ns = at_ns.max(thread.at_ns);
        thread.since_ns = thread.at_ns;
        thread.cpu = cpu;
        let (state, at_ns) = (thread.state, thread.at_ns);
        if !thread.has_entered {
            thread.has_entered = true;
            let entered = self.entered.len();
            reserve_some(&mut self.entered, entered);
            self.entered.extend(u32::try_from(slot));
        }
        self.sink.entered(slot, state, cpu, at_ns);
    }

    /// From `from_ns` on it is not known what the thread did.
    fn forget(&mut self, slot: usize, from_ns: u64) {
        if self.threads[slot].state == ThreadState::Dead {
            return;
        }
        self.emit(slot, from_ns, false);
        let thread = &mut self.threads[slot];
        (thread.state, thread.since_ns, thread.woken_early) = (ThreadState::Unknown, thread.at_ns, false);
        self.sink.entered(slot, ThreadState::Unknown, thread.cpu, thread.at_ns);
    }

    fn cpu(&mut self, number: u16) -> usize {
        let at = usize::from(number);
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, TrackedCpu::default());
        }
        at
    }

    /// Begins a CPU that had no event so far: its state since the begin is unknown.
    fn see(&mut self, at: usize) {
        if !self.cpus[at].is_seen {
            self.cpus[at] = TrackedCpu { is_seen: true, at_ns: self.began_ns, ..TrackedCpu::default() };
        }
    }

    fn interrupt(&mut self, number: u16, until_ns: u64, interrupt: Interrupt, ran_ns: u64) {
        let at = self.cpu(number);
        // Interrupts were handed out up to there: one that began earlier is charged only for the rest.
        let settled_ns = self.cpus[at].settled_ns.max(self.began_ns);
        let from_ns = until_ns.saturating_sub(ran_ns).max(settled_ns).min(until_ns);
        if self.interrupts.add(at, interrupt, from_ns, until_ns) {
            self.see(at);
            self.hand_out(at, until_ns);
        }
    }

    /// Hands out the interrupts of what was handed out of the CPU's current state.
    #[inline]
    fn settle(&mut self, at: usize) {
        self.cpus[at].settled_ns = self.cpus[at].at_ns;
        if self.interrupts.has_any(at) {
            self.hand_out_interrupts(at);
        }
    }

    fn hand_out_interrupts(&mut self, at: usize) {
        let state = self.cpus[at].state();
        let slot = if let CpuState::Run(task) = state { self.threads.find(task) } else { None };
        let (cpu, until_ns) = (u16::try_from(at).unwrap_or(u16::MAX), self.cpus[at].at_ns);
        let sink = &mut self.sink;
        let mut out = |part| sink.interrupt(&InterruptSpan { cpu, state, slot, ..part });
        self.interrupts.take(at, until_ns, &mut out);
    }

    fn close_cpu(&mut self, at: usize, until_ns: u64, is_over: bool) {
        let Some(cpu) = self.cpus.get(at) else { return };
        if !cpu.is_seen || (until_ns <= cpu.at_ns && !is_over) {
            return;
        }
        let state = cpu.state();
        let cpu = &mut self.cpus[at];
        let number = u16::try_from(at).unwrap_or(u16::MAX);
        let until_ns = until_ns.max(cpu.at_ns);
        let span = CpuSpan { cpu: number, state, from_ns: cpu.at_ns, until_ns, is_over };
        cpu.at_ns = until_ns;
        self.sink.cpu(&span);
    }

    /// Hands out the CPU's state and its interrupts up to this time; the state continues.
    fn hand_out(&mut self, at: usize, until_ns: u64) {
        self.close_cpu(at, until_ns, false);
        self.settle(at);
    }

    fn switch(&mut self, number: u16, at_ns: u64, prev: TraceTask, next: TraceTask, leaves: Leaves) {
        let at = self.cpu(number);
        self.check_chain(at, number, at_ns, prev);
        self.close_cpu(at, at_ns, true);
        self.settle(at);
        self.cpus[at].left_idle |= prev == TraceTask::IDLE;
        if let Some(slot) = self.slot(prev, at_ns) {
            self.threads[slot].has_left = true;
            self.leave(slot, number, at_ns, leaves);
        }
        if let Some(slot) = self.slot(next, at_ns) {
            self.come(slot, number, at_ns);
        }
        (self.cpus[at].current, self.cpus[at].at_ns) = (Some(next), self.cpus[at].at_ns.max(at_ns));
    }

    /// Makes `prev` the one that runs, from when it is known to.
    fn check_chain(&mut self, at: usize, number: u16, at_ns: u64, prev: TraceTask) {
        let cpu = self.cpus[at];
        let ran_since_ns = if !cpu.is_seen {
            // The first event of this CPU: nothing was missed, so `prev` has been there since the trace began.
            self.cpus[at] = TrackedCpu { is_seen: true, at_ns: self.began_ns, ..cpu };
            if !self.is_watched_from_begin {
                self.close_cpu(at, at_ns, false);
                // Before `prev` is the one that ran: they are of the unknown time.
                self.settle(at);
                self.cpus[at].at_ns = at_ns;
            }
            self.cpus[at].at_ns
        } else if let Some(until_ns) = cpu.lossy_until_ns {
            // After the last lost event nothing happened until now.
            let until_ns = until_ns.min(at_ns);
            self.cpus[at].lossy_until_ns = None;
            self.hand_out(at, until_ns);
            // What was handed out as unknown stays so.
            until_ns.max(self.cpus[at].at_ns)
        } else if cpu.current == Some(prev) {
            return;
        } else {
            self.sink.hole(number, at_ns);
            self.has_holes = true;
            self.settle(at);
            self.cpus[at].current = None;
            if let Some(slot) = cpu.current.and_then(|task| self.slot(task, at_ns)) {
                let is_here =
                    self.threads[slot].state == ThreadState::Running && self.threads[slot].cpu == number;
                if is_here {
                    self.forget(slot, cpu.at_ns);
                }
            }
            if let Some(slot) = self.slot(prev, cpu.at_ns) {
                self.left_unseen(slot, number);
                self.forget(slot, cpu.at_ns);
                self.emit(slot, at_ns, true);
                self.enter(slot, at_ns, ThreadState::Running, number);
            }
            return;
        };
        if let Some(slot) = self.slot(prev, ran_since_ns) {
            self.left_unseen(slot, number);
            let TrackedThread { state, at_ns: known_ns, has_left, .. } = self.threads[slot];
            if !cpu.is_seen && !self.is_watched_from_begin && (has_left || state.is_ready()) {
                // It came here unseen, and when is not known.
                self.has_holes = true;
                self.forget(slot, known_ns);
            }
            self.emit(slot, ran_since_ns, true);
            // Time that the thread spent elsewhere is not counted twice: this CPU's state in that time is unknown.
            let since_ns = ran_since_ns.max(self.threads[slot].at_ns);
            if since_ns > ran_since_ns {
                self.hand_out(at, since_ns);
            }
            let thread = &mut self.threads[slot];
            (thread.state, thread.at_ns, thread.since_ns) = (ThreadState::Running, since_ns, since_ns);
            thread.cpu = number;
        }
        self.cpus[at].current = Some(prev);
    }

    fn leave(&mut self, slot: usize, cpu: u16, at_ns: u64, leaves: Leaves) {
        self.emit(slot, at_ns, true);
        let state = match leaves {
            Leaves::Ready => ThreadState::ReadyPreempted,
            Leaves::Asleep(reason) => ThreadState::Blocked(reason),
            Leaves::Dead => ThreadState::Dead,
        };
        self.enter(slot, at_ns, state, cpu);
        self.sink.left(slot, leaves, at_ns);
    }

    fn come(&mut self, slot: usize, cpu: u16, at_ns: u64) {
        let thread = &mut self.threads[slot];
        match thread.state {
            ThreadState::Blocked(_) if thread.woken_early => {
                // The wakeup came while it was on its way to sleep: it was never anything but ready.
                thread.state = ThreadState::ReadyWoken;
            }
            ThreadState::Blocked(_) => self.sink.unknown_wakeup(slot, at_ns),
            ThreadState::Running => {
                self.left_unseen(slot, cpu);
                self.threads[slot].state = ThreadState::Unknown;
            }
            _ => {}
        }
        self.threads[slot].woken_early = false;
        let waited_at = self.threads[slot].cpu;
        if waited_at != cpu && self.threads[slot].state.is_ready() {
            // Its move was missed: the slice on the CPU that it waited for is handed out up to now, and continues.
            self.close_cpu(waited_at.into(), at_ns, false);
        }
        self.emit(slot, at_ns, true);
        self.enter(slot, at_ns, ThreadState::Running, cpu);
    }

    /// A thread that comes to a CPU left its other one at an unknown time: what that did since the thread came there is unknown too.
    fn left_unseen(&mut self, slot: usize, comes_to: u16) {
        let TrackedThread { task, state, cpu, .. } = self.threads[slot];
        let (left, ran) = (usize::from(cpu), state == ThreadState::Running && cpu != comes_to);
        if ran && self.cpus.get(left).is_some_and(|left| left.current == Some(task)) {
            // What was handed out as that CPU's run time stays the thread's.
            self.emit(slot, self.cpus[left].at_ns, false);
            self.settle(left);
            self.cpus[left].current = None;
            self.threads[slot].state = ThreadState::Unknown;
        }
    }

    fn wake(&mut self, wakeup: &Wakeup) {
        let Wakeup { slot, cpu, at_ns, .. } = *wakeup;
        if !self.threads[slot].state.is_ready() {
            self.sink.woken(wakeup);
        }
        match self.threads[slot].state {
            ThreadState::Blocked(_) | ThreadState::Unknown => {
                self.threads[slot].woken_early = false;
                self.emit(slot, at_ns, true);
                self.enter(slot, at_ns, ThreadState::ReadyWoken, cpu);
            }
            ThreadState::Running => self.threads[slot].woken_early = true,
            _ => {}
        }
    }

    fn migrate(&mut self, task: TraceTask, at_ns: u64, to_cpu: u16) {
        let Some(slot) = self.slot(task, at_ns) else { return };
        if self.threads[slot].state.is_ready() {
            self.close_cpu(self.threads[slot].cpu.into(), at_ns, false);
            self.emit(slot, at_ns, false);
            self.sink.entered(slot, self.threads[slot].state, to_cpu, at_ns);
        }
        if self.threads[slot].state != ThreadState::Running {
            self.threads[slot].cpu = to_cpu;
        }
        self.sink.moved(slot, at_ns);
    }

    /// Events of a CPU between these times were lost. Only their CPU and span are known: any thread that runs on no other CPU may have come
    /// and gone.
    pub fn lose(&mut self, number: u16, from_ns: u64, count: u64, until_ns: u64) {
        let at = self.cpu(number);
        self.see(at);
        self.hand_out(at, from_ns);
        let ran = self.cpus[at].current.take();
        let until_ns = until_ns.max(from_ns);
        self.cpus[at].lossy_until_ns = Some(self.cpus[at].lossy_until_ns.unwrap_or(0).max(until_ns));
        self.lossy_until_ns = self.lossy_until_ns.max(until_ns);
        let mut entered = std::mem::take(&mut self.entered);
        for slot in entered.drain(..) {
            let slot = slot as usize;
            let thread = &mut self.threads[slot];
            // A thread that runs elsewhere keeps running, and enters another state later.
            thread.has_entered = false;
            if thread.state != ThreadState::Running || thread.cpu == number {
                self.forget(slot, from_ns);
            }
        }
        self.entered = entered;
        if let Some(slot) = ran.and_then(|task| self.threads.find(task))
            && self.threads[slot].state == ThreadState::Running
            && self.threads[slot].cpu == number
        {
            self.forget(slot, from_ns);
        }
        self.sink.lost(number, count, from_ns);
    }
}
