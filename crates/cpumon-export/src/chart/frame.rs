//! What every chart has. In: a chart, its options, where the values are to be. Out: title, range, unit, time axis, holes with their
//! reasons, notes. Why: charts look alike, and no chart can leave out why there is no data.

use super::svg::{Anchor, Num, Svg, Type};
use super::{Chart, Hole, Ink, RenderOptions, axis, table, text};

pub(super) const PAD: f64 = 16.0;
const TITLE_SIZE: f64 = 15.0;
const SIZE: f64 = 12.0;
/// Height of title and range; the unit may need a line of its own.
const HEAD: f64 = 56.0;
const HEAD_LINE: f64 = 18.0;
const TIME_AXIS: f64 = 24.0;
const NOTE: f64 = 17.0;
/// Ticks of time are no closer.
const TICK_ROOM: f64 = 84.0;
const PLATE_HEIGHT: f64 = 20.0;
/// Holes named below at most.
const MAX_NAMED: usize = 3;

/// The place of the values.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// A chart being drawn.
pub(super) struct Frame<'c> {
    pub(super) chart: &'c Chart,
    pub(super) options: &'c RenderOptions,
    pub(super) width: f64,
    left: f64,
    right: f64,
    has_times: bool,
    head: f64,
    notes: Vec<String>,
}

impl<'c> Frame<'c> {
    /// `sides`: of a width, the room before and behind the values.
    pub(super) fn new(
        chart: &'c Chart,
        options: &'c RenderOptions,
        sides: impl FnOnce(f64) -> (f64, f64),
    ) -> Self {
        Self::with(chart, options, sides, true)
    }

    /// Of values that are no line of time.
    pub(super) fn without_times(chart: &'c Chart, options: &'c RenderOptions) -> Self {
        Self::with(chart, options, |_| (PAD, PAD), false)
    }

    fn with(
        chart: &'c Chart,
        options: &'c RenderOptions,
        sides: impl FnOnce(f64) -> (f64, f64),
        has_times: bool,
    ) -> Self {
        let width = f64::from(options.width.unwrap_or(1200));
        let (left, right) = sides(width);
        let mut frame = Self { chart, options, width, left, right, has_times, head: HEAD, notes: Vec::new() };
        frame.head += (frame.below_title().len() - 1) as f64 * HEAD_LINE;
        frame.notes.extend(frame.holes_without_room());
        frame.notes.extend(chart.notes.iter().cloned());
        frame
    }

    pub(super) fn color(&self, name: &'static str) -> &'static str {
        table::color(&Ink::Named(name), self.options.theme)
    }

    pub(super) fn plot_width(&self) -> f64 {
        (self.width - self.left - self.right).max(10.0)
    }

    /// Height of all but the values and what stands between them and the head.
    pub(super) fn around(&self) -> f64 {
        let times = if self.has_times { TIME_AXIS } else { 0.0 };
        self.head + times + self.notes.len() as f64 * NOTE + 10.0
    }

    pub(super) fn x(&self, ms: f64) -> f64 {
        let length_ms = (self.chart.until_ms - self.chart.since_ms).max(1e-3);
        let share = ((ms - self.chart.since_ms) / length_ms).clamp(0.0, 1.0);
        self.left + share * self.plot_width()
    }

    /// Begins the document: background, title, range, unit.
    pub(super) fn begin(&self, height: f64) -> Svg {
        let mut svg = Svg::new(self.width, height, &self.chart.title, self.color("panel"));
        svg.raw(&format!(
            "<defs><pattern id=\"hole\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\">\
             <path d=\"M-1 8L8 -1M-1 1L1 -1M6 8L8 6\" stroke=\"{}\" fill=\"none\"/></pattern></defs>",
            self.color("line")
        ));
        let room = self.width - 2.0 * PAD;
        let title = Type { color: self.color("text"), size: 15, is_bold: true, ..Type::default() };
        svg.text((PAD, 25.0), &text::fit(&self.chart.title, TITLE_SIZE * 1.05, room), title);
        for (nth, line) in self.below_title().iter().enumerate() {
            let y = 44.0 + nth as f64 * HEAD_LINE;
            svg.text((PAD, y), &text::fit(line, SIZE, room), self.dim(Anchor::Start));
        }
        svg
    }

    pub(super) fn dim(&self, anchor: Anchor) -> Type<'static> {
        Type { anchor, color: self.color("dim"), ..Type::default() }
    }

    /// `2026-11-21 14:05:00 – 15:05:00 UTC · %CPU: 100 = one CPU`, in two lines where it is narrow.
    fn below_title(&self) -> Vec<String> {
        let (zone, chart) = (&self.options.zone, self.chart);
        let (since, until) = (zone.moment(chart.since_ms), zone.moment(chart.until_ms));
        let is_same_day = zone.date(chart.since_ms) == zone.date(chart.until_ms);
        let until = if is_same_day { until.get(11..).unwrap_or(&until).to_owned() } else { until };
        let range = format!("{since} – {until} {}", zone.label(chart.since_ms));
        let both = format!("{range} · {}", chart.unit);
        let has_room = text::width(&both, SIZE) <= self.width - 2.0 * PAD;
        if has_room { vec![both] } else { vec![range, chart.unit.clone()] }
    }

    /// Where the values stand, below `top`.
    pub(super) fn area(&self, top: f64, height: f64) -> Area {
        Area { left: self.left, top: self.head + top, width: self.plot_width(), height }
    }

    pub(super) fn head(&self) -> f64 {
        self.head
    }

    /// Adds a note below; before anything is measured or drawn.
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The edges of a hole, if any of it is to be seen.
    fn edges(&self, hole: &Hole) -> Option<(f64, f64)> {
        let is_outside = hole.end_ms <= self.chart.since_ms || hole.begin_ms >= self.chart.until_ms;
        let (from, to) = (self.x(hole.begin_ms), self.x(hole.end_ms));
        let seen = (from, to.max(from + 1.5).min(self.left + self.plot_width()).max(from));
        (!is_outside && hole.end_ms > hole.begin_ms).then_some(seen)
    }

    pub(super) fn has_room(&self, hole: &Hole) -> bool {
        if !self.has_times {
            return false;
        }
        let room = self.edges(hole).map_or(0.0, |(from, to)| to - from);
        text::width(&hole.reason, SIZE) + 20.0 <= room
    }

    /// What the reasons are that find no room in their holes.
    fn holes_without_room(&self) -> Option<String> {
        let seen = self.chart.holes.iter().filter(|hole| self.edges(hole).is_some());
        let small: Vec<&Hole> = seen.filter(|hole| !self.has_room(hole)).collect();
        let zone = &self.options.zone;
        let named = small.iter().take(MAX_NAMED).map(|hole| {
            let (from, to) = (zone.second(hole.begin_ms), zone.second(hole.end_ms));
            // The note says that there is no data.
            let reason = if hole.reason == "no data" { String::new() } else { format!(" ({})", hole.reason) };
            format!("{from} – {to}{reason}")
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let more = small.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!small.is_empty()).then(|| format!("No data: {named}{more}"))
    }

    /// Hatched, over the grid.
    pub(super) fn holes(&self, svg: &mut Svg, holes: &[Hole], area: Area) {
        for (from, to) in holes.iter().filter_map(|hole| self.edges(hole)) {
            let (place, size) = ((from, area.top), (to - from, area.height));
            svg.rect(place, size, &format!("fill=\"{}\"", self.color("panel")));
            svg.rect(place, size, "fill=\"url(#hole)\"");
        }
    }

    /// Why, on a plate of its own: nothing runs through the text.
    pub(super) fn reasons(&self, svg: &mut Svg, holes: &[Hole], area: Area) {
        let middle = middle_of(area);
        for hole in holes.iter().filter(|hole| self.has_room(hole)) {
            if let Some((from, to)) = self.edges(hole) {
                self.plate(svg, f64::midpoint(from, to), middle, &hole.reason);
            }
        }
    }

    /// That there is nothing to see, and why.
    pub(super) fn emptiness(&self, svg: &mut Svg, said: Option<&str>, area: Area) {
        if let Some(said) = said {
            let shown = text::fit(said, SIZE, area.width - 20.0);
            self.plate(svg, area.left + area.width / 2.0, middle_of(area), &shown);
        }
    }

    fn plate(&self, svg: &mut Svg, x: f64, middle: f64, shown: &str) {
        let width = text::width(shown, SIZE) + 14.0;
        let fill = format!("rx=\"4\" fill=\"{}\"", self.color("panel"));
        svg.rect((x - width / 2.0, middle - PLATE_HEIGHT / 2.0), (width, PLATE_HEIGHT), &fill);
        svg.text((x, middle + 4.0), shown, self.dim(Anchor::Middle));
    }

    fn time_axis(&self, svg: &mut Svg, area: Area) {
        let range = (self.chart.since_ms, self.chart.until_ms);
        let line = self.color("line");
        svg.line((area.left, area.bottom()), (area.right(), area.bottom()), self.color("dim"));
        for (at_ms, label) in axis::moments(range, &self.options.zone, (area.width, TICK_ROOM)) {
            let x = self.x(at_ms);
            let half = text::width(&label, SIZE) / 2.0;
            let centre = x.clamp(PAD + half, self.width - PAD / 2.0 - half);
            svg.line((x, area.bottom()), (x, area.bottom() + 5.0), line);
            svg.text((centre, area.bottom() + 18.0), &label, self.dim(Anchor::Middle));
        }
    }

    /// Time axis and notes; the document is done.
    pub(super) fn finish(&self, mut svg: Svg, area: Area) -> String {
        let mut below = area.bottom() + 14.0;
        if self.has_times {
            self.time_axis(&mut svg, area);
            below += TIME_AXIS;
        }
        for (nth, note) in self.notes.iter().enumerate() {
            let shown = text::fit(note, SIZE, self.width - 2.0 * PAD);
            svg.text((PAD, below + nth as f64 * NOTE), &shown, self.dim(Anchor::Start));
        }
        svg.finish()
    }
}

fn middle_of(area: Area) -> f64 {
    area.top + area.height.min(400.0) / 2.0
}

/// A corner of a path.
pub(super) fn point(x: f64, y: f64) -> String {
    format!("{} {}", Num(x), Num(y))
}
