//! [`WhyPart`]: what is known of a part of a range, added up from its intervals in bounded memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use cpumon_model::{
    CgroupInterval, CpuTimes, Delta, Fields, Interval, Ledger, Life, ProcessInfo, ProcessInterval,
    ProcessKey, SOFTIRQ_KINDS, SourceKind, WaitFor, WaitKind, WaitedOn, Waits, bytes_of_info,
};
use cpumon_store::{ActiveTimes, Segment};
use foldhash::HashMap;

use crate::time::TimeRange;

/// Processes of a part at most, those that did most; while it is read twice as many. The rest are added to the short-lived ones.
pub(super) const MAX_PROCESSES: usize = 4_096;
/// Groups of short-lived processes by name and parent of a part at most, and those by name alone. The rest are one sum without a name.
pub(super) const MAX_SHORT: usize = 4_096;
pub(super) const MAX_SHORT_NAMES: usize = 1_024;
/// Memory of the descriptions of processes, and of those of short-lived ones, of a part at most, bytes.
const MAX_INFO_BYTES: usize = 2 << 20;
/// CPUs and control groups of a part at most.
const MAX_CPUS: usize = 8_192;
const MAX_CGROUPS: usize = 512;
/// Rows of waits, and short-lived children, of a part at most.
pub(super) const MAX_WAITS: usize = 8_192;

/// A process of a part.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenProcess {
    pub(super) info: Arc<ProcessInfo>,
    pub(super) parent_pid: u32,
    pub(super) delta: Delta,
    pub(super) waits: Waits,
    /// Length of the intervals in which it did something, ns.
    pub(super) length_ns: u64,
    /// Whether it began in the part; of sums only where their row says so.
    pub(super) began: bool,
    /// Begin of the interval in which it began, of sums of the first in which it was active, ns since the UNIX epoch; `None`: before the
    /// part.
    pub(super) since_ns: Option<i64>,
    /// End of the interval in which it ended, of sums of the last in which it was active, ns since the UNIX epoch; `None`: not in the part.
    pub(super) until_ns: Option<i64>,
}

impl SeenProcess {
    fn add(&mut self, later: &Self) {
        self.info = Arc::clone(&later.info);
        self.parent_pid = later.parent_pid;
        self.delta += &later.delta;
        self.waits += &later.waits;
        self.length_ns = self.length_ns.saturating_add(later.length_ns);
        self.began |= later.began;
        self.since_ns = self.since_ns.or(later.since_ns);
        self.until_ns = later.until_ns;
    }
}

/// What processes that began and ended within one interval have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ShortKey {
    pub(super) name: Box<str>,
    pub(super) parent_pid: u32,
}

/// Processes that began and ended within one interval.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortRuns {
    /// Of the first one.
    pub(super) info: Arc<ProcessInfo>,
    /// Number of processes; 0: only their sum is stored.
    pub(super) count: u64,
    pub(super) delta: Delta,
    /// Length of the intervals that have one, ns.
    pub(super) length_ns: u64,
    /// End of the last of these, ns since the UNIX epoch.
    pub(super) last_ns: i64,
}

impl ShortRuns {
    fn add(&mut self, later: &Self) {
        self.count = self.count.saturating_add(later.count);
        self.delta += &later.delta;
        // An interval has many of them.
        if self.last_ns != later.last_ns {
            self.length_ns = self.length_ns.saturating_add(later.length_ns);
            self.last_ns = later.last_ns;
        }
    }
}

/// A process that began and ended within one interval and ended a wait of its parent.
#[derive(Copy, Clone, Debug)]
pub(super) struct ShortChild {
    parent_pid: u32,
    pub(super) delta: Delta,
}

/// What is known of a part of a range.
#[derive(Clone, Debug)]
pub(super) struct WhyPart {
    pub(super) range: TimeRange,
    /// Measured time, ns.
    pub(super) length_ns: u64,
    pub(super) intervals: u64,
    /// What all intervals that have a length have.
    pub(super) fields: Fields,
    pub(super) source: SourceKind,
    /// Whether sums of minutes or hours were read: they have no CPUs and no single short-lived processes.
    pub(super) has_sums: bool,
    /// Of sums: the part of the range of which intervals were read, if there are any.
    pub(super) detail: Option<TimeRange>,
    /// Whether rows were left out, because there are too many.
    pub(super) is_cut: bool,
    pub(super) ledger: Ledger,
    pub(super) cpus: BTreeMap<u32, CpuTimes>,
    pub(super) softirq_ns: [u64; SOFTIRQ_KINDS.len()],
    pub(super) cgroups: BTreeMap<Arc<str>, CgroupInterval>,
    pub(super) processes: HashMap<ProcessKey, SeenProcess>,
    pub(super) short: HashMap<ShortKey, ShortRuns>,
    /// Memory of the descriptions of `processes` and of `short`, bytes.
    info_bytes: [usize; 2],
    /// Short-lived children for which their parents waited.
    pub(super) children: HashMap<ProcessKey, ShortChild>,
    /// Waits by who ended them.
    pub(super) waits: Vec<WaitFor>,
}

impl WhyPart {
    pub(super) fn new(range: TimeRange) -> Self {
        Self {
            range,
            length_ns: 0,
            intervals: 0,
            fields: Fields::all(),
            source: SourceKind::default(),
            has_sums: false,
            detail: None,
            is_cut: false,
            ledger: Ledger::default(),
            cpus: BTreeMap::new(),
            softirq_ns: [0; SOFTIRQ_KINDS.len()],
            cgroups: BTreeMap::new(),
            processes: HashMap::default(),
            short: HashMap::default(),
            info_bytes: [0; 2],
            children: HashMap::default(),
            waits: Vec::new(),
        }
    }

    /// These parts together, in order of time; `None` without any that was measured.
    pub(super) fn sum<'p>(parts: impl IntoIterator<Item = &'p Self>) -> Option<Self> {
        let mut measured = parts.into_iter().filter(|part| part.length_ns > 0);
        let mut sum = measured.next()?.clone();
        measured.for_each(|later| sum.append(later));
        sum.end();
        // A wait counts where it ended, and can be much longer than all that is explained.
        for row in &mut sum.waits {
            row.ns = row.ns.min(row.count.max(1).saturating_mul(sum.length_ns));
        }
        Some(sum)
    }

    /// Adds an interval, or the sum of a minute or an hour.
    pub(super) fn add(&mut self, segment: &Segment<'_>) {
        let interval = segment.interval;
        let length_ns = interval.duration_ns();
        self.length_ns = self.length_ns.saturating_add(length_ns);
        self.intervals += 1;
        // An agent's first interval has no length, nothing to compare with, and so no field of a probe.
        if length_ns > 0 {
            self.fields &= interval.fields;
        }
        self.source = interval.source;
        self.has_sums |= segment.max_busy_ppm.is_some();
        self.ledger += &interval.ledger;
        for cpu in &interval.cpus {
            self.add_cpu(cpu.cpu, &cpu.times);
            add_each(&mut self.softirq_ns, &cpu.sched.softirq_ns);
        }
        interval.cgroups.iter().for_each(|row| self.add_cgroup(row));
        for (at, row) in interval.processes.iter().enumerate() {
            self.add_process(row, interval, segment.processes.get(at).and_then(|sum| sum.times));
        }
        self.add_children(interval);
        self.add_waits(&interval.waits_for);
    }

    /// Measured time in which any of these processes of the part was there, ns.
    pub(super) fn present_ns<'s>(&self, seen: impl IntoIterator<Item = &'s SeenProcess>) -> u64 {
        let life = |seen: &SeenProcess| TimeRange {
            since_ns: seen.since_ns.unwrap_or(self.range.since_ns),
            until_ns: seen.until_ns.unwrap_or(self.range.until_ns),
        };
        let mut lives: Vec<TimeRange> = seen.into_iter().map(life).collect();
        lives.sort_unstable_by_key(|life| life.since_ns);
        let (mut sum_ns, mut end_ns) = (0_u64, i64::MIN);
        for life in lives {
            let new = TimeRange { since_ns: life.since_ns.max(end_ns), ..life };
            sum_ns = sum_ns.saturating_add(new.length_ns().max(0).unsigned_abs());
            end_ns = end_ns.max(life.until_ns);
        }
        sum_ns.min(self.length_ns)
    }

    fn append(&mut self, later: &Self) {
        self.range.until_ns = later.range.until_ns;
        self.length_ns = self.length_ns.saturating_add(later.length_ns);
        self.intervals += later.intervals;
        self.fields &= later.fields;
        self.source = later.source;
        self.has_sums |= later.has_sums;
        self.is_cut |= later.is_cut;
        self.ledger += &later.ledger;
        for (cpu, times) in &later.cpus {
            self.add_cpu(*cpu, times);
        }
        add_each(&mut self.softirq_ns, &later.softirq_ns);
        later.cgroups.values().for_each(|row| self.add_cgroup(row));
        later.processes.iter().for_each(|(key, seen)| self.see_process(*key, seen));
        later.short.iter().for_each(|(key, runs)| self.see_short(key, runs));
        later.children.iter().for_each(|(key, child)| self.see_child(*key, *child));
        self.add_waits(&later.waits);
    }

    /// Adds what sums do not have, from the intervals of a part of the range: shares of single CPUs, and how many short-lived processes there
    /// were, by the length of that part.
    pub(super) fn add_detail(&mut self, detail: &Self) {
        self.detail = Some(detail.range);
        self.cpus.clone_from(&detail.cpus);
        self.fields |= detail.fields & Fields::AFFINITY;
        let scale = self.scale_of(detail);
        for (all, some) in self.softirq_ns.iter_mut().zip(detail.softirq_ns) {
            *all = scaled(some, scale);
        }
        for (key, runs) in &detail.short {
            if let Some(sum) = self.short.get_mut(key) {
                sum.count = sum.count.max(scaled(runs.count, scale));
            }
        }
    }

    /// By how much it is longer than a part of it.
    pub(super) fn scale_of(&self, detail: &Self) -> f64 {
        self.length_ns as f64 / detail.length_ns.max(1) as f64
    }

    /// Ends the rows: those of waits have each key once, and there are no more than a part may have.
    pub(super) fn end(&mut self) {
        self.tidy_waits();
        if self.processes.len() > MAX_PROCESSES {
            self.cut();
        }
        // Up to 40 parts are in memory at once.
        self.waits.shrink_to_fit();
        self.processes.shrink_to_fit();
        self.short.shrink_to_fit();
        self.children.shrink_to_fit();
    }

    fn add_waits(&mut self, rows: &[WaitFor]) {
        self.waits.extend_from_slice(rows);
        if self.waits.len() > 2 * MAX_WAITS {
            self.tidy_waits();
        }
    }

    fn tidy_waits(&mut self) {
        self.is_cut |= WaitFor::tidy(&mut self.waits, MAX_WAITS) > 0;
    }

    fn add_cpu(&mut self, number: u32, times: &CpuTimes) {
        if self.cpus.len() < MAX_CPUS || self.cpus.contains_key(&number) {
            *self.cpus.entry(number).or_default() += times;
        } else {
            self.is_cut = true;
        }
    }

    fn add_children(&mut self, interval: &Interval) {
        for row in interval.waits_for.iter().filter(|row| matches!(row.kind, WaitKind::Blocked(_))) {
            let WaitedOn::Process(key) = row.on else { continue };
            let is_child = |child: &&ProcessInterval| {
                child.life == Life::BornEnded && child.parent_pid == row.waiter.pid
            };
            if let Some(child) = interval.process(key).filter(is_child) {
                self.see_child(key, ShortChild { parent_pid: child.parent_pid, delta: child.delta });
            }
        }
    }

    fn see_child(&mut self, key: ProcessKey, child: ShortChild) {
        if self.children.len() < MAX_WAITS {
            self.children.insert(key, child);
        }
    }

    /// Whether a process began in the part as a child of `parent`.
    pub(super) fn is_new_child(&self, parent: ProcessKey, key: ProcessKey) -> bool {
        let by_row = self.processes.get(&key).filter(|seen| seen.began).map(|seen| seen.parent_pid);
        let pid = by_row.or_else(|| self.children.get(&key).map(|child| child.parent_pid));
        pid == Some(parent.pid)
    }

    /// Groups without a limit take no space. After a limit was lifted, it and its counters stay as they were.
    fn add_cgroup(&mut self, row: &CgroupInterval) {
        if !row.limit.is_limited() {
            return;
        }
        if let Some(sum) = self.cgroups.get_mut(&row.path) {
            sum.add(row);
        } else if self.cgroups.len() < MAX_CGROUPS {
            self.cgroups.insert(Arc::clone(&row.path), row.clone());
        } else {
            self.is_cut = true;
        }
    }

    /// `times`: of a sum when it was active.
    fn add_process(&mut self, row: &ProcessInterval, interval: &Interval, times: Option<ActiveTimes>) {
        if row.delta.is_zero() {
            return;
        }
        let (info, length_ns, last_ns) =
            (Arc::clone(&row.info), interval.duration_ns(), interval.end.wall_ns);
        // Sums, and threads that a full buffer of the kernel did not name, have a row without a pid.
        if row.life == Life::BornEnded || row.key.pid == 0 {
            let key = ShortKey { name: info.name.clone(), parent_pid: row.parent_pid };
            let count = u64::from(row.life == Life::BornEnded);
            self.see_short(&key, &ShortRuns { info, count, delta: row.delta, length_ns, last_ns });
            return;
        }
        let seen = SeenProcess {
            info,
            parent_pid: row.parent_pid,
            delta: row.delta,
            waits: row.sched.waits,
            length_ns,
            began: row.life.is_born(),
            since_ns: times
                .map(|times| times.first_ns)
                .or_else(|| row.life.is_born().then_some(interval.begin.wall_ns)),
            until_ns: times.map(|times| times.last_ns).or_else(|| row.life.has_ended().then_some(last_ns)),
        };
        self.see_process(row.key, &seen);
    }

    fn see_process(&mut self, key: ProcessKey, seen: &SeenProcess) {
        if let Some(sum) = self.processes.get_mut(&key) {
            if !Arc::ptr_eq(&sum.info, &seen.info) {
                self.info_bytes[0] -= bytes_of_info(&sum.info);
                self.info_bytes[0] += bytes_of_info(&seen.info);
            }
            sum.add(seen);
        } else {
            self.info_bytes[0] += bytes_of_info(&seen.info);
            self.processes.insert(key, seen.clone());
        }
        if self.processes.len() > 2 * MAX_PROCESSES || self.info_bytes[0] > MAX_INFO_BYTES {
            self.cut();
        }
    }

    /// Leaves the processes that did most, so many that others have space, and adds the rest to the short-lived ones.
    fn cut(&mut self) {
        self.is_cut = true;
        self.info_bytes[0] = 0;
        let mut all: Vec<(ProcessKey, SeenProcess)> = self.processes.drain().collect();
        all.sort_unstable_by_key(|(key, seen)| (Reverse(used_ns(&seen.delta)), *key));
        for (key, seen) in all {
            let bytes = self.info_bytes[0] + bytes_of_info(&seen.info);
            if self.processes.len() < MAX_PROCESSES && bytes <= MAX_INFO_BYTES / 2 {
                self.info_bytes[0] = bytes;
                self.processes.insert(key, seen);
            } else {
                let key = ShortKey { name: seen.info.name.clone(), parent_pid: seen.parent_pid };
                let SeenProcess { info, delta, length_ns, .. } = seen;
                self.see_short(&key, &ShortRuns { info, delta, length_ns, ..ShortRuns::default() });
            }
        }
    }

    /// Where there are too many, those of a name are added up without their parents, and the rest without a name.
    fn see_short(&mut self, key: &ShortKey, runs: &ShortRuns) {
        if let Some(sum) = self.short.get_mut(key) {
            sum.add(runs);
            return;
        }
        let bytes = self.info_bytes[1] + bytes_of_info(&runs.info);
        let has_space = |most: usize, len: usize| len < most && bytes <= MAX_INFO_BYTES;
        if has_space(MAX_SHORT, self.short.len()) {
            self.info_bytes[1] = bytes;
            self.short.insert(key.clone(), runs.clone());
            return;
        }
        self.is_cut = true;
        let by_name = ShortKey { name: key.name.clone(), parent_pid: 0 };
        if let Some(sum) = self.short.get_mut(&by_name) {
            sum.add(runs);
        } else if has_space(MAX_SHORT + MAX_SHORT_NAMES, self.short.len()) {
            self.info_bytes[1] = bytes;
            self.short.insert(by_name, runs.clone());
        } else {
            let rest = ShortKey { name: "".into(), parent_pid: u32::MAX };
            self.short.entry(rest).or_default().add(runs);
        }
    }
}

/// Run time and run delay, ns.
pub(super) fn used_ns(delta: &Delta) -> i64 {
    delta.run_ns.saturating_add(delta.run_delay_ns)
}

fn add_each(sums: &mut [u64], more: &[u64]) {
    for (sum, ns) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(*ns);
    }
}

/// A part of a time.
pub(super) fn scaled(ns: u64, share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float beyond u64 sticks at its end"
    )]
    let part = (ns as f64 * share).round() as u64;
    part
}
