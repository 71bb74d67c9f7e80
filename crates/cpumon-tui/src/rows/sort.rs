//! Sorts rows by a column. Rows with equal values keep the order of their identity, so that they do not swap places with every
//! interval.

use std::cmp::Reverse;

use cpumon_model::{ColumnId, CpuLimit, Delta, Interval, Kind, SchedDelta, WaitReason};

use crate::cells::Cells;
use crate::history::RunTotals;
use crate::rows::{Item, RowGroup, thread_name};
use crate::theme::Theme;
use crate::view::{Col, View};

pub(crate) struct Sorter<'a> {
    cells: Cells<'a>,
    seen: &'a RunTotals,
    col: Col,
    /// What that is measured by.
    measured: Option<ColumnId>,
    is_rising: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SortKey {
    Number(i64),
    Text(String),
}

impl<'a> Sorter<'a> {
    pub(crate) fn new(interval: &'a Interval, view: &'a View, seen: &'a RunTotals) -> Self {
        let source = view.sort.shared().source;
        Self {
            cells: Cells::new(interval, view, Theme { color: false, ascii: true }, None),
            seen,
            col: view.sort,
            measured: source.filter(|id| id.column().is_measured_of_tasks()),
            is_rising: view.is_rising(),
        }
    }

    pub(crate) fn processes(&self, places: &mut [u32]) {
        self.sort(places, |at| Some(Item::Process(self.cells.interval.processes.get(at as usize)?)));
    }

    /// A process's value in the sort column; `None` where that column cannot be added up.
    pub(crate) fn measured_of(&self, place: u32) -> Option<i64> {
        let row = self.cells.interval.processes.get(place as usize)?;
        let can_add = self.col == Col::Switches
            || self
                .measured
                .is_some_and(|id| id != ColumnId::LongestRunDelayNs && id.column().kind == Kind::Integer);
        can_add.then(|| self.measured(&row.delta, &row.sched))
    }

    /// Sorts indices by the sums at these indices.
    pub(crate) fn by_sums(&self, places: &mut [u32], sums: &[i64]) {
        self.sort_by(places, |at| SortKey::Number(sums.get(at as usize).copied().unwrap_or(0)));
    }

    pub(crate) fn threads(&self, places: &mut [u32]) {
        self.sort(places, |at| Some(Item::Thread(self.cells.interval.threads.get(at as usize)?)));
    }

    pub(crate) fn groups(&self, groups: &mut [RowGroup]) {
        let value = |group: &RowGroup| self.key(&Item::Group(group));
        if self.is_rising {
            // The sort is stable: groups of equal value stay in the order of their first process.
            groups.sort_by_cached_key(value);
        } else {
            groups.sort_by_cached_key(|group| Reverse(value(group)));
        }
    }

    fn sort<'r>(&self, places: &mut [u32], item: impl Fn(u32) -> Option<Item<'r>>) {
        self.sort_by(places, |at| item(at).map_or(SortKey::Number(0), |item| self.key(&item)));
    }

    /// Most sort values are numbers and cost nothing to compare, so they are kept beside the places.
    fn sort_by(&self, places: &mut [u32], value: impl Fn(u32) -> SortKey) {
        if self.is_rising {
            places.sort_by_cached_key(|&at| (value(at), at));
        } else {
            // Only the value is reversed, so rows of equal value have one order in both directions.
            places.sort_by_cached_key(|&at| (Reverse(value(at)), at));
        }
    }

    fn key(&self, item: &Item<'_>) -> SortKey {
        let interval = self.cells.interval;
        let owner = || item.process(interval);
        SortKey::Number(match (self.col, item) {
            (Col::Name | Col::Container | Col::User, Item::Group(group)) => {
                return SortKey::Text(group.name.to_lowercase());
            }
            (Col::Name, Item::Process(row)) => return SortKey::Text(row.info.name.to_lowercase()),
            (Col::Name, Item::Thread(row)) => {
                return SortKey::Text(thread_name(interval, row).to_lowercase());
            }
            (Col::Container, _) => {
                return SortKey::Text(owner().map_or(String::new(), |row| row.info.container.to_lowercase()));
            }
            (Col::Wait, _) => return SortKey::Text(self.longest_wait(item.sched())),
            (Col::User, _) => owner().map_or(i64::MAX, |row| i64::from(row.info.uid)),
            (Col::Threads, Item::Group(group)) => i64::from(group.thread_rows),
            (Col::Threads, Item::Process(row)) => i64::from(row.thread_rows),
            (Col::Threads, Item::Thread(_)) => 1,
            (Col::Seen, _) => self.seen.run_ns(interval, item),
            // Rows without any come last.
            (Col::DelayP99, _) => self.cells.int(item, ColumnId::RunDelayP99Ns).unwrap_or(-1),
            (Col::Limit | Col::Throttled, _) => self.limits(item),
            (Col::Id | Col::Owner, Item::Process(row)) => i64::from(row.key.pid),
            (Col::Id, Item::Thread(row)) => i64::from(row.key.tid),
            (Col::Owner, Item::Thread(row)) => i64::from(row.process.pid),
            (Col::State | Col::Nice | Col::LastCpu, Item::Process(row)) => {
                let main = interval.main_thread(row.key);
                return main.map_or(SortKey::Number(i64::MAX), |main| self.key(&Item::Thread(main)));
            }
            (Col::State, Item::Thread(row)) => i64::from(row.state.0),
            (Col::Nice, Item::Thread(row)) => i64::from(row.nice),
            (Col::LastCpu, Item::Thread(row)) => i64::from(row.last_cpu),
            _ => self.measured(item.delta(), item.sched()),
        })
    }

    /// The tightest limit comes first, then rows without one; unknown throttled time comes last.
    fn limits(&self, item: &Item<'_>) -> i64 {
        let limits = self.cells.limits(item);
        if self.col == Col::Limit {
            let code =
                limits.map(|limits| limits.limit).filter(|limit| limit.is_limited()).map(CpuLimit::code);
            code.map_or(i64::MAX, |code| i64::try_from(code).unwrap_or(i64::MAX))
        } else {
            let throttle = limits.and_then(|limits| limits.throttle);
            throttle.map_or(-1, |one| i64::try_from(one.throttled_ns).unwrap_or(i64::MAX))
        }
    }

    fn measured(&self, delta: &Delta, sched: &SchedDelta) -> i64 {
        if self.col == Col::Switches {
            return delta.voluntary_switches.saturating_add(delta.involuntary_switches);
        }
        self.cells.values.weight(delta, sched, self.measured.unwrap_or(ColumnId::RunNs))
    }

    /// The longest wait reason as it is shown, so that reasons of one meaning follow each other; rows that were not blocked come last.
    fn longest_wait(&self, sched: &SchedDelta) -> String {
        let text = |(reason, _): (WaitReason, u64)| {
            if self.cells.view.wait_names { reason.name() } else { reason.words_and_name() }
        };
        sched.waits.longest().map_or("~".into(), |longest| text(longest).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::{ProcessInterval, ProcessKey};

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
