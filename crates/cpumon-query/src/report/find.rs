//! Searches all that is stored for a program, a user, a service, a container or a pod: when it was there, how often it ran, and its CPU time.

use std::collections::{BTreeMap, HashSet};

use cpumon_model::{BootId, HostId, HostStatus, ProcessKey, SourceKind, Value};

use super::group::{GroupId, Grouping, Kind, Search};
use super::read::{Whole, of_range};
use super::zoom::Zoom;
use crate::QueryError;
use crate::history::History;
use crate::time::{PlotRange, TimeRange};

/// Names of the columns of what is found, in order.
pub const FIND_COLUMNS: [&str; 9] =
    ["host", "kind", "name", "first_ns", "last_ns", "processes", "run_ns", "share_pct", "host_id"];

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Name of its host; hostile.
    pub host: Box<str>,
    /// `name`, `user`, `service`, `container` or `pod`.
    pub kind: &'static str,
    /// What was found; hostile.
    pub name: Box<str>,
    /// Start of the first interval in which it was active.
    pub first_ns: Option<i64>,
    /// End of the last one.
    pub last_ns: Option<i64>,
    /// Processes of which the names are stored; a process that calls exec counts under each of its names.
    pub processes: usize,
    /// Run time, of all that is stored of the host.
    pub run_ns: i64,
    /// In percent of all threads of the host.
    pub share_pct: Option<f64>,
    /// Its host: a name may be of several hosts, or empty.
    pub host_id: HostId,
}

impl Found {
    /// The cells, in the order of [`FIND_COLUMNS`].
    #[must_use]
    pub fn cells(&self) -> Vec<Value<'_>> {
        let int = |value: Option<i64>| value.map_or(Value::Null, Value::Int);
        vec![
            Value::Text((&*self.host).into()),
            Value::Text(self.kind.into()),
            Value::Text((&*self.name).into()),
            int(self.first_ns),
            int(self.last_ns),
            Value::count(self.processes as u64),
            Value::Int(self.run_ns),
            self.share_pct.map_or(Value::Null, Value::Real),
            Value::Text(self.host_id.to_string().into()),
        ]
    }
}

/// Searches hosts for a part of a name or of a container, or for a user id; most run time first.
pub fn find(history: &History, hosts: &[HostStatus], text: &str) -> Result<Vec<Found>, QueryError> {
    if text.is_empty() {
        return Err(QueryError::EmptySearch);
    }
    let search = Search::new(text);
    let mut found = Vec::new();
    for host in hosts {
        found.extend(of_host(history, host, &search)?);
    }
    found.sort_by(|a, b| {
        b.run_ns.cmp(&a.run_ns).then_with(|| (&a.host, a.kind, &a.name).cmp(&(&b.host, b.kind, &b.name)))
    });
    Ok(found)
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::User => "user",
        Kind::Service => "service",
        Kind::Container => "container",
        Kind::Pod => "pod",
        Kind::Name | Kind::Whole | Kind::Short | Kind::Others => "name",
    }
}

fn of_host(history: &History, host: &HostStatus, search: &Search) -> Result<Vec<Found>, QueryError> {
    // All that is stored, sums of which the intervals are gone included.
    let all = PlotRange { since_ns: i64::MIN, until_ns: i64::MAX, points: 1 };
    let plan = history.plan(host.info.host, all)?;
    if plan.since_ns == i64::MIN {
        return Ok(Vec::new());
    }
    let range = TimeRange { since_ns: plan.since_ns, until_ns: plan.until_ns };
    let grouping = Grouping::Search(search.clone());
    let Whole { tally, .. } = of_range(history, host, range, &grouping)?;
    let mut processes = processes(history, host, search)?;
    let shown: Vec<_> = tally.groups.iter().collect();
    let mut zoom = Zoom::new(history, host, &grouping, &shown);
    let mut found = Vec::new();
    for group in &tally.groups {
        let id = group.id();
        let ends = zoom.ends(&id, &group.times)?;
        found.push(Found {
            host: host.info.hostname.clone(),
            kind: kind_name(group.kind),
            name: group.name.clone(),
            first_ns: ends.first_ns,
            last_ns: ends.last_ns,
            processes: processes.remove(&id).map_or(0, |keys| keys.len()),
            run_ns: group.delta.run_ns,
            share_pct: (tally.used_ns > 0).then(|| group.delta.run_ns as f64 * 100.0 / tally.used_ns as f64),
            host_id: host.info.host,
        });
    }
    Ok(found)
}

/// The processes of each group.
fn processes(
    history: &History,
    host: &HostStatus,
    search: &Search,
) -> Result<BTreeMap<GroupId, HashSet<(BootId, ProcessKey)>>, QueryError> {
    let mut found: BTreeMap<GroupId, HashSet<(BootId, ProcessKey)>> = BTreeMap::new();
    history.each_process(host.info.host, &mut |process| {
        let is_v1 = process.boot == BootId::default();
        let source = if is_v1 { SourceKind::V1 } else { SourceKind::Unknown };
        search.each(process.info, source, &mut |of| {
            let id = GroupId::Named(of.kind, of.name.into());
            found.entry(id).or_default().insert((process.boot, process.key));
        });
    })?;
    Ok(found)
}
