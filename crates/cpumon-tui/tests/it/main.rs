//! The screens as a user meets them: pictures, keys, lines of batch mode, a session in a real terminal.

#[path = "../../examples/synthetic/mod.rs"]
mod synthetic;

#[path = "../../../../testing/skip.rs"]
mod skip;

mod batch;
mod command_lines;
mod health;
mod keys;
mod limits;
mod pictures;
mod report;
mod session;
mod why;

use std::sync::Arc;

use cpumon_tui::{App, Options, Request};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use synthetic::{Kind, interval, status};

/// A state that saw the intervals 40 to 100 of a machine.
fn app_of(kind: Kind) -> App {
    app_with(kind, &Options::default())
}

fn app_with(kind: Kind, options: &Options) -> App {
    let mut app = App::new(options);
    let hosts = vec![status(Kind::Normal), status(Kind::Hostile)];
    app.on_hosts("made up".into(), hosts, Some(status(kind).info.host));
    for number in 40..=100 {
        app.on_interval(Arc::new(interval(kind, number)));
    }
    app
}

/// Presses one key for each character; `<Name>` for others.
fn press(app: &mut App, keys: &str) -> Option<Request> {
    let mut request = None;
    let mut rest = keys;
    while let Some(first) = rest.chars().next() {
        let named = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        let (code, after) = match named.and_then(|(name, after)| Some((code(name)?, after))) {
            Some(found) => found,
            None => (KeyCode::Char(first), &rest[first.len_utf8()..]),
        };
        request = app.on_key(KeyEvent::new(code, KeyModifiers::NONE));
        rest = after;
    }
    request
}

fn code(name: &str) -> Option<KeyCode> {
    Some(match name {
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Left" => KeyCode::Left,
        "Right" => KeyCode::Right,
        "Home" => KeyCode::Home,
        "End" => KeyCode::End,
        "PgDn" => KeyCode::PageDown,
        "PgUp" => KeyCode::PageUp,
        "Enter" => KeyCode::Enter,
        "Esc" => KeyCode::Esc,
        "BS" => KeyCode::Backspace,
        "Tab" => KeyCode::Tab,
        "F2" => KeyCode::F(2),
        "F5" => KeyCode::F(5),
        _ => return None,
    })
}

fn terminal(width: u16, height: u16) -> Terminal<TestBackend> {
    Terminal::new(TestBackend::new(width, height)).unwrap()
}

/// The screen as text, a line a row.
fn picture(app: &mut App, width: u16, height: u16) -> String {
    let mut terminal = terminal(width, height);
    terminal.draw(|frame| app.draw(frame)).unwrap();
    terminal.backend().to_string()
}
