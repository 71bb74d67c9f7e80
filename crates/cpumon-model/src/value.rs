//! [`Value`]: one cell of an export or SQL table.

use std::borrow::Cow;
use std::fmt;

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

    /// A count; beyond `i64` it sticks at the top.
    #[must_use]
    pub fn count(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
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
