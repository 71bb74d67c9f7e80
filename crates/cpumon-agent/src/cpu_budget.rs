//! [`CpuBudget`]: holds a sampler to its share of a CPU. It adds up the cost of this process and its probes after each snapshot,
//! and reopens the source with fewer or more probes when [`BudgetPolicy`] decides so.

use std::time::Duration;

use cpumon_collect::{CollectError, Source, SourceOptions};
use cpumon_model::{Probes, Snapshot};

use crate::budget_policy::{BudgetPolicy, CpuShare, ProbeChange};

pub(crate) type OpenSource =
    Box<dyn FnMut(&SourceOptions) -> Result<Box<dyn Source + Send>, CollectError> + Send>;

/// A policy, and the source options that it varies.
pub(crate) struct CpuBudget {
    policy: BudgetPolicy,
    options: SourceOptions,
    open: OpenSource,
    /// CPU time at the last snapshot; `None` before the first one.
    before: Option<Spent>,
    /// Since then another source was opened: that is no cost of its probes.
    has_opened: bool,
    change: Option<ProbeChange>,
    /// The kernel refused another source: no more changes are tried.
    is_stuck: bool,
}

/// CPU time spent up to a moment.
#[derive(Copy, Clone)]
struct Spent {
    at_mono_ns: u64,
    cpu_ns: u64,
}

impl CpuBudget {
    pub(crate) fn new(limit: CpuShare, options: &SourceOptions, open: OpenSource) -> Self {
        let policy = BudgetPolicy::new(limit, options.probes | Probes::EXITS);
        Self {
            policy,
            options: options.clone(),
            open,
            before: None,
            has_opened: false,
            change: None,
            is_stuck: false,
        }
    }

    /// Charges the cost since the last snapshot.
    pub(crate) fn update(&mut self, snapshot: &Snapshot, probe_cpu_ns: u64) {
        let now = Spent {
            at_mono_ns: snapshot.end.mono_ns,
            cpu_ns: snapshot.health.own_cpu_ns.saturating_add(probe_cpu_ns),
        };
        let Some(before) = self.before.replace(now) else {
            // CPU time of this process up to its first snapshot went into loading the probes.
            return self.policy.charge(Duration::ZERO, Duration::from_nanos(now.cpu_ns));
        };
        let length = Duration::from_nanos(now.at_mono_ns.saturating_sub(before.at_mono_ns));
        let used = Duration::from_nanos(now.cpu_ns.saturating_sub(before.cpu_ns));
        if std::mem::take(&mut self.has_opened) {
            return self.policy.charge(length, used);
        }
        let change = self.policy.update(length, used);
        self.change = change.filter(|_| !self.is_stuck);
    }

    /// How many of the wanted intervals lie between two snapshots.
    pub(crate) fn stretch(&self) -> u32 {
        self.policy.stretch()
    }

    /// A source with other probes, if the policy asked for a change.
    pub(crate) fn opened(&mut self) -> Option<Box<dyn Source + Send>> {
        let change = self.change.take()?;
        let (used, limit) = (change.used_ratio * 100.0, self.policy.limit());
        let options = SourceOptions { probes: change.probes, ..self.options.clone() };
        match (self.open)(&options) {
            Ok(source) => {
                let probes = name_of(change.step);
                let verb = if change.is_down { "off" } else { "on again" };
                log::warn!(
                    "measuring took {used:.2} % of one CPU, the limit is {limit}: {probes} switched {verb}"
                );
                self.has_opened = true;
                Some(source)
            }
            Err(error) => {
                log::warn!(
                    "measuring took {used:.2} % of one CPU, the limit is {limit}, and the probes cannot be changed: {error}"
                );
                self.is_stuck = true;
                None
            }
        }
    }
}

/// Subject and verb of a message about a probe.
fn name_of(step: Probes) -> &'static str {
    match step {
        Probes::HISTOGRAMS => "run-delay histograms are",
        Probes::WAKERS => "who ends waits is",
        Probes::WAITS => "wait reasons are",
        Probes::IRQ => "interrupts are",
        Probes::SCHED => "switches are",
        _ => "all probes are",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Mutex};

    use cpumon_model::{HostInfo, Moment, SourceHealth, SourceKind};

    use super::*;
    use crate::Sampler;
    use crate::budget_policy::STEPS;

    /// Costs a tenth of a CPU for each probe beyond exits; each snapshot advances its clock by a second.
    struct Costly {
        probes: Probes,
        clock: Arc<Mutex<(u64, u64)>>,
    }

    impl Source for Costly {
        fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
            into.clear();
            let mut clock = self.clock.lock().unwrap();
            let probes = u64::from((self.probes - Probes::EXITS).bits().count_ones());
            clock.0 += 1_000_000_000;
            clock.1 += probes * 100_000_000;
            into.is_complete = true;
            into.end = Moment { mono_ns: clock.0, ..Moment::default() };
            into.begin = into.end;
            into.health.own_cpu_ns = clock.1 / 2;
            into.health.probes = self.probes;
            Ok(())
        }

        fn probe_cpu_ns(&self) -> u64 {
            self.clock.lock().unwrap().1 / 2
        }
    }

    fn sampler(limit: &str, may_change: bool) -> Sampler {
        let probes = Probes::EXITS | Probes::SCHED | Probes::WAITS | Probes::IRQ;
        let options =
            SourceOptions { probes, interval: Duration::from_millis(100), ..SourceOptions::default() };
        let clock = Arc::new(Mutex::new((0, 0)));
        let source = Box::new(Costly { probes, clock: Arc::clone(&clock) });
        let mut sampler = Sampler::from_source(source, SourceKind::Bpf, HostInfo::default(), &options);
        let open = move |options: &SourceOptions| -> Result<Box<dyn Source + Send>, CollectError> {
            if !may_change {
                return Err(CollectError::Unsupported);
            }
            Ok(Box::new(Costly { probes: options.probes, clock: Arc::clone(&clock) }))
        };
        sampler.limit_cpu(limit.parse().unwrap(), &options, Box::new(open));
        // The value of its first snapshot, so that loading cost nothing: the test would have to wait for longer intervals.
        sampler.cpu_budget_mut().before = Some(Spent { at_mono_ns: 1_000_000_000, cpu_ns: 300_000_000 });
        sampler
    }

    #[test]
    fn what_was_used_before_the_first_snapshot_makes_the_next_intervals_longer() {
        let mut sampler = sampler("50%", true);
        sampler.cpu_budget_mut().before = None;
        let at = |seconds: u64, cpu_ms: u64| Snapshot {
            end: Moment { mono_ns: seconds * 1_000_000_000, ..Moment::default() },
            health: SourceHealth { own_cpu_ns: cpu_ms * 1_000_000, ..SourceHealth::default() },
            ..Snapshot::default()
        };
        let cpu_budget = sampler.cpu_budget_mut();
        cpu_budget.update(&at(100, 29_000), 0);
        assert_eq!(cpu_budget.stretch(), 1, "what a snapshot costs is not known yet");
        cpu_budget.update(&at(101, 29_400), 0);
        assert!(cpu_budget.stretch() > 1);
    }

    /// The probes of each step, and whether it was the first of a source.
    fn steps(sampler: &mut Sampler, count: usize) -> Vec<(Probes, bool)> {
        let stop = AtomicBool::new(false);
        (0..count)
            .map(|_| {
                let step = sampler.step(&stop).unwrap().unwrap();
                (step.snapshot.health.probes, step.is_first)
            })
            .collect()
    }

    #[test]
    fn probes_are_switched_off_until_the_rest_fits_the_budget() {
        // The probes take 0.3 of a CPU; a single one fits.
        let mut sampler = sampler("15%", true);
        let seen = steps(&mut sampler, 16);
        let all = Probes::EXITS | Probes::SCHED | Probes::WAITS | Probes::IRQ;
        assert_eq!(seen[0], (all, true));
        let firsts: Vec<(usize, Probes)> = seen
            .iter()
            .enumerate()
            .filter(|(_, (_, is_first))| *is_first)
            .map(|(at, (probes, _))| (at, *probes))
            .collect();
        // Two intervals above the limit, one more snapshot of the old source, then the new source.
        assert_eq!(firsts, [(0, all), (4, all - Probes::WAITS), (8, Probes::EXITS | Probes::SCHED)]);
        assert_eq!(seen[3], (all, false), "the old source ends the interval");
        assert_eq!(seen[15].0, Probes::EXITS | Probes::SCHED);
    }

    #[test]
    fn probes_are_switched_on_again_when_the_budget_allows() {
        // First above the limit, until only switches are left; then a limit that all probes fit, and one interval above it.
        let mut sampler = sampler("15%", true);
        steps(&mut sampler, 10);
        let cpu_budget = sampler.cpu_budget_mut();
        cpu_budget.policy =
            BudgetPolicy::new("100%".parse().unwrap(), Probes::EXITS | Probes::SCHED | Probes::IRQ);
        cpu_budget.policy.update(Duration::from_secs(3), Duration::from_secs(6));
        let seen = steps(&mut sampler, 20);
        assert_eq!(seen.last(), Some(&(Probes::EXITS | Probes::SCHED | Probes::IRQ, false)));
    }

    #[test]
    fn each_step_has_a_name() {
        for step in STEPS {
            assert_ne!(name_of(step), name_of(Probes::all()), "{step:?}");
        }
    }

    #[test]
    fn a_kernel_that_refuses_another_source_keeps_the_old_one() {
        let mut sampler = sampler("1%", false);
        let seen = steps(&mut sampler, 8);
        assert!(seen.iter().skip(1).all(|(probes, is_first)| probes.contains(Probes::WAITS) && !is_first));
    }
}
