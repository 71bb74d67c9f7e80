//! Keys of the windows over the screen: the help and the list of hosts.

use ratatui::crossterm::event::KeyCode;

use crate::app::{App, Mode, Request};
use crate::users::{UserRow, users_of};
use crate::view::UserFilter;

impl App {
    pub(super) fn on_help_key(&mut self, code: KeyCode, line: u16) {
        self.mode = match code {
            KeyCode::Up | KeyCode::Char('k') => Mode::Help(line.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => Mode::Help(line.saturating_add(1)),
            KeyCode::PageUp => Mode::Help(line.saturating_sub(10)),
            KeyCode::PageDown | KeyCode::Char(' ') => Mode::Help(line.saturating_add(10)),
            KeyCode::Home => Mode::Help(0),
            _ => Mode::Grid,
        };
    }

    pub(super) fn open_users(&mut self) {
        let users = self.shown.as_deref().map(users_of).unwrap_or_default();
        let is_chosen =
            |user: &UserRow| self.view.user.as_ref().is_some_and(|chosen| chosen.uid() == Some(user.uid));
        self.mode = Mode::Users(users.iter().position(is_chosen).map_or(0, |at| at + 1));
    }

    pub(super) fn on_users_key(&mut self, code: KeyCode, at: usize) {
        let users = self.shown.as_deref().map(users_of).unwrap_or_default();
        let last = users.len();
        let at = at.min(last);
        self.mode = moved(code, at, last).map_or(Mode::Grid, Mode::Users);
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
        self.mode = moved(code, at, last).map_or(Mode::Grid, Mode::Hosts);
        let chosen = self.hosts.get(at).filter(|_| code == KeyCode::Enter)?;
        Some(Request::Select(chosen.info.host))
    }
}

/// The place in a list after a key; `None` for keys that close it.
fn moved(code: KeyCode, at: usize, last: usize) -> Option<usize> {
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => (at + 1).min(last),
        KeyCode::PageUp => at.saturating_sub(10),
        KeyCode::PageDown => (at + 10).min(last),
        KeyCode::Home => 0,
        KeyCode::End => last,
        _ => return None,
    })
}
