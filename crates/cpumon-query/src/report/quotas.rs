//! CPU quotas of the groups of a report: how often and for how long these limits were reached.
//!
//! A control group is in one row where rows are made of control groups, and in every row of which a process ran in it where rows are made of
//! tasks: for those the processes are read again, and only on a host on which a group has a limit.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use cpumon_model::{CgroupInterval, Fields, GroupLimits, Interval, ProcessInfo, SourceKind};
use cpumon_store::{Query, Reader, Segment, What};

use super::query::{GroupBy, ReportBy, group_name};
use super::read::filter_of;
use super::rows::HostTally;
use super::sums::{ReportGroup, each_thread};
use crate::QueryError;
use crate::history::History;
use crate::tally::{GroupId, GroupKind, GroupOf, Grouping, Now, RowPart, SpanProcessRow, Sums, Tally};

/// Memory of the paths of a host's control groups: a device chooses how many there are, and each may have 4 KiB.
const MAX_PATH_BYTES: usize = 32 << 20;
/// Memory of a path beside its text, with the row that it is in.
const BYTES_BESIDE: usize = 160;

/// Memory that is left for paths, bytes.
struct PathSpace(Cell<usize>);

impl PathSpace {
    fn new() -> Self {
        Self(Cell::new(MAX_PATH_BYTES))
    }

    /// Whether there is memory for one more. Once there was not, there is none for any.
    fn take(&self, path: &str) -> bool {
        let left = self.0.get().checked_sub(path.len() + BYTES_BESIDE);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }

    fn is_used_up(&self) -> bool {
        self.0.get() == 0
    }
}

/// The limits of a host's groups by their row.
#[derive(Debug, Default)]
pub(super) struct HostLimits {
    groups: HashMap<GroupId, GroupLimits>,
    /// Whether a row that is not there has no limit.
    is_complete: bool,
}

/// Rows of a report whose limits are wanted.
#[derive(Copy, Clone, Debug)]
pub(super) struct LimitedRows<'a> {
    pub(super) by: ReportBy,
    pub(super) grouping: &'a Grouping,
    /// Groups of one host that are shown.
    pub(super) shown: &'a [&'a ReportGroup],
}

/// Whether rows of this kind are control groups, or made from control groups.
pub(super) fn is_of_cgroups(by: ReportBy) -> bool {
    matches!(by, ReportBy::Cgroup | ReportBy::Container | ReportBy::Service)
}

/// Whether rows of this kind are programs or tasks, which run in control groups.
fn is_of_tasks(by: ReportBy) -> bool {
    matches!(by, ReportBy::Program | ReportBy::Name | ReportBy::Process | ReportBy::Thread)
}

impl HostLimits {
    /// Limits of this row; `None` if not known.
    pub(super) fn of(&self, row: &GroupId) -> Option<GroupLimits> {
        self.groups.get(row).copied().or_else(|| self.is_complete.then_some(GroupLimits::NONE))
    }

    fn add(&mut self, interval: &Interval, rows: &RowsOfPath) {
        self.is_complete &= interval.knows_limits();
        let mut by_row: HashMap<&GroupId, Vec<&CgroupInterval>> = HashMap::new();
        for group in &interval.cgroups {
            for row in rows.get(&*group.path).into_iter().flatten() {
                by_row.entry(row).or_default().push(group);
            }
        }
        for (row, groups) in by_row {
            let Some(more) = GroupLimits::of_rows(groups) else { continue };
            match self.groups.get_mut(row) {
                Some(sum) => sum.add(&more),
                None => _ = self.groups.insert(row.clone(), more),
            }
        }
    }
}

/// The rows of a report by the path of a control group.
type RowsOfPath = HashMap<Box<str>, Vec<GroupId>>;

/// How paths name rows that are made of control groups.
struct Naming {
    by: GroupBy,
    containers: HashMap<Box<str>, Box<str>>,
}

impl Naming {
    fn note(&self, group: &CgroupInterval, space: &PathSpace, rows: &mut RowsOfPath) {
        if rows.contains_key(&*group.path) || !space.take(&group.path) {
            return;
        }
        let container = self.containers.get(&*group.path).cloned().unwrap_or_default();
        let info = ProcessInfo { cgroup: (&*group.path).into(), container, ..ProcessInfo::default() };
        let name = group_name(self.by, SourceKind::Unknown, &info);
        rows.insert((&*group.path).into(), vec![GroupOf::named(GroupKind::Whole, &name).id()]);
    }
}

/// Paths of the control groups in which the processes of a row ran.
#[derive(Clone, Debug, Default)]
struct Paths(HashSet<Box<str>>);

impl Paths {
    fn note(&mut self, path: &str, space: &PathSpace) {
        if !self.0.contains(path) && space.take(path) {
            self.0.insert(path.into());
        }
    }
}

impl Sums for Paths {
    /// The path of the process of the row that is added, and the memory for it.
    type Span<'s> = (&'s str, &'s PathSpace);

    fn add(&mut self, (path, space): &Self::Span<'_>, _: &RowPart<'_>) {
        self.note(path, space);
    }

    fn close(&mut self, _: &Self::Span<'_>, _: &Now) {}
}

/// The rows that are shown, by the paths of the groups in which their processes ran.
fn rows_of_tasks(
    history: &History,
    one: &HostTally,
    rows: LimitedRows<'_>,
    space: &PathSpace,
) -> Result<RowsOfPath, QueryError> {
    let LimitedRows { grouping, shown, .. } = rows;
    let (what, host) = (grouping.what(), &one.host.info);
    let mut tally = Tally::of_groups(Paths::default(), shown.iter().map(|group| group.of()));
    let query = Query::new(host.host).what(what).filter(filter_of(shown));
    let query = query.without_resting().without_sched().with_sum_details();
    each_segment(history, one, &query, &mut |span| {
        if what == What::Threads {
            each_thread(span, grouping, &mut |of, thread| {
                let process = thread.process_at(span).and_then(|at| span.interval.processes.get(at));
                if let Some(process) = process {
                    tally.add_row(of, &(&*process.info.cgroup, space), &thread.part);
                }
            });
        } else {
            for process in SpanProcessRow::of(span) {
                let path = &*process.row.info.cgroup;
                tally.add_process(process, grouping, &host.hostname, &(path, space));
            }
        }
        tally.close(&("", space));
    })?;
    let mut rows = RowsOfPath::new();
    for group in &mut tally.groups {
        for path in std::mem::take(&mut group.sums.0) {
            rows.entry(path).or_default().push(group.id());
        }
    }
    Ok(rows)
}

/// Reads the range of a host's report as the report does, with what `query` asks for.
fn each_segment(
    history: &History,
    one: &HostTally,
    query: &Query,
    visit: &mut dyn FnMut(&Segment<'_>),
) -> Result<(), QueryError> {
    for span in &one.cut.spans {
        let query = query.clone().range(span.range.since_ns, span.range.until_ns);
        let mut segments = history.segments(&query, span.resolution)?;
        while let Some(segment) = segments.read()? {
            visit(&segment);
        }
    }
    Ok(())
}

/// The limits of the rows of a host, over the range that was read. `None`: not measured, no group has a limit, rows of another kind, or more
/// paths than there is memory for.
pub(super) fn of_host(
    history: &History,
    one: &HostTally,
    rows: LimitedRows<'_>,
) -> Result<Option<HostLimits>, QueryError> {
    let (mut rows_of, mut naming, space) = (RowsOfPath::new(), None, PathSpace::new());
    match rows.by.group() {
        Some(by) if is_of_cgroups(rows.by) => {
            naming = Some(Naming { by, containers: history.ask(Reader::cgroup_containers)? });
        }
        _ if is_of_tasks(rows.by) && one.tally.has_limits => {
            rows_of = rows_of_tasks(history, one, rows, &space)?;
        }
        _ => return Ok(None),
    }
    let mut limits = HostLimits { is_complete: true, ..HostLimits::default() };
    let mut is_measured = false;
    let query = Query::new(one.host.info.host).what(What::Meta).without_resting().without_sched();
    each_segment(history, one, &query, &mut |span| {
        is_measured |= span.interval.fields.contains(Fields::CGROUPS);
        if let Some(naming) = &naming {
            span.interval.cgroups.iter().for_each(|group| naming.note(group, &space, &mut rows_of));
        }
        limits.add(span.interval, &rows_of);
    })?;
    // Of the paths that were left out the limits are not known.
    Ok((is_measured && !space.is_used_up()).then_some(limits))
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
        let id = |name: &str| GroupOf::named(GroupKind::Whole, name).id();
        let of = |path: &str, name: &str| (path.into(), vec![id(name)]);
        let rows = HashMap::from([of("/pod/a", "web"), of("/pod/b", "web"), of("/pod/c", "db")]);
        let mut limits = HostLimits { is_complete: true, ..HostLimits::default() };
        (0..2).for_each(|_| limits.add(&interval, &rows));
        let web = limits.of(&id("web")).unwrap();
        assert_eq!((web.limit.cpus(), web.throttle.unwrap().throttled_ns), (Some(0.5), 14));
        assert_eq!(web.pressure.unwrap().some_ns, 18, "of the group that waited most");
        assert_eq!(limits.of(&id("db")).unwrap().limit.cpus(), Some(0.2));
        let other = limits.of(&id("other")).unwrap();
        assert_eq!((other.limit, other.throttle), (CpuLimit::Unlimited, Some(Throttle::default())));
        limits.add(&Interval { cgroups_left_out: 1, ..interval }, &rows);
        assert_eq!(limits.of(&id("other")), None, "it may be among those left out");
    }

    /// A device chooses them, and the paths of all processes of a row were held, whatever their number.
    #[test]
    fn paths_take_bounded_memory() {
        let space = PathSpace::new();
        let naming = Naming { by: GroupBy::Cgroup, containers: HashMap::new() };
        let (mut rows, long) = (RowsOfPath::new(), "x".repeat(4_000));
        for number in 0..20_000 {
            naming.note(&row(&format!("/{number}/{long}"), 0, 1, 0), &space, &mut rows);
        }
        let bytes: usize = rows.keys().map(|path| path.len()).sum();
        assert!((MAX_PATH_BYTES / 2..=MAX_PATH_BYTES).contains(&bytes), "{bytes}");
        assert!(space.is_used_up(), "the limits are not known");
        let (mut paths, before) = (Paths::default(), rows.len());
        naming.note(&row("/a", 0, 1, 0), &space, &mut rows);
        paths.note("/a", &space);
        assert_eq!((rows.len(), paths.0.len()), (before, 0), "no short one behind them either");
        let space = PathSpace::new();
        for path in ["/a", "/b", "/a"] {
            paths.note(path, &space);
        }
        assert_eq!(paths.0.len(), 2);
        assert_eq!(space.0.get(), MAX_PATH_BYTES - 2 * (2 + BYTES_BESIDE), "each counts once");
    }
}
