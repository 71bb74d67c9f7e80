//! [`RemoteFeed`]: a host of a receiver, over HTTP. A thread of its own sends the requests, so that keys never wait for the network.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use cpumon_model::{HostId, HostStatus, Interval};
use cpumon_query::{Answers, Seek};
use cpumon_tui::{Feed, FeedError};

use super::{FeedState, WaitingIntervals, failed, take_trace};
use crate::client::{Client, ClientError};
use crate::known_hosts::KnownHosts;

/// Time between two requests for the list of hosts.
const HOSTS_EVERY: Duration = Duration::from_secs(2);
/// The API rounds moments of stored data to less than this.
const NEAR_NS: i64 = 1_000_000;
/// Pause after a failed request, and between two questions whether a silent host reports again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The client and the state that its thread shares with the screens. The thread ends within one long poll after the feed is dropped.
#[derive(Debug)]
pub struct RemoteFeed {
    client: Client,
    shared: Arc<FeedState<RemoteState>>,
}

#[derive(Debug, Default)]
struct RemoteState {
    selected: HostId,
    known: KnownHosts,
    waiting: WaitingIntervals,
    /// When the newest interval arrived here, and its age then: of a silent host it is an old one.
    arrived: Option<(Instant, Duration)>,
}

impl RemoteFeed {
    pub fn start(client: Client, host: HostId) -> anyhow::Result<Self> {
        // The first request is made here, so that its error ends the command before a screen opens.
        let known = KnownHosts::read(&client)?;
        let shared = FeedState::new(RemoteState { selected: host, known, ..RemoteState::default() });
        let mut asker = Asker {
            client: client.clone(),
            shared: Arc::clone(&shared),
            host,
            after: 0,
            has_shown_stored: false,
            next_hosts: Instant::now(),
        };
        std::thread::Builder::new()
            .name("ask".to_owned())
            .spawn(move || asker.run())
            .context("cannot start the request thread")?;
        Ok(Self { client, shared })
    }
}

/// Asks for the intervals of the selected host until the feed is dropped.
struct Asker {
    client: Client,
    shared: Arc<FeedState<RemoteState>>,
    host: HostId,
    /// Serial number of the newest interval that is known; 0: none.
    after: u64,
    /// The end of the stored data was shown, because the host does not report.
    has_shown_stored: bool,
    next_hosts: Instant,
}

impl Asker {
    fn run(&mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let selected = self.shared.lock().selected;
            // The newest interval of the other host may have a lower number, and it is wanted at once.
            if selected != self.host {
                (self.host, self.after, self.has_shown_stored) = (selected, 0, false);
            }
            if let Err(error) = self.ask() {
                self.shared.lock().waiting.error = Some(error.to_string());
                // The receiver may have been restarted: its serial numbers start at 1 again.
                (self.after, self.next_hosts) = (0, Instant::now());
                std::thread::sleep(RETRY_AFTER);
            }
        }
    }

    fn ask(&mut self) -> Result<(), ClientError> {
        if Instant::now() >= self.next_hosts {
            let known = self.shared.lock().known.clone().again(&self.client)?;
            self.shared.lock().known = known;
            self.next_hosts = Instant::now() + HOSTS_EVERY;
        }
        let (status, is_reporting) = {
            let known = &self.shared.lock().known;
            (known.all().find(|known| known.info.host == self.host).cloned(), known.is_reporting(self.host))
        };
        match status {
            Some(status) if !is_reporting => self.ask_stored(&status),
            status => self.ask_newer(status.as_ref()),
        }
    }

    /// There is nothing to wait for but that it reports again.
    fn ask_stored(&mut self, status: &HostStatus) -> Result<(), ClientError> {
        let last = if self.has_shown_stored {
            None
        } else {
            self.client.seek(self.host, Seek::Before(status.last.wall_ns.saturating_add(NEAR_NS)))?
        };
        (self.after, self.has_shown_stored) = (0, true);
        self.arrive(last, Some(status));
        std::thread::sleep(RETRY_AFTER);
        Ok(())
    }

    fn ask_newer(&mut self, status: Option<&HostStatus>) -> Result<(), ClientError> {
        let newer = self.client.newer(self.host, self.after)?;
        // The first one may have arrived at the receiver long ago.
        let status = status.filter(|_| self.after == 0);
        self.after = newer.as_ref().map_or(self.after, |newer| newer.serial);
        self.arrive(newer.map(|newer| newer.interval), status);
        Ok(())
    }

    /// Hands an answer over. `status`: of the host whose newest interval is as old as it says.
    fn arrive(&self, interval: Option<Arc<Interval>>, status: Option<&HostStatus>) {
        let mut inner = self.shared.lock();
        inner.waiting.error = None;
        let Some(interval) = interval else { return };
        let age = status.map_or(Duration::ZERO, |status| inner.known.age(status));
        // The user may have chosen another host while this request waited.
        if inner.selected == self.host {
            inner.arrived = Some((Instant::now(), age));
            inner.waiting.push(interval);
        }
    }
}

impl Drop for RemoteFeed {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Feed for RemoteFeed {
    fn title(&self) -> String {
        format!("receiver {}", self.client.url())
    }

    fn hosts(&self) -> Vec<HostStatus> {
        self.shared.lock().known.all().cloned().collect()
    }

    fn host(&self) -> Option<HostId> {
        Some(self.shared.lock().selected)
    }

    fn select(&mut self, host: HostId) {
        let mut inner = self.shared.lock();
        inner.selected = host;
        inner.waiting.intervals.clear();
        inner.arrived = None;
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        self.shared.lock().waiting.poll()
    }

    fn age(&self) -> Option<Duration> {
        self.shared.lock().arrived.map(|(arrived, age)| arrived.elapsed().saturating_add(age))
    }

    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let host = self.shared.lock().selected;
        self.client.seek(host, to).map_err(failed)
    }

    fn answers(&self) -> Result<Option<Box<dyn Answers>>, FeedError> {
        Ok(Some(Box::new(self.client.clone())))
    }

    fn trace_command(&self, id: i64) -> String {
        format!("cpumon trace get {id} --url {} -o {id}.trace", self.client.url())
    }

    fn take_trace(&mut self) -> Result<String, FeedError> {
        let host = self.shared.lock().selected;
        let client = &self.client;
        let sources = client.trace_sources(host).map_err(failed)?;
        take_trace(sources, |length| client.record_trace(host, length), || client.take_trace(host))
    }
}
