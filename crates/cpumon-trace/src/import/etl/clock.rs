//! The first event of a file, which says how its clock counts, and since when.

use cpumon_model::Moment;

use super::super::bytes::{Bytes, Order};
use super::event::Event;
use crate::file::ReadError;

/// In `LogFileMode`.
const IS_PACKED: u32 = 0x0400_0000;

/// `ClockType`.
const SYSTEM_TIME: u32 = 2;
const CYCLES: u32 = 3;

/// Of `FILETIME`, which counts from 1601.
const FILE_TICKS_A_SECOND: u64 = 10_000_000;
const FILE_TICKS_TO_1970: u64 = 116_444_736_000_000_000;

const NS_A_SECOND: u64 = 1_000_000_000;
/// A faster clock is none that exists, and could not be converted in 64 bits.
const MAX_TICKS_A_SECOND: u64 = 18_000_000_000;

/// Makes ns since boot of ticks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    ticks_a_second: u64,
    /// Ticks at boot.
    zero: u64,
}

impl Clock {
    pub(super) fn ns(&self, ticks: u64) -> u64 {
        let since = ticks.saturating_sub(self.zero);
        let whole_ns = (since / self.ticks_a_second).saturating_mul(NS_A_SECOND);
        whole_ns.saturating_add(since % self.ticks_a_second * NS_A_SECOND / self.ticks_a_second)
    }
}

/// `TRACE_LOGFILE_HEADER`, which is the payload of the first event.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct LogHeader {
    pub(super) clock: Clock,
    pub(super) cpus: u16,
    /// The time of the event itself on all clocks.
    pub(super) began: Moment,
    /// Bytes of a buffer in memory.
    pub(super) buffer_bytes: u32,
    pub(super) is_packed: bool,
    /// What the session says it lost; a lost buffer counts as an event.
    pub(super) events_lost: u64,
}

impl LogHeader {
    pub(super) fn read(first: &Event<'_>) -> Result<Self, ReadError> {
        Self::fields(first).ok_or(ReadError::Header)?
    }

    fn fields(first: &Event<'_>) -> Option<Result<Self, ReadError>> {
        let payload = first.payload;
        let at =
            |at: usize| Some(Bytes::new(payload.bytes.get(at..)?, Order::Little)).filter(|_| at < 1 << 16);
        let (short, long) = (|offset| at(offset)?.u32(), |offset| at(offset)?.u64());
        // Of the machine that recorded; the event may have been written by another.
        let pointer_bytes = match short(44)? {
            4 => 4,
            8 => 8,
            _ => payload.pointer_bytes,
        };
        let behind_names = 232 + 2 * pointer_bytes;
        let (boot, start) = (long(behind_names)?, long(behind_names + 16)?);
        let clock = match short(behind_names + 24)? {
            SYSTEM_TIME => Clock { ticks_a_second: FILE_TICKS_A_SECOND, zero: boot },
            CYCLES => Clock { ticks_a_second: u64::from(short(52)?) * 1_000_000, zero: 0 },
            _ => Clock { ticks_a_second: long(behind_names + 8)?, zero: 0 },
        };
        if clock.ticks_a_second == 0 || clock.ticks_a_second > MAX_TICKS_A_SECOND {
            return Some(Err(ReadError::Unusable("its clock has an impossible frequency")));
        }
        let began_ns = clock.ns(first.ticks);
        let wall_ns = start.saturating_sub(FILE_TICKS_TO_1970).saturating_mul(100);
        Some(Ok(Self {
            clock,
            cpus: u16::try_from(short(12)?).unwrap_or(u16::MAX),
            began: Moment {
                mono_ns: began_ns,
                boot_ns: began_ns,
                wall_ns: i64::try_from(wall_ns).unwrap_or(i64::MAX),
            },
            buffer_bytes: short(0)?,
            is_packed: short(32)? & IS_PACKED != 0,
            events_lost: u64::from(short(48)?) + u64::from(short(behind_names + 28)?),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_counted_to_the_ns_and_never_wrap() {
        let clock = Clock { ticks_a_second: 10_000_000, zero: 0 };
        assert_eq!([clock.ns(1), clock.ns(12_345_678), clock.ns(u64::MAX)], [100, 1_234_567_800, u64::MAX]);
        let odd = Clock { ticks_a_second: 1_656_445, zero: 5 };
        assert_eq!([odd.ns(4), odd.ns(6), odd.ns(5 + 1_656_445 * 7)], [0, 603, 7_000_000_000]);
        let fast = Clock { ticks_a_second: MAX_TICKS_A_SECOND, zero: 0 };
        assert_eq!(fast.ns(MAX_TICKS_A_SECOND - 1), 999_999_999);
    }
}
