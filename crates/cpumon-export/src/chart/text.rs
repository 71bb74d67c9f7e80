//! The width of a text in pixels, so that legends, names and reasons do not run into each other.

use cpumon_model::escape;
use unicode_width::UnicodeWidthChar;

/// Width of U+0020 to U+007E in the font, thousandths of its size. A test holds it against the font.
pub(super) const ASCII: [u16; 95] = [
    274, 296, 480, 636, 644, 987, 648, 306, 367, 367, 511, 665, 296, 461, 296, 365, 638, 411, 613, 622, 651,
    598, 625, 568, 624, 625, 296, 309, 665, 665, 665, 519, 974, 699, 656, 732, 722, 602, 590, 747, 744, 271,
    573, 680, 565, 908, 755, 766, 640, 767, 646, 644, 649, 742, 699, 994, 691, 688, 635, 367, 365, 367, 474,
    459, 330, 564, 615, 574, 615, 585, 375, 616, 597, 247, 247, 554, 247, 882, 596, 602, 615, 615, 382, 533,
    333, 597, 568, 824, 552, 569, 556, 434, 339, 434, 665,
];
/// Width of other characters, thousandths of the size.
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
pub(super) fn width(text: &str, size: f64) -> f64 {
    let all: u64 = escape(text).to_string().chars().map(|c| u64::from(thousandths(c))).sum();
    all as f64 / 1000.0 * size * SLACK
}

/// The escaped text, cut with `…` at its end if it is wider than `max` pixels.
pub(super) fn fit(text: &str, size: f64, max: f64) -> String {
    let shown = escape(text).to_string();
    if width(&shown, size) <= max {
        return shown;
    }
    let mut left = max - width("…", size);
    let fitting = shown.chars().take_while(|c| {
        left -= f64::from(thousandths(*c)) / 1000.0 * size * SLACK;
        left >= 0.0
    });
    let fitting: String = fitting.collect();
    format!("{}…", fitting.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_what_fits() {
        assert_eq!(fit("postgres", 12.0, 200.0), "postgres");
        let cut = fit(&"x".repeat(5000), 12.0, 100.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0) <= 100.0, "{cut}");
        assert_eq!(fit("anything", 12.0, 0.0), "…");
        assert!(width("日本", 12.0) > width("ab", 12.0));
        assert_eq!(fit("a\u{1b}b", 12.0, 200.0), "a\\x1bb");
    }
}
