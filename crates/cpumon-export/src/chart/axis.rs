//! Ticks of axes: round values, and times with their labels in the time zone of the picture: `utc`, `local`, `Europe/Berlin` or `+05:30`.

use std::str::FromStr;

use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

const SECOND_MS: f64 = 1000.0;
const MINUTE_MS: f64 = 60.0 * SECOND_MS;
const HOUR_MS: f64 = 60.0 * MINUTE_MS;
const DAY_MS: f64 = 24.0 * HOUR_MS;

/// Allowed distances between two ticks of time.
const TIME_STEPS_MS: [f64; 29] = [
    1.0,
    5.0,
    10.0,
    50.0,
    100.0,
    200.0,
    500.0,
    SECOND_MS,
    2.0 * SECOND_MS,
    5.0 * SECOND_MS,
    10.0 * SECOND_MS,
    15.0 * SECOND_MS,
    30.0 * SECOND_MS,
    MINUTE_MS,
    2.0 * MINUTE_MS,
    5.0 * MINUTE_MS,
    10.0 * MINUTE_MS,
    15.0 * MINUTE_MS,
    30.0 * MINUTE_MS,
    HOUR_MS,
    2.0 * HOUR_MS,
    3.0 * HOUR_MS,
    6.0 * HOUR_MS,
    12.0 * HOUR_MS,
    DAY_MS,
    2.0 * DAY_MS,
    7.0 * DAY_MS,
    28.0 * DAY_MS,
    364.0 * DAY_MS,
];

/// The end of a value axis: a round number at least 2 % above the largest value, 1 if all values are zero.
pub(super) fn nice(largest: f64) -> f64 {
    if !largest.is_finite() || largest <= 0.0 {
        return 1.0;
    }
    let step = 10_f64.powf(largest.log10().floor());
    let wanted = largest * 1.02;
    let found = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0]
        .into_iter()
        .find(|by| by * step >= wanted);
    found.map_or(largest * 1.1, |by| by * step)
}

/// About `count` values from 0 to `max`.
pub(super) fn value_ticks(max: f64, count: f64) -> Vec<(f64, String)> {
    let raw = max / count.max(1.0);
    let power = 10_f64.powf(raw.log10().floor());
    // A little tolerance: powers of ten are not exact floats.
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|by| by * power).find(|step| *step >= raw * 0.999);
    let step = step.unwrap_or(10.0 * power);
    // As many decimals as the step needs, the same for all labels.
    let digits = (0..9_usize).find(|digits| {
        let scaled = step * 10_f64.powf(*digits as f64);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
    });
    let digits = digits.unwrap_or(9);
    // The tolerance keeps a last tick that is above `max` by rounding only.
    let ticks = (0_i32..100).map(|nth| f64::from(nth) * step).take_while(|value| *value <= max * 1.000_001);
    ticks.map(|value| (value, format!("{value:.digits$}"))).collect()
}

#[derive(Copy, Clone, Debug)]
pub(super) struct TimeAxis {
    pub(super) since_ms: f64,
    pub(super) until_ms: f64,
    pub(super) width_px: f64,
    /// Least distance between two ticks.
    pub(super) tick_px: f64,
}

/// Time in ms and label of each tick.
pub(super) fn moments(axis: TimeAxis, zone: &Zone) -> Vec<(f64, String)> {
    let TimeAxis { since_ms, until_ms, width_px, tick_px } = axis;
    let length_ms = (until_ms - since_ms).max(1e-3);
    let least_ms = length_ms * tick_px / width_px.max(1.0);
    let step_ms = TIME_STEPS_MS.into_iter().find(|step| *step >= least_ms).unwrap_or(length_ms);
    let digits = if step_ms < SECOND_MS { 2 } else { usize::from(step_ms < MINUTE_MS) };
    // Ticks are at whole hours and days of the zone. Where its offset changes within the range, that of the beginning counts.
    let shift_ms = f64::from(zone.offset_s(since_ms)) * SECOND_MS;
    let first_ms = ((since_ms + shift_ms) / step_ms).ceil() * step_ms - shift_ms;
    let ticks = (0_i32..200).map(|nth| first_ms + f64::from(nth) * step_ms);
    let ticks = ticks.take_while(|at_ms| *at_ms <= until_ms);
    let text = |at_ms: f64| {
        let clock = zone.clock(at_ms, digits);
        // At midnight the new day says more than a clock of zeros.
        let is_midnight = clock.bytes().all(|b| b == b'0' || !b.is_ascii_digit());
        let date = zone.date(at_ms);
        let day = date.get(5..).unwrap_or_default().to_owned();
        if step_ms > 300.0 * DAY_MS {
            date
        } else if step_ms >= DAY_MS || is_midnight {
            day
        } else {
            clock
        }
    };
    ticks.map(|at_ms| (at_ms, text(at_ms))).collect()
}

/// Longest name of a zone that is looked up.
const MAX_BYTES: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown time zone {text:?}: expected utc, local, a name like Europe/Berlin (names need the system's time zone database, \
     tzdata) or an offset like +05:30"
)]
pub struct ZoneError {
    text: String,
}

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

    /// Name at a time: `UTC`, `Europe/Berlin (UTC+02:00)`, `UTC+05:30`.
    pub(super) fn label(&self, ms: f64) -> String {
        if self.name == "UTC" {
            return self.name.clone();
        }
        let offset = self.at(ms).strftime("UTC%:z").to_string();
        if self.name.is_empty() { offset } else { format!("{} ({offset})", self.name) }
    }

    /// Offset from UTC at a moment, seconds, positive to the east.
    fn offset_s(&self, ms: f64) -> i32 {
        self.at(ms).offset().seconds()
    }

    pub(super) fn date(&self, ms: f64) -> String {
        self.at(ms).strftime("%Y-%m-%d").to_string()
    }

    /// Time of day: `14:05`; `digits` 1 adds seconds, 2 adds milliseconds.
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

    pub(super) fn moment(&self, ms: f64) -> String {
        format!("{} {}", self.date(ms), self.second(ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_a_little_above_its_values() {
        for (largest, end) in
            [(0.0, 1.0), (0.97, 1.0), (1.0, 1.2), (7.9, 10.0), (99.0, 120.0), (1234.0, 1500.0)]
        {
            assert!((nice(largest) - end).abs() < 1e-9, "{largest}: {}", nice(largest));
        }
        assert!((nice(f64::NAN) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_what_people_count_in() {
        let texts =
            |max, count| value_ticks(max, count).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts(100.0, 5.0), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(0.15, 3.0), ["0.00", "0.05", "0.10", "0.15"]);
        assert_eq!(texts(1.0, 4.0), ["0.00", "0.25", "0.50", "0.75", "1.00"]);
        assert_eq!(texts(12_800.0, 4.0), ["0", "5000", "10000"]);
        let axis = |since_ms, until_ms, width_px| TimeAxis { since_ms, until_ms, width_px, tick_px: 90.0 };
        let labels = |axis, zone: &Zone| {
            moments(axis, zone).into_iter().map(|(_, text)| text).collect::<Vec<String>>()
        };
        assert_eq!(
            labels(axis(1_795_000_000_000.0, 1_795_086_400_000.0, 1100.0), &Zone::default()),
            [
                "12:00", "14:00", "16:00", "18:00", "20:00", "22:00", "11-19", "02:00", "04:00", "06:00",
                "08:00", "10:00"
            ]
        );
        let india: Zone = "+05:30".parse().unwrap();
        assert_eq!(
            labels(axis(1_795_000_000_000.0, 1_795_010_800_000.0, 400.0), &india),
            ["17:00", "18:00", "19:00"]
        );
        for (since, until) in [(0.0, 0.0), (0.0, 9e15), (-1e15, 1e15), (5.0, 6.0)] {
            assert!(moments(axis(since, until, 1000.0), &Zone::default()).len() < 20);
        }
    }

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
