//! [`Field`] describes one column of a kind of row. A list of fields defines the row for tables, CSV, JSON lines, JSON and Parquet; the
//! functions below format the values that people read.

use std::borrow::Cow;

use cpumon_model::{Kind, Utc, Value, escape};
use serde::{Serialize, Serializer};

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Replaces [`BLOCKS`] in a locale without UTF-8.
const ASCII_BLOCKS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// A column of rows of type `R`: its name, its value and how a table shows it.
pub struct Field<'f, R> {
    name: &'static str,
    get: Option<Get<'f, R>>,
    shown: Option<Shown<'f, R>>,
}

/// Returns the value of a row; `None`: no data, which is not zero.
enum Get<'f, R> {
    Int(Box<NumberOf<'f, R, i64>>),
    Real(Box<NumberOf<'f, R, f64>>),
    Text(Box<TextOf<'f, R>>),
}

type NumberOf<'f, R, N> = dyn Fn(&R) -> Option<N> + 'f;
type TextOf<'f, R> = dyn for<'r> Fn(&'r R) -> Option<Cow<'r, str>> + 'f;
type ShowOf<'f, R> = Box<dyn Fn(&R) -> String + 'f>;

/// How a table shows a column.
pub struct Shown<'f, R> {
    /// Title of the column.
    pub title: &'static str,
    /// 0: always shown; a higher one is left out earlier where a terminal is narrow.
    pub rank: u8,
    /// Whether it is a name, at the left and cut where it is too long; else a number, at the right.
    pub is_name: bool,
    /// Never cut, also among names: a part of a number would be another number.
    pub is_whole: bool,
    text: Option<ShowOf<'f, R>>,
    short: Option<ShowOf<'f, R>>,
}

impl<'f, R> Field<'f, R> {
    /// A column of whole numbers.
    pub fn int<N: Into<Option<i64>>>(name: &'static str, get: impl Fn(&R) -> N + 'f) -> Self {
        Self::new(name, Get::Int(Box::new(move |row| get(row).into())))
    }

    /// A column of counters; values beyond `i64::MAX` become `i64::MAX`.
    pub fn count<N: Into<Option<u64>>>(name: &'static str, get: impl Fn(&R) -> N + 'f) -> Self {
        Self::int(name, move |row| get(row).into().map(|count| i64::try_from(count).unwrap_or(i64::MAX)))
    }

    /// A column of fractions.
    pub fn real<N: Into<Option<f64>>>(name: &'static str, get: impl Fn(&R) -> N + 'f) -> Self {
        Self::new(name, Get::Real(Box::new(move |row| get(row).into())))
    }

    /// A column of texts; hostile where they are names.
    pub fn text(name: &'static str, get: impl for<'r> Fn(&'r R) -> Option<Cow<'r, str>> + 'f) -> Self {
        Self::new(name, Get::Text(Box::new(get)))
    }

    /// A column that tables for people have and programs do not get.
    pub fn shown(title: &'static str, rank: u8, text: impl Fn(&R) -> String + 'f) -> Self {
        Self { name: "", get: None, shown: None }.titled(title, rank).shows(text)
    }

    fn new(name: &'static str, get: Get<'f, R>) -> Self {
        Self { name, get: Some(get), shown: None }
    }

    /// Likewise, and people see it under this heading: numbers as they are, `-` without data.
    #[must_use]
    pub fn titled(self, title: &'static str, rank: u8) -> Self {
        let is_name = matches!(self.get, Some(Get::Text(_)));
        let shown = Shown { title, rank, is_name, is_whole: false, text: None, short: None };
        Self { shown: Some(shown), ..self }
    }

    /// Shows each value as this text.
    #[must_use]
    pub fn shows(self, text: impl Fn(&R) -> String + 'f) -> Self {
        self.with(|shown| shown.text = Some(Box::new(text)))
    }

    /// Likewise, with a shorter text for where not all columns fit.
    #[must_use]
    pub fn or_short(self, text: impl Fn(&R) -> String + 'f) -> Self {
        self.with(|shown| shown.short = Some(Box::new(text)))
    }

    /// Shows the column as a name: at the left, cut where it is too long.
    #[must_use]
    pub fn left(self) -> Self {
        self.with(|shown| shown.is_name = true)
    }

    /// Shows the column as a number: at the right.
    #[must_use]
    pub fn right(self) -> Self {
        self.with(|shown| shown.is_name = false)
    }

    /// Shows the column as a name that is never cut.
    #[must_use]
    pub fn whole(self) -> Self {
        self.left().with(|shown| shown.is_whole = true)
    }

    fn with(mut self, change: impl FnOnce(&mut Shown<'f, R>)) -> Self {
        if let Some(shown) = &mut self.shown {
            change(shown);
        }
        self
    }

    /// Its name, with its unit, and what its values are; `None`: only people see it.
    pub fn column(&self) -> Option<(&'static str, Kind)> {
        let kind = match self.get.as_ref()? {
            Get::Int(_) => Kind::Integer,
            Get::Real(_) => Kind::Real,
            Get::Text(_) => Kind::Text,
        };
        Some((self.name, kind))
    }

    /// Value of the column in a row.
    pub fn value<'r>(&self, row: &'r R) -> Value<'r> {
        match &self.get {
            None => Value::Null,
            Some(Get::Int(get)) => get(row).map_or(Value::Null, Value::Int),
            Some(Get::Real(get)) => get(row).map_or(Value::Null, Value::Real),
            Some(Get::Text(get)) => get(row).map_or(Value::Null, Value::Text),
        }
    }

    /// How tables show the column; `None` if they do not.
    pub fn heading(&self) -> Option<&Shown<'f, R>> {
        self.shown.as_ref()
    }

    /// Text that a table shows for a row.
    pub fn show(&self, row: &R) -> String {
        match self.shown.as_ref().and_then(|shown| shown.text.as_ref()) {
            Some(text) => text(row),
            None => match self.value(row) {
                Value::Null => "-".to_owned(),
                Value::Int(number) => number.to_string(),
                Value::Real(number) => number.to_string(),
                Value::Text(text) => escape(&text).to_string(),
            },
        }
    }

    /// The same for where not all columns fit; `None`: there is no shorter text.
    pub fn show_short(&self, row: &R) -> Option<String> {
        let shown = self.shown.as_ref()?;
        shown.short.as_ref().map(|short| short(row))
    }
}

/// A row as a JSON object: its values by name.
pub struct Object<'o, 'f, R> {
    /// Columns of the object.
    pub fields: &'o [Field<'f, R>],
    /// Row that the values are read from.
    pub row: &'o R,
}

impl<R> Serialize for Object<'_, '_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = self.fields.iter().filter_map(|field| Some((field.column()?.0, field.value(self.row))));
        serializer.collect_map(pairs)
    }
}

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

/// A number with `digits` digits behind the point; `-` without data. A value that rounds to zero has no sign.
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

/// A block for each value, the highest block for the largest value; a space for each missing value.
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

/// Whether each word of a search is part of one of these texts, in any case.
pub(crate) fn has_words(search: &str, texts: &[&str]) -> bool {
    let is_there = |word: &str| texts.iter().any(|text| text.to_lowercase().contains(word));
    search.to_lowercase().split_whitespace().all(is_there)
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
