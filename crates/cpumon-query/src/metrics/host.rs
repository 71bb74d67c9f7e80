//! [`HostMetrics`]: what is counted of one host. Each interval is added once, when it arrives.

use std::collections::HashSet;
use std::ops::AddAssign;
use std::sync::Arc;

use cpumon_model::{
    BootId, CgroupInterval, CgroupNames, DelayOf, Fields, Flags, HostStatus, Interval, ProcessInterval,
    SourceHealth, delay_range_ns,
};

use super::budget::{HostSeries, SeriesBudget};
use super::count::{Count, CpuTime, Rising};
use super::labels::{Allowance, Labels, MAX_NAMES};
use super::options::{MetricsBy, MetricsOptions};
use crate::report::{GroupBy, group_name};

/// Lines of the ledger with their labels; the last one is what the others leave of the capacity.
pub(super) const PARTS: [&str; 7] = ["threads", "exited", "irq", "softirq", "steal", "idle", "unattributed"];
/// Upper bounds of the histogram of run delays, as powers of two in ns: from 1 µs to 17 s.
pub(super) const DELAY_POWERS: [u32; 13] = [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34];
/// Series of a host without those of names: parts, capacity, `(other)`, losses, cost, state.
const OF_HOST: usize = 28;
/// Series of a further grouping without those of names.
const OF_GROUPING: usize = 6;
/// Series of the histogram.
const OF_DELAYS: usize = DELAY_POWERS.len() + 3;
/// Series of a name: two modes and time of unknown mode, ready time; as many of a control group with a limit.
const OF_NAME: usize = 4;
/// Parts of the past that were counted and are remembered, of the newest boots.
const MAX_RANGES: usize = 32;

/// Times of the processes of one label.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Usage {
    pub(super) cpu: CpuTime,
    pub(super) ready: Count,
    pub(super) blocked: Count,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.ready += other.ready;
        self.blocked += other.blocked;
    }
}

impl Usage {
    fn add(&mut self, row: &ProcessInterval, fields: Fields) {
        let delta = &row.delta;
        if fields.contains(Fields::USER | Fields::SYSTEM) {
            self.cpu.add(delta.run_ns, delta.user_ns, delta.system_ns);
        } else {
            self.cpu.unknown.add(delta.run_ns);
        }
        self.ready.add(delta.run_delay_ns);
        if fields.contains(Fields::SCHED) && !row.flags.contains(Flags::UNWATCHED) {
            self.blocked.add(row.sched.blocked_ns);
        }
    }
}

/// How often a limit of control groups was reached.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Throttling {
    pub(super) periods: u128,
    pub(super) throttled_periods: u128,
    pub(super) throttled_ns: u128,
    /// The newest limit, CPUs.
    pub(super) limit: Option<f64>,
}

impl AddAssign for Throttling {
    fn add_assign(&mut self, other: Self) {
        self.periods = self.periods.saturating_add(other.periods);
        self.throttled_periods = self.throttled_periods.saturating_add(other.throttled_periods);
        self.throttled_ns = self.throttled_ns.saturating_add(other.throttled_ns);
    }
}

/// Run delays by length.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct DelayCounts {
    /// Up to each bound alone; the last place has the longer ones.
    pub(super) counts: [u64; DELAY_POWERS.len() + 1],
    /// Run delay of all processes in the same intervals.
    pub(super) sum: Count,
}

/// What was counted of a host since the receiver knows it.
pub struct HostMetrics {
    series: HostSeries,
    /// Series of each name.
    of_name: usize,
    /// Whether its own series are reserved: if not, it is counted and not shown.
    pub(super) is_shown: bool,
    /// Length of all intervals, ns: the host's time.
    counted_ns: u64,
    /// What was measured in any interval; the rest is no data, which is not 0.
    pub(super) fields: Fields,
    pub(super) parts: [Count; PARTS.len()],
    pub(super) capacity: Count,
    pub(super) by: Vec<(MetricsBy, Labels<Usage>)>,
    pub(super) limits: Labels<Throttling>,
    pub(super) left_out: u64,
    pub(super) run_queue: Option<u128>,
    pub(super) delays: Option<DelayCounts>,
    pub(super) agent_cpu: Rising,
    pub(super) agent_bytes: u64,
    pub(super) exits_lost: Rising,
    pub(super) snapshots_lost: Rising,
    pub(super) snapshots_partial: Rising,
    pub(super) store_dropped: Rising,
    /// When its intervals were counted, by boot: `[begin, end)` of its monotonic clock.
    ranges: Vec<(BootId, u64, u64)>,
}

impl HostMetrics {
    pub(super) fn new(budget: &Arc<SeriesBudget>, options: &MetricsOptions) -> Self {
        Self {
            series: HostSeries::new(budget),
            of_name: OF_NAME + usize::from(options.has_blocked),
            is_shown: false,
            counted_ns: 0,
            fields: Fields::empty(),
            parts: Default::default(),
            capacity: Count::default(),
            by: options.groupings().map(|by| (by, Labels::default())).collect(),
            limits: Labels::default(),
            left_out: 0,
            run_queue: None,
            delays: None,
            agent_cpu: Rising::default(),
            agent_bytes: 0,
            exits_lost: Rising::default(),
            snapshots_lost: Rising::default(),
            snapshots_partial: Rising::default(),
            store_dropped: Rising::default(),
            ranges: Vec::new(),
        }
    }

    /// Adds an interval that was just measured.
    pub fn add(&mut self, status: &HostStatus, interval: &Interval) {
        self.see(status);
        let SourceHealth { own_cpu_ns, own_rss_bytes, exits_lost, .. } = interval.health;
        self.agent_cpu.see(own_cpu_ns);
        self.exits_lost.see(exits_lost);
        self.agent_bytes = own_rss_bytes;
        self.note(interval);
        self.count(interval);
    }

    /// Adds an interval of the past, which an enrolled device kept while it could not send: unless it was counted already.
    pub fn add_past(&mut self, interval: &Interval) {
        if self.note(interval) {
            self.count(interval);
        }
    }

    /// Reads what the receiver counts of the host's data.
    pub(super) fn see(&mut self, status: &HostStatus) {
        // If its series do not fit among those of its kind, it has none until some are free.
        self.is_shown &= self.series.trust(status.trust.is_trusted());
        self.snapshots_lost.see(status.loss.snapshots_lost);
        self.snapshots_partial.see(status.loss.snapshots_partial);
        self.store_dropped.see(status.loss.store_dropped);
    }

    /// Remembers when an interval was; false: a part of it was counted before.
    fn note(&mut self, interval: &Interval) -> bool {
        let (boot, begin, end) = (interval.boot, interval.begin.mono_ns, interval.end.mono_ns);
        let is_same = |range: &(BootId, u64, u64)| range.0 == boot;
        if self.ranges.iter().filter(|range| is_same(range)).any(|range| begin < range.2 && range.1 < end) {
            return false;
        }
        // It lengthens a range, which then may touch another one.
        let before = self.ranges.iter().position(|range| is_same(range) && range.2 == begin);
        let after = self.ranges.iter().position(|range| is_same(range) && range.1 == end);
        match (before, after) {
            (Some(before), Some(after)) => {
                self.ranges[before].2 = self.ranges[after].2;
                self.ranges.remove(after);
            }
            (Some(before), None) => self.ranges[before].2 = end,
            (None, Some(after)) => self.ranges[after].1 = begin,
            (None, None) => {
                if self.ranges.len() >= MAX_RANGES {
                    self.ranges.remove(0);
                }
                self.ranges.push((boot, begin, end));
            }
        }
        true
    }

    fn count(&mut self, interval: &Interval) {
        if !self.is_shown {
            // Names that it had before it was trusted otherwise keep their series.
            let names = self.by.iter().map(|(_, labels)| labels.names()).sum::<usize>() + self.limits.names();
            self.is_shown = self.series.take(self.base()) && self.series.take_names(names * self.of_name);
            if !self.is_shown {
                self.series.clear();
            }
        }
        self.counted_ns = self.counted_ns.saturating_add(interval.duration_ns());
        self.fields |= interval.fields;
        let ledger = &interval.ledger;
        let lines = [
            ledger.threads_ns,
            ledger.exited_ns,
            ledger.irq_ns,
            ledger.softirq_ns,
            ledger.steal_ns,
            ledger.idle_ns,
            ledger.unattributed_ns(),
        ];
        for (part, ns) in self.parts.iter_mut().zip(lines) {
            part.add(ns);
        }
        self.capacity.add(ledger.capacity_ns);
        let now_ns = self.counted_ns;
        let mut rest_ns = ledger.threads_ns.saturating_add(ledger.exited_ns);
        for row in &interval.processes {
            rest_ns = rest_ns.saturating_sub(row.delta.run_ns);
        }
        for (by, labels) in &mut self.by {
            let group: GroupBy = (*by).into();
            for row in &interval.processes {
                let name = group_name(group, interval.source, &row.info);
                let weight = row.delta.run_ns.saturating_add(row.delta.run_delay_ns);
                let weight = u64::try_from(weight).unwrap_or(0);
                labels.sums_of(&name, weight, now_ns).add(row, interval.fields);
            }
            // Run time of threads whose end was lost: it is known of all together.
            labels.others().cpu.unknown.add(rest_ns);
        }
        self.add_limits(interval);
        self.add_scheduler(interval);
        self.settle();
    }

    fn add_limits(&mut self, interval: &Interval) {
        let mut limiters = HashSet::new();
        for row in interval.cgroups.iter().filter(|row| row.limit.is_limited()) {
            // Groups below one limit have its counters, each of them.
            if !limiters.insert(row.limiter()) {
                continue;
            }
            let CgroupInterval { limit, throttle, .. } = row;
            let throttle = throttle.unwrap_or_default();
            let name = CgroupNames::of(row.limiter()).container_or_service();
            let name = if name.is_empty() { row.limiter() } else { &name };
            let weight = throttle.throttled_ns.saturating_add(throttle.periods).saturating_add(1);
            let sums = self.limits.sums_of(name, weight, self.counted_ns);
            *sums += Throttling {
                periods: throttle.periods.into(),
                throttled_periods: throttle.throttled_periods.into(),
                throttled_ns: throttle.throttled_ns.into(),
                limit: None,
            };
            sums.limit = limit.cpus();
        }
    }

    fn add_scheduler(&mut self, interval: &Interval) {
        let is_known =
            interval.fields.contains(Fields::SCHED) && !interval.flags.contains(Flags::RUN_QUEUE_UNKNOWN);
        if is_known && !interval.cpus.is_empty() {
            let sum = self.run_queue.get_or_insert_default();
            *sum = sum.saturating_add(interval.cpu_sched().run_queue_ns.into());
        }
        if !interval.fields.contains(Fields::HISTOGRAMS) {
            return;
        }
        if self.delays.is_none() && !(self.is_shown && self.series.take(OF_DELAYS)) {
            return;
        }
        let delays = self.delays.get_or_insert_default();
        // Owners ascend, and CPUs come first.
        for row in interval.delays.iter().take_while(|row| matches!(row.of, DelayOf::Cpu(_))) {
            for (bucket, count) in row.histogram.iter() {
                // A bucket never crosses a power of two. The last one has no end.
                let end = if bucket == u8::MAX { u64::MAX } else { *delay_range_ns(bucket).end() };
                let at = DELAY_POWERS.partition_point(|power| (1 << power) - 1 < end);
                delays.counts[at] = delays.counts[at].saturating_add(count);
            }
        }
        for row in &interval.processes {
            delays.sum.add(row.delta.run_delay_ns);
        }
    }

    /// Series of the host without those of names.
    fn base(&self) -> usize {
        OF_HOST + OF_GROUPING * (self.by.len() - 1) + self.delays.map_or(0, |_| OF_DELAYS)
    }

    fn settle(&mut self) {
        let share = self.series.share();
        let each = self.of_name;
        // A quarter as many may stand still for an hour. Groups with a limit take what is left.
        let names = (share / (each * self.by.len()) * 4 / 5).min(MAX_NAMES);
        let names = if self.is_shown { names } else { 0 };
        let allowed = Allowance { names, each, now_ns: self.counted_ns };
        for (by, labels) in &mut self.by {
            labels.settle(allowed, &mut self.series);
            let left_out = labels.take_left_out();
            if *by == MetricsBy::Program {
                self.left_out = left_out;
            }
        }
        self.limits.settle(allowed, &mut self.series);
    }
}

impl std::fmt::Debug for HostMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostMetrics").field("is_shown", &self.is_shown).finish_non_exhaustive()
    }
}
