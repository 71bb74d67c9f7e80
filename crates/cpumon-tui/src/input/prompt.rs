//! Keys of a line of text: a search, a filter, a time.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::app::{App, Mode, Prompt, Request};

/// Characters of a prompt, at most.
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
                self.mode = Mode::Grid;
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
        self.mode = Mode::Grid;
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
