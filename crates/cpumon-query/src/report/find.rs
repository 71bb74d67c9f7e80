//! Searches all that is stored for a program, a user, a service, a container or a pod: when it was there, how often it ran, and its CPU time.

use std::collections::{BTreeMap, HashSet};

use cpumon_model::{BootId, HostId, HostStatus, ProcessKey, SourceKind};
use cpumon_store::StoredProcess;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::query::FoundKind;
use super::read::{Whole, Zoom, of_range};
use crate::QueryError;
use crate::history::History;
use crate::json::Nanos;
use crate::tally::{GroupId, GroupKind, Grouping, TextSearch};
use crate::time::{Page, PlotRange, TimeRange};

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Found {
    /// Name of its host; hostile.
    pub host: Box<str>,
    /// Kind of the result.
    pub kind: FoundKind,
    /// What was found; hostile.
    pub name: Box<str>,
    /// Start of the first interval in which it was active.
    pub first_ns: Option<Nanos>,
    /// End of the last interval in which it was active.
    pub last_ns: Option<Nanos>,
    /// Processes with a stored name; a process that calls exec counts under each of its names.
    pub processes: u64,
    /// Run time, of all that is stored of the host.
    pub run_ns: i64,
    /// In percent of all threads of the host.
    pub share_pct: Option<f64>,
    /// Its host: a name may be of several hosts, or empty.
    pub host_id: HostId,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Findings {
    /// Rows there are.
    pub total: usize,
    /// Those that were asked for, most run time first.
    pub rows: Vec<Found>,
}

/// Searches hosts for a part of a name or of a container, or for a user id; most run time first.
pub(crate) fn find(
    history: &History,
    hosts: &[HostStatus],
    text: &str,
    page: Page,
) -> Result<Findings, QueryError> {
    if text.is_empty() {
        return Err(QueryError::EmptySearch);
    }
    let search = TextSearch::new(text);
    let mut found = Vec::new();
    for host in hosts {
        found.extend(of_host(history, host, &search)?);
    }
    found.sort_by(|a, b| {
        b.run_ns.cmp(&a.run_ns).then_with(|| (&a.host, a.kind, &a.name).cmp(&(&b.host, b.kind, &b.name)))
    });
    Ok(Findings { total: found.len(), rows: page.of(found).collect() })
}

fn of_host(history: &History, host: &HostStatus, search: &TextSearch) -> Result<Vec<Found>, QueryError> {
    // All stored data, including sums whose intervals are gone.
    let all = PlotRange { since_ns: i64::MIN, until_ns: i64::MAX, points: 1 };
    let plan = history.plan(host.info.host, all)?;
    if plan.since_ns == i64::MIN {
        return Ok(Vec::new());
    }
    let range = TimeRange { since_ns: plan.since_ns, until_ns: plan.until_ns };
    let grouping = Grouping::Search(search.clone());
    let Whole { tally, .. } = of_range(history, host, range, &grouping)?;
    let mut processes = processes(history, host, search)?;
    let shown: Vec<_> = tally.groups().iter().collect();
    let mut zoom = Zoom::new(history, host, &grouping, &shown);
    let mut found = Vec::new();
    for group in tally.groups() {
        let GroupKind::Found(kind) = group.kind else { continue };
        let id = group.id();
        let ends = zoom.ends(&id, &group.sums.times)?;
        found.push(Found {
            host: host.info.hostname.clone(),
            kind,
            name: group.name.clone(),
            first_ns: ends.first_ns.map(Nanos),
            last_ns: ends.last_ns.map(Nanos),
            processes: processes.remove(&id).map_or(0, |keys| keys.len() as u64),
            run_ns: group.sums.delta.run_ns,
            share_pct: (tally.used_ns > 0)
                .then(|| group.sums.delta.run_ns as f64 * 100.0 / tally.used_ns as f64),
            host_id: host.info.host,
        });
    }
    Ok(found)
}

/// The processes of each group.
fn processes(
    history: &History,
    host: &HostStatus,
    search: &TextSearch,
) -> Result<BTreeMap<GroupId, HashSet<(BootId, ProcessKey)>>, QueryError> {
    let mut found: BTreeMap<GroupId, HashSet<(BootId, ProcessKey)>> = BTreeMap::new();
    let mut note = |process: &StoredProcess<'_>| {
        let is_v1 = process.boot == BootId::default();
        let source = if is_v1 { SourceKind::V1 } else { SourceKind::Unknown };
        search.each(process.info, source, &mut |of| {
            let id = GroupId::Named(of.kind, of.name.into());
            found.entry(id).or_default().insert((process.boot, process.key));
        });
    };
    history.ask(|reader| reader.each_process(host.info.host, &mut note))?;
    Ok(found)
}
