//! What stands for what. In: labels with their colours. Out: rows of them above the values; what finds no room is counted.

use super::frame::{Frame, PAD, point};
use super::svg::{Anchor, Svg, Type};
use super::{Ink, Stroke, Theme, table, text};

const SIZE: f64 = 12.0;
/// Height of a row.
pub(super) const ROW: f64 = 19.0;
/// Dashes of lines whose colour was there before.
const DASHES: [&str; 4] = ["", "7 3", "2 2", "9 3 2 3"];

/// What is drawn in one way.
#[derive(Copy, Clone, Debug)]
pub(super) struct Mark<'a> {
    pub(super) label: &'a str,
    pub(super) ink: &'a Ink,
    pub(super) stroke: Stroke,
}

impl Mark<'_> {
    pub(super) fn color(&self, theme: Theme) -> &'static str {
        table::color(self.ink, theme)
    }

    fn dash(&self) -> &'static str {
        match (self.stroke, self.ink) {
            (Stroke::Dashed, _) => "4 3",
            (_, Ink::Nth(nth)) => DASHES[nth / table::line_colors() % DASHES.len()],
            _ => "",
        }
    }

    /// Attributes of a path.
    pub(super) fn stroke(&self, theme: Theme) -> String {
        let width = if self.stroke == Stroke::Dashed { "1" } else { "1.5" };
        let (ink, dash) = (self.color(theme), self.dash());
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        format!("fill=\"none\" stroke=\"{ink}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}")
    }
}

/// One that has its place.
struct Entry<'a> {
    mark: Mark<'a>,
    x: f64,
    row: usize,
    shown: String,
}

/// A legend that was laid out.
pub(super) struct Legend<'a> {
    entries: Vec<Entry<'a>>,
    rows: usize,
    left_out: usize,
}

impl<'a> Legend<'a> {
    pub(super) fn new(marks: impl ExactSizeIterator<Item = Mark<'a>>, width: f64, most_rows: usize) -> Self {
        let (mut x, mut row, count) = (PAD, 0, marks.len());
        let mut legend = Self { entries: Vec::new(), rows: 0, left_out: 0 };
        for (nth, mark) in marks.enumerate() {
            let shown = text::fit(mark.label, SIZE, (width - 2.0 * PAD - 24.0).min(260.0));
            let wide = 36.0 + text::width(&shown, SIZE);
            // The last row keeps room for how many more there are.
            let room = width - PAD - if row + 1 == most_rows { 70.0 } else { 0.0 };
            if x + wide - 14.0 > room && x > PAD {
                (x, row) = (PAD, row + 1);
            }
            if row >= most_rows {
                legend.left_out = count - nth;
                break;
            }
            legend.entries.push(Entry { mark, x, row, shown });
            legend.rows = row + 1;
            x += wide;
        }
        legend
    }

    pub(super) fn height(&self) -> f64 {
        self.rows as f64 * ROW
    }

    pub(super) fn draw(&self, svg: &mut Svg, frame: &Frame<'_>) {
        let theme = frame.options.theme;
        for Entry { mark, x, row, shown } in &self.entries {
            let y = frame.head() + *row as f64 * ROW + 5.0;
            if mark.stroke == Stroke::Area {
                let fill = format!("rx=\"2\" fill=\"{}\"", mark.color(theme));
                svg.rect((*x, y - 5.0), (14.0, 10.0), &fill);
            } else {
                svg.raw(&format!("<path d=\"M{}h14\" {}/>", point(*x, y), mark.stroke(theme)));
            }
            svg.text((x + 19.0, y + 4.0), shown, Type { color: frame.color("text"), ..Type::default() });
        }
        if let (1.., Some(Entry { x, row, shown, .. })) = (self.left_out, self.entries.last()) {
            let x = x + 36.0 + text::width(shown, SIZE);
            let y = frame.head() + *row as f64 * ROW + 9.0;
            svg.text((x, y), &format!("and {} more", self.left_out), frame.dim(Anchor::Start));
        }
    }
}
