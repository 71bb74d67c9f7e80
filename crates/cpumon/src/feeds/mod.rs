//! The sources of data for the screens: this machine ([`LocalFeed`]), a receiver elsewhere ([`RemoteFeed`]), this process's own
//! receiver ([`HubFeed`]), a store ([`StoreFeed`]), a recording ([`ReplayFeed`]), or a
//! context-switch trace ([`TraceFeed`]).

mod hub;
mod local;
mod past;
mod remote;
mod replay;
mod store;
mod trace;

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cpumon_tui::TimeWords;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

pub use hub::HubFeed;
pub use local::LocalFeed;
pub use remote::RemoteFeed;
pub use replay::ReplayFeed;
pub use store::StoreFeed;
pub use trace::{TraceFeed, TraceFeedError};

use crate::when;

/// The state that a feed shares with the thread that fills it.
#[derive(Debug, Default)]
struct Shared<T> {
    stop: AtomicBool,
    inner: Mutex<T>,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, T> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moments in the time zone of this machine.
pub(crate) const LOCAL_TIME: TimeWords = TimeWords { parse: parse_time, show: when::show };

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
