//! Points in time as people write them: `1h`, `-1h`, `3m ago`, `yesterday 14:05`, `2026-11-20T14:05:30Z`, seconds since 1970.

use cpumon_query::time::TimeRange;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};

/// A moment, ns since the UNIX epoch.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct When {
    pub wall_ns: i64,
}

/// Parses `TIME..TIME`.
pub fn between(text: &str) -> Result<TimeRange, String> {
    let (since, until) = text
        .split_once("..")
        .ok_or_else(|| format!("{text:?} is not a range; write TIME..TIME, such as 2h..1h"))?;
    let (since, until) = (since.trim(), until.trim());
    let read = |text: &str| text.parse::<When>().map(|when| when.wall_ns).map_err(|error| error.to_string());
    let (since_ns, until_ns) = (read(since)?, read(until)?);
    if since_ns >= until_ns {
        return Err(format!("{} is not before {}", show(since_ns), show(until_ns)));
    }
    Ok(TimeRange { since_ns, until_ns })
}

/// The accepted forms, for error messages.
pub const FORMS: &str = "now, 1h, -1h, 3m ago, 1h30m ago, 14:05, 14:05:30, 1405, yesterday, yesterday 14:05, 2026-11-20, \
     2026-11-20 14:05[:30], 2026-11-20T14:05:30Z, or seconds or nanoseconds since 1970";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhenError {
    #[error("{text:?} is not a time; accepted: {FORMS}")]
    NotATime { text: String },
    /// The form is right, but there is no such time (`25:00`, `2026-02-30`).
    #[error("{text:?} is not a time: {reason}")]
    NoSuchTime { text: String, reason: String },
    /// Outside of the years 1678 to 2261, which 64-bit nanoseconds can hold.
    #[error("{text:?} is outside of the years 1678 to 2261")]
    OutOfRange { text: String },
}

impl std::str::FromStr for When {
    type Err = WhenError;

    /// Parses a time relative to now, in the time zone of this machine.
    fn from_str(text: &str) -> Result<Self, WhenError> {
        parse(text, &Zoned::now())
    }
}

/// Parses a time relative to `now`: days and clock times are in its time zone. A clock time alone means today.
pub fn parse(text: &str, now: &Zoned) -> Result<When, WhenError> {
    let trimmed = text.trim();
    let reading =
        read(trimmed, now).map_err(|reason| WhenError::NoSuchTime { text: text.to_owned(), reason })?;
    let stamp = reading.ok_or_else(|| WhenError::NotATime { text: text.to_owned() })?;
    let wall_ns = i64::try_from(stamp.as_nanosecond());
    wall_ns.map(|wall_ns| When { wall_ns }).map_err(|_| WhenError::OutOfRange { text: text.to_owned() })
}

/// `Ok(None)`: the text has none of the forms. `Err`: the form is right, the value is not.
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
    // journalctl writes -1h for an hour ago; without a sign it cannot mean anything else, because the data is of the past.
    let length = lower.strip_prefix('-').unwrap_or(&lower);
    if is_length(length) {
        return ago(length, now);
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

/// Whether a text means a distance from now (`1h`, `3m ago`) or a day relative to today.
pub fn counts_from_now(text: &str) -> bool {
    let text = text.trim();
    ["now", "ago", "today", "yesterday"].iter().any(|word| text.contains(word))
        || is_length(text.strip_prefix('-').unwrap_or(text))
}

/// Digits and units: `1h`, `90s`, `1h30m`, `2 days`. Clock times and dates have other characters.
fn is_length(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == ' ' || c == '.';
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(is_part)
        && text.contains(|c: char| c.is_ascii_alphabetic())
}

/// Parses `3m ago`, `1h 30m ago` or `2 days ago`; `None` for other forms.
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
        Some((day, rest)) if begins_with_a_day(day) => (day, rest.trim()),
        _ if begins_with_a_day(text) => (text, ""),
        _ => ("today", text),
    };
    // `today` and `yesterday` contain a t, which also separates date and time in ISO 8601.
    let (day, clock_text) = ["today", "yesterday"]
        .iter()
        .find_map(|word| text.strip_prefix(word).map(|rest| (*word, rest.trim())))
        .unwrap_or((day, clock_text));
    let date = match day {
        "today" => today,
        "yesterday" => today.checked_sub(1.day()).map_err(|error| error.to_string())?,
        // The form decides first: `2026-02-30` then gets an error of its own, not the list of forms.
        iso if has_the_form_of_a_date(iso) => iso.parse().map_err(|error: jiff::Error| error.to_string())?,
        _ => return Ok(None),
    };
    let time = if clock_text.is_empty() { Some(Time::midnight()) } else { clock(clock_text)? };
    Ok(time.map(|time| date.to_datetime(time)))
}

fn begins_with_a_day(text: &str) -> bool {
    text == "today" || text == "yesterday" || has_the_form_of_a_date(text)
}

/// `YYYY-MM-DD` with any digits.
fn has_the_form_of_a_date(text: &str) -> bool {
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
        // jiff wants two digits for the hour; people write `9:05` too.
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
    let starts_with_date = text.get(..10).is_some_and(has_the_form_of_a_date);
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

/// A moment with this machine's UTC offset, to the second, for messages.
pub fn show(wall_ns: i64) -> String {
    show_in(wall_ns, TimeZone::system())
}

/// A moment in UTC, to the second, as the command line takes it: `2026-11-20T14:05:30Z`.
pub fn show_utc(wall_ns: i64) -> String {
    formatted(wall_ns, TimeZone::UTC, "%Y-%m-%dT%H:%M:%SZ")
}

/// A moment on this machine's clock, to the second, for tables: `14:05:30`, or `2026-11-20 14:05:30` with its day.
pub fn show_clock(wall_ns: i64, with_day: bool) -> String {
    let form = if with_day { "%Y-%m-%d %H:%M:%S" } else { "%H:%M:%S" };
    formatted(wall_ns, TimeZone::system(), form)
}

fn show_in(wall_ns: i64, zone: TimeZone) -> String {
    formatted(wall_ns, zone, "%Y-%m-%d %H:%M:%S %:z")
}

fn formatted(wall_ns: i64, zone: TimeZone, form: &str) -> String {
    match Timestamp::from_nanosecond(i128::from(wall_ns)) {
        Ok(stamp) => stamp.to_zoned(zone).strftime(form).to_string(),
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
            ("1h", "2026-11-21T08:30:15.5Z"),
            ("-1h", "2026-11-21T08:30:15.5Z"),
            ("90s", "2026-11-21T09:28:45.5Z"),
            ("-1h30m", "2026-11-21T08:00:15.5Z"),
            ("2 days", "2026-11-19T09:30:15.5Z"),
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
    fn an_unknown_form_lists_the_accepted_ones() {
        for text in [
            "",
            "soon",
            "ago",
            "x ago",
            "-3m ago",
            "--1h",
            "+1h",
            "-14:05",
            "1 parsec",
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
