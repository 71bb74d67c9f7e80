//! Feeds of a receiver's hosts, live and past: [`HubFeed`] asks this process's own receiver, [`RemoteFeed`] one elsewhere, over HTTP.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use cpumon_model::{HostId, HostStatus, Interval, Trust};
use cpumon_query::status::StoreState;
use cpumon_query::{Answers, DamageReport, Live, Seek};
use cpumon_receiver::hub::Hub;
use cpumon_tui::{Feed, FeedError};

use super::{FeedState, WaitingIntervals, age_of, failed, take_trace};
use crate::client::{Client, ClientError};
use crate::known_hosts::KnownHosts;

/// The hub, where its page is, the selected host, and the serial number of the last interval that was returned.
pub struct HubFeed {
    hub: Arc<Hub>,
    page_url: String,
    selected: Option<HostId>,
    handed_out: u64,
}

impl HubFeed {
    /// Shows this machine first, or else the first host by name.
    pub fn new(hub: Arc<Hub>, page_url: String) -> Self {
        Self { hub, page_url, selected: None, handed_out: 0 }
    }

    fn choose_first(&mut self) {
        if self.selected.is_none() {
            let hosts = self.hub.hosts();
            let local = hosts.iter().find(|host| host.trust == Trust::Local);
            self.selected = local.or(hosts.first()).map(|host| host.info.host);
        }
    }
}

/// The end is cut where there is little space, so problems come first.
fn title(store_error: Option<&str>, lost: u64, page_url: &str, udp: &str) -> String {
    let mut title = String::new();
    if store_error.is_some() {
        title.push_str("NOT STORING, ");
    }
    if lost > 0 {
        let _ = write!(title, "{lost} datagrams lost in the kernel, ");
    }
    let _ = write!(title, "page {page_url}, udp {udp}");
    if let Some(error) = store_error {
        let _ = write!(title, "; not storing: {error}");
    }
    title
}

impl Feed for HubFeed {
    fn title(&self) -> String {
        let status = self.hub.status();
        let failing = (status.store.state == StoreState::Failing).then_some(&*status.store.error);
        title(failing, status.receiver.kernel_dropped, &self.page_url, &status.udp.join(", "))
    }

    fn hosts(&self) -> Vec<HostStatus> {
        self.hub.hosts()
    }

    fn host(&self) -> Option<HostId> {
        self.selected
    }

    fn select(&mut self, host: HostId) {
        (self.selected, self.handed_out) = (Some(host), 0);
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        self.choose_first();
        let Some(host) = self.selected else { return Ok(None) };
        // The first interval is the newest: the screens begin with now, not with the oldest in memory.
        let next = if self.handed_out == 0 {
            self.hub.newest(host)
        } else {
            self.hub.after_serial(host, self.handed_out).into_iter().next()
        };
        Ok(next.map(|shown| {
            self.handed_out = shown.serial;
            self.hub.with_idle(host, &shown).interval
        }))
    }

    fn age(&self) -> Option<Duration> {
        let host = self.selected?;
        let status = self.hub.hosts().into_iter().find(|status| status.info.host == host)?;
        Some(age_of(status.received_wall_ns))
    }

    fn seek(&mut self, to: Seek) -> Result<Option<Arc<Interval>>, FeedError> {
        let Some(host) = self.selected else { return Ok(None) };
        let found = self.hub.seek(host, to).map_err(FeedError)?;
        Ok(found.map(|shown| self.hub.with_idle(host, &shown).interval))
    }

    fn damage(&self) -> DamageReport {
        self.hub.status().store.damage
    }

    fn store(&self) -> Option<PathBuf> {
        Some(PathBuf::from(self.hub.status().store.path)).filter(|path| !path.as_os_str().is_empty())
    }

    fn take_trace(&mut self) -> Result<String, FeedError> {
        let host = self.selected.ok_or_else(|| FeedError("no host is selected".to_owned()))?;
        let hub = &self.hub;
        let record = |length| hub.record_trace(host, length);
        take_trace(hub.trace_sources(host), record, || hub.take_trace(host))
    }
}

/// Time between two requests for the list of hosts.
const HOSTS_EVERY: Duration = Duration::from_secs(2);
/// The API rounds moments of stored data to less than this.
const NEAR_NS: i64 = 1_000_000;
/// Pause after a failed request, and between two questions whether a silent host reports again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The thread sends the requests, so that keys never wait for the network; it ends within one long poll after the feed is dropped.
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

    /// None if the receiver does not answer; the report of the damage asks once more, and names that error.
    fn damage(&self) -> DamageReport {
        self.client.status().map(|status| status.store.damage).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The screen cut the count of lost datagrams behind the address of the page.
    #[test]
    fn what_is_wrong_comes_first_in_the_title() {
        let of = |store_error, lost| title(store_error, lost, "http://127.0.0.1:3080/", "0.0.0.0:3001");
        assert_eq!(of(None, 0), "page http://127.0.0.1:3080/, udp 0.0.0.0:3001");
        assert!(of(None, 7).starts_with("7 datagrams lost in the kernel, page http"), "{}", of(None, 7));
        assert_eq!(
            of(Some("disk full"), 7),
            "NOT STORING, 7 datagrams lost in the kernel, page http://127.0.0.1:3080/, udp 0.0.0.0:3001; not storing: disk full"
        );
    }
}
