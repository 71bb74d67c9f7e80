//! [`BudgetPolicy`]: decides which probes fit a share of a CPU, from the cost of each interval. It is pure, so that tests can let hours
//! pass.
//!
//! Probes are switched off one at a time: histograms, who ends waits, wait reasons, interrupts, switch events; all at once where loading
//! the rest again would take more than a minute's budget. They are switched on again in reverse order. A step up that had to be undone
//! doubles the wait before the next one, so that a steady load does not make it oscillate.
//!
//! Where no probe is left to switch off, only the snapshots cost: they are made less often. CPU time above the limit
//! until then, and for loading probes, is made up for in the same way, up to a minute's budget. Loading is made up for
//! even while probes are on, as they always are at the start.

use std::str::FromStr;
use std::time::Duration;

use cpumon_model::Probes;

/// In the order in which they are switched off. The remaining probes are needed for every snapshot.
pub(crate) const STEPS: [Probes; 5] =
    [Probes::HISTOGRAMS, Probes::WAKERS, Probes::WAITS, Probes::IRQ, Probes::SCHED];

/// Time above the limit before a step down, so that a single busy moment changes nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time below the limit before a step up: the initial and the largest value.
const SPACE_AT_FIRST: Duration = Duration::from_secs(10);
const SPACE_AT_MOST: Duration = Duration::from_mins(5);
/// The budget has space while at most this part is used, because the next probe must fit too.
const SPACE_RATIO: f64 = 0.5;

/// Multiples of the requested interval.
const STRETCHES: [u32; 5] = [1, 2, 4, 8, MAX_STRETCH];
const MAX_STRETCH: u32 = 16;
/// CPU time above the limit is made up for in this time.
const MAKE_UP: Duration = Duration::from_mins(1);
/// Least time that a debt is divided by, so that the end of the time does not stop all snapshots.
const LEAST_MAKE_UP: Duration = Duration::from_secs(1);
/// The least part of the limit that is left for snapshots meanwhile.
const LEAST_RATIO: f64 = 1.0 / 16.0;

/// A share of one CPU, 0.0001 to 1.
#[derive(Copy, Clone, Debug, PartialEq, PartialOrd)]
pub struct CpuShare(f64);

impl CpuShare {
    pub fn ratio(self) -> f64 {
        self.0
    }
}

impl std::fmt::Display for CpuShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Percent / 100 * 100 is not exact in binary. Rounding prints the number that the user typed.
        write!(f, "{}%", (self.0 * 1e6).round() / 1e4)
    }
}

/// The text is not a share of a CPU.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a share of one CPU from 0.01% to 100%, such as 1% or 1")]
pub struct ParseCpuShareError;

impl FromStr for CpuShare {
    type Err = ParseCpuShareError;

    fn from_str(text: &str) -> Result<Self, ParseCpuShareError> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let percent: f64 = number.trim_end().parse().map_err(|_| ParseCpuShareError)?;
        // NaN is in no range, so it is refused too.
        if (0.01..=100.0).contains(&percent) { Ok(Self(percent / 100.0)) } else { Err(ParseCpuShareError) }
    }
}

#[derive(Copy, Clone, Debug, PartialEq)]
pub struct ProbeChange {
    /// Probes that are on after the change.
    pub probes: Probes,
    /// The switched probe, or all probes at once.
    pub step: Probes,
    /// Whether `step` was switched off; else it was switched on.
    pub is_down: bool,
    /// The used share of one CPU that caused the change.
    pub used_ratio: f64,
}

#[derive(Clone, Debug)]
pub struct BudgetPolicy {
    limit: CpuShare,
    wanted: Probes,
    now: Probes,
    over: Duration,
    space: Duration,
    space_needed: Duration,
    since_up: Option<Duration>,
    /// Length of an interval as a multiple of the configured interval.
    stretch: u32,
    /// Time for which a shorter distance would have been enough.
    slack: Duration,
    /// CPU time that was used above the limit and is not made up for, s.
    debt_s: f64,
    /// Time left to make up for loading, while the debt includes it.
    load_left: Option<Duration>,
}

impl BudgetPolicy {
    /// Starts with all wanted probes.
    pub fn new(limit: CpuShare, wanted: Probes) -> Self {
        Self {
            limit,
            wanted,
            now: wanted,
            over: Duration::ZERO,
            space: Duration::ZERO,
            space_needed: SPACE_AT_FIRST,
            since_up: None,
            stretch: 1,
            slack: Duration::ZERO,
            debt_s: 0.0,
            load_left: None,
        }
    }

    /// How many of the wanted intervals lie between two snapshots.
    pub fn stretch(&self) -> u32 {
        self.stretch
    }

    /// Adds a cost that is not that of measuring with these probes: to load them.
    pub fn charge(&mut self, length: Duration, used: Duration) {
        self.add(length, used);
        self.load_left = (self.debt_s > 0.0).then_some(MAKE_UP);
    }

    fn add(&mut self, length: Duration, used: Duration) {
        let over_s = used.as_secs_f64() - length.as_secs_f64() * self.limit.ratio();
        // More cannot be made up for in that time.
        self.debt_s = (self.debt_s + over_s).clamp(0.0, self.most_debt_s());
        self.load_left = self.load_left.filter(|_| self.debt_s > 0.0).map(|left| left.saturating_sub(length));
    }

    /// Adds the cost of the last interval. Returns a change when one is due.
    pub fn update(&mut self, length: Duration, used: Duration) -> Option<ProbeChange> {
        if length.is_zero() {
            return None;
        }
        let used_ratio = used.as_secs_f64() / length.as_secs_f64();
        let limit = self.limit.ratio();
        self.add(length, used);
        // The savings of longer intervals are no space for another probe.
        let has_space = used_ratio < limit * SPACE_RATIO && self.stretch == 1;
        self.stretch_intervals(length, used_ratio);
        // One interval on the other side starts the count again: only time without a break decides.
        self.over = if used_ratio > limit { self.over + length } else { Duration::ZERO };
        self.space = if has_space { self.space + length } else { Duration::ZERO };
        if let Some(since_up) = &mut self.since_up {
            *since_up += length;
        }
        if self.over >= PATIENCE {
            self.step_down(used_ratio)
        } else if self.space >= self.space_needed && self.stretch == 1 {
            self.step_up(used_ratio)
        } else {
            None
        }
    }

    /// The probes that are on.
    pub fn probes(&self) -> Probes {
        self.now
    }

    pub fn limit(&self) -> CpuShare {
        self.limit
    }

    fn most_debt_s(&self) -> f64 {
        MAKE_UP.as_secs_f64() * self.limit.ratio()
    }

    /// Chooses the distance of snapshots, where nothing else reduces the cost.
    fn stretch_intervals(&mut self, length: Duration, used_ratio: f64) {
        if STEPS.into_iter().any(|step| self.now.intersects(step)) && self.load_left.is_none() {
            (self.stretch, self.slack) = (1, Duration::ZERO);
            return;
        }
        let limit = self.limit.ratio();
        let left = self.load_left.unwrap_or(MAKE_UP).max(LEAST_MAKE_UP);
        let allowed = (limit - self.debt_s / left.as_secs_f64()).max(limit * LEAST_RATIO);
        // The cost of one snapshot does not depend on their distance.
        let at_once = used_ratio * f64::from(self.stretch);
        // In few steps, so that the interval does not change with each snapshot.
        let needed = STRETCHES.into_iter().find(|count| at_once <= allowed * f64::from(*count));
        let needed = needed.unwrap_or(MAX_STRETCH);
        self.slack = if needed < self.stretch { self.slack + length } else { Duration::ZERO };
        if needed > self.stretch || self.slack >= SPACE_AT_FIRST {
            (self.stretch, self.slack) = (needed, Duration::ZERO);
        }
    }

    fn step_down(&mut self, used_ratio: f64) -> Option<ProbeChange> {
        // Without a probe to remove, the cost is that of the snapshots alone: they are made less often.
        let step = STEPS.into_iter().find(|step| self.now.intersects(*step))?;
        // `take`: several steps down after one step up double the wait only once.
        if self.since_up.take().is_some_and(|since| since < self.space_needed) {
            self.space_needed = (self.space_needed * 2).min(SPACE_AT_MOST);
        }
        self.now.remove(step);
        // Each change loads the probes again, and that alone may take more than a minute's budget.
        let step = if self.debt_s >= self.most_debt_s() {
            let all = STEPS.into_iter().fold(Probes::empty(), Probes::union);
            self.now.remove(all);
            all
        } else {
            step
        };
        Some(self.changed(step, true, used_ratio))
    }

    fn step_up(&mut self, used_ratio: f64) -> Option<ProbeChange> {
        let missing = self.wanted.difference(self.now);
        let step = STEPS.into_iter().rev().find(|step| missing.intersects(*step))?;
        self.now.insert(step);
        // The last step up was not undone in time: the wait returns to its initial value.
        if self.since_up.is_some_and(|since| since >= self.space_needed) {
            self.space_needed = SPACE_AT_FIRST;
        }
        self.since_up = Some(Duration::ZERO);
        Some(self.changed(step, false, used_ratio))
    }

    fn changed(&mut self, step: Probes, is_down: bool, used_ratio: f64) -> ProbeChange {
        // The cost so far was that of other probes, so it must not decide about the new ones.
        (self.over, self.space) = (Duration::ZERO, Duration::ZERO);
        ProbeChange { probes: self.now, step, is_down, used_ratio }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn all() -> Probes {
        Probes::all()
    }

    fn budget() -> BudgetPolicy {
        BudgetPolicy::new("1%".parse().unwrap(), all())
    }

    /// Updates once a second at a cost in percent of one CPU. Returns the probes after each change.
    fn updates(budget: &mut BudgetPolicy, seconds: u32, percent: f64) -> Vec<(u32, Probes)> {
        (1..=seconds)
            .filter_map(|second| {
                Some((second, budget.update(SECOND, SECOND.mul_f64(percent / 100.0))?.probes))
            })
            .collect()
    }

    #[test]
    fn it_steps_down_one_probe_at_a_time_and_stops_at_the_required_ones() {
        let mut budget = budget();
        let changes = updates(&mut budget, 60, 5.0);
        let expected = [
            (2, all() - Probes::HISTOGRAMS),
            (4, all() - Probes::HISTOGRAMS - Probes::WAKERS),
            (6, all() - Probes::HISTOGRAMS - Probes::WAKERS - Probes::WAITS),
            (8, Probes::EXITS | Probes::SCHED),
            (10, Probes::EXITS),
        ];
        assert_eq!(changes, expected);
    }

    #[test]
    fn a_busy_moment_is_no_reason() {
        let mut budget = budget();
        for _ in 0..100 {
            assert_eq!(budget.update(SECOND, SECOND / 10), None);
            assert_eq!(budget.update(SECOND, SECOND / 1000), None);
        }
        assert_eq!(budget.probes(), all());
    }

    #[test]
    fn it_steps_up_again_when_the_budget_has_space() {
        let mut budget = budget();
        updates(&mut budget, 10, 5.0);
        assert_eq!(budget.probes(), Probes::EXITS);
        assert!(
            updates(&mut budget, 100, 0.9).is_empty(),
            "just below the limit there is no space for another probe"
        );
        let changes = updates(&mut budget, 90, 0.1);
        let order: Vec<Probes> = changes.iter().map(|change| change.1).collect();
        assert_eq!(order[0], Probes::EXITS | Probes::SCHED);
        assert_eq!(order.len(), 5);
        assert_eq!(budget.probes(), all());
        assert!(updates(&mut budget, 100, 0.1).is_empty(), "all probes are on");
    }

    #[test]
    fn a_step_up_that_was_taken_back_is_tried_later_and_later() {
        let mut budget = budget();
        let mut tries = Vec::new();
        // Wait reasons cost too much; without them the budget has space.
        for second in 0..2_000_u32 {
            let percent = if budget.probes().contains(Probes::WAITS) { 2.0 } else { 0.2 };
            let change = budget.update(SECOND, SECOND.mul_f64(percent / 100.0));
            if change.is_some_and(|change| !change.is_down && change.step == Probes::WAITS) {
                tries.push(second);
            }
        }
        let gaps: Vec<u32> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.is_sorted() && gaps.len() < 12, "{gaps:?}");
        assert!(gaps.last() >= Some(&300), "{gaps:?}");
    }

    #[test]
    fn intervals_of_any_length_count_by_their_time() {
        let mut quick = budget();
        let tenth = SECOND / 10;
        let steps = (0..19).filter_map(|_| quick.update(tenth, tenth)).count();
        assert_eq!(steps, 0, "1.9 s are not 2 s");
        assert!(quick.update(tenth, tenth).is_some());
        let mut slow = budget();
        let hour = SECOND * 3600;
        assert!(slow.update(hour, hour / 10).is_some_and(|change| change.is_down));
        assert_eq!(slow.update(Duration::ZERO, SECOND), None, "an interval without length has no share");
    }

    /// Simulates seconds in which a snapshot costs `snapshot_ms`. Returns the CPU time of each second in ms, and the intervals in s.
    fn minutes(budget: &mut BudgetPolicy, seconds: usize, snapshot_ms: f64) -> (Vec<f64>, Vec<u32>) {
        let (mut used, mut intervals) = (vec![0.0; seconds], Vec::new());
        let mut now = 0;
        while now + (budget.stretch() as usize) <= seconds {
            let stretch = budget.stretch();
            now += stretch as usize;
            used[now - 1] = snapshot_ms;
            intervals.push(stretch);
            budget.update(SECOND * stretch, Duration::from_secs_f64(snapshot_ms / 1_000.0));
        }
        (used, intervals)
    }

    #[test]
    fn without_a_probe_to_switch_off_snapshots_are_made_less_often_and_every_minute_fits() {
        for (limit, snapshot_ms) in [(0.3, 5.2), (0.3, 40.0), (1.0, 9.0), (0.1, 4.0)] {
            let mut budget = BudgetPolicy::new(format!("{limit}%").parse().unwrap(), Probes::EXITS);
            let (used, intervals) = minutes(&mut budget, 600, snapshot_ms);
            let most = used[2..].windows(60).map(|minute| minute.iter().sum::<f64>()).fold(0.0, f64::max);
            // One snapshot more or less falls into a minute.
            assert!(
                most <= limit * 600.0 + snapshot_ms,
                "{limit} %, {snapshot_ms} ms: {most} ms in a minute"
            );
            let last = *intervals.last().unwrap();
            let needed = snapshot_ms / (limit * 10.0);
            assert!(
                f64::from(last) < needed * 2.0 || last == 1,
                "{limit} %: no longer than needed, {intervals:?}"
            );
        }
    }

    #[test]
    fn when_loading_takes_more_than_a_minute_allows_all_probes_go_at_once() {
        let mut budget = BudgetPolicy::new("0.3%".parse().unwrap(), all());
        assert_eq!(updates(&mut budget, 2, 0.7), [(2, all() - Probes::HISTOGRAMS)]);
        budget.charge(SECOND, Duration::from_millis(280));
        assert_eq!(updates(&mut budget, 2, 0.7), [(2, Probes::EXITS)]);
    }

    #[test]
    fn what_other_probes_took_to_load_is_made_up_for() {
        let mut budget = BudgetPolicy::new("1%".parse().unwrap(), Probes::EXITS);
        budget.charge(SECOND, SECOND / 3);
        // 0.8 % by snapshots alone: within the limit, but for a third of a second to make up for.
        let (used, intervals) = minutes(&mut budget, 300, 8.0);
        assert!(intervals[1] > 1, "{intervals:?}");
        let first: f64 = used[..60].iter().sum();
        assert!(first + 333.0 < 2.0 * 600.0, "{first} ms");
        assert_eq!(intervals.last(), Some(&1), "then as often as wanted: {intervals:?}");
    }

    #[test]
    fn loading_counts_in_the_first_minute_and_no_probe_goes_for_it() {
        let first_minute = |budget: &mut BudgetPolicy, load_ms: u64, snapshot_ms| {
            budget.charge(Duration::ZERO, Duration::from_millis(load_ms));
            let (used, intervals) = minutes(budget, 300, snapshot_ms);
            (used[..60].iter().sum::<f64>(), intervals)
        };
        let mut budget = BudgetPolicy::new("1%".parse().unwrap(), all());
        let (used, intervals) = first_minute(&mut budget, 400, 8.0);
        assert!(used + 400.0 <= 600.0 + 8.0, "{used} ms beside loading: {intervals:?}");
        assert_eq!((budget.probes(), intervals.last()), (all(), Some(&1)), "{intervals:?}");
        // Loading takes more than a minute's budget: no more snapshots than can be helped.
        let mut budget = BudgetPolicy::new("0.3%".parse().unwrap(), all());
        let (used, intervals) = first_minute(&mut budget, 400, 2.0);
        assert!(used <= 6.0 * 2.0, "{used} ms beside loading: {intervals:?}");
        assert_eq!((budget.probes(), intervals.last()), (all(), Some(&1)), "{intervals:?}");
    }

    #[test]
    fn what_longer_intervals_save_brings_no_probe_back() {
        let mut budget = BudgetPolicy::new("1%".parse().unwrap(), all());
        updates(&mut budget, 2, 1.2);
        assert_eq!(budget.probes(), all() - Probes::HISTOGRAMS);
        budget.charge(Duration::ZERO, SECOND / 2);
        let (_, intervals) = minutes(&mut budget, 300, 8.0);
        assert!(intervals.contains(&4), "{intervals:?}");
        assert_eq!(budget.probes(), all() - Probes::HISTOGRAMS, "0.8 % leave no space");
    }

    #[test]
    fn only_what_was_wanted_comes_back() {
        let mut budget = BudgetPolicy::new("1%".parse().unwrap(), Probes::EXITS | Probes::SCHED);
        assert_eq!(updates(&mut budget, 30, 5.0), [(2, Probes::EXITS)]);
        assert_eq!(updates(&mut budget, 60, 0.0), [(20, Probes::EXITS | Probes::SCHED)]);
    }

    #[test]
    fn a_share_is_read_and_shown() {
        for (text, shown) in [
            ("1", "1%"),
            ("0.5", "0.5%"),
            ("1%", "1%"),
            ("0.5 %", "0.5%"),
            ("100%", "100%"),
            ("0.01%", "0.01%"),
        ] {
            assert_eq!(text.parse::<CpuShare>().map(|share| share.to_string()), Ok(shown.to_owned()));
        }
        for text in ["", "0", "101", "%", "0%", "101%", "-1%", "NaN%", "inf%", "one%"] {
            assert_eq!(text.parse::<CpuShare>(), Err(ParseCpuShareError), "{text}");
        }
    }
}
