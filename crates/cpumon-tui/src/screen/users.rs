//! The list of users to choose from, over the screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::app::App;
use crate::columns::NONE;
use crate::screen::popup::frame_block;
use crate::text::{clip, percent, safe, width};
use crate::theme::Theme;
use crate::users::users_of;
use crate::view::Unit;

/// Columns of the numbers behind the name.
const NUMBERS: usize = 20;

/// Draws the list with the line number `at` selected; the first one is for all users.
pub(crate) fn draw(app: &App, at: usize, frame: &mut Frame<'_>) {
    let full = frame.area();
    let users = app.shown.as_deref().map(users_of).unwrap_or_default();
    let columns = full.width.min(48);
    let wanted = u16::try_from(users.len()).unwrap_or(u16::MAX).saturating_add(4);
    let height = wanted.min(full.height);
    let area = Rect { x: (full.width - columns) / 2, y: (full.height - height) / 2, width: columns, height };
    frame.render_widget(ratatui::widgets::Clear, area);
    let block = frame_block(app.theme, " users: Enter shows, Esc closes ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if inner.width == 0 || inner.height < 2 {
        return;
    }
    let buffer = frame.buffer_mut();
    let columns = usize::from(inner.width);
    let title = line(app, "USER", ["PROC", app.view.unit.title()], columns);
    buffer.set_stringn(inner.x, inner.y, title, columns, Theme::columns());
    let mut lines = vec![line(app, "all users", ["", ""], columns)];
    lines.extend(users.iter().map(|user| {
        let share = app.shown.as_ref().and_then(|shown| app.view.unit.of(shown, user.run_ns));
        let share = share.map_or_else(|| NONE.into(), |value| percent(value, app.view.unit == Unit::Host));
        line(app, &safe(&user.label), [&user.processes.to_string(), &share], columns)
    }));
    let rows = usize::from(inner.height - 1);
    let at = at.min(lines.len() - 1);
    let top = at.saturating_sub(rows - 1);
    for (y, (nth, text)) in (inner.y + 1..inner.bottom()).zip(lines.iter().enumerate().skip(top)) {
        let style = if nth == at { app.theme.selected() } else { Style::new() };
        buffer.set_style(Rect { y, height: 1, ..inner }, style);
        buffer.set_stringn(inner.x, y, text, columns, style);
    }
}

fn line(app: &App, name: &str, numbers: [&str; 2], columns: usize) -> String {
    let name_width = columns.saturating_sub(NUMBERS);
    let name = clip(name, name_width, app.theme.cut());
    let pad = name_width.saturating_sub(width(&name));
    let half = NUMBERS / 2 - 1;
    format!("{name}{}{:>half$}{:>half$}", " ".repeat(pad), numbers[0], numbers[1])
}
