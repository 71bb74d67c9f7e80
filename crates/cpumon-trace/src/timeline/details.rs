//! One state of one thread: its length and reason, its waker, the antagonists of its wait, the threads that it woke, and its slices before
//! and after.

use cpumon_sched::ThreadState;

use super::behind::TraceBehind;
use super::cpus::{CpuWho, who};
use super::lines::{FRESH, OVER, ThreadPart, ThreadParts, WAKER_IDLE, WAKER_UNKNOWN};
use super::{Timeline, TraceThread};

const MAX_WOKEN: usize = 64;

/// A wait for a CPU.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceWait {
    /// Its begin.
    pub from_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// It began with a wakeup; else the thread was pushed off, or yielded.
    pub is_woken: bool,
    /// Who was on the CPU of the wakeup.
    pub waker: Option<TraceThread>,
    /// Where that ran.
    pub waker_cpu: Option<u16>,
    /// What the CPU ran meanwhile.
    pub behind: TraceBehind,
}

/// A thread that was woken.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceWoken {
    /// Who.
    pub who: TraceThread,
    /// When.
    pub at_ns: u64,
    /// When it came to a CPU.
    pub ran_ns: Option<u64>,
    /// Which.
    pub cpu: Option<u16>,
}

/// A state of a thread.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceSlice {
    /// Whose.
    pub who: TraceThread,
    /// `running`, `ready`, `preempted`, `blocked`, `unknown`.
    pub state: &'static str,
    /// For what it is blocked.
    pub reason: Option<String>,
    /// Begin.
    pub from_ns: u64,
    /// Length.
    pub length_ns: u64,
    /// The CPU that the thread was on, or waited for.
    pub cpu: u16,
    /// The state ended; else the trace or its part in memory ends.
    pub is_over: bool,
    /// The wait in front of it, or that it is a part of.
    pub wait: Option<TraceWait>,
    /// Of a blocked state that ended: who was on the CPU of the wakeup.
    pub woken_by: Option<TraceThread>,
    /// What it was in before.
    pub before: Option<String>,
    /// What it was in next.
    pub after: Option<String>,
    /// Whom it woke while it ran, the first 64.
    pub woke: Vec<TraceWoken>,
    /// Begin of its last slice on a CPU before.
    pub previous_ns: Option<u64>,
    /// Begin of its next one.
    pub next_ns: Option<u64>,
}

impl Timeline {
    pub fn who_at(&self, cpu: u16, at_ns: u64) -> Option<CpuWho> {
        let line = &self.cpu(cpu)?.parts.line;
        Some(who(line.parts[line.at(at_ns)?].who))
    }

    /// The state of a thread at a time; `None`: it does not exist then.
    pub fn slice(&self, place: u32, at_ns: u64) -> Option<TraceSlice> {
        let thread = self.thread(place)?;
        let at = thread.at(at_ns)?;
        let part = &thread.parts[at];
        if part.state() == ThreadState::Dead {
            return None;
        }
        let (from_ns, until_ns) = (part.start_ns, thread.end_of(at));
        let wait = self.wait_of(place, thread, at);
        let begin = wait.as_ref().map_or(at, |wait| thread.at(wait.from_ns).unwrap_or(at));
        let state_of = |at: usize| thread.parts.get(at).map(|part| state_text(part.state()));
        let runs =
            |at: &usize| thread.parts[*at].is_running() && thread.end_of(*at) > thread.parts[*at].start_ns;
        Some(TraceSlice {
            who: self.named(CpuWho::Thread(place)),
            state: part.state().name(),
            reason: reason_of(part.state()),
            from_ns,
            length_ns: until_ns - from_ns,
            cpu: part.cpu,
            is_over: part.is(OVER),
            wait,
            woken_by: self.end_of_block(thread, at),
            before: begin.checked_sub(1).and_then(state_of),
            after: state_of(at + 1),
            woke: if part.is_running() { self.woken_by(place, from_ns, until_ns) } else { Vec::new() },
            previous_ns: (0..at).rev().find(runs).map(|at| thread.parts[at].start_ns),
            next_ns: (at + 1..thread.parts.len()).find(runs).map(|at| thread.parts[at].start_ns),
        })
    }

    fn wait_of(&self, place: u32, thread: &ThreadParts, at: usize) -> Option<TraceWait> {
        let mut last = if thread.parts[at].is_running() { at.checked_sub(1)? } else { at };
        if !thread.parts[last].is_ready() {
            return None;
        }
        while thread.parts.get(last + 1).is_some_and(|next| next.is_ready() && !next.is(FRESH)) {
            last += 1;
        }
        let (from_ns, until_ns) = (thread.since_ns(last), thread.end_of(last));
        let part = &thread.parts[last];
        let waker = part.waker();
        let waker_cpu = match waker {
            Some(CpuWho::Thread(waker)) => self.thread(waker).and_then(|waker| {
                let part = &waker.parts[waker.first_behind(from_ns.saturating_sub(1))];
                part.is_running().then_some(part.cpu)
            }),
            _ => None,
        };
        Some(TraceWait {
            from_ns,
            length_ns: until_ns - from_ns,
            is_woken: part.is_woken(),
            waker: waker.map(|waker| self.named(waker)),
            waker_cpu,
            behind: self.named_behind(&self.behind_thread(place, from_ns, until_ns)),
        })
    }

    /// The thread that ended a blocked state.
    fn end_of_block(&self, thread: &ThreadParts, at: usize) -> Option<TraceThread> {
        let is_blocked = |part: &&ThreadPart| matches!(part.state(), ThreadState::Blocked(_));
        thread.parts.get(at).filter(is_blocked)?;
        let next = thread.parts.get(at..)?.iter().find(|part| !is_blocked(part))?;
        Some(self.named(next.waker()?))
    }

    /// The threads that a thread woke in a time, the first 64.
    fn woken_by(&self, waker: u32, from_ns: u64, until_ns: u64) -> Vec<TraceWoken> {
        let mut woken = Vec::new();
        for (place, thread) in self.threads.iter().enumerate() {
            for at in thread.first_from(from_ns)..thread.parts.len() {
                let part = &thread.parts[at];
                if part.start_ns > until_ns {
                    break;
                }
                if part.is_woken() && part.more == waker && part.is(FRESH) {
                    let mut next = at + 1;
                    while thread.parts.get(next).is_some_and(ThreadPart::is_ready) {
                        next += 1;
                    }
                    let ran = thread.parts.get(next).filter(|part| part.is_running());
                    woken.push((part.start_ns, place, ran));
                    // Threads are in no order of time: the first of all are known at the end only.
                    if woken.len() >= MAX_WOKEN * 16 {
                        keep_first(&mut woken);
                    }
                }
            }
        }
        keep_first(&mut woken);
        let named = |(at_ns, place, ran): (u64, usize, Option<&ThreadPart>)| TraceWoken {
            who: self.named(CpuWho::Thread(u32::try_from(place).unwrap_or(u32::MAX))),
            at_ns,
            ran_ns: ran.map(|part| part.start_ns),
            cpu: ran.map(|part| part.cpu),
        };
        woken.into_iter().map(named).collect()
    }
}

impl ThreadPart {
    /// What was on the CPU of the wakeup with which the state began, if it began with one.
    fn waker(&self) -> Option<CpuWho> {
        self.is_woken().then_some(match self.more {
            WAKER_IDLE => CpuWho::Idle,
            WAKER_UNKNOWN => CpuWho::Unknown,
            waker => CpuWho::Thread(waker),
        })
    }
}

fn reason_of(state: ThreadState) -> Option<String> {
    Some(state.reason()?.name().into_owned())
}

/// A state with its reason: `blocked: futex`.
fn state_text(state: ThreadState) -> String {
    reason_of(state).map_or_else(|| state.name().to_owned(), |reason| format!("{}: {reason}", state.name()))
}

/// The first wakeups of these, in order of time.
fn keep_first(woken: &mut Vec<(u64, usize, Option<&ThreadPart>)>) {
    woken.sort_by_key(|(at_ns, ..)| *at_ns);
    woken.truncate(MAX_WOKEN);
}
