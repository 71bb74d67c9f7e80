//! [`Facts::in_front`]: which programs ran while the subject waited for a CPU.

use cpumon_model::{Fields, ProcessKey, WaitFor, WaitKind, WaitedOn};
use foldhash::{HashMap, HashMapExt};

use super::facts::{Facts, KeyTime, ProgramTime, by_program, longest_programs};
use super::part::scaled;
use super::states::{at_least_zero, ended_ns};

/// Share of idle CPUs above which a machine is not short of them: who ran says nothing of who was in front.
pub(super) const IDLE_CPUS: f64 = 0.25;
/// And above which one that is ready runs at once.
const MOSTLY_IDLE: f64 = 0.5;

impl Facts<'_> {
    /// How long it was ready. Where the CPUs were mostly idle, only waits that were followed count: with hundreds of switches a second, what
    /// Linux 6.12 and later count beside them has no bound.
    pub(super) fn delayed_at_cpus_ns(&self) -> u64 {
        let ready_ns = self.times.ready_ns();
        let is_followed = self.has(Fields::WAITS_FOR) && !self.now.has_sums;
        if is_followed && self.idle_share().is_some_and(|idle| idle > MOSTLY_IDLE) {
            ready_ns.min(ended_ns(self.now, self.rows, WaitKind::Ready))
        } else {
            ready_ns
        }
    }

    /// Programs behind which the subject waited for a CPU, the longest time first. Where that was not measured, the time is shared among
    /// those that ran, if the CPUs were not idle.
    pub(super) fn in_front(&self) -> Vec<ProgramTime> {
        let ready_ns = self.delayed_at_cpus_ns();
        let is_ready = |row: &&WaitFor| row.kind == WaitKind::Ready && self.rows.has(row.waiter);
        let known_ns =
            self.now.waits.iter().filter(is_ready).fold(0_u64, |sum, row| sum.saturating_add(row.ns));
        // A small part of the waits says nothing of the rest.
        let is_most = known_ns.saturating_mul(2) >= ready_ns;
        let scale = if is_most { ready_ns as f64 / known_ns.max(1) as f64 } else { 1.0 };
        let on = self.now.waits.iter().filter(is_ready).filter_map(|row| match row.on {
            WaitedOn::Process(key) => Some(KeyTime { key, ns: scaled(row.ns, scale) }),
            WaitedOn::Thread(_) => Some(KeyTime { key: row.waiter, ns: scaled(row.ns, scale) }),
            WaitedOn::Interrupt | WaitedOn::Others => None,
        });
        let known = by_program(self.now, on);
        if known_ns > 0 && (is_most || !known.is_empty()) {
            return longest_programs(known);
        }
        if self.idle_share().is_none_or(|idle| idle > IDLE_CPUS) {
            return Vec::new();
        }
        let mut all = self.ran_there();
        let ran_ns = all.iter().fold(0_u64, |sum, one| sum.saturating_add(one.ns)).max(1);
        // While a program runs, it is in front of each thread that waits, and of no more.
        let waiting = (ready_ns as f64 / self.now.length_ns.max(1) as f64).max(1.0);
        let scale = (ready_ns as f64 / ran_ns as f64).min(waiting);
        for one in &mut all {
            (one.ns, one.is_estimated) = (scaled(one.ns, scale), true);
            one.keys.iter_mut().for_each(|one| one.ns = scaled(one.ns, scale));
        }
        longest_programs(all)
    }

    /// What programs ran; where the subject ran on one CPU only, those that ran there. The subject is in its own way if it has several
    /// threads.
    fn ran_there(&self) -> Vec<ProgramTime> {
        let counts_own = self.rows.is_machine() || self.threads_of(|key| self.rows.has(key)).len() > 1;
        let cpus = self.cpus_of(|key| !self.rows.is_machine() && self.rows.has(key));
        let only = cpus.first().copied().filter(|_| cpus.len() == 1);
        // Whether a thread of the process ran on that CPU.
        let mut there: HashMap<ProcessKey, bool> = HashMap::new();
        for seen in self.threads.each.values().filter(|seen| seen.intervals > 0) {
            *there.entry(seen.process).or_default() |= only.is_some_and(|cpu| seen.cpus.contains(&cpu));
        }
        let was_there =
            |key: ProcessKey| only.is_none() || there.get(&key).is_none_or(|was_there| *was_there);
        let is_meant = |key: ProcessKey| (counts_own || !self.rows.has(key)) && was_there(key);
        let meant = self.now.processes.iter().filter(|(key, _)| is_meant(**key));
        let ran = meant.map(|(key, seen)| KeyTime { key: *key, ns: at_least_zero(seen.delta.run_ns) });
        by_program(self.now, ran)
    }
}
