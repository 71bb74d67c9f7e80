//! The tree: processes below their parents. Pids come from other machines and may form loops or chains of any depth; every process
//! must be in the tree exactly once.

use std::collections::HashMap;

use cpumon_model::Life;

use crate::rows::input::Input;
use crate::rows::thread_lists::ThreadLists;
use crate::rows::types::{Fold, GridRow, RowKind, RowList, index};

/// Parents and children among the processes shown.
struct Family {
    parents: Vec<Option<u32>>,
    children: Vec<Vec<u32>>,
}

/// Arranges processes under their parents; those without a parent in the list are at the left edge.
pub(crate) fn build(input: &Input<'_>) -> RowList {
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
        push_family(input, root, &family, &threads, &mut out.rows);
    }
    out
}

/// Siblings are sorted by what their whole branches measured, so that a busy process far down lifts the way to it;
/// columns that cannot be added up sort by the processes' own values.
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

/// Adds a process and all below it. The stack is a list, so depth is bounded by memory only.
fn push_family(input: &Input<'_>, root: u32, family: &Family, threads: &ThreadLists, out: &mut Vec<GridRow>) {
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
        out.push(row);
        if is_closed {
            continue;
        }
        let first_thread = out.len();
        input.push_threads(&row, at, threads, out);
        if !children.is_empty() {
            // The threads' last line goes on down to the children.
            if let Some(thread) = out.get_mut(first_thread..).and_then(<[GridRow]>::last_mut) {
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
