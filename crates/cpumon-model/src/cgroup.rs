//! CPU limits of control groups (cgroups(7)), how often they were reached, and pressure: [`CgroupSample`], cumulative, and
//! [`CgroupInterval`], over an interval. Known where the source measures [`Fields::CGROUPS`](crate::Fields::CGROUPS).
//!
//! A limit applies to everything below the group that has it, and the kernel throttles that group as a whole. So each group in use has
//! a row with the tightest limit on its path, with the counters of the group that has this limit, and with how much of the path
//! names that group: rows with the same one must not be added up.

use std::sync::Arc;

use crate::collections::Finder;

/// Most groups of a host that are measured, by any source.
pub const MAX_CGROUPS: usize = 256;

/// How much CPU time a group may use.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "json",
    derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema),
    serde(rename_all = "snake_case")
)]
pub enum CpuLimit {
    /// Not known: the file could not be read or understood.
    #[default]
    Unknown,
    /// As much as there is.
    Unlimited,
    /// Millionths of a CPU: 500,000 is half a CPU.
    Millionths(u64),
}

impl CpuLimit {
    /// From a quota per period, both in the same unit. No period: unknown.
    pub fn of_quota(quota: u64, period: u64) -> Self {
        let millionths = u128::from(quota).saturating_mul(1_000_000).checked_div(u128::from(period));
        millionths.map_or(Self::Unknown, |parts| {
            Self::from_code(u64::try_from(parts).unwrap_or(u64::MAX).saturating_add(2))
        })
    }

    /// The number that means it on the wire and in the store.
    pub fn code(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Unlimited => 1,
            Self::Millionths(parts) => parts.saturating_add(2),
        }
    }

    /// The inverse of [`CpuLimit::code`].
    pub fn from_code(code: u64) -> Self {
        match code {
            0 => Self::Unknown,
            1 => Self::Unlimited,
            parts => Self::Millionths(parts - 2),
        }
    }

    /// In CPUs; `None`: unlimited or unknown.
    pub fn cpus(self) -> Option<f64> {
        if let Self::Millionths(parts) = self { Some(parts as f64 / 1e6) } else { None }
    }

    /// Whether there is a limit.
    pub fn is_limited(self) -> bool {
        matches!(self, Self::Millionths(_))
    }

    /// The tighter of two limits. An unknown limit yields to a known one, but not to `Unlimited`: it could be tighter than none.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Millionths(one), Self::Millionths(two)) => Self::Millionths(one.min(two)),
            (limit @ Self::Millionths(_), _) | (_, limit @ Self::Millionths(_)) => limit,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            _ => Self::Unlimited,
        }
    }
}

/// How often a limit was reached.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct Throttle {
    /// Periods in which the group had something to run.
    pub periods: u64,
    /// Periods in which the group used up its quota.
    pub throttled_periods: u64,
    /// Time in which it was not allowed to run, ns, summed over CPUs as the kernel does.
    pub throttled_ns: u64,
}

/// Time in which tasks waited for a CPU (Documentation/accounting/psi.rst), waiting for a new period included.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct Pressure {
    /// At least one waited, ns.
    pub some_ns: u64,
    /// All that were not idle waited, ns. 0 for a whole host, and before Linux 5.13, which do not count it.
    pub full_ns: u64,
}

/// A group with its counters since it was made, and a number that is unique from start to start of a source: a group that is made again
/// under the same path has another one.
pub type CgroupSample = CgroupInterval;

/// A control group over an interval: its tightest CPU limit, how often that limit was reached, and its pressure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct CgroupInterval {
    /// Number of the group; 0 if read from a store.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub id: u64,
    /// Path of the group.
    pub path: Arc<str>,
    /// The tightest limit on its path, at the end of the interval.
    pub limit: CpuLimit,
    /// Length in bytes of the path prefix that names the limiting group.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub limiter_bytes: u16,
    /// Growth of the limit's counters in the interval; `None`: not known, or the group was seen for the first time.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub throttle: Option<Throttle>,
    /// Growth of the group's pressure in the interval; `None`: not known, or the group was seen for the first time.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub pressure: Option<Pressure>,
}

/// Growth and sums of all counters of a type.
macro_rules! growing {
    ($type:ident: $($counter:ident)+) => {
        impl $type {
            /// Growth since `earlier`; `None` if a counter fell.
            pub fn since(self, earlier: Self) -> Option<Self> {
                Some(Self { $($counter: self.$counter.checked_sub(earlier.$counter)?,)+ })
            }

            /// Adds what happened in another interval.
            pub fn add(&mut self, more: Self) {
                $(self.$counter = self.$counter.saturating_add(more.$counter);)+
            }
        }
    };
}

growing!(Throttle: periods throttled_periods throttled_ns);
growing!(Pressure: some_ns full_ns);

impl Throttle {
    /// Share of the periods in which the quota was used up, percent; `None` without a period.
    pub fn percent(self) -> Option<f64> {
        (self.periods > 0).then(|| self.throttled_periods as f64 * 100.0 / self.periods as f64)
    }
}

/// The name of the group that has the limit: the first `bytes` bytes of a path, cut at a character boundary.
fn limiter(path: &str, bytes: u16) -> &str {
    let name = &path[..path.floor_char_boundary(usize::from(bytes).min(path.len()))];
    // The root's name is empty as a prefix of others.
    if name.is_empty() { "/" } else { name }
}

impl CgroupInterval {
    /// The growth since `earlier`, the same group before. Without that nothing is known but the limit.
    pub fn between(earlier: Option<&CgroupSample>, cur: &CgroupSample) -> Self {
        // Another group on the path has the tightest limit now: its counters are no continuation.
        let is_same = earlier.is_some_and(|earlier| earlier.limiter() == cur.limiter());
        let throttle = earlier.filter(|_| is_same).and_then(|earlier| earlier.throttle);
        let pressure = earlier.and_then(|earlier| earlier.pressure);
        Self {
            id: cur.id,
            path: Arc::clone(&cur.path),
            limit: cur.limit,
            limiter_bytes: cur.limiter_bytes,
            throttle: cur.throttle.zip(throttle).and_then(|(cur, earlier)| cur.since(earlier)),
            pressure: cur.pressure.zip(pressure).and_then(|(cur, earlier)| cur.since(earlier)),
        }
    }

    /// Adds the same group over a later interval, whose limit replaces this one's. Unknown counters add nothing.
    pub fn add(&mut self, later: &Self) {
        (self.id, self.limit, self.limiter_bytes) = (later.id, later.limit, later.limiter_bytes);
        if let Some(throttle) = later.throttle {
            self.throttle.get_or_insert_default().add(throttle);
        }
        if let Some(pressure) = later.pressure {
            self.pressure.get_or_insert_default().add(pressure);
        }
    }

    /// Whether the row shows nothing: the group is known to have no limit, was never throttled and had no pressure.
    pub fn is_zero(&self) -> bool {
        self.limit == CpuLimit::Unlimited
            && self.throttle.unwrap_or_default() == Throttle::default()
            && self.pressure.unwrap_or_default() == Pressure::default()
    }

    /// Path of the group that has the limit.
    pub fn limiter(&self) -> &str {
        limiter(&self.path, self.limiter_bytes)
    }
}

/// The rows of the later of two lists, both ascending by id, those without news left out.
pub(crate) fn rows_between<'a>(
    prev: &'a [CgroupSample],
    cur: &'a [CgroupSample],
) -> impl Iterator<Item = CgroupInterval> + 'a {
    let mut before = Finder::new(prev, |row| row.id);
    let rows = cur.iter().map(move |now| CgroupInterval::between(before.search(&now.id), now));
    rows.filter(|row| !row.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(id: u64, limit: CpuLimit, throttled_ns: u64) -> CgroupSample {
        let throttle = Some(Throttle { periods: 10, throttled_periods: 5, throttled_ns });
        let pressure = Some(Pressure { some_ns: throttled_ns, full_ns: 0 });
        CgroupSample { id, path: "/a/b".into(), limit, limiter_bytes: 2, throttle, pressure }
    }

    #[test]
    fn no_limit_no_data_and_zero_are_different() {
        let limit = CpuLimit::of_quota(50_000, 100_000);
        assert_eq!((limit, limit.cpus()), (CpuLimit::Millionths(500_000), Some(0.5)));
        assert_eq!(CpuLimit::of_quota(1, 0), CpuLimit::Unknown);
        assert_eq!(CpuLimit::of_quota(u64::MAX, 1), CpuLimit::Millionths(u64::MAX - 2));
        for limit in [CpuLimit::Unknown, CpuLimit::Unlimited, CpuLimit::Millionths(0), limit] {
            assert_eq!(CpuLimit::from_code(limit.code()), limit);
            assert_eq!(limit.tighter(CpuLimit::Millionths(0)), CpuLimit::Millionths(0));
        }
        assert_eq!(CpuLimit::Unlimited.tighter(CpuLimit::Unknown), CpuLimit::Unknown);
    }

    #[test]
    fn a_group_seen_for_the_first_time_has_a_limit_and_no_counters() {
        let limit = CpuLimit::Millionths(500_000);
        let (one, two) = (sample(7, limit, 1_000), sample(7, limit, 4_000));
        let row = CgroupInterval::between(Some(&one), &two);
        assert_eq!(row.throttle.unwrap(), Throttle { throttled_ns: 3_000, ..Throttle::default() });
        assert_eq!((row.pressure.unwrap().some_ns, row.limiter()), (3_000, "/a"));
        let first = CgroupInterval::between(None, &two);
        assert_eq!((first.limit, first.throttle, first.pressure), (limit, None, None));
        let fell = CgroupInterval::between(Some(&two), &one);
        assert_eq!((fell.throttle, fell.pressure), (None, None), "a counter that fell is no data");
        let other = CgroupSample { limiter_bytes: 4, ..two.clone() };
        assert_eq!(CgroupInterval::between(Some(&one), &other).throttle, None, "another group's counters");
    }

    #[test]
    fn rows_without_news_are_left_out() {
        let prev = [
            sample(1, CpuLimit::Unlimited, 5),
            sample(2, CpuLimit::Unlimited, 5),
            sample(3, CpuLimit::Millionths(1), 5),
        ];
        let cur = [
            sample(1, CpuLimit::Unlimited, 5),
            sample(2, CpuLimit::Unlimited, 6),
            sample(3, CpuLimit::Millionths(1), 5),
        ];
        let ids: Vec<u64> = rows_between(&prev, &cur).map(|row| row.id).collect();
        assert_eq!(ids, [2, 3]);
    }

    #[test]
    fn a_hostile_length_of_the_limits_name_is_cut() {
        let row = CgroupInterval { path: "/ä".into(), limiter_bytes: 2, ..CgroupInterval::default() };
        assert_eq!(row.limiter(), "/");
        let row = CgroupInterval { limiter_bytes: u16::MAX, ..row };
        assert_eq!(row.limiter(), "/ä");
        assert_eq!(CgroupInterval { limiter_bytes: 0, ..row }.limiter(), "/");
    }
}
