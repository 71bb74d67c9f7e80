//! The live hub: what every frontend sees of a running receiver. In: intervals from the receiving thread and the local agent.
//! Out: hosts, the newest minutes of each, and the receiver's own state. Why: showing must never wait for storing.
//!
//! Memory is bounded: each host keeps its newest `KEEP` at most, all hosts together about [`HubOptions::max_bytes`],
//! and the newest interval of each host in any case.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cpumon_model::{HostId, HostStatus, Interval, ProcessInterval, ThreadInterval};
use cpumon_query::status::Status;
use cpumon_query::{Bell, Live, Seek, Shown};

/// How much of the recent past is kept, by the times of intervals.
const KEEP: Duration = Duration::from_mins(10);

/// Bounds of a hub.
#[derive(Copy, Clone, Debug)]
pub struct HubOptions {
    /// Memory for intervals, bytes; shared out evenly among the hosts.
    pub max_bytes: usize,
    /// Hosts kept; the one that was silent longest gives way to a new one.
    pub max_hosts: usize,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self { max_bytes: 256 << 20, max_hosts: 4096 }
    }
}

/// Finds a past interval outside of the hub's memory: in the store.
pub type Past = Box<dyn Fn(HostId, Seek) -> Result<Option<Interval>, String> + Send + Sync>;

/// Reads the receiver's own state.
pub type Statuses = Box<dyn Fn() -> Status + Send + Sync>;

/// The recent past of each host in memory, shared by the threads that write and the frontends that read.
pub struct Hub {
    options: HubOptions,
    inner: Mutex<Inner>,
    bell: Bell,
    past: Past,
    status: Statuses,
}

#[derive(Default)]
struct Inner {
    hosts: HashMap<HostId, Host>,
    serial: u64,
}

#[derive(Default)]
struct Host {
    status: HostStatus,
    recent: VecDeque<Shown>,
    bytes: usize,
    /// Of the newest interval.
    number: u64,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What an interval takes in memory, near enough: process texts are shared between intervals and left out.
fn size_of_interval(interval: &Interval) -> usize {
    size_of::<Interval>()
        + interval.threads.len() * size_of::<ThreadInterval>()
        + interval.processes.len() * size_of::<ProcessInterval>()
        + interval.cpus.len() * size_of::<cpumon_model::CpuInterval>()
}

impl Hub {
    /// An empty hub. `past` answers for moments that are out of memory, `status` for the receiver.
    #[must_use]
    pub fn new(options: HubOptions, past: Past, status: Statuses) -> Self {
        Self { options, inner: Mutex::default(), bell: Bell::default(), past, status }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held leaves at worst a host's byte count wrong; frontends go on.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an interval and shows it to all that wait.
    pub fn put(&self, status: &HostStatus, interval: Arc<Interval>) {
        let serial = {
            let mut inner = self.lock();
            inner.serial += 1;
            let serial = inner.serial;
            let id = status.info.host;
            if !inner.hosts.contains_key(&id) && inner.hosts.len() >= self.options.max_hosts {
                inner.forget_most_silent();
            }
            // One more, for the host that may be new with this interval.
            let budget = self.options.max_bytes / (inner.hosts.len() + 1);
            let host = inner.hosts.entry(id).or_default();
            host.status.clone_from(status);
            host.number += 1;
            host.push(Shown { serial, number: host.number, interval }, budget);
            serial
        };
        // Without the lock, which those that wake up need at once.
        self.bell.ring(serial);
    }

    /// Updates a host that sent something but completed no interval (counters, a new name).
    pub fn put_status(&self, status: &HostStatus) {
        // Not inserted: a host is shown once it has an interval.
        if let Some(host) = self.lock().hosts.get_mut(&status.info.host) {
            host.status.clone_from(status);
        }
    }

    /// The intervals of a host with a serial above `after`, oldest first.
    #[must_use]
    pub fn after_serial(&self, host: HostId, after: u64) -> Vec<Shown> {
        let inner = self.lock();
        let recent = inner.hosts.get(&host).map(|host| &host.recent);
        recent.into_iter().flatten().filter(|shown| shown.serial > after).cloned().collect()
    }
}

impl Inner {
    fn forget_most_silent(&mut self) {
        let silent = self.hosts.iter().min_by_key(|(_, host)| host.status.received_wall_ns);
        if let Some(id) = silent.map(|(id, _)| *id) {
            self.hosts.remove(&id);
        }
    }
}

impl Host {
    fn push(&mut self, shown: Shown, budget: usize) {
        let keep_ns = i64::try_from(KEEP.as_nanos()).unwrap_or(i64::MAX);
        let oldest_ns = shown.interval.end.wall_ns.saturating_sub(keep_ns);
        self.bytes += size_of_interval(&shown.interval);
        self.recent.push_back(shown);
        while self.recent.len() > 1 {
            let Some(front) = self.recent.front() else { break };
            if self.bytes <= budget && front.interval.end.wall_ns >= oldest_ns {
                break;
            }
            self.bytes = self.bytes.saturating_sub(size_of_interval(&front.interval));
            self.recent.pop_front();
        }
    }
}

/// The interval of `recent` (oldest first) that is asked for. `None`: it may be older than all of them.
fn find_recent(recent: &VecDeque<Shown>, to: Seek) -> Option<&Shown> {
    let newest_first = || recent.iter().rev();
    match to {
        Seek::At(ns) => {
            newest_first().find(|shown| shown.interval.begin.wall_ns < ns && ns <= shown.interval.end.wall_ns)
        }
        Seek::Before(ns) => newest_first().find(|shown| shown.interval.end.wall_ns < ns),
        Seek::After(ns) => {
            // What the oldest one in memory hides, the store may have.
            let is_older = recent.front().is_some_and(|oldest| oldest.interval.begin.wall_ns > ns);
            recent.iter().find(|shown| !is_older && shown.interval.end.wall_ns > ns)
        }
    }
}

impl Live for Hub {
    fn hosts(&self) -> Vec<HostStatus> {
        let mut hosts: Vec<HostStatus> = self.lock().hosts.values().map(|host| host.status.clone()).collect();
        hosts.sort_by(|a, b| (&a.info.hostname, a.info.host).cmp(&(&b.info.hostname, b.info.host)));
        hosts
    }

    fn host(&self, host: HostId) -> Option<HostStatus> {
        self.lock().hosts.get(&host).map(|host| host.status.clone())
    }

    fn fleet(&self) -> Vec<(HostStatus, Option<Shown>)> {
        self.lock().hosts.values().map(|host| (host.status.clone(), host.recent.back().cloned())).collect()
    }

    fn newer(&self, host: HostId, number: u64) -> Option<Shown> {
        let inner = self.lock();
        let recent = &inner.hosts.get(&host)?.recent;
        recent.get(recent.partition_point(|shown| shown.number <= number)).cloned()
    }

    fn recent(&self, host: HostId, since_ns: i64) -> Vec<Shown> {
        let inner = self.lock();
        let recent = inner.hosts.get(&host).map(|host| &host.recent);
        recent.into_iter().flatten().filter(|shown| shown.interval.end.wall_ns > since_ns).cloned().collect()
    }

    fn newest(&self, host: HostId) -> Option<Shown> {
        self.lock().hosts.get(&host)?.recent.back().cloned()
    }

    fn seek(&self, host: HostId, to: Seek) -> Result<Option<Shown>, String> {
        let in_memory = self.lock().hosts.get(&host).and_then(|host| find_recent(&host.recent, to).cloned());
        if in_memory.is_some() {
            return Ok(in_memory);
        }
        // Without the lock: the store may take a while, and intervals go on arriving.
        if let Some(interval) = (self.past)(host, to)? {
            return Ok(Some(Shown { serial: 0, number: 0, interval: Arc::new(interval) }));
        }
        // Nothing older is stored, so the oldest in memory is the next one.
        let Seek::After(ns) = to else { return Ok(None) };
        let inner = self.lock();
        let recent = inner.hosts.get(&host).map(|host| &host.recent);
        Ok(recent.and_then(|recent| recent.iter().find(|shown| shown.interval.end.wall_ns > ns)).cloned())
    }

    fn status(&self) -> Status {
        (self.status)()
    }

    fn bell(&self) -> &Bell {
        &self.bell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpumon_model::{HostInfo, Moment};

    const SECOND_NS: i64 = 1_000_000_000;

    fn hub(options: HubOptions) -> Hub {
        let past = Box::new(|_, to| {
            let (Seek::At(ns) | Seek::Before(ns) | Seek::After(ns)) = to;
            let old = Interval { sequence: 999, ..Interval::default() };
            if ns < 0 { Err("no store".to_owned()) } else { Ok((ns < 500).then_some(old)) }
        });
        Hub::new(options, past, Box::new(Status::default))
    }

    fn host(id: u8, received_s: i64) -> HostStatus {
        let info =
            HostInfo { host: HostId([id; 16]), hostname: format!("h{id}").into(), ..HostInfo::default() };
        HostStatus { info, received_wall_ns: received_s * SECOND_NS, ..HostStatus::default() }
    }

    fn interval(second: i64, threads: usize) -> Arc<Interval> {
        let at = |s: i64| Moment { wall_ns: s * SECOND_NS, ..Moment::default() };
        Arc::new(Interval {
            sequence: u64::try_from(second).unwrap(),
            begin: at(second - 1),
            end: at(second),
            threads: vec![ThreadInterval::default(); threads],
            ..Interval::default()
        })
    }

    #[test]
    fn the_newest_and_the_recent_past_are_found() {
        let hub = hub(HubOptions::default());
        let status = host(1, 1);
        for second in 100..110 {
            hub.put(&status, interval(second, 1));
        }
        let id = status.info.host;
        assert_eq!(hub.newest(id).unwrap().interval.sequence, 109);
        let seek = |to: Seek| hub.seek(id, to).map(|found| found.map(|shown| shown.interval.sequence));
        assert_eq!(seek(Seek::At(104 * SECOND_NS + 1)), Ok(Some(105)));
        assert_eq!(seek(Seek::At(104 * SECOND_NS)), Ok(Some(104)), "an end belongs to its interval");
        assert_eq!(seek(Seek::At(200 * SECOND_NS)), Ok(None), "no data then: nothing else in its place");
        assert_eq!(seek(Seek::At(10)), Ok(Some(999)), "older: from the store");
        assert_eq!(seek(Seek::Before(104 * SECOND_NS)), Ok(Some(103)));
        assert_eq!(seek(Seek::After(104 * SECOND_NS)), Ok(Some(105)));
        assert_eq!(seek(Seek::After(109 * SECOND_NS)), Ok(None));
        assert_eq!(seek(Seek::After(50 * SECOND_NS)), Ok(Some(100)), "nothing stored in between");
        assert_eq!(seek(Seek::Before(-5)), Err("no store".to_owned()));
        let serials: Vec<u64> = hub.after_serial(id, 7).iter().map(|shown| shown.serial).collect();
        assert_eq!(serials, [8, 9, 10]);
        hub.put(&host(2, 1), interval(110, 1));
        hub.put(&status, interval(111, 1));
        let numbers = |shown: Option<Shown>| shown.map(|shown| (shown.number, shown.serial));
        assert_eq!(numbers(hub.newer(id, 9)), Some((10, 10)));
        assert_eq!(numbers(hub.newer(id, 10)), Some((11, 12)), "numbers count one host's intervals");
        assert_eq!(numbers(hub.newer(id, 11)), None);
        assert_eq!(hub.recent(id, 108 * SECOND_NS).len(), 2);
        assert_eq!(hub.fleet().len(), 2);
    }

    #[test]
    fn memory_is_bounded_by_bytes_and_by_age() {
        let small = HubOptions { max_bytes: 100_000, max_hosts: 10 };
        let hub = hub(small);
        let status = host(1, 1);
        for second in 0..100 {
            hub.put(&status, interval(second, 100));
        }
        let kept = hub.after_serial(status.info.host, 0);
        let bytes: usize = kept.iter().map(|shown| size_of_interval(&shown.interval)).sum();
        assert!(!kept.is_empty() && bytes <= small.max_bytes, "{bytes}");

        hub.put(&status, interval(100, 100_000));
        assert_eq!(hub.after_serial(status.info.host, 0).len(), 1, "the newest stays, however large");

        hub.put(&status, interval(101, 0));
        hub.put(&status, interval(101 + 601, 0));
        assert_eq!(hub.after_serial(status.info.host, 0).len(), 1, "older than ten minutes");
    }

    #[test]
    fn hosts_are_bounded_and_the_most_silent_goes() {
        let hub = hub(HubOptions { max_bytes: 1 << 20, max_hosts: 2 });
        for (id, received_s) in [(1, 10), (2, 5), (3, 20)] {
            hub.put(&host(id, received_s), interval(1, 1));
        }
        let names: Vec<String> = hub.hosts().iter().map(|host| host.info.hostname.to_string()).collect();
        assert_eq!(names, ["h1", "h3"]);
    }

    #[test]
    fn a_host_that_only_sent_a_status_is_updated_not_invented() {
        let hub = hub(HubOptions::default());
        hub.put_status(&host(1, 1));
        assert!(hub.hosts().is_empty());
        hub.put(&host(1, 1), interval(1, 1));
        hub.put_status(&host(1, 7));
        assert_eq!(hub.hosts()[0].received_wall_ns, 7 * SECOND_NS);
    }
}
