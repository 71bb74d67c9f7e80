//! The live hub: what every frontend sees of a running receiver. In: intervals from the receiving thread and the local agent.
//! Out: hosts, the newest minutes of each, and the receiver's own state. Why: showing must never wait for storing.
//!
//! Memory is bounded: each host keeps its newest `KEEP` at most, all hosts together about [`HubOptions::max_bytes`]. A quarter is for hosts
//! that nothing is known of: they cannot make the others' past shorter. Every other host keeps its newest interval in any case. Older
//! intervals are read from the store. Lists of the processes without rows are counted apart ([`HubOptions::max_process_bytes`]), so that
//! they make no host's past shorter.

mod presence;
mod recent;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cpumon_model::{HostId, HostInfo, HostStatus, IdleProcess, Interval, Trust};
use cpumon_query::metrics::{CountedHost, HostMetrics, Metrics, MetricsFormat, MetricsOptions};
use cpumon_query::status::Status;
use cpumon_query::{Bell, HostRecord, Live, Seek, Shown, TraceSources};

use self::presence::{Presence, Then};
use self::recent::{bytes_of_interval, find_recent};
use crate::lock;
use crate::traces::{AskError, OwnTraces, Requests};

/// How much of the recent past is kept, by the times of intervals.
const KEEP: Duration = Duration::from_mins(10);
/// Hosts that are not authenticated share one part in `UNAUTHENTICATED_PART` of the memory.
const UNAUTHENTICATED_PART: usize = 4;
/// They share one part in `UNAUTHENTICATED_PART_OF_LISTS` of the memory for lists of processes: a host of 300 processes takes some 150 kB.
const UNAUTHENTICATED_PART_OF_LISTS: usize = 2;
/// Hosts that are not authenticated lose their recent past after this silence, ns, while they hold more than `FORGET_ABOVE_BYTES` together.
const FORGET_AFTER_NS: i64 = 50_000_000_000;
/// Hosts that are not authenticated may hold this much together before silent ones lose their recent past, bytes.
const FORGET_ABOVE_BYTES: usize = 4 << 20;

/// What a user can do about a host without traces.
const NO_TRACE_STORE: &str = "This receiver stores no traces: it needs a store, and --trace-bytes above 0.";
const NOT_ENROLLED: &str = "Traces come from enrolled devices: `cpumon token` enrols one; its agent needs --flight-recorder 30s --flight-dir DIR.";

#[derive(Copy, Clone, Debug)]
pub struct HubOptions {
    /// Memory for intervals, bytes; shared out evenly among the hosts.
    pub max_bytes: usize,
    /// Memory for the processes that are there, idle ones too, bytes: of hosts whose intervals have no rows of those. Shared out like
    /// the memory for intervals. A host that would take more has no rows of idle processes.
    pub max_process_bytes: usize,
    /// Hosts kept; the one that was silent longest gives way to a new one.
    pub max_hosts: usize,
    /// What is counted for Prometheus.
    pub metrics: MetricsOptions,
}

impl Default for HubOptions {
    fn default() -> Self {
        let metrics = MetricsOptions::default();
        Self { max_bytes: 64 << 20, max_process_bytes: 96 << 20, max_hosts: 4096, metrics }
    }
}

/// Finds a past interval outside of the hub's memory: in the store.
pub type Past = Box<dyn Fn(HostId, Seek) -> Result<Option<Interval>, String> + Send + Sync>;

pub type Statuses = Box<dyn Fn() -> Status + Send + Sync>;

/// The recent past of each host in memory, shared by the threads that write and the frontends that read.
pub struct Hub {
    options: HubOptions,
    inner: Mutex<HubState>,
    metrics: Metrics,
    /// Whether metrics were asked for: before, nothing is counted, and they take no memory.
    is_scraped: AtomicBool,
    /// What hosts were, and how their data came in, before the receiver started.
    stored: HashMap<HostId, (HostInfo, Trust)>,
    bell: Bell,
    past: Past,
    status: Statuses,
    /// `None`: no traces are taken.
    requests: Option<Arc<Requests>>,
    /// Recorders of this machine, where a trace store takes what they write.
    own: Option<Arc<OwnTraces>>,
}

#[derive(Default)]
struct HubState {
    hosts: HashMap<HostId, HubHost>,
    serial: u64,
}

#[derive(Default)]
struct HubHost {
    status: HostStatus,
    recent: VecDeque<Shown>,
    /// Memory of the recent intervals, bytes.
    bytes: usize,
    /// Number of the newest interval.
    number: u64,
    presence: Presence,
    /// Locked alone, so that no scrape holds up the hub. They end with the host; `None` before the first scrape.
    counted: Option<Arc<Mutex<HostMetrics>>>,
}

/// What all hosts of one kind of trust share.
struct TrustShare {
    is_trusted: bool,
    bytes: usize,
}

fn is_trusted(status: &HostStatus) -> bool {
    status.trust.is_trusted()
}

/// Whether a host has sent no description yet: it goes by its id, if by anything.
pub(crate) fn is_undescribed(info: &HostInfo) -> bool {
    info.hostname.is_empty()
        || info.agent.is_empty() && info.cpu_count == 0 && *info.hostname == *info.host.to_string()
}

impl Hub {
    /// An empty hub. `past` answers for moments that are out of memory, `status` for the receiver.
    pub fn new(options: HubOptions, past: Past, status: Statuses) -> Self {
        let (stored, bell, metrics) = (HashMap::new(), Bell::default(), Metrics::new(options.metrics));
        let (inner, is_scraped) = (Mutex::default(), AtomicBool::new(false));
        Self { options, inner, metrics, is_scraped, stored, bell, past, status, requests: None, own: None }
    }

    /// Users may ask devices for traces, and may have this machine recorded.
    pub(crate) fn with_traces(self, requests: Option<Arc<Requests>>, own: Option<Arc<OwnTraces>>) -> Self {
        Self { requests, own, ..self }
    }

    fn own_traces(&self, host: HostId) -> Option<&Arc<OwnTraces>> {
        self.own.as_ref().filter(|own| own.host == host)
    }

    /// With the descriptions that a store has of hosts: an agent repeats its own now and then only.
    #[must_use]
    pub fn with_stored(mut self, hosts: Vec<HostRecord>) -> Self {
        let hosts = hosts.into_iter().map(|record| (record.info.host, (record.info, record.trust)));
        self.stored = hosts.collect();
        self
    }

    /// A status as it is shown: until its description arrives, a host has that of the store. Not one whose data comes in by a way that is
    /// trusted less: it could be another machine that gives this id.
    fn described(&self, status: &HostStatus) -> HostStatus {
        let mut status = status.clone();
        if is_undescribed(&status.info) {
            self.describe(&mut status);
        }
        status
    }

    /// Gives a host its description of the store, if there is one.
    pub(crate) fn describe(&self, status: &mut HostStatus) {
        let stored = self.stored.get(&status.info.host);
        if let Some((info, _)) = stored.filter(|(_, trust)| trust.rank() <= status.trust.rank()) {
            status.info = HostInfo { boot: status.info.boot, ..info.clone() };
        }
    }

    /// The share of `bytes` for the hosts of one kind of trust. Hosts that are not authenticated have one part in `part`.
    fn share(is_trusted: bool, bytes: usize, part: usize) -> TrustShare {
        let unauthenticated = bytes / part;
        TrustShare { is_trusted, bytes: if is_trusted { bytes - unauthenticated } else { unauthenticated } }
    }

    /// Takes an interval and shows it to all that wait.
    pub fn put(&self, status: &HostStatus, interval: Arc<Interval>) {
        self.put_listed(status, interval, None);
    }

    /// Takes an interval. `idle`: all processes without a row in it that are there; now and then a device's interval comes with them.
    pub fn put_listed(&self, status: &HostStatus, interval: Arc<Interval>, idle: Option<&[IdleProcess]>) {
        let measured = Arc::clone(&interval);
        let (serial, counted) = 'put: {
            let mut inner = lock(&self.inner);
            inner.serial += 1;
            let serial = inner.serial;
            let id = status.info.host;
            let share = Self::share(is_trusted(status), self.options.max_bytes, UNAUTHENTICATED_PART);
            if !inner.hosts.contains_key(&id)
                && inner.hosts.len() >= self.options.max_hosts
                && !inner.forget_most_silent(share.is_trusted)
            {
                return;
            }
            // One more, for the host that may be new with this interval.
            let budget = share.bytes / (inner.hosts_of(&share).count() + 1);
            let host = inner.hosts.entry(id).or_default();
            host.status = self.described(status);
            if self.is_scraped.load(Ordering::Relaxed) {
                host.count(&self.metrics);
            }
            let counted = host.counted.clone();
            host.number += 1;
            let shown = Shown { serial, number: host.number, interval };
            // Before it is there: with it the others would take more than they may.
            let bytes = host.bytes_with(&shown.interval);
            host.make_space(bytes, &shown.interval, budget);
            if !share.is_trusted && !inner.make_space(bytes, &share) {
                // Who began or ended in it is not known.
                inner.hosts.entry(id).or_default().presence.forget();
                break 'put (None, counted);
            }
            let host = inner.hosts.entry(id).or_default();
            let before = host.presence.bytes;
            host.presence.push(&shown.interval, idle);
            host.push(shown);
            if host.presence.bytes > before {
                let bytes = self.options.max_process_bytes;
                let share = Self::share(share.is_trusted, bytes, UNAUTHENTICATED_PART_OF_LISTS);
                // Of the largest list the past goes first.
                inner.limit(&share, |_| true, |host| host.presence.bytes, |host| host.presence.shrink());
            }
            (Some(serial), counted)
        };
        if let Some(counted) = counted {
            lock(&counted).add(status, &measured);
        }
        if let Some(serial) = serial {
            // Without the lock, which those that wake up need at once.
            self.bell.ring(serial);
        }
    }

    /// Counts an interval that is not shown: an enrolled device kept it while it could not send. Of a host that is not there yet none is.
    pub fn put_past(&self, interval: &Interval) {
        let counted = lock(&self.inner).hosts.get(&interval.host).and_then(|host| host.counted.clone());
        if let Some(counted) = counted {
            lock(&counted).add_past(interval);
        }
    }

    /// Updates a host that sent something but completed no interval (counters, a new name).
    pub fn put_status(&self, status: &HostStatus) {
        // Not inserted: a host is shown once it has an interval.
        if let Some(host) = lock(&self.inner).hosts.get_mut(&status.info.host) {
            host.status = self.described(status);
        }
    }

    /// Forgets the recent past of silent hosts that are not authenticated, if such hosts hold much: the store has it. Call it now and then.
    pub fn forget_silent(&self, now_wall_ns: i64) {
        let share = TrustShare { is_trusted: false, bytes: FORGET_ABOVE_BYTES };
        let is_silent =
            |host: &HubHost| now_wall_ns.saturating_sub(host.status.received_wall_ns) >= FORGET_AFTER_NS;
        lock(&self.inner).limit(&share, is_silent, HubHost::bytes, HubHost::forget);
    }

    /// Memory of all intervals and lists of processes, bytes.
    pub fn bytes(&self) -> usize {
        lock(&self.inner).hosts.values().map(HubHost::bytes).sum()
    }

    /// The intervals of a host with a serial above `after`, oldest first.
    pub fn after_serial(&self, host: HostId, after: u64) -> Vec<Shown> {
        lock(&self.inner).recent(host).filter(|shown| shown.serial > after).cloned().collect()
    }
}

impl HubState {
    /// The intervals of a host in memory, the oldest first.
    fn recent(&self, host: HostId) -> impl DoubleEndedIterator<Item = &Shown> {
        self.hosts.get(&host).into_iter().flat_map(|host| &host.recent)
    }

    /// Makes a place for a host: one that is not authenticated gives way first, and never one that is for one that is not. False: there
    /// is none.
    fn forget_most_silent(&mut self, is_for_trusted: bool) -> bool {
        let may_go = |host: &HubHost| is_for_trusted || !is_trusted(&host.status);
        let candidates = self.hosts.iter().filter(|(_, host)| may_go(host));
        let silent =
            candidates.min_by_key(|(_, host)| (is_trusted(&host.status), host.status.received_wall_ns));
        let Some(id) = silent.map(|(id, _)| *id) else { return false };
        self.hosts.remove(&id).is_some()
    }

    fn hosts_of(&self, share: &TrustShare) -> impl Iterator<Item = &HubHost> {
        let wanted = share.is_trusted;
        self.hosts.values().filter(move |host| is_trusted(&host.status) == wanted)
    }

    /// Keeps the memory of hosts within a share. Among the hosts that `may_lose` something, the one with most bytes is first. `free` frees
    /// memory of a host and returns the bytes.
    fn limit(
        &mut self,
        share: &TrustShare,
        may_lose: impl Fn(&HubHost) -> bool,
        bytes_of: impl Fn(&HubHost) -> usize,
        free: impl Fn(&mut HubHost) -> usize,
    ) {
        let mut bytes: usize = self.hosts_of(share).map(&bytes_of).sum();
        while bytes > share.bytes {
            let of_share = |host: &HubHost| is_trusted(&host.status) == share.is_trusted;
            let hosts = self.hosts.values_mut().filter(|host| of_share(host) && may_lose(host));
            let largest = hosts.max_by_key(|host| bytes_of(host)).filter(|host| bytes_of(host) > 0);
            let Some(largest) = largest else { return };
            bytes = bytes.saturating_sub(free(largest));
        }
    }

    /// Forgets intervals, the oldest of the host with most bytes first, until `more` bytes fit into a share. False: they never do.
    fn make_space(&mut self, more: usize, share: &TrustShare) -> bool {
        let Some(bytes) = share.bytes.checked_sub(more) else { return false };
        self.limit(&TrustShare { bytes, ..*share }, |_| true, |host| host.bytes, HubHost::pop);
        true
    }
}

impl HubHost {
    /// What is counted of it from now on, at the latest.
    fn count(&mut self, metrics: &Metrics) -> Arc<Mutex<HostMetrics>> {
        Arc::clone(self.counted.get_or_insert_with(|| Arc::new(Mutex::new(metrics.host()))))
    }

    /// Memory of its intervals and of its list of processes.
    fn bytes(&self) -> usize {
        self.bytes + self.presence.bytes
    }

    /// Memory that one more interval would take, bytes.
    fn bytes_with(&self, next: &Interval) -> usize {
        bytes_of_interval(next, self.recent.back())
    }

    fn push(&mut self, shown: Shown) {
        // Once more, because it may be the only one by now, and shares its texts with none.
        self.bytes += self.bytes_with(&shown.interval);
        self.recent.push_back(shown);
    }

    /// Forgets intervals that are too old beside the next one, or too many with its bytes.
    fn make_space(&mut self, more: usize, next: &Interval, budget: usize) {
        let keep_ns = i64::try_from(KEEP.as_nanos()).unwrap_or(i64::MAX);
        let oldest_ns = next.end.wall_ns.saturating_sub(keep_ns);
        while let Some(front) = self.recent.front() {
            if self.bytes + more <= budget && front.interval.end.wall_ns >= oldest_ns {
                return;
            }
            self.pop();
        }
    }

    /// Forgets the recent past; gives the bytes that are free now.
    fn forget(&mut self) -> usize {
        let freed = self.bytes();
        (self.bytes, self.recent, self.presence) = (0, VecDeque::new(), Presence::default());
        freed
    }

    /// Forgets the oldest interval; gives the bytes that are free now.
    fn pop(&mut self) -> usize {
        let Some(oldest) = self.recent.pop_front() else { return 0 };
        self.presence.pop();
        // Texts that the next one shares stay.
        let bytes = bytes_of_interval(&oldest.interval, self.recent.front());
        let freed = bytes.min(self.bytes);
        self.bytes -= freed;
        freed
    }
}

impl Live for Hub {
    fn hosts(&self) -> Vec<HostStatus> {
        let mut hosts: Vec<HostStatus> =
            lock(&self.inner).hosts.values().map(|host| host.status.clone()).collect();
        hosts.sort_by(|a, b| (&a.info.hostname, a.info.host).cmp(&(&b.info.hostname, b.info.host)));
        hosts
    }

    fn host(&self, host: HostId) -> Option<HostStatus> {
        lock(&self.inner).hosts.get(&host).map(|host| host.status.clone())
    }

    fn fleet(&self) -> Vec<(HostStatus, Option<Shown>)> {
        lock(&self.inner)
            .hosts
            .values()
            .map(|host| (host.status.clone(), host.recent.back().cloned()))
            .collect()
    }

    fn newer(&self, host: HostId, number: u64) -> Option<Shown> {
        lock(&self.inner).recent(host).find(|shown| shown.number > number).cloned()
    }

    fn recent(&self, host: HostId, since_ns: i64) -> Vec<Shown> {
        let inner = lock(&self.inner);
        inner.recent(host).filter(|shown| shown.interval.end.wall_ns > since_ns).cloned().collect()
    }

    fn newest(&self, host: HostId) -> Option<Shown> {
        lock(&self.inner).recent(host).next_back().cloned()
    }

    fn seek(&self, host: HostId, to: Seek) -> Result<Option<Shown>, String> {
        let in_memory =
            lock(&self.inner).hosts.get(&host).and_then(|host| find_recent(&host.recent, to).cloned());
        if in_memory.is_some() {
            return Ok(in_memory);
        }
        // Without the lock: the store may take a while, and intervals go on arriving.
        if let Some(interval) = (self.past)(host, to)? {
            return Ok(Some(Shown { serial: 0, number: 0, interval: Arc::new(interval) }));
        }
        // Nothing older is stored, so the oldest in memory is the next one.
        let Seek::After(ns) = to else { return Ok(None) };
        Ok(lock(&self.inner).recent(host).find(|shown| shown.interval.end.wall_ns > ns).cloned())
    }

    fn with_idle(&self, host: HostId, shown: &Shown) -> Shown {
        let interval = &shown.interval;
        // One of the store has them.
        if shown.number == 0 || !interval.is_idle_without_row() || interval.knows_all_processes() {
            return shown.clone();
        }
        let there = {
            let inner = lock(&self.inner);
            inner.hosts.get(&host).and_then(|host| {
                let newer = host.recent.iter().rev().take_while(|other| other.number > shown.number).count();
                let at = host.recent.len().checked_sub(newer + 1)?;
                host.presence.at(newer).filter(|_| host.recent[at].number == shown.number)
            })
        };
        // Without the lock: a row is copied for each process.
        let Some(there) = there.map(Then::processes) else { return shown.clone() };
        let mut whole = Interval::clone(interval);
        whole.add_idle(there.values());
        Shown { interval: Arc::new(whole), ..*shown }
    }

    fn status(&self) -> Status {
        (self.status)()
    }

    fn take_trace(&self, host: HostId) -> Result<(), String> {
        if let Some(own) = self.own_traces(host) {
            return own.take().map_err(|error| error.to_string());
        }
        let requests = self.requests.as_ref().ok_or("this receiver takes no traces")?;
        requests.ask(host).map_err(|error| error.to_string())
    }

    fn trace_sources(&self, host: HostId) -> TraceSources {
        if let Some(own) = self.own_traces(host) {
            return own.sources();
        }
        let trust = lock(&self.inner).hosts.get(&host).map(|host| host.status.trust);
        let missing = match (trust, &self.requests) {
            (Some(Trust::Local), _) | (_, None) => Some(NO_TRACE_STORE),
            (Some(Trust::Authenticated), Some(requests)) => requests.may_ask(host).err().map(AskError::how),
            _ => Some(NOT_ENROLLED),
        };
        let how = missing.unwrap_or_default().to_owned();
        TraceSources { can_take: missing.is_none(), how, ..TraceSources::default() }
    }

    fn record_trace(&self, host: HostId, length: Duration) -> Result<(), String> {
        let own = self.own_traces(host);
        own.ok_or("only the receiver's own machine is recorded on request")?.record(length)
    }

    fn stop_recording(&self, host: HostId) -> bool {
        self.own_traces(host).is_some_and(|own| own.stop())
    }

    fn metrics(&self, format: MetricsFormat, host: Option<&str>) -> Option<String> {
        self.is_scraped.store(true, Ordering::Relaxed);
        let counted = |host: &mut HubHost| (host.status.clone(), host.count(&self.metrics));
        let hosts: Vec<CountedHost> = lock(&self.inner).hosts.values_mut().map(counted).collect();
        self.metrics.write(&hosts, &self.status(), format, host)
    }

    fn bell(&self) -> &Bell {
        &self.bell
    }
}

#[cfg(test)]
mod idle_tests;
#[cfg(test)]
mod tests;
