//! Styles and marks, and lines made of styled parts. Everything on screen can be read without color and with ASCII only. Colors are from
//! the sixteen that users configure in their terminal; red and green alone never make a difference.

use cpumon_model::CpuTimes;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::text::{clip, width};

/// Features of the terminal that may be used.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    pub color: bool,
    pub ascii: bool,
}

pub(crate) type StyledPart = (String, Style);

#[derive(Copy, Clone, Debug)]
pub(crate) struct BarMode {
    /// The letter that fills its part of the bar.
    pub letter: char,
    pub name: &'static str,
    pub color: Color,
    pub ns: fn(&CpuTimes) -> u64,
}

/// The modes, in the order of the bar.
pub(crate) const MODES: [BarMode; 8] = [
    BarMode { letter: 'u', name: "user", color: Color::Blue, ns: |t| t.user_ns },
    BarMode { letter: 'n', name: "nice", color: Color::Cyan, ns: |t| t.nice_ns },
    BarMode { letter: 's', name: "system", color: Color::Yellow, ns: |t| t.system_ns },
    BarMode { letter: 'i', name: "irq", color: Color::Magenta, ns: |t| t.irq_ns },
    BarMode { letter: 'q', name: "softirq", color: Color::LightMagenta, ns: |t| t.softirq_ns },
    BarMode { letter: 't', name: "steal", color: Color::LightRed, ns: |t| t.steal_ns },
    BarMode { letter: 'w', name: "iowait", color: Color::DarkGray, ns: |t| t.iowait_ns },
    BarMode { letter: '.', name: "idle", color: Color::DarkGray, ns: |t| t.idle_ns },
];

impl Theme {
    fn colored(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    /// Text that matters less.
    pub(crate) fn dim() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Labels and the newest figures.
    pub(crate) fn bold() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The row of column titles.
    pub(crate) fn columns() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The column that sorts, among the titles.
    pub(crate) fn sorted() -> Style {
        Self::columns().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    pub(crate) fn selected(self) -> Style {
        let style = Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD);
        if self.color { style.fg(Color::Cyan) } else { style }
    }

    /// Something the user must know: no data, loss, unauthenticated.
    pub(crate) fn warn(self) -> Style {
        self.colored(Color::LightYellow).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn live(self) -> Style {
        self.colored(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// The labels PAUSED, PAST and NO DATA.
    pub(crate) fn not_live(self) -> Style {
        self.colored(Color::LightYellow).add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    pub(crate) fn plot(self) -> Style {
        self.colored(Color::Cyan)
    }

    pub(crate) fn mode(self, mode: &BarMode) -> Style {
        if mode.letter == '.' { Self::dim() } else { self.colored(mode.color) }
    }

    /// Ends a text that was cut off.
    pub(crate) fn cut(self) -> char {
        if self.ascii { '~' } else { '…' }
    }

    /// Marks a row whose task ended inside the interval.
    pub(crate) fn ended(self) -> char {
        if self.ascii { 'x' } else { '†' }
    }

    /// Marks a row whose task began and ended inside the interval.
    pub(crate) fn born_ended(self) -> char {
        if self.ascii { '*' } else { '‡' }
    }

    /// Before a row that can be opened / is open.
    pub(crate) fn fold(self, open: bool) -> &'static str {
        match (self.ascii, open) {
            (false, false) => "▸",
            (false, true) => "▾",
            (true, false) => ">",
            (true, true) => "v",
        }
    }

    /// Tree lines: a level that continues, a level that does not, a child with siblings below, the last child.
    pub(crate) fn guides(self) -> [&'static str; 4] {
        if self.ascii { ["| ", "  ", "|-", "`-"] } else { ["│ ", "  ", "├─", "└─"] }
    }

    /// Behind the title of the sorting column: falling, rising.
    pub(crate) fn arrow(self, rising: bool) -> char {
        match (self.ascii, rising) {
            (false, false) => '▾',
            (false, true) => '▴',
            (true, false) => 'v',
            (true, true) => '^',
        }
    }

    /// Separator between parts of a line.
    pub(crate) fn dot(self) -> &'static str {
        if self.ascii { " | " } else { " · " }
    }

    /// Joins parts into lines. Lines break only between parts; parts beyond `max_lines` are left out, with a mark.
    pub(crate) fn wrap(
        self,
        parts: &[StyledPart],
        separator: &str,
        columns: usize,
        max_lines: usize,
    ) -> Vec<Line<'static>> {
        let mut lines: Vec<Line<'static>> = Vec::new();
        let (mut spans, mut used): (Vec<Span<'static>>, usize) = (Vec::new(), 0);
        for (text, style) in parts {
            let gap = if spans.is_empty() { 0 } else { width(separator) };
            if !spans.is_empty() && used + gap + width(text) > columns {
                if lines.len() + 1 >= max_lines {
                    if used + 2 <= columns {
                        spans.push(Span::styled(format!(" {}", self.cut()), Self::dim()));
                    }
                    break;
                }
                lines.push(Line::from(std::mem::take(&mut spans)));
                used = 0;
            }
            if !spans.is_empty() {
                spans.push(Span::styled(separator.to_string(), Self::dim()));
                used += gap;
            }
            let text = clip(text, columns, self.cut());
            used += width(&text);
            spans.push(Span::styled(text, *style));
        }
        if max_lines > 0 && !spans.is_empty() {
            lines.push(Line::from(spans));
        }
        lines
    }
}
