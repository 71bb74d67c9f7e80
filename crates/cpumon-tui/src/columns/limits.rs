//! What limits the CPU of a row: the limit of its control group, or those of the processes of a group.

use cpumon_model::{ColumnId, CpuLimit, GroupLimits, Interval, LimitFinder, Value};

use crate::rows::Item;
use crate::text::percent;

/// Columns of control groups, which a row has from the groups of its processes.
pub(crate) const IS_OF_LIMITS: [ColumnId; 5] = [
    ColumnId::CpuLimit,
    ColumnId::Periods,
    ColumnId::ThrottledPeriods,
    ColumnId::ThrottledNs,
    ColumnId::PressureSomeNs,
];

/// The limits of a row; `None`: not known.
pub(crate) fn limits_of(
    finder: &LimitFinder<'_>,
    interval: &Interval,
    item: &Item<'_>,
) -> Option<GroupLimits> {
    match item {
        Item::Process(process) => finder.of([&*process.info.cgroup]),
        Item::Thread(thread) => finder.of([&*interval.process(thread.process)?.info.cgroup]),
        Item::Group(group) => {
            let rows = group.processes.iter().filter_map(|&at| interval.processes.get(at as usize));
            finder.of(rows.map(|row| &*row.info.cgroup))
        }
    }
}

/// A cell of [`IS_OF_LIMITS`]. What has no limit was not throttled.
pub(crate) fn limit_value(limits: Option<GroupLimits>, id: ColumnId) -> Value<'static> {
    let count = |value: Option<u64>| value.map_or(Value::Null, Value::count);
    let Some(limits) = limits else { return Value::Null };
    let throttle =
        if limits.limit == CpuLimit::Unlimited { GroupLimits::NONE.throttle } else { limits.throttle };
    match id {
        ColumnId::CpuLimit => limits.limit.cpus().map_or(Value::Null, Value::Real),
        ColumnId::Periods => count(throttle.map(|one| one.periods)),
        ColumnId::ThrottledPeriods => count(throttle.map(|one| one.throttled_periods)),
        ColumnId::ThrottledNs => count(throttle.map(|one| one.throttled_ns)),
        ColumnId::PressureSomeNs => count(limits.pressure.map(|one| one.some_ns)),
        _ => Value::Null,
    }
}

/// A limit as a cell, in CPUs: empty without one. `None`: not known.
pub(crate) fn limit_text(limits: Option<GroupLimits>) -> Option<String> {
    match limits?.limit {
        CpuLimit::Unknown => None,
        CpuLimit::Unlimited => Some(String::new()),
        limit @ CpuLimit::Millionths(_) => limit.cpus().map(|cpus| percent(cpus, true)),
    }
}
