//! [`LocalFeed`]: this machine, measured by a thread of this process.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use cpumon_agent::{Sampler, SamplerOptions};
use cpumon_collect::RetainedCapabilities;
use cpumon_model::{HostId, HostStatus, Interval, LossCounts, Trust};
use cpumon_query::Answers;
use cpumon_tui::{Feed, FeedError};

use super::{FeedState, WaitingIntervals};
use crate::paths::store_for_reading;

/// The measuring thread and the state that it shares with the screens.
#[derive(Debug)]
pub struct LocalFeed {
    shared: Arc<FeedState<LocalState>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct LocalState {
    waiting: WaitingIntervals,
    status: HostStatus,
    arrived: Option<Instant>,
}

impl LocalFeed {
    /// The data that the source cannot see, and why: it is procfs although BPF would be used where it is permitted, or
    /// /proc hides processes. `None` otherwise.
    pub fn what_is_missing(&self) -> Option<String> {
        let info = &self.shared.lock().status.info;
        let is_missing =
            info.source_reason.starts_with("procfs: no BPF") || info.hidden_processes().is_some();
        is_missing.then(|| info.source_reason.to_string())
    }

    pub fn start(options: &SamplerOptions) -> anyhow::Result<Self> {
        let sampler = Sampler::open(options).context("cannot measure this machine")?;
        // Before the measuring thread starts: it inherits the capabilities of this thread.
        cpumon_agent::give_up_rights(sampler.kind(), RetainedCapabilities::FILES);
        let status = HostStatus {
            info: sampler.info().clone(),
            trust: Trust::Local,
            source: sampler.kind(),
            ..HostStatus::default()
        };
        let shared = FeedState::new(LocalState { status, ..LocalState::default() });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("measure".to_owned())
            .spawn(move || measure(sampler, &for_thread))
            .context("cannot start the measuring thread")?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

fn measure(mut sampler: Sampler, shared: &FeedState<LocalState>) {
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
                inner.waiting.error = None;
                if let Some(interval) = interval {
                    inner.waiting.push(interval);
                }
            }
            Err(error) => {
                shared.lock().waiting.error = Some(format!("cannot measure this machine: {error}"));
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
        format!("this machine, {}", self.shared.lock().status.info.source_reason)
    }

    fn hosts(&self) -> Vec<HostStatus> {
        vec![self.shared.lock().status.clone()]
    }

    fn host(&self) -> Option<HostId> {
        Some(self.shared.lock().status.info.host)
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        self.shared.lock().waiting.poll()
    }

    fn age(&self) -> Option<Duration> {
        self.shared.lock().arrived.map(|arrived| arrived.elapsed())
    }

    /// The rights to record were given up at the start.
    fn take_trace(&mut self) -> Result<String, FeedError> {
        let how = "x works with a receiver only (--url). Here, run `cpumon trace record --for 10s` in another \
                   terminal.";
        Err(FeedError(how.to_owned()))
    }

    /// The store of `cpumon serve` for this machine: these screens alone keep minutes only.
    fn store(&self) -> Option<PathBuf> {
        Some(store_for_reading(None)).filter(|store| store.exists())
    }

    /// Only a report gives the reason why the store cannot be read: the store is not these screens', and often another user's.
    fn past(&self) -> Result<Option<Box<dyn Answers>>, FeedError> {
        Ok(self.answers().unwrap_or_default())
    }
}
