//! What the plot draws: its window of time, and the run time of the selected row in it.

use std::ops::Range;

use crate::app::state::App;
use crate::app::types::Clock;
use crate::feed::{HistoryPoint, Task};
use crate::history::{FeedHistory, PlotPoint};
use crate::rows::RowId;

/// Minutes that the plot can show.
pub(crate) const PLOT_MINUTES: [i64; 4] = [5, 15, 1, 60];
const MINUTE_NS: i64 = 60_000_000_000;

impl App {
    /// The task whose past the plot lacks, and the time; ask [`Feed::history`](crate::Feed::history) for it once the
    /// selection rests.
    #[must_use]
    pub fn history_wanted(&self) -> Option<(Task, Range<i64>)> {
        let [task] = *self.selected_tasks()? else { return None };
        let window = self.plot_window()?;
        let is_had = self.history.as_ref().is_some_and(|history| {
            history.task == task
                && match self.clock {
                    // A live window moves on, away from what was asked for; only a longer one needs more.
                    Clock::Live => history.asked.start <= window.start,
                    _ => history.asked == window,
                }
        });
        (!is_had).then_some((task, window))
    }

    /// The answer to [`App::history_wanted`]; empty if there is none.
    pub fn on_history(&mut self, task: Task, asked: Range<i64>, points: &[HistoryPoint]) {
        // A `HistoryPoint` has no capacity, so that of the interval on screen is used.
        let rate = self.shown.as_ref().map_or(0.0, |interval| {
            interval.ledger.capacity_ns as f64 / interval.duration_ns().max(1) as f64
        });
        let point = |point: &HistoryPoint| PlotPoint {
            begin_wall_ns: point.begin_wall_ns,
            end_wall_ns: point.end_wall_ns,
            duration_ns: point.duration_ns,
            // A float to integer cast saturates; capacity in ns is far below 2^53.
            #[expect(clippy::cast_possible_truncation, reason = "saturates")]
            capacity_ns: (point.duration_ns as f64 * rate) as i64,
            run_ns: point.delta.run_ns,
        };
        self.history = Some(FeedHistory { task, asked, points: points.iter().map(point).collect() });
        self.mark_dirty();
    }

    /// The time that the plot shows. In the past some of what came later is shown too.
    pub(crate) fn plot_window(&self) -> Option<Range<i64>> {
        let end = self.shown_wall_ns()?;
        let length = PLOT_MINUTES.get(self.plot_minutes).unwrap_or(&5) * MINUTE_NS;
        let after = if self.clock == Clock::Past { length / 4 } else { 0 };
        let end = end.saturating_add(after);
        Some(end.saturating_sub(length)..end)
    }

    /// What the plot draws: the selected row's run time, else the whole host's.
    pub(crate) fn plot_points(&self) -> Vec<PlotPoint> {
        let Some(tasks) = self.selected_tasks() else { return self.seen_history.host() };
        let seen = self.seen_history.tasks(&tasks);
        match (&self.history, tasks.as_slice()) {
            (Some(history), [task]) if history.task == *task && !history.points.is_empty() => {
                // What the screens received has its own capacity, so the feed only adds what is older.
                let first = seen.first().map_or(i64::MAX, |point| point.begin_wall_ns);
                let older = history.points.iter().filter(|point| point.begin_wall_ns < first);
                older.copied().chain(seen).collect()
            }
            _ => seen,
        }
    }

    /// The tasks of the selected row.
    pub(crate) fn selected_tasks(&self) -> Option<Vec<Task>> {
        Some(match self.cursor.selected.as_ref()? {
            RowId::Process(key) => vec![Task::Process(*key)],
            RowId::Thread(key) => vec![Task::Thread(*key)],
            RowId::Group(name) => {
                let group = self.rows.groups.iter().find(|group| group.name == *name);
                let shown = self.shown.as_ref()?;
                let members = group.map_or(&[][..], |group| group.processes.as_slice()).iter();
                let rows = members.filter_map(|&at| shown.processes.get(at as usize));
                rows.map(|row| Task::Process(row.key)).collect()
            }
        })
    }
}
