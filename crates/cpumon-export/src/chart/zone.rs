//! [`Zone`]: the time zone of a picture, from `utc`, `local`, `Europe/Berlin` or `+05:30`.

use std::str::FromStr;

use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Longest name of a zone that is looked up.
const MAX_BYTES: usize = 64;

/// Why a text names no time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown time zone {text:?}: expected utc, local, a name like Europe/Berlin (names need the system's time zone database, \
     tzdata) or an offset like +05:30"
)]
pub struct ZoneError {
    text: String,
}

/// A time zone with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    zone: TimeZone,
    name: String,
}

impl Default for Zone {
    fn default() -> Self {
        Self { zone: TimeZone::UTC, name: "UTC".to_owned() }
    }
}

impl FromStr for Zone {
    type Err = ZoneError;

    fn from_str(text: &str) -> Result<Self, ZoneError> {
        if text.eq_ignore_ascii_case("utc") {
            return Ok(Self::default());
        }
        let error = || ZoneError { text: text.chars().take(MAX_BYTES).collect() };
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(error());
        }
        if text.eq_ignore_ascii_case("local") {
            let zone = TimeZone::system();
            let name = zone.iana_name().unwrap_or_default().to_owned();
            return Ok(Self { zone, name });
        }
        let is_offset = text.starts_with(['+', '-']);
        let found = if is_offset {
            DateTimeParser::new().parse_time_zone(text).ok()
        } else {
            TimeZone::get(text).ok()
        };
        let zone = found.ok_or_else(error)?;
        let name = zone.iana_name().unwrap_or_default().to_owned();
        Ok(Self { zone, name })
    }
}

impl Zone {
    fn at(&self, ms: f64) -> Zoned {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "saturates; a moment that far away is out of range for jiff"
        )]
        let stamp = Timestamp::from_microsecond((ms * 1000.0).round() as i64).unwrap_or_default();
        stamp.to_zoned(self.zone.clone())
    }

    /// `UTC`, `Europe/Berlin (UTC+02:00)`, `UTC+05:30`.
    pub(super) fn label(&self, ms: f64) -> String {
        if self.name == "UTC" {
            return self.name.clone();
        }
        let offset = self.at(ms).strftime("UTC%:z").to_string();
        if self.name.is_empty() { offset } else { format!("{} ({offset})", self.name) }
    }

    /// Offset from UTC at a moment, seconds, positive to the east.
    pub(super) fn offset_s(&self, ms: f64) -> i32 {
        self.at(ms).offset().seconds()
    }

    pub(super) fn date(&self, ms: f64) -> String {
        self.at(ms).strftime("%Y-%m-%d").to_string()
    }

    /// `14:05`, `14:05:30`, `14:05:30.25`.
    pub(super) fn clock(&self, ms: f64, digits: usize) -> String {
        let at = self.at(ms);
        match digits {
            0 => at.strftime("%H:%M").to_string(),
            1 => at.strftime("%H:%M:%S").to_string(),
            _ => at.strftime("%H:%M:%S.%3f").to_string(),
        }
    }

    /// The time of day; milliseconds only where there are any.
    pub(super) fn second(&self, ms: f64) -> String {
        let ms = ms.round();
        self.clock(ms, if ms % 1000.0 == 0.0 { 1 } else { 2 })
    }

    /// Date and time of day.
    pub(super) fn moment(&self, ms: f64) -> String {
        format!("{} {}", self.date(ms), self.second(ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_read_and_shown() {
        let ms = 1_795_000_000_250.0;
        for (text, label, moment) in [
            ("utc", "UTC", "2026-11-18 11:06:40.250"),
            ("+05:30", "UTC+05:30", "2026-11-18 16:36:40.250"),
            ("-08:00", "UTC-08:00", "2026-11-18 03:06:40.250"),
            ("Europe/Berlin", "Europe/Berlin (UTC+01:00)", "2026-11-18 12:06:40.250"),
        ] {
            let zone: Zone = text.parse().unwrap();
            assert_eq!((zone.label(ms).as_str(), zone.moment(ms).as_str()), (label, moment), "{text}");
        }
        assert!("local".parse::<Zone>().is_ok());
        for wrong in ["", "Mars/Olympus", "../../etc/passwd", "+99:00", "+", &"x".repeat(1000)] {
            let error = wrong.parse::<Zone>().unwrap_err().to_string();
            assert!(error.contains("Europe/Berlin") && error.len() < 300, "{error}");
        }
        assert_eq!(Zone::default().moment(0.0), "1970-01-01 00:00:00");
    }
}
