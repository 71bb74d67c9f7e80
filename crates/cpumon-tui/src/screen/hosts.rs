//! The list of hosts to choose from, over the screen.

use cpumon_model::{HostStatus, SourceKind, Trust};
use ratatui::Frame;
use ratatui::layout::Rect;

use crate::app::App;
use crate::screen::popup::frame_block;
use crate::text::{clip, safe, width};
use crate::theme::Theme;

/// Names are not cut below this, but to leave space for TRUST.
const LONGEST_NAME: usize = 24;
/// And not below this for anything.
const SHORTEST_NAME: usize = 8;

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
    let mut lines = vec![["HOST", "TRUST", "SOURCE", "THREADS", "ADDRESS"].map(String::from)];
    lines.extend(app.hosts.iter().map(|status| cells(app, status)));
    let widths = widths(&lines, columns);
    buffer.set_stringn(inner.x, inner.y, line(&lines[0], widths, app), columns, Theme::columns());
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
        buffer.set_stringn(inner.x, y, line(&lines[nth + 1], widths, app), columns, style);
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

/// Terminal columns of each column; 0: left out. Names have what the others leave, and at least what they need, up to a limit.
fn widths(lines: &[[String; 5]], columns: usize) -> [usize; 5] {
    let needed = |at: usize| lines.iter().map(|cells| width(&cells[at])).max().unwrap_or(0);
    let beside_trust = columns.saturating_sub(needed(1) + 1).max(SHORTEST_NAME);
    let mut widths = [needed(0).min(LONGEST_NAME).min(beside_trust), 0, 0, 0, 0];
    let mut used = widths[0];
    for (at, width) in widths.iter_mut().enumerate().skip(1) {
        if used + 1 + needed(at) <= columns {
            *width = needed(at);
            used += 1 + *width;
        }
    }
    widths[0] += columns.saturating_sub(used);
    widths
}

/// Cells side by side.
fn line(cells: &[String; 5], widths: [usize; 5], app: &App) -> String {
    let shown = cells.iter().zip(widths).filter(|pair| pair.1 > 0).map(|(cell, columns)| {
        let cell = clip(cell, columns, app.theme.cut());
        let pad = " ".repeat(columns.saturating_sub(width(&cell)));
        cell + &pad
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_leaves_space_for_trust() {
        let host =
            ["*a-host-of-which-the-name-is-long", "unauthenticated", "linux-bpf", "1234", "10.0.0.1:9"];
        let lines =
            [["HOST", "TRUST", "SOURCE", "THREADS", "ADDRESS"], host].map(|line| line.map(String::from));
        for columns in 24..=120 {
            let widths = widths(&lines, columns);
            let used: usize = widths.iter().filter(|width| **width > 0).map(|width| width + 1).sum();
            assert!(
                widths[0] >= SHORTEST_NAME && widths[1] == 15 && used - 1 == columns,
                "{columns}: {widths:?}"
            );
        }
        assert_eq!(widths(&lines, 20)[1], 0, "no space for both");
    }
}
