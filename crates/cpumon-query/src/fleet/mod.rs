//! All hosts at a glance: their state, their newest interval and their last minute in short, and the last minutes of CPU use; the
//! same at a moment of the past ([`FleetBoard::at`]) and over a range ([`span()`]).
//!
//! A [`FleetBoard`] reads an interval once, however many readers ask. A [`FleetQuery`] says which hosts are listed, and in which order.

mod host;
mod span;

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use cpumon_model::{HostId, HostStatus, LossCounts};
use cpumon_store::HostRecord;
use serde::Serialize;
use utoipa::ToSchema;

use crate::fields::has_words;
use crate::time::{Page, now_ns};
use crate::{Live, Seek, Shown, named};
pub use host::{
    BALANCED_RATIO, Busy, FleetHost, Glance, HostState, LATE_INTERVALS, LATE_NS, Minute, Oddity,
    SILENT_INTERVALS, SILENT_NS, TOP, age_ns, busy_ratio,
};
use host::{MAX_INTERVALS, Parts};
pub use span::{FleetSpan, SpanHost, SpanOrder, SpanQuery, span};

/// All hosts that were asked for.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The receiver's clock.
    pub now_ns: i64,
    /// All matching hosts, in order; the page of the query is a part of this list.
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

/// Newest interval and last minute of a host.
#[derive(Debug, Default)]
struct BoardEntry {
    parts: Parts,
    glance: Arc<Glance>,
}

/// The newest interval of each host in short.
#[derive(Default)]
pub struct FleetBoard(Mutex<HashMap<HostId, BoardEntry>>);

impl FleetBoard {
    /// The hosts that match a query, in its order, on all pages. `stored`: the hosts of the store, listed even if they did not report.
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
        Fleet { now_ns, hosts: select(hosts, query) }
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
        Ok(Fleet { now_ns: at_ns, hosts: select(hosts, query) })
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
    /// Shows an interval of the past instead of the newest one.
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

named! {
    /// How a list of hosts is ordered. Numbers: the largest first; texts: from A to Z. No data comes last, whichever way round.
    // The words are those of a query; the command line has `-` for `_`.
    #[derive(Default, clap::ValueEnum, serde::Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    HostOrder,
    /// By name, from A to Z
    #[default]
    Name = "name",
    /// Busiest first, by the mean of the last minute
    Busy = "busy",
    /// Highest CPU use of a single interval of the last minute first
    Peak = "peak",
    /// Most threads ready first
    Ready = "ready",
    /// Longest run queue per CPU first
    RunQueue = "run_queue",
    /// Worst health first: silent, stored, late, loss, ledger, clock
    Health = "health",
    /// By the name of the busiest process
    Top = "top",
    /// Most threads first
    Threads = "threads",
    /// Most unattributed CPU time first
    Ledger = "ledger",
    /// Most losses first
    Loss = "loss",
    /// Largest clock offsets first
    ClockOffset = "clock_offset",
    /// By the agent's name and version
    Agent = "agent",
    /// Longest silent first
    LastSeen = "last_seen",
}

/// Which hosts are asked for.
#[derive(Clone, Debug)]
pub struct FleetQuery {
    /// Only hosts whose name, id, address, agent, busiest process, trust or state contains each of these words.
    pub search: String,
    /// Their order.
    pub sort: HostOrder,
    /// Reverses the order; hosts without data stay last.
    pub is_reverse: bool,
    /// The part of the list that is shown.
    pub page: Page,
}

impl FleetQuery {
    /// Every host, by name.
    pub fn all() -> Self {
        Self { search: String::new(), sort: HostOrder::Name, is_reverse: false, page: Page::ALL }
    }
}

/// What a host is sorted by.
#[derive(PartialEq, PartialOrd)]
enum HostSortKey {
    Number(f64),
    Text(String),
}

fn key(host: &FleetHost, by: HostOrder) -> Option<HostSortKey> {
    // Negated, because numbers are listed with the largest first.
    let number = |number: f64| Some(HostSortKey::Number(-number));
    let text = |text: &str| (!text.is_empty()).then(|| HostSortKey::Text(text.to_lowercase()));
    let (status, glance) = (&host.status, host.glance.as_ref());
    match by {
        HostOrder::Name => text(&status.info.hostname),
        HostOrder::Agent => text(&status.info.agent),
        HostOrder::Top => text(&glance?.top.first()?.name),
        HostOrder::Busy => number(glance?.minute.busy_ratio?),
        HostOrder::Peak => number(glance?.minute.peak_ratio?),
        HostOrder::Ready => number(glance?.minute.ready_mean?),
        HostOrder::RunQueue => number(glance?.minute.run_queue_per_cpu?),
        // The heaviest oddity comes first in its own order.
        HostOrder::Health => {
            host.oddities().first().map(|oddity| HostSortKey::Number(f64::from(*oddity as u8)))
        }
        // The past says nothing of these.
        HostOrder::Threads | HostOrder::Loss | HostOrder::ClockOffset if host.state == HostState::Stored => {
            None
        }
        HostOrder::Threads => number(f64::from(status.thread_count)),
        HostOrder::Ledger => {
            let ledger = &glance?.ledger;
            if ledger.capacity_ns == 0 { None } else { number(ledger.unattributed_ratio().abs()) }
        }
        HostOrder::Loss => {
            number(status.loss.snapshots_lost.saturating_add(status.loss.snapshots_partial) as f64)
        }
        HostOrder::ClockOffset => number(status.clock_offset_ns().unsigned_abs() as f64),
        // Not negated: the earliest time is the longest silence, which comes first.
        HostOrder::LastSeen => Some(HostSortKey::Number(status.received_wall_ns as f64)),
    }
}

/// The hosts that match, in order. Hosts with the same key are in order of name, whatever the direction.
fn select(hosts: Vec<FleetHost>, query: &FleetQuery) -> Vec<FleetHost> {
    let mut hosts: Vec<FleetHost> = hosts.into_iter().filter(|host| matches(host, &query.search)).collect();
    let name = |host: &FleetHost| (host.status.info.hostname.clone(), host.status.info.host);
    // The sort below is stable, so hosts with equal keys stay in order of name in either direction.
    hosts.sort_by_key(name);
    let mut keyed: Vec<(Option<HostSortKey>, FleetHost)> =
        hosts.into_iter().map(|host| (key(&host, query.sort), host)).collect();
    let compare = |a: &&HostSortKey, b: &&HostSortKey| a.partial_cmp(b).unwrap_or(Ordering::Equal);
    keyed.sort_by(|(a, _), (b, _)| known_first(a.as_ref(), b.as_ref(), query.is_reverse, compare));
    keyed.into_iter().map(|(_, host)| host).collect()
}

/// The order of two values; one that is not known comes last, whichever way round.
pub(crate) fn known_first<T>(
    a: Option<T>,
    b: Option<T>,
    is_reverse: bool,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if is_reverse => compare(&b, &a),
        (Some(a), Some(b)) => compare(&a, &b),
        (a, b) => a.is_none().cmp(&b.is_none()),
    }
}

/// Whether each word of `search` is part of what a host is called or of how it is doing.
fn matches(host: &FleetHost, search: &str) -> bool {
    if search.is_empty() {
        return true;
    }
    let status = &host.status;
    let top = host.glance.as_ref().and_then(|glance| glance.top.first());
    let id = status.info.host.to_string();
    let texts = [
        &*status.info.hostname,
        &id,
        &status.address,
        &status.info.agent,
        status.trust.name(),
        host.state.name(),
        top.map_or("", |top| &top.name),
    ];
    has_words(search, &texts)
}
