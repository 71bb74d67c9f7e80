//! The legend above the values: labels with their colours. Labels that do not fit are counted.

use super::data::{Ink, Stroke};
use super::frame::{Frame, PAD, point};
use super::geometry::{Area, at};
use super::options::Theme;
use super::svg::{Anchor, Svg, TextStyle};
use super::{palette, text};

const SIZE: f64 = 12.0;
/// Height of a row.
pub(super) const ROW: f64 = 19.0;
/// Dashes of lines, by how often their colour was used before.
const DASHES: [&str; 4] = ["", "7 3", "2 2", "9 3 2 3"];

/// A label and how its values are drawn.
#[derive(Copy, Clone, Debug)]
pub(super) struct Mark<'a> {
    pub(super) label: &'a str,
    pub(super) ink: &'a Ink,
    pub(super) stroke: Stroke,
}

impl Mark<'_> {
    pub(super) fn color(&self, theme: Theme) -> &'static str {
        palette::color(self.ink, theme)
    }

    fn dash(&self) -> &'static str {
        match (self.stroke, self.ink) {
            (Stroke::Dashed, _) => "4 3",
            (_, Ink::Nth(nth)) => DASHES[nth / palette::line_colors() % DASHES.len()],
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

/// A mark with its position.
struct Entry<'a> {
    mark: Mark<'a>,
    x: f64,
    row: usize,
    shown: String,
}

/// A legend with the position of each mark.
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
            // The last row leaves space for the number of labels that do not fit.
            let end = width - PAD - if row + 1 == most_rows { 70.0 } else { 0.0 };
            if x + wide - 14.0 > end && x > PAD {
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
                svg.rect(Area { left: *x, top: y - 5.0, width: 14.0, height: 10.0 }, &fill);
            } else {
                svg.raw(&format!("<path d=\"M{}h14\" {}/>", point(*x, y), mark.stroke(theme)));
            }
            svg.text(
                at(x + 19.0, y + 4.0),
                shown,
                TextStyle { color: frame.color("text"), ..TextStyle::default() },
            );
        }
        if let (1.., Some(Entry { x, row, shown, .. })) = (self.left_out, self.entries.last()) {
            let x = x + 36.0 + text::width(shown, SIZE);
            let y = frame.head() + *row as f64 * ROW + 9.0;
            svg.text(at(x, y), &format!("and {} more", self.left_out), frame.dim(Anchor::Start));
        }
    }
}
