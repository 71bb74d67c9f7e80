//! Texts with a known width that are safe on a terminal. A name from another machine may hold escape sequences, wide or combining
//! characters.

use std::fmt::{self, Write};

use cpumon_model::{Utc, escape};
use cpumon_query::fields::decimal;
use unicode_width::UnicodeWidthChar;

/// Combining characters kept on one base character; more would be drawn over other lines.
const MAX_COMBINING: usize = 3;

/// Display width of a character in terminal columns.
fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Characters that ask for another width of the one before them; terminals disagree about them.
fn is_variation_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Display width of a text, in terminal columns, as [`clip`] counts it.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Escapes a hostile text and leaves out characters that terminals draw differently.
pub(crate) fn safe(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // At the start of a text no combining character is allowed: it would change the character to its left.
    let mut combining = MAX_COMBINING;
    for c in escape(text).to_string().chars() {
        if is_variation_selector(c) {
            continue;
        }
        combining = if char_width(c) == 0 { combining + 1 } else { 0 };
        if combining <= MAX_COMBINING {
            out.push(c);
        }
    }
    out
}

/// The first `columns` columns of a safe text, cut behind a space if there is one in the second half or right after them.
fn clip_plain(text: &str, columns: usize) -> &str {
    let (mut used, mut space) = (0, None);
    for (at, c) in text.char_indices() {
        used += width(c.encode_utf8(&mut [0; 4]));
        if c == ' ' && used * 2 > columns {
            space = Some(at + 1);
        }
        if used > columns {
            return &text[..space.unwrap_or(at)];
        }
    }
    text
}

/// At most `columns` columns of a text that is safe already; `mark` ends it when something was cut off.
pub(crate) fn clip(text: &str, columns: usize, mark: char) -> String {
    if width(text) <= columns {
        return text.to_string();
    }
    let max = columns.saturating_sub(char_width(mark));
    let mut out = String::with_capacity(columns + 4);
    let mut used = 0;
    for c in text.chars() {
        if used + char_width(c) > max {
            break;
        }
        used += char_width(c);
        out.push(c);
    }
    if columns > 0 {
        out.push(mark);
    }
    out
}

/// A safe text in lines of at most `columns`; where it needs more than `most` lines, the last one is cut.
pub(crate) fn wrap(text: &str, columns: usize, most: usize, mark: char) -> Vec<String> {
    let (mut lines, mut rest) = (Vec::new(), text.trim_end());
    while lines.len() + 1 < most {
        let taken = clip_plain(rest, columns);
        // A character wider than the line takes nothing: every line below would be the same.
        if taken.is_empty() || taken.len() == rest.len() {
            break;
        }
        lines.push(taken.trim_end().to_owned());
        rest = &rest[taken.len()..];
    }
    lines.push(clip(rest, columns, mark));
    lines
}

/// A part of a text, safe on a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextPart {
    /// With a mark at each end where something is left out.
    pub text: String,
    /// The text continues to the right.
    pub has_more: bool,
}

/// The terminal columns `from..from + columns` of a hostile text. The rest behind is not read: it may be long.
pub(crate) fn part(text: &str, from: usize, columns: usize, mark: char) -> TextPart {
    let marks = if from > 0 { char_width(mark).min(columns) } else { 0 };
    let mut window = TextWindow { skip: from + marks, space: columns - marks, ..TextWindow::default() };
    // An error is that the window is full.
    let has_more = write!(window, "{}", escape(text)).is_err();
    let mut out = window.text;
    if marks > 0 && (has_more || !out.is_empty()) {
        out.insert(0, mark);
    }
    if has_more {
        // Two more columns than may be shown at least, so that the last one becomes the mark.
        out = clip(&format!("{out}{mark}{mark}"), columns, mark);
    }
    TextPart { text: out, has_more }
}

/// Takes the terminal columns of a text that are in view; fails when something does not fit any more.
#[derive(Debug, Default)]
struct TextWindow {
    skip: usize,
    space: usize,
    /// Combining characters since the last base character.
    combining: usize,
    text: String,
}

impl Write for TextWindow {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars().filter(|c| !is_variation_selector(*c)) {
            let columns = char_width(c);
            if columns == 0 {
                self.combining += 1;
                if self.combining <= MAX_COMBINING && !self.text.is_empty() {
                    self.text.push(c);
                }
                continue;
            }
            self.combining = 0;
            let hidden = self.skip.min(columns);
            self.skip -= hidden;
            let visible = columns - hidden;
            self.space = self.space.checked_sub(visible).ok_or(fmt::Error)?;
            // Half of a wide character is a space.
            if hidden == 0 {
                self.text.push(c);
            } else {
                self.text.extend(std::iter::repeat_n(' ', visible));
            }
        }
        Ok(())
    }
}

/// A limit, and the number of decimals below it.
type Limit = (f64, usize);

/// A number with the decimals of the first limit that it is below; above all limits, in powers of ten.
fn fitted(value: f64, limits: &[Limit]) -> String {
    match limits.iter().find(|(limit, _)| value.abs() < *limit) {
        Some((_, digits)) => decimal(value, *digits),
        None => format!("{value:.0e}"),
    }
}

/// A percentage in at most six columns. `fine`: two decimals, for percent of a whole host.
pub(crate) fn percent(value: f64, fine: bool) -> String {
    const LIMITS: [Limit; 3] = [(999.995, 2), (9999.95, 1), (999_999.5, 0)];
    fitted(value, &LIMITS[usize::from(!fine)..])
}

/// A mean number of threads in at most six columns.
pub(crate) fn mean(value: f64) -> String {
    fitted(value, &[(0.9995, 3), (9.995, 2), (99.95, 1), (99_999.5, 0)])
}

/// A rate a second in at most six columns.
pub(crate) fn rate(per_sec: f64) -> String {
    match per_sec.abs() {
        99_999.5..9_999_500.0 => format!("{:.0}k", per_sec / 1e3),
        9_999_500.0..9_999_500_000.0 => format!("{:.0}M", per_sec / 1e6),
        _ => fitted(per_sec, &[(99.95, 1), (99_999.5, 0)]),
    }
}

/// A length of time in seconds with as many decimals as matter, without the unit.
pub(crate) fn seconds(ns: i64) -> String {
    fitted(ns as f64 / 1e9, &[(9.9995, 3), (999.95, 1), (f64::INFINITY, 0)])
}

/// A short time in at most six columns, with its unit: `850ns`, `12.3us`, `4.56ms`, `1.20s`.
pub(crate) fn short(ns: i64) -> String {
    let in_unit = |unit: f64, name: &str| {
        fitted(ns as f64 / unit, &[(9.995, 2), (99.95, 1), (f64::INFINITY, 0)]) + name
    };
    match ns.unsigned_abs() {
        0 => "0".into(),
        1..1_000 => format!("{ns}ns"),
        1_000..999_500 => in_unit(1e3, "us"),
        999_500..999_500_000 => in_unit(1e6, "ms"),
        999_500_000..9_999_500_000_000 => in_unit(1e9, "s"),
        _ => format!("{:.0}d", ns as f64 / 86_400e9),
    }
}

/// A running total in at most eight columns: `12.345s`, `3:05.2`, `2h05m`, `12d03h`.
pub(crate) fn total(ns: i64) -> String {
    let value = ns as f64 / 1e9;
    let whole = ns / 1_000_000_000;
    if whole.abs() < 60 {
        format!("{value:.3}s")
    } else if whole < 3600 {
        format!("{}:{:04.1}", whole / 60, (ns % 60_000_000_000) as f64 / 1e9)
    } else if whole < 86_400 {
        format!("{}h{:02}m", whole / 3600, whole / 60 % 60)
    } else {
        format!("{}d{:02}h", whole / 86_400, whole / 3600 % 24)
    }
}

/// How long ago, for people: `12 s`, `3 min`, `2 h`, `5 d`.
pub fn ago(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A moment in UTC, to the second: `2026-11-21 14:05:09Z`.
pub(crate) fn utc_seconds(wall_ns: i64) -> String {
    let utc = Utc(wall_ns).to_string();
    match (utc.split_once('T'), utc.find('.')) {
        (Some((day, _)), Some(dot)) => format!("{day} {}Z", &utc[day.len() + 1..dot]),
        _ => utc,
    }
}

/// Whether `text` holds `needle`, which is lower case; ASCII letters match in either case.
pub(crate) fn contains(text: &str, needle: &str) -> bool {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    needle.is_empty() || text.windows(needle.len()).any(|part| part.eq_ignore_ascii_case(needle))
}

/// A name that is safe to show. One without a visible character is shown as `(no name)`.
pub(crate) fn name_text(name: &str) -> String {
    let name = safe(name);
    if name.trim().is_empty() { "(no name)".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_fit_their_columns() {
        for value in [0.0, 3.21, -12.34, 100.0, 999.99, 1000.0, 99_999.9, -99_999.9, 1e9, 1e300] {
            for fine in [false, true] {
                let text = percent(value, fine);
                assert!(text.len() <= 7, "{value} {text}");
            }
            assert!(rate(value).len() <= 7, "{value} {}", rate(value));
        }
        assert_eq!((percent(0.0, false), percent(12.345, true)), ("0.0".into(), "12.35".into()));
        assert_eq!(rate(123_456.0), "123k");
        let means = [0.0, 0.0004, 0.1499, 1.7, 13.11, 131.19, 1e7];
        assert_eq!(means.map(mean), ["0.000", "0.000", "0.150", "1.70", "13.1", "131", "1e7"]);
    }

    #[test]
    fn times_read_well() {
        let s = 1_000_000_000;
        assert_eq!(
            [total(0), total(12 * s + 345_000_000), total(185 * s + 200_000_000)],
            ["0.000s", "12.345s", "3:05.2"]
        );
        assert_eq!([total(7500 * s), total(12 * 86_400 * s + 3 * 3600 * s)], ["2h05m", "12d03h"]);
        assert_eq!([ago(12), ago(180), ago(7200), ago(400_000)], ["12 s", "3 min", "2 h", "4 d"]);
        assert_eq!([seconds(-400_000), seconds(-600_000), seconds(s)], ["0.000", "-0.001", "1.000"]);
        assert_eq!(utc_seconds(1_397_122_696_966_668_000), "2014-04-10 09:38:16Z");
    }

    #[test]
    fn wide_and_combining_characters_are_counted() {
        assert_eq!(clip("日本語テスト", 7, '…'), "日本語…");
        assert_eq!(clip("日本語テスト", 6, '…'), "日本…");
        assert_eq!(width(&safe("e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}x")), 2);
        assert_eq!(safe("e\u{301}\u{301}\u{301}\u{301}x"), "e\u{301}\u{301}\u{301}x");
        assert_eq!(safe("\u{1b}[2J\n\u{202e}"), "\\x1b[2J\\n\\u{202e}");
        assert_eq!(clip("abc", 0, '…'), "");
    }

    #[test]
    fn a_part_of_a_text_has_marks_where_something_is_left_out() {
        let shown = |text: &str, from, columns| {
            let part = part(text, from, columns, '…');
            (part.text, part.has_more)
        };
        let text = |text: &str| text.to_string();
        assert_eq!(shown("--one --two", 0, 11), (text("--one --two"), false));
        assert_eq!(shown("--one --two", 0, 8), (text("--one -…"), true));
        assert_eq!(shown("--one --two", 4, 7), (text("… --two"), false));
        assert_eq!(shown("--one --two", 4, 4), (text("… -…"), true));
        assert_eq!(shown("--one", 10, 4), (text(""), false));
        assert_eq!(shown("日本語", 0, 5), (text("日本…"), true));
        assert_eq!(shown("日本語", 1, 5), (text("…本語"), false));
        assert_eq!(shown("日本語", 2, 5), (text("… 語"), false));
        assert_eq!(shown("a\u{1b}[2J\u{202e}b", 0, 40), (text("a\\x1b[2J\\u{202e}b"), false));
        assert_eq!(shown("x", 0, 0), (text(""), true));
    }

    #[test]
    fn search_ignores_the_case_of_ascii() {
        assert!(contains("Firefox", "fox") && contains("FireFOX", "fox") && contains("x", ""));
        assert!(!contains("fo", "fox") && contains("日本", "日"));
    }

    proptest! {
        #[test]
        fn a_clipped_text_never_exceeds_its_columns(text in any::<String>(), columns in 0_usize..60) {
            let shown = clip(&safe(&text), columns, '…');
            prop_assert!(width(&shown) <= columns);
            prop_assert!(!shown.chars().any(char::is_control));
        }

        #[test]
        fn a_part_never_exceeds_its_columns(text in any::<String>(), from in 0_usize..40, columns in 0_usize..60) {
            let part = part(&text, from, columns, '…');
            prop_assert!(width(&part.text) <= columns);
            prop_assert!(!part.text.chars().any(char::is_control));
            prop_assert_eq!(part.has_more, width(&safe(&text)) > from + columns);
        }
    }
}
