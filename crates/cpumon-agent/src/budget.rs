//! [`Budget`]: how much may be measured for how much CPU time. In: what each interval cost. Out: a step down when it is too
//! much, a step up when there is room. Why pure: when to step is a matter of patience, which tests can have plenty of.
//!
//! Down goes one probe at a time: histograms, wait reasons, interrupts, switch events. Up goes the other way. A step up that
//! had to be taken back makes the next try wait twice as long, so that a steady load does not make it swing.

use std::str::FromStr;
use std::time::Duration;

use cpumon_model::Probes;

/// In the order in which they are given up. What is left at the end is what every snapshot needs.
const STEPS: [Probes; 4] = [Probes::HISTOGRAMS, Probes::WAITS, Probes::IRQ, Probes::SCHED];

/// How long it must cost too much before a step down; a single busy moment is none.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long there must be room before a step up, at first and at most.
const ROOM_AT_FIRST: Duration = Duration::from_secs(10);
const ROOM_AT_MOST: Duration = Duration::from_mins(5);
/// There is room when no more than this part of the budget is used: the next probe must fit in too.
const ROOM_RATIO: f64 = 0.5;

/// A part of one CPU.
#[derive(Copy, Clone, Debug, PartialEq, PartialOrd)]
pub struct CpuShare(f64);

impl CpuShare {
    /// As a fraction of one CPU.
    #[must_use]
    pub fn ratio(self) -> f64 {
        self.0
    }
}

impl std::fmt::Display for CpuShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%", (self.0 * 1e6).round() / 1e4)
    }
}

/// A text that is no share of a CPU.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a share of one CPU from 0.01% to 100%, such as 1%")]
pub struct ParseCpuShareError;

impl FromStr for CpuShare {
    type Err = ParseCpuShareError;

    fn from_str(text: &str) -> Result<Self, ParseCpuShareError> {
        let number = text.strip_suffix('%').ok_or(ParseCpuShareError)?;
        let percent: f64 = number.trim_end().parse().map_err(|_| ParseCpuShareError)?;
        if (0.01..=100.0).contains(&percent) { Ok(Self(percent / 100.0)) } else { Err(ParseCpuShareError) }
    }
}

/// What to do now.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Change {
    /// Watch this from now on.
    pub probes: Probes,
    /// What goes or comes.
    pub step: Probes,
    /// It goes; else it comes.
    pub is_down: bool,
    /// The share of one CPU that led to it.
    pub used_ratio: f64,
}

/// Keeps to a share of one CPU.
#[derive(Clone, Debug)]
pub struct Budget {
    limit: CpuShare,
    wanted: Probes,
    now: Probes,
    over: Duration,
    room: Duration,
    room_needed: Duration,
    since_up: Option<Duration>,
}

impl Budget {
    /// Begins with all that is wanted.
    #[must_use]
    pub fn new(limit: CpuShare, wanted: Probes) -> Self {
        Self {
            limit,
            wanted,
            now: wanted,
            over: Duration::ZERO,
            room: Duration::ZERO,
            room_needed: ROOM_AT_FIRST,
            since_up: None,
        }
    }

    /// Takes in what the last interval cost; says what to do, if anything.
    pub fn look(&mut self, length: Duration, used: Duration) -> Option<Change> {
        if length.is_zero() {
            return None;
        }
        let used_ratio = used.as_secs_f64() / length.as_secs_f64();
        let limit = self.limit.ratio();
        self.over = if used_ratio > limit { self.over + length } else { Duration::ZERO };
        self.room = if used_ratio < limit * ROOM_RATIO { self.room + length } else { Duration::ZERO };
        if let Some(since_up) = &mut self.since_up {
            *since_up += length;
        }
        if self.over >= PATIENCE {
            self.step_down(used_ratio)
        } else if self.room >= self.room_needed {
            self.step_up(used_ratio)
        } else {
            None
        }
    }

    /// What is watched now.
    #[must_use]
    pub fn probes(&self) -> Probes {
        self.now
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> CpuShare {
        self.limit
    }

    fn step_down(&mut self, used_ratio: f64) -> Option<Change> {
        let step = STEPS.into_iter().find(|step| self.now.intersects(*step))?;
        if self.since_up.take().is_some_and(|since| since < self.room_needed) {
            self.room_needed = (self.room_needed * 2).min(ROOM_AT_MOST);
        }
        self.now.remove(step);
        Some(self.changed(step, true, used_ratio))
    }

    fn step_up(&mut self, used_ratio: f64) -> Option<Change> {
        let missing = self.wanted.difference(self.now);
        let step = STEPS.into_iter().rev().find(|step| missing.intersects(*step))?;
        self.now.insert(step);
        // The last step up lasted: the next need not wait as long.
        if self.since_up.is_some_and(|since| since >= self.room_needed) {
            self.room_needed = ROOM_AT_FIRST;
        }
        self.since_up = Some(Duration::ZERO);
        Some(self.changed(step, false, used_ratio))
    }

    fn changed(&mut self, step: Probes, is_down: bool, used_ratio: f64) -> Change {
        (self.over, self.room) = (Duration::ZERO, Duration::ZERO);
        Change { probes: self.now, step, is_down, used_ratio }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn all() -> Probes {
        Probes::all()
    }

    fn budget() -> Budget {
        Budget::new("1%".parse().unwrap(), all())
    }

    /// Looks each second at a cost in percent of one CPU; the probes after each change.
    fn looks(budget: &mut Budget, seconds: u32, percent: f64) -> Vec<(u32, Probes)> {
        (1..=seconds)
            .filter_map(|second| Some((second, budget.look(SECOND, SECOND.mul_f64(percent / 100.0))?.probes)))
            .collect()
    }

    #[test]
    fn it_steps_down_one_probe_at_a_time_in_order_and_stops_at_what_is_needed() {
        let mut budget = budget();
        let changes = looks(&mut budget, 60, 5.0);
        let expected = [
            (2, all() - Probes::HISTOGRAMS),
            (4, all() - Probes::HISTOGRAMS - Probes::WAITS),
            (6, Probes::EXITS | Probes::SCHED),
            (8, Probes::EXITS),
        ];
        assert_eq!(changes, expected);
    }

    #[test]
    fn a_busy_moment_is_no_reason() {
        let mut budget = budget();
        for _ in 0..100 {
            assert_eq!(budget.look(SECOND, SECOND / 10), None);
            assert_eq!(budget.look(SECOND, SECOND / 1000), None);
        }
        assert_eq!(budget.probes(), all());
    }

    #[test]
    fn it_steps_up_again_when_there_is_room() {
        let mut budget = budget();
        looks(&mut budget, 8, 5.0);
        assert_eq!(budget.probes(), Probes::EXITS);
        assert!(looks(&mut budget, 100, 0.9).is_empty(), "below the limit is not yet room for more");
        let changes = looks(&mut budget, 60, 0.1);
        let order: Vec<Probes> = changes.iter().map(|change| change.1).collect();
        assert_eq!(order[0], Probes::EXITS | Probes::SCHED);
        assert_eq!(order.len(), 4);
        assert_eq!(budget.probes(), all());
        assert!(looks(&mut budget, 100, 0.1).is_empty(), "there is nothing more to have");
    }

    #[test]
    fn a_step_up_that_was_taken_back_is_tried_later_and_later() {
        let mut budget = budget();
        let mut tries = Vec::new();
        // Wait reasons cost too much; without them there is room.
        for second in 0..2_000_u32 {
            let percent = if budget.probes().contains(Probes::WAITS) { 2.0 } else { 0.2 };
            let change = budget.look(SECOND, SECOND.mul_f64(percent / 100.0));
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
        let steps = (0..19).filter_map(|_| quick.look(tenth, tenth)).count();
        assert_eq!(steps, 0, "1.9 s are not 2 s");
        assert!(quick.look(tenth, tenth).is_some());
        let mut slow = budget();
        let hour = SECOND * 3600;
        assert!(slow.look(hour, hour / 10).is_some_and(|change| change.is_down));
        assert_eq!(slow.look(Duration::ZERO, SECOND), None, "nothing can be said about no time");
    }

    #[test]
    fn only_what_was_wanted_comes_back() {
        let mut budget = Budget::new("1%".parse().unwrap(), Probes::EXITS | Probes::SCHED);
        assert_eq!(looks(&mut budget, 30, 5.0), [(2, Probes::EXITS)]);
        assert_eq!(looks(&mut budget, 60, 0.0), [(10, Probes::EXITS | Probes::SCHED)]);
    }

    #[test]
    fn a_share_is_read_and_shown() {
        for (text, shown) in [("1%", "1%"), ("0.5 %", "0.5%"), ("100%", "100%"), ("0.01%", "0.01%")] {
            assert_eq!(text.parse::<CpuShare>().map(|share| share.to_string()), Ok(shown.to_owned()));
        }
        for text in ["", "1", "%", "0%", "101%", "-1%", "NaN%", "inf%", "one%"] {
            assert_eq!(text.parse::<CpuShare>(), Err(ParseCpuShareError), "{text}");
        }
    }
}
