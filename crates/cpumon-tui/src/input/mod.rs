//! Where keys and the mouse come in. Keys go to the grid or to the window over it; the wheel scrolls, a click selects a row, sorts by a
//! title or goes to a moment of the plot.

mod keys;
mod moving;
mod windows;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use self::windows::scrolled;
use crate::app::{App, Request, ScreenMode};
use crate::columns::ColumnPlace;
use crate::view::Col;

/// Rows that a notch of the wheel scrolls.
const ROWS: usize = 3;

impl App {
    pub fn on_key(&mut self, key: KeyEvent) -> Option<Request> {
        self.mark_dirty();
        self.notice = None;
        // In raw mode Ctrl-C is a key and sends no signal, so it must end the screens in every mode.
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(Request::Quit);
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('z') {
            return Some(Request::Suspend);
        }
        match self.mode.clone() {
            ScreenMode::Grid => self.on_grid_key(key),
            ScreenMode::Report => self.on_report_key(key.code),
            ScreenMode::Help(line) => {
                self.mode = scrolled(key.code, line).map_or(ScreenMode::Grid, ScreenMode::Help);
                None
            }
            ScreenMode::Why(line) => {
                self.mode = scrolled(key.code, line).map_or(ScreenMode::Grid, ScreenMode::Why);
                None
            }
            ScreenMode::Hosts(at) => self.on_hosts_key(key.code, at),
            ScreenMode::Users(at) => {
                self.on_users_key(key.code, at);
                None
            }
            ScreenMode::Prompt(prompt, text) => self.on_prompt_key(key, prompt, text),
        }
    }

    pub fn on_mouse(&mut self, mouse: MouseEvent) -> Option<Request> {
        let at = Position { x: mouse.column, y: mouse.row };
        match mouse.kind {
            MouseEventKind::ScrollDown => self.on_wheel(true),
            MouseEventKind::ScrollUp => self.on_wheel(false),
            MouseEventKind::Down(MouseButton::Left) => return self.on_click(at),
            _ => {}
        }
        None
    }

    fn on_wheel(&mut self, is_down: bool) {
        self.mark_dirty();
        if self.mode == ScreenMode::Grid {
            let top = self.cursor.top;
            let last = self.rows.rows.len().saturating_sub(self.cursor.height.max(1));
            self.cursor.top = if is_down { (top + ROWS).min(last) } else { top.saturating_sub(ROWS) };
            return;
        }
        let code = if is_down { KeyCode::Down } else { KeyCode::Up };
        // A text that is being typed stays as it is.
        if !matches!(self.mode, ScreenMode::Prompt(..)) {
            for _ in 0..ROWS {
                self.on_key(KeyEvent::new(code, KeyModifiers::NONE));
            }
        }
    }

    fn on_click(&mut self, at: Position) -> Option<Request> {
        self.mark_dirty();
        match self.mode {
            ScreenMode::Grid if self.plot.line.contains(at) => self.go_to_column(at.x),
            ScreenMode::Grid if self.grid.0.contains(at) => {
                match usize::from(at.y - self.grid.0.y).checked_sub(1) {
                    None => self.sort_by_title(at.x),
                    Some(line) => self.select_line(line),
                }
                None
            }
            ScreenMode::Report => {
                self.select_line_of_report(at.y);
                None
            }
            _ => None,
        }
    }

    fn select_line(&mut self, line: usize) {
        if let Some(shown) = self.shown.clone() {
            self.cursor.select(self.cursor.top + line, &self.rows, &shown);
        }
    }

    /// Sorts by the clicked title; a second click changes the direction.
    fn sort_by_title(&mut self, x: u16) {
        let x = x.saturating_sub(self.grid.0.x);
        let is_it = |place: &&ColumnPlace| (place.x..=place.x + place.width).contains(&x);
        let Some(col) = self.grid.1.iter().find(is_it).map(|place| place.col) else { return };
        if col == self.view.sort {
            self.view.reversed = !self.view.reversed;
        } else if col != Col::Marks {
            self.sort_by(col);
        }
        self.rebuild();
    }

    fn go_to_column(&mut self, x: u16) -> Option<Request> {
        let (window, line) = (self.plot_window()?, self.plot.line);
        let length = i128::from(window.end) - i128::from(window.start);
        let column = i128::from(x.saturating_sub(line.x));
        // The middle of the column.
        let wall_ns =
            i128::from(window.start) + length * (2 * column + 1) / (2 * i128::from(line.width.max(1)));
        let newest = self.newest_wall_ns().unwrap_or(i64::MAX);
        self.go_to(i64::try_from(wall_ns).unwrap_or(newest).min(newest))
    }

    fn select_line_of_report(&mut self, y: u16) {
        let Some(report) = &mut self.report else { return };
        if let Some(line) = y.checked_sub(report.first_line) {
            report.select(report.top + usize::from(line));
        }
    }
}
