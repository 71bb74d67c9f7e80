//! A range of time as if it were one interval: what each process did in it.

use std::collections::HashMap;

use cpumon_model::{HostStatus, Interval, ProcessInterval};
use cpumon_store::{Query, What};

use super::answers::RangeSum;
use super::past::History;
use crate::QueryError;
use crate::spans::{Cut, Span, cut};
use crate::sum::{IntervalSum, add_process};
use crate::time::TimeRange;

/// All processes of a name.
#[derive(Clone, Debug)]
pub struct NamedProcess {
    /// Their sum; its key is that of the first one.
    pub sum: ProcessInterval,
    /// How many they are.
    pub count: u64,
}

/// Process rows of a name added up, most run time first.
#[must_use]
pub fn by_name(interval: &Interval) -> Vec<NamedProcess> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut rows: Vec<NamedProcess> = Vec::new();
    for row in &interval.processes {
        if let Some(&at) = places.get(&*row.info.name) {
            add_process(&mut rows[at].sum, row);
            rows[at].count += 1;
        } else {
            places.insert(&row.info.name, rows.len());
            rows.push(NamedProcess { sum: row.clone(), count: 1 });
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.sum.delta.run_ns));
    rows
}

/// Adds up a range, read as a report reads it, so that both have the same figures. `with_threads`: threads too; then intervals are read, whatever the range.
pub fn sum(
    history: &History,
    host: &HostStatus,
    range: TimeRange,
    with_threads: bool,
) -> Result<RangeSum, QueryError> {
    let (cut, what) = if with_threads {
        (Cut::fine(range), What::Threads)
    } else {
        (cut(range, history.finest(host.info.host, range)?), What::Processes)
    };
    let mut sum: Option<IntervalSum> = None;
    for Span { range, resolution } in &cut.spans {
        let query = Query::new(host.info.host).range(range.since_ns, range.until_ns).what(what);
        history.for_each(&query, *resolution, &mut |span| match &mut sum {
            Some(sum) => sum.add(span.interval),
            None => sum = Some(IntervalSum::new(span.interval)),
        })?;
    }
    Ok(RangeSum { resolution: cut.coarsest(), interval: sum.map(IntervalSum::finish).unwrap_or_default() })
}
