//! [`Presence`]: in which points a task, or any process of a name, was there. Without it a task that had not begun yet, or had
//! ended, would be drawn as one that is idle.

use std::collections::HashMap;

use cpumon_model::Life;
use cpumon_store::Segment;

use super::buckets::Buckets;
use crate::keys::TaskKey;
use crate::time::TimeRange;

/// Pid or tid of a task, and its start.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TaskStart {
    number: u32,
    start_ns: u64,
}

impl From<TaskKey> for TaskStart {
    fn from(key: TaskKey) -> Self {
        Self { number: key.number(), start_ns: key.start_ns() }
    }
}

/// When a row was there, while its intervals are read in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Presence {
    /// One bit for each point at which the row was there.
    bits: Vec<u64>,
    /// Start of each task that was seen and has not ended, ns since the epoch.
    open: HashMap<TaskStart, i64>,
    /// Tasks that ended here and may have been seen by the part of the range before.
    ended: Vec<TaskStart>,
}

impl Presence {
    /// Takes a task's row of an interval. Sums have neither begin nor end: of them it only notes the row.
    pub(super) fn see(&mut self, buckets: &Buckets, task: TaskStart, span: &Segment<'_>, life: Life) {
        let time = span.time();
        // A v1 device has no start times; it sends a row, if only of zeros, for as long as the task is there.
        if task.start_ns == 0 || span.max_busy_ppm.is_some() {
            self.mark(buckets, time);
            return;
        }
        let began_ns = self.open.get(&task).copied().unwrap_or_else(|| began_ns(task, span, life));
        if life.has_ended() {
            self.open.remove(&task);
            self.mark(buckets, TimeRange { since_ns: began_ns, ..time });
            if life == Life::Ended {
                self.ended.push(task);
            }
        } else {
            self.open.insert(task, began_ns);
        }
    }

    /// Notes that a task was there in a range.
    pub(super) fn mark(&mut self, buckets: &Buckets, range: TimeRange) {
        for at in buckets.points_of(range) {
            let word = at / 64;
            if self.bits.len() <= word {
                self.bits.resize(word + 1, 0);
            }
            self.bits[word] |= 1 << (at % 64);
        }
    }

    /// Takes what a later part of the range saw.
    pub(super) fn append(&mut self, later: Self) {
        for task in &later.ended {
            // The later part marked it from its start on.
            self.open.remove(task);
        }
        for (task, began_ns) in later.open {
            self.open.entry(task).or_insert(began_ns);
        }
        self.ended.extend(later.ended);
        self.bits.resize(self.bits.len().max(later.bits.len()), 0);
        for (word, bits) in self.bits.iter_mut().zip(later.bits) {
            *word |= bits;
        }
    }

    /// Whether no row was ever seen.
    pub(super) fn is_unknown(&self) -> bool {
        self.bits.is_empty() && self.open.is_empty()
    }

    /// At the end of the range: what has not ended is still there.
    pub(super) fn close(&mut self, buckets: &Buckets) {
        for (_, since_ns) in std::mem::take(&mut self.open) {
            self.mark(buckets, TimeRange { since_ns, until_ns: i64::MAX });
        }
    }

    /// Whether it was there at some time of a point.
    pub(super) fn is_there(&self, at: usize) -> bool {
        self.bits.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }
}

/// When a task began, by its key and the two clocks of an interval; the start of time where the latter are not known.
fn began_ns(task: TaskStart, span: &Segment<'_>, life: Life) -> i64 {
    let (begin, end) = (span.interval.begin, span.interval.end);
    if life.is_born() {
        return begin.wall_ns;
    }
    let age_ns = end.boot_ns.checked_sub(task.start_ns).and_then(|ns| i64::try_from(ns).ok());
    age_ns.map_or(i64::MIN, |age_ns| end.wall_ns.saturating_sub(age_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spans::Plan;
    use crate::time::PlotRange;
    use cpumon_model::{Interval, Moment};

    const BOOT_NS: i64 = 1_000_000;

    fn interval(begin_ns: i64, end_ns: i64) -> Interval {
        let at =
            |ns: i64| Moment { wall_ns: ns, boot_ns: (ns - BOOT_NS).unsigned_abs(), ..Moment::default() };
        Interval { begin: at(begin_ns), end: at(end_ns), ..Interval::default() }
    }

    /// Ten points of 10 ns from the boot on.
    fn buckets() -> Buckets {
        let range = PlotRange { since_ns: BOOT_NS, until_ns: BOOT_NS + 100, points: 10 };
        let plan =
            Plan { since_ns: range.since_ns, until_ns: range.until_ns, resolution: None, width_ns: 10 };
        Buckets::new(range, &plan)
    }

    fn see(presence: &mut Presence, start_ns: u64, second: i64, life: Life) {
        let one = interval(BOOT_NS + second * 10, BOOT_NS + second * 10 + 10);
        presence.see(&buckets(), TaskStart { number: 7, start_ns }, &Segment::of(&one), life);
    }

    fn points(mut presence: Presence) -> String {
        presence.close(&buckets());
        (0..10).map(|at| if presence.is_there(at) { '#' } else { '.' }).collect()
    }

    #[test]
    fn a_task_is_there_from_its_begin_to_its_end_whatever_rows_it_has() {
        let mut one = Presence::default();
        // It began 25 ns after the boot, was idle at first and has a row only later.
        see(&mut one, 25, 4, Life::Alive);
        assert_eq!(points(one.clone()), "..########");
        see(&mut one, 25, 6, Life::Ended);
        assert_eq!(points(one.clone()), "..#####...");
        // Another one of the same name.
        see(&mut one, 85, 8, Life::BornEnded);
        assert_eq!(points(one), "..#####.#.");
        let mut older = Presence::default();
        see(&mut older, 1, 3, Life::Ended);
        assert_eq!(points(older), "####......");
    }

    #[test]
    fn a_task_that_ends_in_a_later_part_of_the_range_is_not_there_after_it() {
        let (mut first, mut second) = (Presence::default(), Presence::default());
        see(&mut first, 15, 2, Life::Alive);
        see(&mut second, 15, 6, Life::Ended);
        first.append(second);
        assert_eq!(points(first), ".######...");
    }

    #[test]
    fn a_task_without_a_start_time_is_there_where_it_has_rows() {
        let mut one = Presence::default();
        see(&mut one, 0, 2, Life::Alive);
        see(&mut one, 0, 5, Life::Alive);
        assert_eq!(points(one), "..#..#....");
    }
}
