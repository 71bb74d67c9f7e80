//! Sizes and durations as people write them: `10GB`, `3s`.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

pub use cpumon_agent::{size, whole_number};

/// Parses a duration: `3s`, `100ms`, `1h30m`, `2d`; a plain number is in seconds (`2`, `0.5`). Zero is an error.
pub fn duration(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    let wrong = || format!("{text:?} is not a duration; write 500ms, 3s, 5m or 1h30m");
    let is_number = !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let duration = if is_number {
        let seconds = trimmed.parse::<f64>().map_err(|_| wrong())?;
        Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?
    } else if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        let span: Span = trimmed.parse().map_err(|_| wrong())?;
        // A duration has no date, so its days cannot have 23 or 25 hours.
        let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
        Duration::try_from(signed).map_err(|_| wrong())?
    } else {
        return Err(wrong());
    };
    if duration.is_zero() { Err(format!("{text:?}: must be more than zero")) } else { Ok(duration) }
}

/// Parses a number of intervals or rows.
pub fn count(text: &str) -> Result<u64, String> {
    whole_number(1..=u64::MAX)(text)
}

pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    text.parse().map_err(|_| match text.parse::<u16>() {
        Ok(port) => format!(
            "the address is missing; write 127.0.0.1:{port} for this machine only, 0.0.0.0:{port} for all"
        ),
        Err(_) => format!("{text:?} is not an IP address with a port; write 127.0.0.1:3080 or [::1]:3080"),
    })
}

/// Bytes for people: `1.5 GB`.
pub fn show_bytes(bytes: u64) -> String {
    [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)]
        .iter()
        .find(|(_, unit)| bytes as f64 >= *unit)
        .map_or_else(|| format!("{bytes} B"), |(name, unit)| format!("{:.1} {name}", bytes as f64 / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_and_without_a_unit() {
        for (text, ms) in [
            ("3s", 3_000),
            ("100ms", 100),
            ("1h30m", 5_400_000),
            ("2", 2_000),
            ("0.5", 500),
            ("2d", 172_800_000),
            ("5 min", 300_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "0", "0s", "-3s", "abc", "3 parsecs", "1..2", "99999999999999999999999"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_read_well() {
        assert_eq!(show_bytes(999), "999 B");
        assert_eq!(show_bytes(1_500), "1.5 kB");
        assert_eq!(show_bytes(12_345_678_901), "12.3 GB");
    }
}
