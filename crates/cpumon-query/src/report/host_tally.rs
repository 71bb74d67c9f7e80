//! [`HostTally`]: what one host did in the range of a report.

use cpumon_model::HostStatus;

use super::compare;
use super::figures::Figures;
use super::group_sum::Group;
use super::tally::Tally;
use crate::spans::Cut;

/// What one host did in the range, and in the one to compare with.
pub(super) struct HostTally {
    pub(super) host: HostStatus,
    pub(super) cut: Cut,
    pub(super) tally: Tally,
    pub(super) before: Option<Tally>,
}

impl HostTally {
    /// What a group did before; `None`: nothing is compared.
    pub(super) fn before_of(&self, group: &Group) -> Option<Figures> {
        self.before.as_ref().map(|before| compare::of_group(before, group))
    }
}
