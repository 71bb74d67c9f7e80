//! Points in time as people write them. In: `yesterday 14:05`, `3m ago`, `2026-11-20T14:05:30Z`, epoch numbers.
//! Out: ns since the UNIX epoch, or an error that lists what is understood.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};

/// A moment, ns since the UNIX epoch.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct When {
    /// ns since the UNIX epoch.
    pub wall_ns: i64,
}

/// Two moments, the second after the first.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Between(pub When, pub When);

/// Reads `TIME..TIME`.
pub fn between(text: &str) -> Result<Between, String> {
    let (since, until) = text
        .split_once("..")
        .ok_or_else(|| format!("{text:?} is not a span; write TIME..TIME, e.g. 2h ago..1h ago"))?;
    let (since, until) = (since.trim(), until.trim());
    let read = |text: &str| text.parse::<When>().map_err(|error| error.to_string());
    let (since, until) = (read(since)?, read(until)?);
    if since.wall_ns >= until.wall_ns {
        return Err(format!("{} is not before {}", show(since.wall_ns), show(until.wall_ns)));
    }
    Ok(Between(since, until))
}

/// What the user is told when a time is not understood.
pub const FORMS: &str = "now, 3m ago, 1h30m ago, 14:05, 14:05:30, 1405, yesterday, yesterday 14:05, 2026-11-20, \
     2026-11-20 14:05[:30], 2026-11-20T14:05:30Z, or seconds or nanoseconds since 1970";

/// A text that is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhenError {
    /// None of the forms.
    #[error("{text:?} is not a time; understood are: {FORMS}")]
    NotATime {
        /// What was given.
        text: String,
    },
    /// The right form, but no such time (`25:00`, `2026-02-30`).
    #[error("{text:?} is not a time: {reason}")]
    NoSuchTime {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Outside of the years 1678 to 2261, which 64-bit nanoseconds can hold.
    #[error("{text:?} is outside of the years 1678 to 2261")]
    OutOfRange {
        /// What was given.
        text: String,
    },
}

impl std::str::FromStr for When {
    type Err = WhenError;

    /// Reads a time as seen from now, in the time zone of this machine.
    fn from_str(text: &str) -> Result<Self, WhenError> {
        parse(text, &Zoned::now())
    }
}

/// Reads a time as seen from `now`: days and clock times are in its time zone. A clock time alone means today.
pub fn parse(text: &str, now: &Zoned) -> Result<When, WhenError> {
    let trimmed = text.trim();
    let reading =
        read(trimmed, now).map_err(|reason| WhenError::NoSuchTime { text: text.to_owned(), reason })?;
    let stamp = reading.ok_or_else(|| WhenError::NotATime { text: text.to_owned() })?;
    let wall_ns = i64::try_from(stamp.as_nanosecond());
    wall_ns.map(|wall_ns| When { wall_ns }).map_err(|_| WhenError::OutOfRange { text: text.to_owned() })
}

/// `Ok(None)`: none of the forms. `Err`: the form is right, the value is not.
fn read(text: &str, now: &Zoned) -> Result<Option<Timestamp>, String> {
    let lower = text.to_ascii_lowercase();
    if lower.is_empty() {
        return Ok(None);
    }
    if lower == "now" {
        return Ok(Some(now.timestamp()));
    }
    if let Some(span) = lower.strip_suffix("ago") {
        return ago(span.trim(), now);
    }
    if let Some(epoch) = epoch(text)? {
        return Ok(Some(epoch));
    }
    if let Some(local) = local(&lower, now.date())? {
        let zoned = local.to_zoned(now.time_zone().clone()).map_err(|error| error.to_string())?;
        return Ok(Some(zoned.timestamp()));
    }
    with_zone(text)
}

/// `3m ago`, `1h 30m ago`, `2 days ago`.
fn ago(span: &str, now: &Zoned) -> Result<Option<Timestamp>, String> {
    if !span.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    let Ok(span) = span.parse::<Span>() else { return Ok(None) };
    now.checked_sub(span).map(|then| Some(then.timestamp())).map_err(|error| error.to_string())
}

/// 9 to 11 digits are seconds since 1970, 17 to 19 are nanoseconds; `@` in front makes any number seconds.
fn epoch(text: &str) -> Result<Option<Timestamp>, String> {
    let (digits, is_marked) = text.strip_prefix('@').map_or((text, false), |rest| (rest, true));
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(None);
    }
    let number: i64 = digits.parse().map_err(|_| "the number is too large".to_owned())?;
    match (digits.len(), is_marked) {
        (9..=11, _) | (_, true) => Timestamp::from_second(number).map(Some).map_err(|e| e.to_string()),
        (17..=19, false) => {
            Timestamp::from_nanosecond(i128::from(number)).map(Some).map_err(|e| e.to_string())
        }
        _ => Ok(None),
    }
}

/// Forms without a zone: `[today|yesterday|DATE] [CLOCK]`.
fn local(text: &str, today: Date) -> Result<Option<DateTime>, String> {
    let (day, clock_text) = match text.split_once([' ', 't']) {
        Some((day, rest)) if starts_like_a_day(day) => (day, rest.trim()),
        _ if starts_like_a_day(text) => (text, ""),
        _ => ("today", text),
    };
    // `today` and `yesterday` hold the letter that also parts date and time in ISO 8601.
    let (day, clock_text) = ["today", "yesterday"]
        .iter()
        .find_map(|word| text.strip_prefix(word).map(|rest| (*word, rest.trim())))
        .unwrap_or((day, clock_text));
    let date = match day {
        "today" => today,
        "yesterday" => today.checked_sub(1.day()).map_err(|error| error.to_string())?,
        iso if looks_like_a_date(iso) => iso.parse().map_err(|error: jiff::Error| error.to_string())?,
        _ => return Ok(None),
    };
    let time = if clock_text.is_empty() { Some(Time::midnight()) } else { clock(clock_text)? };
    Ok(time.map(|time| date.to_datetime(time)))
}

fn starts_like_a_day(text: &str) -> bool {
    text == "today" || text == "yesterday" || looks_like_a_date(text)
}

/// `YYYY-MM-DD`, whatever the digits say.
fn looks_like_a_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let lengths = [parts.next(), parts.next(), parts.next()]
        .map(|part| part.filter(|part| part.bytes().all(|b| b.is_ascii_digit())).map_or(0, str::len));
    lengths == [4, 2, 2] && parts.next().is_none()
}

/// `14:05`, `14:05:30`, `14:05:30.25`, `1405`, `140530`.
fn clock(text: &str) -> Result<Option<Time>, String> {
    let is_digits = text.bytes().all(|b| b.is_ascii_digit());
    let spelled = match text.len() {
        4 if is_digits => format!("{}:{}", &text[..2], &text[2..]),
        6 if is_digits => format!("{}:{}:{}", &text[..2], &text[2..4], &text[4..]),
        _ if text.contains(':') && text.bytes().all(|b| b.is_ascii_digit() || b == b':' || b == b'.') => {
            if text.find(':') == Some(1) {
                format!("0{text}")
            } else {
                text.to_owned()
            }
        }
        _ => return Ok(None),
    };
    spelled.parse().map(Some).map_err(|error: jiff::Error| error.to_string())
}

/// ISO 8601 with an offset, `Z`, or a zone name in brackets.
fn with_zone(text: &str) -> Result<Option<Timestamp>, String> {
    let starts_with_date = text.get(..10).is_some_and(looks_like_a_date);
    if !starts_with_date {
        return Ok(None);
    }
    if text.ends_with(']') {
        return text.parse::<Zoned>().map(|zoned| Some(zoned.timestamp())).map_err(|e| e.to_string());
    }
    // `2026-11-20 14:05:30 +01:00`, as `show` and GNU date write it.
    let joined = text.replace(" +", "+").replace(" -", "-");
    joined.parse().map(Some).map_err(|error: jiff::Error| error.to_string())
}

/// A moment as ISO 8601 with this machine's offset, to the second, for messages.
#[must_use]
pub fn show(wall_ns: i64) -> String {
    show_in(wall_ns, TimeZone::system())
}

fn show_in(wall_ns: i64, zone: TimeZone) -> String {
    match Timestamp::from_nanosecond(i128::from(wall_ns)) {
        Ok(stamp) => stamp.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %:z").to_string(),
        Err(_) => format!("{wall_ns} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-11-21T10:30:15.5+01:00[Europe/Berlin]".parse().unwrap()
    }

    fn utc(text: &str) -> String {
        let when = parse(text, &now()).unwrap_or_else(|error| panic!("{text}: {error}"));
        Timestamp::from_nanosecond(i128::from(when.wall_ns)).unwrap().to_string()
    }

    #[test]
    fn every_documented_form_is_understood() {
        for (text, expected) in [
            ("now", "2026-11-21T09:30:15.5Z"),
            ("3m ago", "2026-11-21T09:27:15.5Z"),
            ("3 minutes ago", "2026-11-21T09:27:15.5Z"),
            ("90s ago", "2026-11-21T09:28:45.5Z"),
            ("1h30m ago", "2026-11-21T08:00:15.5Z"),
            ("2h ago", "2026-11-21T07:30:15.5Z"),
            ("2d ago", "2026-11-19T09:30:15.5Z"),
            ("14:05", "2026-11-21T13:05:00Z"),
            ("9:05", "2026-11-21T08:05:00Z"),
            ("14:05:30", "2026-11-21T13:05:30Z"),
            ("14:05:30.25", "2026-11-21T13:05:30.25Z"),
            ("1405", "2026-11-21T13:05:00Z"),
            ("140530", "2026-11-21T13:05:30Z"),
            ("today", "2026-11-20T23:00:00Z"),
            ("today 0805", "2026-11-21T07:05:00Z"),
            ("yesterday", "2026-11-19T23:00:00Z"),
            ("yesterday 14:05", "2026-11-20T13:05:00Z"),
            ("Yesterday 1405", "2026-11-20T13:05:00Z"),
            ("2026-11-20", "2026-11-19T23:00:00Z"),
            ("2026-11-20 14:05", "2026-11-20T13:05:00Z"),
            ("2026-11-20 14:05:30", "2026-11-20T13:05:30Z"),
            ("2026-11-20T14:05:30", "2026-11-20T13:05:30Z"),
            ("2026-11-20T14:05:30Z", "2026-11-20T14:05:30Z"),
            ("2026-11-20T14:05:30.123456789Z", "2026-11-20T14:05:30.123456789Z"),
            ("2026-11-20 14:05:30-05:00", "2026-11-20T19:05:30Z"),
            ("2026-07-01T12:00[Europe/Berlin]", "2026-07-01T10:00:00Z"),
            ("1795000000", "2026-11-18T11:06:40Z"),
            ("@86400", "1970-01-02T00:00:00Z"),
            ("1795000000123456789", "2026-11-18T11:06:40.123456789Z"),
            ("  now ", "2026-11-21T09:30:15.5Z"),
        ] {
            assert_eq!(utc(text), expected, "{text}");
        }
    }

    #[test]
    fn summer_time_gaps_and_overlaps_have_an_answer() {
        let now: Zoned = "2026-03-29T12:00+02:00[Europe/Berlin]".parse().unwrap();
        let ns = |text: &str| parse(text, &now).unwrap().wall_ns / 1_000_000_000;
        assert_eq!(
            ns("2026-03-29 02:30"),
            ns("2026-03-29T01:30Z"),
            "in the gap: as if the clock had not jumped"
        );
        assert_eq!(ns("2026-10-25 02:30"), ns("2026-10-25T00:30Z"), "twice: the first");
        assert_eq!(ns("1d ago"), ns("2026-03-28T11:00Z"), "a day is a day on the clock");
    }

    #[test]
    fn what_is_no_time_says_what_would_be() {
        for text in [
            "",
            "soon",
            "ago",
            "x ago",
            "-3m ago",
            "14",
            "12345",
            "1:2:3:4x",
            "2026-11",
            "tomorrow 14",
            "٣m ago",
        ] {
            let error = parse(text, &now()).unwrap_err();
            assert!(matches!(error, WhenError::NotATime { .. }), "{text}: {error:?}");
            assert!(error.to_string().contains("yesterday 14:05"), "{error}");
        }
        for text in ["25:00", "2460", "2026-02-30", "yesterday 14:65", "2026-11-20T14:05:30+99:00"] {
            let error = parse(text, &now()).unwrap_err();
            assert!(matches!(error, WhenError::NoSuchTime { .. }), "{text}: {error:?}");
        }
        let error = parse("2300-01-01", &now()).unwrap_err();
        assert!(matches!(error, WhenError::OutOfRange { .. }), "{error:?}");
    }

    #[test]
    fn a_shown_time_is_understood_again() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let shown = show_in(1_795_000_000_000_000_000, zone);
        assert_eq!(shown, "2026-11-18 12:06:40 +01:00");
        assert_eq!(parse(&shown, &now()).unwrap().wall_ns, 1_795_000_000_000_000_000);
    }
}
