//! [`Field`]: a column of a kind of row. One list of them says what a row is in a table for people, CSV, JSON lines, JSON and Parquet.

use std::borrow::Cow;

use cpumon_model::{Kind, Value};
use serde::{Serialize, Serializer};

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
                Value::Text(text) => cpumon_model::escape(&text).to_string(),
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
