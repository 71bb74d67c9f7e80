//! The list of hosts to choose from, over the screen.

use cpumon_model::{HostStatus, SourceKind, Trust};
use ratatui::Frame;
use ratatui::layout::Rect;

use crate::app::App;
use crate::screen::popup::frame_block;
use crate::text::{clip, safe, width};
use crate::theme::Theme;

/// Draws the list with the host number `at` selected.
pub(crate) fn draw(app: &App, at: usize, frame: &mut Frame<'_>) {
    let full = frame.area();
    let width = full.width.min(100);
    let wanted = u16::try_from(app.hosts.len().max(1)).unwrap_or(u16::MAX).saturating_add(3);
    let height = wanted.min(full.height);
    let area = Rect { x: (full.width - width) / 2, y: (full.height - height) / 2, width, height };
    frame.render_widget(ratatui::widgets::Clear, area);
    let block = frame_block(app.theme, " hosts: Enter shows, Esc closes ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if inner.width == 0 || inner.height < 2 {
        return;
    }
    let buffer = frame.buffer_mut();
    let columns = usize::from(inner.width);
    let title = line(&["HOST", "TRUST", "SOURCE", "THREADS", "ADDRESS"].map(String::from), columns, app);
    buffer.set_stringn(inner.x, inner.y, title, columns, Theme::columns());
    if app.hosts.is_empty() {
        buffer.set_stringn(inner.x, inner.y + 1, "no host has reported yet", columns, Theme::dim());
        return;
    }
    let rows = usize::from(inner.height.saturating_sub(1)).max(1);
    let at = at.min(app.hosts.len() - 1);
    let top = at.saturating_sub(rows - 1);
    for (y, (nth, status)) in (inner.y + 1..inner.bottom()).zip(app.hosts.iter().enumerate().skip(top)) {
        let style = if nth == at {
            app.theme.selected()
        } else if status.trust == Trust::Unauthenticated {
            ratatui::style::Style::new()
        } else {
            Theme::bold()
        };
        buffer.set_style(Rect { y, height: 1, ..inner }, style);
        buffer.set_stringn(inner.x, y, line(&cells(app, status), columns, app), columns, style);
    }
}

fn cells(app: &App, status: &HostStatus) -> [String; 5] {
    let mark = if Some(status.info.host) == app.host { "*" } else { " " };
    [
        format!("{mark}{}", safe(&status.info.hostname)),
        status.trust.name().to_string(),
        // A store says what a host was, not how it is measured now.
        if status.source == SourceKind::Unknown { "-".to_owned() } else { status.source.name().to_string() },
        if status.thread_count == 0 { "-".to_owned() } else { status.thread_count.to_string() },
        if status.address.is_empty() { "-".to_owned() } else { safe(&status.address) },
    ]
}

/// Cells side by side. The first one takes the remaining width; narrow screens leave out the last ones.
fn line(cells: &[String; 5], columns: usize, app: &App) -> String {
    let rest: [usize; 4] = if columns >= 80 {
        [16, 10, 8, 26]
    } else if columns >= 46 {
        [16, 10, 0, 0]
    } else {
        [16, 0, 0, 0]
    };
    let taken: usize = rest.iter().filter(|width| **width > 0).map(|width| width + 1).sum();
    let widths = [columns.saturating_sub(taken), rest[0], rest[1], rest[2], rest[3]];
    let mut text = String::new();
    for (cell, columns) in cells.iter().zip(widths).filter(|pair| pair.1 > 0) {
        let cell = clip(cell, columns, app.theme.cut());
        let pad = columns.saturating_sub(width(&cell));
        text.push_str(&cell);
        text.push_str(&" ".repeat(pad + 1));
    }
    text
}
