//! Moves through time: by intervals, by minutes, along the plot, from peak to peak.

use std::ops::ControlFlow;

use cpumon_query::Seek;
use ratatui::crossterm::event::KeyCode;

use crate::app::{App, Clock, Pane, Request};
use crate::feed::HistoryPoint;

const MINUTE_NS: i64 = 60_000_000_000;
/// Columns of the plot where none was drawn yet.
const USUAL_COLUMNS: i64 = 60;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum TimeDirection {
    Back,
    Forward,
}

impl App {
    /// Keys that move through time; continues with keys that do not.
    pub(super) fn on_time_key(&mut self, code: KeyCode) -> ControlFlow<Option<Request>> {
        ControlFlow::Break(match code {
            KeyCode::Char('[') => self.step(TimeDirection::Back, 0),
            KeyCode::Char(']') => self.step(TimeDirection::Forward, 0),
            KeyCode::Char('{') => self.step(TimeDirection::Back, MINUTE_NS),
            KeyCode::Char('}') => self.step(TimeDirection::Forward, MINUTE_NS),
            KeyCode::Char('(') => self.go_to_peak(TimeDirection::Back),
            KeyCode::Char(')') => self.go_to_peak(TimeDirection::Forward),
            KeyCode::Tab => {
                self.turn_plot_keys();
                None
            }
            KeyCode::Char('l') if self.playback.is_some() => Some(Request::Seek(Seek::Before(i64::MAX))),
            KeyCode::Char('l') => {
                self.go_live();
                None
            }
            _ => return ControlFlow::Continue(()),
        })
    }

    /// Keys that move the mark while the plot has them; continues with other keys.
    pub(super) fn on_plot_key(&mut self, code: KeyCode) -> ControlFlow<Option<Request>> {
        let column_ns = self.plot_column_ns();
        ControlFlow::Break(match code {
            KeyCode::Left => self.step(TimeDirection::Back, column_ns),
            KeyCode::Right => self.step(TimeDirection::Forward, column_ns),
            KeyCode::PageUp => self.step(TimeDirection::Back, self.plot.length_ns()),
            KeyCode::PageDown => self.step(TimeDirection::Forward, self.plot.length_ns()),
            KeyCode::Enter | KeyCode::Esc => {
                self.turn_plot_keys();
                None
            }
            _ => return ControlFlow::Continue(()),
        })
    }

    fn turn_plot_keys(&mut self) {
        self.plot.has_keys = !self.plot.has_keys;
        if self.plot.has_keys {
            self.pane = Pane::Shown;
            self.on_notice(
                "plot: Left Right move the mark, PgUp PgDn by its length, ( ) to a peak, Tab back".into(),
            );
        }
    }

    fn plot_column_ns(&self) -> i64 {
        let columns = i64::from(self.plot.line.width);
        self.plot.length_ns() / if columns > 0 { columns } else { USUAL_COLUMNS }
    }

    /// An earlier or later interval: the next one, or the nearest at least `by_ns` away.
    fn step(&mut self, way: TimeDirection, by_ns: i64) -> Option<Request> {
        match (way, self.shown_wall_ns()) {
            (TimeDirection::Back, None) => Some(Request::Seek(Seek::Before(i64::MAX))),
            (TimeDirection::Back, Some(end)) => self.step_back(end.saturating_sub((by_ns - 1).max(0))),
            (TimeDirection::Forward, None) => None,
            (TimeDirection::Forward, Some(end)) => self.step_forward(end.saturating_add((by_ns - 1).max(0))),
        }
    }

    fn step_back(&mut self, before_ns: i64) -> Option<Request> {
        // A recording must seek in the feed: its position there is where playing continues.
        match self.recent.before(before_ns).filter(|_| self.playback.is_none()) {
            Some(interval) => self.show_past(interval),
            None => return Some(Request::Seek(Seek::Before(before_ns))),
        }
        None
    }

    fn step_forward(&mut self, after_ns: i64) -> Option<Request> {
        if self.playback.is_some() {
            return Some(Request::Seek(Seek::After(after_ns)));
        }
        if self.clock == Clock::Live {
            self.on_notice("this is the newest interval".into());
            return None;
        }
        match self.recent.after(after_ns) {
            Some(interval) => self.show_past(interval),
            None if self.newest.as_ref().is_some_and(|newest| newest.end.wall_ns <= after_ns) => {
                self.go_live();
            }
            None => return Some(Request::Seek(Seek::After(after_ns))),
        }
        None
    }

    /// To the next peak of the plotted values.
    fn go_to_peak(&mut self, way: TimeDirection) -> Option<Request> {
        let (window, shown) = (self.plot_window()?, self.shown_wall_ns()?);
        let mut points = self.plot_points();
        points.retain(|point| point.end_wall_ns > window.start && point.begin_wall_ns < window.end);
        let mut peaks = peaks(&points).into_iter();
        let found = match way {
            TimeDirection::Back => peaks.rfind(|point| point.end_wall_ns < shown),
            TimeDirection::Forward => peaks.find(|point| point.begin_wall_ns >= shown),
        };
        let Some(peak) = found else {
            let side = if way == TimeDirection::Back { "earlier" } else { "later" };
            self.on_notice(format!(
                "no {side} peak on the plot; z shows more time, PgUp PgDn on it (Tab) move it"
            ));
            return None;
        };
        // The middle: the parts of a longer time do not begin and end with intervals.
        let (begin, end) = (peak.begin_wall_ns, peak.end_wall_ns);
        self.go_to(begin.saturating_add(end.saturating_sub(begin) / 2).saturating_add(1))
    }
}

/// The highest point of each time above the middle between mean and maximum, ascending.
fn peaks(points: &[HistoryPoint]) -> Vec<HistoryPoint> {
    let rates: Vec<f64> =
        points.iter().map(|point| point.run_ns as f64 / (point.duration_ns as f64).max(1.0)).collect();
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let mean = rates.iter().sum::<f64>() / (rates.len() as f64).max(1.0);
    let level = f64::midpoint(mean, highest);
    let mut found: Vec<HistoryPoint> = Vec::new();
    // The highest point since the line went above the level.
    let mut top: Option<(f64, HistoryPoint)> = None;
    for (rate, point) in rates.into_iter().zip(points) {
        if rate > level || (rate > 0.0 && rate >= highest) {
            if top.is_none_or(|top| rate > top.0) {
                top = Some((rate, *point));
            }
        } else {
            found.extend(top.take().map(|top| top.1));
        }
    }
    found.extend(top.map(|top| top.1));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hill_above_the_noise_has_one_peak() {
        let point = |at: i64, run_ns: i64| HistoryPoint {
            begin_wall_ns: at,
            end_wall_ns: at + 10,
            duration_ns: 10,
            run_ns,
            ..HistoryPoint::default()
        };
        let heights = [1, 2, 9, 8, 1, 0, 2, 1, 10, 3, 1, 9];
        let points: Vec<HistoryPoint> =
            heights.iter().zip(0..).map(|(height, at)| point(at * 10, *height)).collect();
        let at: Vec<i64> = peaks(&points).iter().map(|peak| peak.begin_wall_ns / 10).collect();
        assert_eq!(at, [2, 8, 11]);
        assert!(peaks(&[]).is_empty() && peaks(&[point(0, 0), point(10, 0)]).is_empty());
        assert_eq!(peaks(&[point(0, 5), point(10, 5)]).len(), 1, "an even line is one");
    }
}
