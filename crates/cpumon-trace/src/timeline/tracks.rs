//! What a picture of a window needs: one CPU or one thread, as single parts where these fit, else as shares of buckets.

use cpumon_events::ThreadState;

use super::Timeline;
use super::cpus::{Cpu, CpuWho, IDLE, is_run, who};
use super::lines::{STATES, ThreadParts, since};

/// Parts of a bucket in which the main reason of its blocked time is searched.
const REASON_PARTS: usize = 32;
/// Buckets of one picture at most.
const MAX_BUCKETS: usize = 8_192;

/// Evenly spaced times.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// Begin of the first one, ns.
    pub from_ns: u64,
    /// Length of each, ns.
    pub bucket_ns: u64,
    /// How many.
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

/// A slice of a CPU. Shares are of 1,000.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RunPart {
    /// From here, ns.
    pub from_ns: u64,
    /// To here, ns.
    pub until_ns: u64,
    /// Who had it; in a bucket, who had it longest.
    pub who: CpuWho,
    /// How much of it a thread ran.
    pub busy: u16,
    /// How much of it is unknown.
    pub unknown: u16,
}

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTrack {
    /// Single slices, idle ones left out.
    pub is_exact: bool,
    /// Slices, or a part for each bucket that has any.
    pub parts: Vec<RunPart>,
    /// Mean length of its queue in each bucket, hundredths of a thread.
    pub queue: Vec<u32>,
}

/// A part of a thread.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StatePart {
    /// From here, ns.
    pub from_ns: u64,
    /// To here, ns.
    pub until_ns: u64,
    /// What it was in; in a bucket, the main reason of its blocked time.
    pub state: ThreadState,
    /// The CPU it was on, or waited for.
    pub cpu: u16,
    /// Of a bucket: shares of 1,000 that it ran, was ready since a wakeup, ready since it was pushed off, blocked, unknown.
    pub shares: [u16; STATES],
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTrack {
    /// Single states.
    pub is_exact: bool,
    /// States, or a part for each bucket in which the thread exists.
    pub parts: Vec<StatePart>,
}

fn share(ns: u64, of_ns: u64) -> u16 {
    let share = u128::from(ns) * 1_000 / u128::from(of_ns.max(1));
    // What is there at all is seen.
    u16::try_from(share).unwrap_or(1_000).max(u16::from(ns > 0))
}

impl Timeline {
    /// What a CPU did; `None`: it has no events.
    #[must_use]
    pub fn cpu_track(&self, number: u16, buckets: Buckets) -> Option<CpuTrack> {
        let Cpu { parts, queue } = self.cpu(number)?;
        let line = &parts.line;
        let slices = line.first_behind(buckets.from_ns)..line.first_from(buckets.until_ns());
        let is_exact = slices.len() <= buckets.parts;
        let parts = if is_exact {
            let part = |at: usize| {
                let (code, from_ns, until_ns) =
                    (line.parts[at].who, line.parts[at].start_ns, line.end_of(at));
                let is_shown = code != IDLE && until_ns > buckets.from_ns && until_ns > from_ns;
                let busy = if is_run(code) { 1_000 } else { 0 };
                is_shown.then(|| RunPart { from_ns, until_ns, who: who(code), busy, unknown: 1_000 - busy })
            };
            slices.filter_map(part).collect()
        } else {
            let part = |(from_ns, until_ns, [run, unknown, _]): (u64, u64, [u64; 3])| {
                let length = until_ns - from_ns;
                (run > 0 || unknown > 0).then(|| RunPart {
                    from_ns,
                    until_ns,
                    who: parts.most_between(from_ns, until_ns).map_or(CpuWho::Unknown, who),
                    busy: share(run, length),
                    unknown: share(unknown, length),
                })
            };
            buckets.differences(|at_ns| line.times_until(at_ns)).filter_map(part).collect()
        };
        let waited = buckets.differences(|at_ns| [queue.waited_until(at_ns)]);
        let queue = waited.map(|(from_ns, until_ns, [waited])| mean_queue(waited, until_ns - from_ns));
        Some(CpuTrack { is_exact, parts, queue: queue.collect() })
    }

    /// What a thread was in; `None`: there is no such thread.
    #[must_use]
    pub fn thread_track(&self, place: u32, buckets: Buckets) -> Option<ThreadTrack> {
        let thread = self.thread(place)?;
        let states = thread.first_behind(buckets.from_ns)..thread.first_from(buckets.until_ns());
        let is_exact = states.len() <= buckets.parts;
        let parts = if is_exact {
            let part = |at: usize| {
                let (part, until_ns) = (&thread.parts[at], thread.end_of(at));
                let (from_ns, state, cpu) = (part.start_ns, part.state(), part.cpu);
                let is_shown = state != ThreadState::Dead && until_ns > buckets.from_ns && until_ns > from_ns;
                is_shown.then_some(StatePart { from_ns, until_ns, state, cpu, shares: [0; STATES] })
            };
            states.filter_map(part).collect()
        } else {
            let part = |(from_ns, until_ns, times): (u64, u64, [u64; STATES])| {
                let shares = times.map(|ns| share(ns, until_ns - from_ns));
                let cpu = thread.parts[thread.first_behind(from_ns)].cpu;
                let [.., blocked, _] = times;
                let main = (blocked > 0).then(|| thread.main_state(from_ns, until_ns));
                let state = main.unwrap_or(ThreadState::Unknown);
                let is_there = shares.iter().any(|share| *share > 0);
                is_there.then_some(StatePart { from_ns, until_ns, state, cpu, shares })
            };
            buckets.differences(|at_ns| thread.times_until(at_ns)).filter_map(part).collect()
        };
        Some(ThreadTrack { is_exact, parts })
    }

    /// How busy all CPUs together are, and how long their queues: shares of 1,000 and hundredths of a thread, by bucket.
    #[must_use]
    pub fn overview(&self, buckets: Buckets) -> (Vec<u16>, Vec<u32>) {
        let mut sums = vec![[0_u64; 3]; buckets.edges().count()];
        for Cpu { parts, queue } in self.cpus.iter().flatten() {
            let all = buckets.differences(|at_ns| {
                let [run, unknown, idle] = parts.line.times_until(at_ns);
                [run, run + unknown + idle, queue.waited_until(at_ns)]
            });
            for (sums, (_, _, new)) in sums.iter_mut().zip(all) {
                sums.iter_mut().zip(new).for_each(|(sum, new)| *sum = sum.saturating_add(new));
            }
        }
        let busy = sums.iter().map(|[run, all, _]| share(*run, *all)).collect();
        (busy, sums.iter().map(|[.., waited]| mean_queue(*waited, buckets.bucket_ns)).collect())
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
