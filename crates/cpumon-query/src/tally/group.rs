//! Which groups a row belongs to, and how they are found again in another part of the range.

use cpumon_model::{
    BootId, CgroupNames, Delta, Fields, Flags, Interval, Life, ProcessInfo, ProcessInterval, ProcessKey,
    SourceKind, ThreadInterval, Waits,
};
use cpumon_store::{ActiveTimes, Segment, SumRow, What};

use crate::keys::TaskKey;
use crate::report::{FoundKind, GroupBy, ReportBy, ReportFilter, group_name};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    By(ReportBy),
    /// The same for the rows that a filter lets through; the others are one group.
    Filtered(ReportBy, RowFilter),
    /// Only what a search finds; a row can be in several groups.
    Search(TextSearch),
    /// Each process is a group, identified by its key.
    Keys,
}

/// What `find` searches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextSearch {
    /// A part of the name of a program, an interpreter, a product, a user or a container, in lower case.
    text: String,
    /// The user id, if the text is a number; filters search for pids too.
    number: Option<u32>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GroupKind {
    /// A group of the report's grouping.
    #[default]
    Whole,
    /// Processes that began and ended within one interval, by name.
    Short,
    /// All others: what a filter does not let through, and what came when there were too many groups.
    Others,
    /// What a search finds.
    Found(FoundKind),
}

/// A group, as it is called in every part of a range.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GroupId {
    Named(GroupKind, Box<str>),
    /// A task by its key, which is unique within a boot.
    Task(BootId, TaskKey),
}

/// A group of a row, borrowed.
#[derive(Copy, Clone, Debug)]
pub(crate) struct GroupOf<'a> {
    pub(crate) kind: GroupKind,
    /// Of a task: its newest name, by which it is shown only.
    pub(crate) name: &'a str,
    pub(crate) task: Option<(BootId, TaskKey)>,
    /// The process of a thread, or the process itself.
    pub(crate) process: Option<ProcessKey>,
}

impl<'a> GroupOf<'a> {
    /// A task by its key alone: the boots of a range count as one.
    pub(crate) fn by_key(name: &'a str, task: TaskKey) -> Self {
        Self { kind: GroupKind::Whole, name, task: Some((BootId::default(), task)), process: None }
    }

    pub(crate) const OTHERS: GroupOf<'static> =
        GroupOf { kind: GroupKind::Others, name: "", task: None, process: None };

    pub(crate) fn named(kind: GroupKind, name: &'a str) -> Self {
        Self { kind, name, task: None, process: None }
    }

    /// How it is found in another part of the range.
    pub(crate) fn id(&self) -> GroupId {
        match self.task {
            Some((boot, task)) => GroupId::Task(boot, task),
            None => GroupId::Named(self.kind, self.name.into()),
        }
    }
}

#[derive(Copy, Clone)]
pub(crate) enum TaskRow<'a> {
    Process(&'a ProcessInterval),
    Thread(&'a ThreadInterval),
}

/// What a row adds to its groups.
#[derive(Copy, Clone)]
pub(crate) struct RowPart<'a> {
    pub(crate) row: TaskRow<'a>,
    /// In which its key counts.
    pub(crate) boot: BootId,
    pub(crate) key: TaskKey,
    pub(crate) life: Life,
    pub(crate) delta: &'a Delta,
    pub(crate) waits: &'a Waits,
    /// Blocked time, ns; `None` if it was not measured.
    pub(crate) blocked_ns: Option<i64>,
    /// Of sums: the largest run time in one interval, ns per second.
    pub(crate) most_ns_per_s: Option<i64>,
    /// Of sums: when it was active, where that is recorded.
    pub(crate) times: Option<ActiveTimes>,
}

impl<'a> RowPart<'a> {
    /// `sum`: further figures of the row, if it belongs to a sum.
    fn new(interval: &Interval, row: TaskRow<'a>, sum: Option<&SumRow>) -> Self {
        let (key, life, delta, sched, flags) = match row {
            TaskRow::Process(row) => (TaskKey::Process(row.key), row.life, &row.delta, &row.sched, row.flags),
            TaskRow::Thread(row) => (TaskKey::Thread(row.key), row.life, &row.delta, &row.sched, row.flags),
        };
        let is_watched = interval.fields.contains(Fields::SCHED) && !flags.contains(Flags::UNWATCHED);
        Self {
            row,
            boot: sum.map_or(interval.boot, |sum| sum.boot),
            key,
            life,
            delta,
            waits: &sched.waits,
            blocked_ns: sum.map_or(is_watched.then_some(sched.blocked_ns), |sum| sum.blocked_ns),
            most_ns_per_s: sum.map(|sum| sum.max_run_ns_per_s),
            times: sum.and_then(|sum| sum.times),
        }
    }
}

/// A process row of a span: an interval's, or a sum's.
#[derive(Copy, Clone)]
pub(crate) struct SpanProcessRow<'a> {
    pub(crate) row: &'a ProcessInterval,
    source: SourceKind,
    is_short: bool,
    pub(crate) part: RowPart<'a>,
}

impl<'a> SpanProcessRow<'a> {
    pub(crate) fn has_user(&self) -> bool {
        self.source.has_users()
    }

    pub(crate) fn of(span: &'a Segment<'_>) -> impl Iterator<Item = Self> {
        (0..span.interval.processes.len()).map(move |at| Self::at(span, at))
    }

    pub(crate) fn at(span: &'a Segment<'_>, at: usize) -> Self {
        let interval = span.interval;
        let row = &interval.processes[at];
        let is_sum = span.max_busy_ppm.is_some();
        let sum = span.processes.get(at);
        let part = RowPart::new(interval, TaskRow::Process(row), sum);
        let boot = part.boot;
        // Sums have one row for all short-lived processes of a description: no process, of no boot.
        let is_short =
            if is_sum { row.key.pid == 0 && boot == BootId::default() } else { row.life == Life::BornEnded };
        // Sums do not name their source; only v1 devices send no boot.
        let is_v1 = is_sum && boot == BootId::default() && !is_short;
        let source = if is_v1 { SourceKind::V1 } else { interval.source };
        Self { row, source, is_short, part }
    }
}

/// A thread row of a span: an interval's, or a sum's.
#[derive(Copy, Clone)]
pub(crate) struct SpanThreadRow<'a> {
    pub(crate) row: &'a ThreadInterval,
    at: usize,
    pub(crate) part: RowPart<'a>,
}

impl<'a> SpanThreadRow<'a> {
    pub(crate) fn of(span: &'a Segment<'_>) -> impl Iterator<Item = Self> {
        (0..span.interval.threads.len()).map(move |at| Self::at(span, at))
    }

    pub(crate) fn at(span: &'a Segment<'_>, at: usize) -> Self {
        let (interval, sum) = (span.interval, span.threads.get(at));
        let row = &interval.threads[at];
        let part = RowPart::new(interval, TaskRow::Thread(row), sum);
        Self { row, at, part }
    }

    /// The place of its process in the rows of its span.
    pub(crate) fn process_at(&self, span: &Segment<'_>) -> Option<usize> {
        let processes = &span.interval.processes;
        let by_key = || processes.binary_search_by_key(&self.row.process, |process| process.key).ok();
        span.threads.get(self.at).map_or_else(by_key, |sum| sum.process)
    }

    /// Its group. Threads that began and ended within one interval form one group for each name: sums do not keep each such thread.
    pub(crate) fn group<'n>(&self, name: &'n str) -> GroupOf<'n> {
        if self.row.life == Life::BornEnded {
            return GroupOf::named(GroupKind::Short, name);
        }
        let task = Some((self.part.boot, TaskKey::Thread(self.row.key)));
        GroupOf { kind: GroupKind::Whole, name, task, process: Some(self.row.process) }
    }
}

impl Grouping {
    /// Groups of the rows that a filter lets through.
    pub(crate) fn of(by: ReportBy, filter: &ReportFilter) -> Self {
        if *filter == ReportFilter::default() {
            Self::By(by)
        } else {
            Self::Filtered(by, RowFilter::new(filter))
        }
    }

    /// Whether process rows or thread rows are read.
    pub(crate) fn what(&self) -> What {
        match self {
            Self::By(ReportBy::Thread) | Self::Filtered(ReportBy::Thread, _) => What::Threads,
            _ => What::Processes,
        }
    }

    /// Filter of the rows; `None` if all rows count.
    pub(crate) fn filter(&self) -> Option<&RowFilter> {
        if let Self::Filtered(_, filter) = self { Some(filter) } else { None }
    }

    /// Whether all rows of one description are in the same groups.
    pub(crate) fn is_by_info(&self) -> bool {
        match self {
            Self::By(by) => !matches!(by, ReportBy::Process | ReportBy::Thread),
            Self::Filtered(by, filter) => Self::By(*by).is_by_info() && !filter.takes_pids(),
            Self::Search(_) => true,
            Self::Keys => false,
        }
    }

    pub(crate) fn each(&self, process: SpanProcessRow<'_>, host: &str, visit: &mut dyn FnMut(GroupOf<'_>)) {
        let SpanProcessRow { row, source, is_short, part } = process;
        match self {
            Self::By(ReportBy::Host) => visit(GroupOf::named(GroupKind::Whole, host)),
            Self::By(ReportBy::Process) if is_short => {
                visit(GroupOf::named(GroupKind::Short, &row.info.name));
            }
            Self::By(ReportBy::Process) => visit(GroupOf {
                kind: GroupKind::Whole,
                name: &row.info.name,
                task: Some((part.boot, TaskKey::Process(row.key))),
                process: Some(row.key),
            }),
            Self::By(by) => {
                if let Some(by) = by.group() {
                    visit(GroupOf::named(GroupKind::Whole, &group_name(by, source, &row.info)));
                }
            }
            Self::Filtered(by, filter) if filter.lets(process) => Self::By(*by).each(process, host, visit),
            Self::Filtered(..) => visit(GroupOf::OTHERS),
            Self::Search(search) => search.each(&row.info, source, visit),
            Self::Keys => visit(GroupOf::by_key(&row.info.name, TaskKey::Process(row.key))),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowFilter {
    text: Option<TextSearch>,
    within: Option<(GroupBy, Box<str>)>,
}

impl RowFilter {
    fn new(filter: &ReportFilter) -> Self {
        Self { text: filter.text.as_deref().map(TextSearch::new), within: filter.within.clone() }
    }

    /// Whether a process may be found by its pid.
    fn takes_pids(&self) -> bool {
        self.text.as_ref().is_some_and(|search| search.number.is_some())
    }

    fn is_within(&self, process: SpanProcessRow<'_>) -> bool {
        let SpanProcessRow { row, source, .. } = process;
        self.within.as_ref().is_none_or(|(by, name)| is_in_group(*by, name, source, &row.info))
    }

    pub(crate) fn lets(&self, process: SpanProcessRow<'_>) -> bool {
        let SpanProcessRow { row, source, is_short, .. } = process;
        let has_pid = |search: &TextSearch| !is_short && search.number == Some(row.key.pid);
        let is_found = |search: &TextSearch| has_pid(search) || search.finds(&row.info, source);
        self.is_within(process) && self.text.as_ref().is_none_or(is_found)
    }

    /// Whether it lets a thread through, itself or with its process.
    pub(crate) fn lets_thread(&self, thread: &ThreadInterval, process: Option<SpanProcessRow<'_>>) -> bool {
        let is_found = |search: &TextSearch| {
            search.number == Some(thread.key.tid) || search.is_in(&thread.comm.to_str_lossy())
        };
        let is_found = self.text.as_ref().is_some_and(is_found);
        match process {
            Some(process) => self.lets(process) || is_found && self.is_within(process),
            None => is_found && self.within.is_none(),
        }
    }
}

/// Whether a process is in the group of this name, under any name that the group goes by.
pub(crate) fn is_in_group(by: GroupBy, name: &str, source: SourceKind, info: &ProcessInfo) -> bool {
    *group_name(by, source, info) == *name || has_other_name(by, name, source, info)
}

/// Whether a search finds a process under a name that is not that of its group: a unit in a container, a pod, the id or the name alone of
/// a user with a name.
fn has_other_name(by: GroupBy, name: &str, source: SourceKind, info: &ProcessInfo) -> bool {
    match by {
        GroupBy::Container => *info.service() == *name || *CgroupNames::of(&info.cgroup).pod() == *name,
        GroupBy::User => {
            source.has_users() && (name.parse() == Ok(info.uid) || info.user_name() == Some(name))
        }
        _ => false,
    }
}

impl TextSearch {
    /// Searches for a text: a part of the name of a program, an interpreter, a product, a user or a container in any case, or a whole user id.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_lowercase(), number: text.parse().ok() }
    }

    fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.text)
    }

    fn finds(&self, info: &ProcessInfo, source: SourceKind) -> bool {
        let mut is_found = false;
        self.each(info, source, &mut |_| is_found = true);
        is_found
    }

    pub(crate) fn each(&self, info: &ProcessInfo, source: SourceKind, visit: &mut dyn FnMut(GroupOf<'_>)) {
        let mut found = |kind, name: &str| visit(GroupOf::named(GroupKind::Found(kind), name));
        if [&info.name, &info.interpreter, &info.product].iter().any(|name| self.is_in(name)) {
            found(FoundKind::Name, &info.name);
        }
        let is_named = || info.user_name().is_some_and(|name| self.is_in(name));
        if source.has_users() && (self.number == Some(info.uid) || is_named()) {
            found(FoundKind::User, &info.user_label());
        }
        let (service, pod) = (info.service(), CgroupNames::of(&info.cgroup).pod());
        // Of processes in no container it is the unit.
        if *info.container != *service && self.is_in(&info.container) {
            found(FoundKind::Container, &info.container);
        }
        // The unit in a container, and the pod around it, are names of their own.
        for (kind, name) in [(FoundKind::Service, service), (FoundKind::Pod, pod)] {
            if !name.is_empty() && self.is_in(&name) {
                found(kind, &name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_within_each_name_that_a_search_finds_it_by() {
        let of = |cgroup: &str| ProcessInfo {
            name: "sshd".into(),
            cgroup: cgroup.into(),
            container: "web".into(),
            uid: 1000,
            user: "ann".into(),
            ..ProcessInfo::default()
        };
        let in_lxc = of("/lxc.payload.web/system.slice/ssh.service");
        let in_pod = of("/kubepods/burstable/pod0aa79f1d-6e6a-4d5e-9a9e-6d8f1a7b2c3d/0123456789ab");
        let pod = CgroupNames::of(&in_pod.cgroup).pod();
        assert!(!pod.is_empty());
        for (by, name, info, is_within) in [
            (GroupBy::Container, "ssh.service", &in_lxc, true),
            (GroupBy::Container, &*pod, &in_pod, true),
            (GroupBy::Container, &*pod, &in_lxc, false),
            (GroupBy::User, "1000", &in_lxc, true),
            (GroupBy::User, "100", &in_lxc, false),
            (GroupBy::User, "ann", &in_lxc, true),
            (GroupBy::User, "an", &in_lxc, false),
            (GroupBy::Name, "ssh.service", &in_lxc, false),
        ] {
            assert_eq!(has_other_name(by, name, SourceKind::Bpf, info), is_within, "{by:?} {name}");
        }
        assert!(!has_other_name(GroupBy::User, "1000", SourceKind::V1, &in_lxc));
    }

    #[test]
    fn what_is_found_is_a_service_a_container_or_a_pod() {
        let id = "0123456789ab".repeat(5) + "cdef";
        let pod = "0aa79f1d-6e6a-4d5e-9a9e-6d8f1a7b2c3d";
        for (cgroup, text, expected) in [
            (
                "/system.slice/backup.service",
                "backup",
                vec![(GroupKind::Found(FoundKind::Service), "backup.service")],
            ),
            (
                "/lxc.payload.web/system.slice/web.service",
                "web",
                vec![
                    (GroupKind::Found(FoundKind::Container), "web"),
                    (GroupKind::Found(FoundKind::Service), "web.service"),
                ],
            ),
            (
                &*format!("/system.slice/docker-{id}.scope"),
                "0123",
                vec![(GroupKind::Found(FoundKind::Container), &id[..12])],
            ),
            (
                &*format!("/kubepods/burstable/pod{pod}/{id}"),
                "0",
                vec![
                    (GroupKind::Found(FoundKind::Container), &id[..12]),
                    (GroupKind::Found(FoundKind::Pod), pod),
                ],
            ),
        ] {
            let container = CgroupNames::of(cgroup).container_or_service().into_owned().into();
            let info = ProcessInfo { cgroup: cgroup.into(), container, uid: 7, ..ProcessInfo::default() };
            let mut found = Vec::new();
            TextSearch::new(text)
                .each(&info, SourceKind::Bpf, &mut |of| found.push((of.kind, of.name.to_owned())));
            let found: Vec<_> = found.iter().map(|(kind, name)| (*kind, &**name)).collect();
            assert_eq!(found, expected, "{cgroup}");
        }
        // A host that sends no paths: only its name for the unit is known.
        let info = ProcessInfo { container: "ssh.service".into(), ..ProcessInfo::default() };
        let mut found = Vec::new();
        TextSearch::new("ssh").each(&info, SourceKind::Bpf, &mut |of| found.push(of.kind));
        assert_eq!(found, [GroupKind::Found(FoundKind::Service)]);
    }
}
