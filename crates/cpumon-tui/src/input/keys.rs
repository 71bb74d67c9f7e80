//! Keys of the grid: those of top, htop and atop where they agree. `screen/windows.rs` lists them.

use std::ops::ControlFlow;

use cpumon_model::{Interval, Trust};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::app::{App, Clock, CommandPart, Pane, Prompt, Request, ScreenMode};
use crate::columns::choose;
use crate::export::csv;
use crate::feed::Play;
use crate::options::CommandLines;
use crate::rows::{Fold, Item, RowId, thread_name};
use crate::text::{contains, safe};
use crate::view::{Col, GROUPINGS, Layout, Unit, next_grouping};

impl App {
    pub(super) fn on_grid_key(&mut self, key: KeyEvent) -> Option<Request> {
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            self.on_notice(format!("no such key: {}+{} (see ?)", key.modifiers, key.code));
            return None;
        }
        if self.plot.has_keys
            && let ControlFlow::Break(request) = self.on_plot_key(key.code)
        {
            return request;
        }
        if let ControlFlow::Break(request) = self.on_time_key(key.code) {
            return request;
        }
        // Without a selected row there is nothing to open or close.
        if matches!(key.code, KeyCode::Left | KeyCode::Right)
            && (key.modifiers.contains(KeyModifiers::SHIFT) || self.cursor.selected.is_none())
        {
            self.scroll_command_lines(key.code == KeyCode::Right);
            return None;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::F(10) => return Some(Request::Quit),
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = ScreenMode::Help(0),
            KeyCode::Char('h') => self.open_hosts(),
            KeyCode::Char('/') | KeyCode::F(3) => {
                self.mode = ScreenMode::Prompt(Prompt::Search, String::new());
            }
            KeyCode::Char('\\') | KeyCode::F(4) => {
                self.mode = ScreenMode::Prompt(Prompt::Filter, self.view.filter.clone());
            }
            KeyCode::Char('u') => self.open_users(),
            KeyCode::Char('R') => self.open_range_prompt(),
            KeyCode::Char('y') => return Some(Request::Why(self.why_query())),
            KeyCode::Char('b') => self.mode = ScreenMode::Prompt(Prompt::GoTo, String::new()),
            KeyCode::Char('e') => return self.export_request(),
            KeyCode::Char('x') if self.playback.is_none() => return Some(Request::TakeTrace),
            KeyCode::Char('x') => self.on_notice("a recording cannot be traced".into()),
            KeyCode::Char('v') => return self.show_trace(),
            KeyCode::Char(' ') if self.playback.is_some() => return Some(Request::Play(Play::Toggle)),
            KeyCode::Char('+') if self.playback.is_some() => return Some(Request::Play(Play::Faster)),
            KeyCode::Char('-') if self.playback.is_some() => return Some(Request::Play(Play::Slower)),
            KeyCode::Char(' ') => self.pause(),
            KeyCode::Esc => self.escape(),
            code => {
                if !self.on_move_key(code) && !self.on_sort_key(code) && !self.on_view_key(code) {
                    self.on_notice(format!("no such key: {code} (see ?)"));
                }
            }
        }
        None
    }

    fn on_move_key(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Enter => return self.fold(None),
            KeyCode::Right => return self.fold(Some(true)),
            KeyCode::Left => return self.fold(Some(false)),
            KeyCode::Char('n') => return self.find_next(true),
            // Without a search `N` sorts by id, as in top.
            KeyCode::Char('N') if !self.search.is_empty() => return self.find_next(false),
            _ => {}
        }
        let Some(at) = self.cursor.moved(code, self.rows.rows.len()) else { return false };
        if let Some(shown) = &self.shown {
            self.cursor.select(at, &self.rows, shown);
        }
        true
    }

    fn on_sort_key(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Char('P') => self.sort_by(Col::Cpu),
            KeyCode::Char('M') => self.sort_by(Col::Ready),
            KeyCode::Char('D') => self.sort_by(Col::LongestDelay),
            KeyCode::Char('L') => self.sort_by(Col::DelayP99),
            KeyCode::Char('B') => self.sort_by(Col::Blocked),
            KeyCode::Char('S') => self.sort_by(Col::Switches),
            KeyCode::Char('W') => self.sort_by(Col::Wait),
            KeyCode::Char('T') => self.sort_by(Col::Seen),
            KeyCode::Char('N') => self.sort_by(Col::Id),
            KeyCode::Char('<') => self.sort_by_neighbour(false),
            KeyCode::Char('>') | KeyCode::F(6) => self.sort_by_neighbour(true),
            KeyCode::Char('r') => self.view.reversed = !self.view.reversed,
            _ => return false,
        }
        self.rebuild();
        true
    }

    fn on_view_key(&mut self, code: KeyCode) -> bool {
        let view = &mut self.view;
        match code {
            KeyCode::Char('H') => view.threads = !view.threads,
            KeyCode::Char('t') | KeyCode::F(5) => view.layout = toggled(view.layout, Layout::Tree),
            KeyCode::Char('g') => self.next_grouping(),
            KeyCode::Char('I' | '%') => {
                view.unit = if view.unit == Unit::OneCpu { Unit::Host } else { Unit::OneCpu };
            }
            KeyCode::Char('1') => view.per_cpu = !view.per_cpu,
            KeyCode::Char('c') => self.toggle_command_lines(),
            KeyCode::Char(',') => self.scroll_command_lines(false),
            KeyCode::Char('.') => self.scroll_command_lines(true),
            KeyCode::Char('i') => view.hide_idle = !view.hide_idle,
            KeyCode::Char('F') => self.follow(),
            KeyCode::Char('d') => {
                self.pane = if self.is_pane_drawn { Pane::Hidden } else { Pane::Shown };
                self.plot.has_keys &= self.pane != Pane::Hidden;
            }
            KeyCode::Char('z') => self.next_plot_length(),
            _ => return false,
        }
        self.rebuild();
        true
    }

    /// Next of program, user, service, container, and the list again.
    fn next_grouping(&mut self) {
        let next = match self.view.layout {
            Layout::Groups => next_grouping(self.view.group_by),
            _ => Some(GROUPINGS[0]),
        };
        // Groups of another kind are other rows, even if they are called alike.
        self.cursor.clear();
        self.view.layout = if next.is_some() { Layout::Groups } else { Layout::List };
        self.view.group_by = next.unwrap_or(GROUPINGS[0]);
        self.on_notice(
            next.map_or("not grouped".into(), |by| format!("grouped by {}; g again for the next", by.name())),
        );
    }

    fn follow(&mut self) {
        self.cursor.follow = !self.cursor.follow;
        let text = match (self.cursor.follow, self.cursor.selected.is_some()) {
            (true, true) => "following the selected row",
            (true, false) => "following whatever row you select",
            (false, _) => "no longer following",
        };
        self.on_notice(text.into());
    }

    pub(super) fn sort_by(&mut self, col: Col) {
        if col == Col::Seen && self.clock != Clock::Live {
            return self.on_notice("SEEN exists only live; press l for live".into());
        }
        self.view.reversed = false;
        self.view.sort = col;
        let (_, shown) = &self.grid;
        if !shown.is_empty() && shown.iter().all(|place| place.col != col) {
            self.on_notice(format!("sorted by {}, whose column does not fit", col.title(&self.view)));
        }
    }

    /// SEEN is not known of a moment in the past.
    fn can_sort_by(&self, col: Col) -> bool {
        col != Col::Marks && (col != Col::Seen || self.clock == Clock::Live)
    }

    /// Sorts by the column left or right of the one that sorts now, among those on a wide screen.
    fn sort_by_neighbour(&mut self, is_right: bool) {
        let places = choose(&self.view, u16::MAX, 1);
        let cols: Vec<Col> =
            places.iter().map(|place| place.col).filter(|col| self.can_sort_by(*col)).collect();
        let at = cols.iter().position(|col| *col == self.view.sort).unwrap_or(0);
        let next = if is_right { at + 1 } else { at + cols.len() - 1 };
        if let Some(&col) = cols.get(next % cols.len().max(1)) {
            self.sort_by(col);
        }
        self.on_notice(format!("sorted by {}", self.view.sort.title(&self.view)));
    }

    fn pause(&mut self) {
        if self.clock == Clock::Live && self.shown.is_some() {
            self.clock = Clock::Paused;
            self.rebuild();
        } else {
            self.go_live();
        }
    }

    /// Clears the search; without one the filter; without that the selection.
    fn escape(&mut self) {
        if !self.search.is_empty() {
            self.search.clear();
        } else if !self.view.filter.is_empty() {
            self.view.filter.clear();
            self.rebuild();
        } else if self.view.user.take().is_some() {
            self.rebuild();
        } else {
            self.cursor.clear();
        }
    }

    fn export_request(&mut self) -> Option<Request> {
        let Some(shown) = &self.shown else {
            self.on_notice("nothing to export yet".into());
            return None;
        };
        let hostname = self.status().map_or("", |status| &status.info.hostname);
        let (stem, csv) = csv(shown, &self.rows, hostname);
        Some(Request::Export { stem, csv })
    }

    fn open_hosts(&mut self) {
        let at = self.hosts.iter().position(|status| Some(status.info.host) == self.host);
        self.mode = ScreenMode::Hosts(at.unwrap_or(0));
    }
}

fn toggled(layout: Layout, wanted: Layout) -> Layout {
    if layout == wanted { Layout::List } else { wanted }
}

impl App {
    /// Opens (`Some(true)`), closes or toggles the rows below the selected one.
    fn fold(&mut self, open: Option<bool>) -> bool {
        let Some(shown) = self.shown.clone() else { return true };
        let Some(row) = self.rows.rows.get(self.cursor.at).copied().filter(|_| self.cursor.is_present) else {
            return true;
        };
        let Some(id) = self.rows.item(&shown, &row).map(|item| item.id()) else { return true };
        match (row.fold, open) {
            (Fold::Closed, Some(true) | None) => self.unfold(id),
            (Fold::Open, Some(false) | None) => self.close(&id),
            (Fold::Open, Some(true)) => {
                self.view.open.insert(id);
            }
            (_, Some(false)) => self.go_to_parent(row.depth, &shown),
            (Fold::Leaf, None) if self.pane == Pane::Auto && !self.is_pane_drawn => self.pane = Pane::Shown,
            (Fold::Leaf, _) => {}
        }
        self.rebuild();
        true
    }

    fn unfold(&mut self, id: RowId) {
        // In the tree a closed row hides its children: they come back before its threads open.
        if let RowId::Process(key) = id
            && self.view.closed.remove(&key)
        {
            return;
        }
        self.view.open.insert(id);
    }

    /// Hides the threads first, then (in the tree) the children.
    fn close(&mut self, id: &RowId) {
        if !self.view.open.remove(id)
            && let RowId::Process(key) = id
            && self.view.layout == Layout::Tree
        {
            self.view.closed.insert(*key);
        }
    }

    fn go_to_parent(&mut self, depth: u16, shown: &Interval) {
        let above = self.rows.rows.get(..self.cursor.at).unwrap_or_default();
        if let Some(parent) = above.iter().rposition(|row| row.depth < depth) {
            self.cursor.select(parent, &self.rows, shown);
        }
    }
}

impl App {
    /// Selects the next row that holds the search text, around the end.
    fn find_next(&mut self, is_forward: bool) -> bool {
        let count = self.rows.rows.len();
        // Without a selection the search forward wraps to the first row.
        let from = if self.cursor.is_present { self.cursor.at } else { count.saturating_sub(1) };
        let step =
            |n: usize| if is_forward { (from + n) % count } else { (from + count - n % count) % count };
        self.select_match((1..=count).map(step));
        true
    }

    pub(super) fn select_match(&mut self, places: impl Iterator<Item = usize>) {
        let Some(shown) = self.shown.clone() else { return };
        let needle = self.search.to_ascii_lowercase();
        if needle.is_empty() {
            return;
        }
        let mut places = places.filter(|&at| self.row_holds(at, &needle, &shown));
        match places.next() {
            Some(at) => self.cursor.select(at, &self.rows, &shown),
            None => self.on_notice(format!("no row holds {:?}", self.search)),
        }
    }

    fn row_holds(&self, at: usize, needle: &str, shown: &Interval) -> bool {
        let Some(row) = self.rows.rows.get(at) else { return false };
        self.rows.item(shown, row).is_some_and(|item| match item {
            Item::Group(group) => contains(&group.name, needle),
            Item::Process(row) => {
                contains(&row.info.name, needle)
                    || (self.view.cmdline && contains(&row.info.cmdline, needle))
                    || row.key.pid.to_string() == needle
            }
            Item::Thread(row) => {
                contains(&thread_name(shown, row), needle) || row.key.tid.to_string() == needle
            }
        })
    }
}

/// Terminal columns of a command line that a key scrolls.
const STEP: usize = 10;

impl App {
    /// Shows command lines or hides them. Where there are none, says how to get them.
    fn toggle_command_lines(&mut self) {
        if !self.view.cmdline && !self.has_command_lines() {
            let how = self.how_to_get_command_lines();
            return self.on_notice(format!("no command lines: {how}"));
        }
        self.view.cmdline = !self.view.cmdline;
        self.command = CommandPart::default();
    }

    fn has_command_lines(&self) -> bool {
        let processes = self.shown.as_ref().map_or(&[][..], |shown| &shown.processes);
        processes.iter().any(|process| !process.info.cmdline.is_empty())
    }

    fn how_to_get_command_lines(&self) -> String {
        let status = self.status();
        match (self.command_lines, status) {
            (CommandLines::NotRead, _) => "start with --cmdline".into(),
            (CommandLines::Read, _) => "these processes have none".into(),
            (_, Some(status)) if !status.source.has_users() => {
                format!("{} hosts do not send them", status.source.name())
            }
            (_, Some(status)) if status.trust == Trust::Local => "start `cpumon serve --cmdline`".into(),
            (_, Some(status)) => {
                format!("start `cpumon-agent … --cmdline` on {}", safe(&status.info.hostname))
            }
            (_, None) => "start `cpumon-agent … --cmdline` on the host".into(),
        }
    }

    /// Moves the command lines sideways; their names stay.
    fn scroll_command_lines(&mut self, is_right: bool) {
        if !self.view.cmdline {
            return self.on_notice("c shows command lines, which , and . scroll".into());
        }
        let from = self.command.from;
        if is_right && !self.command.has_more {
            return self.on_notice("no command line on screen goes on to the right".into());
        }
        self.command.from = if is_right { from + STEP } else { from.saturating_sub(STEP) };
    }
}
