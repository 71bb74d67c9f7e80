//! [`LocalFeed`]: this machine, measured by a thread of this process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use cpumon_agent::{Sampler, SamplerOptions};
use cpumon_collect::RetainedCapabilities;
use cpumon_model::{HostId, HostStatus, Interval, LossCounts, Trust};
use cpumon_query::report::ReportQuery;
use cpumon_tui::{Feed, FeedError, RangeReport};

use super::{Shared, past};
use crate::paths::store_for_reading;

/// Most intervals that wait for the screens. The oldest is dropped; the screens compute its time from the next.
const MAX_WAITING: usize = 64;

/// The measuring thread and what it shares with the screens.
#[derive(Debug)]
pub struct LocalFeed {
    shared: Arc<Shared<Inner>>,
    thread: Option<JoinHandle<()>>,
    title: String,
    host: HostId,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Arc<Interval>>,
    status: HostStatus,
    arrived: Option<Instant>,
    error: Option<String>,
}

impl LocalFeed {
    /// What the source does not see, and why: it is procfs although BPF would be taken where it is permitted, or /proc hides processes.
    /// `None` otherwise.
    #[must_use]
    pub fn what_is_missing(&self) -> Option<String> {
        let info = &self.shared.lock().status.info;
        let is_missing =
            info.source_reason.starts_with("procfs: no BPF") || info.hidden_processes().is_some();
        is_missing.then(|| info.source_reason.to_string())
    }

    /// Opens the source and starts measuring.
    pub fn start(options: &SamplerOptions) -> anyhow::Result<Self> {
        let sampler = Sampler::open(options).context("cannot measure this machine")?;
        // Before the measuring thread starts: it inherits the capabilities of this thread.
        cpumon_agent::give_up_rights(sampler.kind(), RetainedCapabilities::FILES);
        let shared = Arc::new(Shared::<Inner>::default());
        shared.lock().status = HostStatus {
            info: sampler.info().clone(),
            trust: Trust::Local,
            source: sampler.kind(),
            ..HostStatus::default()
        };
        let host = sampler.info().host;
        let title = format!("this machine, {}", sampler.info().source_reason);
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("measure".to_owned())
            .spawn(move || measure(sampler, &for_thread))
            .context("cannot start the measuring thread")?;
        Ok(Self { shared, thread: Some(thread), title, host })
    }
}

fn measure(mut sampler: Sampler, shared: &Shared<Inner>) {
    while !shared.stop.load(Ordering::Relaxed) {
        match sampler.step(&shared.stop) {
            Ok(None) => break,
            Ok(Some(step)) => {
                let interval = (!step.is_first).then(|| Arc::new(step.interval.clone()));
                let mut inner = shared.lock();
                let status = &mut inner.status;
                status.last = step.snapshot.end;
                status.received_wall_ns = cpumon_query::time::now_ns();
                status.thread_count = step.snapshot.thread_count;
                status.process_count = step.snapshot.process_count;
                status.loss = LossCounts { snapshots: status.loss.snapshots + 1, ..status.loss };
                inner.arrived = Some(Instant::now());
                inner.error = None;
                inner.waiting.extend(interval);
                while inner.waiting.len() > MAX_WAITING {
                    inner.waiting.pop_front();
                }
            }
            Err(error) => {
                shared.lock().error = Some(format!("cannot measure this machine: {error}"));
                // Parked, not asleep: `drop` ends the pause at once.
                std::thread::park_timeout(Duration::from_millis(50));
            }
        }
    }
}

impl Drop for LocalFeed {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                log::error!("the measuring thread panicked");
            }
        }
    }
}

impl Feed for LocalFeed {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn hosts(&self) -> Vec<HostStatus> {
        vec![self.shared.lock().status.clone()]
    }

    fn host(&self) -> Option<HostId> {
        Some(self.host)
    }

    fn select(&mut self, host: HostId) -> Result<(), FeedError> {
        if host == self.host {
            Ok(())
        } else {
            Err(FeedError(format!("this machine is the only host here, not {host}")))
        }
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        let mut inner = self.shared.lock();
        match (inner.waiting.pop_front(), &inner.error) {
            (None, Some(error)) => Err(FeedError(error.clone())),
            (interval, _) => Ok(interval),
        }
    }

    fn age(&self) -> Option<Duration> {
        self.shared.lock().arrived.map(|arrived| arrived.elapsed())
    }

    /// The rights to record were given up at the start.
    fn take_trace(&mut self) -> Result<String, FeedError> {
        Err(FeedError("`cpumon trace record --for 10s` in another terminal records this machine".to_owned()))
    }

    /// What `cpumon serve` stored of this machine: these screens alone keep minutes only.
    fn report(&mut self, query: &ReportQuery) -> Result<RangeReport, FeedError> {
        let store = store_for_reading(None);
        if !store.exists() {
            let text = "no store of this machine to add up; `cpumon serve` records one";
            return Err(FeedError(text.to_owned()));
        }
        past::report_of_store(&store, self.host, query)
    }
}
