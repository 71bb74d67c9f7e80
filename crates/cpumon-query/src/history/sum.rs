//! A range of time as if it were one interval. [`IntervalSum`] adds the intervals of a host up, exactly; [`sum`] gives the work of each
//! process in a range, [`cpus`] the modes of each CPU. Only intervals have single CPUs, sums of a minute do not.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use cpumon_model::{
    CGROUP_PATH_BYTES, CgroupInterval, CpuInterval, CpuTimes, DELAY_BUCKET_BYTES, DELAY_BUCKETS,
    DelayHistogram, DelayOf, Delays, Fields, Flags, HISTOGRAM_BYTES, HostStatus, Interval, IrqInterval,
    ProcessInterval, ThreadInterval, bytes_of_info,
};
use cpumon_store::{Gap, GapFinder, Query, Segment, What};

use super::answers::{BucketTimes, RangeSum};
use super::buckets::Buckets;
use super::{History, MAX_GAPS};
use crate::QueryError;
use crate::spans::{Cut, Span, cut};
use crate::time::{PlotRange, TimeRange};

/// Most memory of the rows of a sum, bytes: tasks, CPUs and groups of many intervals can be any number.
const MAX_BYTES: usize = 512 << 20;
/// Memory of a row in an index of keys, bytes.
const KEY_BYTES: usize = 64;

/// Intervals of one host, in order of time, added up into one whose length is their measured time.
#[derive(Debug, Default)]
pub struct IntervalSum {
    total: Interval,
    processes: HashMap<cpumon_model::ProcessKey, usize>,
    threads: HashMap<cpumon_model::ThreadKey, usize>,
    cgroups: BTreeMap<Arc<str>, CgroupInterval>,
    delays: BTreeMap<DelayOf, DelayHistogram>,
    /// Memory of the rows, bytes.
    bytes: usize,
}

/// Adds rows by number to a list of them. Returns the number of new ones.
fn add_numbered<R: Clone>(
    rows: &mut Vec<R>,
    more: &[R],
    number: impl Fn(&R) -> u32,
    add: impl Fn(&mut R, &R),
) -> usize {
    let known = rows.len();
    for row in more {
        match rows[..known].binary_search_by_key(&number(row), &number) {
            Ok(at) => add(&mut rows[at], row),
            Err(_) => rows.push(row.clone()),
        }
    }
    let new = rows.len() - known;
    if new > 0 {
        // Two ascending lists, which a stable sort merges: an insertion for each new row would move all behind it.
        rows.sort_by_key(number);
    }
    new
}

/// The row of `key`; a new one is pushed, and `None` returned.
fn place<'r, K: Hash + Eq, R: Clone>(
    index: &mut HashMap<K, usize>,
    rows: &'r mut Vec<R>,
    key: K,
    row: &R,
) -> Option<&'r mut R> {
    if let Some(&at) = index.get(&key) {
        return rows.get_mut(at);
    }
    index.insert(key, rows.len());
    rows.push(row.clone());
    None
}

impl IntervalSum {
    /// A sum of one interval. It has no waits by who ended them: `why` adds those up itself.
    pub fn new(first: &Interval) -> Self {
        let empty = Interval {
            fields: first.fields - Fields::WAITS_FOR,
            processes: Vec::new(),
            threads: Vec::new(),
            cgroups: Vec::new(),
            delays: Vec::new(),
            waits_for: Vec::new(),
            ..first.clone()
        };
        let mut merged = Self { total: empty, ..Self::default() };
        merged.add_cgroups(first);
        merged.add_delays(first);
        merged.add_rows(first);
        merged
    }

    /// Whether `next` continues the sum: the same boot and source, no restart.
    pub fn continues(&self, next: &Interval) -> bool {
        next.boot == self.total.boot
            && next.source == self.total.source
            && !next.flags.contains(Flags::RESTART)
    }

    /// Adds the next interval. Errors: the sum is too large.
    pub fn add(&mut self, next: &Interval) -> Result<(), QueryError> {
        // The measured length is the sum of the lengths: a hole between two intervals is not measured.
        let measured_ns = self.total.duration_ns().saturating_add(next.duration_ns());
        self.total.end = next.end;
        // The monotonic clock of a sum begins with its bucket.
        self.total.end.mono_ns = next.end.mono_ns.max(measured_ns);
        self.total.begin.mono_ns = self.total.end.mono_ns.saturating_sub(measured_ns);
        self.total.fields &= next.fields;
        self.total.flags |= next.flags;
        self.total.sequence = next.sequence;
        self.total.pass_ns = self.total.pass_ns.saturating_add(next.pass_ns);
        self.total.v1_ticks = next.v1_ticks;
        (self.total.thread_count, self.total.process_count) = (next.thread_count, next.process_count);
        self.total.health = next.health;
        self.total.ledger += &next.ledger;
        self.add_cpus(next);
        self.add_irqs(next);
        self.add_pressure(next);
        self.add_cgroups(next);
        self.add_delays(next);
        self.add_rows(next);
        if self.bytes > MAX_BYTES { Err(QueryError::SumTooLarge) } else { Ok(()) }
    }

    fn add_cpus(&mut self, next: &Interval) {
        let new = add_numbered(&mut self.total.cpus, &next.cpus, |row| row.cpu, add_cpu);
        self.bytes += new * size_of::<CpuInterval>();
        // The sums of the CPUs lack this interval, so they do not count as known.
        if next.cpus.is_empty() {
            self.total.fields.remove(Fields::CPUS);
        }
    }

    fn add_irqs(&mut self, next: &Interval) {
        let new = add_numbered(
            &mut self.total.irqs,
            &next.irqs,
            |row| row.irq,
            |sum, line| {
                sum.time_ns = sum.time_ns.saturating_add(line.time_ns);
                sum.count = sum.count.saturating_add(line.count);
            },
        );
        self.bytes += new * (size_of::<IrqInterval>() + KEY_BYTES);
    }

    fn add_pressure(&mut self, next: &Interval) {
        if let Some(pressure) = next.pressure {
            self.total.pressure.get_or_insert_default().add(pressure);
        }
    }

    /// A group is its path: a group that was removed and made again continues its row.
    fn add_cgroups(&mut self, next: &Interval) {
        self.total.cgroups_left_out = self.total.cgroups_left_out.max(next.cgroups_left_out);
        for row in &next.cgroups {
            if let Some(sum) = self.cgroups.get_mut(&row.path) {
                sum.add(row);
            } else {
                self.bytes += size_of::<CgroupInterval>() + CGROUP_PATH_BYTES + row.path.len() + KEY_BYTES;
                self.cgroups.insert(Arc::clone(&row.path), row.clone());
            }
        }
    }

    fn add_delays(&mut self, next: &Interval) {
        let known = self.delays.len();
        for row in &next.delays {
            *self.delays.entry(row.of).or_default() += &row.histogram;
        }
        // With each bucket that there may be.
        let most = size_of::<Delays>() + HISTOGRAM_BYTES + DELAY_BUCKETS * DELAY_BUCKET_BYTES;
        self.bytes += (self.delays.len() - known) * most;
    }

    fn add_rows(&mut self, next: &Interval) {
        for row in &next.processes {
            if let Some(sum) = place(&mut self.processes, &mut self.total.processes, row.key, row) {
                if !Arc::ptr_eq(&sum.info, &row.info) {
                    self.bytes =
                        (self.bytes + bytes_of_info(&row.info)).saturating_sub(bytes_of_info(&sum.info));
                }
                add_process(sum, row);
            } else {
                self.bytes += size_of::<ProcessInterval>() + bytes_of_info(&row.info) + KEY_BYTES;
            }
        }
        let known = self.total.threads.len();
        for row in &next.threads {
            if let Some(sum) = place(&mut self.threads, &mut self.total.threads, row.key, row) {
                add_thread(sum, row);
            }
        }
        self.bytes += (self.total.threads.len() - known) * (size_of::<ThreadInterval>() + KEY_BYTES);
    }

    /// The sum, its rows in order of their keys, those of control groups by path.
    pub fn finish(mut self) -> Interval {
        self.total.processes.sort_by_key(|row| row.key);
        self.total.threads.sort_by_key(|row| row.key);
        self.total.cgroups = self.cgroups.into_values().collect();
        let delays = self.delays.into_iter();
        self.total.delays =
            delays.map(|(of, histogram)| Delays { of, histogram: Arc::new(histogram) }).collect();
        self.total
    }
}

fn add_cpu(sum: &mut CpuInterval, more: &CpuInterval) {
    sum.times += &more.times;
    sum.sched += &more.sched;
    sum.went_back |= more.went_back;
}

/// Adds the counters of the process row `more` to `sum`.
pub fn add_process(sum: &mut ProcessInterval, more: &ProcessInterval) {
    sum.delta += &more.delta;
    sum.sched += &more.sched;
    sum.flags |= more.flags;
    sum.life = sum.life.joined(more.life);
    sum.thread_rows = sum.thread_rows.max(more.thread_rows);
    sum.parent_pid = more.parent_pid;
    // A process may get another name (exec); the newest one describes it.
    sum.info = more.info.clone();
}

fn add_thread(sum: &mut ThreadInterval, more: &ThreadInterval) {
    let (flags, life) = (sum.flags | more.flags, sum.life.joined(more.life));
    let (mut delta, mut sched) = (sum.delta, sum.sched);
    delta += &more.delta;
    sched += &more.sched;
    // What a thread waits for is a state and no sum: the newest one counts.
    sched.open_wait = more.sched.open_wait;
    *sum = ThreadInterval { delta, sched, flags, life, ..*more };
}

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
                Some(sum) => sum.add(interval)?,
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
        // An interval at the edge counts only with its share within the range.
        let share: f64 = shares.iter().map(|share| share.part).sum();
        for cpu in &interval.cpus {
            let sum = each.entry(cpu.cpu).or_default();
            sum.intervals += 1;
            sum.times += &CpuTimes::from_array(cpu.times.to_array().map(|ns| part(ns, share)));
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

#[cfg(test)]
mod tests;
