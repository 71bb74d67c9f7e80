//! Which hosts are asked for, and their order.

use std::cmp::Ordering;

use super::host::{FleetHost, HostState};
use crate::named;
use crate::time::Page;

named! {
    /// How a list of hosts is ordered. Numbers: the largest first; texts: from A to Z. No data comes last, whichever way round.
    // The words are those of a query; the command line has `-` for `_`.
    #[derive(Default, clap::ValueEnum, serde::Deserialize, utoipa::ToSchema)]
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
        let page = Page { offset: 0, limit: usize::MAX };
        Self { search: String::new(), sort: HostOrder::Name, is_reverse: false, page }
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
pub(super) fn select(hosts: Vec<FleetHost>, query: &FleetQuery) -> Vec<FleetHost> {
    let search = query.search.to_lowercase();
    let mut hosts: Vec<FleetHost> = hosts.into_iter().filter(|host| matches(host, &search)).collect();
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

/// Whether each word of `search`, which is in lower case, is part of what a host is called or of how it is doing.
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
    ]
    .map(str::to_lowercase);
    search.split_whitespace().all(|word| texts.iter().any(|text| text.contains(word)))
}
