//! The event loop. In: a [`Feed`], keys, resizes. Out: a drawn terminal, restored at the end whatever happened.
//! Why: everything that is not pure lives here: the terminal, the feed's calls, the file of an export.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::{App, Feed, Options, Request, TuiError};

/// How long the loop waits for a key before it asks the feed again.
const POLL: Duration = Duration::from_millis(100);
/// Intervals taken from the feed between two drawings, at most, so that a burst cannot keep keys waiting.
const BURST: usize = 64;

/// Shows the screens until the user quits, [`Options::stop`] becomes true or the terminal fails.
/// The terminal is restored at the end, after a panic too.
pub fn run(feed: &mut dyn Feed, options: &Options) -> Result<(), TuiError> {
    if !std::io::stdout().is_terminal() {
        return Err(TuiError::NoTerminal { reason: "standard output is not a terminal" });
    }
    if std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return Err(TuiError::NoTerminal { reason: "TERM is dumb" });
    }
    let terminal =
        ratatui::try_init().map_err(|source| TuiError::Terminal { operation: "set up", source })?;
    let _restore = Restore;
    main_loop(terminal, feed, options)
}

/// Puts the terminal back when the loop ends (a panic goes through the hook that `try_init` sets).
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn main_loop(mut terminal: DefaultTerminal, feed: &mut dyn Feed, options: &Options) -> Result<(), TuiError> {
    let mut app = App::new(options);
    while !options.stop.load(Ordering::Relaxed) {
        take_intervals(&mut app, feed);
        terminal
            .draw(|frame| app.draw(frame))
            .map_err(|source| TuiError::Terminal { operation: "draw on", source })?;
        if handle_events(&mut app, feed)? {
            break;
        }
    }
    Ok(())
}

fn take_intervals(app: &mut App, feed: &mut dyn Feed) {
    for _ in 0..BURST {
        match feed.poll() {
            Ok(Some(interval)) => app.on_interval(interval),
            Ok(None) => break,
            Err(error) => {
                app.on_error(&error);
                break;
            }
        }
    }
}

/// Waits for events up to [`POLL`] and hands them on; true when the user wants to quit.
fn handle_events(app: &mut App, feed: &mut dyn Feed) -> Result<bool, TuiError> {
    let _ = feed;
    let read = |source| TuiError::Terminal { operation: "read", source };
    let deadline = Instant::now() + POLL;
    while event::poll(deadline.saturating_duration_since(Instant::now())).map_err(read)? {
        if let Event::Key(key) = event::read().map_err(read)?
            && key.kind != KeyEventKind::Release
            && app.on_key(key) == Some(Request::Quit)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
