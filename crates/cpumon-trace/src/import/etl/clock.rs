//! The first event of a file, which says how its clock counts, and since when.

use cpumon_events::windows::TickClock;
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

/// `TRACE_LOGFILE_HEADER`, which is the payload of the first event.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct LogHeader {
    pub(super) clock: TickClock,
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
            SYSTEM_TIME => TickClock::new(FILE_TICKS_A_SECOND, boot),
            CYCLES => TickClock::new(u64::from(short(52)?) * 1_000_000, 0),
            _ => TickClock::new(long(behind_names + 8)?, 0),
        };
        let Some(clock) = clock else {
            return Some(Err(ReadError::Unusable("its clock has an impossible frequency")));
        };
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
