//! Arranges an interval as a list, a tree or groups: which rows the view allows, in which order, with which threads below a process. All
//! rows are arranged, only the visible ones are formatted: 10,000 threads take milliseconds (`cargo bench -p cpumon-tui`).
//!
//! In the tree processes are below their parents. Pids come from other machines and may form loops or chains of any depth; every
//! process must be in the tree exactly once.

use std::borrow::Cow;
use std::collections::HashMap;

use cpumon_model::{Delta, Interval, Life, ProcessInterval, ThreadInterval};
use cpumon_query::group_name;

use crate::history::RunTotals;
use crate::rows::sort::Sorter;
use crate::rows::{Branch, Fold, GridRow, RowGroup, RowId, RowKind, RowList, index};
use crate::text::contains;
use crate::view::{Layout, UserFilter, View};

impl RowList {
    pub(crate) fn build(interval: &Interval, view: &View, seen: &RunTotals) -> Self {
        let input = Input { interval, view, sorter: Sorter::new(interval, view, seen) };
        let mut list = match view.layout {
            Layout::List if view.threads => input.flat_threads(),
            Layout::List => input.list(),
            Layout::Tree => tree(&input),
            Layout::Groups => groups(&input),
        };
        list.rows.truncate(view.limit.unwrap_or(usize::MAX));
        list
    }
}

struct Input<'a> {
    interval: &'a Interval,
    view: &'a View,
    sorter: Sorter<'a>,
}

impl Input<'_> {
    fn list(&self) -> RowList {
        let threads = self.threads_by_process();
        let mut out = RowList::default();
        let mut shown: Vec<u32> = self.matching(&threads);
        self.sorter.processes(&mut shown);
        for at in shown {
            let row = GridRow::top(RowKind::Process(at), self.thread_fold(at, &threads));
            out.rows.push(row);
            self.push_threads(&row, at, &threads, &mut out.rows);
        }
        out
    }

    fn flat_threads(&self) -> RowList {
        // Once for each process: all of its threads share the answer.
        let wanted: Vec<bool> = self
            .interval
            .processes
            .iter()
            .map(|process| self.allows_pid(process.key.pid) && self.allows_user(process))
            .collect();
        let named: Vec<bool> =
            self.interval.processes.iter().map(|process| self.names_match(process)).collect();
        let mut shown: Vec<u32> = Vec::with_capacity(self.interval.threads.len());
        for (at, thread) in self.interval.threads.iter().enumerate() {
            let owner = self.interval.processes.binary_search_by_key(&thread.process, |row| row.key);
            let (is_wanted, is_named) = owner
                .map_or((self.allows_pid(thread.process.pid) && self.view.user.is_none(), false), |owner| {
                    (wanted[owner], named[owner])
                });
            if is_wanted && !self.is_hidden(&thread.delta) && (is_named || self.thread_matches(thread)) {
                shown.push(index(at));
            }
        }
        self.sorter.threads(&mut shown);
        let rows = shown.into_iter().map(|at| GridRow::top(RowKind::Thread(at), Fold::Leaf)).collect();
        RowList { rows, ..RowList::default() }
    }

    /// Indices of the processes that pass the filter, in order of their keys.
    fn matching(&self, threads: &ThreadLists) -> Vec<u32> {
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

    fn is_hidden(&self, delta: &Delta) -> bool {
        self.view.hide_idle && delta.is_zero()
    }

    fn allows_pid(&self, pid: u32) -> bool {
        self.view.pids.is_empty() || self.view.pids.contains(&pid)
    }

    fn allows_user(&self, process: &ProcessInterval) -> bool {
        let is_of = |user: &UserFilter| self.interval.source.has_users() && user.allows(&process.info);
        self.view.user.as_ref().is_none_or(is_of)
    }

    fn names_match(&self, process: &ProcessInterval) -> bool {
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

    fn thread_matches(&self, thread: &ThreadInterval) -> bool {
        let needle = &self.view.filter;
        needle.is_empty()
            || contains(&thread.comm.to_str_lossy(), needle)
            || thread.key.tid.to_string() == *needle
    }

    /// Whether a process's own threads are folded away. One that has a single thread has nothing more to show.
    fn thread_fold(&self, at: u32, threads: &ThreadLists) -> Fold {
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
    fn threads_by_process(&self) -> ThreadLists {
        if !self.view.threads && self.view.open.is_empty() && self.view.filter.is_empty() {
            return ThreadLists::default();
        }
        ThreadLists::new(self.interval)
    }

    /// Adds the threads of a process below its row, if they are to be shown.
    fn push_threads(&self, parent: &GridRow, at: u32, threads: &ThreadLists, out: &mut Vec<GridRow>) {
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
struct ThreadLists {
    starts: Vec<u32>,
    threads: Vec<u32>,
}

impl ThreadLists {
    fn new(interval: &Interval) -> Self {
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
    fn of(&self, process: u32) -> &[u32] {
        let at = process as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&from), Some(&to)) => self.threads.get(from as usize..to as usize).unwrap_or_default(),
            _ => &[],
        }
    }
}

/// One row for each program, user, service or container, with its processes below if it is open.
fn groups(input: &Input<'_>) -> RowList {
    let threads = input.threads_by_process();
    let mut groups = groups_by_name(input, &input.matching(&threads));
    input.sorter.groups(&mut groups);
    let mut rows = Vec::with_capacity(groups.len());
    for (nth, group) in groups.iter().enumerate() {
        let is_open = input.view.open.contains(&RowId::Group(group.name.clone()));
        let fold = if is_open { Fold::Open } else { Fold::Closed };
        let top = GridRow::top(RowKind::Group(index(nth)), fold);
        rows.push(top);
        if !is_open {
            continue;
        }
        let mut members = group.processes.clone();
        input.sorter.processes(&mut members);
        let count = members.len();
        for (nth, at) in members.into_iter().enumerate() {
            let row = top.child(RowKind::Process(at), nth + 1 == count, input.thread_fold(at, &threads));
            rows.push(row);
            input.push_threads(&row, at, &threads, &mut rows);
        }
    }
    RowList { rows, groups, ..RowList::default() }
}

fn groups_by_name(input: &Input<'_>, processes: &[u32]) -> Vec<RowGroup> {
    let mut by_name: HashMap<Cow<'_, str>, usize> = HashMap::new();
    let mut groups: Vec<RowGroup> = Vec::new();
    for &at in processes {
        let Some(process) = input.interval.processes.get(at as usize) else { continue };
        let name = group_name(input.view.group_by, input.interval.source, &process.info);
        let place = *by_name.entry(name).or_insert_with_key(|name| {
            groups.push(RowGroup { name: (&**name).into(), ..RowGroup::default() });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(place) {
            group.processes.push(at);
            group.thread_rows = group.thread_rows.saturating_add(process.thread_rows);
            group.delta += &process.delta;
            group.sched += &process.sched;
        }
    }
    groups
}

/// Parents and children among the processes shown.
struct Family {
    parents: Vec<Option<u32>>,
    children: Vec<Vec<u32>>,
}

/// Arranges processes under their parents; those without a parent in the list are at the left edge.
fn tree(input: &Input<'_>) -> RowList {
    let threads = input.threads_by_process();
    let processes = &input.interval.processes;
    let parents = parents(input);
    let mut is_shown = vec![false; processes.len()];
    for at in input.matching(&threads) {
        show_with_ancestors(at, &parents, &mut is_shown);
    }
    let mut roots = Vec::new();
    let mut family = Family { parents, children: vec![Vec::new(); processes.len()] };
    for at in (0..processes.len()).filter(|at| is_shown[*at]) {
        match family.parents[at] {
            Some(parent) => family.children[parent as usize].push(index(at)),
            None => roots.push(index(at)),
        }
    }
    sort_siblings(input, &mut roots, &mut family);
    let mut out = RowList::default();
    for root in roots {
        push_family(input, root, &family, &threads, &mut out);
    }
    out
}

/// Siblings are sorted by the sums of their whole branches, so that a busy process far down lifts the way to it; columns
/// that cannot be added up sort by the processes' own values.
fn sort_siblings(input: &Input<'_>, roots: &mut [u32], family: &mut Family) {
    let own = (0..family.parents.len()).map(|at| input.sorter.measured_of(index(at)));
    let sums = own.collect::<Option<Vec<i64>>>().map(|own| branch_sums(own, roots, family));
    let sort = |places: &mut [u32]| match &sums {
        Some(sums) => input.sorter.by_sums(places, sums),
        None => input.sorter.processes(places),
    };
    sort(roots);
    for list in &mut family.children {
        sort(list);
    }
}

/// Each process's value with those of all below it.
fn branch_sums(mut sums: Vec<i64>, roots: &[u32], family: &Family) -> Vec<i64> {
    // A list instead of recursion: a long chain of parents must not overflow the stack.
    let mut order: Vec<u32> = roots.to_vec();
    let mut next = 0;
    while let Some(&at) = order.get(next) {
        order.extend(&family.children[at as usize]);
        next += 1;
    }
    // In this order children come after their parents, so from its end each sum is complete when it is added.
    for &at in order.iter().rev() {
        if let Some(parent) = family.parents[at as usize] {
            sums[parent as usize] = sums[parent as usize].saturating_add(sums[at as usize]);
        }
    }
    sums
}

/// The parent of each process as a place in the list. A pid that was reused means the one that lives. Loops are cut.
fn parents(input: &Input<'_>) -> Vec<Option<u32>> {
    let processes = &input.interval.processes;
    let mut by_pid: HashMap<u32, u32> = HashMap::with_capacity(processes.len());
    for (at, process) in processes.iter().enumerate() {
        let is_alive = matches!(process.life, Life::Alive | Life::Born);
        if is_alive || !by_pid.contains_key(&process.key.pid) {
            by_pid.insert(process.key.pid, index(at));
        }
    }
    let mut parents: Vec<Option<u32>> = processes
        .iter()
        .map(|process| {
            // Parent 0 is the kernel itself, which started init and kthreadd.
            let is_parent = process.parent_pid != 0 && process.parent_pid != process.key.pid;
            if is_parent { by_pid.get(&process.parent_pid).copied() } else { None }
        })
        .collect();
    cut_loops(&mut parents);
    parents
}

/// Walks up from each process; a walk that meets itself is cut where it does. Each process is walked once.
fn cut_loops(parents: &mut [Option<u32>]) {
    let mut walk_of = vec![0_u32; parents.len()];
    for start in 0..parents.len() {
        // 0 marks a process that no walk has reached.
        let walk = index(start).saturating_add(1);
        let mut at = start;
        while walk_of[at] == 0 {
            walk_of[at] = walk;
            match parents[at] {
                Some(parent) if walk_of[parent as usize] == walk => parents[at] = None,
                Some(parent) => at = parent as usize,
                None => break,
            }
        }
    }
}

fn show_with_ancestors(at: u32, parents: &[Option<u32>], is_shown: &mut [bool]) {
    let mut next = Some(at);
    while let Some(at) = next {
        if std::mem::replace(&mut is_shown[at as usize], true) {
            return;
        }
        next = parents[at as usize];
    }
}

/// A process with the sums of all below it.
fn branch(input: &Input<'_>, process: &ProcessInterval, children: &[u32], family: &Family) -> Branch {
    let mut branch = Branch { sum: process.clone(), below: 0 };
    let mut stack = children.to_vec();
    while let Some(at) = stack.pop() {
        stack.extend(&family.children[at as usize]);
        let Some(more) = input.interval.processes.get(at as usize) else { continue };
        let sum = &mut branch.sum;
        sum.delta += &more.delta;
        sum.sched += &more.sched;
        sum.flags |= more.flags;
        sum.thread_rows = sum.thread_rows.saturating_add(more.thread_rows);
        branch.below += 1;
    }
    branch
}

/// Adds a process and all below it. The stack is a list, so depth is bounded by memory only.
fn push_family(input: &Input<'_>, root: u32, family: &Family, threads: &ThreadLists, out: &mut RowList) {
    let mut stack = vec![GridRow::top(RowKind::Process(root), Fold::Leaf)];
    while let Some(mut row) = stack.pop() {
        let RowKind::Process(at) = row.kind else { continue };
        let Some(process) = input.interval.processes.get(at as usize) else { continue };
        let children = &family.children[at as usize];
        let is_closed = !children.is_empty() && input.view.closed.contains(&process.key);
        let own = input.thread_fold(at, threads);
        row.fold = match (is_closed, own) {
            (true, _) => Fold::Closed,
            (false, Fold::Open) => Fold::Open,
            (false, _) if !children.is_empty() => Fold::Open,
            (false, fold) => fold,
        };
        if is_closed {
            row.kind = RowKind::Branch(index(out.branches.len()));
            out.branches.push(branch(input, process, children, family));
            out.rows.push(row);
            continue;
        }
        out.rows.push(row);
        let first_thread = out.rows.len();
        input.push_threads(&row, at, threads, &mut out.rows);
        if !children.is_empty() {
            // The line of the last thread continues down to the children.
            if let Some(thread) = out.rows.get_mut(first_thread..).and_then(<[GridRow]>::last_mut) {
                thread.is_last = false;
            }
        }
        let count = children.len();
        // The stack is popped at its end, so the first child is pushed last.
        for (nth, &child) in children.iter().enumerate().rev() {
            stack.push(row.child(RowKind::Process(child), nth + 1 == count, Fold::Leaf));
        }
    }
}
