//! Recorders mark where an interrupt begins and where it ends; a trace has it as one event, at its end.

use cpumon_model::Interrupt;

/// Interrupts of a CPU one inside the other. The kernel has two or three; an entry without an exit takes a place too.
const MAX_DEPTH: usize = 16;

/// Interrupts that have begun, by CPU.
#[derive(Debug, Default)]
pub(super) struct OpenInterrupts {
    cpus: Vec<Vec<(Interrupt, u64)>>,
}

impl OpenInterrupts {
    pub(super) fn enter(&mut self, cpu: u16, interrupt: Interrupt, at_ns: u64) {
        let cpu = usize::from(cpu);
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, Vec::new);
        }
        let open = &mut self.cpus[cpu];
        if open.len() == MAX_DEPTH {
            open.remove(0);
        }
        open.push((interrupt, at_ns));
    }

    /// How long it took; `None` if its begin was not recorded.
    pub(super) fn leave(&mut self, cpu: u16, interrupt: Interrupt, at_ns: u64) -> Option<u64> {
        let open = self.cpus.get_mut(usize::from(cpu))?;
        let at = open.iter().rposition(|(known, _)| *known == interrupt)?;
        let (_, since_ns) = open[at];
        // What began inside it ended there, unseen.
        open.truncate(at);
        at_ns.checked_sub(since_ns)
    }

    /// Events of the CPU were lost: what has begun may be another one that ends.
    pub(super) fn forget(&mut self, cpu: u16) {
        if let Some(open) = self.cpus.get_mut(usize::from(cpu)) {
            open.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_known_by_its_begin() {
        let (hard, soft) = (Interrupt::Hard(4), Interrupt::Soft(1));
        let mut open = OpenInterrupts::default();
        assert_eq!(open.leave(1, soft, 5), None, "it began before the trace");
        open.enter(1, soft, 10);
        open.enter(1, hard, 12);
        assert_eq!(open.leave(0, hard, 13), None, "another CPU");
        assert_eq!(open.leave(1, hard, 13), Some(1));
        assert_eq!(open.leave(1, soft, 20), Some(10));
        open.enter(1, soft, 30);
        open.enter(1, hard, 31);
        assert_eq!(open.leave(1, soft, 40), Some(10), "the exit of the hard one is missing");
        assert_eq!(open.leave(1, hard, 50), None);
        open.enter(1, soft, 60);
        open.forget(1);
        assert_eq!(open.leave(1, soft, 70), None);
        for at_ns in 0..100 {
            open.enter(1, hard, at_ns);
        }
        assert_eq!(open.cpus[1].len(), MAX_DEPTH);
    }
}
