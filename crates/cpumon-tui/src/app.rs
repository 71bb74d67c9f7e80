//! [`App`]: the state of the screens. In: keys, intervals. Out: a drawing, [`Request`]s. Pure.

use std::sync::Arc;

use cpumon_model::Interval;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use crate::{FeedError, Options};

/// What the state asks of the loop around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Ends the screens.
    Quit,
}

/// All of the screens' state.
#[derive(Debug)]
pub struct App {
    shown: Option<Arc<Interval>>,
    problem: Option<String>,
}

impl App {
    /// A state without data.
    #[must_use]
    pub fn new(_options: &Options) -> Self {
        Self { shown: None, problem: None }
    }

    /// Takes in a newer interval.
    pub fn on_interval(&mut self, interval: Arc<Interval>) {
        self.shown = Some(interval);
        self.problem = None;
    }

    /// Takes in a failure of the feed.
    pub fn on_error(&mut self, error: &FeedError) {
        self.problem = Some(error.to_string());
    }

    /// Takes in a key.
    pub fn on_key(&mut self, key: KeyEvent) -> Option<Request> {
        (key.code == KeyCode::Char('q')).then_some(Request::Quit)
    }

    /// Draws.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let threads = self.shown.as_ref().map_or(0, |interval| interval.thread_count);
        let text = self.problem.clone().unwrap_or_else(|| format!("{threads} threads"));
        frame.render_widget(text, frame.area());
    }
}
