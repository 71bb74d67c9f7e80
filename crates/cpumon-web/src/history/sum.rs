//! A span of time as if it were one interval. In: a range. Out: what each process did in it, all in all. Why: two of these
//! side by side tell which process grew.

use std::collections::HashMap;

use cpumon_export::{Sum, add_process};
use cpumon_model::{HostStatus, Interval, IntervalView, ProcessInterval, ProcessKey};
use cpumon_store::{Query, Resolution, What};

use super::{By, Past, Range};
use crate::api::{Cell, Nanos, SumJson, Table, process_columns, process_table, summary, thread_table};
use crate::problem::Problem;

/// Process rows of a name, added up.
fn by_name(interval: &Interval) -> Vec<(ProcessInterval, u64)> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut rows: Vec<(ProcessInterval, u64)> = Vec::new();
    for row in &interval.processes {
        if let Some(&at) = places.get(&*row.info.name) {
            add_process(&mut rows[at].0, row);
            rows[at].1 += 1;
        } else {
            places.insert(&row.info.name, rows.len());
            rows.push((row.clone(), 1));
        }
    }
    rows.sort_by_key(|(row, _)| std::cmp::Reverse(row.delta.run_ns));
    rows
}

fn name_table(view: &IntervalView<'_>, (offset, limit): (usize, usize)) -> Table {
    let all = by_name(view.interval());
    let total = all.len();
    let rows: Vec<_> = all.into_iter().skip(offset).take(limit).collect();
    let mut table = Table::new(rows.len(), total);
    table.push("name", rows.iter().map(|(row, _)| Cell::from(&*row.info.name)));
    table.push("processes", rows.iter().map(|(_, count)| Cell::count(*count)));
    table.push_columns(
        process_columns().filter(|column| super::summable(column) || column.unit == "%CPU"),
        |at, id| view.process(&rows[at].0, id),
    );
    table
}

/// See the module. `threads`: processes whose threads are wanted too; then intervals are read, whatever the range. `shown`: how many of
/// each one's rows are left out at the beginning, and how many given.
pub(crate) fn sum(
    past: &Past,
    host: &HostStatus,
    range: Range,
    (by, rows): (By, (usize, usize)),
    (threads, shown): (&[ProcessKey], (usize, usize)),
) -> Result<SumJson, Problem> {
    let plan = past.plan(host.info.host, range)?;
    let grain = if threads.is_empty() { plan.resolution } else { None };
    let what = if threads.is_empty() { What::Processes } else { What::Threads };
    let query = Query::new(host.info.host).range(plan.since_ns, plan.until_ns).what(what);
    let mut sum: Option<Sum> = None;
    past.for_each(&query, grain, &mut |span| match &mut sum {
        Some(sum) => sum.add(span.interval),
        None => sum = Some(Sum::new(span.interval)),
    })?;
    let interval = sum.map(Sum::finish).unwrap_or_default();
    let view = IntervalView::new(&host.info.hostname, &interval);
    Ok(SumJson {
        since_ns: Nanos(range.since_ns),
        until_ns: Nanos(range.until_ns),
        grain: grain.map_or("interval", Resolution::name),
        covered_ns: interval.duration_ns(),
        summary: summary(&view),
        processes: match by {
            By::Name => name_table(&view, rows),
            By::Process => process_table(&view, rows.0, rows.1),
        },
        threads: threads.iter().map(|key| thread_table(&view, shown, |row| row.process == *key)).collect(),
    })
}
