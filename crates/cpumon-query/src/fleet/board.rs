//! [`FleetBoard`]: all hosts with their newest interval in short, and CPU use of the newest minutes, a line each host. An interval is
//! read once, however many readers ask.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use cpumon_model::{HostId, HostStatus, LossCounts};
use cpumon_store::HostRecord;
use serde::Serialize;
use utoipa::ToSchema;

use super::host::{Busy, FleetHost, Glance, HostState, MAX_INTERVALS, Parts, age_ns, busy_ratio};
use super::order;
use super::order::FleetQuery;
use crate::time::now_ns;
use crate::{Live, Seek, Shown};

/// All hosts that were asked for.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The receiver's clock.
    pub now_ns: i64,
    /// All that match, in order; the page of the query is a part of them.
    pub hosts: Vec<FleetHost>,
}

/// A busy process and its host.
#[derive(Copy, Clone, Debug)]
pub struct TopProcess<'f> {
    /// The host.
    pub host: &'f HostStatus,
    /// The process.
    pub busy: &'f Busy,
}

/// What is known of a host.
#[derive(Debug, Default)]
struct BoardEntry {
    parts: Parts,
    glance: Arc<Glance>,
}

/// The newest interval of each host in short.
#[derive(Default)]
pub struct FleetBoard(Mutex<HashMap<HostId, BoardEntry>>);

impl FleetBoard {
    /// The hosts that match a query, in its order, all pages of them. `stored`: the hosts of the store, of which those that did not
    /// report are listed too.
    pub fn hosts(&self, live: &dyn Live, stored: &[HostRecord], query: &FleetQuery) -> Fleet {
        let now_ns = now_ns();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Hosts that were forgotten leave with the old map.
        let mut before = std::mem::take(&mut *known);
        let fleet = live.fleet();
        known.reserve(fleet.len());
        let mut hosts = Vec::with_capacity(fleet.len());
        for (status, shown) in fleet {
            let id = status.info.host;
            let glance = shown.map(|shown| {
                let mut now = before.remove(&id).unwrap_or_default();
                now.follow(live, id, &shown);
                let glance = Arc::clone(&now.glance);
                known.insert(id, now);
                glance
            });
            let age_ns = age_ns(&status, now_ns);
            let state = HostState::of(age_ns, status.info.interval_ns);
            hosts.push(FleetHost { status, state, age_ns, glance });
        }
        drop(known);
        add_stored(&mut hosts, stored, now_ns);
        Fleet { now_ns, hosts: order::select(hosts, query) }
    }

    /// The same at a moment of the past: each host with the interval that contains it. A host without one is [`HostState::Stored`].
    /// The text says why the store could not be read. `is_cancelled`: whether anyone still waits for the answer.
    pub fn at(
        live: &dyn Live,
        stored: &[HostRecord],
        at_ns: i64,
        query: &FleetQuery,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Fleet, String> {
        let mut hosts: Vec<FleetHost> = live
            .fleet()
            .into_iter()
            .map(|(status, _)| FleetHost { status, state: HostState::Stored, age_ns: 0, glance: None })
            .collect();
        add_stored(&mut hosts, stored, at_ns);
        for host in &mut hosts {
            if is_cancelled() {
                break;
            }
            host.age_ns = 0;
            let Some(shown) = live.seek(host.status.info.host, Seek::At(at_ns))? else { continue };
            host.show(&shown);
        }
        Ok(Fleet { now_ns: at_ns, hosts: order::select(hosts, query) })
    }
}

impl BoardEntry {
    /// Takes the intervals that came since the last call.
    fn follow(&mut self, live: &dyn Live, host: HostId, newest: &Shown) {
        if self.glance.number == newest.number && newest.number > 0 {
            return;
        }
        let limit = u64::try_from(MAX_INTERVALS).unwrap_or(u64::MAX);
        let mut number = self.glance.number;
        if newest.number < number || newest.number - number > limit {
            // Another start of the receiver's count, or long not asked for: only the last minute matters.
            *self = Self::default();
            number = newest.number.saturating_sub(limit);
        }
        while let Some(shown) = live.newer(host, number).filter(|shown| shown.number > number) {
            self.parts.push(&shown.interval);
            number = shown.number;
        }
        self.glance = Arc::new(Glance::new(newest.number, &newest.interval, self.parts.sum()));
    }
}

impl FleetHost {
    /// Shows an interval of the past in place of the newest one.
    fn show(&mut self, shown: &Shown) {
        let interval = &shown.interval;
        let mut parts = Parts::default();
        parts.push(interval);
        self.state = HostState::Reporting;
        self.status.last = interval.end;
        self.status.received_wall_ns = interval.end.wall_ns;
        self.status.clock = None;
        self.status.loss = LossCounts::default();
        self.status.source = interval.source;
        (self.status.thread_count, self.status.process_count) =
            (interval.thread_count, interval.process_count);
        self.glance = Some(Arc::new(Glance::new(shown.number, interval, parts.sum())));
    }
}

/// Adds the hosts of the store that did not report.
fn add_stored(hosts: &mut Vec<FleetHost>, stored: &[HostRecord], now_ns: i64) {
    let reported: HashSet<HostId> = hosts.iter().map(|host| host.status.info.host).collect();
    let others = stored.iter().filter(|record| !reported.contains(&record.info.host));
    hosts.extend(others.filter_map(|record| {
        record.last_wall_ns?;
        let status = record.clone().status();
        let age_ns = age_ns(&status, now_ns);
        Some(FleetHost { status, state: HostState::Stored, age_ns, glance: None })
    }));
}

/// The busiest processes of each host that reports, the busiest of all first.
pub fn top(hosts: &[FleetHost]) -> Vec<TopProcess<'_>> {
    let reporting = hosts.iter().filter(|host| host.state == HostState::Reporting);
    let mut all: Vec<TopProcess<'_>> = reporting
        .flat_map(|host| {
            let busiest = host.glance.iter().flat_map(|glance| &glance.top);
            busiest.map(|busy| TopProcess { host: &host.status, busy })
        })
        .collect();
    // Of their hosts: a busy thread is little on a large machine. One without known CPUs comes last.
    let pct = |top: &TopProcess<'_>| top.busy.host_pct.unwrap_or(0.0);
    all.sort_by(|a, b| pct(b).total_cmp(&pct(a)));
    all
}

/// Values in a line.
const VALUES: i64 = 120;
/// Time between two values of a line, ns.
const SPARK_STEP_NS: i64 = 1_000_000_000;

/// Utilization of the newest minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Spark {
    /// Time between two values.
    pub step_ns: u64,
    /// Which hosts, in order.
    pub host_ids: Vec<String>,
    /// A list a host, the newest value last; null: nothing came.
    pub busy_ratio: Vec<Vec<Option<f64>>>,
}

/// CPU use of the newest minutes, by the receiver's clock.
pub fn sparks<'h>(live: &dyn Live, hosts: impl IntoIterator<Item = &'h HostStatus>) -> Spark {
    let now_ns = now_ns();
    let lines = hosts.into_iter().map(|host| (host.info.host.to_string(), line(live, host, now_ns)));
    let (host_ids, busy_ratio) = lines.unzip();
    Spark { step_ns: SPARK_STEP_NS.unsigned_abs(), host_ids, busy_ratio }
}

/// Shares of all CPUs that were busy, 0 to 1, rounded to 1/10,000; `None`: nothing arrived.
fn line(live: &dyn Live, host: &HostStatus, now_ns: i64) -> Vec<Option<f64>> {
    // Intervals whose device's clock is wrong are on the receiver's time line already: their shift is no offset.
    let moved_ns = live.newest(host.info.host).map_or(0, |shown| shown.interval.wall_shift_ns);
    let offset_ns = host.clock_offset_ns().saturating_sub(moved_ns);
    let begin_ns = now_ns.saturating_sub(VALUES * SPARK_STEP_NS);
    let mut line = vec![None; usize::try_from(VALUES).unwrap_or(0)];
    for shown in live.recent(host.info.host, begin_ns.saturating_add(offset_ns)) {
        let interval = &shown.interval;
        let Some(busy) = busy_ratio(interval) else { continue };
        let place = |wall_ns: i64| {
            let at = wall_ns.saturating_sub(offset_ns).saturating_sub(begin_ns).div_euclid(SPARK_STEP_NS);
            usize::try_from(at.clamp(0, VALUES)).unwrap_or(0)
        };
        let (from, to) = (place(interval.begin.wall_ns), place(interval.end.wall_ns));
        // At least one value, because an interval may be shorter than a step.
        let end = line.len().min(to.max(from + 1));
        if let Some(part) = line.get_mut(from..end) {
            part.fill(Some((busy * 1e4).round() / 1e4));
        }
    }
    line
}
