//! [`Keeper`]: holds a sampler to its CPU budget. In: what each snapshot cost, this process and the probes together. Out: a
//! source that watches less, or more, when it is time. Why apart: [`Budget`] decides, this acts.

use std::time::Duration;

use cpumon_collect::{CollectError, Source, SourceOptions};
use cpumon_model::{Probes, Snapshot};

use crate::{Budget, Change, CpuShare};

/// Opens a source with other options.
pub(crate) type Opener =
    Box<dyn FnMut(&SourceOptions) -> Result<Box<dyn Source + Send>, CollectError> + Send>;

/// See the module.
pub(crate) struct Keeper {
    budget: Budget,
    options: SourceOptions,
    open: Opener,
    /// Cost and time at the last snapshot; none right after a change: opening is not measuring.
    before: Option<(u64, u64)>,
    change: Option<Change>,
    /// The kernel refused to watch something else.
    is_stuck: bool,
}

impl Keeper {
    pub(crate) fn new(limit: CpuShare, options: &SourceOptions, open: Opener) -> Self {
        let budget = Budget::new(limit, options.probes | Probes::EXITS);
        Self { budget, options: options.clone(), open, before: None, change: None, is_stuck: false }
    }

    /// Takes in what there was up to this snapshot.
    pub(crate) fn look(&mut self, snapshot: &Snapshot, probe_cpu_ns: u64) {
        let now = (snapshot.end.mono_ns, snapshot.health.own_cpu_ns.saturating_add(probe_cpu_ns));
        let Some((then_ns, spent_ns)) = self.before.replace(now) else { return };
        if self.is_stuck {
            return;
        }
        let length = Duration::from_nanos(now.0.saturating_sub(then_ns));
        self.change = self.budget.look(length, Duration::from_nanos(now.1.saturating_sub(spent_ns)));
    }

    /// A source that watches something else, if it is time for one.
    pub(crate) fn opened(&mut self) -> Option<Box<dyn Source + Send>> {
        let change = self.change.take()?;
        let (used, limit) = (change.used_ratio * 100.0, self.budget.limit());
        let options = SourceOptions { probes: change.probes, ..self.options.clone() };
        match (self.open)(&options) {
            Ok(source) => {
                let (what, how) = (name_of(change.step), if change.is_down { "no longer" } else { "again" });
                log::warn!(
                    "measuring took {used:.2} % of one CPU, the limit is {limit}: {what} {how} watched"
                );
                self.before = None;
                Some(source)
            }
            Err(error) => {
                log::warn!(
                    "measuring took {used:.2} % of one CPU, the limit is {limit}, and nothing can be given up: {error}"
                );
                self.is_stuck = true;
                None
            }
        }
    }
}

/// A probe in words.
fn name_of(step: Probes) -> &'static str {
    match step {
        Probes::HISTOGRAMS => "run-delay histograms are",
        Probes::WAITS => "wait reasons are",
        Probes::IRQ => "interrupts are",
        Probes::SCHED => "switches are",
        _ => "probes are",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Mutex};

    use cpumon_model::{HostInfo, Moment, SourceKind};

    use super::*;
    use crate::Sampler;

    /// Costs a tenth of a CPU for each probe beyond exits; time passes as told.
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
        sampler.keep_to(limit.parse().unwrap(), &options, Box::new(open));
        sampler
    }

    /// What each step was measured with, and whether it began anew.
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
    fn it_watches_less_until_it_fits_and_the_old_source_looks_once_more() {
        // 0.3 of a CPU by the probes; one of them alone fits.
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
        // Two intervals too dear, one more look, then the other source.
        assert_eq!(firsts, [(0, all), (4, all - Probes::WAITS), (8, Probes::EXITS | Probes::SCHED)]);
        assert_eq!(seen[3], (all, false), "the old one sees it out");
        assert_eq!(seen[15].0, Probes::EXITS | Probes::SCHED);
    }

    #[test]
    fn it_watches_more_again_when_there_is_room() {
        // First too much, until switches are left; then a limit that all fits below, and one moment above it.
        let mut sampler = sampler("15%", true);
        steps(&mut sampler, 10);
        let keeper = sampler.keeper_mut();
        keeper.budget = Budget::new("100%".parse().unwrap(), Probes::EXITS | Probes::SCHED | Probes::IRQ);
        keeper.budget.look(Duration::from_secs(3), Duration::from_secs(6));
        let seen = steps(&mut sampler, 20);
        assert_eq!(seen.last(), Some(&(Probes::EXITS | Probes::SCHED | Probes::IRQ, false)));
    }

    #[test]
    fn a_kernel_that_refuses_is_measured_on_as_before() {
        let mut sampler = sampler("1%", false);
        let seen = steps(&mut sampler, 8);
        assert!(seen.iter().skip(1).all(|(probes, is_first)| probes.contains(Probes::WAITS) && !is_first));
    }
}
