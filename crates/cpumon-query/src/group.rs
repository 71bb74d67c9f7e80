//! Groups of processes: the columns of a pivot and the rows of a comparison.

use std::borrow::Cow;

use cpumon_model::{ProcessInfo, SourceKind};

use crate::words;

words! {
    /// Groups of processes: columns of a pivot, or rows of a comparison.
    #[derive(Default)]
    GroupBy, "grouping",
    #[default]
    Name = "name": "All processes of one name",
    Process = "process": "One process, by pid and start time",
    Program = "program": "Like name, with kernel threads of one family together (kworker/0:1 is kworker)",
    User = "user": "Real user: root, ann (1000), or the id where no name is known",
    Service = "service": "systemd unit",
    Container = "container": "Container or systemd unit",
    Cgroup = "cgroup": "cgroup path",
}

/// Name of the group of all others.
pub const OTHERS: &str = "(other)";
/// Name of what belongs to no container, or whose user is unknown.
const NONE: &str = "(none)";

/// The name of a group. Of processes one by one it is their name alone.
pub fn group_name(by: GroupBy, source: SourceKind, info: &ProcessInfo) -> Cow<'_, str> {
    match by {
        GroupBy::Name | GroupBy::Process => (&*info.name).into(),
        GroupBy::Program => info.program().into(),
        GroupBy::User if !source.has_users() => NONE.into(),
        GroupBy::User => info.user_label(),
        GroupBy::Service => or_none(info.service()),
        GroupBy::Container => or_none((&*info.container).into()),
        GroupBy::Cgroup => or_none((&*info.cgroup).into()),
    }
}

fn or_none(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_empty() { NONE.into() } else { text }
}
