//! [`ReportQuery`] describes a report, from the words of a command line or a URL. [`GroupBy`] has the groups of processes that pivots and
//! comparisons take, [`ReportBy`] those of a report.

use std::borrow::Cow;

use cpumon_model::{ProcessInfo, SourceKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::TimeRange;
use crate::{ChoiceError, named, words};

const DAY_NS: i64 = 86_400_000_000_000;

words! {
    /// Groups of processes: columns of a pivot, or rows of a comparison.
    #[derive(Default)]
    GroupBy, "grouping",
    #[default]
    Name = "name": "All processes of one name",
    Process = "process": "One process, by pid and start time",
    Program = "program": "Like name, with kernel threads of one family together (kworker/0:1 is kworker)",
    User = "user": "Real user: root, ann (1000), or the id where no name is known",
    Service = "service": "systemd unit",
    Container = "container": "Container or systemd unit",
    Cgroup = "cgroup": "cgroup path",
}

/// Name of the group of all others.
pub const OTHERS: &str = "(other)";
/// Name of what belongs to no container, or whose user is unknown.
const NONE: &str = "(none)";

/// The name of a group. Of processes one by one it is their name alone.
pub fn group_name(by: GroupBy, source: SourceKind, info: &ProcessInfo) -> Cow<'_, str> {
    match by {
        GroupBy::Name | GroupBy::Process => (&*info.name).into(),
        GroupBy::Program => info.program().into(),
        GroupBy::User if !source.has_users() => NONE.into(),
        GroupBy::User => info.user_label(),
        GroupBy::Service => or_none(info.service()),
        GroupBy::Container => or_none((&*info.container).into()),
        GroupBy::Cgroup => or_none((&*info.cgroup).into()),
    }
}

fn or_none(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_empty() { NONE.into() } else { text }
}

words! {
    /// Grouping of a report's rows.
    #[derive(Default)]
    ReportBy, "grouping",
    #[default]
    Program = "program": "All processes of one name; kernel threads of one family together (kworker/0:1 is kworker)",
    Name = "name": "All processes of one name",
    Process = "process": "One process; those that began and ended within one interval are together, by name",
    Thread = "thread": "One thread; those that began and ended within one interval are together, by name",
    User = "user": "Real user: root, ann (1000), or the id where no name is known",
    Service = "service": "systemd unit",
    Container = "container": "Container or systemd unit",
    Cgroup = "cgroup": "cgroup path",
    Host = "host": "One host",
}

words! {
    /// Order of a report's rows, greatest value first.
    #[derive(Default)]
    ReportSort, "order",
    #[default]
    Cpu = "cpu": "CPU time",
    Ready = "ready": "Run delay: time ready, waiting for a CPU",
    Blocked = "blocked": "Time blocked",
    Switches = "switches": "Context switches",
    Peak = "peak": "Highest single interval",
    First = "first": "First active, latest first",
    Last = "last": "Last active, latest first",
    Change = "change": "With --compare: change of utilization, up or down",
}

impl ReportBy {
    /// The same group of processes in a pivot or a comparison; `None` of threads and hosts, which are no groups of processes.
    pub fn group(self) -> Option<GroupBy> {
        // Both have the same words.
        GroupBy::ALL.iter().copied().find(|by| by.name() == self.name())
    }
}

impl From<GroupBy> for ReportBy {
    fn from(by: GroupBy) -> Self {
        // There is one for each.
        Self::ALL.iter().copied().find(|one| one.group() == Some(by)).unwrap_or_default()
    }
}

named! {
    /// What a name that was found is of.
    #[derive(PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    FoundKind,
    /// A container.
    Container = "container",
    /// A program.
    Name = "name",
    /// A pod.
    Pod = "pod",
    /// A systemd unit.
    Service = "service",
    /// A user.
    User = "user",
}

/// What a report is compared with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CompareWith {
    /// The range of the same length that ends where the report's begins.
    Before,
    /// The same range a day earlier.
    Yesterday,
    /// The given range.
    Range(TimeRange),
}

impl CompareWith {
    /// The range that a report of the range `of` is compared with.
    pub fn range(self, of: TimeRange) -> TimeRange {
        let earlier = |by_ns: i64| TimeRange {
            since_ns: of.since_ns.saturating_sub(by_ns),
            until_ns: of.until_ns.saturating_sub(by_ns),
        };
        match self {
            Self::Before => earlier(of.length_ns()),
            Self::Yesterday => earlier(DAY_NS),
            Self::Range(range) => range,
        }
    }
}

/// Which rows a report is of. All others are one row, so that it adds up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportFilter {
    /// A part of a name or of a container in any case, a whole user id or pid.
    pub text: Option<Box<str>>,
    /// Only processes of the group with this name.
    pub within: Option<(GroupBy, Box<str>)>,
}

impl ReportFilter {
    /// The grouping of `BY:NAME`. A pod, as `find` calls it, is one of the names that a container goes by.
    pub fn grouping_within(by: &str) -> Result<GroupBy, ChoiceError> {
        if by == "pod" { Ok(GroupBy::Container) } else { by.parse() }
    }
}

/// A query for a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportQuery {
    /// Start, ns since the UNIX epoch; `None` is an hour before the end.
    pub since_ns: Option<i64>,
    /// End, ns since the UNIX epoch; `None` is the end of the data.
    pub until_ns: Option<i64>,
    /// Grouping of the rows.
    pub by: ReportBy,
    /// Order of the rows.
    pub sort: ReportSort,
    /// Rows to leave out at the beginning.
    pub offset: usize,
    /// Most rows; all others are summed in one row.
    pub limit: usize,
    /// Range to compare with.
    pub compare: Option<CompareWith>,
    /// Which processes the report includes.
    pub filter: ReportFilter,
    /// Points over time, about; `None`: as many as a small line has.
    pub points: Option<usize>,
}

impl Default for ReportQuery {
    fn default() -> Self {
        Self {
            since_ns: None,
            until_ns: None,
            by: ReportBy::default(),
            sort: ReportSort::default(),
            offset: 0,
            limit: 20,
            compare: None,
            filter: ReportFilter::default(),
            points: None,
        }
    }
}
