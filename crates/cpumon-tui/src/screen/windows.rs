//! Windows over the screen: the report, why something is slow, the help with every key, the letters of the CPU modes and the columns, and
//! the lists of hosts and of users. Commands print the sentences of the report too.

use std::borrow::Cow;

use cpumon_model::{HostStatus, SourceKind, Terms, Trust};
use cpumon_query::fields::{Field, Screen, decimal, name_text, seconds};
use cpumon_query::report::{Report, ReportSort, RowKind};
use cpumon_query::why::Why;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::border;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};

use crate::app::{App, ReportScreen, ScreenMode};
use crate::cells::NONE;
use crate::columns::choose;
use crate::screen::health::LOSSES;
use crate::table::Columns;
use crate::text::{clip, percent, safe, wrap};
use crate::theme::{self, MODES, Theme};
use crate::view::{Col, Unit, users_of};

/// Draws an empty window of this size in the middle of the screen, and returns the space inside.
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

/// Draws rows below their titles: the row `at` is selected, `style` is for the others.
fn draw_list(
    app: &App,
    list: &Columns,
    at: usize,
    inner: Rect,
    style: impl Fn(usize) -> Style,
    frame: &mut Frame<'_>,
) {
    let width = usize::from(inner.width);
    let mut lines = list.lines(width, app.theme.cut()).into_iter();
    let titles = lines.next().map(|titles| (titles, Theme::columns()));
    let top = (at + 2).saturating_sub(usize::from(inner.height));
    let rows = lines.enumerate().skip(top);
    let rows = rows.map(|(nth, line)| (line, if nth == at { app.theme.selected() } else { style(nth) }));
    let buffer = frame.buffer_mut();
    for (y, (line, style)) in (inner.y..inner.bottom()).zip(titles.into_iter().chain(rows)) {
        buffer.set_style(Rect { y, height: 1, ..inner }, style);
        buffer.set_stringn(inner.x, y, line, width, style);
    }
}

/// Draws the list with the host number `at` selected.
pub(super) fn draw_hosts(app: &App, at: usize, frame: &mut Frame<'_>) {
    let wanted = u16::try_from(app.hosts.len().max(1)).unwrap_or(u16::MAX).saturating_add(3);
    let inner = open_window(app.theme, " hosts: Enter shows, Esc closes ", 100, wanted, frame);
    let or_none = |text: String, is_known: bool| if is_known { text } else { NONE.to_owned() };
    let fields = [
        Field::shown("HOST", 0, |status: &HostStatus| {
            let mark = if Some(status.info.host) == app.host { "*" } else { " " };
            format!("{mark}{}", status.info.hostname)
        })
        .left(),
        Field::shown("TRUST", 1, |status: &HostStatus| status.trust.name().to_owned()).whole(),
        // A store has the host's last state, not how it is measured now.
        Field::shown("SOURCE", 2, move |status: &HostStatus| {
            or_none(status.source.name().to_owned(), status.source != SourceKind::Unknown)
        })
        .whole(),
        Field::shown("THREADS", 3, move |status: &HostStatus| {
            or_none(status.thread_count.to_string(), status.thread_count > 0)
        }),
        Field::shown("ADDRESS", 4, move |status: &HostStatus| {
            or_none(status.address.to_string(), !status.address.is_empty())
        })
        .whole(),
    ];
    let trusted = |nth: usize| app.hosts.get(nth).is_some_and(|host| host.trust != Trust::Unauthenticated);
    let style = |nth: usize| if trusted(nth) { Theme::bold() } else { Style::new() };
    let at = at.min(app.hosts.len().saturating_sub(1));
    draw_list(app, &Columns::new(&fields, &app.hosts), at, inner, style, frame);
    if app.hosts.is_empty() && inner.height > 1 {
        let columns = usize::from(inner.width);
        let text = "no host has reported yet";
        frame.buffer_mut().set_stringn(inner.x, inner.y + 1, text, columns, Theme::dim());
    }
}

/// Draws the list with the line number `at` selected; the first one is for all users.
pub(super) fn draw_users(app: &App, at: usize, frame: &mut Frame<'_>) {
    let users = app.shown.as_deref().map(users_of).unwrap_or_default();
    let wanted = u16::try_from(users.len()).unwrap_or(u16::MAX).saturating_add(4);
    let inner = open_window(app.theme, " users: Enter shows, Esc closes ", 48, wanted, frame);
    let mut rows = vec![["all users".to_owned(), String::new(), String::new()]];
    rows.extend(users.into_iter().map(|user| {
        let share = app.shown.as_ref().and_then(|shown| app.view.unit.of(shown, user.run_ns));
        let share = share.map_or_else(|| NONE.into(), |value| percent(value, app.view.unit == Unit::Host));
        [user.label, user.processes.to_string(), share]
    }));
    let cell = |at: usize| move |row: &[String; 3]| row[at].clone();
    let fields = [
        Field::shown("USER", 0, cell(0)).left(),
        Field::shown("PROC", 0, cell(1)),
        Field::shown(app.view.unit.title(), 0, cell(2)),
    ];
    let at = at.min(rows.len() - 1);
    draw_list(app, &Columns::new(&fields, &rows), at, inner, |_| Style::new(), frame);
}

const KEYS: &[(&str, &str)] = &[
    ("Up Down PgUp PgDn Home End", "move; the selection follows its task, not the line"),
    (
        "Enter  Right  Left",
        "open and close: threads of a process, children in the tree, processes of a group",
    ),
    ("/  F3", "search as you type; n next, N previous; Esc ends"),
    ("\\  F4", "filter by name, command, container or id; Esc clears it"),
    ("H", "threads instead of processes (in tree and groups: below their processes)"),
    ("t  F5", "tree; branches are sorted by the sums of their processes, and show them when closed"),
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
    ("y", "why the selected row is slow (none: the machine), as `cpumon why`"),
    ("l", "back to live"),
    (
        "x",
        "trace of this host: records every context switch of 10 s, or takes the last seconds of a flight recorder",
    ),
    ("v", "the command that shows the newest trace; in the past the nearest one, which the plot marks"),
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

pub(super) fn draw_help(app: &mut App, from: u16, frame: &mut Frame<'_>) {
    let title = match frame.area().width {
        0..58 => " help: Up Down scroll, Esc closes ",
        _ => " help: Up Down PgUp PgDn scroll, any other key closes ",
    };
    let inner = open_window(app.theme, title, 96, u16::MAX, frame);
    let lines = help_lines(app, usize::from(inner.width));
    app.mode = ScreenMode::Help(draw_scrolled(lines, from, inner, frame));
}

/// Draws lines, scrolled down by this number, and returns the first line that is shown, not the one that was requested: after the end was
/// reached, Up must act at once.
fn draw_scrolled(lines: Vec<Line<'static>>, from: u16, inner: Rect, frame: &mut Frame<'_>) -> u16 {
    let hidden = lines.len().saturating_sub(usize::from(inner.height));
    let from = from.min(u16::try_from(hidden).unwrap_or(u16::MAX));
    frame.render_widget(Paragraph::new(lines).scroll((from, 0)), inner);
    from
}

/// Terminal columns of the window with an answer at most.
const WHY_COLUMNS: u16 = 110;
/// Terminal columns of the titles of its blocks.
const WHY_TITLE: usize = 6;

pub(super) fn draw_why(app: &mut App, from: u16, frame: &mut Frame<'_>) {
    let Some(why) = &app.why else { return };
    let columns = frame.area().width.min(WHY_COLUMNS);
    let lines = why_lines(app, why, usize::from(columns.saturating_sub(2)));
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let title = " why slow? Up Down scroll, Esc closes ";
    let inner = open_window(app.theme, title, columns, height, frame);
    app.mode = ScreenMode::Why(draw_scrolled(lines, from, inner, frame));
}

/// The answer as `cpumon why` prints it.
fn why_lines(app: &App, why: &Why, columns: usize) -> Vec<Line<'static>> {
    let screen = Screen { clock: app.time.clock, is_ascii: app.theme.ascii };
    let head = wrap(&safe(&why.head(screen)), columns, usize::MAX, ' ');
    let mut lines: Vec<Line<'static>> =
        head.into_iter().map(|line| Line::styled(line, Theme::bold())).collect();
    for block in why.blocks(screen) {
        if ["WHY", "TIME", "SURE"].contains(&block.title) {
            lines.push(Line::raw(""));
        }
        let mut title = block.title;
        for line in &block.lines {
            push_entry(title, &safe(line), WHY_TITLE, columns, &mut lines);
            title = "";
        }
    }
    lines
}

fn help_lines(app: &App, columns: usize) -> Vec<Line<'static>> {
    let theme = app.theme;
    let label_width = if columns < 60 { 0 } else { 28 };
    let terms = app.shown.as_ref().map_or(Terms::LINUX, |shown| Terms::of(shown.source));
    let mode = |mode: &theme::BarMode| {
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
    if label_width == 0 {
        out.push(Line::styled(keys.to_string(), Theme::bold()));
    }
    let lines = wrap(what, columns.saturating_sub(indent), usize::MAX, ' ');
    out.extend(lines.iter().enumerate().map(|(nth, text)| {
        let label = if nth == 0 && label_width > 0 { keys } else { "" };
        let label = format!("{label:<indent$}");
        Line::from(vec![Span::styled(label, Theme::bold()), Span::raw(text.clone())])
    }));
}

/// Lines of measured time.
const MAX_HEAD: usize = 3;
/// Most hosts with a line each.
const SHOWN_HOSTS: usize = 4;

/// Measured time and range, a sentence per host. `show` writes moments.
pub fn report_head(report: &Report, show: fn(i64) -> String) -> Vec<String> {
    let hosts = report.hosts.iter().take(SHOWN_HOSTS).map(|part| {
        format!(
            "{}: {} to {}, {} s measured, {} s of CPU time",
            name_text(&part.name),
            show(part.range.since_ns),
            show(part.range.until_ns),
            decimal(part.covered_ns as f64 / 1e9, 1),
            seconds(part.used_ns)
        )
    });
    let mut head: Vec<String> = hosts.collect();
    let more = report.hosts.len().saturating_sub(SHOWN_HOSTS);
    if more > 0 {
        head.push(format!("and {more} more hosts; {} s of CPU time on all hosts", seconds(report.used_ns)));
    }
    head.extend(
        report.before.map(|span| format!("compared with {} to {}", show(span.since_ns), show(span.until_ns))),
    );
    head
}

/// Notes on the meaning of columns, and on missing data.
pub fn report_notes(report: &Report) -> Vec<Cow<'_, str>> {
    let mut notes: Vec<Cow<'_, str>> = Vec::new();
    if let Some(words) = report.unmatched() {
        notes.push(format!("Nothing in this range matches {words}.").into());
    }
    if report.rows.iter().any(|row| row.before.is_some_and(|before| before.duration_ns.is_none())) {
        notes.push("No data for the range to compare with.".into());
    }
    if report.query.sort == ReportSort::Ready || report.query.sort == ReportSort::Blocked {
        notes.push("READY, BLOCKED: threads ready or blocked on average.".into());
    }
    if report.rows.iter().any(|row| row.peak.is_some_and(|peak| !peak.is_exact)) {
        notes.push("PEAK %: >= marks a lower bound, where only sums of many processes are left.".into());
    }
    if report.rows.iter().any(|row| row.kind == RowKind::Unattributed) {
        notes.push("(not attributed): CPU time in the ledger that belongs to no row.".into());
    }
    notes
}

pub(super) fn draw_report(app: &mut App, frame: &mut Frame<'_>) {
    let Some(mut screen) = app.report.take() else { return };
    let full = frame.area();
    let area = Rect { height: full.height.saturating_sub(1), ..full };
    frame.render_widget(Clear, area);
    let report = &screen.report;
    let mut lines = vec![(format!(" REPORT by {} ", report.query.by.name()), app.theme.not_live())];
    let (columns, mark) = (usize::from(area.width), app.theme.cut());
    let head = report_head(report, app.time.show).into_iter().take(MAX_HEAD);
    lines.extend(head.map(|line| (safe(&line), Style::new())));
    let most_notes = usize::from(area.height).saturating_sub(lines.len() + 6);
    let notes: Vec<String> = report_notes(report).iter().take(most_notes).map(|note| safe(note)).collect();
    let rows = usize::from(area.height).saturating_sub(lines.len() + 1 + notes.len());
    let fields = report.fields(Screen { clock: app.time.clock, is_ascii: app.theme.ascii });
    let mut table = Columns::new(&fields, &report.rows).lines(columns, mark).into_iter();
    drop(fields);
    screen.resize(rows);
    lines.extend(table.next().map(|titles| (titles, Theme::columns())));
    screen.first_line = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let in_view = table.enumerate().skip(screen.top).take(rows);
    lines.extend(in_view.map(|(at, line)| (line, report_row_style(app, &screen, at))));
    let first_note = area.bottom().saturating_sub(u16::try_from(notes.len()).unwrap_or(0));
    let notes = (first_note..area.bottom()).zip(notes.into_iter().map(|note| (note, Theme::dim())));
    let buffer = frame.buffer_mut();
    for (y, (line, style)) in (area.top()..area.bottom()).zip(lines).chain(notes) {
        // The title is a mark, other styles fill their lines.
        if y > area.y {
            buffer.set_style(Rect { y, height: 1, ..area }, style);
        }
        buffer.set_stringn(area.x, y, clip(&line, columns, mark), columns, style);
    }
    app.report = Some(screen);
}

fn report_row_style(app: &App, screen: &ReportScreen, at: usize) -> Style {
    let is_group = screen.report.rows.get(at).is_some_and(|row| row.kind.is_group());
    match (at == screen.at, is_group) {
        (true, _) => app.theme.selected(),
        (false, true) => Style::new(),
        (false, false) => Theme::dim(),
    }
}
