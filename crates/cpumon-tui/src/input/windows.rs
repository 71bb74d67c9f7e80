//! Keys of windows above the grid: a line of text (search, filter, time, range), the report, why something is slow, the help, the lists of
//! hosts and users.

use std::ops::Range;

use cpumon_model::ThreadKey;
use cpumon_query::GroupBy;
use cpumon_query::report::{ReportQuery, ReportSort};
use cpumon_query::why::{WhyQuery, WhySubject};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::app::{App, Clock, Prompt, Request, ScreenMode, moved};
use crate::rows::RowId;
use crate::view::{GROUPINGS, Layout, UserFilter, UserRow, next_grouping, users_of};

/// Lines that one key press skips in a list.
const LINES: usize = 10;
/// Most characters of a prompt.
const MAX_PROMPT: usize = 200;

impl App {
    pub(super) fn on_prompt_key(
        &mut self,
        key: KeyEvent,
        prompt: Prompt,
        mut text: String,
    ) -> Option<Request> {
        match key.code {
            KeyCode::Esc => {
                self.leave_prompt(prompt);
                return None;
            }
            KeyCode::Enter => {
                self.mode = ScreenMode::Grid;
                return match prompt {
                    Prompt::Range => self.report_of(text),
                    Prompt::GoTo if !text.trim().is_empty() => Some(Request::GoTo(text)),
                    _ => None,
                };
            }
            KeyCode::Backspace => {
                text.pop();
            }
            // Ctrl-U clears the line, as in a shell.
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => text.clear(),
            KeyCode::Char(c)
                if !key.modifiers.contains(KeyModifiers::CONTROL) && text.chars().count() < MAX_PROMPT =>
            {
                text.push(c);
            }
            _ => {}
        }
        self.mode = ScreenMode::Prompt(prompt, text.clone());
        self.on_prompt_text(prompt, text);
        None
    }

    /// Search and filter act while their text is typed.
    fn on_prompt_text(&mut self, prompt: Prompt, text: String) {
        match prompt {
            Prompt::Search => {
                self.search = text;
                let count = self.rows.rows.len();
                let from = self.cursor.at;
                // From the selected row on: a row that still matches the longer text stays selected.
                self.select_match((0..count).map(|n| (from + n) % count));
            }
            Prompt::Filter => {
                self.view.filter = text.to_ascii_lowercase();
                self.rebuild();
            }
            Prompt::GoTo | Prompt::Range => {}
        }
    }

    fn leave_prompt(&mut self, prompt: Prompt) {
        self.mode = ScreenMode::Grid;
        match prompt {
            Prompt::Search => self.search.clear(),
            Prompt::Filter => {
                self.view.filter.clear();
                self.rebuild();
            }
            Prompt::GoTo | Prompt::Range => {}
        }
    }
}

/// Rows of a report at most; all others are one row.
const MAX_ROWS: usize = 100;
/// The group of processes that have no container, service or user, as `cpumon report` calls it.
const NO_GROUP: &str = "(none)";

impl App {
    pub(super) fn open_range_prompt(&mut self) {
        self.mode = ScreenMode::Prompt(Prompt::Range, String::new());
    }

    /// The report of a range that was typed; of nothing the time that the plot shows.
    fn report_of(&self, text: String) -> Option<Request> {
        if text.trim().is_empty() {
            return Some(Request::Report(self.report_query(self.plot_window()?)));
        }
        Some(Request::ReportOf(text))
    }

    /// A report by the grouping that is on screen.
    pub fn report_query(&self, wall_ns: Range<i64>) -> ReportQuery {
        ReportQuery {
            since_ns: Some(wall_ns.start),
            until_ns: Some(wall_ns.end),
            by: self.view.group_by.into(),
            sort: self.report.as_ref().map_or(ReportSort::Cpu, |report| report.report.query.sort),
            limit: MAX_ROWS,
            ..ReportQuery::default()
        }
    }

    pub(super) fn on_report_key(&mut self, code: KeyCode) -> Option<Request> {
        let Some(screen) = &mut self.report else {
            self.mode = ScreenMode::Grid;
            return None;
        };
        let (last, page) =
            (screen.report.rows.len().saturating_sub(1), screen.height.saturating_sub(1).max(1));
        if let Some(at) = moved(code, screen.at, last, page) {
            screen.select(at);
            return None;
        }
        let sort = |sort| Some(Request::Report(ReportQuery { sort, ..screen.report.query.clone() }));
        match code {
            KeyCode::Char('P') => return sort(ReportSort::Cpu),
            KeyCode::Char('M') => return sort(ReportSort::Ready),
            KeyCode::Char('B') => return sort(ReportSort::Blocked),
            KeyCode::Char('S') => return sort(ReportSort::Switches),
            KeyCode::Char('g') => {
                let by = screen.report.query.by.group().and_then(next_grouping).unwrap_or(GROUPINGS[0]);
                let query = ReportQuery { by: by.into(), ..screen.report.query.clone() };
                self.view.group_by = by;
                return Some(Request::Report(query));
            }
            KeyCode::Char('R') => self.open_range_prompt(),
            KeyCode::Enter => return self.show_row_of_report(),
            KeyCode::Esc | KeyCode::Char('q') => self.mode = ScreenMode::Grid,
            code => self.on_notice(format!("no such key here: {code}; Esc closes the report")),
        }
        None
    }

    /// Filters the rows by the selected group and goes to the moment at which it was busiest.
    fn show_row_of_report(&mut self) -> Option<Request> {
        let screen = self.report.as_ref()?;
        let (by, row) = (screen.report.query.by, screen.row()?);
        if !row.kind.is_group() {
            self.on_notice("this row is of several groups: choose another one".into());
            return None;
        }
        let (group, peak) = (row.name.clone(), row.peak);
        if &*group == NO_GROUP {
            self.on_notice(format!("these processes have no {}: choose another row", by.name()));
            return None;
        }
        self.mode = ScreenMode::Grid;
        if self.view.layout == Layout::Groups {
            self.view.layout = Layout::List;
        }
        if by.group() == Some(GroupBy::User) {
            self.view.user = Some(UserFilter::new(&group));
        } else {
            self.view.filter = group.to_ascii_lowercase();
        }
        self.rebuild();
        self.go_to(peak?.end_ns)
    }
}

impl App {
    /// Why the selected row is slow, or the machine if none is: in the last five minutes, or around the moment on screen.
    pub(super) fn why_query(&self) -> WhyQuery {
        let named = |text: String| WhySubject::Named(text.into());
        let subject = match &self.cursor.selected {
            None => WhySubject::Machine,
            Some(RowId::Process(key)) => named(key.pid.to_string()),
            Some(RowId::Thread(key)) => named(self.pid_of(*key).to_string()),
            // A number as a name would be a pid.
            Some(RowId::Group(name))
                if self.view.group_by == GroupBy::Program && name.parse::<u32>().is_err() =>
            {
                WhySubject::Named(name.clone())
            }
            Some(RowId::Group(name)) => WhySubject::Group(self.view.group_by, name.clone()),
        };
        let at_ns = self.shown_wall_ns().filter(|_| self.clock != Clock::Live);
        WhyQuery { subject, at_ns, ..WhyQuery::default() }
    }

    /// The process of a thread; of one that is not on screen any more its own id.
    fn pid_of(&self, thread: ThreadKey) -> u32 {
        let threads = self.shown.as_ref().map_or(&[][..], |shown| &shown.threads);
        let at = threads.binary_search_by_key(&thread, |row| row.key).ok();
        at.and_then(|at| threads.get(at)).map_or(thread.tid, |row| row.process.pid)
    }
}

/// The first line in view of a text after a key; `None` for keys that do not scroll: they close it.
pub(super) fn scrolled(code: KeyCode, line: u16) -> Option<u16> {
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => line.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => line.saturating_add(1),
        KeyCode::PageUp => line.saturating_sub(10),
        KeyCode::PageDown | KeyCode::Char(' ') => line.saturating_add(10),
        KeyCode::Home => 0,
        _ => return None,
    })
}

impl App {
    pub(super) fn open_users(&mut self) {
        let users = self.shown.as_deref().map(users_of).unwrap_or_default();
        let is_chosen =
            |user: &UserRow| self.view.user.as_ref().is_some_and(|chosen| chosen.uid() == Some(user.uid));
        self.mode = ScreenMode::Users(users.iter().position(is_chosen).map_or(0, |at| at + 1));
    }

    pub(super) fn on_users_key(&mut self, code: KeyCode, at: usize) {
        let users = self.shown.as_deref().map(users_of).unwrap_or_default();
        let last = users.len();
        let at = at.min(last);
        self.mode = moved(code, at, last, LINES).map_or(ScreenMode::Grid, ScreenMode::Users);
        if code == KeyCode::Enter {
            let chosen = at.checked_sub(1).and_then(|at| users.get(at));
            self.view.user = chosen.map(|user| UserFilter::new(&user.label));
            self.rebuild();
        }
    }

    pub(super) fn on_hosts_key(&mut self, code: KeyCode, at: usize) -> Option<Request> {
        let last = self.hosts.len().saturating_sub(1);
        // The list may have become shorter since it was drawn.
        let at = at.min(last);
        self.mode = moved(code, at, last, LINES).map_or(ScreenMode::Grid, ScreenMode::Hosts);
        let chosen = self.hosts.get(at).filter(|_| code == KeyCode::Enter)?;
        Some(Request::Select(chosen.info.host))
    }
}
