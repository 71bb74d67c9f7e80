//! [`Sampler`]: a source, its schedule and the differ. Each step returns a snapshot, the one before it, and the interval between
//! them, in buffers that are reused. The agent, the receiver's own agent and `cpumon top` measure this machine with it.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cpumon_collect::{
    CollectError, Schedule, Source, SourceChoice, SourceOptions, give_large_lists_back, give_memory_back,
};
use cpumon_model::{HostInfo, Interval, Rows, Snapshot, SourceKind};

use crate::budget_policy::CpuShare;
use crate::cpu_budget::{CpuBudget, OpenSource};

#[derive(Clone, Debug, Default)]
pub struct SamplerOptions {
    pub source: SourceOptions,
    /// The name to report instead of the machine's own.
    pub hostname: Option<String>,
    /// The share of one CPU that measuring may use; above it probes are switched off, then snapshots are made less often.
    pub max_cpu: Option<CpuShare>,
}

/// Snapshots of a source after which all lists have their size: their earlier, smaller buffers can be freed.
const SETTLED: u64 = 3;

pub struct Sampler {
    source: Box<dyn Source + Send>,
    kind: SourceKind,
    schedule: Schedule,
    wanted_interval: Duration,
    info: HostInfo,
    previous: Snapshot,
    current: Snapshot,
    interval: Interval,
    rows: Rows,
    snapshots: u64,
    cpu_budget: Option<CpuBudget>,
    /// A source with other probes, which replaces the current one at the next step.
    next: Option<Box<dyn Source + Send>>,
}

/// One snapshot, and the interval since the one before. The end of one interval is the start of the next.
#[derive(Copy, Clone, Debug)]
pub struct SamplerStep<'a> {
    /// The snapshot before; empty at the first step.
    pub previous: &'a Snapshot,
    pub snapshot: &'a Snapshot,
    /// The interval between them. At the first step it is empty and flagged as a restart. Its threads are those of
    /// [`Sampler::set_rows`].
    pub interval: &'a Interval,
    /// Nothing was measured before: `previous` and `interval` are empty.
    pub is_first: bool,
}

impl Sampler {
    /// Opens the source. Nothing is measured yet.
    ///
    /// # Errors
    /// A forced source that cannot run, or a machine that cannot be measured at all.
    pub fn open(options: &SamplerOptions) -> Result<Self, CollectError> {
        // Opening a source frees some 5 MB of the kernel's type information. From then on the C library would put the
        // lists of all threads on its heap, where their outgrown buffers stay.
        give_large_lists_back();
        let opened = cpumon_collect::open(&options.source)?;
        // Probes that failed to load here are not tried again by the CPU budget.
        let source = SourceOptions { probes: opened.probes, ..options.source.clone() };
        let mut info = cpumon_collect::host_info(&options.source)?;
        info.source_reason = opened.reason.into();
        if let Some(hostname) = &options.hostname {
            info.hostname = hostname.as_str().into();
        }
        let mut sampler = Self::from_source(opened.source, opened.kind, info, &options.source);
        // Without probes to switch off, as with procfs, only the intervals get longer.
        if let Some(limit) = options.max_cpu {
            sampler.limit_cpu(limit, &source, Box::new(open_again));
        }
        Ok(sampler)
    }

    /// Limits the sampler to a share of one CPU; `open` opens a source with other probes.
    pub(crate) fn limit_cpu(&mut self, limit: CpuShare, source: &SourceOptions, open: OpenSource) {
        self.cpu_budget = Some(CpuBudget::new(limit, source, open));
    }

    /// With a source of the caller's own (a simulation, a test).
    pub fn from_source(
        source: Box<dyn Source + Send>,
        kind: SourceKind,
        info: HostInfo,
        options: &SourceOptions,
    ) -> Self {
        Self {
            source,
            kind,
            schedule: Schedule::new(options.interval),
            wanted_interval: Schedule::new(options.interval).interval(),
            info,
            previous: Snapshot::default(),
            current: Snapshot::default(),
            interval: Interval::default(),
            rows: Rows::All,
            snapshots: 0,
            cpu_budget: None,
            next: None,
        }
    }

    /// Sets which threads get a row in the following intervals [default: every thread].
    pub fn set_rows(&mut self, rows: Rows) {
        self.rows = rows;
    }

    /// Waits for the next point of the schedule (the first is at once) and measures. `None` once `stop` is set; the
    /// caller that sets it must unpark this thread. A change of probes is followed by a first step at once.
    ///
    /// # Errors
    /// The pass failed. The snapshot before it stays, so the next step that succeeds covers the gap.
    pub fn step(&mut self, stop: &AtomicBool) -> Result<Option<SamplerStep<'_>>, CollectError> {
        Ok(self.step_with_info(stop)?.map(|(_, step)| step))
    }

    #[cfg(test)]
    pub(crate) fn cpu_budget_mut(&mut self) -> &mut CpuBudget {
        self.cpu_budget.as_mut().unwrap()
    }

    fn advance(&mut self, stop: &AtomicBool) -> Result<bool, CollectError> {
        if let Some(source) = self.next.take() {
            self.take_over(source);
        } else if let Some(source) = self.cpu_budget.as_mut().and_then(CpuBudget::opened) {
            // One more snapshot by the old source while the new one already runs, so that no event is missed between them.
            self.next = Some(source);
        } else if self.schedule.wait(stop).stopped {
            return Ok(false);
        }
        // The older of the two buffers takes the new snapshot; they are swapped only when that worked.
        self.source.snapshot(&mut self.previous)?;
        self.schedule.count_into(&mut self.previous.health);
        std::mem::swap(&mut self.previous, &mut self.current);
        self.interval.fill_rows(&self.previous, &self.current, self.rows);
        self.snapshots += 1;
        if self.snapshots == SETTLED {
            give_memory_back();
        }
        // While a replacement waits, two sources run. Their joint cost must not cause another change of
        // probes.
        if let (Some(cpu_budget), None) = (&mut self.cpu_budget, &self.next) {
            cpu_budget.update(&self.current, self.source.probe_cpu_ns());
            let interval = self.wanted_interval * cpu_budget.stretch();
            self.set_interval(interval);
        }
        Ok(true)
    }

    /// Makes snapshots in this distance from now on; the data say so.
    fn set_interval(&mut self, interval: Duration) {
        if interval == self.schedule.interval() {
            return;
        }
        log::warn!("to stay within --max-cpu a snapshot is made every {interval:?} from now on");
        self.schedule.set_interval(interval);
        self.info.interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Time between two snapshots now: longer than asked for where nothing else holds the CPU budget.
    pub fn interval(&self) -> Duration {
        self.schedule.interval()
    }

    /// Replaces the source. The snapshots are cleared, because the counters of the new source start at another base.
    fn take_over(&mut self, source: Box<dyn Source + Send>) {
        // The old source is dropped here; its memory would otherwise stay with the C library beside that of the new one.
        self.source = source;
        give_memory_back();
        self.previous.clear();
        self.current.clear();
        // Makes the next step a first one: the agent then reports another start to receivers.
        self.snapshots = 0;
    }

    fn last_step(&self) -> SamplerStep<'_> {
        SamplerStep {
            previous: &self.previous,
            snapshot: &self.current,
            interval: &self.interval,
            is_first: self.snapshots == 1,
        }
    }

    /// [`Sampler::step`] together with [`Sampler::info`], which the step's borrow would forbid.
    ///
    /// # Errors
    /// As [`Sampler::step`].
    pub fn step_with_info(
        &mut self,
        stop: &AtomicBool,
    ) -> Result<Option<(&HostInfo, SamplerStep<'_>)>, CollectError> {
        if !self.advance(stop)? {
            return Ok(None);
        }
        Ok(Some((&self.info, self.last_step())))
    }

    pub fn last_interval(&self) -> &Interval {
        &self.interval
    }

    pub fn kind(&self) -> SourceKind {
        self.kind
    }

    /// This machine, with the reason why this source was chosen.
    pub fn info(&self) -> &HostInfo {
        &self.info
    }
}

/// Opens the same source with other probes.
fn open_again(options: &SourceOptions) -> Result<Box<dyn Source + Send>, CollectError> {
    // Not `Auto`: a fallback to /proc would change the counters. A failure leaves the current source in
    // place.
    cpumon_collect::open(&SourceOptions { choice: SourceChoice::Bpf, ..options.clone() })
        .map(|opened| opened.source)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use cpumon_model::{Counters, Flags, HostId, Moment, ThreadKey, ThreadSample};

    use super::*;

    /// One thread that runs 1 ms a pass; the pass numbered `fails` fails.
    struct Steady {
        pass: u64,
        fails: Option<u64>,
    }

    impl Source for Steady {
        fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
            self.pass += 1;
            into.clear();
            if self.fails == Some(self.pass) {
                return Err(CollectError::Unsupported);
            }
            into.host = HostId([1; 16]);
            into.is_complete = true;
            into.sequence = self.pass;
            into.end = Moment { mono_ns: self.pass * 1_000_000_000, boot_ns: 0, wall_ns: 0 };
            into.begin = into.end;
            let counters = Counters { run_ns: self.pass * 1_000_000, ..Counters::default() };
            let key = ThreadKey { tid: 7, start_ns: 7 };
            into.threads.push(ThreadSample { key, counters, ..ThreadSample::default() });
            into.thread_count = 1;
            Ok(())
        }
    }

    fn sampler(fails: Option<u64>) -> Sampler {
        let options = SourceOptions { interval: Duration::from_millis(100), ..SourceOptions::default() };
        let source = Box::new(Steady { pass: 0, fails });
        Sampler::from_source(source, SourceKind::Simulated, HostInfo::default(), &options)
    }

    #[test]
    fn the_first_step_has_no_interval_and_the_second_has() {
        let (stop, mut sampler) = (AtomicBool::new(false), sampler(None));
        let first = sampler.step(&stop).unwrap().unwrap();
        assert!(first.is_first && first.previous.threads.is_empty());
        assert!(first.interval.flags.contains(Flags::RESTART) && first.interval.threads.is_empty());
        assert_eq!(first.snapshot.threads.len(), 1);
        let second = sampler.step(&stop).unwrap().unwrap();
        assert!(!second.is_first);
        assert_eq!((second.previous.sequence, second.snapshot.sequence), (1, 2));
        assert_eq!(second.interval.threads[0].delta.run_ns, 1_000_000);
    }

    #[test]
    fn a_failed_pass_leaves_no_gap() {
        let (stop, mut sampler) = (AtomicBool::new(false), sampler(Some(3)));
        sampler.step(&stop).unwrap();
        sampler.step(&stop).unwrap();
        assert!(sampler.step(&stop).is_err());
        let after = sampler.step(&stop).unwrap().unwrap();
        assert_eq!((after.previous.sequence, after.snapshot.sequence), (2, 4));
        assert_eq!(after.interval.threads[0].delta.run_ns, 2_000_000);
        assert_eq!(after.interval.duration_ns(), 2_000_000_000);
    }

    #[test]
    fn a_set_flag_ends_it_without_measuring() {
        let (stop, mut sampler) = (AtomicBool::new(true), sampler(Some(1)));
        assert!(sampler.step(&stop).unwrap().is_none());
    }

    #[test]
    fn late_and_skipped_intervals_are_in_the_snapshot() {
        let (stop, mut sampler) = (AtomicBool::new(false), sampler(None));
        sampler.step(&stop).unwrap();
        std::thread::sleep(Duration::from_millis(350));
        let step = sampler.step(&stop).unwrap().unwrap();
        assert!(step.snapshot.health.intervals_skipped >= 2, "{:?}", step.snapshot.health);
        assert_eq!(step.interval.health, step.snapshot.health);
    }

    #[test]
    fn a_source_without_probes_is_limited_by_longer_intervals() {
        // Linux knows the first name, Windows the second.
        let choice = ["procfs", "nt"].into_iter().find_map(|name| name.parse().ok()).unwrap();
        let source =
            SourceOptions { choice, interval: Duration::from_millis(100), ..SourceOptions::default() };
        // Their snapshots take more than 10 µs of each interval.
        let max_cpu = Some("0.01%".parse().unwrap());
        let options = SamplerOptions { source, hostname: None, max_cpu };
        let mut sampler = Sampler::open(&options).unwrap();
        let stop = AtomicBool::new(false);
        let begin = Instant::now();
        // Windows counts its CPU time in ticks, each longer than some snapshots.
        while sampler.cpu_budget_mut().stretch() == 1 {
            assert!(begin.elapsed() < Duration::from_secs(20), "the limit does not hold");
            sampler.step(&stop).unwrap().unwrap();
        }
    }
}
