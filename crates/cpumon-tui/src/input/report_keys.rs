//! Keys of the report of a range, and how one is asked for.

use cpumon_query::GroupBy;
use cpumon_query::report::{ReportQuery, ReportSort};
use ratatui::crossterm::event::KeyCode;

use crate::app::{App, Mode, Prompt, Request};
use crate::view::{GROUPINGS, Layout, UserFilter, next_grouping};

/// Rows of a report at most; all others are one row.
const MAX_ROWS: usize = 100;
/// The group of processes that have no container, service or user, as `cpumon report` calls it.
const NO_GROUP: &str = "(none)";

impl App {
    pub(super) fn open_range_prompt(&mut self) {
        self.mode = Mode::Prompt(Prompt::Range, String::new());
    }

    /// The report of a range that was typed; of nothing the time that the plot shows.
    pub(super) fn report_of(&self, text: String) -> Option<Request> {
        if text.trim().is_empty() {
            return Some(Request::Report(self.report_query(self.plot_window()?)));
        }
        Some(Request::ReportOf(text))
    }

    /// A report by the grouping that is on screen.
    #[must_use]
    pub fn report_query(&self, wall_ns: std::ops::Range<i64>) -> ReportQuery {
        ReportQuery {
            since_ns: Some(wall_ns.start),
            until_ns: Some(wall_ns.end),
            by: self.view.group_by.into(),
            sort: self.report.as_ref().map_or(ReportSort::Cpu, |report| report.query.sort),
            limit: MAX_ROWS,
            ..ReportQuery::default()
        }
    }

    pub(super) fn on_report_key(&mut self, code: KeyCode) -> Option<Request> {
        let Some(screen) = &mut self.report else {
            self.mode = Mode::Grid;
            return None;
        };
        let (last, page) =
            (screen.report.rows.len().saturating_sub(1), screen.height.saturating_sub(1).max(1));
        let sort = |sort| Some(Request::Report(ReportQuery { sort, ..screen.query.clone() }));
        let at = match code {
            KeyCode::Up | KeyCode::Char('k') => screen.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => screen.at + 1,
            KeyCode::PageUp => screen.at.saturating_sub(page),
            KeyCode::PageDown => screen.at + page,
            KeyCode::Home => 0,
            KeyCode::End => last,
            KeyCode::Char('P') => return sort(ReportSort::Cpu),
            KeyCode::Char('M') => return sort(ReportSort::Ready),
            KeyCode::Char('B') => return sort(ReportSort::Blocked),
            KeyCode::Char('S') => return sort(ReportSort::Switches),
            KeyCode::Char('g') => {
                let by = screen.query.by.group().and_then(next_grouping).unwrap_or(GROUPINGS[0]);
                let query = ReportQuery { by: by.into(), ..screen.query.clone() };
                self.view.group_by = by;
                return Some(Request::Report(query));
            }
            KeyCode::Char('R') => {
                self.open_range_prompt();
                return None;
            }
            KeyCode::Enter => return self.show_row_of_report(),
            KeyCode::Esc | KeyCode::Char('q') => {
                self.mode = Mode::Grid;
                return None;
            }
            code => {
                self.on_notice(format!("no such key here: {code}; Esc closes the report"));
                return None;
            }
        };
        screen.select(at);
        None
    }

    /// Filters the rows by the selected group and goes to the moment at which it was busiest.
    fn show_row_of_report(&mut self) -> Option<Request> {
        let screen = self.report.as_ref()?;
        let (by, row) = (screen.query.by, screen.row()?);
        let Some(group) = row.group.clone() else {
            self.on_notice("this row is of several groups: choose another one".into());
            return None;
        };
        if group == NO_GROUP {
            self.on_notice(format!("these processes have no {}: choose another row", by.name()));
            return None;
        }
        let peak_ns = row.peak_ns;
        self.mode = Mode::Grid;
        if self.view.layout == Layout::Groups {
            self.view.layout = Layout::List;
        }
        if by.group() == Some(GroupBy::User) {
            self.view.user = Some(UserFilter::new(&group));
        } else {
            self.view.filter = group.to_ascii_lowercase();
        }
        self.rebuild();
        self.go_to(peak_ns?)
    }
}
