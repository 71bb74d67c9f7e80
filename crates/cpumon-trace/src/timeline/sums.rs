//! What an area of the picture adds up to: a window of some CPUs or of some threads.

use std::collections::BTreeMap;

use cpumon_model::{Interrupt, WaitReason};

use super::index::Timeline;
use super::rows::{ThreadRow, ThreadTotals};
use crate::analysis::cpu::CpuAccount;

/// Sums of a window.
#[derive(Clone, Debug, Default)]
pub struct WindowSums {
    /// Its part that the index has, ns.
    pub from_ns: u64,
    /// To here.
    pub until_ns: u64,
    /// Each CPU. Switches are not counted.
    pub cpus: Vec<CpuAccount>,
    /// All threads together.
    pub totals: ThreadTotals,
    /// Blocked time by reason, ns, the most first.
    pub blocked: Vec<(WaitReason, u64)>,
}

impl Timeline {
    /// What a CPU did in a window, as a [`Report`](crate::Report) of that range counts it.
    fn cpu_account(&self, number: u16, from_ns: u64, until_ns: u64) -> Option<CpuAccount> {
        let parts = &self.cpu(number)?.parts;
        let times = parts.times_until(until_ns).since(&parts.times_until(from_ns));
        let mut account = CpuAccount {
            cpu: number,
            idle_ns: times.idle,
            run_ns: times.run,
            unknown_ns: times.unknown,
            ..CpuAccount::default()
        };
        let first = parts.interrupts.partition_point(|part| part.until_ns < from_ns);
        for part in parts.interrupts[first..].iter().take_while(|part| part.from_ns <= until_ns) {
            let ns = part.until_ns.min(until_ns).saturating_sub(part.from_ns.max(from_ns));
            let from = match part.who {
                super::cpus::IDLE => &mut account.idle_ns,
                super::cpus::UNKNOWN => &mut account.unknown_ns,
                _ => &mut account.run_ns,
            };
            let ns = ns.min(*from);
            *from -= ns;
            match part.interrupt {
                Interrupt::Hard(_) => account.irq_ns += ns,
                Interrupt::Soft(_) => account.softirq_ns += ns,
            }
        }
        let has = |at_ns: &u64| (from_ns..=until_ns).contains(at_ns);
        account.holes = parts.holes.iter().filter(|at_ns| has(at_ns)).count() as u64;
        let lost = parts.lost.iter().filter(|(at_ns, _)| has(at_ns));
        account.lost = lost.fold(0, |sum, (_, count)| sum.saturating_add(*count));
        Some(account)
    }

    /// Adds up a window. `rows` are [`Timeline::thread_rows`] of it, those that count.
    #[must_use]
    pub fn sums(
        &self,
        from_ns: u64,
        until_ns: u64,
        cpus: &dyn Fn(u16) -> bool,
        rows: &[ThreadRow],
    ) -> WindowSums {
        let (from_ns, until_ns) = self.clip(from_ns, until_ns);
        let mut sums = WindowSums { from_ns, until_ns, ..WindowSums::default() };
        let numbers = self.cpus().filter(|number| cpus(*number));
        sums.cpus = numbers.filter_map(|number| self.cpu_account(number, from_ns, until_ns)).collect();
        let mut blocked: BTreeMap<u16, u64> = BTreeMap::new();
        for row in rows {
            sums.totals.merge(&row.totals);
            if row.totals.blocked_ns == 0 {
                continue;
            }
            self.thread_totals(row.thread as usize, from_ns, until_ns, &mut |reason, ns| {
                let sum = blocked.entry(reason.0).or_default();
                *sum = sum.saturating_add(ns);
            });
        }
        sums.blocked = blocked.into_iter().map(|(reason, ns)| (WaitReason(reason), ns)).collect();
        sums.blocked.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        sums
    }
}
