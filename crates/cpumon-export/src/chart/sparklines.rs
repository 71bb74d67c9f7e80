//! Small lines below one another. In: a line each, all on one scale. Out: a row each with its name, its line and what it comes to.

use super::frame::{Area, Frame, PAD};
use super::lines::Plane;
use super::svg::{Anchor, Svg, Type};
use super::{Chart, Hole, RenderOptions, Sparkline, text};

const SIZE: f64 = 12.0;
/// Height of a row: where nobody says, between these.
const ROW: (f64, f64) = (26.0, 120.0);
/// Height that few rows are stretched to.
const FEW: f64 = 260.0;
/// As high as a picture gets by itself.
const HIGHEST: f64 = 2700.0;
/// Below this rows are too low for their names: some are left out.
const NAME_ROOM: f64 = 12.0;
/// Reasons stand in rows of this height; of lower ones below.
const REASON_ROOM: f64 = 22.0;
/// Above the rows: what the numbers are, and the scale.
const TITLES: f64 = 18.0;
/// Of a number.
const NUMBER: f64 = 46.0;
/// A narrower picture has no mean.
const NARROW: f64 = 560.0;
/// Reasons named below at most.
const MAX_REASONS: usize = 4;

/// What a row comes to.
type Figure = (&'static str, fn(&Sparkline) -> Option<f64>);

const FIGURES: [Figure; 3] = [("mean", |row| row.mean), ("last", last), ("peak", peak)];

fn last(row: &Sparkline) -> Option<f64> {
    row.values.iter().rev().flatten().next().copied()
}

/// Of single intervals, where they are known.
fn peak(row: &Sparkline) -> Option<f64> {
    row.highest.iter().chain(&row.values).flatten().copied().reduce(f64::max)
}

fn figures(width: f64) -> &'static [Figure] {
    if width < NARROW { &FIGURES[1..] } else { &FIGURES }
}

fn percent(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"))
}

/// Height of a row.
fn height_of_row(frame: &Frame<'_>, rows: usize, wanted: Option<u32>) -> f64 {
    let count = rows.max(1) as f64;
    let around = frame.around() + TITLES;
    let room = wanted.map_or_else(
        || ((FEW / count).clamp(ROW.0, ROW.1) * count).min(HIGHEST - around),
        |height| f64::from(height) - around,
    );
    (room / count).max(1.0)
}

/// Reasons that find no room in their rows, each once.
fn reasons_without_room(frame: &Frame<'_>, rows: &[Sparkline], row: f64) -> Option<String> {
    let has_room = |hole: &Hole| row >= REASON_ROOM && frame.has_room(hole);
    let mut reasons: Vec<&str> = Vec::new();
    for hole in rows.iter().flat_map(|one| &one.holes).filter(|hole| !has_room(hole)) {
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
    svg.text((area.left, y), &scale, frame.dim(Anchor::Start));
    for (nth, (title, _)) in figures(frame.width).iter().enumerate() {
        svg.text((area.right() + (nth + 1) as f64 * NUMBER, y), title, frame.dim(Anchor::End));
    }
}

/// Everything of a row but its texts.
fn line(svg: &mut Svg, frame: &Frame<'_>, one: &Sparkline, (area, max): (Area, f64)) {
    let ink = frame.color("user");
    let plane = Plane { frame, times: &one.times, area, max };
    frame.holes(svg, &one.holes, area);
    plane.band(svg, (&one.values, &one.highest), ink);
    plane.area(svg, &one.values, ink);
    svg.line((area.left, area.bottom()), (area.right(), area.bottom()), frame.color("line"));
}

fn texts(svg: &mut Svg, frame: &Frame<'_>, one: &Sparkline, area: Area) {
    let ink = Type { anchor: Anchor::End, color: frame.color("text"), ..Type::default() };
    let y = area.top + area.height / 2.0 + 4.0;
    svg.text((area.left - 8.0, y), &text::fit(&one.name, SIZE, area.left - 8.0 - PAD), ink);
    for (nth, (_, figure)) in figures(frame.width).iter().enumerate() {
        svg.text((area.right() + (nth + 1) as f64 * NUMBER, y), &percent(figure(one)), ink);
    }
}

/// See the module.
pub(super) fn draw(chart: &Chart, rows: &[Sparkline], max: f64, options: &RenderOptions) -> String {
    let rows = if chart.empty.is_some() { &[] } else { rows };
    let widest = rows.iter().map(|row| text::width(&row.name, SIZE)).fold(40.0_f64, f64::max);
    let mut frame = Frame::new(chart, options, |width| {
        let left = PAD + 8.0 + widest.min(width * 0.26);
        (left, PAD + figures(width).len() as f64 * NUMBER)
    });
    let first_guess = height_of_row(&frame, rows.len(), options.height);
    if let Some(note) = reasons_without_room(&frame, rows, first_guess) {
        frame.note(note);
    }
    let row = height_of_row(&frame, rows.len(), options.height);
    let area = frame.area(TITLES, row * rows.len().max(1) as f64);
    let reached = rows.iter().filter_map(peak).filter(|value| value.is_finite()).fold(max, f64::max);
    let mut svg = frame.begin(options.height.map_or(frame.around() + TITLES + area.height, f64::from));
    if !rows.is_empty() {
        titles(&mut svg, &frame, area, reached);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few rows")]
    let every = (NAME_ROOM / row).ceil().max(1.0) as usize;
    let between = if row > 8.0 { 3.0 } else { 0.0 };
    for (nth, one) in rows.iter().enumerate() {
        let top = area.top + nth as f64 * row;
        let place = Area { top: top + between, height: row - between, ..area };
        line(&mut svg, &frame, one, (place, reached));
        if nth.is_multiple_of(every) {
            texts(&mut svg, &frame, one, place);
        }
        if row >= REASON_ROOM {
            frame.reasons(&mut svg, &one.holes, place);
        }
        if let (Some(said), true) = (&one.empty, nth.is_multiple_of(every)) {
            // Nothing is drawn in such a row that the text could run into.
            let y = place.top + place.height / 2.0 + 4.0;
            let shown = text::fit(said, SIZE, place.width - 20.0);
            svg.text((place.left + place.width / 2.0, y), &shown, frame.dim(Anchor::Middle));
        }
    }
    frame.emptiness(&mut svg, chart.empty.as_deref(), area);
    frame.finish(svg, area)
}
