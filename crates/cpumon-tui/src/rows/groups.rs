//! Groups: one row for each program, user, service or container, with its processes below if it is open.

use std::borrow::Cow;
use std::collections::HashMap;

use cpumon_query::group_name;

use crate::rows::input::Input;
use crate::rows::types::{Fold, GridRow, Group, RowId, RowKind, RowList, index};

pub(crate) fn build(input: &Input<'_>) -> RowList {
    let threads = input.threads_by_process();
    let mut groups = collect(input, &input.matching(&threads));
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
    RowList { rows, groups }
}

/// Groups by name.
fn collect(input: &Input<'_>, processes: &[u32]) -> Vec<Group> {
    let mut by_name: HashMap<Cow<'_, str>, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for &at in processes {
        let Some(process) = input.interval.processes.get(at as usize) else { continue };
        let name = group_name(input.view.group_by, input.interval.source, &process.info);
        let place = *by_name.entry(name).or_insert_with_key(|name| {
            groups.push(Group { name: (&**name).into(), ..Group::default() });
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
