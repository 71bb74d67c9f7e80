//! The clocks of Windows as [`Moment`]s, and the instant that start times count from.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use cpumon_model::Moment;

use super::sys;
use crate::nt::Base;

/// `SystemTimeOfDayInformation`.
const TIME_OF_DAY: i32 = 3;

/// When the system started, by the clock as it was set then, so that it stays the same when the clock is set later.
pub(super) fn base() -> Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    *BASE.get_or_init(|| read_base().unwrap_or_default())
}

fn read_base() -> Option<Base> {
    let mut buffer = vec![0; 48];
    let length = sys::query(TIME_OF_DAY, &mut buffer).ok()?;
    let number = |at: usize| {
        let bytes = buffer.get(..length)?.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    // The start moves with the clock; the bias is the sum of these moves.
    Some(Base(number(0)?.wrapping_sub(number(32).unwrap_or(0))))
}

/// Now. Start times are on the clock that people set, in its coarse steps, so the time since the start is taken from the same.
#[must_use]
pub fn now() -> Moment {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment {
        mono_ns: sys::counter_ns(),
        boot_ns: base().ns_since(sys::coarse_time()),
        wall_ns: i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX),
    }
}
