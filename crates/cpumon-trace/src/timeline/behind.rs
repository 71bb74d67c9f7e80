//! Who ran while others waited: the antagonists of a thread, and of everyone in a window.

use std::cmp::Reverse;
use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::cpus::{CpuParts, CpuWho, is_run, who};
use super::index::Timeline;
use super::queue::after;

/// Slices that are compared with the waits of one answer at most.
const MAX_SLICES: usize = 4_000_000;

/// Whom one waited behind, the most first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Who, and for how long, ns.
    pub by: Vec<(CpuWho, u64)>,
    /// Of so much of the wait it is not known, because its CPU was idle, in an unknown state, or there was too much to compare.
    pub rest_ns: u64,
}

#[derive(Default)]
struct Sums {
    by: HashMap<u32, u64, FixedState>,
    slices: usize,
}

impl Sums {
    fn add(&mut self, who: u32, ns: u64) {
        let sum = self.by.entry(who).or_default();
        *sum = sum.saturating_add(ns);
    }

    /// What a CPU ran between two times, except one thread.
    fn add_slices(&mut self, parts: &CpuParts, from_ns: u64, until_ns: u64, except: u32) {
        let Some(first) = parts.first_behind(from_ns) else { return };
        for at in first..parts.starts.len() {
            if parts.starts[at] >= until_ns || self.slices >= MAX_SLICES {
                break;
            }
            self.slices += 1;
            let ns = parts.end_of(at).min(until_ns).saturating_sub(parts.starts[at].max(from_ns));
            if ns > 0 && is_run(parts.who[at]) && parts.who[at] != except {
                self.add(parts.who[at], ns);
            }
        }
    }

    fn sorted(self, waited_ns: u64) -> Behind {
        let found_ns = self.by.values().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
        let mut by: Vec<(u32, u64)> = self.by.into_iter().filter(|(_, ns)| *ns > 0).collect();
        by.sort_unstable_by_key(|(code, ns)| (Reverse(*ns), *code));
        let by = by.into_iter().map(|(code, ns)| (who(code), ns)).collect();
        Behind { by, rest_ns: waited_ns.saturating_sub(found_ns) }
    }
}

impl Timeline {
    /// Whom a thread waited behind in a window: what its CPU ran meanwhile.
    #[must_use]
    pub fn behind_thread(&self, place: u32, from_ns: u64, until_ns: u64) -> Behind {
        self.behind_threads(&[place], from_ns, until_ns)
    }

    /// The same of several threads together.
    #[must_use]
    pub fn behind_threads(&self, places: &[u32], from_ns: u64, until_ns: u64) -> Behind {
        let (from_ns, until_ns) = self.clip(from_ns, until_ns);
        let (mut sums, mut waited_ns) = (Sums::default(), 0_u64);
        for place in places {
            let waited = self.add_thread(*place, from_ns, until_ns, &mut sums);
            waited_ns = waited_ns.saturating_add(waited);
        }
        sums.sorted(waited_ns)
    }

    /// Returns how long the thread waited.
    fn add_thread(&self, place: u32, from_ns: u64, until_ns: u64, sums: &mut Sums) -> u64 {
        let mut waited_ns = 0;
        let Some(thread) = self.thread(place) else { return 0 };
        for at in thread.first_behind(from_ns)..thread.parts.len() {
            let part = &thread.parts[at];
            if part.start_ns >= until_ns {
                break;
            }
            if !part.is_ready() {
                continue;
            }
            let (from_ns, until_ns) = (part.start_ns.max(from_ns), thread.end_of(at).min(until_ns));
            waited_ns += until_ns.saturating_sub(from_ns);
            if let Some(cpu) = self.cpu(part.cpu) {
                sums.add_slices(&cpu.parts, from_ns, until_ns, place);
            }
        }
        waited_ns
    }

    /// Who ran while any threads waited for that CPU: each ns counts once for each of them.
    #[must_use]
    pub fn culprits(&self, from_ns: u64, until_ns: u64, cpus: &dyn Fn(u16) -> bool) -> Behind {
        let (from_ns, until_ns) = self.clip(from_ns, until_ns);
        let (mut sums, mut waited_ns) = (Sums::default(), 0_u64);
        for number in self.cpus().filter(|number| cpus(*number)) {
            let Some(cpu) = self.cpu(number) else { continue };
            let waited = |until_ns| cpu.queue.waited_until(until_ns);
            waited_ns = waited_ns.saturating_add(waited(until_ns).saturating_sub(waited(from_ns)));
            let (mut length, steps) = cpu.queue.steps_from(from_ns);
            let mut at_ns = from_ns;
            for step in steps.iter().take_while(|step| **step >> 1 < until_ns).chain([&(until_ns << 1)]) {
                let next_ns = step >> 1;
                if length > 0 && next_ns > at_ns {
                    sums.add_times(&cpu.parts, at_ns, next_ns, length);
                }
                at_ns = next_ns;
                length = after(length, *step);
            }
        }
        sums.sorted(waited_ns)
    }
}

impl Sums {
    /// The same, weighted by the threads that waited.
    fn add_times(&mut self, parts: &CpuParts, from_ns: u64, until_ns: u64, length: u32) {
        let Some(first) = parts.first_behind(from_ns) else { return };
        for at in first..parts.starts.len() {
            if parts.starts[at] >= until_ns {
                break;
            }
            let ns = parts.end_of(at).min(until_ns).saturating_sub(parts.starts[at].max(from_ns));
            if is_run(parts.who[at]) {
                self.add(parts.who[at], ns.saturating_mul(length.into()));
            }
        }
    }
}
