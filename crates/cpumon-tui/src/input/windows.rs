//! Keys of the windows over the screen: the help and the list of hosts.

use ratatui::crossterm::event::KeyCode;

use crate::app::{App, Mode, Request};

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

    pub(super) fn on_hosts_key(&mut self, code: KeyCode, at: usize) -> Option<Request> {
        let last = self.hosts.len().saturating_sub(1);
        // The list may have become shorter since it was drawn.
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
}
