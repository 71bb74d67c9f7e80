//! Writes SVG. Every text passes [`escape_xml`], and numbers are short and the same on every machine.

use std::fmt::{Display, Write};

use cpumon_model::escape;

use super::geometry::{Area, Point};

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

/// Colour, size and alignment of a text.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct TextStyle<'a> {
    pub(super) anchor: Anchor,
    pub(super) color: &'a str,
    /// Pixels; 0 is the default of 12.
    pub(super) size: u32,
    pub(super) is_bold: bool,
}

/// Makes a text from another machine harmless: spells out control and invisible characters, quotes markup, and replaces
/// what XML cannot hold.
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

#[cfg(test)]
mod tests {
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
}
