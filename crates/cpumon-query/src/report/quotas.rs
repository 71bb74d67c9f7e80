//! CPU quotas of the groups of a report: how often and for how long these limits were reached.

use std::collections::HashMap;

use cpumon_model::{CgroupInterval, Fields, GroupLimits, Interval, ProcessInfo, SourceKind};
use cpumon_store::{Query, Reader, Segment, What};

use super::query::{ReportBy, group_name};
use super::rows::HostTally;
use crate::QueryError;
use crate::history::History;

/// The limits of a host's groups by the name of their row.
#[derive(Debug, Default)]
pub(super) struct HostLimits {
    groups: HashMap<Box<str>, GroupLimits>,
    /// Whether a row that is not there has no limit.
    is_complete: bool,
}

/// Whether rows of this kind are control groups, or made from control groups.
pub(super) fn has_limits(by: ReportBy) -> bool {
    matches!(by, ReportBy::Cgroup | ReportBy::Container | ReportBy::Service)
}

impl HostLimits {
    /// Limits of the row with this name; `None` if not known.
    pub(super) fn of(&self, name: &str) -> Option<GroupLimits> {
        self.groups.get(name).copied().or_else(|| self.is_complete.then_some(GroupLimits::NONE))
    }

    fn add(&mut self, interval: &Interval, rows: &HashMap<Box<str>, Box<str>>) {
        self.is_complete &= interval.knows_limits();
        let mut named: HashMap<&str, Vec<&CgroupInterval>> = HashMap::new();
        for row in &interval.cgroups {
            if let Some(name) = rows.get(&*row.path) {
                named.entry(name).or_default().push(row);
            }
        }
        for (name, rows) in named {
            let Some(more) = GroupLimits::of_rows(rows) else { continue };
            match self.groups.get_mut(name) {
                Some(sum) => sum.add(&more),
                None => _ = self.groups.insert(name.into(), more),
            }
        }
    }
}

/// The row of each control group that has a limit.
struct LimitRows<'a> {
    by: ReportBy,
    containers: &'a HashMap<Box<str>, Box<str>>,
    names: HashMap<Box<str>, Box<str>>,
}

impl LimitRows<'_> {
    fn note(&mut self, row: &CgroupInterval) {
        if self.names.contains_key(&*row.path) {
            return;
        }
        let container = self.containers.get(&*row.path).cloned().unwrap_or_default();
        let info = ProcessInfo { cgroup: (&*row.path).into(), container, ..ProcessInfo::default() };
        if let Some(by) = self.by.group() {
            let name = group_name(by, SourceKind::Unknown, &info).into();
            self.names.insert((&*row.path).into(), name);
        }
    }
}

/// The limits of the groups of a host, over the range that was read. `None`: not measured, or rows of another kind.
pub(super) fn of_host(
    history: &History,
    one: &HostTally,
    by: ReportBy,
) -> Result<Option<HostLimits>, QueryError> {
    if !has_limits(by) {
        return Ok(None);
    }
    let containers = history.ask(Reader::cgroup_containers)?;
    let mut rows = LimitRows { by, containers: &containers, names: HashMap::new() };
    let mut limits = HostLimits { is_complete: true, ..HostLimits::default() };
    let mut is_measured = false;
    for span in &one.cut.spans {
        let query = Query::new(one.host.info.host).what(What::Meta).without_resting().without_sched();
        let query = query.range(span.range.since_ns, span.range.until_ns);
        let mut segments = history.segments(&query, span.resolution)?;
        while let Some(Segment { interval, .. }) = segments.read()? {
            is_measured |= interval.fields.contains(Fields::CGROUPS);
            interval.cgroups.iter().for_each(|row| rows.note(row));
            limits.add(interval, &rows.names);
        }
    }
    Ok(is_measured.then_some(limits))
}

#[cfg(test)]
mod tests {
    use cpumon_model::{CpuLimit, Pressure, Throttle};

    use super::*;

    fn row(path: &str, limiter_bytes: u16, parts: u64, some_ns: u64) -> CgroupInterval {
        CgroupInterval {
            path: path.into(),
            limit: CpuLimit::Millionths(parts),
            limiter_bytes,
            throttle: Some(Throttle { periods: 10, throttled_periods: 4, throttled_ns: 7 }),
            pressure: Some(Pressure { some_ns, full_ns: 0 }),
            ..CgroupInterval::default()
        }
    }

    #[test]
    fn groups_that_share_a_limit_count_it_once() {
        let interval = Interval {
            fields: Fields::CGROUPS,
            cgroups: vec![
                row("/pod/a", 4, 500_000, 9),
                row("/pod/b", 4, 500_000, 5),
                row("/pod/c", 6, 200_000, 1),
            ],
            ..Interval::default()
        };
        let name = |path: &str, name: &str| (path.into(), name.into());
        let rows = HashMap::from([name("/pod/a", "web"), name("/pod/b", "web"), name("/pod/c", "db")]);
        let mut limits = HostLimits { is_complete: true, ..HostLimits::default() };
        (0..2).for_each(|_| limits.add(&interval, &rows));
        let web = limits.of("web").unwrap();
        assert_eq!((web.limit.cpus(), web.throttle.unwrap().throttled_ns), (Some(0.5), 14));
        assert_eq!(web.pressure.unwrap().some_ns, 18, "of the group that waited most");
        assert_eq!(limits.of("db").unwrap().limit.cpus(), Some(0.2));
        let other = limits.of("other").unwrap();
        assert_eq!((other.limit, other.throttle), (CpuLimit::Unlimited, Some(Throttle::default())));
        limits.add(&Interval { cgroups_left_out: 1, ..interval }, &rows);
        assert_eq!(limits.of("other"), None, "it may be among those left out");
    }
}
