//! The grid's rows as data. [`RowList`] is an interval as a list, a tree or groups: light rows in the order of the screen, which point into
//! the interval's lists.

mod arrange;
#[cfg(test)]
mod props;
mod sort;

use std::borrow::Cow;

use cpumon_model::{
    DelayHistogram, DelayOf, Delta, Interval, ProcessInterval, ProcessKey, SchedDelta, ThreadInterval,
    ThreadKey,
};

/// The identity of a row, over all intervals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowId {
    /// A group, by its name.
    Group(Box<str>),
    Process(ProcessKey),
    Thread(ThreadKey),
}

/// The object of a row, as an index into the interval's lists.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// Index into [`RowList::groups`].
    Group(u32),
    /// Index into [`Interval::processes`].
    Process(u32),
    /// A process of the tree whose children are hidden: index into [`RowList::branches`].
    Branch(u32),
    /// Index into [`Interval::threads`].
    Thread(u32),
}

/// Whether something is folded away under a row.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fold {
    #[default]
    Leaf,
    Closed,
    Open,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct GridRow {
    pub kind: RowKind,
    /// Nesting depth; 0 at the left edge.
    pub depth: u16,
    /// Bit n: the line of level n continues below (first 64 levels).
    pub guides: u64,
    /// The last of its siblings.
    pub is_last: bool,
    pub fold: Fold,
}

impl GridRow {
    /// A row at the left edge.
    pub(crate) fn top(kind: RowKind, fold: Fold) -> Self {
        Self { kind, depth: 0, guides: 0, is_last: false, fold }
    }

    pub(crate) fn child(&self, kind: RowKind, is_last: bool, fold: Fold) -> Self {
        let goes_on = self.depth > 0 && !self.is_last;
        let guides = if goes_on && self.depth < 64 { self.guides | 1 << self.depth } else { self.guides };
        Self { kind, depth: self.depth.saturating_add(1), guides, is_last, fold }
    }
}

/// Processes with the same program, user, service or container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowGroup {
    pub name: Box<str>,
    /// Indexes of its processes in the interval's list.
    pub processes: Vec<u32>,
    pub thread_rows: u32,
    pub delta: Delta,
    pub sched: SchedDelta,
}

/// A process with all that is hidden below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Branch {
    /// Its row, with the sums of the whole branch.
    pub sum: ProcessInterval,
    /// Number of processes below it.
    pub below: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowList {
    pub rows: Vec<GridRow>,
    pub groups: Vec<RowGroup>,
    pub branches: Vec<Branch>,
}

#[derive(Copy, Clone, Debug)]
pub(crate) enum Item<'a> {
    Group(&'a RowGroup),
    Process(&'a ProcessInterval),
    Thread(&'a ThreadInterval),
}

impl RowGroup {
    pub(crate) fn rows<'i>(&self, interval: &'i Interval) -> impl Iterator<Item = &'i ProcessInterval> {
        self.processes.iter().filter_map(|&at| interval.processes.get(at as usize))
    }
}

impl<'a> Item<'a> {
    /// The process that it is or that it belongs to; `None` of a group.
    pub(crate) fn process<'i>(&self, interval: &'i Interval) -> Option<&'i ProcessInterval>
    where
        'a: 'i,
    {
        match *self {
            Self::Group(_) => None,
            Self::Process(process) => Some(process),
            Self::Thread(thread) => interval.process(thread.process),
        }
    }

    pub(crate) fn delta(&self) -> &Delta {
        match self {
            Self::Group(group) => &group.delta,
            Self::Process(process) => &process.delta,
            Self::Thread(thread) => &thread.delta,
        }
    }

    pub(crate) fn sched(&self) -> &SchedDelta {
        match self {
            Self::Group(group) => &group.sched,
            Self::Process(process) => &process.sched,
            Self::Thread(thread) => &thread.sched,
        }
    }

    pub(crate) fn id(&self) -> RowId {
        match self {
            Self::Group(group) => RowId::Group(group.name.clone()),
            Self::Process(process) => RowId::Process(process.key),
            Self::Thread(thread) => RowId::Thread(thread.key),
        }
    }

    fn is(&self, id: &RowId) -> bool {
        match (self, id) {
            (Self::Group(group), RowId::Group(name)) => group.name == *name,
            (Self::Process(process), RowId::Process(key)) => process.key == *key,
            (Self::Thread(thread), RowId::Thread(key)) => thread.key == *key,
            _ => false,
        }
    }
}

impl RowList {
    pub(crate) fn item<'a>(&'a self, interval: &'a Interval, row: &GridRow) -> Option<Item<'a>> {
        Some(match row.kind {
            RowKind::Group(at) => Item::Group(self.groups.get(at as usize)?),
            RowKind::Process(at) => Item::Process(interval.processes.get(at as usize)?),
            RowKind::Branch(at) => Item::Process(&self.branches.get(at as usize)?.sum),
            RowKind::Thread(at) => Item::Thread(interval.threads.get(at as usize)?),
        })
    }

    pub(crate) fn position(&self, interval: &Interval, id: &RowId) -> Option<usize> {
        self.rows.iter().position(|row| self.item(interval, row).is_some_and(|item| item.is(id)))
    }
}

/// An index of a list of the interval; the wire cannot carry 4 billion rows.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The run delays of all processes of a program.
pub(crate) fn group_delays(interval: &Interval, group: &RowGroup) -> DelayHistogram {
    let mut sum = DelayHistogram::default();
    for row in group.rows(interval) {
        if let Some(delays) = interval.delays_of(DelayOf::Process(row.key)) {
            sum += delays;
        }
    }
    sum
}

/// A thread's name. v1 names no threads: there it is the name of the process; empty if that has none either.
pub(crate) fn thread_name<'a>(interval: &'a Interval, thread: &'a ThreadInterval) -> Cow<'a, str> {
    if thread.comm.is_empty() {
        interval.process(thread.process).map_or(Cow::Borrowed(""), |process| (&*process.info.name).into())
    } else {
        thread.comm.to_str_lossy()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cpumon_model::ProcessInfo;

    use super::*;

    #[test]
    fn a_thread_that_a_v1_device_does_not_name_has_the_name_of_its_process() {
        let info = Arc::new(ProcessInfo { name: "NK.EXE".into(), ..ProcessInfo::default() });
        let process = ProcessInterval { info, ..ProcessInterval::default() };
        let interval = Interval { processes: vec![process], ..Interval::default() };
        let mut thread = ThreadInterval::default();
        assert_eq!(thread_name(&interval, &thread), "NK.EXE");
        thread.comm = "worker".into();
        assert_eq!(thread_name(&interval, &thread), "worker");
        thread = ThreadInterval { process: ProcessKey { pid: 9, start_ns: 0 }, ..ThreadInterval::default() };
        assert_eq!(thread_name(&interval, &thread), "", "no process");
    }
}
