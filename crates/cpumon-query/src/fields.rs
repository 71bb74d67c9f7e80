//! [`Field`]: a column of a kind of row. One list of them says what a row is in CSV, JSON lines and JSON.

use std::borrow::Cow;

use cpumon_model::Value;

/// A column of rows of this type.
#[derive(Debug)]
pub struct Field<R> {
    /// Its name, with its unit.
    pub name: &'static str,
    get: Get<R>,
}

/// Returns the value of a row; `None`: no data, which is not zero.
#[derive(Debug)]
enum Get<R> {
    /// A whole number.
    Int(fn(&R) -> Option<i64>),
    /// A fraction.
    Real(fn(&R) -> Option<f64>),
    /// A text; hostile where it is a name.
    Text(for<'r> fn(&'r R) -> Option<Cow<'r, str>>),
}

impl<R> Field<R> {
    pub(crate) const fn int(name: &'static str, get: fn(&R) -> Option<i64>) -> Self {
        Self { name, get: Get::Int(get) }
    }

    pub(crate) const fn real(name: &'static str, get: fn(&R) -> Option<f64>) -> Self {
        Self { name, get: Get::Real(get) }
    }

    pub(crate) const fn text(name: &'static str, get: for<'r> fn(&'r R) -> Option<Cow<'r, str>>) -> Self {
        Self { name, get: Get::Text(get) }
    }

    /// The value of a row.
    pub fn value<'r>(&self, row: &'r R) -> Value<'r> {
        match self.get {
            Get::Int(get) => get(row).map_or(Value::Null, Value::Int),
            Get::Real(get) => get(row).map_or(Value::Null, Value::Real),
            Get::Text(get) => get(row).map_or(Value::Null, Value::Text),
        }
    }
}

/// The names of columns.
#[must_use]
pub fn names<R>(fields: &[&'static Field<R>]) -> Vec<&'static str> {
    fields.iter().map(|field| field.name).collect()
}

/// What each row has in them.
pub fn cells<'r, R>(
    fields: &[&'static Field<R>],
    rows: impl IntoIterator<Item = &'r R>,
) -> impl Iterator<Item = Vec<Value<'r>>> {
    rows.into_iter().map(|row| fields.iter().map(|field| field.value(row)).collect())
}

/// A number of a counter.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
