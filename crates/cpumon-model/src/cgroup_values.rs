//! Cells of control groups, and of the host's pressure.

use std::borrow::Cow;

use crate::{CgroupInterval, ColumnId, Fields, IntervalView, Pressure, Throttle, Value};

fn real(value: Option<f64>) -> Value<'static> {
    value.map_or(Value::Null, Value::Real)
}

fn count(value: Option<u64>) -> Value<'static> {
    value.map_or(Value::Null, Value::count)
}

fn pressure_cell(pressure: Option<Pressure>, id: ColumnId) -> Option<Value<'static>> {
    match id {
        ColumnId::PressureSomeNs => Some(count(pressure.map(|pressure| pressure.some_ns))),
        ColumnId::PressureFullNs => Some(count(pressure.map(|pressure| pressure.full_ns))),
        _ => None,
    }
}

impl IntervalView<'_> {
    /// A cell of the table of control groups.
    #[must_use]
    pub fn cgroup<'v>(&'v self, row: &'v CgroupInterval, id: ColumnId) -> Value<'v> {
        let throttle = |of: fn(&Throttle) -> u64| count(row.throttle.as_ref().map(of));
        match id {
            ColumnId::CgroupPath => Value::Text(Cow::Borrowed(&row.path)),
            ColumnId::CpuLimit => real(row.limit.cpus()),
            ColumnId::LimitedBy if row.limit.is_limited() => Value::Text(Cow::Borrowed(row.limiter())),
            ColumnId::LimitedBy => Value::Null,
            ColumnId::Periods => throttle(|one| one.periods),
            ColumnId::ThrottledPeriods => throttle(|one| one.throttled_periods),
            ColumnId::ThrottledNs => throttle(|one| one.throttled_ns),
            _ => pressure_cell(row.pressure, id).unwrap_or_else(|| self.shared(id)),
        }
    }

    /// A cell of the host; `None` if the column is another's.
    pub(crate) fn host_limits(&self, id: ColumnId) -> Option<Value<'_>> {
        if id == ColumnId::CgroupsLeftOut {
            return Some(self.measured(Fields::CGROUPS, i64::from(self.interval().cgroups_left_out)));
        }
        pressure_cell(self.interval().pressure, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuLimit, Interval};

    fn cells<'v>(view: &'v IntervalView<'_>, row: &'v CgroupInterval) -> [Value<'v>; 4] {
        let ids = [ColumnId::CpuLimit, ColumnId::LimitedBy, ColumnId::ThrottledNs, ColumnId::PressureSomeNs];
        ids.map(|id| view.cgroup(row, id))
    }

    #[test]
    fn no_limit_no_data_and_zero_have_different_cells() {
        let interval = Interval { fields: Fields::CGROUPS, cgroups_left_out: 2, ..Interval::default() };
        let view = IntervalView::new("h", &interval);
        let known = CgroupInterval {
            path: "/a/b".into(),
            limit: CpuLimit::Millionths(500_000),
            limiter_bytes: 2,
            throttle: Some(Throttle::default()),
            pressure: Some(Pressure { some_ns: 7, full_ns: 0 }),
            ..CgroupInterval::default()
        };
        let expected = [Value::Real(0.5), Value::Text("/a".into()), Value::Int(0), Value::Int(7)];
        assert_eq!(cells(&view, &known), expected);
        let unlimited = CgroupInterval { limit: CpuLimit::Unlimited, ..CgroupInterval::default() };
        assert!(cells(&view, &unlimited).iter().all(|cell| *cell == Value::Null));
        assert_eq!(view.host(ColumnId::CgroupsLeftOut), Value::Int(2));
        assert_eq!(view.host(ColumnId::PressureSomeNs), Value::Null);
    }
}
