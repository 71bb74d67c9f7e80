//! [`Listing`]: what batch mode prints at once.

use cpumon_model::{HostStatus, Interval};

use crate::rows::RowList;
use crate::view::View;

/// An interval with its rows in order.
pub(super) struct Listing<'a> {
    pub interval: &'a Interval,
    /// `None` if the feed does not know the interval's host.
    pub status: Option<&'a HostStatus>,
    pub view: &'a View,
    pub rows: &'a RowList,
    /// Intervals since the last printed one that were not printed.
    pub left_out: u64,
}
