//! [`WhyQuery`]: what is slow, and when.

use crate::GroupBy;

/// The longest time that is explained, ns.
pub(super) const MAX_NS: i64 = 86_400_000_000_000;

/// What is slow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WhySubject {
    /// The machine as a whole.
    #[default]
    Machine,
    /// A program by its name, else by a part of it in any case; or a process by its pid.
    Named(Box<str>),
    /// The processes of one group, such as a service.
    Group(GroupBy, Box<str>),
}

/// A question for the cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhyQuery {
    /// What is slow.
    pub subject: WhySubject,
    /// Start, ns since the UNIX epoch; `None` is five minutes before the end.
    pub since_ns: Option<i64>,
    /// End, ns since the UNIX epoch; `None` is the end of the data.
    pub until_ns: Option<i64>,
    /// The time around this moment, ns since the UNIX epoch; used where neither start nor end is given.
    pub at_ns: Option<i64>,
}
