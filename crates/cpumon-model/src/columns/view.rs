//! [`Value`], one cell of an export or SQL table, and [`IntervalView`]: an interval of one host, and the rules of *no data* that all its
//! cells share.

use std::borrow::Cow;

use crate::counters::signed;
use crate::{BootId, ColumnId, Fields, Interval, SourceKind, Utc, flag_names};

/// One cell of an export or SQL table.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "json", derive(serde::Serialize), serde(untagged))]
pub enum Value<'a> {
    /// No data, which is not zero.
    Null,
    /// A whole number, signed, 64 bits.
    Int(i64),
    /// A fraction, as a 64-bit float.
    Real(f64),
    /// A text; hostile where it is a name.
    Text(Cow<'a, str>),
}

impl<'a> Value<'a> {
    /// A text; empty is no data.
    pub(crate) fn text_or_null(text: &'a str) -> Self {
        if text.is_empty() { Self::Null } else { Self::Text(Cow::Borrowed(text)) }
    }

    /// As [`Value::text_or_null`], of a text that may be made.
    pub(crate) fn cow_or_null(text: Cow<'a, str>) -> Self {
        if text.is_empty() { Self::Null } else { Self::Text(text) }
    }

    /// The same without what it was read from.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Int(number) => Value::Int(number),
            Self::Real(number) => Value::Real(number),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
        }
    }

    /// A count; beyond `i64` it sticks at the top.
    #[must_use]
    pub fn count(value: u64) -> Self {
        Self::Int(signed(value))
    }
}

/// One interval of one host, ready to give cells.
#[derive(Clone, Debug)]
pub struct IntervalView<'a> {
    host: &'a str,
    pub(crate) interval: &'a Interval,
    begin_utc: String,
    end_utc: String,
    pub(crate) flags: String,
    pub(crate) boot: String,
}

impl<'a> IntervalView<'a> {
    /// `host`: the host's name.
    #[must_use]
    pub fn new(host: &'a str, interval: &'a Interval) -> Self {
        let boot = if interval.boot == BootId::default() { String::new() } else { interval.boot.to_string() };
        Self {
            host,
            interval,
            begin_utc: Utc(interval.begin.wall_ns).to_string(),
            end_utc: Utc(interval.end.wall_ns).to_string(),
            flags: flag_names(interval.flags),
            boot,
        }
    }

    /// The interval that the cells are of.
    #[must_use]
    pub fn interval(&self) -> &'a Interval {
        self.interval
    }

    /// v1 devices report neither start times nor anything about a task but name, ids and times.
    pub(crate) fn knows_tasks(&self) -> bool {
        !matches!(self.interval.source, SourceKind::V1 | SourceKind::Legacy)
    }

    pub(crate) fn known(&self, value: Value<'a>) -> Value<'a> {
        if self.knows_tasks() { value } else { Value::Null }
    }

    pub(crate) fn measured(&self, needs: Fields, value: i64) -> Value<'a> {
        if self.interval.fields.contains(needs) { Value::Int(value) } else { Value::Null }
    }

    pub(crate) fn shared(&self, id: ColumnId) -> Value<'_> {
        match id {
            ColumnId::Host => Value::Text(Cow::Borrowed(self.host)),
            ColumnId::BeginUtc => Value::Text(Cow::Borrowed(&self.begin_utc)),
            ColumnId::EndUtc => Value::Text(Cow::Borrowed(&self.end_utc)),
            ColumnId::BeginNs => Value::Int(self.interval.begin.wall_ns),
            ColumnId::EndNs => Value::Int(self.interval.end.wall_ns),
            // A v1 interval is placed by the receiver's clock: the device's own is not in it.
            ColumnId::DeviceEndNs if self.interval.source == SourceKind::V1 => Value::Null,
            ColumnId::DeviceEndNs => Value::Int(self.interval.device_end_wall_ns()),
            ColumnId::DurationNs => Value::count(self.interval.duration_ns()),
            ColumnId::Source => Value::Text(Cow::Borrowed(self.interval.source.name())),
            _ => Value::Null,
        }
    }
}
