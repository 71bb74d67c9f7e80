//! [`GroupLimits`]: what limits the CPU time of tasks in one control group or in several; [`LimitFinder`] finds it by their paths.

use std::collections::{HashMap, HashSet};

use crate::{CgroupInterval, CpuLimit, Interval, Pressure, Throttle};

/// CPU limits of the control groups of some tasks, taken together.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema))]
pub struct GroupLimits {
    /// The tightest limit of any of these groups.
    pub limit: CpuLimit,
    /// How often the limits were reached; a limit counts once, however many groups share it. `None`: not known.
    pub throttle: Option<Throttle>,
    /// Pressure of the group whose tasks waited longest for a CPU; `None`: not known, as with cgroup v1.
    pub pressure: Option<Pressure>,
}

impl GroupLimits {
    /// Limits of groups that are known to have none.
    pub const NONE: Self = Self {
        limit: CpuLimit::Unlimited,
        throttle: Some(Throttle { periods: 0, throttled_periods: 0, throttled_ns: 0 }),
        pressure: None,
    };

    /// Limits of these groups, all in one interval; `None` without any group.
    pub fn of_rows<'a>(rows: impl IntoIterator<Item = &'a CgroupInterval>) -> Option<Self> {
        let mut sum: Option<Self> = None;
        let mut limiters = HashSet::new();
        for row in rows {
            let sum = sum.get_or_insert(Self { limit: row.limit, throttle: None, pressure: None });
            sum.limit = sum.limit.tighter(row.limit);
            if let Some(throttle) = row.throttle.filter(|_| limiters.insert(row.limiter())) {
                sum.throttle.get_or_insert_default().add(throttle);
            }
            if row.pressure.map(|one| one.some_ns) > sum.pressure.map(|one| one.some_ns) {
                sum.pressure = row.pressure;
            }
        }
        sum
    }

    /// Adds another interval. Unknown counters add nothing.
    pub fn add(&mut self, more: &Self) {
        self.limit = self.limit.tighter(more.limit);
        if let Some(throttle) = more.throttle {
            self.throttle.get_or_insert_default().add(throttle);
        }
        if let Some(pressure) = more.pressure {
            self.pressure.get_or_insert_default().add(pressure);
        }
    }
}

/// The control groups of an interval by path.
#[derive(Clone, Debug)]
pub struct LimitFinder<'a> {
    rows: HashMap<&'a str, &'a CgroupInterval>,
    knows_others: bool,
}

impl<'a> LimitFinder<'a> {
    /// Allocates only where a group has a limit or waited.
    pub fn new(interval: &'a Interval) -> Self {
        let rows = interval.cgroups.iter().map(|row| (&*row.path, row)).collect();
        Self { rows, knows_others: interval.knows_limits() }
    }

    /// Limits of tasks in the groups with these paths; paths may repeat. `None`: nothing is known about any of these groups.
    pub fn of<'p>(&self, paths: impl IntoIterator<Item = &'p str>) -> Option<GroupLimits> {
        let mut found: Vec<&CgroupInterval> = Vec::new();
        for path in paths {
            if let Some(&row) = self.rows.get(path)
                && !found.iter().any(|known| std::ptr::eq(*known, row))
            {
                found.push(row);
            }
        }
        GroupLimits::of_rows(found).or_else(|| self.knows_others.then_some(GroupLimits::NONE))
    }
}

impl Interval {
    /// Whether some control group has a limit.
    pub fn has_limits(&self) -> bool {
        self.cgroups.iter().any(|row| row.limit.is_limited())
    }

    /// Limits that were reached: a row of each group that has such a limit, most throttled time first.
    pub fn throttled(&self) -> Vec<&CgroupInterval> {
        let was_throttled = |row: &&CgroupInterval| {
            row.limit.is_limited() && row.throttle.is_some_and(|one| one.throttled_periods > 0)
        };
        let mut limiters = HashSet::new();
        let mut rows: Vec<&CgroupInterval> = self.cgroups.iter().filter(was_throttled).collect();
        rows.retain(|row| limiters.insert(row.limiter()));
        rows.sort_by_key(|row| std::cmp::Reverse(row.throttle.map(|one| one.throttled_ns)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fields;

    fn row(path: &str, limiter_bytes: u16, parts: u64, throttled_ns: u64) -> CgroupInterval {
        CgroupInterval {
            path: path.into(),
            limit: CpuLimit::Millionths(parts),
            limiter_bytes,
            throttle: Some(Throttle {
                periods: 10,
                throttled_periods: u64::from(throttled_ns > 0),
                throttled_ns,
            }),
            pressure: Some(Pressure { some_ns: throttled_ns, full_ns: 0 }),
            ..CgroupInterval::default()
        }
    }

    fn interval() -> Interval {
        let cgroups = vec![
            row("/pod/a", 4, 500_000, 7),
            row("/pod/b", 4, 500_000, 7),
            row("/pod/c", 6, 200_000, 9),
            row("/idle", 5, 200_000, 0),
            CgroupInterval { path: "/free".into(), limit: CpuLimit::Unlimited, ..CgroupInterval::default() },
        ];
        Interval { fields: Fields::CGROUPS, cgroups, ..Interval::default() }
    }

    #[test]
    fn a_limit_that_tasks_share_counts_once() {
        let interval = interval();
        let finder = LimitFinder::new(&interval);
        let pod = finder.of(["/pod/a", "/pod/b", "/pod/a", "/pod/c", "/elsewhere"]).unwrap();
        assert_eq!((pod.limit, pod.throttle.unwrap().throttled_ns), (CpuLimit::Millionths(200_000), 16));
        assert_eq!(pod.pressure.unwrap().some_ns, 9, "of the one that waited most");
        let free = finder.of(["/free"]).unwrap();
        assert_eq!((free.limit, free.throttle), (CpuLimit::Unlimited, None));
    }

    #[test]
    fn no_limit_and_no_data_differ() {
        let known = interval();
        assert_eq!(LimitFinder::new(&known).of(["/elsewhere"]), Some(GroupLimits::NONE));
        for unknown in [
            Interval { cgroups_left_out: 1, ..interval() },
            Interval { fields: Fields::empty(), ..interval() },
        ] {
            assert_eq!(LimitFinder::new(&unknown).of(["/elsewhere"]), None);
        }
    }

    #[test]
    fn limits_that_were_reached_come_once_and_the_longest_first() {
        let interval = interval();
        let limiters: Vec<&str> = interval.throttled().iter().map(|row| row.limiter()).collect();
        assert_eq!((limiters, interval.has_limits()), (vec!["/pod/c", "/pod"], true));
        assert!(!Interval::default().has_limits());
    }
}
