//! Writes SVG. Every text passes [`escape_xml`], and numbers are short and the same on every machine. Texts have the width that they have
//! in the font that is embedded here, so that legends, names and reasons do not run into each other. resvg renders the SVG as PNG with
//! that font, so the bytes are the same on every machine, whatever fonts it has.

use std::fmt::{Display, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cpumon_model::escape;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};
use unicode_width::UnicodeWidthChar;

use crate::ExportError;

#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

pub(super) fn at(x: f64, y: f64) -> Point {
    Point { x, y }
}

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

#[derive(Debug, Default)]
pub(super) struct Svg(String);

/// Which part of a text is at its point.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Anchor {
    #[default]
    Start,
    Middle,
    End,
}

#[derive(Copy, Clone, Debug, Default)]
pub(super) struct TextStyle<'a> {
    pub(super) anchor: Anchor,
    pub(super) color: &'a str,
    /// Pixels; 0 is the default of 12.
    pub(super) size: u32,
    pub(super) is_bold: bool,
}

/// Makes a text from another machine harmless: spells out control and invisible characters, quotes markup, and replaces
/// characters that XML cannot have.
pub(super) fn escape_xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in escape(text).to_string().chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML 1.0 excludes these two; `escape` has spelled out the control characters.
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A number with at most one decimal.
pub(super) struct Num(pub(super) f64);

impl Display for Num {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = (self.0 * 10.0).round();
        if !tenths.is_finite() {
            f.write_char('0')
        } else if tenths % 10.0 == 0.0 {
            // Without the sign of a negative zero.
            write!(f, "{}", tenths / 10.0 + 0.0)
        } else {
            write!(f, "{:.1}", tenths / 10.0)
        }
    }
}

impl Svg {
    /// Begins a document; screen readers read `title`.
    pub(super) fn new(width: f64, height: f64, title: &str, background: &str) -> Self {
        let (w, h) = (Num(width), Num(height));
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             font-family=\"Inter, system-ui, sans-serif\" font-size=\"12\"><title>{}</title>\n\
             <rect width=\"{w}\" height=\"{h}\" fill=\"{background}\"/>\n",
            escape_xml(title)
        ))
    }

    /// Adds markup of this crate, never a text from another machine.
    pub(super) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
        self.0.push('\n');
    }

    pub(super) fn rect(&mut self, area: Area, attributes: &str) {
        let (x, y) = (Num(area.left), Num(area.top));
        let (width, height) = (Num(area.width.max(0.0)), Num(area.height.max(0.0)));
        let _infallible = writeln!(
            self.0,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {attributes}/>"
        );
    }

    pub(super) fn line(&mut self, from: Point, to: Point, color: &str) {
        let (x1, y1, x2, y2) = (Num(from.x), Num(from.y), Num(to.x), Num(to.y));
        let _infallible =
            writeln!(self.0, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{color}\"/>");
    }

    pub(super) fn text(&mut self, point: Point, text: &str, style: TextStyle<'_>) {
        let anchor = match style.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let size = if style.size == 0 { String::new() } else { format!(" font-size=\"{}\"", style.size) };
        let bold = if style.is_bold { " font-weight=\"600\"" } else { "" };
        let (x, y, text) = (Num(point.x), Num(point.y), escape_xml(text));
        let color = style.color;
        let _infallible =
            writeln!(self.0, "<text x=\"{x}\" y=\"{y}\"{anchor}{size}{bold} fill=\"{color}\">{text}</text>");
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// Width of U+0020 to U+007E in the font, thousandths of its size. A test holds it against the font.
pub(super) const ASCII: [u16; 95] = [
    274, 296, 480, 636, 644, 987, 648, 306, 367, 367, 511, 665, 296, 461, 296, 365, 638, 411, 613, 622, 651,
    598, 625, 568, 624, 625, 296, 309, 665, 665, 665, 519, 974, 699, 656, 732, 722, 602, 590, 747, 744, 271,
    573, 680, 565, 908, 755, 766, 640, 767, 646, 644, 649, 742, 699, 994, 691, 688, 635, 367, 365, 367, 474,
    459, 330, 564, 615, 574, 615, 585, 375, 616, 597, 247, 247, 554, 247, 882, 596, 602, 615, 615, 382, 533,
    333, 597, 568, 824, 552, 569, 556, 434, 339, 434, 665,
];
/// Width of a character outside of the table, thousandths of the font size.
const OTHER: u16 = 680;
/// Width of wide characters (East Asian Wide and Fullwidth).
const WIDE: u16 = 1000;
/// The viewer of an SVG may have another font, which is wider.
const SLACK: f64 = 1.08;

fn thousandths(c: char) -> u16 {
    let at = (c as usize).checked_sub(0x20);
    at.and_then(|at| ASCII.get(at)).copied().unwrap_or_else(|| match c.width() {
        Some(2) => WIDE,
        Some(0) => 0,
        _ => OTHER,
    })
}

/// Width in pixels, with some slack for other fonts.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let all: u64 = escape(text).to_string().chars().map(|c| u64::from(thousandths(c))).sum();
    all as f64 / 1000.0 * size * SLACK
}

/// The escaped text, cut with `…` at its end if it is wider than `max` pixels.
pub(super) fn fit_text(text: &str, size: f64, max: f64) -> String {
    let shown = escape(text).to_string();
    if text_width(&shown, size) <= max {
        return shown;
    }
    let mut left = max - text_width("…", size);
    let fitting = shown.chars().take_while(|c| {
        left -= f64::from(thousandths(*c)) / 1000.0 * size * SLACK;
        left >= 0.0
    });
    let fitting: String = fitting.collect();
    format!("{}…", fitting.trim_end())
}

/// Pixels of the PNG for each pixel of the SVG.
const SCALE: f32 = 2.0;
const FAMILY: &str = "Inter";

/// The embedded font, and no other.
fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    Arc::clone(FONTS.get_or_init(|| {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(include_bytes!("font/Inter-chart.ttf").to_vec());
        fonts.set_sans_serif_family(FAMILY);
        Arc::new(fonts)
    }))
}

/// Renders a document of this crate. One at a time: the largest picture has 4800 x 4800 pixels, 92 MB.
pub(super) fn png(document: &str) -> Result<Vec<u8>, ExportError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let options = Options { font_family: FAMILY.to_owned(), fontdb: fonts(), ..Options::default() };
    let failed = |reason: String| ExportError::Picture { reason };
    let tree = Tree::from_str(document, &options).map_err(|error| failed(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| failed("no size".into()))?;
    let mut pixmap =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| failed("too many pixels".into()))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixmap.as_mut());
    encode(pixmap).map_err(|error| failed(error.to_string()))
}

/// `Pixmap::encode_png` without its copy of all pixels.
fn encode(pixmap: Pixmap) -> Result<Vec<u8>, ::png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, pixmap.width(), pixmap.height());
    encoder.set_color(::png::ColorType::Rgba);
    encoder.set_depth(::png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixmap.take_demultiplied())?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use resvg::tiny_skia::Color;

    use super::*;

    #[test]
    fn numbers_are_short_and_never_wrong() {
        for (value, text) in [
            (1.0, "1"),
            (-0.01, "0"),
            (0.05, "0.1"),
            (12.34, "12.3"),
            (-7.26, "-7.3"),
            (f64::NAN, "0"),
            (f64::INFINITY, "0"),
        ] {
            assert_eq!(Num(value).to_string(), text);
        }
    }

    #[test]
    fn hostile_text_is_only_text() {
        for text in [
            "'; DROP TABLE--",
            "<script>alert(1)</script>",
            "]]>",
            "\" onload=\"x",
            "&lt;",
            "\u{1b}[2J\u{202e}\0\u{fffe}\u{ffff}",
            "<!ENTITY x SYSTEM \"file:///etc/passwd\">",
        ] {
            let safe = escape_xml(text);
            assert!(!safe.contains(['<', '>', '"', '\'']), "{safe}");
            assert!(!safe.chars().any(|c| c.is_control() || c == '\u{202e}' || c >= '\u{fffe}'), "{safe}");
            assert!(safe.split('&').skip(1).all(|rest| rest.contains(';')), "{safe}");
        }
        assert_eq!(escape_xml("a<b>&'\"\u{1b}"), "a&lt;b&gt;&amp;&#39;&quot;\\x1b");
    }

    #[test]
    fn a_text_is_cut_to_what_fits() {
        assert_eq!(fit_text("postgres", 12.0, 200.0), "postgres");
        let cut = fit_text(&"x".repeat(5000), 12.0, 100.0);
        assert!(cut.ends_with('…') && text_width(&cut, 12.0) <= 100.0, "{cut}");
        assert_eq!(fit_text("anything", 12.0, 0.0), "…");
        assert!(text_width("日本", 12.0) > text_width("ab", 12.0));
        assert_eq!(fit_text("a\u{1b}b", 12.0, 200.0), "a\\x1bb");
    }

    #[test]
    fn pixels_are_encoded_as_the_renderer_does_it() {
        let mut pixmap = Pixmap::new(7, 5).unwrap();
        pixmap.fill(Color::from_rgba8(200, 100, 50, 128));
        assert_eq!(encode(pixmap.clone()).unwrap(), pixmap.encode_png().unwrap());
    }
}
