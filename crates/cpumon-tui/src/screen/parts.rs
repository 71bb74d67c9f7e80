//! Lines made of parts: broken between parts only.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::app::App;
use crate::text::{clip, width};
use crate::theme::Theme;

/// A part of a line with its style.
pub(crate) type Part = (String, Style);

/// Joins parts into lines. Lines break only between parts; parts beyond `max_lines` are left out, with a mark.
pub(crate) fn wrap(
    parts: &[Part],
    separator: &str,
    columns: usize,
    max_lines: usize,
    app: &App,
) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    let (mut spans, mut used): (Vec<Span<'static>>, usize) = (Vec::new(), 0);
    for (text, style) in parts {
        let gap = if spans.is_empty() { 0 } else { width(separator) };
        if !spans.is_empty() && used + gap + width(text) > columns {
            if lines.len() + 1 >= max_lines {
                if used + 2 <= columns {
                    spans.push(Span::styled(format!(" {}", app.theme.cut()), Theme::dim()));
                }
                break;
            }
            lines.push(Line::from(std::mem::take(&mut spans)));
            used = 0;
        }
        if !spans.is_empty() {
            spans.push(Span::styled(separator.to_string(), Theme::dim()));
            used += gap;
        }
        let text = clip(text, columns, app.theme.cut());
        used += width(&text);
        spans.push(Span::styled(text, *style));
    }
    if max_lines > 0 && !spans.is_empty() {
        lines.push(Line::from(spans));
    }
    lines
}
