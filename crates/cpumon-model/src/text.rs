//! Text: hostile names made safe to show (they come from other machines and may hold control or escape sequences), errors with their
//! causes, numbers with separators, moments.

use std::fmt::{self, Write};

/// Shows a text with every control, bidirectional-override and other invisible character as an escape. See [`escape`].
#[derive(Copy, Clone, Debug)]
pub struct Escaped<'a>(&'a str);

/// Wraps `text` so that its `Display` is safe on a terminal: `\n`, `\t`, `\x1b`, `\u{202e}` are spelled out.
pub fn escape(text: &str) -> Escaped<'_> {
    Escaped(text)
}

/// An error and its causes on one line, for logs and for texts that are stored.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The counts that are not zero, each with its name: `3 malformed`.
pub fn counted<'a>(counts: impl IntoIterator<Item = (u64, &'a str)>) -> Vec<String> {
    counts.into_iter().filter(|one| one.0 > 0).map(|(count, name)| format!("{count} {name}")).collect()
}

/// A text whose numbers have separators: `(49,000 others)`. What may hold other digits, such as a name, does not belong in it.
pub fn with_separators(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && digits.is_multiple_of(3) && shown.ends_with(|last: char| last.is_ascii_digit()) {
            shown.push(',');
        }
        shown.push(c);
    }
    shown
}

/// Characters that move the cursor, change direction or show nothing.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                c if is_hidden(c) && c.is_ascii() => write!(f, "\\x{:02x}", u32::from(c))?,
                c if is_hidden(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// An instant since the UNIX epoch as ISO 8601 in UTC with nanoseconds: `2014-04-10T09:38:16.966668000Z`.
#[derive(Copy, Clone, Debug)]
pub struct Utc(pub i64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.div_euclid(1_000_000_000), self.0.rem_euclid(1_000_000_000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil_date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
    }
}

/// Year, month and day of a day counted from 1970-01-01, proleptic Gregorian calendar. The year is taken to begin in
/// March, so that the leap day is its last one; 400 years are 146,097 days.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_text_have_separators() {
        for (plain, shown) in [
            ("(49000 others)", "(49,000 others)"),
            ("(1 other)", "(1 other)"),
            ("(999 others)", "(999 others)"),
            ("(1234567 others)", "(1,234,567 others)"),
            ("(others)", "(others)"),
            ("The 60 of 1000 programs", "The 60 of 1,000 programs"),
        ] {
            assert_eq!(with_separators(plain), shown);
        }
    }

    #[test]
    fn control_characters_are_spelled_out() {
        let hostile = "a\x1b[2J\n\u{202e}gpj.exe\u{7f}ü日";
        assert_eq!(escape(hostile).to_string(), "a\\x1b[2J\\n\\u{202e}gpj.exe\\x7fü日");
    }

    #[test]
    fn instants_as_utc() {
        assert_eq!(Utc(0).to_string(), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(Utc(-1).to_string(), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(Utc(951_782_400_000_000_001).to_string(), "2000-02-29T00:00:00.000000001Z");
        assert_eq!(Utc(1_397_122_696_668_000_000).to_string(), "2014-04-10T09:38:16.668000000Z");
        assert_eq!(Utc(i64::MIN).to_string(), "1677-09-21T00:12:43.145224192Z");
        assert_eq!(Utc(i64::MAX).to_string(), "2262-04-11T23:47:16.854775807Z");
    }
}
