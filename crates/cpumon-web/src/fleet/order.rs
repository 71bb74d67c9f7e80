//! Which hosts are wanted, and in which order. In: words and a column. Out: hosts found and sorted, as the page does it.

use std::cmp::Ordering;

use cpumon_model::HostStatus;

use super::{Row, age_ns, state_of};

/// How a list of hosts is ordered. Numbers: the largest first; texts: from A to Z. No data comes last, whichever way round.
#[derive(
    Copy, Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, utoipa::ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum HostOrder {
    /// By name, from A to Z
    #[default]
    Name,
    /// Busiest first
    Busy,
    /// By the name of the busiest process
    Top,
    /// Most threads first
    Threads,
    /// What the books leave over, most first
    Ledger,
    /// Most losses first
    Loss,
    /// Most wrong clocks first
    ClockOffset,
    /// By the agent's name and version
    Agent,
    /// Longest silent first
    LastSeen,
}

impl HostOrder {
    /// As it is written in a query; the command line has `-` for `_`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Busy => "busy",
            Self::Top => "top",
            Self::Threads => "threads",
            Self::Ledger => "ledger",
            Self::Loss => "loss",
            Self::ClockOffset => "clock_offset",
            Self::Agent => "agent",
            Self::LastSeen => "last_seen",
        }
    }
}

/// Which hosts are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) search: String,
    pub(crate) sort: HostOrder,
    pub(crate) reverse: bool,
    pub(crate) offset: usize,
    pub(crate) limit: usize,
}

impl Wanted {
    /// Every host, by name.
    pub(crate) fn all() -> Self {
        Self { search: String::new(), sort: HostOrder::Name, reverse: false, offset: 0, limit: usize::MAX }
    }
}

/// What a host is sorted by.
#[derive(PartialEq, PartialOrd)]
enum Key {
    Number(f64),
    Text(String),
}

type Found<'h, 'g> = (&'h HostStatus, Option<Row<'g>>);

fn key((host, row): &Found<'_, '_>, by: HostOrder) -> Option<Key> {
    let number = |number: f64| Some(Key::Number(-number));
    let text = |text: &str| (!text.is_empty()).then(|| Key::Text(text.to_lowercase()));
    match by {
        HostOrder::Name => text(&host.info.hostname),
        HostOrder::Agent => text(&host.info.agent),
        HostOrder::Top => text(&row.as_ref()?.0.top.first()?.name),
        HostOrder::Busy => number(row.as_ref()?.0.busy_ratio?),
        HostOrder::Threads => number(f64::from(host.thread_count)),
        HostOrder::Ledger => {
            let ledger = &row.as_ref()?.0.ledger;
            if ledger.capacity_ns == 0 { None } else { number(ledger.unattributed_ratio().abs()) }
        }
        HostOrder::Loss => {
            number(host.loss.snapshots_lost.saturating_add(host.loss.snapshots_partial) as f64)
        }
        HostOrder::ClockOffset => number(host.clock_offset_ns().unsigned_abs() as f64),
        HostOrder::LastSeen => Some(Key::Number(host.received_wall_ns as f64)),
    }
}

/// Sorts; hosts that are alike stand by name, whichever way round.
pub(super) fn sorted<'h, 'g>(
    mut rows: Vec<Found<'h, 'g>>,
    by: HostOrder,
    reverse: bool,
) -> Vec<Found<'h, 'g>> {
    rows.sort_by(|a, b| (&a.0.info.hostname, a.0.info.host).cmp(&(&b.0.info.hostname, b.0.info.host)));
    let mut keyed: Vec<(Option<Key>, Found<'h, 'g>)> =
        rows.into_iter().map(|row| (key(&row, by), row)).collect();
    keyed.sort_by(|(a, _), (b, _)| match (a, b) {
        (Some(a), Some(b)) => {
            let order = a.partial_cmp(b).unwrap_or(Ordering::Equal);
            if reverse { order.reverse() } else { order }
        }
        (a, b) => a.is_none().cmp(&b.is_none()),
    });
    keyed.into_iter().map(|(_, row)| row).collect()
}

/// Whether each word of `search`, which is in lower case, is part of what a host is called or of how it is.
pub(super) fn matches((host, row): &Found<'_, '_>, search: &str, now_ns: i64) -> bool {
    if search.is_empty() {
        return true;
    }
    let top = row.as_ref().and_then(|row| row.0.top.first());
    let id = host.info.host.to_string();
    let texts = [
        &*host.info.hostname,
        &id,
        &host.address,
        &host.info.agent,
        host.trust.name(),
        state_of(age_ns(host, now_ns), host.info.interval_ns),
        top.map_or("", |top| &top.name),
    ]
    .map(str::to_lowercase);
    search.split_whitespace().all(|word| texts.iter().any(|text| text.contains(word)))
}
