//! CPU use of several hosts: a small line each, as the sparklines of the page's hosts, over any range; or a row each of one heatmap.

use std::cmp::Ordering;

use cpumon_model::{HostStatus, with_separators};

use super::chart::{
    Body, Chart, HeatmapRow, Sparkline, Times, distinct, first_names, heatmap, holes, name_of, scale, times,
};
use super::host::{Of, column};
use super::parts::chart_parts;
use super::query::{Cells, ChartQuery, Order, Percent, check_finest, hosts_of, rows_of};
use crate::fleet::{self, FleetSpan, SpanHost, SpanQuery, known_first};
use crate::history::{AFTER_LAST, History, HostSeries, SeriesOptions};
use crate::hosts::asked_range;
use crate::time::{PlotRange, TimeRange, to_ms};
use crate::{QueryError, history};

/// Hosts of a picture unless the query has a number.
const HOSTS: usize = 60;
/// Points are no closer, as in the page's sparklines: else each point between two intervals would be a gap.
const FINEST_NS: i64 = 1_000_000_000;
/// Most hosts that a note names.
const MAX_NAMED: usize = 5;

struct Member {
    host: HostStatus,
    name: String,
}

/// Percent of the capacity in each point, of the whole range, and the highest single interval in each.
fn shares(series: &HostSeries) -> (Vec<Option<f64>>, Option<f64>, Vec<Option<f64>>) {
    let percent = |of: Of| -> Vec<Option<f64>> {
        let pair = column(series, "busy_ns", of).zip(column(series, "capacity_ns", of));
        let Some((busy, capacity)) = pair else { return vec![None; series.times.covered_ns.len()] };
        let share = |(busy, capacity): (&Option<i64>, &Option<i64>)| {
            busy.zip(capacity.filter(|ns| *ns > 0)).map(|(busy, ns)| busy as f64 * 100.0 / ns as f64)
        };
        busy.iter().zip(capacity).map(share).collect()
    };
    let sum = |name: &str| -> f64 {
        column(series, name, Of::Sum).into_iter().flatten().flatten().map(|ns| *ns as f64).sum()
    };
    let (busy_ns, capacity_ns) = (sum("busy_ns"), sum("capacity_ns"));
    let mean = (capacity_ns > 0.0).then(|| busy_ns * 100.0 / capacity_ns);
    (percent(Of::Sum), mean, percent(Of::Max))
}

fn row(
    history: &History,
    member: &Member,
    range: PlotRange,
    is_finest: bool,
) -> Result<Sparkline, QueryError> {
    let wanted = ["capacity_ns".to_owned()];
    let options = SeriesOptions { columns: &wanted, is_finest };
    let series = history::series(history, &member.host, range, options)?;
    let (values, mean, highest) = shares(&series);
    let mut holes = holes(&series.gaps);
    // A hole at the end of a range has the same reason later, when data go on behind it.
    for hole in holes.iter_mut().filter(|hole| hole.reason == AFTER_LAST) {
        "no data".clone_into(&mut hole.reason);
    }
    let is_covered = series.times.is_covered();
    Ok(Sparkline {
        name: member.name.clone(),
        times: times(&series.times),
        holes,
        empty: (is_covered && mean.is_none()).then(|| "CPU use is not known of this range".to_owned()),
        values,
        highest,
        mean,
    })
}

/// Names; where several are alike, with the start of the id behind.
fn members(hosts: Vec<HostStatus>) -> Vec<Member> {
    let names = distinct(hosts.iter().map(name_of).collect(), |at| {
        Some(hosts[at].info.host.to_string().chars().take(8).collect())
    });
    hosts.into_iter().zip(names).map(|(host, name)| Member { host, name }).collect()
}

/// From A to Z as the page does it; those without a name last, whichever way round.
fn by_name(a: &HostStatus, b: &HostStatus, is_reverse: bool) -> Ordering {
    let key = |host: &HostStatus| Some(host.info.hostname.to_lowercase()).filter(|name| !name.is_empty());
    let order = known_first(key(a), key(b), is_reverse, Ord::cmp);
    order.then_with(|| (&a.info.hostname, a.info.host).cmp(&(&b.info.hostname, b.info.host)))
}

/// Those that the picture is of, in their order, and the names of those without any data. Who was named is shown in any case.
fn split(
    history: &History,
    query: &ChartQuery,
    mut hosts: Vec<HostStatus>,
    range: TimeRange,
) -> Result<(Vec<Member>, Vec<String>), QueryError> {
    if query.order.is_some() || query.hosts.is_empty() {
        // With `busy` the rows are sorted again by their use; names then decide between equal ones only.
        let is_reverse = query.is_reverse && query.order != Some(Order::Busy);
        hosts.sort_by(|a, b| by_name(a, b, is_reverse));
    } else if query.is_reverse {
        hosts.reverse();
    }
    let (mut shown, mut without) = (Vec::new(), Vec::new());
    for member in members(hosts) {
        if !query.hosts.is_empty() || history.reaches(member.host.info.host, range)? {
            shown.push(member);
        } else {
            without.push(member.name);
        }
    }
    Ok((shown, without))
}

fn notes(query: &ChartQuery, shown: usize, total: usize, without: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    if shown < total {
        let order = match query.order {
            Some(Order::Busy) => ", by mean CPU use",
            None if !query.hosts.is_empty() => "",
            _ => ", by name",
        };
        let (first, last) = (query.offset + 1, query.offset + shown);
        let left_out = total - shown;
        let counts = format!("Hosts {first} to {last} of {total}{order}: {left_out} are not shown.");
        notes.push(with_separators(&counts));
    }
    if !without.is_empty() {
        let named = first_names(without, MAX_NAMED, "more");
        notes.push(format!("No data of this range: {named}."));
    }
    notes.push(
        "Faint above a line: the highest single interval in each point; its largest is the peak.".to_owned(),
    );
    notes
}

pub(super) fn fleet(history: &History, query: &ChartQuery) -> Result<Chart, QueryError> {
    let limit = rows_of(query, HOSTS)?;
    let hosts = hosts_of(history, query)?;
    let range = asked_range(history, &hosts, query.since_ns, query.until_ns)?;
    check_finest(query, range)?;
    let (mut members, without) = split(history, query, hosts, range)?;
    let total = members.len();
    if query.offset > 0 && query.offset >= total {
        return Err(QueryError::OffsetTooLarge { offset: query.offset, total });
    }
    let page = query.offset..total.min(query.offset.saturating_add(limit));
    let seconds = usize::try_from(range.length_ns() / FINEST_NS).unwrap_or(1).max(1);
    let TimeRange { since_ns, until_ns } = range;
    let plot = PlotRange { since_ns, until_ns, points: chart_parts().points.matrix.min(seconds) };
    let read = |history: &History, member: &Member| row(history, member, plot, query.is_finest);
    let rows = if query.order == Some(Order::Busy) {
        // The busiest are known only after every host was read, not just those of the page.
        let mut rows = history.of_each(&members, read)?;
        rows.sort_by(|a, b| known_first(a.mean, b.mean, query.is_reverse, |a, b| b.total_cmp(a)));
        rows.drain(page).collect()
    } else {
        members = members.drain(page).collect();
        history.of_each(&members, read)?
    };
    let is_covered = |row: &Sparkline| row.empty.is_some() || row.mean.is_some();
    let empty = if !rows.iter().any(is_covered) {
        Some("No data in this range".to_owned())
    } else if rows.iter().all(|row| row.mean.is_none()) {
        Some("CPU use is not known of this range".to_owned())
    } else {
        None
    };
    let title = match rows.as_slice() {
        [one] if total == 1 => format!("{}: CPU use of the host", one.name),
        [] => "CPU use of the fleet".to_owned(),
        _ => with_separators(&format!("CPU use of {total} hosts")),
    };
    Ok(Chart {
        title,
        unit: "% of all CPUs of a host".to_owned(),
        since_ms: to_ms(since_ns),
        until_ms: to_ms(until_ns),
        times: Times::default(),
        notes: if empty.is_some() { Vec::new() } else { notes(query, rows.len(), total, &without) },
        body: Body::Sparklines { rows, max: 100.0 },
        holes: Vec::new(),
        absences: Vec::new(),
        empty,
    })
}

/// Fills the heatmap of all hosts over a range with the figures of [`fleet::span`]; that function limits the reads.
pub fn fleet_heatmap(history: &History, query: &SpanQuery, cells: Cells) -> Result<Chart, QueryError> {
    let FleetSpan { times: all, total, hosts } = fleet::span(history, query)?;
    let percent = |ratio: Option<f64>| ratio.map(|ratio| ratio * 100.0);
    let row = |host: &SpanHost| HeatmapRow {
        name: name_of(&host.status),
        key: Some(host.status.info.host.to_string()),
        run_queue_per_cpu: host.run_queue_per_cpu,
        mean: percent(host.busy_ratio),
        max: percent(host.peak_ratio),
        values: host.points.iter().copied().map(percent).collect(),
        highest: host.peaks.iter().copied().map(percent).collect(),
        ..HeatmapRow::default()
    };
    let sums = all.resolution.map(|resolution| format!("Read from sums of {}s.", resolution.name()));
    let mut notes = Vec::from_iter(sums);
    if total > hosts.len() {
        notes.push(with_separators(&format!("{} more hosts: search for them.", total - hosts.len())));
    }
    Ok(Chart {
        title: with_separators(&format!("CPU use of {total} hosts")),
        unit: scale(Percent::Host, 1).1.to_owned(),
        since_ms: to_ms(query.range.since_ns),
        until_ms: to_ms(query.range.until_ns),
        times: times(&all),
        notes,
        empty: hosts.is_empty().then(|| "Nothing found".to_owned()),
        body: heatmap(hosts.iter().map(row).collect(), cells),
        holes: Vec::new(),
        absences: Vec::new(),
    })
}
