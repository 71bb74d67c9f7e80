//! The grid: titles and the rows in view. Only rows in view are formatted. Each cell is written at the position of its column, so a
//! wide name cannot move others.

use cpumon_model::Interval;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::app::{App, Clock};
use crate::cells::Cells;
use crate::columns::{ColumnPlace, choose};
use crate::rows::{Fold, GridRow, Item, RowKind};
use crate::text::{clip, contains, part, width};
use crate::theme::Theme;
use crate::view::{Col, View, no_such_user};

/// Most levels of the tree that are indented; deeper rows have the indentation of the last one.
const MAX_DEPTH: u16 = 16;

/// A row in view and its line of the screen.
struct ShownRow<'r> {
    row: &'r GridRow,
    item: &'r Item<'r>,
    line: Rect,
}

pub(crate) fn draw(app: &mut App, area: Rect, buffer: &mut Buffer) {
    let Some(shown) = app.shown.clone() else { return };
    if area.height == 0 {
        return;
    }
    app.cursor.resize(usize::from(area.height - 1), app.rows.rows.len());
    let largest = shown.threads.iter().map(|row| row.key.tid);
    let largest = largest.chain(shown.processes.iter().map(|row| row.key.pid)).max().unwrap_or(1);
    let places = choose(&app.view, area.width, largest);
    draw_titles(app, &places, area, buffer);
    app.grid = (area, places.clone());
    // Totals include everything until now: next to a moment in the past they would be wrong.
    let seen = (app.clock == Clock::Live).then_some(&app.seen);
    let cells = Cells::new(&shown, &app.view, app.theme, seen);
    let mut has_more = false;
    let in_view = app.rows.rows.iter().enumerate().skip(app.cursor.top);
    for (y, (at, row)) in (area.y + 1..area.bottom()).zip(in_view) {
        let Some(item) = app.rows.item(&shown, row) else { continue };
        let line = Rect { y, height: 1, ..area };
        let is_selected = app.cursor.is_present && app.cursor.at == at;
        let style = if is_selected { app.theme.selected() } else { row_style(&item) };
        buffer.set_style(line, style);
        has_more |= draw_row(app, &cells, &ShownRow { row, item: &item, line }, &places, buffer);
    }
    app.command.has_more = has_more;
    if app.rows.rows.is_empty() && area.height > 2 {
        let columns = usize::from(area.width).saturating_sub(1);
        let text = clip(&why_empty(&app.view, &shown), columns, app.theme.cut());
        buffer.set_stringn(area.x + 1, area.y + 1, text, columns, Theme::dim());
    }
}

fn why_empty(view: &View, shown: &Interval) -> String {
    if let Some(hint) = view.user.as_ref().and_then(|user| no_such_user(shown, user)) {
        return format!("{hint} (Esc shows all)");
    }
    let is_filtered = !view.filter.is_empty() || !view.pids.is_empty() || view.user.is_some();
    let text =
        if is_filtered { "no row matches the filter (Esc clears it)" } else { "this interval has no rows" };
    text.into()
}

fn row_style(item: &Item<'_>) -> Style {
    let is_over = match item {
        Item::Group(_) => false,
        Item::Process(process) => process.life.has_ended(),
        Item::Thread(thread) => thread.life.has_ended(),
    };
    if is_over || item.delta().is_zero() { Theme::dim() } else { Style::new() }
}

fn draw_titles(app: &App, places: &[ColumnPlace], area: Rect, buffer: &mut Buffer) {
    buffer.set_style(Rect { height: 1, ..area }, Theme::columns());
    for place in places {
        let mut title = place.col.title(&app.view).to_string();
        let is_sorted = place.col == app.sorted_by();
        if is_sorted && title.len() < usize::from(place.width) {
            title.push(app.theme.arrow(app.view.is_rising()));
        }
        let style = if is_sorted { Theme::sorted() } else { Theme::columns() };
        put(&title, *place, area.x, area.y, style, app, buffer);
    }
}

fn put(text: &str, place: ColumnPlace, left: u16, y: u16, style: Style, app: &App, buffer: &mut Buffer) {
    let columns = usize::from(place.width);
    let shown = clip(text, columns, app.theme.cut());
    let indent = if place.col.is_number() { columns.saturating_sub(width(&shown)) } else { 0 };
    let x = left + place.x + u16::try_from(indent).unwrap_or(0);
    if x < buffer.area.right() {
        buffer.set_stringn(x, y, shown, columns, style);
    }
}

/// Returns whether its command line continues to the right.
fn draw_row(
    app: &App,
    cells: &Cells<'_>,
    shown: &ShownRow<'_>,
    places: &[ColumnPlace],
    buffer: &mut Buffer,
) -> bool {
    let mut has_more = false;
    for place in places {
        if place.col == Col::Name {
            has_more = draw_name(app, cells, shown, *place, buffer);
        } else {
            let ShownRow { item, line, .. } = *shown;
            let text = match place.col {
                Col::Wait => cells.wait_text(item, usize::from(place.width)),
                col => cells.text(item, col),
            };
            put(&text, *place, line.x, line.y, Style::new(), app, buffer);
        }
    }
    has_more
}

/// Draws the name after its tree lines and fold mark. Its scheduling follows where it is not the default; then the command line or the
/// interpreter of a script, in a flat list of threads the name of the process. Returns whether a command line continues to the right.
fn draw_name(
    app: &App,
    cells: &Cells<'_>,
    shown: &ShownRow<'_>,
    place: ColumnPlace,
    buffer: &mut Buffer,
) -> bool {
    let ShownRow { row, item, line } = *shown;
    let mut lead = guides(app, row);
    match row.fold {
        Fold::Leaf => {}
        Fold::Closed => lead.push_str(app.theme.fold(false)),
        Fold::Open => lead.push_str(app.theme.fold(true)),
    }
    if row.fold != Fold::Leaf {
        lead.push(' ');
    }
    let columns = usize::from(place.width);
    // At any depth, eight columns remain for the name.
    let lead = clip(&lead, columns.saturating_sub(8), app.theme.cut());
    let name = cells.text(item, Col::Name);
    let command = cells.command(item);
    let needle = app.search.to_ascii_lowercase();
    let is_found = !needle.is_empty()
        && (contains(&name, &needle) || command.is_some_and(|command| contains(command, &needle)));
    let style = if is_found {
        Style::new().add_modifier(Modifier::UNDERLINED | Modifier::BOLD)
    } else {
        Style::new()
    };
    let x = line.x + place.x;
    let (x, _) = buffer.set_stringn(x, line.y, &lead, columns, Theme::dim());
    let left = usize::from((line.x + place.x + place.width).saturating_sub(x));
    let (x, _) = buffer.set_stringn(x, line.y, clip(&name, left, app.theme.cut()), left, style);
    let mut left = usize::from((line.x + place.x + place.width).saturating_sub(x));
    let mut x = x;
    let below = if let RowKind::Branch(at) = row.kind { app.rows.branches.get(at as usize) } else { None };
    let notes = [
        below.map(|branch| format!(" +{}", branch.below)),
        cells.scheduling(item).map(|words| format!(" ({words})")),
    ];
    for note in notes.iter().flatten() {
        if width(note) > left {
            continue;
        }
        (x, _) = buffer.set_stringn(x, line.y, note, left, Theme::dim());
        left = usize::from((line.x + place.x + place.width).saturating_sub(x));
    }
    if let Some(command) = command {
        let Some(left) = left.checked_sub(2) else { return !command.is_empty() };
        let part = part(command, app.command.from, left, app.theme.cut());
        buffer.set_stringn(x + 2, line.y, part.text, left, style.add_modifier(Modifier::DIM));
        return part.has_more;
    }
    let beside = owner_name(app, cells, item, &name).or_else(|| Cells::interpreter(item));
    if let Some(beside) = beside.filter(|_| left > 6) {
        let text = clip(&format!("  {beside}"), left, app.theme.cut());
        buffer.set_stringn(x, line.y, text, left, Theme::dim());
    }
    false
}

/// The name of a thread's process in a flat list, unless it is the same.
fn owner_name(app: &App, cells: &Cells<'_>, item: &Item<'_>, name: &str) -> Option<String> {
    let Item::Thread(thread) = item else { return None };
    let process = cells.interval.process(thread.process).filter(|_| app.view.is_flat_threads())?;
    let owner = cells.text(&Item::Process(process), Col::Name);
    let is_same = owner == name || (process.info.is_kernel && process.info.name.starts_with(name));
    (!is_same).then_some(owner)
}

fn guides(app: &App, row: &GridRow) -> String {
    if row.depth == 0 {
        return String::new();
    }
    let [on, off, middle, last] = app.theme.guides();
    let depth = row.depth.min(MAX_DEPTH);
    let mut text = String::new();
    for level in 1..depth {
        text.push_str(if row.guides & (1 << level) != 0 { on } else { off });
    }
    text.push_str(if row.is_last { last } else { middle });
    if matches!(row.kind, RowKind::Thread(_)) {
        text.push(if app.theme.ascii { ':' } else { '·' });
    }
    text
}
