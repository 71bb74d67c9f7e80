//! Properties of lists, trees and groups for any interval, also those that no kernel would send: loops of parents, reused pids,
//! threads without a process. Every row must be there exactly once.

use std::collections::HashSet;
use std::sync::Arc;

use cpumon_model::{
    Comm, Delta, Interval, Life, ProcessInfo, ProcessInterval, ProcessKey, ThreadInterval, ThreadKey,
};
use proptest::prelude::*;

use crate::history::RunTotals;
use crate::rows::{Item, RowId, RowKind, RowList};
use crate::view::{Col, Layout, View};

const NAMES: [&str; 5] = ["bash", "Postgres", "rustc", "", "日本語"];

fn delta(run_ns: i64) -> Delta {
    Delta { run_ns, user_ns: run_ns / 2, ..Delta::default() }
}

/// pid, start, parent, name, run time, ended, kernel thread.
type ProcessParts = (u32, u64, u32, usize, i64, bool, bool);

fn process((pid, start_ns, parent_pid, name, run_ns, has_ended, is_kernel): ProcessParts) -> ProcessInterval {
    ProcessInterval {
        key: ProcessKey { pid, start_ns },
        parent_pid,
        info: Arc::new(ProcessInfo { name: NAMES[name].into(), is_kernel, ..ProcessInfo::default() }),
        life: if has_ended { Life::Ended } else { Life::Alive },
        delta: delta(run_ns),
        ..ProcessInterval::default()
    }
}

prop_compose! {
    fn intervals()(
        processes in prop::collection::vec(
            (1_u32..30, 0_u64..3, 0_u32..30, 0..NAMES.len(), -5_i64..1000, any::<bool>(), any::<bool>()), 0..40),
        threads in prop::collection::vec((1_u32..200, 0_u64..3, 0_usize..50, -5_i64..1000), 0..120),
    ) -> Interval {
        let mut made = Interval { processes: processes.into_iter().map(process).collect(), ..Interval::default() };
        made.processes.sort_by_key(|row| row.key);
        made.processes.dedup_by_key(|row| row.key);
        for (tid, start_ns, owner, run_ns) in threads {
            // Some owners are not in the list.
            let owner = made.processes.get(owner).map_or(ProcessKey { pid: 999, start_ns: 7 }, |row| row.key);
            made.threads.push(ThreadInterval {
                key: ThreadKey { tid, start_ns },
                process: owner,
                comm: Comm::from(NAMES[tid as usize % NAMES.len()]),
                delta: delta(run_ns),
                ..ThreadInterval::default()
            });
        }
        made.threads.sort_by_key(|row| row.key);
        made.threads.dedup_by_key(|row| row.key);
        for at in 0..made.processes.len() {
            let key = made.processes[at].key;
            let count = made.threads.iter().filter(|row| row.process == key).count();
            made.processes[at].thread_rows = u32::try_from(count).unwrap();
        }
        made
    }
}

fn views() -> impl Strategy<Value = View> {
    let layout = prop_oneof![Just(Layout::List), Just(Layout::Tree), Just(Layout::Groups)];
    let sort =
        prop_oneof![Just(Col::Cpu), Just(Col::Id), Just(Col::Name), Just(Col::User100), Just(Col::State)];
    (layout, any::<bool>(), sort, any::<bool>()).prop_map(|(layout, threads, sort, reversed)| View {
        layout,
        threads,
        sort,
        reversed,
        ..View::default()
    })
}

/// Opens every group, so that all processes are rows.
fn with_groups_open(mut view: View) -> View {
    view.open.extend(NAMES.map(|name| RowId::Group(name.into())));
    view
}

fn ids(rows: &RowList, interval: &Interval) -> Vec<RowId> {
    rows.rows.iter().map(|row| rows.item(interval, row).unwrap().id()).collect()
}

proptest! {
    #[test]
    fn each_row_is_there_exactly_once(made in intervals(), view in views()) {
        let view = with_groups_open(view);
        let rows = RowList::build(&made, &view, &RunTotals::default());
        let ids = ids(&rows, &made);
        let unique: HashSet<&RowId> = ids.iter().collect();
        prop_assert_eq!(unique.len(), ids.len());
        if view.is_flat_threads() {
            prop_assert_eq!(ids.len(), made.threads.len());
        } else {
            let processes = ids.iter().filter(|id| matches!(id, RowId::Process(_))).count();
            prop_assert_eq!(processes, made.processes.len());
        }
    }

    #[test]
    fn a_selected_row_is_found_by_its_identity(made in intervals(), view in views()) {
        let rows = RowList::build(&made, &with_groups_open(view), &RunTotals::default());
        for (at, id) in ids(&rows, &made).iter().enumerate() {
            prop_assert_eq!(rows.position(&made, id), Some(at));
        }
    }

    #[test]
    fn rows_at_the_left_edge_are_in_order(made in intervals(), view in views()) {
        let layout = if view.layout == Layout::Tree { Layout::List } else { view.layout };
        let view = View { sort: Col::Cpu, layout, ..view };
        let rows = RowList::build(&made, &view, &RunTotals::default());
        let top = rows.rows.iter().filter(|row| row.depth == 0);
        let values: Vec<i64> = top.map(|row| rows.item(&made, row).unwrap().delta().run_ns).collect();
        let is_in_order =
            |pair: &[i64]| if view.is_rising() { pair[0] <= pair[1] } else { pair[0] >= pair[1] };
        prop_assert!(values.windows(2).all(is_in_order), "{values:?}");
    }

    #[test]
    fn a_row_is_below_its_parent(made in intervals(), view in views()) {
        let view = View { layout: Layout::Tree, ..view };
        let rows = RowList::build(&made, &view, &RunTotals::default());
        let mut path: Vec<RowKind> = Vec::new();
        for row in &rows.rows {
            prop_assert!(usize::from(row.depth) <= path.len());
            path.truncate(usize::from(row.depth));
            if let (Some(parent), Some(Item::Process(process))) = (path.last(), rows.item(&made, row)) {
                let RowKind::Process(at) = *parent else { panic!("a process below a thread") };
                prop_assert_eq!(made.processes[at as usize].key.pid, process.parent_pid);
            }
            path.push(row.kind);
        }
    }

    #[test]
    fn a_filter_leaves_only_rows_that_hold_it(made in intervals(), threads in any::<bool>()) {
        let view = View { filter: "post".into(), threads, ..View::default() };
        let rows = RowList::build(&made, &view, &RunTotals::default());
        for row in &rows.rows {
            let owner = match rows.item(&made, row).unwrap() {
                Item::Process(process) => Some(process.key),
                Item::Thread(thread) => Some(thread.process),
                Item::Group(_) => None,
            };
            let owner = owner.unwrap();
            let of_owner = made.threads.iter().filter(|row| row.process == owner);
            let named = made.process(owner).is_some_and(|row| &*row.info.name == "Postgres");
            let has_thread = of_owner.into_iter().any(|row| row.comm == Comm::from("Postgres"));
            prop_assert!(named || has_thread);
        }
        let wanted = made.processes.iter().filter(|row| &*row.info.name == "Postgres").count();
        if !threads {
            prop_assert!(rows.rows.len() >= wanted);
        }
    }

    #[test]
    fn a_group_is_the_sum_of_its_processes(made in intervals()) {
        let view = View { layout: Layout::Groups, ..View::default() };
        let rows = RowList::build(&made, &view, &RunTotals::default());
        let sum: i64 = rows.groups.iter().map(|group| group.delta.run_ns).sum();
        prop_assert_eq!(sum, made.processes.iter().map(|row| row.delta.run_ns).sum::<i64>());
    }
}

#[test]
fn a_busy_process_lifts_its_branch() {
    // 1 (5) -> 2 (0) -> 4 (100); 3 (50)
    let parts = [(1, 0, 5), (2, 1, 0), (3, 0, 50), (4, 2, 100)];
    let processes =
        parts.map(|(pid, parent, run_ns)| process((pid, 0, parent, 0, run_ns, false, false))).to_vec();
    let made = Interval { processes, ..Interval::default() };
    let pids = |view: &View| {
        let rows = RowList::build(&made, view, &RunTotals::default());
        ids(&rows, &made)
            .into_iter()
            .map(|id| if let RowId::Process(key) = id { key.pid } else { 0 })
            .collect::<Vec<u32>>()
    };
    let tree = View { layout: Layout::Tree, ..View::default() };
    assert_eq!(pids(&tree), [1, 2, 4, 3]);
    assert_eq!(pids(&View { reversed: true, ..tree.clone() }), [3, 1, 2, 4]);
    assert_eq!(pids(&View { sort: Col::Id, reversed: true, ..tree }), [3, 1, 2, 4]);
}

#[test]
fn a_closed_branch_shows_its_sum() {
    // 1 (5) -> 2 (0) -> 4 (100); 3 (50)
    let parts = [(1, 0, 5), (2, 1, 0), (3, 0, 50), (4, 2, 100)];
    let processes =
        parts.map(|(pid, parent, run_ns)| process((pid, 0, parent, 0, run_ns, false, false))).to_vec();
    let closed = [processes[0].key].into();
    let made = Interval { processes, ..Interval::default() };
    let view = View { layout: Layout::Tree, closed, ..View::default() };
    let rows = RowList::build(&made, &view, &RunTotals::default());
    let shown: Vec<_> = rows.rows.iter().map(|row| rows.item(&made, row).unwrap()).collect();
    assert_eq!(shown.iter().map(|item| item.delta().run_ns).collect::<Vec<_>>(), [105, 50]);
    assert_eq!((shown[0].id(), rows.branches[0].below), (RowId::Process(made.processes[0].key), 2));
}

#[test]
fn a_chain_of_a_hundred_thousand_parents_is_a_tree() {
    let parts = |pid: u32| (pid, 0, pid - 1, 0, 1, false, false);
    let processes = (1..=100_000).map(|pid| process(parts(pid))).collect();
    let made = Interval { processes, ..Interval::default() };
    let view = View { layout: Layout::Tree, ..View::default() };
    let rows = RowList::build(&made, &view, &RunTotals::default());
    assert_eq!(rows.rows.len(), 100_000);
    assert_eq!(rows.rows[99_999].depth, u16::MAX);
}
