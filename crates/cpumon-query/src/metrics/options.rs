//! [`MetricsOptions`]: what is counted, and how much of it.

use super::budget::MAX_SERIES;
use crate::report::GroupBy;

crate::words! {
    /// Groups with series of their own.
    MetricsBy, "grouping",
    Program = "program": "All processes of one name; always counted",
    Service = "service": "systemd unit",
    Container = "container": "Container or systemd unit",
    User = "user": "Real user",
}

impl From<MetricsBy> for GroupBy {
    fn from(by: MetricsBy) -> Self {
        match by {
            MetricsBy::Program => Self::Program,
            MetricsBy::Service => Self::Service,
            MetricsBy::Container => Self::Container,
            MetricsBy::User => Self::User,
        }
    }
}

/// What is counted, and how much of it.
#[derive(Copy, Clone, Debug)]
pub struct MetricsOptions {
    /// Which of [`MetricsBy::ALL`] have series, in their order.
    pub(super) by: [bool; MetricsBy::ALL.len()],
    /// Whether blocked time of programs is shown.
    pub has_blocked: bool,
    /// Series at most.
    pub max_series: usize,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        Self::by(&[])
    }
}

impl MetricsOptions {
    /// Series of programs and of these groups.
    pub fn by(groups: &[MetricsBy]) -> Self {
        let mut by = [false; MetricsBy::ALL.len()];
        for (at, group) in MetricsBy::ALL.iter().enumerate() {
            by[at] = *group == MetricsBy::Program || groups.contains(group);
        }
        Self { by, has_blocked: false, max_series: MAX_SERIES }
    }

    pub(super) fn groupings(&self) -> impl Iterator<Item = MetricsBy> {
        MetricsBy::ALL.iter().copied().zip(self.by).filter(|one| one.1).map(|one| one.0)
    }
}
