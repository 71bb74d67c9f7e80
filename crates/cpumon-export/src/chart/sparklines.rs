//! Small lines below one another, all on one scale, each with its name, mean, last and highest value.

use super::data::{Chart, Hole, Sparkline};
use super::frame::{Frame, PAD};
use super::geometry::{Area, at};
use super::lines::Plane;
use super::options::RenderOptions;
use super::svg::{Anchor, Svg, TextStyle};
use super::text;

const SIZE: f64 = 12.0;
/// Least and greatest height of a row, unless the picture has a given height.
const ROW: (f64, f64) = (26.0, 120.0);
/// Few rows are stretched to this height together.
const FEW: f64 = 260.0;
/// Greatest height of a picture without a given height.
const HIGHEST: f64 = 2700.0;
/// Least distance between two names: of lower rows, some names are left out.
const NAME_DISTANCE: f64 = 12.0;
/// Rows of at least this height have the reasons of their holes inside; those of lower rows are in a note.
const REASON_HEIGHT: f64 = 22.0;
/// Height of the line above the rows: the scale, and the titles of the numbers.
const TITLES: f64 = 18.0;
/// Width of a number.
const NUMBER: f64 = 46.0;
/// Pictures narrower than this leave out the mean.
const NARROW: f64 = 560.0;
/// Most reasons in the note.
const MAX_REASONS: usize = 4;

/// A number beside a row, with its title.
type Figure = (&'static str, fn(&Sparkline) -> Option<f64>);

const FIGURES: [Figure; 3] = [("mean", |row| row.mean), ("last", last), ("peak", peak)];

fn last(row: &Sparkline) -> Option<f64> {
    row.values.iter().rev().flatten().next().copied()
}

/// The highest single interval, where it is known.
fn peak(row: &Sparkline) -> Option<f64> {
    // The values too: `highest` has none where it is not known.
    row.highest.iter().chain(&row.values).flatten().copied().reduce(f64::max)
}

fn figures(width: f64) -> &'static [Figure] {
    if width < NARROW { &FIGURES[1..] } else { &FIGURES }
}

fn percent(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"))
}

fn height_of_row(frame: &Frame<'_>, rows: usize, wanted: Option<u32>) -> f64 {
    let count = rows.max(1) as f64;
    let around = frame.around() + TITLES;
    let height = wanted.map_or_else(
        || ((FEW / count).clamp(ROW.0, ROW.1) * count).min(HIGHEST - around),
        |height| f64::from(height) - around,
    );
    (height / count).max(1.0)
}

/// A note with the reasons that do not fit into their rows, each once.
fn reasons_without_space(frame: &Frame<'_>, rows: &[Sparkline], row: f64) -> Option<String> {
    let has_space = |hole: &Hole| row >= REASON_HEIGHT && frame.has_space(hole);
    let mut reasons: Vec<&str> = Vec::new();
    for hole in rows.iter().flat_map(|one| &one.holes).filter(|hole| !has_space(hole)) {
        if !reasons.contains(&&*hole.reason) {
            reasons.push(&hole.reason);
        }
    }
    let more = reasons.len().saturating_sub(MAX_REASONS);
    let named = reasons.iter().take(MAX_REASONS).copied().collect::<Vec<_>>().join(", ");
    let more = if more > 0 { format!(" and {more} other reasons") } else { String::new() };
    match reasons.as_slice() {
        [] => None,
        ["no data"] => Some("Hatched: no data.".to_owned()),
        _ => Some(format!("Hatched: no data ({named}{more}).")),
    }
}

fn titles(svg: &mut Svg, frame: &Frame<'_>, area: Area, max: f64) {
    let y = frame.head() + 8.0;
    let scale = text::fit(&format!("each row from 0 to {max:.0} %"), SIZE, area.width);
    svg.text(at(area.left, y), &scale, frame.dim(Anchor::Start));
    for (nth, (title, _)) in figures(frame.width).iter().enumerate() {
        svg.text(at(area.right() + (nth + 1) as f64 * NUMBER, y), title, frame.dim(Anchor::End));
    }
}

/// Draws a row without its texts.
fn line(svg: &mut Svg, frame: &Frame<'_>, one: &Sparkline, area: Area, max: f64) {
    let ink = frame.color("user");
    let plane = Plane { frame, times: &one.times, area, max };
    frame.holes(svg, &one.holes, area);
    plane.band(svg, &one.values, &one.highest, ink);
    plane.area(svg, &one.values, ink);
    svg.line(at(area.left, area.bottom()), at(area.right(), area.bottom()), frame.color("line"));
}

fn texts(svg: &mut Svg, frame: &Frame<'_>, one: &Sparkline, area: Area) {
    let style = TextStyle { anchor: Anchor::End, color: frame.color("text"), ..TextStyle::default() };
    let y = area.top + area.height / 2.0 + 4.0;
    svg.text(at(area.left - 8.0, y), &text::fit(&one.name, SIZE, area.left - 8.0 - PAD), style);
    for (nth, (_, figure)) in figures(frame.width).iter().enumerate() {
        svg.text(at(area.right() + (nth + 1) as f64 * NUMBER, y), &percent(figure(one)), style);
    }
}

/// Draws all rows with their names and numbers.
pub(super) fn draw(chart: &Chart, rows: &[Sparkline], max: f64, options: &RenderOptions) -> String {
    let rows = if chart.empty.is_some() { &[] } else { rows };
    let widest = rows.iter().map(|row| text::width(&row.name, SIZE)).fold(40.0_f64, f64::max);
    let mut frame = Frame::new(chart, options, |width| {
        let left = PAD + 8.0 + widest.min(width * 0.26);
        (left, PAD + figures(width).len() as f64 * NUMBER)
    });
    let first_guess = height_of_row(&frame, rows.len(), options.height);
    if let Some(note) = reasons_without_space(&frame, rows, first_guess) {
        frame.note(note);
    }
    // The note takes space itself, so the height is computed once more.
    let row = height_of_row(&frame, rows.len(), options.height);
    let area = frame.area(TITLES, row * rows.len().max(1) as f64);
    let reached = rows.iter().filter_map(peak).filter(|value| value.is_finite()).fold(max, f64::max);
    let mut svg = frame.begin(options.height.map_or(frame.around() + TITLES + area.height, f64::from));
    if !rows.is_empty() {
        titles(&mut svg, &frame, area, reached);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few rows")]
    let every = (NAME_DISTANCE / row).ceil().max(1.0) as usize;
    let between = if row > 8.0 { 3.0 } else { 0.0 };
    for (nth, one) in rows.iter().enumerate() {
        let top = area.top + nth as f64 * row;
        let place = Area { top: top + between, height: row - between, ..area };
        line(&mut svg, &frame, one, place, reached);
        if nth.is_multiple_of(every) {
            texts(&mut svg, &frame, one, place);
        }
        if row >= REASON_HEIGHT {
            frame.reasons(&mut svg, &one.holes, place);
        }
        if let (Some(reason), true) = (&one.empty, nth.is_multiple_of(every)) {
            // The row has no line, so the text needs no plate.
            let y = place.top + place.height / 2.0 + 4.0;
            let shown = text::fit(reason, SIZE, place.width - 20.0);
            svg.text(at(place.left + place.width / 2.0, y), &shown, frame.dim(Anchor::Middle));
        }
    }
    frame.emptiness(&mut svg, chart.empty.as_deref(), area);
    frame.finish(svg, area)
}
