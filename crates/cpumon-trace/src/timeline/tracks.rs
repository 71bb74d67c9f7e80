//! What a picture of a window needs: one CPU or one thread, as single parts where these fit, else as shares of buckets.

use std::collections::BTreeSet;

use cpumon_sched::ThreadState;

use super::cpus::{CpuTimeline, CpuWho, IDLE, who};
use super::lines::{LinePart, STATES, ThreadParts, since};
use super::{Timeline, TraceThread};

/// Parts of a bucket in which the main reason of its blocked time is searched.
const REASON_PARTS: usize = 32;
const MAX_BUCKETS: usize = 8_192;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    pub from_ns: u64,
    pub bucket_ns: u64,
    pub count: usize,
    /// Parts that are handed out one by one; where there are more, buckets are.
    pub parts: usize,
}

impl Buckets {
    fn edges(self) -> impl Iterator<Item = (u64, u64)> {
        let length = self.bucket_ns.max(1);
        let begin = move |at: usize| self.from_ns.saturating_add(length.saturating_mul(at as u64));
        (0..self.count.min(MAX_BUCKETS)).map(move |at| (begin(at), begin(at + 1)))
    }

    /// Each bucket, and what sums up to its ends differ by.
    fn differences<const N: usize>(
        self,
        sums_until: impl Fn(u64) -> [u64; N],
    ) -> impl Iterator<Item = (u64, u64, [u64; N])> {
        let mut before = sums_until(self.from_ns);
        self.edges().map(move |(from_ns, until_ns)| {
            let now = sums_until(until_ns);
            (from_ns, until_ns, since(now, std::mem::replace(&mut before, now)))
        })
    }

    fn until_ns(self) -> u64 {
        self.edges().last().map_or(self.from_ns, |(_, until_ns)| until_ns)
    }
}

/// One CPU.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceCpuTrack {
    /// Its number.
    pub cpu: u16,
    /// Parts are single slices, each with its length; else they are buckets.
    pub is_exact: bool,
    /// Begins of the parts, ascending. Idle times have none.
    pub from_ns: Vec<u64>,
    /// Lengths; empty for buckets.
    pub length_ns: Vec<u64>,
    /// Number of the thread, or of a bucket the one that ran longest; −1: unknown, −2: not followed.
    pub who: Vec<i64>,
    /// Of buckets: thousandths in which a thread ran.
    pub busy: Vec<u16>,
    /// Of buckets: thousandths that are unknown.
    pub unknown: Vec<u16>,
    /// Hundredths of a thread that waited in its queue, in the mean of each of the `count` buckets.
    pub queue: Vec<u32>,
}

/// One thread.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceThreadTrack {
    /// Its number.
    pub thread: u32,
    /// Parts are single states, each with its length; else they are buckets.
    pub is_exact: bool,
    /// Begins of the parts, ascending.
    pub from_ns: Vec<u64>,
    /// Lengths; empty for buckets.
    pub length_ns: Vec<u64>,
    /// Of single states: 0 unknown, 1 running, 2 ready since a wakeup, 3 ready since it was pushed off, 4 blocked.
    pub state: Vec<u8>,
    /// For what it was blocked: a place in `reasons`, −1 if it was not. Of buckets: the main one.
    pub reason: Vec<i32>,
    /// The CPU it was on, or waited for.
    pub cpu: Vec<u16>,
    /// Of buckets: thousandths in each state, in the order running, woken, preempted, blocked, unknown.
    pub shares: Vec<[u16; 5]>,
}

/// All CPUs together, by bucket.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceOverview {
    /// Thousandths of all CPUs.
    pub busy: Vec<u16>,
    /// Hundredths of threads that waited.
    pub queue: Vec<u32>,
}

/// What is drawn of a window.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, utoipa::ToSchema))]
pub struct TraceTracks {
    /// Begin of the first bucket.
    pub from_ns: u64,
    /// Length of each.
    pub bucket_ns: u64,
    /// How many.
    pub count: usize,
    /// CPUs, as they were named.
    pub cpus: Vec<TraceCpuTrack>,
    /// Threads, as they were named.
    pub threads: Vec<TraceThreadTrack>,
    /// All CPUs; null unless asked for.
    pub all: Option<TraceOverview>,
    /// Names of wait reasons.
    pub reasons: Vec<String>,
    /// Who the threads of this answer are.
    pub names: Vec<TraceThread>,
}

fn share(ns: u64, of_ns: u64) -> u16 {
    let share = u128::from(ns) * 1_000 / u128::from(of_ns.max(1));
    // Any time above 0 is shown, as one thousandth at least.
    u16::try_from(share).unwrap_or(1_000).max(u16::from(ns > 0))
}

impl Timeline {
    /// Tracks of these CPUs and threads, and of all CPUs together if `has_all`.
    pub fn tracks(&self, buckets: Buckets, cpus: &[u16], threads: &[u32], has_all: bool) -> TraceTracks {
        let mut reasons = Vec::new();
        let cpus: Vec<_> = cpus.iter().filter_map(|cpu| self.cpu_track(*cpu, buckets)).collect();
        let threads = threads.iter().filter_map(|place| self.thread_track(*place, buckets, &mut reasons));
        let threads: Vec<_> = threads.collect();
        let on_cpus = cpus.iter().flat_map(|track| &track.who).filter_map(|who| u32::try_from(*who).ok());
        let places: BTreeSet<u32> = on_cpus.chain(threads.iter().map(|track| track.thread)).collect();
        TraceTracks {
            from_ns: buckets.from_ns,
            bucket_ns: buckets.bucket_ns,
            count: buckets.count,
            all: has_all.then(|| self.overview(buckets)),
            names: places.into_iter().map(|place| self.named(CpuWho::Thread(place))).collect(),
            cpus,
            threads,
            reasons,
        }
    }

    /// What a CPU did; `None`: it has no events.
    pub fn cpu_track(&self, number: u16, buckets: Buckets) -> Option<TraceCpuTrack> {
        let CpuTimeline { parts, queue } = self.cpu(number)?;
        let line = &parts.line;
        let slices = line.first_behind(buckets.from_ns)..line.first_from(buckets.until_ns());
        let is_exact = slices.len() <= buckets.parts;
        let mut track = TraceCpuTrack { cpu: number, is_exact, ..TraceCpuTrack::default() };
        if is_exact {
            for at in slices {
                let (code, from_ns) = (line.parts[at].who, line.parts[at].start_ns);
                let until_ns = line.end_of(at);
                if code != IDLE && until_ns > buckets.from_ns && until_ns > from_ns {
                    track.from_ns.push(from_ns);
                    track.length_ns.push(until_ns - from_ns);
                    track.who.push(who(code).number());
                }
            }
        } else {
            for (from_ns, until_ns, [run, unknown, _]) in buckets.differences(|ns| line.times_until(ns)) {
                if run > 0 || unknown > 0 {
                    let most = parts.most_between(from_ns, until_ns).map_or(CpuWho::Unknown, who);
                    track.from_ns.push(from_ns);
                    track.who.push(most.number());
                    track.busy.push(share(run, until_ns - from_ns));
                    track.unknown.push(share(unknown, until_ns - from_ns));
                }
            }
        }
        let waited = buckets.differences(|at_ns| [queue.waited_until(at_ns)]);
        let queue = waited.map(|(from_ns, until_ns, [waited])| mean_queue(waited, until_ns - from_ns));
        track.queue = queue.collect();
        Some(track)
    }

    /// What a thread was in; `None`: there is no such thread. Reasons that are not in the list yet are added.
    pub fn thread_track(
        &self,
        place: u32,
        buckets: Buckets,
        reasons: &mut Vec<String>,
    ) -> Option<TraceThreadTrack> {
        let thread = self.thread(place)?;
        let states = thread.first_behind(buckets.from_ns)..thread.first_from(buckets.until_ns());
        let is_exact = states.len() <= buckets.parts;
        let mut track = TraceThreadTrack { thread: place, is_exact, ..TraceThreadTrack::default() };
        if is_exact {
            for at in states {
                let (part, until_ns) = (&thread.parts[at], thread.end_of(at));
                let (from_ns, state) = (part.start_ns, part.state());
                if state != ThreadState::Dead && until_ns > buckets.from_ns && until_ns > from_ns {
                    track.push(from_ns, part.cpu, state, reasons);
                    track.length_ns.push(until_ns - from_ns);
                    // The kinds of times, with the last one first.
                    track.state.push(u8::try_from((part.kind() + 1) % STATES).unwrap_or(0));
                }
            }
        } else {
            for (from_ns, until_ns, times) in buckets.differences(|ns| thread.times_until(ns)) {
                let [.., blocked, _] = times;
                let shares = times.map(|ns| share(ns, until_ns - from_ns));
                if shares != [0; STATES] {
                    let main = (blocked > 0).then(|| thread.main_state(from_ns, until_ns));
                    let cpu = thread.parts[thread.first_behind(from_ns)].cpu;
                    track.push(from_ns, cpu, main.unwrap_or(ThreadState::Unknown), reasons);
                    track.shares.push(shares);
                }
            }
        }
        Some(track)
    }

    /// How busy all CPUs together are, and how long their queues: shares of 1,000 and hundredths of a thread, by bucket.
    fn overview(&self, buckets: Buckets) -> TraceOverview {
        let mut sums = vec![[0_u64; 3]; buckets.edges().count()];
        for CpuTimeline { parts, queue } in self.cpus.iter().flatten() {
            let all = buckets.differences(|at_ns| {
                let [run, unknown, idle] = parts.line.times_until(at_ns);
                [run, run + unknown + idle, queue.waited_until(at_ns)]
            });
            for (sums, (_, _, new)) in sums.iter_mut().zip(all) {
                sums.iter_mut().zip(new).for_each(|(sum, new)| *sum = sum.saturating_add(new));
            }
        }
        let busy = sums.iter().map(|[run, all, _]| share(*run, *all)).collect();
        let queue = sums.iter().map(|[.., waited]| mean_queue(*waited, buckets.bucket_ns)).collect();
        TraceOverview { busy, queue }
    }
}

impl TraceThreadTrack {
    fn push(&mut self, from_ns: u64, cpu: u16, state: ThreadState, reasons: &mut Vec<String>) {
        let place = state.reason().map(|reason| {
            let name = reason.name();
            let known = reasons.iter().position(|known| **known == *name);
            known.unwrap_or_else(|| {
                reasons.push(name.into_owned());
                reasons.len() - 1
            })
        });
        self.from_ns.push(from_ns);
        self.cpu.push(cpu);
        self.reason.push(place.and_then(|place| i32::try_from(place).ok()).unwrap_or(-1));
    }
}

/// Hundredths of a thread.
fn mean_queue(waited_ns: u64, length_ns: u64) -> u32 {
    u32::try_from(waited_ns.saturating_mul(100) / length_ns.max(1)).unwrap_or(u32::MAX)
}

impl ThreadParts {
    /// For what the thread was blocked longest in the first parts of a bucket.
    fn main_state(&self, from_ns: u64, until_ns: u64) -> ThreadState {
        let mut sums: Vec<(ThreadState, u64)> = Vec::new();
        for (at, ns) in self.between(from_ns, until_ns).take(REASON_PARTS) {
            let state = self.parts[at].state();
            match sums.iter_mut().find(|sum| sum.0 == state) {
                Some(sum) => sum.1 += ns,
                None if state.reason().is_some() => sums.push((state, ns)),
                None => {}
            }
        }
        sums.into_iter().max_by_key(|sum| sum.1).map_or(ThreadState::Unknown, |sum| sum.0)
    }
}
