//! Turns sums per point into the values of a chart, e.g. percent. A point that was not measured has no value.

use super::chart::Times;
use super::query::Percent;
use crate::history::BucketTimes;
use crate::time::to_ms;

/// ns in a point as percent of the time that was measured in it.
pub(super) fn shares(values: Option<&[Option<i64>]>, times: &BucketTimes, divide: f64) -> Vec<Option<f64>> {
    known(values, times, |value, covered| value * 100.0 / covered / divide)
}

/// Rates in ns a second as percent.
pub(super) fn rates(values: Option<&[Option<i64>]>, times: &BucketTimes, divide: f64) -> Vec<Option<f64>> {
    known(values, times, |value, _| value / 1e7 / divide)
}

/// Values of points that were measured, each made into another with the measured time.
pub(super) fn known(
    values: Option<&[Option<i64>]>,
    times: &BucketTimes,
    make: impl Fn(f64, f64) -> f64,
) -> Vec<Option<f64>> {
    let value = |at: usize| values.and_then(|values| values.get(at).copied().flatten());
    let covered = times.covered_ns.iter().enumerate();
    covered
        .map(|(at, covered)| {
            value(at).filter(|_| *covered > 0).map(|value| make(value as f64, *covered as f64))
        })
        .collect()
}

pub(super) fn times(from: &BucketTimes) -> Times {
    Times { begin_ms: from.begins_ns().map(to_ms).collect(), width_ms: from.width_ns as f64 / 1e6 }
}

/// What a percentage is divided by, and how it is called.
pub(super) fn scale(percent: Percent, cpus: u32) -> (f64, &'static str) {
    match percent {
        Percent::Host if cpus > 0 => (f64::from(cpus), "%host: 100 = all CPUs"),
        _ => (1.0, "%CPU: 100 = one CPU"),
    }
}
