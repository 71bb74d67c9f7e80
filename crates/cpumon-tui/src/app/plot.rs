//! Data of the plot: its window of time, and the run time of the selected row in the window.

use std::ops::Range;

use cpumon_query::{TaskKey, TraceRecord};

use crate::app::{App, Clock, Request};
use crate::feed::{HistoryPoint, Subject};
use crate::history::FeedHistory;
use crate::rows::RowId;
use crate::text::safe;

impl App {
    /// The past that the plot lacks: its subject and its time. Ask [`Feed::history`](crate::Feed::history) for it once
    /// the selection has not moved for a moment.
    pub fn history_wanted(&self) -> Option<(Subject, Range<i64>)> {
        let of = self.subject_of_plot()?;
        let window = self.plot_window()?;
        // The feed is not asked for intervals that the screens received themselves.
        let seen_from = self.seen_points(of).first().map_or(i64::MAX, |point| point.begin_wall_ns);
        let needed_end = window.end.min(seen_from);
        let is_known = self
            .plot
            .history(of)
            .is_some_and(|known| known.asked.start <= window.start && needed_end <= known.asked.end);
        (window.start < needed_end && !is_known).then_some((of, window))
    }

    /// The answer to [`App::history_wanted`]; empty without data.
    pub fn on_history(&mut self, of: Subject, asked: Range<i64>, mut points: Vec<HistoryPoint>) {
        // Where the feed does not know the capacity of then, it is that of the interval on screen.
        let rate = self.shown.as_ref().map_or(0.0, |interval| {
            interval.ledger.capacity_ns as f64 / interval.duration_ns().max(1) as f64
        });
        for point in points.iter_mut().filter(|point| point.capacity_ns == 0) {
            #[expect(clippy::cast_possible_truncation, reason = "a float beyond i64 saturates")]
            let capacity_ns = (point.duration_ns as f64 * rate) as i64;
            point.capacity_ns = capacity_ns;
        }
        self.plot.remember(FeedHistory { of, asked, points });
        self.mark_dirty();
    }

    /// The past whose traces are to be marked: ask [`Feed::answers`](crate::Feed::answers) for it. `again`: the known ones are old.
    pub fn traces_wanted(&self, again: bool) -> Option<Range<i64>> {
        // A live window moves with each interval, so its traces are requested only for the past.
        let window = self.plot_window().filter(|_| self.clock == Clock::Past)?;
        let is_known = self.plot.traces.as_ref().is_some_and(|(asked, _)| *asked == window);
        (again || !is_known).then_some(window)
    }

    /// The answer to [`App::traces_wanted`].
    pub fn on_traces(&mut self, asked: Range<i64>, traces: Vec<TraceRecord>) {
        let new = Some((asked, traces));
        if self.plot.traces != new {
            self.plot.traces = new;
            self.mark_dirty();
        }
    }

    /// Traces that the plot marks; none unless it shows the past.
    pub(crate) fn traces_on_plot(&self) -> &[TraceRecord] {
        let known = self.plot.traces.as_ref().filter(|_| self.clock == Clock::Past);
        known.map_or(&[], |(_, traces)| traces)
    }

    /// How to see a trace: in the past the one on the plot that is nearest to the moment on screen, else the newest one.
    pub(crate) fn show_trace(&mut self) -> Option<Request> {
        if self.clock != Clock::Past {
            return Some(Request::NewestTrace);
        }
        let at = self.shown_wall_ns().unwrap_or_default();
        let nearest = self.traces_on_plot().iter().min_by_key(|trace| trace.wall_ns.abs_diff(at));
        let request = nearest.map(|trace| self.request_of(trace));
        if request.is_none() {
            self.on_notice(
                "No trace in the time on the plot. Go to a marked moment with [ or b; x records a new trace."
                    .into(),
            );
        }
        request
    }

    /// The answer to [`Request::NewestTrace`], with all traces of the host: how to see the newest one.
    pub fn on_all_traces(&mut self, traces: &[TraceRecord]) -> Option<Request> {
        let newest = traces.iter().max_by_key(|trace| trace.wall_ns);
        let request = newest.map(|trace| self.request_of(trace));
        if request.is_none() {
            self.on_notice("This host has no trace; x records one.".into());
        }
        request
    }

    fn request_of(&self, trace: &TraceRecord) -> Request {
        let words = format!("{}, {}", self.time_text(trace.wall_ns), safe(&trace.reason));
        Request::ShowTrace { id: trace.id, words }
    }

    /// Shows the next length of time on the plot, around the moment on screen.
    pub(crate) fn next_plot_length(&mut self) {
        self.plot.next_length();
        if let Some(end) = self.shown_wall_ns().filter(|_| self.clock == Clock::Past) {
            self.plot.go_to(end, None);
        }
    }

    /// One task or the host; `None` for a group, which has only the history that the screens received.
    fn subject_of_plot(&self) -> Option<Subject> {
        match self.selected_tasks().as_deref() {
            None => Some(Subject::Host),
            Some([task]) => Some(Subject::Task(*task)),
            Some(_) => None,
        }
    }

    fn seen_points(&self, of: Subject) -> Vec<HistoryPoint> {
        match of {
            Subject::Host => self.seen_history.host(),
            Subject::Task(task) => self.seen_history.tasks(&[task]),
        }
    }

    /// The plotted points: the selected row's run time, else the whole host's.
    pub(crate) fn plot_points(&self) -> Vec<HistoryPoint> {
        let Some(of) = self.subject_of_plot() else {
            return self.seen_history.tasks(&self.selected_tasks().unwrap_or_default());
        };
        let seen = self.seen_points(of);
        let Some(history) = self.plot.history(of) else { return seen };
        // The feed adds only points older than those that the screens received.
        let first = seen.first().map_or(i64::MAX, |point| point.begin_wall_ns);
        let older = history.points.iter().filter(|point| point.begin_wall_ns < first);
        older.copied().chain(seen).collect()
    }

    /// Keys of the tasks in the selected row; `None` without a selection.
    pub(crate) fn selected_tasks(&self) -> Option<Vec<TaskKey>> {
        Some(match self.cursor.selected.as_ref()? {
            RowId::Process(key) => vec![TaskKey::Process(*key)],
            RowId::Thread(key) => vec![TaskKey::Thread(*key)],
            RowId::Group(name) => {
                let group = self.rows.groups.iter().find(|group| group.name == *name);
                let shown = self.shown.as_ref()?;
                let rows = group.into_iter().flat_map(|group| group.rows(shown));
                rows.map(|row| TaskKey::Process(row.key)).collect()
            }
        })
    }
}
