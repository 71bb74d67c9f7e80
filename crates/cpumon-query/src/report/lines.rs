//! Lines of a plot over the rows of a report: run time at as many points as were asked for, of the groups that are shown and of all
//! threads. The range is read once more for those groups alone: points of all groups would be many megabytes.

use super::answer::Report;
use super::group::Grouping;
use super::host_tally::HostTally;
use super::read::{Reading, of_threads, points as buckets_of, read};
use super::row::{self, GroupPlace};
use super::tally::Tally;
use crate::QueryError;
use crate::history::History;
use crate::spans::cut_for_lines;
use cpumon_store::{ProcessFilter, What};

/// Puts lines of so many points in place of the small ones; `shown` are the groups of the rows there are.
pub(super) fn fill(
    report: &mut Report,
    history: &History,
    tallies: &[HostTally],
    shown: &[GroupPlace],
    points: usize,
) -> Result<(), QueryError> {
    let grouping = Grouping::of(report.query.by, &report.query.filter);
    for (host, (one, part)) in tallies.iter().zip(&mut report.hosts).enumerate() {
        let cut = match grouping.what() {
            What::Threads => of_threads(history, &one.host, report.range)?,
            _ => cut_for_lines(report.range, history.finest(one.host.info.host, report.range)?),
        };
        let groups =
            shown.iter().filter(|place| place.host == host).map(|place| &one.tally.groups[place.group]);
        let mut tally = Tally::of_groups(buckets_of(&cut, points), groups);
        let reading =
            Reading { host: &one.host, grouping: &grouping, filter: &ProcessFilter::All, with_events: false };
        for span in &cut.spans {
            read(history, reading, *span, &mut tally)?;
        }
        part.times = tally.times();
        part.used = row::used(&tally);
        for (place, row) in shown.iter().zip(&mut report.rows).filter(|(place, _)| place.host == host) {
            let group = tally.find(&one.tally.groups[place.group].id());
            row.points = group.map(|at| row::points(&tally, &tally.groups[at])).unwrap_or_default();
        }
    }
    Ok(())
}
