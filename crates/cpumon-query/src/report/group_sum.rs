//! [`Group`]: one group of a tally, and what it did in the span at hand.

use cpumon_model::{BootId, Delta, ProcessKey, Waits};
use cpumon_store::ActiveTimes;

use super::answer::Peak;
use super::group::{GroupId, GroupOf, Kind};
use super::times::{Candidate, Mark, Times, highest};
use crate::history::buckets::Share;
use crate::keys::TaskKey;
use crate::time::TimeRange;

/// What a group did in the span at hand.
#[derive(Copy, Clone, Debug, Default)]
struct Now {
    is_there: bool,
    run_ns: i64,
    /// Sum and highest of the largest run times of its processes, ns per second.
    sum: i64,
    highest: i64,
    /// Rows of a sum, and when they were active; of the latter the rows whose times are not recorded.
    rows: usize,
    timeless: usize,
    times: Option<ActiveTimes>,
}

/// A group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) kind: Kind,
    pub(super) name: Box<str>,
    pub(super) task: Option<(BootId, TaskKey)>,
    pub(super) process: Option<ProcessKey>,
    pub(super) delta: Delta,
    pub(super) blocked_ns: Option<i64>,
    pub(super) waits: Waits,
    pub(super) times: Times,
    /// Run time a point.
    pub(super) points: Vec<f64>,
    now: Now,
}

/// What a row adds to its groups.
#[derive(Copy, Clone)]
pub(super) struct Part<'a> {
    pub(super) delta: &'a Delta,
    pub(super) blocked_ns: Option<i64>,
    pub(super) waits: &'a Waits,
    pub(super) most_ns_per_s: Option<i64>,
    pub(super) times: Option<ActiveTimes>,
}

/// `part` in `length_ns`, a second.
pub(super) fn rate(part: i64, length_ns: u64) -> i64 {
    if length_ns == 0 {
        return 0;
    }
    // 128 bits: `part` can be years of ns times a billion.
    i64::try_from(i128::from(part) * 1_000_000_000 / i128::from(length_ns)).unwrap_or(i64::MAX)
}

/// Unknown + 5 = 5, and a sum of nothing stays unknown.
fn add_known(sum: &mut Option<i64>, more: Option<i64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

/// Times of two rows of one sum.
fn together(one: Option<ActiveTimes>, other: ActiveTimes) -> ActiveTimes {
    one.map_or(other, |one| ActiveTimes {
        first_ns: one.first_ns.min(other.first_ns),
        last_ns: one.last_ns.max(other.last_ns),
        ..one
    })
}

impl Group {
    pub(super) fn new(of: GroupOf<'_>, points: usize) -> Self {
        Self {
            kind: of.kind,
            name: of.name.into(),
            task: of.task,
            process: of.process,
            delta: Delta::default(),
            blocked_ns: None,
            waits: Waits::default(),
            times: Times::default(),
            points: vec![0.0; points],
            now: Now::default(),
        }
    }

    /// How it is found in another part of the range.
    pub(super) fn id(&self) -> GroupId {
        match self.task {
            Some((boot, task)) => GroupId::Task(boot, task),
            None => GroupId::Named(self.kind, self.name.clone()),
        }
    }

    pub(super) fn of(&self) -> GroupOf<'_> {
        GroupOf { kind: self.kind, name: &self.name, task: self.task, process: self.process }
    }

    /// Adds a row of the span at hand; whether it is the first one.
    pub(super) fn add(&mut self, part: Part<'_>, shares: &[Share]) -> bool {
        self.delta += part.delta;
        add_known(&mut self.blocked_ns, part.blocked_ns);
        self.waits += part.waits;
        for Share { at, part: share } in shares {
            if let Some(point) = self.points.get_mut(*at) {
                *point += part.delta.run_ns as f64 * share;
            }
        }
        let now = &mut self.now;
        now.run_ns = now.run_ns.saturating_add(part.delta.run_ns);
        if let Some(most) = part.most_ns_per_s {
            now.sum = now.sum.saturating_add(most);
            now.highest = now.highest.max(most);
            now.rows += 1;
            match part.times {
                Some(times) => now.times = Some(together(now.times, times)),
                None => now.timeless += 1,
            }
        }
        !std::mem::replace(&mut now.is_there, true)
    }

    /// Takes what was added up of it in a later part of the range.
    pub(super) fn append(&mut self, more: Self) {
        self.delta += &more.delta;
        add_known(&mut self.blocked_ns, more.blocked_ns);
        self.waits += &more.waits;
        self.times.append(more.times);
        for (point, ns) in self.points.iter_mut().zip(more.points) {
            *point += ns;
        }
    }

    /// Ends a span: what the group did in it is known now.
    pub(super) fn close(&mut self, mark: Mark, measured_in_ns: u64, busy_ns_per_s: i64) {
        let now = std::mem::take(&mut self.now);
        let times = now.times.filter(|_| now.timeless == 0);
        match times {
            Some(ActiveTimes { first_ns, last_ns, .. }) => {
                let range = TimeRange { since_ns: first_ns, until_ns: last_ns };
                self.times.see(Mark { range, resolution: None });
            }
            None => self.times.see(mark),
        }
        let mean = rate(now.run_ns, measured_in_ns);
        let highest = self.times.peak.map_or(i64::MIN, |peak| peak.ns_per_s);
        if mark.resolution.is_none() {
            if mean > highest {
                self.times.peak = Some(Peak { ns_per_s: mean, end_ns: mark.range.until_ns, is_exact: true });
            }
            return;
        }
        if let Some(ActiveTimes { max_end_ns, .. }) = times.filter(|_| now.rows == 1) {
            let peak = Peak { ns_per_s: now.highest, end_ns: max_end_ns, is_exact: true };
            self.times.peak = self::highest(self.times.peak, Some(peak));
            return;
        }
        let lower = now.highest.max(mean);
        let upper = now.sum.min(busy_ns_per_s).max(lower);
        if upper > highest {
            self.times.candidates.push(Candidate { mark, upper, lower });
        }
    }
}
