//! Selected processes and threads over time. Each line has all columns that add up, and the highest run time
//! of a single interval in each point.

use cpumon_model::{Fields, HostStatus, ProcessKey};
use cpumon_store::{GapFinder, ProcessFilter, Query, What};

use super::answers::{Lines, WaitLine};
use super::buckets::{Buckets, view_of};
use super::building::Building;
use super::life::Lives;
use super::selection::Selection;
use super::short_holes::ShortHoles;
use super::source::{History, MAX_GAPS};
use super::waits::WaitLines;
use crate::QueryError;
use crate::time::PlotRange;

/// Fields of the scheduler's events: they are read only where a column needs them.
const OF_EVENTS: Fields = Fields::SCHED.union(Fields::WAITS).union(Fields::HISTOGRAMS);

/// The narrowest filter that lets pass what is wanted.
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

/// Selected tasks over time. Threads are read from intervals, whatever the range: there are no sums of them. `wanted`: names of columns;
/// none: all.
pub fn lines(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    selections: Vec<Selection>,
    wanted: &[String],
) -> Result<Lines, QueryError> {
    walk(history, host, range, Asked { selections, columns: wanted }, None)
}

/// One process, and what it was blocked by.
pub fn process(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    key: ProcessKey,
) -> Result<(Lines, Vec<WaitLine>), QueryError> {
    let mut waits = WaitLines::new(key, range.points.saturating_add(1));
    let lines = walk(
        history,
        host,
        range,
        Asked { selections: vec![Selection::Process(key)], columns: &[] },
        Some(&mut waits),
    )?;
    let waits = waits.finish(lines.times.covered_ns.len());
    Ok((lines, waits))
}

/// What is asked for: tasks, and names of columns; none: all.
struct Asked<'a> {
    selections: Vec<Selection>,
    columns: &'a [String],
}

fn walk(
    history: &History,
    host: &HostStatus,
    range: PlotRange,
    asked: Asked<'_>,
    mut waits: Option<&mut WaitLines>,
) -> Result<Lines, QueryError> {
    let Asked { selections, columns } = asked;
    let id = host.info.host;
    let mut plan = history.plan(id, range)?;
    let with_threads = selections.iter().any(Selection::is_thread);
    if with_threads && plan.resolution.is_some() {
        plan = history.over_intervals(id, plan, range)?;
    }
    let mut buckets = Buckets::new(range, &plan);
    let mut gaps = GapFinder::new(history.losses(id, range.time())?, MAX_GAPS);
    let what = if with_threads { What::Threads } else { What::Processes };
    let mut query =
        Query::new(id).range(plan.since_ns, plan.until_ns).what(what).filter(filter_of(&selections));
    let mut building: Vec<Building> =
        selections.into_iter().map(|selection| Building::new(selection, buckets.count(), columns)).collect();
    if !building.iter().flat_map(|line| &line.columns).any(|(column, _)| column.needs.intersects(OF_EVENTS)) {
        query = query.without_sched();
    }
    let (mut shares, mut short_holes) = (Vec::new(), ShortHoles::default());
    history.for_each(&query, plan.resolution, &mut |span| {
        buckets.cover(span, &mut shares);
        gaps.see(span.interval);
        short_holes.see(span);
        let view = view_of(span);
        for line in &mut building {
            line.see(&buckets, span, &view, &shares);
        }
        if let Some(waits) = &mut waits {
            waits.see(span, &shares);
        }
    })?;
    if let Some(resolution) = plan.resolution {
        let lives = Lives { history, host: id, range, resolution };
        for line in &mut building {
            lives.complete(line, &buckets)?;
        }
    }
    let mut gaps = gaps.finish();
    short_holes.add_to(&mut gaps, history, id, plan.resolution)?;
    Ok(Lines {
        since_ns: range.since_ns,
        until_ns: range.until_ns,
        times: buckets.times(),
        lines: building.into_iter().map(|line| line.finish(&buckets, plan.resolution.is_some())).collect(),
        gaps,
    })
}
