//! Keys. In: key events. Out: changes of [`App`], [`Request`]s. Why: the keys that hands know from top, htop and atop,
//! in one place; `help` lists them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::app::{App, Clock, Mode, PLOT_MINUTES, Pane, Prompt, Request};
use crate::columns::{Col, choose};
use crate::cursor::Move;
use crate::export::export;
use crate::feed::{Play, Seek};
use crate::rows::{Fold, RowKind};
use crate::text::contains;
use crate::view::{Layout, RowId, Unit};

/// Characters of a prompt, at most.
const MAX_PROMPT: usize = 200;

impl App {
    /// Takes in a key.
    pub fn on_key(&mut self, key: KeyEvent) -> Option<Request> {
        self.mark_dirty();
        self.notice = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(Request::Quit);
        }
        match self.mode.clone() {
            Mode::Grid => self.on_grid_key(key),
            Mode::Help(line) => {
                self.on_help_key(key.code, line);
                None
            }
            Mode::Hosts(at) => self.on_hosts_key(key.code, at),
            Mode::Prompt(prompt, text) => self.on_prompt_key(key, prompt, text),
        }
    }

    fn on_grid_key(&mut self, key: KeyEvent) -> Option<Request> {
        match key.code {
            KeyCode::Char('q') | KeyCode::F(10) => return Some(Request::Quit),
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help(0),
            KeyCode::Char('h') => self.open_hosts(),
            KeyCode::Char('/') | KeyCode::F(3) => {
                self.mode = Mode::Prompt(Prompt::Search, String::new());
            }
            KeyCode::Char('\\') | KeyCode::F(4) => {
                self.mode = Mode::Prompt(Prompt::Filter, self.view.filter.clone());
            }
            KeyCode::Char('b') => self.mode = Mode::Prompt(Prompt::GoTo, String::new()),
            KeyCode::Char('e') => return self.export_request(),
            KeyCode::Char(' ') if self.playback.is_some() => return Some(Request::Play(Play::Toggle)),
            KeyCode::Char('+') if self.playback.is_some() => return Some(Request::Play(Play::Faster)),
            KeyCode::Char('-') if self.playback.is_some() => return Some(Request::Play(Play::Slower)),
            KeyCode::Char('l') if self.playback.is_some() => {
                return Some(Request::Seek(Seek::Before(i64::MAX)));
            }
            KeyCode::Char(' ') => self.pause(),
            KeyCode::Char('[') => return self.step_back(),
            KeyCode::Char(']') => return self.step_forward(),
            KeyCode::Char('l') => self.go_live(),
            KeyCode::Esc => self.escape(),
            code => {
                if !self.on_move_key(code) && !self.on_sort_key(code) {
                    self.on_view_key(code);
                }
            }
        }
        None
    }

    fn on_move_key(&mut self, code: KeyCode) -> bool {
        let step = match code {
            KeyCode::Up | KeyCode::Char('k') => Move::Up,
            KeyCode::Down | KeyCode::Char('j') => Move::Down,
            KeyCode::PageUp => Move::PageUp,
            KeyCode::PageDown => Move::PageDown,
            KeyCode::Home => Move::Home,
            KeyCode::End => Move::End,
            KeyCode::Enter => return self.fold(None),
            KeyCode::Right => return self.fold(Some(true)),
            KeyCode::Left => return self.fold(Some(false)),
            KeyCode::Char('n') => return self.find_next(true),
            KeyCode::Char('N') if !self.search.is_empty() => return self.find_next(false),
            _ => return false,
        };
        if let Some(shown) = &self.shown {
            self.cursor.go(step, &self.rows, shown);
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
            KeyCode::Char('R') => self.view.reversed = !self.view.reversed,
            _ => return false,
        }
        self.rebuild();
        true
    }

    fn on_view_key(&mut self, code: KeyCode) {
        let view = &mut self.view;
        match code {
            KeyCode::Char('H') => view.threads = !view.threads,
            KeyCode::Char('t') | KeyCode::F(5) => view.layout = toggled(view.layout, Layout::Tree),
            KeyCode::Char('g') => view.layout = toggled(view.layout, Layout::Groups),
            KeyCode::Char('I' | '%') => {
                view.unit = if view.unit == Unit::OneCpu { Unit::Host } else { Unit::OneCpu };
            }
            KeyCode::Char('1') => view.per_cpu = !view.per_cpu,
            KeyCode::Char('c') => view.cmdline = !view.cmdline,
            KeyCode::Char('i') => view.hide_idle = !view.hide_idle,
            KeyCode::Char('F') => self.follow(),
            KeyCode::Char('d') => {
                self.pane = if self.is_pane_shown() { Pane::Hidden } else { Pane::Shown };
            }
            KeyCode::Char('z') => self.plot_minutes = (self.plot_minutes + 1) % PLOT_MINUTES.len(),
            _ => return,
        }
        self.rebuild();
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

    fn sort_by(&mut self, col: Col) {
        self.view.reversed = false;
        self.view.sort = col;
    }

    /// Sorts by the column left or right of the one that sorts now, among those on a wide screen.
    fn sort_by_neighbour(&mut self, is_right: bool) {
        let places = choose(&self.view, u16::MAX, 1);
        let cols: Vec<Col> = places.iter().map(|place| place.col).filter(|col| *col != Col::Marks).collect();
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
        } else {
            self.go_live();
        }
    }

    fn step_back(&mut self) -> Option<Request> {
        let Some(end) = self.shown_wall_ns() else {
            return Some(Request::Seek(Seek::Before(i64::MAX)));
        };
        if self.playback.is_some() {
            return Some(Request::Seek(Seek::Before(end)));
        }
        match self.recent.before(end) {
            Some(interval) => self.show_past(interval),
            None => return Some(Request::Seek(Seek::Before(end))),
        }
        None
    }

    fn step_forward(&mut self) -> Option<Request> {
        let end = self.shown_wall_ns()?;
        if self.playback.is_some() {
            return Some(Request::Seek(Seek::After(end)));
        }
        if self.clock == Clock::Live {
            self.on_notice("this is the newest interval".into());
            return None;
        }
        match self.recent.after(end) {
            Some(interval) => self.show_past(interval),
            None if self.newest.as_ref().is_some_and(|newest| newest.end.wall_ns <= end) => self.go_live(),
            None => return Some(Request::Seek(Seek::After(end))),
        }
        None
    }

    /// Takes back one thing at a time: the search, the filter, the selection.
    fn escape(&mut self) {
        if !self.search.is_empty() {
            self.search.clear();
        } else if !self.view.filter.is_empty() {
            self.view.filter.clear();
            self.rebuild();
        } else {
            self.cursor.clear();
        }
    }

    /// Opens (`Some(true)`), closes or turns over what is below the selected row.
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
            (Fold::Leaf, None) if self.pane == Pane::Auto && !self.is_pane_shown() => self.pane = Pane::Shown,
            (Fold::Leaf, _) => {}
        }
        self.rebuild();
        true
    }

    fn unfold(&mut self, id: RowId) {
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

    fn go_to_parent(&mut self, depth: u16, shown: &cpumon_model::Interval) {
        let above = self.rows.rows.get(..self.cursor.at).unwrap_or_default();
        if let Some(parent) = above.iter().rposition(|row| row.depth < depth) {
            self.cursor.select(parent, &self.rows, shown);
        }
    }

    /// Selects the next row that holds the search text, around the end.
    fn find_next(&mut self, is_forward: bool) -> bool {
        let count = self.rows.rows.len();
        let from = if self.cursor.is_present { self.cursor.at } else { count.saturating_sub(1) };
        let step =
            |n: usize| if is_forward { (from + n) % count } else { (from + count - n % count) % count };
        self.select_match((1..=count).map(step));
        true
    }

    fn select_match(&mut self, places: impl Iterator<Item = usize>) {
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

    fn row_holds(&self, at: usize, needle: &str, shown: &cpumon_model::Interval) -> bool {
        let Some(row) = self.rows.rows.get(at) else { return false };
        match row.kind {
            RowKind::Group(at) => {
                self.rows.groups.get(at as usize).is_some_and(|group| contains(&group.name, needle))
            }
            RowKind::Process(at) => shown.processes.get(at as usize).is_some_and(|row| {
                contains(&row.info.name, needle)
                    || (self.view.cmdline && contains(&row.info.cmdline, needle))
                    || row.key.pid.to_string() == needle
            }),
            RowKind::Thread(at) => shown.threads.get(at as usize).is_some_and(|row| {
                contains(&row.comm.to_str_lossy(), needle) || row.key.tid.to_string() == needle
            }),
        }
    }

    fn export_request(&mut self) -> Option<Request> {
        let Some(shown) = &self.shown else {
            self.on_notice("nothing to export yet".into());
            return None;
        };
        let hostname = self.status().map_or("", |status| &status.info.hostname);
        let (stem, csv) = export(shown, &self.rows, hostname);
        Some(Request::Export { stem, csv })
    }

    fn open_hosts(&mut self) {
        let at = self.hosts.iter().position(|status| Some(status.info.host) == self.host);
        self.mode = Mode::Hosts(at.unwrap_or(0));
    }

    fn on_help_key(&mut self, code: KeyCode, line: u16) {
        self.mode = match code {
            KeyCode::Up | KeyCode::Char('k') => Mode::Help(line.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => Mode::Help(line.saturating_add(1)),
            KeyCode::PageUp => Mode::Help(line.saturating_sub(10)),
            KeyCode::PageDown | KeyCode::Char(' ') => Mode::Help(line.saturating_add(10)),
            KeyCode::Home => Mode::Help(0),
            _ => Mode::Grid,
        };
    }

    fn on_hosts_key(&mut self, code: KeyCode, at: usize) -> Option<Request> {
        let last = self.hosts.len().saturating_sub(1);
        let at = at.min(last);
        self.mode = match code {
            KeyCode::Up | KeyCode::Char('k') => Mode::Hosts(at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => Mode::Hosts((at + 1).min(last)),
            KeyCode::PageUp => Mode::Hosts(at.saturating_sub(10)),
            KeyCode::PageDown => Mode::Hosts((at + 10).min(last)),
            KeyCode::Home => Mode::Hosts(0),
            KeyCode::End => Mode::Hosts(last),
            _ => Mode::Grid,
        };
        let chosen = self.hosts.get(at).filter(|_| code == KeyCode::Enter)?;
        Some(Request::Select(chosen.info.host))
    }

    fn on_prompt_key(&mut self, key: KeyEvent, prompt: Prompt, mut text: String) -> Option<Request> {
        match key.code {
            KeyCode::Esc => {
                self.leave_prompt(prompt);
                return None;
            }
            KeyCode::Enter => {
                self.mode = Mode::Grid;
                return (prompt == Prompt::GoTo && !text.trim().is_empty()).then_some(Request::GoTo(text));
            }
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => text.clear(),
            KeyCode::Char(c)
                if !key.modifiers.contains(KeyModifiers::CONTROL) && text.chars().count() < MAX_PROMPT =>
            {
                text.push(c);
            }
            _ => {}
        }
        self.mode = Mode::Prompt(prompt, text.clone());
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
                self.select_match((0..count).map(|n| (from + n) % count));
            }
            Prompt::Filter => {
                self.view.filter = text.to_ascii_lowercase();
                self.rebuild();
            }
            Prompt::GoTo => {}
        }
    }

    fn leave_prompt(&mut self, prompt: Prompt) {
        self.mode = Mode::Grid;
        match prompt {
            Prompt::Search => self.search.clear(),
            Prompt::Filter => {
                self.view.filter.clear();
                self.rebuild();
            }
            Prompt::GoTo => {}
        }
    }
}

fn toggled(layout: Layout, wanted: Layout) -> Layout {
    if layout == wanted { Layout::List } else { wanted }
}
