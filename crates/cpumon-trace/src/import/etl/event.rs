//! The header of an event in a buffer: six layouts, which say differently when the event was, and of which kind it is.

use cpumon_events::windows::{Payload, hook_of};

use super::super::bytes::Order;

// Third byte of the marker: what kind of header this is, of a machine of 32 bits and of 64.
const SYSTEM: u8 = 0x01;
const SYSTEM_64: u8 = 0x02;
const COMPACT: u8 = 0x03;
const COMPACT_64: u8 = 0x04;
const FULL: u8 = 0x0a;
const PERFINFO: u8 = 0x10;
const PERFINFO_64: u8 = 0x11;
const MANIFEST: u8 = 0x12;
const MANIFEST_64: u8 = 0x13;
const FULL_64: u8 = 0x14;

// Fourth byte of the marker.
const IS_HEADER: u8 = 0x80;
const IS_EVENT: u8 = 0x40;

/// In the version of a PERFINFO header: eight bytes more follow the header, and how many counters.
const HAS_INDEX: u16 = 0x8000;
const COUNTERS: u16 = 0x0700;
/// In the flags of a MANIFEST header.
const HAS_ITEMS: u8 = 1;

/// An event.
#[derive(Copy, Clone, Debug)]
pub(super) struct Event<'b> {
    /// In ticks of the session's clock.
    pub(super) ticks: u64,
    /// The thread that was on the CPU, if the header says.
    pub(super) tid: Option<u32>,
    pub(super) payload: Payload<'b>,
}

/// What comes next in a buffer.
#[derive(Copy, Clone, Debug)]
pub(super) enum Next<'b> {
    Event(Event<'b>),
    /// One without a time, or of a program.
    Other,
    End,
    Damaged,
}

/// Takes the next event, and what fills it up to a multiple of eight.
pub(super) fn take<'b>(rest: &mut &'b [u8]) -> Next<'b> {
    if rest.is_empty() || rest.starts_with(&[0xff; 4]) {
        return Next::End;
    }
    let Some((next, bytes)) = read(rest) else { return Next::Damaged };
    *rest = rest.get(bytes.next_multiple_of(8)..).unwrap_or_default();
    next
}

/// The event at the begin, and how long it is.
fn read(from: &[u8]) -> Option<(Next<'_>, usize)> {
    let [first, second, kind, flags, ..] = *from else { return None };
    if flags & IS_HEADER == 0 {
        return None;
    }
    let size = match kind {
        SYSTEM..=COMPACT_64 | PERFINFO | PERFINFO_64 if flags & IS_EVENT != 0 => number(from, 4, 2)?,
        _ => u64::from(u16::from_le_bytes([first, second])),
    };
    let whole = from.get(..usize::try_from(size).ok()?).filter(|whole| whole.len() >= 8)?;
    let next = if flags & IS_EVENT == 0 { Next::Other } else { event(whole, kind)? };
    Some((next, whole.len()))
}

/// A number of so many bytes.
fn number(from: &[u8], at: usize, bytes: usize) -> Option<u64> {
    Some(Order::Little.number(from.get(at..at + bytes)?))
}

fn event(whole: &[u8], kind: u8) -> Option<Next<'_>> {
    let byte = |at: usize| whole.get(at).copied();
    let short = |at| u16::try_from(number(whole, at, 2)?).ok();
    let tid = || u32::try_from(number(whole, 8, 4)?).ok();
    let is_64 = matches!(kind, SYSTEM_64 | COMPACT_64 | FULL_64 | PERFINFO_64 | MANIFEST_64);
    let (hook, version, header_bytes) = match kind {
        SYSTEM | SYSTEM_64 => (short(6)?, byte(0)?, 32),
        COMPACT | COMPACT_64 => (short(6)?, byte(0)?, 24),
        PERFINFO | PERFINFO_64 => {
            let version = short(0)?;
            let items = usize::from(version & HAS_INDEX != 0) + usize::from((version & COUNTERS) >> 8);
            (short(6)?, byte(0)?, 16 + 8 * items)
        }
        // Those with items between header and payload are not the kernel's.
        MANIFEST | MANIFEST_64 if byte(4)? & HAS_ITEMS != 0 => (0, 0, 80),
        MANIFEST | MANIFEST_64 => (hook_of(whole.get(24..40)?.first_chunk()?, byte(45)?), byte(42)?, 80),
        FULL | FULL_64 => (hook_of(whole.get(24..40)?.first_chunk()?, byte(4)?), byte(6)?, 48),
        _ => return Some(Next::Other),
    };
    let is_short = matches!(kind, PERFINFO | PERFINFO_64);
    let ticks = number(whole, if is_short { 8 } else { 16 }, 8)?;
    let tid = if is_short { None } else { tid() };
    let pointer_bytes = if is_64 { 8 } else { 4 };
    let payload = Payload { hook, version, pointer_bytes, bytes: whole.get(header_bytes..)? };
    Some(Next::Event(Event { ticks, tid, payload }))
}
