//! What a process is counted under. In: a process and what is asked for. Out: the name of its column or row. Why: a pivot's
//! columns and a comparison's rows are made of the same groups.

use std::borrow::Cow;

use cpumon_model::{ProcessInfo, SourceKind};

use crate::GroupBy;

/// Name of what did not fit.
pub(crate) const OTHERS: &str = "(other)";
/// Name of what belongs to no container, or whose user is not told.
const NONE: &str = "(none)";

/// The name of a group. Of processes one by one it is their name alone.
pub(crate) fn group_name(by: GroupBy, source: SourceKind, info: &ProcessInfo) -> Cow<'_, str> {
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
