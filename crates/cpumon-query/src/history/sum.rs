//! A range of time as if it were one interval: what each process did in it, and each CPU by mode. Only intervals have single CPUs, sums of a
//! minute do not.

use std::collections::{BTreeMap, HashMap};

use cpumon_model::{CpuTimes, Fields, HostStatus, Interval, ProcessInterval};
use cpumon_store::{Gap, GapFinder, Query, Segment, What};

use super::answers::{BucketTimes, RangeSum};
use super::buckets::Buckets;
use super::past::{History, MAX_GAPS};
use crate::QueryError;
use crate::spans::{Cut, Span, cut};
use crate::sum::{IntervalSum, add_process};
use crate::time::{PlotRange, TimeRange};

/// Sum of all processes of one name.
#[derive(Clone, Debug)]
pub struct NamedProcess {
    /// Their sum; its key is that of the first one.
    pub sum: ProcessInterval,
    /// Number of processes.
    pub count: u64,
}

/// Process rows of a name added up, most run time first.
pub fn by_name(interval: &Interval) -> Vec<NamedProcess> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut rows: Vec<NamedProcess> = Vec::new();
    for row in &interval.processes {
        if let Some(&at) = places.get(&*row.info.name) {
            add_process(&mut rows[at].sum, row);
            rows[at].count += 1;
        } else {
            places.insert(&row.info.name, rows.len());
            rows.push(NamedProcess { sum: row.clone(), count: 1 });
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.sum.delta.run_ns));
    rows
}

/// Adds up a range, read as a report reads it, so that both have the same figures. `with_threads`: threads too; then intervals are read, whatever the range.
pub fn sum(
    history: &History,
    host: &HostStatus,
    range: TimeRange,
    with_threads: bool,
) -> Result<RangeSum, QueryError> {
    let (cut, what) = if with_threads {
        (Cut::fine(range), What::Threads)
    } else {
        (cut(range, history.finest(host.info.host, range)?), What::Processes)
    };
    let mut sum: Option<IntervalSum> = None;
    for Span { range, resolution } in &cut.spans {
        let query = Query::new(host.info.host).range(range.since_ns, range.until_ns).what(what);
        let mut segments = history.segments(&query, *resolution)?;
        while let Some(Segment { interval, .. }) = segments.read()? {
            match &mut sum {
                Some(sum) => sum.add(interval),
                None => sum = Some(IntervalSum::new(interval)),
            }
        }
    }
    Ok(RangeSum { resolution: cut.coarsest(), interval: sum.map(IntervalSum::finish).unwrap_or_default() })
}

/// CPU time of one CPU over a range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuSum {
    /// CPU time by mode.
    pub times: CpuTimes,
    /// Number of intervals in which the CPU was measured.
    pub intervals: u64,
}

/// All CPUs of a host over a range.
#[derive(Clone, Debug)]
pub struct Cpus {
    /// Sums by CPU number.
    pub each: BTreeMap<u32, CpuSum>,
    /// Intervals that were read, with or without CPU times.
    pub intervals: u64,
    /// Of all CPUs, time that no context-switch event attributes to a thread, ns; `None` where no switch was watched.
    pub unknown_ns: Option<u64>,
    /// The store holds sums of this range, but its intervals no more.
    pub has_only_sums: bool,
    /// The range as a single point.
    pub times: BucketTimes,
    /// Gaps in the range, at most 1000.
    pub gaps: Vec<Gap>,
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

/// Sums the modes of each CPU over a range.
pub fn cpus(history: &History, host: &HostStatus, range: TimeRange) -> Result<Cpus, QueryError> {
    let id = host.info.host;
    let TimeRange { since_ns, until_ns } = range;
    let range = PlotRange { since_ns, until_ns, points: 1 };
    let mut plan = history.plan(id, range)?;
    let has_sums = plan.resolution.is_some();
    if has_sums {
        plan = history.over_intervals(id, plan, range)?;
    }
    // One point: the width that sums would have is of no use here.
    plan.width_ns = until_ns.saturating_sub(since_ns).max(1);
    let mut buckets = Buckets::new(range, &plan);
    let mut gaps = GapFinder::new(history.losses(id, range.time())?, MAX_GAPS);
    let (mut each, mut intervals, mut unknown_ns) = (BTreeMap::<u32, CpuSum>::new(), 0_u64, None);
    let mut shares = Vec::new();
    let query = Query::new(id).range(plan.since_ns, plan.until_ns).what(What::Meta);
    let mut segments = history.segments(&query, None)?;
    while let Some(segment) = segments.read()? {
        buckets.cover(&segment, &mut shares);
        let interval = segment.interval;
        gaps.see(interval);
        intervals += 1;
        // An interval at the edge counts only by what of it lies within the range.
        let share: f64 = shares.iter().map(|share| share.part).sum();
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
    }
    Ok(Cpus {
        each,
        intervals,
        unknown_ns,
        // Of old ranges only sums are left, which do not have single CPUs.
        has_only_sums: has_sums && intervals == 0,
        times: buckets.times(),
        gaps: gaps.finish(),
    })
}
