//! The help. In: nothing. Out: every key, the CPU modes' letters, the columns. Why: keys of top, htop and atop clash; here
//! is what they do in this program.

use cpumon_model::COLUMNS;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use crate::app::{App, Mode};
use crate::columns::{Col, choose};
use crate::screen::popup::frame_block;
use crate::theme::{MODES, Theme};

/// Keys and what they do.
const KEYS: &[(&str, &str)] = &[
    ("Up Down PgUp PgDn Home End", "move; the selection stays with its task, not with its line"),
    (
        "Enter  Right  Left",
        "open and close: threads of a process, children in the tree, processes of a program",
    ),
    ("/  F3", "search while you type; n next, N the one before; Esc ends"),
    ("\\  F4", "filter by name, command, container or id; Esc takes it back"),
    ("H", "threads instead of processes (in tree and groups: below their processes)"),
    ("t  F5", "tree; branches are sorted by all that is in them"),
    ("g", "group by program"),
    ("P", "sort by CPU"),
    ("M", "sort by run delay (memory is not measured)"),
    ("D  L  B  W  S", "sort by longest run delay, RDELAY p99, blocked time, what it waited for, switches"),
    ("T", "sort by SEEN, the run time while these screens are open"),
    ("N", "sort by id"),
    ("<  >  F6", "sort by the column to the left, to the right"),
    ("R", "turn the order over"),
    ("I  %", "utilization: %CPU (100 = one CPU) or %host (100 = all CPUs)"),
    ("1", "one bar for all CPUs or one each"),
    ("i", "hide rows that did nothing"),
    ("c", "command line or name"),
    ("d", "plot and details of the selected row (of the host if none is)"),
    ("z", "time on the plot: 5, 15, 1, 60 minutes"),
    ("F", "follow the selected row when rows change places"),
    ("Space", "pause; again: back to live"),
    ("[  ]", "one interval back, forth"),
    ("b", "go to a moment"),
    ("l", "back to live"),
    ("Space  +  -  l", "of a recording: play and stop, faster, slower, to its end"),
    ("h", "choose a host"),
    ("e", "write the rows on screen into a CSV file in the current directory"),
    ("q  F10  Ctrl-C", "quit"),
];

/// Draws the help over everything, from line `from`.
pub(crate) fn draw(app: &mut App, from: u16, frame: &mut Frame<'_>) {
    let full = frame.area();
    let width = full.width.min(96);
    let area = Rect { x: (full.width - width) / 2, y: 0, width, height: full.height };
    frame.render_widget(Clear, area);
    let block = frame_block(app.theme, " help: Up Down scroll, any other key closes ");
    let inner = block.inner(area);
    let lines = lines(app, usize::from(inner.width));
    let hidden = lines.len().saturating_sub(usize::from(inner.height));
    let from = from.min(u16::try_from(hidden).unwrap_or(u16::MAX));
    frame.render_widget(Paragraph::new(lines).block(block).scroll((from, 0)), area);
    // Where the user is, so that Up acts at once after the end was reached.
    app.mode = Mode::Help(from);
}

fn lines(app: &App, columns: usize) -> Vec<Line<'static>> {
    let theme = app.theme;
    let label_room = if columns < 60 { 0 } else { 28 };
    let modes: Vec<String> = MODES.iter().map(|mode| format!("{} {}", mode.letter, mode.name)).collect();
    let marks = format!(
        "+ began, {} ended, {} both in this interval; ! odd figures, see the details",
        theme.ended(),
        theme.born_ended()
    );
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (keys, what) in KEYS {
        push_entry(keys, what, label_room, columns, &mut lines);
    }
    lines.push(Line::raw(""));
    push_entry("CPU bars", &modes.join(", "), label_room, columns, &mut lines);
    push_entry("marks", &marks, label_room, columns, &mut lines);
    push_entry("-  and  0.0", "no data, and zero: two different things", label_room, columns, &mut lines);
    lines.push(Line::raw(""));
    for place in choose(&app.view, u16::MAX, 1) {
        if let Some(help) = column_help(place.col) {
            push_entry(place.col.title(&app.view), &help, label_room, columns, &mut lines);
        }
    }
    lines
}

/// Keys and what they do, words wrapped beside the keys; below them where there is no room (`label_room` 0).
fn push_entry(keys: &str, what: &str, label_room: usize, columns: usize, out: &mut Vec<Line<'static>>) {
    let indent = if label_room == 0 { 2 } else { label_room };
    let mut label = keys.to_string();
    if label_room == 0 {
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

/// What a column means, from the shared table.
fn column_help(col: Col) -> Option<String> {
    let of_table =
        |col: Col| COLUMNS.iter().find(|column| Some(column.id) == col.id()).map(|column| column.help);
    Some(match col {
        Col::Marks => return None,
        Col::Seen => "Run time since these screens were opened.".into(),
        Col::Id => "Process id, or thread id of a thread; x and a number: processes of a program.".into(),
        Col::Ready => "Run delay: runnable, waiting for a CPU; percent of the interval.".into(),
        Col::LongestDelay => "Longest single run delay in the interval; of a process the longest of its threads.".into(),
        Col::DelayP99 => "99 % of the run delays that ended in the interval were no longer; of a thread only if it was selected (--histogram-threads).".into(),
        Col::Blocked => "Blocked: neither running nor runnable; percent of the interval, of a process the sum over its active threads.".into(),
        Col::Wait => "What it was blocked by most: the system call it slept in, disk, page fault, stopped, traced, kernel, exit, other.".into(),
        Col::Switches => "Context switches a second, voluntary or not.".into(),
        Col::Voluntary => "Voluntary switches a second: it left the CPU to wait.".into(),
        Col::Involuntary => "Involuntary switches a second: it was pushed off the CPU while runnable.".into(),
        Col::User100 => "Run time in user mode, in the unit of utilization.".into(),
        Col::System100 => "Run time in kernel mode, in the unit of utilization.".into(),
        Col::User => "User: its name where known for sure, else its number.".into(),
        col => of_table(col)?.to_string(),
    })
}
