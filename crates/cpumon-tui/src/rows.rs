//! [`Rows`]: an interval as lines of a list, a tree or groups. In: an [`Interval`], a [`View`]. Out: light rows in order.
//! Why: all rows are arranged, only the visible ones are formatted, so that 10,000 threads cost milliseconds.

use cpumon_model::{Delta, Interval, ProcessInterval, SchedDelta, ThreadInterval};

use crate::history::RunTotals;
use crate::order::Sorter;
use crate::text::contains;
use crate::view::{Layout, RowId, View};
use crate::{groups, tree};

/// What a row stands for, as a place in the interval's lists.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// In [`Rows::groups`].
    Group(u32),
    /// In [`Interval::processes`].
    Process(u32),
    /// In [`Interval::threads`].
    Thread(u32),
}

/// Whether something is folded away under a row.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Nothing there.
    #[default]
    Leaf,
    /// Hidden.
    Closed,
    /// Shown below.
    Open,
}

/// One line of the grid.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// What it stands for.
    pub kind: RowKind,
    /// Levels above it.
    pub depth: u16,
    /// Bit n: the line of level n goes on below (first 64 levels).
    pub guides: u64,
    /// The last of its siblings.
    pub is_last: bool,
    /// What is under it.
    pub fold: Fold,
}

impl Row {
    /// A row at the left edge.
    pub(crate) fn top(kind: RowKind, fold: Fold) -> Self {
        Self { kind, depth: 0, guides: 0, is_last: false, fold }
    }

    /// A row under this one.
    pub(crate) fn child(&self, kind: RowKind, is_last: bool, fold: Fold) -> Self {
        let goes_on = self.depth > 0 && !self.is_last;
        let guides = if goes_on && self.depth < 64 { self.guides | 1 << self.depth } else { self.guides };
        Self { kind, depth: self.depth.saturating_add(1), guides, is_last, fold }
    }
}

/// All processes of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// The program's name.
    pub name: Box<str>,
    /// Its processes, as places in the interval's list.
    pub processes: Vec<u32>,
    /// Thread rows of all of them.
    pub thread_rows: u32,
    /// What they did together.
    pub delta: Delta,
    /// What the scheduler's events tell of them together.
    pub sched: SchedDelta,
}

/// An interval's lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    /// In order.
    pub rows: Vec<Row>,
    /// Groups that rows point to.
    pub groups: Vec<Group>,
}

/// What a row points to.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Item<'a> {
    /// A group.
    Group(&'a Group),
    /// A process.
    Process(&'a ProcessInterval),
    /// A thread.
    Thread(&'a ThreadInterval),
}

impl Item<'_> {
    /// What it did.
    pub(crate) fn delta(&self) -> &Delta {
        match self {
            Self::Group(group) => &group.delta,
            Self::Process(process) => &process.delta,
            Self::Thread(thread) => &thread.delta,
        }
    }

    /// What the scheduler's events tell of it.
    pub(crate) fn sched(&self) -> &SchedDelta {
        match self {
            Self::Group(group) => &group.sched,
            Self::Process(process) => &process.sched,
            Self::Thread(thread) => &thread.sched,
        }
    }

    /// Its identity.
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

impl Rows {
    /// Arranges an interval.
    pub(crate) fn build(interval: &Interval, view: &View, seen: &RunTotals) -> Self {
        let input = Input { interval, view, sorter: Sorter::new(interval, view, seen) };
        match view.layout {
            Layout::List if view.threads => input.flat_threads(),
            Layout::List => input.list(),
            Layout::Tree => tree::build(&input),
            Layout::Groups => groups::build(&input),
        }
    }

    /// What a row points to.
    pub(crate) fn item<'a>(&'a self, interval: &'a Interval, row: &Row) -> Option<Item<'a>> {
        Some(match row.kind {
            RowKind::Group(at) => Item::Group(self.groups.get(at as usize)?),
            RowKind::Process(at) => Item::Process(interval.processes.get(at as usize)?),
            RowKind::Thread(at) => Item::Thread(interval.threads.get(at as usize)?),
        })
    }

    /// Where a row with this identity stands.
    pub(crate) fn position(&self, interval: &Interval, id: &RowId) -> Option<usize> {
        self.rows.iter().position(|row| self.item(interval, row).is_some_and(|item| item.is(id)))
    }
}

/// What rows are made of.
pub(crate) struct Input<'a> {
    pub interval: &'a Interval,
    pub view: &'a View,
    pub sorter: Sorter<'a>,
}

/// An index of a list of the interval; the wire cannot carry 4 billion rows.
pub(crate) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl Input<'_> {
    fn list(&self) -> Rows {
        let threads = self.threads_by_process();
        let mut out = Rows::default();
        let mut shown: Vec<u32> = self.matching(&threads);
        self.sorter.processes(&mut shown);
        for at in shown {
            let row = Row::top(RowKind::Process(at), self.thread_fold(at, &threads));
            out.rows.push(row);
            self.push_threads(&row, at, &threads, &mut out.rows);
        }
        out
    }

    fn flat_threads(&self) -> Rows {
        let wanted: Vec<bool> =
            self.interval.processes.iter().map(|process| self.allows_pid(process.key.pid)).collect();
        let named: Vec<bool> =
            self.interval.processes.iter().map(|process| self.names_match(process)).collect();
        let mut shown: Vec<u32> = Vec::with_capacity(self.interval.threads.len());
        for (at, thread) in self.interval.threads.iter().enumerate() {
            let owner = self.interval.processes.binary_search_by_key(&thread.process, |row| row.key);
            let (is_wanted, is_named) = owner
                .map_or((self.allows_pid(thread.process.pid), false), |owner| (wanted[owner], named[owner]));
            if is_wanted && !self.is_hidden(&thread.delta) && (is_named || self.thread_matches(thread)) {
                shown.push(index(at));
            }
        }
        self.sorter.threads(&mut shown);
        let rows = shown.into_iter().map(|at| Row::top(RowKind::Thread(at), Fold::Leaf)).collect();
        Rows { rows, groups: Vec::new() }
    }

    /// The processes that pass the filter, by key.
    pub(crate) fn matching(&self, threads: &ThreadLists) -> Vec<u32> {
        let passes = |at: &usize| {
            self.interval.processes.get(*at).is_some_and(|process| {
                let below = threads.of(index(*at));
                self.allows_pid(process.key.pid)
                    && !self.is_hidden(&process.delta)
                    && (self.names_match(process) || below.iter().any(|at| self.thread_at_matches(*at)))
            })
        };
        (0..self.interval.processes.len()).filter(passes).map(index).collect()
    }

    fn is_hidden(&self, delta: &Delta) -> bool {
        self.view.hide_idle && delta.is_zero()
    }

    fn allows_pid(&self, pid: u32) -> bool {
        self.view.pids.is_empty() || self.view.pids.contains(&pid)
    }

    fn names_match(&self, process: &ProcessInterval) -> bool {
        let needle = &self.view.filter;
        needle.is_empty()
            || contains(&process.info.name, needle)
            || contains(&process.info.comm, needle)
            || contains(&process.info.cmdline, needle)
            || contains(&process.info.container, needle)
            || process.key.pid.to_string() == *needle
    }

    fn thread_at_matches(&self, at: u32) -> bool {
        self.interval.threads.get(at as usize).is_some_and(|thread| self.thread_matches(thread))
    }

    fn thread_matches(&self, thread: &ThreadInterval) -> bool {
        let needle = &self.view.filter;
        needle.is_empty()
            || contains(&thread.comm.to_str_lossy(), needle)
            || thread.key.tid.to_string() == *needle
    }

    /// Whether a process's own threads are folded away. One that has a single thread has nothing more to show.
    pub(crate) fn thread_fold(&self, at: u32, threads: &ThreadLists) -> Fold {
        let Some(process) = self.interval.processes.get(at as usize) else { return Fold::Leaf };
        if self.is_open(process) {
            if threads.of(at).is_empty() { Fold::Leaf } else { Fold::Open }
        } else if process.thread_rows > 1 {
            Fold::Closed
        } else {
            Fold::Leaf
        }
    }

    fn is_open(&self, process: &ProcessInterval) -> bool {
        (self.view.threads && process.thread_rows > 1)
            || self.view.open.contains(&RowId::Process(process.key))
    }

    /// Threads of the processes that show them (of all processes while a filter looks at thread names).
    pub(crate) fn threads_by_process(&self) -> ThreadLists {
        if !self.view.threads && self.view.open.is_empty() && self.view.filter.is_empty() {
            return ThreadLists::default();
        }
        ThreadLists::new(self.interval)
    }

    /// Adds the threads of a process below its row, if they are to be shown.
    pub(crate) fn push_threads(&self, parent: &Row, at: u32, threads: &ThreadLists, out: &mut Vec<Row>) {
        let Some(process) = self.interval.processes.get(at as usize) else { return };
        if !self.is_open(process) {
            return;
        }
        let visible = |at: &u32| {
            self.interval.threads.get(*at as usize).is_some_and(|thread| !self.is_hidden(&thread.delta))
        };
        let mut list: Vec<u32> = threads.of(at).iter().copied().filter(visible).collect();
        self.sorter.threads(&mut list);
        let count = list.len();
        for (nth, thread) in list.into_iter().enumerate() {
            out.push(parent.child(RowKind::Thread(thread), nth + 1 == count, Fold::Leaf));
        }
    }
}

/// The threads of each process, as places in the interval's list: one array cut at `starts`.
#[derive(Debug, Default)]
pub(crate) struct ThreadLists {
    starts: Vec<u32>,
    threads: Vec<u32>,
}

impl ThreadLists {
    fn new(interval: &Interval) -> Self {
        let owner = |thread: &ThreadInterval| {
            interval.processes.binary_search_by_key(&thread.process, |row| row.key).ok()
        };
        let owners: Vec<Option<usize>> = interval.threads.iter().map(owner).collect();
        let mut starts = vec![0_u32; interval.processes.len() + 1];
        for process in owners.iter().flatten() {
            starts[process + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut threads = vec![0_u32; starts.last().map_or(0, |&count| count as usize)];
        for (at, process) in owners.iter().enumerate() {
            if let Some(process) = *process {
                threads[next[process] as usize] = index(at);
                next[process] += 1;
            }
        }
        Self { starts, threads }
    }

    /// The threads of the process at this place.
    pub(crate) fn of(&self, process: u32) -> &[u32] {
        let at = process as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&from), Some(&to)) => self.threads.get(from as usize..to as usize).unwrap_or_default(),
            _ => &[],
        }
    }
}
