//! The help: every key, the letters of the CPU modes, the columns.

use cpumon_model::Terms;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use crate::app::{App, Mode};
use crate::columns::{Col, choose};
use crate::screen::health::LOSSES;
use crate::screen::popup::frame_block;
use crate::theme::{self, MODES, Theme};

/// Keys and their effect.
const KEYS: &[(&str, &str)] = &[
    ("Up Down PgUp PgDn Home End", "move; the selection follows its task, not the line"),
    (
        "Enter  Right  Left",
        "open and close: threads of a process, children in the tree, processes of a group",
    ),
    ("/  F3", "search as you type; n next, N previous; Esc ends"),
    ("\\  F4", "filter by name, command, container or id; Esc clears it"),
    ("H", "threads instead of processes (in tree and groups: below their processes)"),
    ("t  F5", "tree; branches are sorted by the sum of their processes"),
    ("g", "group by program, user, service, container; then the list again"),
    ("u", "choose a user; Esc shows all again"),
    ("P", "sort by CPU"),
    ("M", "sort by run delay (memory is not measured)"),
    ("D  L  B  W  S", "sort by longest run delay, its p99, blocked time, wait reason, switches"),
    ("T", "live: sort by SEEN, the run time while these screens are open"),
    ("N", "sort by id"),
    ("<  >  F6", "sort by the column to the left, to the right"),
    ("r", "reverse the order"),
    ("I  %", "utilization: %CPU (100 = one CPU) or %host (100 = all CPUs)"),
    ("1", "one bar for all CPUs or one each"),
    ("i", "hide idle rows"),
    ("c", "command lines beside the names"),
    (
        ",  .",
        "scroll command lines sideways, as Shift with Left Right, or Left Right while no row is selected",
    ),
    ("d", "plot and details of the selected row (of the host if none is)"),
    ("z", "time on the plot: 5, 15, 1, 60 minutes"),
    ("F", "follow the selected row when rows change places"),
    ("Space", "pause; again: back to live"),
    ("[  ]", "previous, next interval"),
    ("{  }", "a minute back, forward"),
    ("(  )", "previous, next peak of what the plot shows"),
    ("Tab", "move along the plot: Left Right by a column, PgUp PgDn by its length; Tab ends it"),
    ("b", "go to a moment"),
    ("R", "report: who used the CPU in a range of time, as `cpumon report`; Enter filters by a row"),
    ("l", "back to live"),
    (
        "x",
        "trace of this host: records every context switch of 10 s, or takes the last seconds of a flight recorder",
    ),
    ("v", "the command that shows the nearest trace of the past; the plot marks each one"),
    ("Space  +  -  l", "of a recording: play and stop, faster, slower, to its end"),
    ("h", "choose a host"),
    ("e", "write the rows on screen into a CSV file in the current directory"),
    (
        "wheel, click",
        "scroll; select a row, sort by a title, go to a moment of the plot; with Shift: the terminal's own",
    ),
    ("Ctrl-Z", "suspend; fg continues"),
    ("q  F10  Ctrl-C", "quit"),
];

/// Draws the help over everything, from line `from`.
pub(crate) fn draw(app: &mut App, from: u16, frame: &mut Frame<'_>) {
    let full = frame.area();
    let width = full.width.min(96);
    let area = Rect { x: (full.width - width) / 2, y: 0, width, height: full.height };
    frame.render_widget(Clear, area);
    let title = match width {
        0..58 => " help: Up Down scroll, Esc closes ",
        _ => " help: Up Down PgUp PgDn scroll, any other key closes ",
    };
    let block = frame_block(app.theme, title);
    let inner = block.inner(area);
    let lines = lines(app, usize::from(inner.width));
    let hidden = lines.len().saturating_sub(usize::from(inner.height));
    let from = from.min(u16::try_from(hidden).unwrap_or(u16::MAX));
    frame.render_widget(Paragraph::new(lines).block(block).scroll((from, 0)), area);
    // The line that is shown, not the one that was requested: after the end was reached, Up must act at once.
    app.mode = Mode::Help(from);
}

fn lines(app: &App, columns: usize) -> Vec<Line<'static>> {
    let theme = app.theme;
    let label_width = if columns < 60 { 0 } else { 28 };
    let terms = app.shown.as_ref().map_or(Terms::LINUX, |shown| Terms::of(shown.source));
    let mode = |mode: &theme::Mode| {
        let term = terms.of_column(&format!("{}_ns", mode.name));
        format!("{} {}", mode.letter, term.map_or(mode.name, |term| term.label))
    };
    let modes: Vec<String> = MODES.iter().map(mode).collect();
    let marks = format!(
        "+ began, {} ended, {} both in this interval; ! unusual values, see the details",
        theme.ended(),
        theme.born_ended()
    );
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (keys, what) in KEYS {
        push_entry(keys, what, label_width, columns, &mut lines);
    }
    lines.push(Line::raw(""));
    push_entry("CPU bars", &modes.join(", "), label_width, columns, &mut lines);
    push_entry("marks", &marks, label_width, columns, &mut lines);
    push_entry("-  and  0.0", "no data is not zero", label_width, columns, &mut lines);
    lines.push(Line::raw(""));
    lines.push(Line::styled(
        "Losses: of the last minute in the header, since the start in the details of the host",
        Theme::bold(),
    ));
    for loss in &LOSSES {
        push_entry(loss.name, loss.help, label_width, columns, &mut lines);
    }
    lines.push(Line::raw(""));
    for place in choose(&app.view, u16::MAX, 1) {
        // The marks depend on the terminal and are explained above.
        if place.col != Col::Marks {
            push_entry(
                place.col.title(&app.view),
                &place.col.shared().help(),
                label_width,
                columns,
                &mut lines,
            );
        }
    }
    lines
}

/// Adds keys and their text. The text is wrapped next to the keys, or below them if `label_width` is 0.
fn push_entry(keys: &str, what: &str, label_width: usize, columns: usize, out: &mut Vec<Line<'static>>) {
    let indent = if label_width == 0 { 2 } else { label_width };
    let mut label = keys.to_string();
    if label_width == 0 {
        out.push(Line::styled(std::mem::take(&mut label), Theme::bold()));
    }
    let mut text = String::new();
    for word in what.split(' ') {
        if !text.is_empty() && indent + text.len() + 1 + word.len() > columns {
            out.push(entry(&std::mem::take(&mut label), &std::mem::take(&mut text), indent));
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    out.push(entry(&label, &text, indent));
}

fn entry(label: &str, text: &str, indent: usize) -> Line<'static> {
    let label = format!("{label:<indent$}");
    Line::from(vec![Span::styled(label, Theme::bold()), Span::raw(text.to_string())])
}
