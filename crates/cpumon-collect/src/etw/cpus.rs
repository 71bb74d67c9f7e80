//! CPUs by their events, in the place of the system's ticks: the modes of a CPU add up to the time between two instants. Only the split of run
//! time into user and system time, and interrupts without events, are taken from the ticks.

use std::collections::BTreeMap;

use cpumon_events::Accounts;
use cpumon_model::{CpuSample, CpuSched, CpuTimes};

use crate::split::Split;

/// Of one CPU: the system's times and the account when it was first seen, and the split since.
#[derive(Copy, Clone, Debug)]
struct Base {
    sampled: CpuTimes,
    account: CpuSample,
    split: Split,
    aside: [u64; 2],
}

/// Of all CPUs.
#[derive(Debug, Default)]
pub(super) struct CpuBases {
    cpus: BTreeMap<u32, Base>,
}

impl CpuBases {
    /// Turns the system's times into those of the events. Without events of interrupts, their sampled time is taken out of the run time.
    pub(super) fn fill(&mut self, accounts: &Accounts, has_interrupts: bool, cpus: &mut [CpuSample]) {
        for sample in cpus {
            let found = u16::try_from(sample.cpu).ok().and_then(|cpu| accounts.find_cpu(cpu));
            let Some(account) = found.copied() else { continue };
            let base = self.cpus.entry(sample.cpu).or_insert_with(|| Base {
                sampled: sample.times,
                account,
                split: Split::default(),
                aside: [0; 2],
            });
            *sample = base.sample(sample, &account, has_interrupts);
        }
    }
}

impl Base {
    fn sample(&mut self, sampled: &CpuSample, account: &CpuSample, has_interrupts: bool) -> CpuSample {
        let (now, then) = (&account.times, &self.account.times);
        let grown = |now: u64, then: u64| now.saturating_sub(then);
        let run_ns = grown(now.user_ns, then.user_ns);
        let ticks = |of: fn(&CpuTimes) -> u64| grown(of(&sampled.times), of(&self.sampled));
        let (user, system) = (ticks(|times| times.user_ns), ticks(|times| times.system_ns));
        let [irq_ns, softirq_ns] = if has_interrupts {
            [grown(now.irq_ns, then.irq_ns), grown(now.softirq_ns, then.softirq_ns)]
        } else {
            // Ticks may run ahead of the run time, and what was shown may not fall.
            let split_ns = self.split.user_ns + self.split.system_ns;
            let mut left = run_ns.saturating_sub(split_ns).saturating_sub(self.aside[0] + self.aside[1]);
            let wanted = [ticks(|times| times.irq_ns), ticks(|times| times.softirq_ns)];
            for (aside, wanted) in self.aside.iter_mut().zip(wanted) {
                let more = grown(wanted, *aside).min(left);
                (*aside, left) = (*aside + more, left - more);
            }
            self.aside
        };
        let own_ns = if has_interrupts { run_ns } else { run_ns.saturating_sub(irq_ns + softirq_ns) };
        self.split = self.split.advance(user, system, own_ns);
        CpuSample {
            cpu: sampled.cpu,
            times: CpuTimes {
                // From the system's values on: times are since its start, as in every source.
                user_ns: self.sampled.user_ns.saturating_add(self.split.user_ns),
                system_ns: self.sampled.system_ns.saturating_add(self.split.system_ns),
                idle_ns: self.sampled.idle_ns.saturating_add(grown(now.idle_ns, then.idle_ns)),
                irq_ns: self.sampled.irq_ns.saturating_add(irq_ns),
                softirq_ns: self.sampled.softirq_ns.saturating_add(softirq_ns),
                ..CpuTimes::default()
            },
            sched: CpuSched {
                unknown_ns: grown(account.sched.unknown_ns, self.account.sched.unknown_ns),
                ..account.sched
            },
        }
    }
}
