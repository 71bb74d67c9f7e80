//! The plot's window of time, and what the feed answered about it.

use std::collections::VecDeque;
use std::ops::Range;

use ratatui::layout::Rect;

use crate::feed::{StoredTrace, Subject};
use crate::history::FeedHistory;
use crate::options::PlotOption;

/// Minutes that the plot can show.
pub const PLOT_MINUTES: [i64; 4] = [5, 15, 1, 60];
const MINUTE_NS: i64 = 60_000_000_000;
/// Answers of the feed that are remembered: the host's and those of the rows selected last.
const MAX_HISTORIES: usize = 6;

/// The plot's window of time, and what the feed knows about it.
#[derive(Debug, Default)]
pub(crate) struct PlotState {
    /// Which of [`PLOT_MINUTES`].
    choice: usize,
    /// The window while a moment of the past is shown. It stays while the moment is inside of it, so that the mark moves and not
    /// the picture.
    pub past: Option<Range<i64>>,
    /// The newest answer last.
    histories: VecDeque<FeedHistory>,
    /// Traces of the past on the plot, and the window that was asked about.
    pub traces: Option<(Range<i64>, Vec<StoredTrace>)>,
    /// Arrow keys move the mark on the plot and not the selection.
    pub has_keys: bool,
    /// Where the line was drawn last; empty if it was not.
    pub line: Rect,
}

impl PlotState {
    pub(super) fn new(option: PlotOption) -> Self {
        let wanted = if let PlotOption::Minutes(minutes) = option { minutes } else { 0 };
        let choice = PLOT_MINUTES.iter().position(|minutes| *minutes == wanted).unwrap_or(0);
        Self { choice, ..Self::default() }
    }

    pub(crate) fn minutes(&self) -> i64 {
        PLOT_MINUTES.get(self.choice).copied().unwrap_or(5)
    }

    /// Shows the next length of time.
    pub(super) fn next_length(&mut self) {
        self.choice = (self.choice + 1) % PLOT_MINUTES.len();
        self.past = None;
    }

    pub(crate) fn length_ns(&self) -> i64 {
        self.minutes() * MINUTE_NS
    }

    /// A moment of the past is shown: the window stays or moves to it. `before` is the window until now.
    pub(super) fn go_to(&mut self, wall_ns: i64, before: Option<Range<i64>>) {
        let length_ns = self.length_ns();
        let is_inside = |window: &Range<i64>| {
            window.contains(&wall_ns.saturating_sub(1))
                && window.end.saturating_sub(window.start) == length_ns
        };
        self.past = Some(before.filter(is_inside).unwrap_or_else(|| {
            // Some of what came later is shown too.
            let end = wall_ns.saturating_add(length_ns / 4);
            end.saturating_sub(length_ns)..end
        }));
    }

    pub(super) fn remember(&mut self, history: FeedHistory) {
        self.histories.retain(|known| known.of != history.of);
        self.histories.push_back(history);
        if self.histories.len() > MAX_HISTORIES {
            self.histories.pop_front();
        }
    }

    /// Forgets everything about the previous host.
    pub(super) fn forget(&mut self) {
        (self.past, self.traces, self.has_keys) = (None, None, false);
        self.histories.clear();
    }

    pub(super) fn history(&self, of: Subject) -> Option<&FeedHistory> {
        self.histories.iter().find(|known| known.of == of)
    }
}
