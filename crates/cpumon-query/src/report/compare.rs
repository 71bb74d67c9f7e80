//! A report against another range: the groups of both, each with what it did before.

use cpumon_model::HostStatus;

use super::figures::Figures;
use super::group::Grouping;
use super::group_sum::Group;
use super::read::{Whole, of_range};
use super::tally::Tally;
use crate::QueryError;
use crate::history::History;
use crate::time::TimeRange;

/// Adds up the range to compare with, and gives `tally` the groups that were only there before: now they did nothing.
pub(super) fn before(
    history: &History,
    host: &HostStatus,
    range: TimeRange,
    grouping: &Grouping,
    tally: &mut Tally,
) -> Result<Tally, QueryError> {
    let Whole { tally: before, .. } = of_range(history, host, range, grouping)?;
    for group in &before.groups {
        tally.place(group.of());
    }
    Ok(before)
}

/// What a group did before.
pub(super) fn of_group(before: &Tally, group: &Group) -> Figures {
    let found = before.find(&group.id()).map(|at| &before.groups[at]);
    Figures {
        delta: found.map(|group| group.delta).unwrap_or_default(),
        blocked_ns: found.map_or(Some(0), |group| group.blocked_ns),
        covered_ns: before.covered_ns,
        fields: before.fields,
    }
}
