//! Memory of the screens, for feeds without a store: run time of each task over the last minutes ([`RunHistory`], for the plot), whole
//! intervals to step back to ([`Recent`]), losses ([`LossHistory`]), run time since the start ([`RunTotals`]); and the feed's answers
//! about the past on the plot ([`PlotState`]). All are bounded and drop the oldest.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use cpumon_model::{BootId, Fields, Interval, LossCounts, SourceHealth, bytes_of_rows};
use cpumon_query::{TaskKey, TraceRecord};
use ratatui::layout::Rect;

use crate::feed::{HistoryPoint, Subject};
use crate::options::PlotOption;
use crate::rows::Item;

const MINUTE_NS: i64 = 60_000_000_000;
/// Most intervals that the plot reaches back.
const MAX_STEPS: usize = 3600;
/// Most whole intervals that are kept to step back to.
const MAX_RECENT: usize = 600;
/// Memory for these, bytes, unless a caller has another number.
pub(crate) const PAST_BYTES: usize = 64 << 20;
/// The run times that the plot draws have 1/N of this memory.
const PART_OF_PLOT: usize = 2;
/// Running totals have 1/N of this memory.
const PART_OF_TOTALS: usize = 8;

/// A feed's answer about the past of the host or of a task, with its question.
#[derive(Debug)]
pub(crate) struct FeedHistory {
    pub of: Subject,
    pub asked: Range<i64>,
    pub points: Vec<HistoryPoint>,
}

#[derive(Debug)]
struct HistoryStep {
    point: HistoryPoint,
    boot: BootId,
    end_boot_ns: u64,
    points: Vec<(TaskKey, i64)>,
    /// Tasks that ended in it, ascending.
    ended: Vec<TaskKey>,
}

impl HistoryStep {
    /// `None`: the task has no row.
    fn run_ns(&self, task: TaskKey) -> Option<i64> {
        let at = self.points.binary_search_by_key(&task, |point| point.0).ok()?;
        self.points.get(at).map(|point| point.1)
    }
}

/// Run time of every task that ran, for the last minutes.
#[derive(Debug)]
pub(crate) struct RunHistory {
    steps: VecDeque<HistoryStep>,
    points: usize,
    /// Most points that are kept in all.
    max_points: usize,
}

impl RunHistory {
    /// Without data. `past_bytes`: memory for intervals to step back to.
    pub(crate) fn new(past_bytes: usize) -> Self {
        let max_points = past_bytes / PART_OF_PLOT / size_of::<(TaskKey, i64)>();
        Self { steps: VecDeque::new(), points: 0, max_points }
    }

    /// Takes in an interval; one without run times leaves a gap.
    pub(crate) fn push(&mut self, interval: &Interval) {
        if !interval.fields.contains(Fields::RUN) {
            return;
        }
        let processes = interval.processes.iter().filter(|row| row.delta.run_ns != 0);
        let threads = interval.threads.iter().filter(|row| row.delta.run_ns != 0);
        let mut points: Vec<(TaskKey, i64)> = processes
            .map(|row| (TaskKey::Process(row.key), row.delta.run_ns))
            .chain(threads.map(|row| (TaskKey::Thread(row.key), row.delta.run_ns)))
            .collect();
        let processes = interval.processes.iter().filter(|row| row.life.has_ended());
        let threads = interval.threads.iter().filter(|row| row.life.has_ended());
        let mut ended: Vec<TaskKey> = processes
            .map(|row| TaskKey::Process(row.key))
            .chain(threads.map(|row| TaskKey::Thread(row.key)))
            .collect();
        // `tasks` finds both by binary search.
        points.sort_unstable_by_key(|point| point.0);
        ended.sort_unstable();
        self.points += points.len() + ended.len();
        self.steps.push_back(HistoryStep {
            point: HistoryPoint::of_host(interval),
            boot: interval.boot,
            end_boot_ns: interval.end.boot_ns,
            points,
            ended,
        });
        while self.steps.len() > MAX_STEPS || self.points > self.max_points {
            let Some(step) = self.steps.pop_front() else { break };
            self.points -= step.points.len() + step.ended.len();
        }
    }

    pub(crate) fn host(&self) -> Vec<HistoryPoint> {
        self.steps.iter().map(|step| step.point).collect()
    }

    /// Run time of some tasks together, from the begin of the first one to the end of the last one. Where a task has no row it was idle:
    /// zero.
    pub(crate) fn tasks(&self, tasks: &[TaskKey]) -> Vec<HistoryPoint> {
        let start_ns = tasks.iter().map(|task| task.start_ns()).min().unwrap_or(0);
        let runs = |step: &&HistoryStep| tasks.iter().any(|task| step.run_ns(*task).is_some());
        // A key counts in one boot: the newest in which one of them ran.
        let boot = self.steps.iter().rev().find(runs).map(|step| step.boot);
        let is_of_boot = |step: &HistoryStep| boot.is_none_or(|boot| step.boot == boot);
        let ends = |step: &HistoryStep, task: &TaskKey| step.ended.binary_search(task).is_ok();
        // Without start times, as of v1, a later task has the same key: only an end behind the last row counts.
        let ended_at = |task: &TaskKey| {
            let is_seen =
                |step: &HistoryStep| is_of_boot(step) && (step.run_ns(*task).is_some() || ends(step, task));
            let last = self.steps.iter().rposition(is_seen);
            last.filter(|at| self.steps.get(*at).is_some_and(|step| ends(step, task))).unwrap_or(usize::MAX)
        };
        let last = tasks.iter().map(ended_at).max().unwrap_or(usize::MAX);
        let sum = |step: &HistoryStep| {
            tasks.iter().filter_map(|task| step.run_ns(*task)).fold(0, i64::saturating_add)
        };
        // 0: the sender does not know the start, so no step before it can be left out.
        let has_begun = |step: &HistoryStep| start_ns == 0 || step.end_boot_ns >= start_ns;
        let to_last = self.steps.iter().take(last.saturating_add(1));
        let lived = to_last.filter(|&step| is_of_boot(step) && has_begun(step));
        lived.map(|step| HistoryPoint { run_ns: sum(step), ..step.point }).collect()
    }
}

/// Whole intervals; others may share them.
#[derive(Debug)]
pub(crate) struct Recent {
    intervals: VecDeque<Arc<Interval>>,
    bytes: usize,
    max_bytes: usize,
}

impl Recent {
    pub(crate) fn new(past_bytes: usize) -> Self {
        Self { intervals: VecDeque::new(), bytes: 0, max_bytes: past_bytes }
    }

    pub(crate) fn push(&mut self, interval: Arc<Interval>) {
        self.bytes += bytes_of_rows(&interval);
        self.intervals.push_back(interval);
        // Losses are counted from the interval before the newest.
        while self.intervals.len() > 2 && (self.intervals.len() > MAX_RECENT || self.bytes > self.max_bytes) {
            let Some(oldest) = self.intervals.pop_front() else { break };
            self.bytes -= bytes_of_rows(&oldest);
        }
    }

    /// The newest interval that ends before this moment.
    pub(crate) fn before(&self, wall_ns: i64) -> Option<Arc<Interval>> {
        self.intervals.iter().rev().find(|interval| interval.end.wall_ns < wall_ns).cloned()
    }

    pub(crate) fn oldest(&self) -> Option<Arc<Interval>> {
        self.intervals.front().cloned()
    }

    /// The oldest one that ends after this moment, if everything after it is here too.
    pub(crate) fn after(&self, wall_ns: i64) -> Option<Arc<Interval>> {
        let oldest = self.intervals.front()?;
        if oldest.begin.wall_ns > wall_ns {
            return None;
        }
        self.intervals.iter().find(|interval| interval.end.wall_ns > wall_ns).cloned()
    }

    /// The interval that contains this moment.
    pub(crate) fn at(&self, wall_ns: i64) -> Option<Arc<Interval>> {
        let holds =
            |interval: &&Arc<Interval>| interval.begin.wall_ns < wall_ns && wall_ns <= interval.end.wall_ns;
        self.intervals.iter().find(holds).cloned()
    }
}

/// Losses since the start, at one interval.
#[derive(Copy, Clone, Debug)]
pub(crate) struct LossStep {
    end_wall_ns: i64,
    boot: BootId,
    pub loss: LossCounts,
    pub health: SourceHealth,
}

/// Counts of losses over the last minutes, for recent losses.
#[derive(Debug, Default)]
pub(crate) struct LossHistory {
    steps: VecDeque<LossStep>,
}

impl LossHistory {
    /// `loss`: the receiver's counts until now.
    pub(crate) fn push(&mut self, interval: &Interval, loss: LossCounts) {
        let (end_wall_ns, boot, health) = (interval.end.wall_ns, interval.boot, interval.health);
        self.steps.push_back(LossStep { end_wall_ns, boot, loss, health });
        if self.steps.len() > MAX_RECENT {
            self.steps.pop_front();
        }
    }

    /// The counts of an interval, and those of the oldest one in the minute before it; `None` if it is not known.
    pub(crate) fn minute_before(&self, interval: &Interval) -> Option<(&LossStep, &LossStep)> {
        let end_wall_ns = interval.end.wall_ns;
        let at = self.steps.iter().rposition(|step| step.end_wall_ns == end_wall_ns)?;
        // In a recording that was wound back, an earlier step may have a later time.
        let minute = end_wall_ns.saturating_sub(MINUTE_NS)..end_wall_ns;
        let is_near = |step: &&LossStep| step.boot == interval.boot && minute.contains(&step.end_wall_ns);
        Some((self.steps.iter().take(at).find(is_near)?, self.steps.get(at)?))
    }
}

/// Run time of each task since the screens opened.
#[derive(Debug)]
pub(crate) struct RunTotals {
    totals: HashMap<TaskKey, (i64, u64)>,
    steps: u64,
    max_tasks: usize,
    /// Tasks that began later have all their run time in their total, ns since boot.
    complete_since_ns: u64,
    /// End of the last interval, ns since boot.
    pushed_until_ns: u64,
}

impl Default for RunTotals {
    fn default() -> Self {
        Self::new(PAST_BYTES)
    }
}

impl RunTotals {
    /// Without data. `past_bytes`: memory for intervals to step back to.
    pub(crate) fn new(past_bytes: usize) -> Self {
        let max_tasks = past_bytes / PART_OF_TOTALS / size_of::<(TaskKey, (i64, u64))>();
        Self { totals: HashMap::new(), steps: 0, max_tasks, complete_since_ns: 0, pushed_until_ns: 0 }
    }

    pub(crate) fn push(&mut self, interval: &Interval) {
        // The run time in a hole is missing from the totals of those that began before its end.
        if self.steps == 0 || interval.begin.boot_ns > self.pushed_until_ns {
            self.complete_since_ns = interval.begin.boot_ns;
        }
        self.pushed_until_ns = interval.end.boot_ns;
        self.steps += 1;
        let processes = interval.processes.iter().map(|row| (TaskKey::Process(row.key), row.delta.run_ns));
        let threads = interval.threads.iter().map(|row| (TaskKey::Thread(row.key), row.delta.run_ns));
        for (task, run_ns) in processes.chain(threads).filter(|row| row.1 != 0) {
            let total = self.totals.entry(task).or_default();
            *total = (total.0.saturating_add(run_ns), self.steps);
        }
        // Tasks come and go without end: when there are too many, those that did nothing for longest are forgotten.
        let mut keep = 512;
        while self.totals.len() > self.max_tasks && keep > 0 {
            let oldest = self.steps.saturating_sub(keep);
            self.totals.retain(|_, total| total.1 > oldest);
            self.complete_since_ns = interval.end.boot_ns;
            keep /= 2;
        }
    }

    /// Utilization of a task from its start to the end of an interval, percent of one CPU; `None` if its run time before the first interval
    /// is not known.
    pub(crate) fn life_pct(&self, interval: &Interval, item: &Item<'_>) -> Option<f64> {
        let start_ns = match item {
            Item::Group(_) => return None,
            Item::Process(process) => process.key.start_ns,
            Item::Thread(thread) => thread.key.start_ns,
        };
        // Without start times, as of v1, it is 0.
        let is_whole = start_ns > 0 && start_ns >= self.complete_since_ns;
        let age_ns = interval.end.boot_ns.checked_sub(start_ns).filter(|age_ns| is_whole && *age_ns > 0)?;
        Some(self.run_ns(interval, item) as f64 * 100.0 / age_ns as f64)
    }

    /// The total of a row; 0 for one that never ran while the screens were open.
    pub(crate) fn run_ns(&self, interval: &Interval, item: &Item<'_>) -> i64 {
        let of_task = |task| self.totals.get(&task).map_or(0, |total| total.0);
        match item {
            Item::Group(group) => {
                let totals = group.rows(interval).map(|row| of_task(TaskKey::Process(row.key)));
                totals.fold(0, i64::saturating_add)
            }
            Item::Process(process) => of_task(TaskKey::Process(process.key)),
            Item::Thread(thread) => of_task(TaskKey::Thread(thread.key)),
        }
    }
}

/// Minutes that the plot can show.
pub const PLOT_MINUTES: [i64; 4] = [5, 15, 1, 60];
/// Answers of the feed that are remembered: the host's and those of the rows selected last.
const MAX_HISTORIES: usize = 6;

/// The plot's window of time, and the feed's answers about it.
#[derive(Debug, Default)]
pub(crate) struct PlotState {
    /// Index into [`PLOT_MINUTES`].
    choice: usize,
    /// The window while a moment of the past is shown. It stays while it contains the moment, so that the mark moves and
    /// not the picture.
    pub past: Option<Range<i64>>,
    /// Answers of the feed, newest last.
    histories: VecDeque<FeedHistory>,
    /// Traces of the past on the plot, and the window that was asked about.
    pub traces: Option<(Range<i64>, Vec<TraceRecord>)>,
    /// Arrow keys move the mark on the plot and not the selection.
    pub has_keys: bool,
    /// Where the line was drawn last; empty if it was not.
    pub line: Rect,
}

impl PlotState {
    pub(crate) fn new(option: PlotOption) -> Self {
        let wanted = if let PlotOption::Minutes(minutes) = option { minutes } else { 0 };
        let choice = PLOT_MINUTES.iter().position(|minutes| *minutes == wanted).unwrap_or(0);
        Self { choice, ..Self::default() }
    }

    pub(crate) fn minutes(&self) -> i64 {
        PLOT_MINUTES.get(self.choice).copied().unwrap_or(5)
    }

    pub(crate) fn next_length(&mut self) {
        self.choice = (self.choice + 1) % PLOT_MINUTES.len();
        self.past = None;
    }

    pub(crate) fn length_ns(&self) -> i64 {
        self.minutes() * MINUTE_NS
    }

    /// A moment of the past is shown: the window stays or moves to it. `before` is the window until now.
    pub(crate) fn go_to(&mut self, wall_ns: i64, before: Option<Range<i64>>) {
        let length_ns = self.length_ns();
        let is_inside = |window: &Range<i64>| {
            window.contains(&wall_ns.saturating_sub(1))
                && window.end.saturating_sub(window.start) == length_ns
        };
        self.past = Some(before.filter(is_inside).unwrap_or_else(|| {
            // Some time after it is shown too.
            let end = wall_ns.saturating_add(length_ns / 4);
            end.saturating_sub(length_ns)..end
        }));
    }

    pub(crate) fn remember(&mut self, history: FeedHistory) {
        self.histories.retain(|known| known.of != history.of);
        self.histories.push_back(history);
        if self.histories.len() > MAX_HISTORIES {
            self.histories.pop_front();
        }
    }

    pub(crate) fn forget(&mut self) {
        (self.past, self.traces, self.has_keys) = (None, None, false);
        self.histories.clear();
    }

    pub(crate) fn history(&self, of: Subject) -> Option<&FeedHistory> {
        self.histories.iter().find(|known| known.of == of)
    }
}

#[cfg(test)]
mod tests {
    use cpumon_model::{Delta, Life, Moment, ProcessInterval, ProcessKey};

    use super::*;

    fn at(second: i64) -> Interval {
        let end = Moment { wall_ns: second * 1_000_000_000, ..Moment::default() };
        Interval { end, ..Interval::default() }
    }

    #[test]
    fn a_task_has_no_points_after_its_end_nor_of_another_boot() {
        let row = |pid, run_ns, life| ProcessInterval {
            key: ProcessKey { pid, start_ns: 1_000_000_000 },
            life,
            delta: Delta { run_ns, ..Delta::default() },
            ..ProcessInterval::default()
        };
        let mut history = RunHistory::new(PAST_BYTES);
        for (second, boot, processes) in [
            (2, 1, Vec::new()),
            (3, 1, vec![row(7, 5, Life::Alive), row(8, 6, Life::Alive)]),
            (4, 1, vec![row(7, 0, Life::Ended)]),
            (5, 1, Vec::new()),
            (6, 2, Vec::new()),
        ] {
            let boot = BootId([boot; 16]);
            let mut one = Interval { boot, fields: Fields::RUN, processes, ..at(second) };
            one.end.boot_ns = second.unsigned_abs() * 1_000_000_000;
            history.push(&one);
        }
        let run_ns = |pids: &[u32]| -> Vec<i64> {
            let key = |pid: &u32| TaskKey::Process(ProcessKey { pid: *pid, start_ns: 1_000_000_000 });
            let tasks: Vec<TaskKey> = pids.iter().map(key).collect();
            history.tasks(&tasks).iter().map(|point| point.run_ns).collect()
        };
        assert_eq!((run_ns(&[7]), run_ns(&[8])), (vec![0, 5, 0], vec![0, 6, 0, 0]));
        assert_eq!(run_ns(&[7, 8]), [0, 11, 0, 0]);
        // Of v1, without start times: another process has the key now.
        let mut history = RunHistory::new(PAST_BYTES);
        let key = ProcessKey { pid: 9, start_ns: 0 };
        for (second, life) in [(1, Life::Alive), (2, Life::Ended), (3, Life::Alive)] {
            let processes = vec![ProcessInterval { key, ..row(9, second, life) }];
            history.push(&Interval { fields: Fields::RUN, processes, ..at(second) });
        }
        let points = history.tasks(&[TaskKey::Process(key)]);
        assert_eq!(points.iter().map(|point| point.run_ns).collect::<Vec<i64>>(), [1, 2, 3]);
    }

    #[test]
    fn only_of_a_task_that_began_on_screen_the_utilization_over_its_life_is_known() {
        let process = |pid, start_ns, run_ns| ProcessInterval {
            key: ProcessKey { pid, start_ns },
            delta: Delta { run_ns, ..Delta::default() },
            ..ProcessInterval::default()
        };
        let interval = |end_ns: u64, processes| {
            let mut one = Interval { processes, ..Interval::default() };
            (one.begin.boot_ns, one.end.boot_ns) = (end_ns - 100, end_ns);
            one
        };
        let mut seen = RunTotals::default();
        seen.push(&interval(200, vec![process(1, 50, 10), process(2, 150, 20), process(3, 0, 5)]));
        let last = interval(300, vec![process(1, 50, 10), process(2, 150, 40), process(3, 0, 5)]);
        seen.push(&last);
        let percent = |row| seen.life_pct(&last, &Item::Process(row));
        // 60 ns in 150 ns.
        assert_eq!(last.processes.iter().map(percent).collect::<Vec<_>>(), [None, Some(40.0), None]);
        let after_hole = interval(500, vec![process(2, 150, 20), process(4, 420, 40)]);
        seen.push(&after_hole);
        let percent = |row| seen.life_pct(&after_hole, &Item::Process(row));
        assert_eq!(after_hole.processes.iter().map(percent).collect::<Vec<_>>(), [None, Some(50.0)]);
    }

    #[test]
    fn the_minute_before_an_interval_has_none_that_came_later() {
        let mut history = LossHistory::default();
        // A recording that was wound back from 100 s to 50 s.
        for second in [90, 100, 50, 70] {
            history.push(&at(second), LossCounts::default());
        }
        let (before, then) = history.minute_before(&at(70)).unwrap();
        assert_eq!([before, then].map(|step| step.end_wall_ns / 1_000_000_000), [50, 70]);
        assert!(history.minute_before(&at(50)).is_none());
    }
}
