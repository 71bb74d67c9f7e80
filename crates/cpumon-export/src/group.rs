//! The group of a process: a column of a pivot, a row of a comparison.

use std::borrow::Cow;

use cpumon_model::{ProcessInfo, SourceKind};

use crate::GroupBy;

/// Name of the sum of all groups beyond the limit.
pub(crate) const OTHERS: &str = "(other)";
/// Name of the group of processes in no container, or whose user the device does not report.
const NONE: &str = "(none)";

/// The name of the group of a process. With [`GroupBy::Process`] it is the name of the process, without its pid.
pub(crate) fn group_name(by: GroupBy, source: SourceKind, info: &ProcessInfo) -> Cow<'_, str> {
    match by {
        GroupBy::Name | GroupBy::Process => (&*info.name).into(),
        GroupBy::Program => program(info).into(),
        // The v1 protocol has no user ids.
        GroupBy::User if matches!(source, SourceKind::V1 | SourceKind::Legacy) => NONE.into(),
        GroupBy::User => info.uid.to_string().into(),
        GroupBy::Container if info.container.is_empty() => NONE.into(),
        GroupBy::Container => (&*info.container).into(),
    }
}

/// The name of a program; for kernel threads their family: `kworker/0:1-events` is `kworker`.
fn program(info: &ProcessInfo) -> &str {
    if info.is_kernel { info.name.split('/').next().unwrap_or(&info.name) } else { &info.name }
}
