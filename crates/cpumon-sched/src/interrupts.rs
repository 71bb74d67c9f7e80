//! Interrupts of each CPU that ended since its last switch: what they interrupted is certain when the CPU switches.

use crate::event::Interrupt;
use crate::slots::Slots;
use crate::spans::{CpuState, InterruptSpan};

/// Parts of interrupts of a CPU that wait for its switch. With more, its current state is taken as certain.
const MAX_PENDING: usize = 1 << 12;
/// Parts of all CPUs together, about 64 bytes each: 64 for each of 4,096 CPUs. A damaged file can name 65,536 CPUs.
const MAX_PENDING_OF_ALL: usize = 1 << 18;
/// Parts that a CPU's list keeps memory for.
const KEPT: usize = 8;

/// Pending interrupts of all CPUs.
#[derive(Debug, Default)]
pub(crate) struct PendingInterrupts {
    cpus: Slots<Pending>,
    /// Parts of all CPUs.
    count: usize,
}

impl PendingInterrupts {
    /// Adds an interrupt of a CPU. True: too many wait, and the caller has to hand out those of this CPU.
    pub(crate) fn add(&mut self, cpu: usize, interrupt: Interrupt, from_ns: u64, until_ns: u64) -> bool {
        let pending = self.cpus.at(cpu);
        let before = pending.len();
        pending.add(interrupt, from_ns, until_ns);
        self.count += pending.len() - before;
        pending.len() > MAX_PENDING || self.count > MAX_PENDING_OF_ALL
    }

    #[inline]
    pub(crate) fn has_any(&self, cpu: usize) -> bool {
        self.cpus.get(cpu).is_some_and(|pending| pending.len() > 0)
    }

    /// Hands out those of a CPU up to this time, as [`Pending::take`].
    pub(crate) fn take(&mut self, cpu: usize, until_ns: u64, out: &mut dyn FnMut(InterruptSpan)) {
        let pending = self.cpus.at(cpu);
        let before = pending.len();
        pending.take(until_ns, out);
        self.count -= before - pending.len();
    }
}

/// A time that is in parts from its start to its end.
#[derive(Copy, Clone, Debug)]
struct Covered {
    from_ns: u64,
    until_ns: u64,
}

/// Parts of a CPU's interrupts that do not overlap one another.
#[derive(Debug, Default)]
struct Pending {
    parts: Vec<InterruptSpan>,
    /// What they cover, ascending. An interrupt makes one of all that it was interrupted by: so each is read once, however many
    /// come one inside the other or at the same time.
    covered: Vec<Covered>,
    /// No part begins before this time: earlier ones were handed out.
    from_ns: u64,
}

impl Pending {
    /// Adds an interrupt. Those that it was interrupted by have been added before, and none ended later.
    fn add(&mut self, interrupt: Interrupt, from_ns: u64, until_ns: u64) {
        let mut from_ns = from_ns.max(self.from_ns).min(until_ns);
        let (first, mut end_ns) = (self.parts.len(), until_ns);
        while let Some(inside) = self.covered.pop_if(|covered| covered.from_ns >= from_ns) {
            if inside.until_ns < end_ns {
                self.push(interrupt, inside.until_ns, end_ns);
            }
            end_ns = inside.from_ns;
        }
        let before = self.covered.pop_if(|covered| covered.until_ns > from_ns);
        let covered_ns = before.map_or(from_ns, |before| before.from_ns);
        from_ns = before.map_or(from_ns, |before| before.until_ns.min(end_ns));
        if from_ns < end_ns {
            self.push(interrupt, from_ns, end_ns);
        } else if self.parts.len() == first {
            self.push(interrupt, until_ns, until_ns);
        }
        if let Some(earliest) = self.parts.last_mut() {
            earliest.is_first = true;
        }
        self.covered.push(Covered { from_ns: covered_ns, until_ns });
    }

    fn push(&mut self, interrupt: Interrupt, from_ns: u64, until_ns: u64) {
        let (cpu, state, slot) = (0, CpuState::Unknown, None);
        self.parts.push(InterruptSpan { cpu, interrupt, state, slot, from_ns, until_ns, is_first: false });
    }

    fn len(&self) -> usize {
        self.parts.len()
    }

    /// Hands out all up to this time, ascending, and cuts one that lasts longer. Where they were and what they interrupted is for the
    /// caller to set.
    fn take(&mut self, until_ns: u64, out: &mut dyn FnMut(InterruptSpan)) {
        self.from_ns = self.from_ns.max(until_ns);
        // Stable: those without any length are in front of what began with them.
        self.parts.sort_by_key(|part| part.from_ns);
        self.parts.retain_mut(|part| {
            if part.from_ns < until_ns || part.until_ns <= until_ns {
                out(InterruptSpan { until_ns: part.until_ns.min(until_ns), ..*part });
                if part.until_ns <= until_ns {
                    return false;
                }
                (part.from_ns, part.is_first) = (until_ns, false);
            }
            true
        });
        self.covered.retain_mut(|covered| {
            covered.from_ns = covered.from_ns.max(until_ns);
            covered.until_ns > until_ns
        });
        self.parts.shrink_to(KEPT);
        self.covered.shrink_to(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pending: &mut Pending, until_ns: u64) -> Vec<(Interrupt, u64, u64, bool)> {
        let mut parts = Vec::new();
        pending.take(until_ns, &mut |part| {
            parts.push((part.interrupt, part.from_ns, part.until_ns, part.is_first));
        });
        parts
    }

    #[test]
    fn what_interrupts_an_interrupt_is_taken_out_of_it() {
        let (soft, hard) = (Interrupt::Soft(3), Interrupt::Hard(9));
        let mut pending = Pending::default();
        pending.add(hard, 5, 8);
        pending.add(hard, 20, 22);
        pending.add(hard, 24, 25);
        pending.add(soft, 15, 30);
        assert_eq!(taken(&mut pending, 10), [(hard, 5, 8, true)]);
        assert_eq!(
            taken(&mut pending, 28),
            [
                (soft, 15, 20, true),
                (hard, 20, 22, true),
                (soft, 22, 24, false),
                (hard, 24, 25, true),
                (soft, 25, 28, false)
            ]
        );
        assert_eq!(taken(&mut pending, 99), [(soft, 28, 30, false)]);
        assert_eq!(pending.len(), 0);
        // What was handed out is not given away twice.
        pending.add(soft, 90, 110);
        assert_eq!(taken(&mut pending, 200), [(soft, 99, 110, true)]);
    }

    /// Each was compared with all that waited: up to 4,096.
    #[test]
    fn interrupts_at_one_time_and_inside_each_other_are_read_once() {
        for (passed_ns, ran_ns) in [(0, 0), (1, 8_000)] {
            let mut pending = Pending::default();
            for number in 0..4_000_u64 {
                pending.add(
                    Interrupt::Hard(1),
                    (number * passed_ns).saturating_sub(ran_ns),
                    number * passed_ns,
                );
                assert!(pending.covered.len() <= 2, "{}", pending.covered.len());
            }
            let parts = taken(&mut pending, 4_000);
            assert!(parts.len() == 4_000 && parts.iter().all(|part| part.3), "{}", parts.len());
        }
    }

    /// Each of 65,536 CPUs held up to 4,096: a file of 4 MB took 1.1 GB.
    #[test]
    fn interrupts_of_all_cpus_share_a_limit() {
        let mut pending = PendingInterrupts::default();
        for nth in 0..20 {
            for cpu in 0..0xffff {
                if pending.add(cpu, Interrupt::Hard(1), nth, nth) {
                    pending.take(cpu, nth, &mut |_| {});
                }
            }
        }
        let held: usize = pending.cpus.iter().map(Pending::len).sum();
        assert!(held == pending.count && held <= MAX_PENDING_OF_ALL, "{held}, counted {}", pending.count);
        assert!(held > MAX_PENDING_OF_ALL / 2, "{held}");
    }

    #[test]
    fn a_cpu_whose_interrupts_were_handed_out_keeps_little_memory() {
        let mut pending = PendingInterrupts::default();
        for nth in 0..1_000 {
            pending.add(3, Interrupt::Hard(1), nth * 10, nth * 10 + 5);
        }
        pending.take(3, 20_000, &mut |_| {});
        let cpu = pending.cpus.get(3).unwrap();
        assert!(cpu.parts.capacity() <= KEPT && cpu.covered.capacity() <= KEPT, "{cpu:?}");
        assert!(!pending.has_any(3) && pending.count == 0);
    }

    #[test]
    fn one_without_any_length_counts() {
        let mut pending = Pending::default();
        pending.add(Interrupt::Hard(1), 7, 7);
        assert_eq!(taken(&mut pending, 7), [(Interrupt::Hard(1), 7, 7, true)]);
    }
}
