//! One state of one thread: how long, why, who woke it, what it waited behind, whom it woke, and where it goes on.

use cpumon_events::ThreadState;

use super::Timeline;
use super::behind::Behind;
use super::cpus::{CpuWho, who};
use super::lines::{FRESH, OVER, Part, ThreadParts, WAKER_IDLE, WAKER_UNKNOWN};

/// Threads that a slice woke which are listed.
const MAX_WOKEN: usize = 64;

/// A wait for a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// From here, ns.
    pub from_ns: u64,
    /// To here.
    pub until_ns: u64,
    /// It began with a wakeup; else the thread was pushed off, or yielded.
    pub is_woken: bool,
    /// Who was on the CPU of the wakeup.
    pub waker: Option<CpuWho>,
    /// Where that ran, if it is known.
    pub waker_cpu: Option<u16>,
    /// What its CPUs ran meanwhile.
    pub behind: Behind,
}

/// A thread that was woken.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Woken {
    /// Its place.
    pub thread: u32,
    /// When, ns.
    pub at_ns: u64,
    /// When it came to a CPU, and to which one.
    pub ran: Option<(u64, u16)>,
}

/// A state of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The thread's place.
    pub thread: u32,
    /// What it was in.
    pub state: ThreadState,
    /// From here, ns.
    pub from_ns: u64,
    /// To here.
    pub until_ns: u64,
    /// The CPU it was on, or waited for.
    pub cpu: u16,
    /// The state ended, and is not only cut by the end of the trace.
    pub is_over: bool,
    /// The wait that this is a part of, or that was in front of it.
    pub wait: Option<Wait>,
    /// What it was in before the wait.
    pub before: Option<ThreadState>,
    /// What it was in next.
    pub after: Option<ThreadState>,
    /// Whom it woke while it ran, the first ones.
    pub woke: Vec<Woken>,
    /// Begin of its last slice on a CPU before this, ns.
    pub previous_ns: Option<u64>,
    /// Begin of its next slice on a CPU.
    pub next_ns: Option<u64>,
}

impl Timeline {
    /// Who has a CPU at a time.
    #[must_use]
    pub fn who_at(&self, cpu: u16, at_ns: u64) -> Option<CpuWho> {
        let line = &self.cpu(cpu)?.parts.line;
        Some(who(line.parts[line.at(at_ns)?].who))
    }

    /// The state of a thread at a time; `None`: it does not exist then.
    #[must_use]
    pub fn slice(&self, place: u32, at_ns: u64) -> Option<Slice> {
        let thread = self.thread(place)?;
        let at = thread.at(at_ns)?;
        let part = &thread.parts[at];
        if part.state() == ThreadState::Dead {
            return None;
        }
        let (from_ns, until_ns) = (part.start_ns, thread.end_of(at));
        let wait = self.wait_of(place, thread, at);
        let begin = wait.as_ref().map_or(at, |wait| thread.at(wait.from_ns).unwrap_or(at));
        let state_of = |at: usize| thread.parts.get(at).map(Part::state);
        let runs =
            |at: &usize| thread.parts[*at].is_running() && thread.end_of(*at) > thread.parts[*at].start_ns;
        Some(Slice {
            thread: place,
            state: part.state(),
            from_ns,
            until_ns,
            cpu: part.cpu,
            is_over: part.is(OVER),
            wait,
            before: begin.checked_sub(1).and_then(state_of),
            after: state_of(at + 1),
            woke: if part.is_running() { self.woken_by(place, from_ns, until_ns) } else { Vec::new() },
            previous_ns: (0..at).rev().find(runs).map(|at| thread.parts[at].start_ns),
            next_ns: (at + 1..thread.parts.len()).find(runs).map(|at| thread.parts[at].start_ns),
        })
    }

    fn wait_of(&self, place: u32, thread: &ThreadParts, at: usize) -> Option<Wait> {
        let mut last = if thread.parts[at].is_running() { at.checked_sub(1)? } else { at };
        if !thread.parts[last].is_ready() {
            return None;
        }
        while thread
            .parts
            .get(last + 1)
            .is_some_and(|next| next.is_ready() && thread.since_ns(last + 1) < next.start_ns)
        {
            last += 1;
        }
        let (from_ns, until_ns) = (thread.since_ns(last), thread.end_of(last));
        let part = &thread.parts[last];
        let waker = part.is_woken().then_some(match part.more {
            WAKER_IDLE => CpuWho::Idle,
            WAKER_UNKNOWN => CpuWho::Unknown,
            waker => CpuWho::Thread(waker),
        });
        let waker_cpu = match waker {
            Some(CpuWho::Thread(waker)) => self.thread(waker).and_then(|waker| {
                let part = &waker.parts[waker.first_behind(from_ns.saturating_sub(1))];
                part.is_running().then_some(part.cpu)
            }),
            _ => None,
        };
        let behind = self.behind_thread(place, from_ns, until_ns);
        Some(Wait { from_ns, until_ns, is_woken: part.is_woken(), waker, waker_cpu, behind })
    }

    /// Whom a thread woke in a time.
    fn woken_by(&self, waker: u32, from_ns: u64, until_ns: u64) -> Vec<Woken> {
        let mut woken = Vec::new();
        for (place, thread) in self.threads.iter().enumerate() {
            for at in thread.first_from(from_ns)..thread.parts.len() {
                let part = &thread.parts[at];
                if part.start_ns > until_ns {
                    break;
                }
                if part.is_woken() && part.more == waker && part.is(FRESH) {
                    let mut next = at + 1;
                    while thread.parts.get(next).is_some_and(Part::is_ready) {
                        next += 1;
                    }
                    let ran = thread.parts.get(next).filter(|part| part.is_running());
                    woken.push(Woken {
                        thread: u32::try_from(place).unwrap_or(u32::MAX),
                        at_ns: part.start_ns,
                        ran: ran.map(|part| (part.start_ns, part.cpu)),
                    });
                    // Threads are in no order of time: the first of all are known at the end only.
                    if woken.len() >= MAX_WOKEN * 16 {
                        keep_first(&mut woken);
                    }
                }
            }
        }
        keep_first(&mut woken);
        woken
    }
}

/// The first wakeups of these, in order of time.
fn keep_first(woken: &mut Vec<Woken>) {
    woken.sort_by_key(|woken| woken.at_ns);
    woken.truncate(MAX_WOKEN);
}
