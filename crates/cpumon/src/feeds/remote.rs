//! [`RemoteFeed`]: a host of a receiver, over HTTP. A thread of its own sends the requests, so that keys never wait for the network.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use cpumon_model::{HostId, HostStatus, Interval};
use cpumon_tui::{Feed, FeedError, HistoryPoint, RangeReport, ReportRequest, Subject};

use super::{Shared, points, ranges};
use crate::client::{Client, ClientError};

/// Most intervals that wait for the screens.
const MAX_WAITING: usize = 64;
/// Time between two requests for the list of hosts.
const HOSTS_EVERY: Duration = Duration::from_secs(2);
/// Pause after a failed request.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The client and what its thread shares with the screens. The thread ends within one long poll after the feed is dropped.
#[derive(Debug)]
pub struct RemoteFeed {
    client: Client,
    shared: Arc<Shared<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    selected: HostId,
    hosts: Vec<HostStatus>,
    waiting: VecDeque<Arc<Interval>>,
    arrived: Option<Instant>,
    error: Option<String>,
}

impl RemoteFeed {
    /// Starts to request intervals of `host`.
    pub fn start(client: Client, host: HostId) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::<Inner>::default());
        {
            // The first request is made here, so that its error ends the command before a screen opens.
            let hosts = client.hosts()?;
            let mut inner = shared.lock();
            (inner.selected, inner.hosts) = (host, hosts);
        }
        let (for_thread, asking) = (Arc::clone(&shared), client.clone());
        std::thread::Builder::new()
            .name("ask".to_owned())
            .spawn(move || ask(&asking, &for_thread))
            .context("cannot start the request thread")?;
        Ok(Self { client, shared })
    }
}

fn ask(client: &Client, shared: &Shared<Inner>) {
    let (mut host, mut after) = (shared.lock().selected, 0);
    let mut next_hosts = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        let selected = shared.lock().selected;
        // The newest interval of the other host may have a lower number, and it is wanted at once.
        if selected != host {
            (host, after) = (selected, 0);
        }
        if let Err(error) = ask_once(client, shared, host, &mut after, &mut next_hosts) {
            shared.lock().error = Some(error.to_string());
            // The receiver may have been restarted: its serial numbers start at 1 again.
            after = 0;
            std::thread::sleep(RETRY_AFTER);
        }
    }
}

fn ask_once(
    client: &Client,
    shared: &Shared<Inner>,
    host: HostId,
    after: &mut u64,
    next_hosts: &mut Instant,
) -> Result<(), ClientError> {
    if Instant::now() >= *next_hosts {
        let hosts = client.hosts()?;
        shared.lock().hosts = hosts;
        *next_hosts = Instant::now() + HOSTS_EVERY;
    }
    let newer = client.newer(host, *after)?;
    let mut inner = shared.lock();
    inner.error = None;
    let Some((serial, interval)) = newer else {
        return Ok(());
    };
    *after = serial;
    // The user may have chosen another host while this request waited.
    if inner.selected == host {
        inner.arrived = Some(Instant::now());
        inner.waiting.push_back(Arc::new(interval));
        while inner.waiting.len() > MAX_WAITING {
            inner.waiting.pop_front();
        }
    }
    Ok(())
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
        self.shared.lock().hosts.clone()
    }

    fn host(&self) -> Option<HostId> {
        Some(self.shared.lock().selected)
    }

    fn select(&mut self, host: HostId) -> Result<(), FeedError> {
        let mut inner = self.shared.lock();
        if !inner.hosts.iter().any(|known| known.info.host == host) {
            return Err(FeedError(format!("the receiver knows no host {host}")));
        }
        inner.selected = host;
        inner.waiting.clear();
        inner.arrived = None;
        Ok(())
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

    fn seek(&mut self, to: cpumon_tui::Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let host = self.shared.lock().selected;
        let found =
            self.client.seek(host, super::seek_of(to)).map_err(|error| FeedError(error.to_string()))?;
        Ok(found.map(Arc::new))
    }

    fn history(&mut self, of: Subject, wall_ns: Range<i64>) -> Result<Option<Vec<HistoryPoint>>, FeedError> {
        let host = self.shared.lock().selected;
        points::of_receiver(&self.client, host, of, &wall_ns)
    }

    fn report(&mut self, request: &ReportRequest) -> Result<RangeReport, FeedError> {
        let (host, name) = {
            let inner = self.shared.lock();
            let found = inner.hosts.iter().find(|known| known.info.host == inner.selected);
            (inner.selected, found.map_or_else(String::new, |known| known.info.hostname.to_string()))
        };
        ranges::of_receiver(&self.client, host, &name, request)
    }

    fn parse_time(&self, text: &str, shown_wall_ns: Option<i64>) -> Result<i64, FeedError> {
        super::parse_time(text, shown_wall_ns)
    }

    fn clock(&self) -> fn(i64) -> String {
        crate::when::show
    }
}
