//! Interrupts of a CPU that ended since its last switch: what they interrupted is certain when the CPU switches.

use cpumon_model::Interrupt;

/// A part of an interrupt in which no other interrupted it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) interrupt: Interrupt,
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
    pub(crate) is_first: bool,
}

/// Ascending by time, and none overlaps another.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    parts: Vec<Part>,
    /// Nothing is added in front of this.
    from_ns: u64,
}

impl Pending {
    /// Adds an interrupt. Those that it was interrupted by have been added before.
    pub(crate) fn add(&mut self, interrupt: Interrupt, from_ns: u64, until_ns: u64) {
        let mut from_ns = from_ns.max(self.from_ns).min(until_ns);
        let inside = self.parts.partition_point(|part| part.from_ns < from_ns);
        if let Some(before) = inside.checked_sub(1).map(|at| self.parts[at]) {
            from_ns = from_ns.max(before.until_ns).min(until_ns);
        }
        let (mut at, mut is_first) = (inside, true);
        while let Some(other) = self.parts.get(at).copied() {
            if other.from_ns > from_ns {
                self.parts.insert(at, Part { interrupt, from_ns, until_ns: other.from_ns, is_first });
                (at, is_first) = (at + 1, false);
            }
            from_ns = from_ns.max(other.until_ns);
            at += 1;
        }
        if from_ns < until_ns || is_first {
            self.parts.push(Part { interrupt, from_ns, until_ns: until_ns.max(from_ns), is_first });
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Hands out all up to this time, and cuts one that goes on.
    pub(crate) fn take(&mut self, until_ns: u64, out: &mut dyn FnMut(Part)) {
        self.from_ns = self.from_ns.max(until_ns);
        let mut left = 0;
        for at in 0..self.parts.len() {
            let mut part = self.parts[at];
            if part.from_ns < until_ns || part.until_ns <= until_ns {
                out(Part { until_ns: part.until_ns.min(until_ns), ..part });
                if part.until_ns <= until_ns {
                    continue;
                }
                (part.from_ns, part.is_first) = (until_ns, false);
            }
            self.parts[left] = part;
            left += 1;
        }
        self.parts.truncate(left);
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

    #[test]
    fn one_without_any_length_counts() {
        let mut pending = Pending::default();
        pending.add(Interrupt::Hard(1), 7, 7);
        assert_eq!(taken(&mut pending, 7), [(Interrupt::Hard(1), 7, 7, true)]);
    }
}
