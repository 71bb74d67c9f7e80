//! Local time stamps of the original as instants. Its stamps carry no zone, so the user gives one, or UTC is assumed.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::report::ImportError;

/// Seconds from 0001-01-01 to 1970-01-01.
const EPOCH_SECONDS: i128 = 62_135_596_800;

/// The zone in which the file's local times are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// Not given: UTC, and the report says that it is a guess.
    #[default]
    Auto,
    /// Seconds east of UTC.
    Offset(i32),
    /// A name of the IANA time zone database.
    Named(String),
}

impl FromStr for Zone {
    type Err = ImportError;

    /// `auto`, `UTC`, `+02:00`, `-0530`, `+2` or a name like `Europe/Berlin`.
    fn from_str(text: &str) -> Result<Self, ImportError> {
        let error = || ImportError::Zone { text: text.chars().take(64).collect() };
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        if text.starts_with(['+', '-']) {
            return parse_offset(text).map(Self::Offset).ok_or_else(error);
        }
        let zone = Self::Named(text.to_owned());
        zone.resolve().map(|_| zone)
    }
}

fn parse_offset(text: &str) -> Option<i32> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits = text.get(1..)?;
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some(parts), _) => parts,
        (None, 1 | 2) => (digits, "0"),
        (None, 4) => digits.split_at_checked(2)?,
        _ => return None,
    };
    let number = |text: &str, max: i32| {
        // `parse` alone would also accept a sign.
        let plain = !text.is_empty() && text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| text.parse::<i32>().ok().filter(|n| *n <= max)).flatten()
    };
    Some(sign * (number(hours, 23)? * 3600 + number(minutes, 59)? * 60))
}

impl Zone {
    pub(crate) fn resolve(&self) -> Result<Resolved, ImportError> {
        let (zone, shown) = match self {
            Self::Auto => (TimeZone::UTC, "UTC".to_owned()),
            Self::Offset(seconds) => {
                let error = |_| ImportError::Zone { text: format!("{seconds} s") };
                let offset = Offset::from_seconds(*seconds).map_err(error)?;
                (TimeZone::fixed(offset), format!("UTC{offset}"))
            }
            Self::Named(name) => {
                let error = |_| ImportError::Zone { text: name.chars().take(64).collect() };
                (TimeZone::get(name).map_err(error)?, name.clone())
            }
        };
        Ok(Resolved { zone, shown, is_guess: *self == Self::Auto })
    }
}

pub(crate) struct Resolved {
    zone: TimeZone,
    pub shown: String,
    /// The user did not give it.
    pub is_guess: bool,
}

/// An instant, and whether the clock change made the local time occur twice or never.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    pub wall_ns: i64,
    pub is_ambiguous: bool,
}

impl Resolved {
    /// `None` for a stamp outside of what 64 bits of ns since 1970 can hold (1677 to 2262).
    pub fn instant(&self, ticks: i64) -> Option<Instant> {
        // 128 bits: ticks count from the year 1, and as ns they exceed 64 bits.
        let local_ns = (i128::from(ticks) - EPOCH_SECONDS * 10_000_000) * 100;
        let as_if_utc = Timestamp::from_nanosecond(local_ns).ok()?;
        let local = as_if_utc.to_zoned(TimeZone::UTC).datetime();
        // When clocks change, a local time occurs twice or never: jiff's "compatible" choice is the first, or the later.
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        let is_ambiguous = ambiguous.is_ambiguous();
        let wall_ns = i64::try_from(ambiguous.compatible().ok()?.as_nanosecond()).ok()?;
        Some(Instant { wall_ns, is_ambiguous })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(zone: &str, ticks: i64) -> Option<Instant> {
        zone.parse::<Zone>().unwrap().resolve().unwrap().instant(ticks)
    }

    #[test]
    fn ticks_become_instants() {
        let ticks = 635_327_194_966_680_000; // 2014-04-10 09:38:16.668
        let utc = Instant { wall_ns: 1_397_122_696_668_000_000, is_ambiguous: false };
        assert_eq!(wall("auto", ticks), Some(utc));
        assert_eq!(wall("UTC", ticks), Some(utc));
        let east = Instant { wall_ns: utc.wall_ns - 7_200_000_000_000, is_ambiguous: false };
        assert_eq!(wall("+02:00", ticks), Some(east));
        assert_eq!(wall("Europe/Berlin", ticks), Some(east));
        assert_eq!(wall("UTC", 0), None);
        assert_eq!(wall("UTC", i64::MAX), None);
        assert_eq!(wall("UTC", i64::MIN), None);
    }

    #[test]
    fn the_hour_that_occurs_twice_is_ambiguous() {
        // 2014-10-26 02:30:00 in Berlin.
        let ticks = (1_414_290_600 + 62_135_596_800) * 10_000_000;
        assert!(wall("Europe/Berlin", ticks).unwrap().is_ambiguous);
    }

    #[test]
    fn zones_as_text() {
        assert_eq!("-0530".parse::<Zone>().unwrap(), Zone::Offset(-19_800));
        assert_eq!("+2".parse::<Zone>().unwrap(), Zone::Offset(7200));
        for wrong in ["+24:00", "+", "+1:2:3", "+12345", "+ 1", "-99", "Mars/Olympus", "", "+é1"] {
            assert!(wrong.parse::<Zone>().is_err(), "{wrong:?}");
        }
    }
}
