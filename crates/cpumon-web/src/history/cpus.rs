//! Each CPU over a range. In: a range. Out: its modes summed up. Why: the modes of single CPUs stand in intervals alone, no sum of a
//! minute has them.

use std::collections::BTreeMap;

use cpumon_model::{CpuTimes, Fields, HostStatus};
use cpumon_store::{GapFinder, Query, What};

use super::past::MAX_GAPS;
use super::{Buckets, Past, Range};
use crate::api::{BucketTimes, GapJson};
use crate::problem::Problem;

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpuSum {
    /// Its modes in the range.
    pub(crate) times: CpuTimes,
    /// Intervals that tell of it.
    pub(crate) intervals: u64,
}

/// All of a host.
#[derive(Clone, Debug)]
pub(crate) struct Cpus {
    /// By number.
    pub(crate) each: BTreeMap<u32, CpuSum>,
    /// Intervals that were read, whether they tell of CPUs or not.
    pub(crate) intervals: u64,
    /// Of all CPUs, time of which no switch event tells who ran, ns; `None` where no switch was watched.
    pub(crate) unknown_ns: Option<u64>,
    /// The store holds sums of this range, but its intervals no more.
    pub(crate) has_only_sums: bool,
    /// One point, the range.
    pub(crate) times: BucketTimes,
    pub(crate) gaps: Vec<GapJson>,
}

/// What lies within the range of something that lasted longer.
fn part(ns: u64, share: f64) -> u64 {
    if share >= 1.0 {
        return ns;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a u64")]
    let part = (ns as f64 * share).round() as u64;
    part
}

/// See the module.
pub(crate) fn cpus(
    past: &Past,
    host: &HostStatus,
    (since_ns, until_ns): (i64, i64),
) -> Result<Cpus, Problem> {
    let id = host.info.host;
    let range = Range { since_ns, until_ns, points: 1 };
    let mut plan = past.plan(id, range)?;
    let has_sums = plan.resolution.take().is_some();
    // One point, whatever sums would have made of it.
    plan.width_ns = until_ns.saturating_sub(since_ns).max(1);
    let mut buckets = Buckets::new(range, &plan);
    let mut gaps = GapFinder::new(past.losses(id, (since_ns, until_ns))?, MAX_GAPS);
    let (mut each, mut intervals, mut unknown_ns) = (BTreeMap::<u32, CpuSum>::new(), 0_u64, None);
    let mut shares = Vec::new();
    let query = Query::new(id).range(plan.since_ns, plan.until_ns).what(What::Meta);
    past.for_each(&query, None, &mut |span| {
        buckets.cover(span, &mut shares);
        let interval = span.interval;
        gaps.see(interval);
        intervals += 1;
        let share: f64 = shares.iter().map(|(_, share)| share).sum();
        for cpu in &interval.cpus {
            let sum = each.entry(cpu.cpu).or_default();
            sum.intervals += 1;
            let (had, more) = (sum.times.to_array(), cpu.times.to_array());
            sum.times =
                CpuTimes::from_array(std::array::from_fn(|at| had[at].saturating_add(part(more[at], share))));
            if interval.fields.contains(Fields::SCHED) {
                let more = part(cpu.sched.unknown_ns, share);
                unknown_ns = Some(unknown_ns.unwrap_or(0_u64).saturating_add(more));
            }
        }
    })?;
    Ok(Cpus {
        each,
        intervals,
        unknown_ns,
        has_only_sums: has_sums && intervals == 0,
        times: buckets.times(),
        gaps: gaps.finish().iter().map(GapJson::from).collect(),
    })
}
