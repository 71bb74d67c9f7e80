//! How values read in tables for people.

use cpumon_model::{Utc, escape};

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Replaces [`BLOCKS`] in a locale without UTF-8.
const ASCII_BLOCKS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// How texts are shown on the reader's screen.
#[derive(Copy, Clone, Debug)]
pub struct Screen {
    /// A moment, ns since the UNIX epoch, with or without its day.
    pub clock: fn(i64, bool) -> String,
    /// Whether it shows ASCII only.
    pub is_ascii: bool,
}

impl Default for Screen {
    fn default() -> Self {
        Self { clock: |ns, _| Utc(ns).to_string(), is_ascii: true }
    }
}

/// A name that is safe to show. One without a visible character is shown as `(no name)`.
pub fn name_text(name: &str) -> String {
    let name = escape(name).to_string();
    if name.trim().is_empty() { "(no name)".to_owned() } else { name }
}

/// A number with so many digits behind the point; `-` without data. What rounds to zero has no sign.
pub fn decimal(value: impl Into<Option<f64>>, digits: usize) -> String {
    let Some(value) = value.into() else { return "-".to_owned() };
    let text = format!("{value:.digits$}");
    let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    if is_zero { text.trim_start_matches('-').to_owned() } else { text }
}

/// [`decimal`], with a plus where it is above zero.
pub fn signed(value: Option<f64>, digits: usize) -> String {
    let text = decimal(value, digits);
    let is_above = value.is_some_and(|value| value > 0.0) && text.chars().any(|c| matches!(c, '1'..='9'));
    if is_above { format!("+{text}") } else { text }
}

/// A time in seconds, to the millisecond; `-` without data.
pub fn seconds(ns: impl Into<Option<i64>>) -> String {
    decimal(ns.into().map(|ns| ns as f64 / 1e9), 3)
}

/// A block for each value, the highest one for the largest of them; a space where there is none.
pub fn spark(values: &[Option<f64>], is_ascii: bool) -> String {
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    spark_of(values, highest, is_ascii)
}

/// As [`spark`], with the highest block for the value `highest`.
pub fn spark_of(values: &[Option<f64>], highest: f64, is_ascii: bool) -> String {
    let blocks = if is_ascii { ASCII_BLOCKS } else { BLOCKS };
    let block = |value: f64| {
        let share = if highest > 0.0 { value / highest } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 7")]
        let at = (share * 7.0).ceil() as usize;
        blocks[at.min(7)]
    };
    values.iter().map(|value| value.map_or(' ', block)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_name_says_so() {
        assert_eq!(["", "  ", "\u{3000}"].map(name_text), ["(no name)"; 3]);
        assert_eq!(name_text(" a\u{1b}"), " a\\x1b");
    }

    #[test]
    fn what_rounds_to_zero_has_no_sign() {
        assert_eq!([-0.04, 0.04, -0.06].map(|value| decimal(value, 1)), ["0.0", "0.0", "-0.1"]);
        let changes = [None, Some(0.04), Some(-0.04), Some(1.0), Some(-1.0)];
        assert_eq!(changes.map(|value| signed(value, 1)), ["-", "0.0", "0.0", "+1.0", "-1.0"]);
    }
}
