//! Hostile text made safe to show: names come from other machines and may hold control or escape sequences.

use std::fmt::{self, Write};

/// Shows a text with every control, bidirectional-override and other invisible character as an escape. See [`escape`].
#[derive(Copy, Clone, Debug)]
pub struct Escaped<'a>(&'a str);

/// Wraps `text` so that its `Display` is safe on a terminal: `\n`, `\t`, `\x1b`, `\u{202e}` are spelled out.
#[must_use]
pub fn escape(text: &str) -> Escaped<'_> {
    Escaped(text)
}

/// An error and its causes on one line, for logs and for texts that are stored.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// A text whose numbers have separators: `(49,000 others)`. What may hold other digits, such as a name, does not belong in it.
#[must_use]
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
}
