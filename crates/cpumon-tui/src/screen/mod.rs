//! Layout and drawing: header, grid, plot and details, status line, windows; and which parts a small screen leaves out.

mod cpu_time;
mod detail;
mod grid;
mod header;
mod health;
mod plot;
mod windows;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;

pub use self::health::{events_per_sec, losses_of_agent};
pub use self::windows::{report_head, report_notes};
use crate::app::{App, Pane, Prompt, ScreenMode};
use crate::cells::Cells;
use crate::text::{clip, safe, width, wrap};
use crate::theme::Theme;
use crate::view::{Col, Layout};

/// With fewer rows of the grid (titles included), the plot is hidden unless the user asked for it.
const MIN_GRID: u16 = 10;
/// A hint is shown where ended tasks used more than this of the capacity, percent.
const STORM_PCT: f64 = 30.0;
/// Most lines of a notice.
const MAX_NOTICE: usize = 4;
/// Least and greatest height of the plot and the details.
const PANE_LINES: (u16, u16) = (6, 15);

impl App {
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        if area.width == 0 || area.height == 0 {
            return;
        }
        self.remember_subject();
        let lines = header::lines(self, area);
        let header = u16::try_from(lines.len()).unwrap_or(area.height).min(area.height);
        for (y, line) in (area.y..area.y + header).zip(&lines) {
            frame.buffer_mut().set_line(area.x, y, line, area.width);
        }
        let rest = area.height.saturating_sub(header + 1);
        let pane = self.pane_height(rest, area.height <= header::SMALL_HEIGHT);
        let body = Rect { y: area.y + header, height: rest - pane, ..area };
        if self.shown.is_some() {
            grid::draw(self, body, frame.buffer_mut());
            self.draw_pane(Rect { y: body.bottom(), height: pane, ..area }, frame);
        } else {
            self.draw_waiting(body, frame);
        }
        // Below the status line, which may cover its last lines.
        if self.mode == ScreenMode::Report {
            windows::draw_report(self, frame);
        }
        if area.height > 1 {
            self.draw_status(Rect { y: area.bottom() - 1, height: 1, ..area }, frame);
        }
        match self.mode {
            ScreenMode::Help(from) => windows::draw_help(self, from, frame),
            ScreenMode::Why(from) => windows::draw_why(self, from, frame),
            ScreenMode::Hosts(at) => windows::draw_hosts(self, at, frame),
            ScreenMode::Users(at) => windows::draw_users(self, at, frame),
            ScreenMode::Report | ScreenMode::Grid | ScreenMode::Prompt(..) => {}
        }
        if self.theme.ascii {
            keep_ascii(frame);
        }
    }

    /// Where short-lived processes use much CPU time, groups show whose they are.
    fn storm_hint(&self) -> Option<String> {
        let ledger = self.shown.as_ref().map(|shown| shown.ledger).filter(|ledger| ledger.capacity_ns > 0)?;
        let share = ledger.exited_ns as f64 * 100.0 / ledger.capacity_ns as f64;
        let is_storm = share > STORM_PCT && self.view.layout != Layout::Groups;
        is_storm.then(|| {
            format!("{share:.0} % of the CPU time went to processes that ended: g shows them by program")
        })
    }

    fn remember_subject(&mut self) {
        let Some(shown) = self.shown.as_ref().filter(|_| self.cursor.is_present) else { return };
        let row = self.rows.rows.get(self.cursor.at);
        if let Some(item) = row.and_then(|row| self.rows.item(shown, row)) {
            let name = Cells::new(shown, &self.view, self.theme, None).text(&item, Col::Name);
            self.subject = Some((item.id(), name));
        }
    }

    /// Height of the plot and the details, of `rest` lines below the header.
    fn pane_height(&mut self, rest: u16, is_small: bool) -> u16 {
        let (least, most) = PANE_LINES;
        let wanted = match self.pane {
            Pane::Hidden => 0,
            Pane::Auto if is_small || rest < MIN_GRID + least => 0,
            Pane::Auto => (rest / 3).clamp(least, most),
            Pane::Shown if rest < 8 => 0,
            Pane::Shown => (rest / 2).min(most),
        };
        self.is_pane_drawn = wanted > 0;
        wanted
    }

    /// Plot left, details right; only the plot on a narrow screen.
    fn draw_pane(&mut self, area: Rect, frame: &mut Frame<'_>) {
        self.plot.line = Rect::default();
        if area.height == 0 {
            return;
        }
        let buffer = frame.buffer_mut();
        let rule = if self.theme.ascii { "-" } else { "─" };
        buffer.set_string(area.x, area.y, rule.repeat(usize::from(area.width)), Theme::dim());
        let inner = Rect { y: area.y + 1, height: area.height - 1, ..area };
        let with_details = area.width >= 60;
        let right = (area.width * 2 / 5).clamp(28, 80);
        let left = if with_details { Rect { width: area.width - right - 1, ..inner } } else { inner };
        self.plot.line = plot::line_area(left);
        plot::draw(self, left, buffer);
        if !with_details {
            return;
        }
        detail::draw(self, Rect { x: left.right() + 1, width: right, ..inner }, buffer);
    }

    fn draw_waiting(&self, area: Rect, frame: &mut Frame<'_>) {
        let text = match (self.hosts.len(), self.status()) {
            (_, Some(status)) => {
                let name = safe(&status.info.hostname);
                match status.received_wall_ns {
                    0 => format!("waiting for data from {name}"),
                    last_ns => format!("{name} last reported {}: waiting", self.time_text(last_ns)),
                }
            }
            (0, None) => "waiting: no host has reported yet".to_string(),
            (count, None) => format!("{count} hosts report: press h to choose one"),
        };
        let lines = [text, format!("data source: {}", safe(&self.title))];
        for (line, y) in lines.iter().zip((area.y + area.height / 3)..area.bottom()) {
            let columns = usize::from(area.width);
            let shown = clip(line, columns, self.theme.cut());
            let indent = u16::try_from(columns.saturating_sub(width(&shown)) / 2).unwrap_or(0);
            frame.buffer_mut().set_stringn(area.x + indent, y, shown, columns, Theme::bold());
        }
    }

    /// The prompt, else the notice, else the error of the feed, else a few keys.
    fn draw_status(&self, area: Rect, frame: &mut Frame<'_>) {
        let columns = usize::from(area.width);
        if let ScreenMode::Prompt(prompt, text) = &self.mode {
            let label = match prompt {
                Prompt::Search => "search: ",
                Prompt::Filter => "filter: ",
                // The label takes half of the line at most.
                Prompt::Range if columns < 62 => "report for: ",
                Prompt::Range if columns < 120 => "report for (1h, 14:00..14:30): ",
                Prompt::Range if columns < 170 => {
                    "report for 1h, 14:00..14:30, or Enter for the plot's time: "
                }
                Prompt::Range => {
                    "report for which time? 1h, 14:00..14:30, or Enter for the time on the plot: "
                }
                // The examples are left out where they would take the space of the typed text.
                Prompt::GoTo if columns < 60 => "go to time: ",
                Prompt::GoTo if columns < 90 => "go to time (14:05, 3m ago): ",
                Prompt::GoTo => "go to time (14:05, yesterday 14:05, 3m ago): ",
            };
            // The end of a long text is visible, because the user types there.
            let mut shown = safe(text);
            let label = clip(label, columns / 2, ' ');
            while width(&shown) + width(&label) + 1 > columns && !shown.is_empty() {
                shown.remove(0);
            }
            let (x, _) = frame.buffer_mut().set_stringn(area.x, area.y, label, columns, Theme::bold());
            let left = usize::from(area.right().saturating_sub(x));
            let (x, y) = frame.buffer_mut().set_stringn(x, area.y, shown, left, Style::new());
            frame.set_cursor_position((x.min(area.right() - 1), y));
            return;
        }
        let (text, style) = match (&self.notice, &self.problem) {
            (Some(notice), _) => (safe(notice), Theme::bold()),
            (None, Some(problem)) => (safe(problem), self.theme.warn()),
            (None, None) if self.mode == ScreenMode::Report => {
                let long = "Enter shows a row  P M B S sort  g grouping  R range  Esc closes";
                let short = "Enter row  P M B S sort  g R  Esc closes";
                (if columns < long.len() { short } else { long }.to_string(), Theme::dim())
            }
            (None, None) => match self.storm_hint() {
                Some(hint) => (hint, Theme::bold()),
                None => (hints(columns).to_string(), Theme::dim()),
            },
        };
        self.draw_lines(&text, style, area, frame);
    }

    /// A text that is longer than the status line covers some lines above it: the end of a notice has the remedy.
    fn draw_lines(&self, text: &str, style: Style, area: Rect, frame: &mut Frame<'_>) {
        let columns = usize::from(area.width);
        // Keys that do not fit are in the help.
        let most = if self.notice.is_some() || self.problem.is_some() { MAX_NOTICE } else { 1 };
        let lines = wrap(text, columns, most.min(usize::from(area.y)), self.theme.cut());
        let top = area.y.saturating_sub(u16::try_from(lines.len() - 1).unwrap_or(0));
        for (y, line) in (top..=area.y).zip(lines) {
            let pad = " ".repeat(columns.saturating_sub(width(&line)));
            frame.buffer_mut().set_stringn(area.x, y, line + &pad, columns, style);
        }
    }
}

/// Replaces every character that is not ASCII with `?`, for terminals without UTF-8. Names come from other machines, so any
/// character can occur.
fn keep_ascii(frame: &mut Frame<'_>) {
    for cell in &mut frame.buffer_mut().content {
        if !cell.symbol().is_ascii() {
            cell.set_symbol("?");
        }
    }
}

fn hints(columns: usize) -> &'static str {
    match columns {
        0..=59 => "? help  q quit  H t g y  / \\  [ ] b  h",
        60..=99 => "? help  q quit  y why  H threads  t tree  g group  / search  \\ filter  [ ] step",
        _ => {
            "? help  q quit  y why slow  H threads  t tree  g group  / search  \\ filter  P M T N sort  % unit  Space pause  [ ] b time  h host  e export"
        }
    }
}
