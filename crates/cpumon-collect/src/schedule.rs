//! When to measure: wake-ups on an absolute monotonic grid, and counts of those that came late or were skipped. Sleeping "one interval
//! more" would drift by the length of every pass.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cpumon_model::SourceHealth;

pub const MIN_INTERVAL: Duration = Duration::from_millis(100);
pub const MAX_INTERVAL: Duration = Duration::from_hours(1);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntervalError {
    #[error("{text:?} is not an interval: expected a number and a unit, as in 500ms, 1s, 1m or 1h")]
    Malformed {
        /// The text as given, at most 64 characters.
        text: String,
    },
    #[error("{unit:?} is not a unit of time: expected ms, s, m or h")]
    Unit {
        /// The text as given, at most 64 characters.
        unit: String,
    },
    #[error("{text:?} is out of range: an interval is 100ms to 1h")]
    OutOfRange {
        /// The text as given, at most 64 characters.
        text: String,
    },
}

/// Reads an interval: a number (a decimal fraction is allowed) and `ms`, `s`, `m` or `h`; without a unit, seconds.
pub fn parse_interval(text: &str) -> Result<Duration, IntervalError> {
    // An error repeats the typed text; a bound keeps it to one line.
    let shown = || text.chars().take(64).collect::<String>();
    let trimmed = text.trim();
    let unit_at = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(unit_at);
    let factor_ns: u64 = match unit.trim_start() {
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ if number.is_empty() => return Err(IntervalError::Malformed { text: shown() }),
        unit => return Err(IntervalError::Unit { unit: unit.chars().take(64).collect() }),
    };
    let total_ns =
        decimal_times(number, factor_ns).ok_or_else(|| IntervalError::Malformed { text: shown() })?;
    let interval = Duration::from_nanos(total_ns);
    if (MIN_INTERVAL..=MAX_INTERVAL).contains(&interval) {
        Ok(interval)
    } else {
        Err(IntervalError::OutOfRange { text: shown() })
    }
}

/// `number` (digits, at most one point, at most 9 digits behind it) times `factor`, rounded down; saturates.
fn decimal_times(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Nine digits reach 1 ns of a second, and the bound keeps the power of ten below in 64 bits.
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 9 {
        return None;
    }
    let digits = |text: &str| {
        text.bytes().fold(0_u64, |n, b| n.saturating_mul(10).saturating_add(u64::from(b - b'0')))
    };
    let scale = u64::pow(10, u32::try_from(fraction.len()).ok()?);
    let part = u128::from(digits(fraction)) * u128::from(factor) / u128::from(scale);
    Some(digits(whole).saturating_mul(factor).saturating_add(u64::try_from(part).ok()?))
}

/// How a wake-up went: late, after skipped grid points, or stopped.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// How much later than due, ns.
    pub late_ns: u64,
    /// Grid points passed over since the previous wake-up, because the work in between took too long.
    pub skipped: u64,
    /// Whether the stop flag was set: then do not measure.
    pub stopped: bool,
}

/// Wake-ups at `start + n × interval` on `CLOCK_MONOTONIC`. The first is at once.
#[derive(Debug)]
pub struct Schedule {
    interval: Duration,
    due: Instant,
    late: u64,
    skipped: u64,
}

impl Schedule {
    /// Starts now. An interval outside of 100 ms to 1 h is moved to the nearer end.
    pub fn new(interval: Duration) -> Self {
        let interval = interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        Self { interval, due: Instant::now(), late: 0, skipped: 0 }
    }

    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Changes the distance: the next wake-up is one of these after the last one.
    pub fn set_interval(&mut self, interval: Duration) {
        let interval = interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        let last = self.due.checked_sub(self.interval).unwrap_or(self.due);
        (self.due, self.interval) = (last + interval, interval);
    }

    /// Sleeps until the next grid point that is not past yet, without waking up in between. The thread that sets `stop` unparks this
    /// thread ([`std::thread::Thread::unpark`]) to end the sleep at once.
    pub fn wait(&mut self, stop: &AtomicBool) -> Tick {
        let skipped = self.skip_past(Instant::now());
        // `park_timeout` may return early without a reason, so the time that is left is measured again.
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let left = self.due.saturating_duration_since(now);
            if left.is_zero() {
                return self.tick(now, skipped);
            }
            std::thread::park_timeout(left);
        }
        Tick { late_ns: 0, skipped, stopped: true }
    }

    /// Adds late and skipped intervals so far to a snapshot's counts.
    pub fn count_into(&self, health: &mut SourceHealth) {
        health.intervals_late = self.late;
        health.intervals_skipped = self.skipped;
    }

    /// Moves the due time over grid points whose interval is entirely past.
    fn skip_past(&mut self, now: Instant) -> u64 {
        let behind_ns = now.saturating_duration_since(self.due).as_nanos();
        let skipped = u64::try_from(behind_ns / self.interval.as_nanos()).unwrap_or(u64::MAX);
        let steps = u32::try_from(skipped).unwrap_or(u32::MAX);
        // On the grid, not `now`: the wake-ups keep their distance from the first one.
        self.due = self.interval.checked_mul(steps).and_then(|by| self.due.checked_add(by)).unwrap_or(now);
        self.skipped = self.skipped.saturating_add(skipped);
        skipped
    }

    fn tick(&mut self, now: Instant, skipped: u64) -> Tick {
        let late = now.saturating_duration_since(self.due);
        self.late += u64::from(late > self.interval / 10);
        // From the due time and not from now, or every late wake-up would delay all that follow.
        self.due += self.interval;
        Tick { late_ns: u64::try_from(late.as_nanos()).unwrap_or(u64::MAX), skipped, stopped: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_people_write_are_understood() {
        for (text, ms) in [
            ("1s", 1000),
            ("500ms", 500),
            ("3s", 3000),
            ("3", 3000),
            ("1m", 60_000),
            ("1h", 3_600_000),
            (" 0.5s ", 500),
            ("100ms", 100),
            (".25s", 250),
            ("1.5 m", 90_000),
        ] {
            assert_eq!(parse_interval(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_interval_says_why() {
        let message = |text: &str| parse_interval(text).unwrap_err().to_string();
        assert_eq!(message("99ms"), "\"99ms\" is out of range: an interval is 100ms to 1h");
        assert_eq!(message("61m"), "\"61m\" is out of range: an interval is 100ms to 1h");
        assert_eq!(
            message("99999999999999999999999h"),
            "\"99999999999999999999999h\" is out of range: an interval is 100ms to 1h"
        );
        assert_eq!(message("1d"), "\"d\" is not a unit of time: expected ms, s, m or h");
        for text in ["", "s", "fast", "1.2.3s", ".", "-1s", "1.0000000001s"] {
            assert!(message(text).contains("is not an interval"), "{text}: {}", message(text));
        }
    }

    #[test]
    fn ticks_are_on_one_grid() {
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let mut schedule = Schedule::new(MIN_INTERVAL);
        let first = schedule.due;
        let mut skipped = schedule.wait(&stop).skipped;
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(30));
            skipped += schedule.wait(&stop).skipped;
        }
        assert!(start.elapsed() >= 2 * MIN_INTERVAL, "{:?}", start.elapsed());
        // The passes do not add to the interval.
        assert_eq!(schedule.due, first + (3 + u32::try_from(skipped).unwrap()) * MIN_INTERVAL);
    }

    #[test]
    fn work_longer_than_the_interval_skips_and_counts() {
        let stop = AtomicBool::new(false);
        let mut schedule = Schedule::new(MIN_INTERVAL);
        schedule.wait(&stop);
        std::thread::sleep(Duration::from_millis(360));
        let tick = schedule.wait(&stop);
        assert!(tick.skipped >= 2, "{tick:?}");
        let mut health = SourceHealth::default();
        schedule.count_into(&mut health);
        assert_eq!(health.intervals_skipped, tick.skipped);
        assert_eq!(health.intervals_late, u64::from(tick.late_ns > 10_000_000));
    }

    #[test]
    fn another_distance_counts_from_the_last_wake_up() {
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let mut schedule = Schedule::new(MIN_INTERVAL);
        schedule.wait(&stop);
        schedule.set_interval(3 * MIN_INTERVAL);
        assert_eq!(schedule.interval(), 3 * MIN_INTERVAL);
        schedule.wait(&stop);
        assert!(start.elapsed() >= 3 * MIN_INTERVAL, "{:?}", start.elapsed());
        schedule.set_interval(Duration::ZERO);
        assert_eq!(schedule.interval(), MIN_INTERVAL, "moved to the nearer end");
    }

    #[test]
    fn stopping_wakes_soon() {
        let stop = AtomicBool::new(false);
        let mut schedule = Schedule::new(MAX_INTERVAL);
        schedule.wait(&stop);
        let (start, sleeper) = (Instant::now(), std::thread::current());
        let tick = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                stop.store(true, Ordering::Relaxed);
                sleeper.unpark();
            });
            schedule.wait(&stop)
        });
        assert!(tick.stopped);
        // The interval is an hour.
        assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
    }
}
