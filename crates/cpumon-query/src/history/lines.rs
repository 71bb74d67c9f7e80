//! Selected processes and threads over time: all columns that add up, the highest run time of a single interval in each point, and what a
//! process was blocked by.

use std::cmp::Reverse;
use std::collections::HashMap;

use cpumon_model::{Fields, HostStatus, ProcessKey, WaitReason};
use cpumon_store::{ProcessFilter, Query, Segment, What};

use super::History;
use super::answers::{Lines, TaskLine, WaitLine};
use super::buckets::{PointShare, Points, whole};
use super::plot::Plot;
use super::task_line::{LineGroup, LineSpan, Lives, Selection, add_span, begin, finish};
use crate::QueryError;
use crate::json::Nanos;
use crate::time::PlotRange;

/// Fields of the scheduler's events: they are read only where a column needs them.
const OF_EVENTS: Fields = Fields::SCHED.union(Fields::WAITS).union(Fields::HISTOGRAMS);

/// The narrowest filter that passes all selections.
fn filter_of(selections: &[Selection]) -> ProcessFilter {
    match selections {
        [Selection::Process(key)] => ProcessFilter::Key(*key),
        [Selection::Name(name)] => ProcessFilter::Name(name.as_str().into()),
        _ => {
            let owner = |selection: &Selection| match selection {
                Selection::Process(key) | Selection::Thread { process: Some(key), .. } => Some(*key),
                _ => None,
            };
            // A name, or a thread without its process, can be in any process; then all are read.
            let owners: Option<_> = selections.iter().map(owner).collect();
            owners.map_or(ProcessFilter::All, ProcessFilter::AnyOf)
        }
    }
}

/// Selected tasks over time. Threads are read from intervals, whatever the range: their sums are hours alone, too long for a picture.
/// `wanted`: names of columns; none: all.
pub fn lines(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    selections: &[Selection],
    wanted: &[String],
) -> Result<Lines, QueryError> {
    walk(history, host, range, selections, wanted, None)
}

/// One process over time, with its blocked time by reason.
pub fn process(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    key: ProcessKey,
) -> Result<(Lines, Vec<WaitLine>), QueryError> {
    let mut waits = WaitLines::new(key, range.points.saturating_add(1));
    let lines = walk(history, host, range, &[Selection::Process(key)], &[], Some(&mut waits))?;
    let waits = waits.finish(lines.times.covered_ns.len());
    Ok((lines, waits))
}

fn walk(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    selections: &[Selection],
    wanted: &[String],
    mut waits: Option<&mut WaitLines>,
) -> Result<Lines, QueryError> {
    let id = host.info.host;
    let with_threads = selections.iter().any(Selection::is_thread);
    let mut plot = Plot::new(history, id, range, with_threads)?;
    let what = if with_threads { What::Threads } else { What::Processes };
    let mut query = Query::new(id).what(what).filter(filter_of(selections));
    let (mut tally, places) = begin(selections, plot.buckets.count(), wanted);
    let has_events =
        |line: &LineGroup| line.sums.columns.iter().any(|(column, _)| column.needs.intersects(OF_EVENTS));
    if !tally.groups.iter().any(has_events) {
        query = query.without_sched();
    }
    plot.read(history, &query, plot.time(), &mut |plot, span| {
        add_span(&mut tally, &LineSpan::new(&plot.buckets, &plot.shares, span), selections);
        if let Some(waits) = &mut waits {
            waits.see(span, &plot.shares);
        }
    })?;
    let resolution = plot.plan.resolution;
    if let Some(resolution) = resolution {
        let lives = Lives { history, host: id, range, resolution };
        for group in &mut tally.groups {
            lives.complete(group, &plot.buckets)?;
        }
    }
    let made: Vec<TaskLine> =
        tally.groups.into_iter().map(|group| finish(group, &plot, resolution.is_some())).collect();
    let lines = places.iter().map(|at| made[*at].clone()).collect();
    let (times, gaps) = plot.finish(history)?;
    Ok(Lines { since_ns: Nanos(range.since_ns), until_ns: Nanos(range.until_ns), times, lines, gaps })
}

/// Reasons that are counted apart while reading, and lines in an answer; further ones are counted under `other`.
const MAX_REASONS: usize = 64;
const MAX_LINES: usize = 12;

/// Blocked time of one process, by reason.
pub(crate) struct WaitLines {
    process: ProcessKey,
    count: usize,
    /// 0 where waits were measured, else no value.
    known: Points,
    by_reason: HashMap<WaitReason, (f64, Points)>,
}

impl WaitLines {
    pub(crate) fn new(process: ProcessKey, count: usize) -> Self {
        Self { process, count, known: Points::new(count), by_reason: HashMap::new() }
    }

    pub(crate) fn see(&mut self, span: &Segment<'_>, shares: &[PointShare]) {
        if !span.interval.fields.contains(Fields::WAITS) {
            return;
        }
        for PointShare { at, .. } in shares {
            self.known.raise(*at, 0.0);
        }
        let Some(row) = span.interval.process(self.process) else { return };
        for (reason, ns) in row.sched.waits.iter() {
            let is_new = !self.by_reason.contains_key(&reason);
            let reason =
                if is_new && self.by_reason.len() >= MAX_REASONS { WaitReason::OTHER } else { reason };
            let count = self.count;
            let (total, points) = self.by_reason.entry(reason).or_insert_with(|| (0.0, Points::new(count)));
            for PointShare { at, part } in shares {
                *total += ns as f64 * part;
                points.add(*at, ns as f64 * part);
            }
        }
    }

    /// The lines, most blocked time first, each of `count` points.
    pub(crate) fn finish(self, count: usize) -> Vec<WaitLine> {
        let mut all: Vec<_> = self.by_reason.into_iter().collect();
        let rank = |(reason, (total, _)): &(WaitReason, (f64, Points))| (Reverse(whole(*total)), *reason);
        all.sort_by_key(rank);
        let rest = all.split_off(all.len().min(MAX_LINES));
        for (_, (total, points)) in rest {
            let at = all.iter().position(|(reason, _)| *reason == WaitReason::OTHER);
            let at = at.unwrap_or_else(|| {
                all.push((WaitReason::OTHER, (0.0, Points::new(self.count))));
                all.len() - 1
            });
            let (sum, into) = &mut all[at].1;
            *sum += total;
            points.each(|at, value| into.add(at, value));
        }
        let line = |(reason, (total, points)): (WaitReason, (f64, Points))| {
            let mut values = self.known.clone();
            points.each(|at, value| values.add(at, value));
            let mut values = values.finish();
            // More points were allotted: their number is known only after reading.
            values.truncate(count);
            WaitLine { reason: reason.name().into_owned(), total_ns: whole(total).unwrap_or(0), values }
        };
        all.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::{Interval, ProcessInterval};

    use super::*;

    #[test]
    fn reasons_are_ranked_the_rest_is_other_and_what_is_not_measured_is_null() {
        let key = ProcessKey { pid: 1, start_ns: 2 };
        let mut lines = WaitLines::new(key, 3);
        for nth in 1..=40_u16 {
            let mut row = ProcessInterval { key, ..ProcessInterval::default() };
            row.sched.waits.add(WaitReason::syscall(nth), u64::from(nth) * 10);
            let interval = Interval { fields: Fields::WAITS, processes: vec![row], ..Interval::default() };
            lines.see(&Segment::of(&interval), &[PointShare { at: usize::from(nth % 2), part: 1.0 }]);
        }
        lines.see(&Segment::of(&Interval::default()), &[PointShare { at: 2, part: 1.0 }]);
        let lines = lines.finish(3);
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!((lines[0].total_ns, &lines[0].values), (400, &vec![Some(400), Some(0), None]));
        let other: i64 = (1..=28).map(|nth| nth * 10).sum();
        assert_eq!((lines[MAX_LINES].reason.as_str(), lines[MAX_LINES].total_ns), ("other", other));
        assert_eq!(
            lines.iter().map(|line| line.total_ns).sum::<i64>(),
            (1..=40).map(|nth| nth * 10).sum::<i64>()
        );
    }
}
