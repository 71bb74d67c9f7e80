//! What a picture of a window needs: one CPU or one thread, as single parts where these fit, else as shares of buckets.

use cpumon_events::ThreadState;

use super::Timeline;
use super::cpus::{CpuTimes, CpuWho, is_run, who};
use super::threads::{StateTimes, ThreadParts};

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
    pub shares: [u16; 5],
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
        let cpu = self.cpu(number)?;
        let (parts, until_ns) = (&cpu.parts, buckets.until_ns());
        let first = parts.first_behind(buckets.from_ns).unwrap_or(0);
        let end = parts.starts.partition_point(|start| *start < until_ns);
        let is_exact = end.saturating_sub(first) <= buckets.parts;
        let mut track = CpuTrack { is_exact, ..CpuTrack::default() };
        if is_exact {
            for at in first..end {
                let (from_ns, until_ns) = (parts.starts[at], parts.end_of(at));
                let who = who(parts.who[at]);
                if who == CpuWho::Idle || until_ns <= buckets.from_ns || until_ns == from_ns {
                    continue;
                }
                let busy = if is_run(parts.who[at]) { 1_000 } else { 0 };
                track.parts.push(RunPart { from_ns, until_ns, who, busy, unknown: 1_000 - busy });
            }
        }
        let mut before = (parts.times_until(buckets.from_ns), cpu.queue.waited_until(buckets.from_ns));
        for (from_ns, until_ns) in buckets.edges() {
            let now = (
                if is_exact { CpuTimes::default() } else { parts.times_until(until_ns) },
                cpu.queue.waited_until(until_ns),
            );
            let (waited, length) = (now.1.saturating_sub(before.1), until_ns - from_ns);
            track.queue.push(u32::try_from(waited.saturating_mul(100) / length.max(1)).unwrap_or(u32::MAX));
            if !is_exact {
                let times = now.0.since(&before.0);
                let busy = share(times.run, length);
                if times.run > 0 || times.unknown > 0 {
                    let who = parts.most_between(from_ns, until_ns).map_or(CpuWho::Unknown, who);
                    let unknown = share(times.unknown, length);
                    track.parts.push(RunPart { from_ns, until_ns, who, busy, unknown });
                }
            }
            before = now;
        }
        Some(track)
    }

    /// What a thread was in; `None`: there is no such thread.
    #[must_use]
    pub fn thread_track(&self, place: u32, buckets: Buckets) -> Option<ThreadTrack> {
        let thread = self.thread(place)?;
        let until_ns = buckets.until_ns();
        let first = thread.first_behind(buckets.from_ns);
        let end = thread.parts.partition_point(|part| part.start_ns < until_ns);
        if end.saturating_sub(first) <= buckets.parts {
            let mut track = ThreadTrack { is_exact: true, ..ThreadTrack::default() };
            for at in first..end {
                let (part, until_ns) = (&thread.parts[at], thread.end_of(at));
                if part.state() != ThreadState::Dead && until_ns > buckets.from_ns && until_ns > part.start_ns
                {
                    let (state, cpu) = (part.state(), part.cpu);
                    track.parts.push(StatePart {
                        from_ns: part.start_ns,
                        until_ns,
                        state,
                        cpu,
                        shares: [0; 5],
                    });
                }
            }
            return Some(track);
        }
        let mut track = ThreadTrack::default();
        let mut before = thread.times_until(buckets.from_ns);
        for (from_ns, until_ns) in buckets.edges() {
            let now = thread.times_until(until_ns);
            let times = now.since(&before);
            before = now;
            let StateTimes { run, woken, preempted, blocked, unknown } = times;
            let shares = [run, woken, preempted, blocked, unknown].map(|ns| share(ns, until_ns - from_ns));
            if shares.iter().any(|share| *share > 0) {
                let at = thread.first_behind(from_ns);
                let cpu = thread.parts[at].cpu;
                let state =
                    if blocked > 0 { thread.main_state(at, from_ns, until_ns) } else { ThreadState::Unknown };
                track.parts.push(StatePart { from_ns, until_ns, state, cpu, shares });
            }
        }
        Some(track)
    }

    /// How busy all CPUs together are, and how long their queues: shares of 1,000 and hundredths of a thread, by bucket.
    #[must_use]
    pub fn overview(&self, buckets: Buckets) -> (Vec<u16>, Vec<u32>) {
        let mut sums = vec![(0_u64, 0_u64, 0_u64); buckets.edges().count()];
        for cpu in self.cpus.iter().flatten() {
            let mut before =
                (cpu.parts.times_until(buckets.from_ns), cpu.queue.waited_until(buckets.from_ns));
            for (sum, (_, until_ns)) in sums.iter_mut().zip(buckets.edges()) {
                let now = (cpu.parts.times_until(until_ns), cpu.queue.waited_until(until_ns));
                let times = now.0.since(&before.0);
                sum.0 = sum.0.saturating_add(times.run);
                sum.1 = sum.1.saturating_add(times.run + times.idle + times.unknown);
                sum.2 = sum.2.saturating_add(now.1.saturating_sub(before.1));
                before = now;
            }
        }
        let queue = |waited: u64| waited.saturating_mul(100) / buckets.bucket_ns.max(1);
        let busy = sums.iter().map(|sum| share(sum.0, sum.1)).collect();
        (busy, sums.iter().map(|sum| u32::try_from(queue(sum.2)).unwrap_or(u32::MAX)).collect())
    }
}

impl ThreadParts {
    /// For what the thread was blocked longest in the first parts of a bucket.
    fn main_state(&self, first: usize, from_ns: u64, until_ns: u64) -> ThreadState {
        let mut sums: Vec<(ThreadState, u64)> = Vec::new();
        for at in (first..self.parts.len()).take(REASON_PARTS) {
            let part = &self.parts[at];
            if part.start_ns >= until_ns {
                break;
            }
            let state = part.state();
            if !matches!(state, ThreadState::Blocked(_)) {
                continue;
            }
            let ns = self.end_of(at).min(until_ns).saturating_sub(part.start_ns.max(from_ns));
            match sums.iter_mut().find(|sum| sum.0 == state) {
                Some(sum) => sum.1 += ns,
                None => sums.push((state, ns)),
            }
        }
        sums.into_iter().max_by_key(|sum| sum.1).map_or(ThreadState::Unknown, |sum| sum.0)
    }
}
