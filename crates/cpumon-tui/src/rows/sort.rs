//! Sorts rows by a column. Rows with equal values keep the order of their identity, so that they do not swap places with every
//! interval.

use std::cmp::Reverse;

use cpumon_model::{
    ColumnId, CpuLimit, DelayHistogram, DelayOf, Delta, Interval, IntervalView, Kind, LimitFinder,
    ProcessInterval, SchedDelta, ThreadInterval, WaitReason,
};

use crate::cells::limits_of;
use crate::history::RunTotals;
use crate::rows::{Item, RowGroup, group_delays, main_thread, thread_name};
use crate::view::{Col, View};

pub(crate) struct Sorter<'a> {
    interval: &'a Interval,
    values: IntervalView<'a>,
    seen: &'a RunTotals,
    limits: LimitFinder<'a>,
    col: Col,
    /// What that is measured by.
    measured: Option<ColumnId>,
    is_rising: bool,
    has_wait_names: bool,
}

/// Sort key of a row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SortKey {
    Number(i64),
    Text(String),
}

impl<'a> Sorter<'a> {
    pub(crate) fn new(interval: &'a Interval, view: &View, seen: &'a RunTotals) -> Self {
        let limits = LimitFinder::new(interval);
        let source = view.sort.shared().source;
        Self {
            interval,
            values: IntervalView::new("", interval),
            seen,
            limits,
            col: view.sort,
            measured: source.filter(|id| id.column().is_measured_of_tasks()),
            is_rising: view.is_rising(),
            has_wait_names: view.wait_names,
        }
    }

    pub(crate) fn processes(&self, places: &mut [u32]) {
        let row = |at: u32| self.interval.processes.get(at as usize);
        self.sort(places, |at| row(at).map_or(SortKey::Number(0), |row| self.process(row)));
    }

    /// A process's value in the sort column; `None` where that column cannot be added up.
    pub(crate) fn measured_of(&self, place: u32) -> Option<i64> {
        let row = self.interval.processes.get(place as usize)?;
        let can_add = self.col == Col::Switches
            || self
                .measured
                .is_some_and(|id| id != ColumnId::LongestRunDelayNs && id.column().kind == Kind::Integer);
        can_add.then(|| self.measured(&row.delta, &row.sched))
    }

    /// Sorts indices by the sums at these indices.
    pub(crate) fn by_sums(&self, places: &mut [u32], sums: &[i64]) {
        self.sort(places, |at| SortKey::Number(sums.get(at as usize).copied().unwrap_or(0)));
    }

    pub(crate) fn threads(&self, places: &mut [u32]) {
        let row = |at: u32| self.interval.threads.get(at as usize);
        self.sort(places, |at| row(at).map_or(SortKey::Number(0), |row| self.thread(row)));
    }

    pub(crate) fn groups(&self, groups: &mut [RowGroup]) {
        let value = |group: &RowGroup| match self.col {
            Col::Threads => SortKey::Number(i64::from(group.thread_rows)),
            Col::Seen => SortKey::Number(self.seen.run_ns(self.interval, &Item::Group(group))),
            Col::Name | Col::Container | Col::User => SortKey::Text(group.name.to_lowercase()),
            Col::Wait => SortKey::Text(self.longest_wait(&group.sched)),
            Col::DelayP99 => p99(Some(&group_delays(self.interval, group)), &group.sched),
            Col::Limit | Col::Throttled => self.limits(&Item::Group(group)),
            _ => SortKey::Number(self.measured(&group.delta, &group.sched)),
        };
        if self.is_rising {
            // The sort is stable: groups of equal value stay in the order of their first process.
            groups.sort_by_cached_key(value);
        } else {
            groups.sort_by_cached_key(|group| Reverse(value(group)));
        }
    }

    /// Most sort values are numbers and cost nothing to compare, so they are kept beside the places.
    fn sort(&self, places: &mut [u32], value: impl Fn(u32) -> SortKey) {
        if self.is_rising {
            places.sort_by_cached_key(|&at| (value(at), at));
        } else {
            // Only the value is reversed, so rows of equal value have one order in both directions.
            places.sort_by_cached_key(|&at| (Reverse(value(at)), at));
        }
    }

    /// The tightest limit comes first, then rows without one; unknown throttled time comes last.
    fn limits(&self, item: &Item<'_>) -> SortKey {
        let limits = limits_of(&self.limits, self.interval, item);
        SortKey::Number(if self.col == Col::Limit {
            let code =
                limits.map(|limits| limits.limit).filter(|limit| limit.is_limited()).map(CpuLimit::code);
            code.map_or(i64::MAX, |code| i64::try_from(code).unwrap_or(i64::MAX))
        } else {
            let throttle = limits.and_then(|limits| limits.throttle);
            throttle.map_or(-1, |one| i64::try_from(one.throttled_ns).unwrap_or(i64::MAX))
        })
    }

    fn measured(&self, delta: &Delta, sched: &SchedDelta) -> i64 {
        if self.col == Col::Switches {
            return delta.voluntary_switches.saturating_add(delta.involuntary_switches);
        }
        self.values.weight(delta, sched, self.measured.unwrap_or(ColumnId::RunNs))
    }

    /// The longest wait reason as it is shown, so that reasons of one meaning follow each other; rows that were not blocked come last.
    fn longest_wait(&self, sched: &SchedDelta) -> String {
        let text = |(reason, _): (WaitReason, u64)| {
            if self.has_wait_names { reason.name() } else { reason.words_and_name() }
        };
        sched.waits.longest().map_or("~".into(), |longest| text(longest).into_owned())
    }

    fn process(&self, row: &ProcessInterval) -> SortKey {
        SortKey::Number(match self.col {
            Col::Id | Col::Owner => i64::from(row.key.pid),
            Col::User => i64::from(row.info.uid),
            Col::Threads => i64::from(row.thread_rows),
            Col::Seen => self.seen.run_ns(self.interval, &Item::Process(row)),
            Col::Container => return SortKey::Text(row.info.container.to_lowercase()),
            Col::Name => return SortKey::Text(row.info.name.to_lowercase()),
            Col::State | Col::Nice | Col::LastCpu => {
                return main_thread(self.interval, row)
                    .map_or(SortKey::Number(i64::MAX), |row| self.thread(row));
            }
            Col::Wait => return SortKey::Text(self.longest_wait(&row.sched)),
            Col::DelayP99 => return p99(self.interval.delays_of(DelayOf::Process(row.key)), &row.sched),
            Col::Limit | Col::Throttled => return self.limits(&Item::Process(row)),
            _ => self.measured(&row.delta, &row.sched),
        })
    }

    fn thread(&self, row: &ThreadInterval) -> SortKey {
        let owner = || self.interval.process(row.process);
        SortKey::Number(match self.col {
            Col::Id => i64::from(row.key.tid),
            Col::Owner => i64::from(row.process.pid),
            Col::State => i64::from(row.state.0),
            Col::Nice => i64::from(row.nice),
            Col::LastCpu => i64::from(row.last_cpu),
            Col::User => owner().map_or(i64::MAX, |process| i64::from(process.info.uid)),
            Col::Threads => 1,
            Col::Seen => self.seen.run_ns(self.interval, &Item::Thread(row)),
            Col::Container => {
                return SortKey::Text(
                    owner().map_or(String::new(), |process| process.info.container.to_lowercase()),
                );
            }
            Col::Name => return SortKey::Text(thread_name(self.interval, row).to_lowercase()),
            Col::Wait => return SortKey::Text(self.longest_wait(&row.sched)),
            Col::DelayP99 => {
                return p99(self.interval.delays_of(DelayOf::Thread(row.process, row.key)), &row.sched);
            }
            Col::Limit | Col::Throttled => return self.limits(&Item::Thread(row)),
            _ => self.measured(&row.delta, &row.sched),
        })
    }
}

/// 99th percentile of the run delays; rows without any come last.
fn p99(delays: Option<&DelayHistogram>, sched: &SchedDelta) -> SortKey {
    let ns = delays.and_then(|delays| delays.percentile_ns(99, sched.longest_ns()));
    SortKey::Number(ns.map_or(-1, |ns| i64::try_from(ns).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use cpumon_model::ProcessKey;

    use super::*;

    #[test]
    fn wait_reasons_of_one_meaning_follow_each_other_where_they_are_in_words() {
        // futex, epoll_wait, nanosleep, poll: a lock, I/O events, sleep, I/O events.
        let calls = [202, 232, 35, 7];
        let processes = calls.iter().zip(1..).map(|(call, pid)| {
            let mut row =
                ProcessInterval { key: ProcessKey { pid, start_ns: 0 }, ..ProcessInterval::default() };
            row.sched.waits.add(WaitReason::syscall(*call), 1);
            row
        });
        let interval = Interval { processes: processes.collect(), ..Interval::default() };
        let sorted = |wait_names| {
            let view = View { sort: Col::Wait, wait_names, ..View::default() };
            let mut places = vec![0, 1, 2, 3];
            Sorter::new(&interval, &view, &RunTotals::default()).processes(&mut places);
            places
        };
        assert_eq!(sorted(false), [1, 3, 0, 2]);
        assert_eq!(sorted(true), [1, 0, 2, 3], "by name");
    }
}
