//! Functions shared by list, tree and groups: which rows the view allows, and the threads of a process.

use cpumon_model::{Delta, Interval, ProcessInterval, ThreadInterval};

use crate::rows::sort::Sorter;
use crate::rows::{Fold, GridRow, RowId, RowKind, index};
use crate::text::contains;
use crate::view::{UserFilter, View};

pub(crate) struct Input<'a> {
    pub interval: &'a Interval,
    pub view: &'a View,
    pub sorter: Sorter<'a>,
}

impl Input<'_> {
    /// Indices of the processes that pass the filter, in order of their keys.
    pub(crate) fn matching(&self, threads: &ThreadLists) -> Vec<u32> {
        let passes = |at: &usize| {
            self.interval.processes.get(*at).is_some_and(|process| {
                let below = threads.of(index(*at));
                self.allows_pid(process.key.pid)
                    && self.allows_user(process)
                    && !self.is_hidden(&process.delta)
                    && (self.names_match(process) || below.iter().any(|at| self.thread_at_matches(*at)))
            })
        };
        (0..self.interval.processes.len()).filter(passes).map(index).collect()
    }

    pub(super) fn is_hidden(&self, delta: &Delta) -> bool {
        self.view.hide_idle && delta.is_zero()
    }

    pub(super) fn allows_pid(&self, pid: u32) -> bool {
        self.view.pids.is_empty() || self.view.pids.contains(&pid)
    }

    pub(super) fn allows_user(&self, process: &ProcessInterval) -> bool {
        let is_of = |user: &UserFilter| self.interval.source.has_users() && user.allows(&process.info);
        self.view.user.as_ref().is_none_or(is_of)
    }

    pub(super) fn names_match(&self, process: &ProcessInterval) -> bool {
        let needle = &self.view.filter;
        needle.is_empty()
            || contains(&process.info.name, needle)
            || contains(&process.info.interpreter, needle)
            || contains(&process.info.product, needle)
            || contains(&process.info.comm, needle)
            || process.info.user_name().is_some_and(|name| contains(name, needle))
            || contains(&process.info.cmdline, needle)
            || contains(&process.info.container, needle)
            || process.key.pid.to_string() == *needle
    }

    fn thread_at_matches(&self, at: u32) -> bool {
        self.interval.threads.get(at as usize).is_some_and(|thread| self.thread_matches(thread))
    }

    pub(super) fn thread_matches(&self, thread: &ThreadInterval) -> bool {
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

    /// Threads of the processes that show them (of all processes while a filter applies to thread names).
    pub(crate) fn threads_by_process(&self) -> ThreadLists {
        if !self.view.threads && self.view.open.is_empty() && self.view.filter.is_empty() {
            return ThreadLists::default();
        }
        ThreadLists::new(self.interval)
    }

    /// Adds the threads of a process below its row, if they are to be shown.
    pub(crate) fn push_threads(
        &self,
        parent: &GridRow,
        at: u32,
        threads: &ThreadLists,
        out: &mut Vec<GridRow>,
    ) {
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
    pub(crate) fn new(interval: &Interval) -> Self {
        let owner = |thread: &ThreadInterval| {
            interval.processes.binary_search_by_key(&thread.process, |row| row.key).ok()
        };
        let owners: Vec<Option<usize>> = interval.threads.iter().map(owner).collect();
        // A counting sort: the threads of each process stay in the order of the interval.
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

    /// Threads of the process at this index.
    pub(crate) fn of(&self, process: u32) -> &[u32] {
        let at = process as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&from), Some(&to)) => self.threads.get(from as usize..to as usize).unwrap_or_default(),
            _ => &[],
        }
    }
}
