//! Who used the CPU: a range added up by program, process, thread, user, service, container, cgroup or host. The command line,
//! the API and its exports all ask here, so they have the same columns and the same numbers.
//!
//! Sums of hours and minutes are read where they cover whole ones, intervals at the edges (`spans`), and each part is added to
//! a tally. Sums do not say in which interval a peak was, nor when a group was first there: that is read again,
//! only for the rows that are shown and only where it can be. What no group has is a row of its own, so the rows together are exactly the
//! ledger's time of threads.

mod answer;
mod columns;
mod comparison;
mod find;
mod query;
mod quotas;
mod read;
mod rows;
mod sums;

#[cfg(test)]
mod late_pass_tests;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod quota_tests;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use cpumon_model::HostStatus;

pub use answer::{Before, HostPart, Peak, Report, ReportRow, RowKind};
pub use comparison::{Change, CompareRanges, Comparison, Side, compare};
pub(crate) use find::find;
pub use find::{Findings, Found};
pub use query::{
    CompareWith, FoundKind, GroupBy, OTHERS, ReportBy, ReportFilter, ReportQuery, ReportSort, group_name,
};

use self::quotas::{HostLimits, LimitedRows};
use self::read::{Whole, Zoom};
use self::rows::{GroupPlace, HostTally};
use crate::QueryError;
use crate::history::History;
use crate::hosts::{asked_range, available};
use crate::tally::Grouping;
use crate::time::{TimeRange, now_ns};

/// Refuses what [`report`] refuses before it reads rows: threads over more than a day of intervals.
pub(crate) fn check_range(
    history: &History,
    host: &HostStatus,
    by: ReportBy,
    range: TimeRange,
) -> Result<(), QueryError> {
    if by == ReportBy::Thread { read::of_threads(history, host, range).map(drop) } else { Ok(()) }
}

/// Adds up a range of each host and gives the rows that come first. An error if none of the hosts has data in it.
pub(crate) fn report(
    history: &History,
    hosts: &[HostStatus],
    query: &ReportQuery,
) -> Result<Report, QueryError> {
    let range = range_of(history, hosts, query)?;
    let grouping = Grouping::of(query.by, &query.filter);
    let mut tallies = Vec::new();
    for host in hosts {
        let Whole { cut, mut tally } = read::of_range(history, host, range, &grouping)?;
        if tally.covered_ns == 0 {
            continue;
        }
        let before = match query.compare {
            Some(with) => Some(rows::before(history, host, with.range(range), &grouping, &mut tally)?),
            None => None,
        };
        tallies.push(HostTally { host: host.clone(), cut, tally, before });
    }
    if tallies.is_empty() {
        let TimeRange { since_ns, until_ns } = range;
        return Err(QueryError::NoData { since_ns, until_ns, available: available(history, hosts)? });
    }
    with_rows(history, query, rows::report(query, range, &tallies), &grouping, &tallies)
}

/// Adds the rows to a report: those that come first, and one of all others.
fn with_rows(
    history: &History,
    query: &ReportQuery,
    mut report: Report,
    grouping: &Grouping,
    tallies: &[HostTally],
) -> Result<Report, QueryError> {
    let all = rows::in_order(tallies, query.sort);
    let begin = query.offset.min(all.len());
    let end = begin.saturating_add(query.limit).min(all.len());
    let shown = &all[begin..end];
    let groups_of = |host: usize| {
        let places = shown.iter().filter(|place| place.host == host);
        places.map(|place| &tallies[place.host].tally.groups()[place.group]).collect::<Vec<_>>()
    };
    let limits = tallies.iter().enumerate().map(|(host, one)| {
        let rows = LimitedRows { by: query.by, grouping, shown: &groups_of(host) };
        quotas::of_host(history, one, rows)
    });
    let limits: Vec<Option<HostLimits>> = limits.collect::<Result<_, _>>()?;
    let mut zooms: HashMap<usize, Zoom<'_>> = HashMap::new();
    for place in shown {
        let HostTally { host, tally, .. } = &tallies[place.host];
        let zoom = zooms
            .entry(place.host)
            .or_insert_with(|| Zoom::new(history, host, grouping, &groups_of(place.host)));
        let group = &tally.groups()[place.group];
        let zoomed = zoom.of(&group.id(), &group.sums.times)?;
        let mut row = rows::of_group(&tallies[place.host], place.group, zoomed, report.used_ns);
        row.limits = limits[place.host].as_ref().and_then(|limits| limits.of(&group.id()));
        report.rows.push(row);
    }
    if let Some(points) = query.points {
        rows::fill(&mut report, history, tallies, shown, points)?;
    }
    rows::settle(&mut report.rows, query.sort);
    let others = rows::others(tallies);
    let hidden: Vec<GroupPlace> = [&all[..begin], &all[end..], &others].concat();
    report.rows.extend(rows::rest(tallies, &hidden, report.used_ns));
    report.rows.extend(rows::unattributed(tallies, report.used_ns));
    Ok(report)
}

fn range_of(history: &History, hosts: &[HostStatus], query: &ReportQuery) -> Result<TimeRange, QueryError> {
    match asked_range(history, hosts, query.since_ns, query.until_ns) {
        // Its start is behind all data.
        Err(QueryError::InvalidRange { since_ns, until_ns })
            if query.since_ns.is_some() && query.until_ns.is_none() && since_ns >= until_ns =>
        {
            let until_ns = now_ns().max(since_ns);
            Err(QueryError::NoData { since_ns, until_ns, available: available(history, hosts)? })
        }
        asked => asked,
    }
}
