//! Windows over the screen: the help (every key, the letters of the CPU modes, the columns), the lists of hosts and of users.

use cpumon_model::{HostStatus, SourceKind, Terms, Trust};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::border;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};

use crate::app::{App, Mode};
use crate::cells::NONE;
use crate::columns::choose;
use crate::screen::health::LOSSES;
use crate::text::{clip, percent, safe, width};
use crate::theme::{self, MODES, Theme};
use crate::view::{Col, Unit, users_of};

/// Draws an empty window of this size in the middle of the screen, and returns the space inside of it.
fn open_window(theme: Theme, title: &str, columns: u16, lines: u16, frame: &mut Frame<'_>) -> Rect {
    let full = frame.area();
    let (width, height) = (columns.min(full.width), lines.min(full.height));
    let area = Rect { x: (full.width - width) / 2, y: (full.height - height) / 2, width, height };
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(title).border_style(Theme::dim());
    let block = if theme.ascii {
        block.border_set(border::Set {
            top_left: "+",
            top_right: "+",
            bottom_left: "+",
            bottom_right: "+",
            vertical_left: "|",
            vertical_right: "|",
            horizontal_top: "-",
            horizontal_bottom: "-",
        })
    } else {
        block.border_type(BorderType::Rounded)
    };
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

/// Names are not cut below this, but to leave space for TRUST.
const LONGEST_NAME: usize = 24;
/// And not below this for anything.
const SHORTEST_NAME: usize = 8;

/// Draws the list with the host number `at` selected.
pub(super) fn draw_hosts(app: &App, at: usize, frame: &mut Frame<'_>) {
    let wanted = u16::try_from(app.hosts.len().max(1)).unwrap_or(u16::MAX).saturating_add(3);
    let inner = open_window(app.theme, " hosts: Enter shows, Esc closes ", 100, wanted, frame);
    if inner.width == 0 || inner.height < 2 {
        return;
    }
    let buffer = frame.buffer_mut();
    let columns = usize::from(inner.width);
    let mut lines = vec![["HOST", "TRUST", "SOURCE", "THREADS", "ADDRESS"].map(String::from)];
    lines.extend(app.hosts.iter().map(|status| host_cells(app, status)));
    let widths = widths(&lines, columns);
    buffer.set_stringn(inner.x, inner.y, host_line(&lines[0], widths, app), columns, Theme::columns());
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
            Style::new()
        } else {
            Theme::bold()
        };
        buffer.set_style(Rect { y, height: 1, ..inner }, style);
        buffer.set_stringn(inner.x, y, host_line(&lines[nth + 1], widths, app), columns, style);
    }
}

fn host_cells(app: &App, status: &HostStatus) -> [String; 5] {
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
fn host_line(cells: &[String; 5], widths: [usize; 5], app: &App) -> String {
    let shown = cells.iter().zip(widths).filter(|pair| pair.1 > 0).map(|(cell, columns)| {
        let cell = clip(cell, columns, app.theme.cut());
        let pad = " ".repeat(columns.saturating_sub(width(&cell)));
        cell + &pad
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Columns of the numbers behind the name of a user.
const NUMBERS: usize = 20;

/// Draws the list with the line number `at` selected; the first one is for all users.
pub(super) fn draw_users(app: &App, at: usize, frame: &mut Frame<'_>) {
    let users = app.shown.as_deref().map(users_of).unwrap_or_default();
    let wanted = u16::try_from(users.len()).unwrap_or(u16::MAX).saturating_add(4);
    let inner = open_window(app.theme, " users: Enter shows, Esc closes ", 48, wanted, frame);
    if inner.width == 0 || inner.height < 2 {
        return;
    }
    let buffer = frame.buffer_mut();
    let columns = usize::from(inner.width);
    let title = user_line(app, "USER", ["PROC", app.view.unit.title()], columns);
    buffer.set_stringn(inner.x, inner.y, title, columns, Theme::columns());
    let mut lines = vec![user_line(app, "all users", ["", ""], columns)];
    lines.extend(users.iter().map(|user| {
        let share = app.shown.as_ref().and_then(|shown| app.view.unit.of(shown, user.run_ns));
        let share = share.map_or_else(|| NONE.into(), |value| percent(value, app.view.unit == Unit::Host));
        user_line(app, &safe(&user.label), [&user.processes.to_string(), &share], columns)
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

fn user_line(app: &App, name: &str, numbers: [&str; 2], columns: usize) -> String {
    let name_width = columns.saturating_sub(NUMBERS);
    let name = clip(name, name_width, app.theme.cut());
    let pad = name_width.saturating_sub(width(&name));
    let half = NUMBERS / 2 - 1;
    format!("{name}{}{:>half$}{:>half$}", " ".repeat(pad), numbers[0], numbers[1])
}

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
pub(super) fn draw_help(app: &mut App, from: u16, frame: &mut Frame<'_>) {
    let title = match frame.area().width {
        0..58 => " help: Up Down scroll, Esc closes ",
        _ => " help: Up Down PgUp PgDn scroll, any other key closes ",
    };
    let inner = open_window(app.theme, title, 96, u16::MAX, frame);
    let lines = help_lines(app, usize::from(inner.width));
    let hidden = lines.len().saturating_sub(usize::from(inner.height));
    let from = from.min(u16::try_from(hidden).unwrap_or(u16::MAX));
    frame.render_widget(Paragraph::new(lines).scroll((from, 0)), inner);
    // The line that is shown, not the one that was requested: after the end was reached, Up must act at once.
    app.mode = Mode::Help(from);
}

fn help_lines(app: &App, columns: usize) -> Vec<Line<'static>> {
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
