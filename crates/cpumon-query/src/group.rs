//! Groups of processes: the columns of a pivot and the rows of a comparison.

use std::borrow::Cow;

use cpumon_model::{ProcessInfo, SourceKind};

use crate::words;

words! {
    /// What makes a column of a pivot, or a row of a comparison.
    #[derive(Default)]
    GroupBy, "grouping",
    /// The process's name; same-named processes add up.
    #[default]
    Name = "name",
    /// Each process by itself: `name[pid]`, and `name[pid]#2` for the second one under a reused pid.
    Process = "process",
    /// The program: as the name, and kernel threads of one family together (`kworker/0:1` is `kworker`).
    Program = "program",
    /// The real user id.
    User = "user",
    /// The container or systemd unit; `(none)` where there is none.
    Container = "container",
}

/// Name of what did not fit.
pub const OTHERS: &str = "(other)";
/// Name of what belongs to no container, or whose user is unknown.
const NONE: &str = "(none)";

/// The name of a group. Of processes one by one it is their name alone.
#[must_use]
pub fn group_name(by: GroupBy, source: SourceKind, info: &ProcessInfo) -> Cow<'_, str> {
    match by {
        GroupBy::Name | GroupBy::Process => (&*info.name).into(),
        GroupBy::Program => program(info).into(),
        // What a v1 device sends has no user.
        GroupBy::User if matches!(source, SourceKind::V1 | SourceKind::Legacy) => NONE.into(),
        GroupBy::User => info.uid.to_string().into(),
        GroupBy::Container if info.container.is_empty() => NONE.into(),
        GroupBy::Container => (&*info.container).into(),
    }
}

/// What kernel threads of one family have in common: `kworker/0:1-events` is `kworker`.
fn program(info: &ProcessInfo) -> &str {
    if info.is_kernel { info.name.split('/').next().unwrap_or(&info.name) } else { &info.name }
}
