//! The sources of data for the screens: this machine ([`LocalFeed`]), a receiver elsewhere ([`RemoteFeed`]), this process's own
//! receiver ([`HubFeed`]), a store ([`StoreFeed`]), a recording or a context-switch trace ([`ReplayFeed`]).

mod local;
mod receiver;
mod recorded;

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cpumon_model::Interval;
use cpumon_query::TraceSources;
use cpumon_query::time::now_ns;
use cpumon_tui::{FeedError, TimeWords};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

pub use local::LocalFeed;
pub use receiver::{HubFeed, RemoteFeed};
pub use recorded::{ReplayFeed, StoreFeed, TraceFeedError};

use crate::when;

/// The state that a feed shares with the thread that fills it.
#[derive(Debug)]
struct FeedState<T> {
    stop: AtomicBool,
    inner: Mutex<T>,
}

impl<T> FeedState<T> {
    fn new(inner: T) -> Arc<Self> {
        Arc::new(Self { stop: AtomicBool::new(false), inner: Mutex::new(inner) })
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most intervals that wait for the screens.
const MAX_WAITING: usize = 64;

/// Intervals that a feed's thread measured or received.
#[derive(Debug, Default)]
struct WaitingIntervals {
    intervals: VecDeque<Arc<Interval>>,
    /// Why no more intervals arrive.
    error: Option<String>,
}

impl WaitingIntervals {
    /// The oldest is dropped; the screens compute its time from the next.
    fn push(&mut self, interval: Arc<Interval>) {
        self.intervals.push_back(interval);
        if self.intervals.len() > MAX_WAITING {
            self.intervals.pop_front();
        }
    }

    fn poll(&mut self) -> Result<Option<Arc<Interval>>, FeedError> {
        match (self.intervals.pop_front(), &self.error) {
            (None, Some(error)) => Err(FeedError(error.clone())),
            (interval, _) => Ok(interval),
        }
    }
}

fn age_of(wall_ns: i64) -> Duration {
    let age_ns = now_ns().saturating_sub(wall_ns);
    Duration::from_nanos(u64::try_from(age_ns).unwrap_or(0))
}

/// Length of the trace that the key records.
const TRACE_LENGTH: Duration = Duration::from_secs(10);

fn failed(error: impl Display) -> FeedError {
    FeedError(error.to_string())
}

/// Has a receiver record its own machine, or take the last seconds of a device; returns a message.
fn take_trace<E: Display>(
    sources: TraceSources,
    record: impl FnOnce(Duration) -> Result<(), E>,
    take: impl FnOnce() -> Result<(), E>,
) -> Result<String, FeedError> {
    if sources.can_record {
        record(TRACE_LENGTH).map_err(failed)?;
        Ok("Recording for 10 s. Press v when it is done.".to_owned())
    } else if sources.can_take {
        take().map_err(failed)?;
        Ok("The host writes its last seconds. Press v when they have arrived.".to_owned())
    } else {
        Err(FeedError(sources.how))
    }
}

/// Parses and writes moments in the time zone of this machine.
pub(crate) const LOCAL_TIME: TimeWords =
    TimeWords { parse: parse_time, show: when::show, clock: when::show_clock };

/// Parses a time that a user typed. A clock time alone means the day that is shown; `1h`, `3m ago` and `yesterday` count from now.
fn parse_time(text: &str, shown_wall_ns: Option<i64>) -> Result<i64, String> {
    let shown = shown_wall_ns
        .filter(|_| !when::counts_from_now(text))
        .and_then(|ns| Timestamp::from_nanosecond(i128::from(ns)).ok())
        .map_or_else(Zoned::now, |stamp| stamp.to_zoned(TimeZone::system()));
    when::parse(text, &shown).map(|when| when.wall_ns).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_time_means_the_day_on_screen() {
        let shown = "2026-03-05T12:00:00".parse::<jiff::civil::DateTime>().unwrap();
        let shown_ns = |text: &str| {
            let zoned = text.parse::<jiff::civil::DateTime>().unwrap().to_zoned(TimeZone::system()).unwrap();
            i64::try_from(zoned.timestamp().as_nanosecond()).unwrap()
        };
        let shown_at_ns = shown_ns(&shown.to_string());
        let on_screen = Some(shown_at_ns);
        assert_eq!(parse_time("09:30", on_screen).unwrap(), shown_ns("2026-03-05T09:30:00"));
        assert!(parse_time("-1m", on_screen).unwrap() > shown_at_ns + 3_600_000_000_000);
        assert!(parse_time("1m ago", on_screen).unwrap() > shown_at_ns + 3_600_000_000_000);
        assert!(parse_time("never", on_screen).unwrap_err().contains("not a time"));
    }
}
