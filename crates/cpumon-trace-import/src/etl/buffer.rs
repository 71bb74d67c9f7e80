//! The buffers of an `.etl` file: their headers, the headers of their events in six layouts, and the first event of the file, which defines
//! its clock. [`Index`] has the places of the buffers, in the order of their first events, and the gaps between buffers where events are
//! missing.
//!
//! A session writes the buffers of all CPUs as they become full or are flushed, and a circular file begins in the middle; buffers of two
//! sessions may be merged into one file. So the headers and the first event of each are read in advance.

use std::io::{Read, Seek, SeekFrom};

use cpumon_model::Moment;
use cpumon_sched::windows::{Payload, TickClock, hook_of};
use cpumon_sched::{Bytes, Order};
use cpumon_trace::{Ending, ReadError};

use super::unpack::unpack;
use crate::decoder::read_up_to;

pub(super) const HEADER_BYTES: usize = 72;
/// Larger ones are not read: Windows makes them up to 16 MiB.
const MAX_BUFFER_BYTES: u32 = 16 << 20;

const EVENTS_LOST: u16 = 2;
const BUFFER_LOST: u16 = 4;
const HAS_LARGE_CPU: u16 = 0x20;
const IS_PACKED: u16 = 0x40;

/// Header in front of the events of a buffer.
#[derive(Copy, Clone, Debug)]
pub(super) struct BufferHeader {
    /// Bytes of the buffer in the file, this header among them.
    pub(super) bytes: u32,
    /// Bytes of the buffer that are used, when it is unpacked.
    pub(super) used: u32,
    /// It counts the buffers of all CPUs as they were filled.
    pub(super) sequence: u64,
    pub(super) cpu: u16,
    pub(super) is_packed: bool,
    /// Events or whole buffers were dropped in front of or behind this buffer.
    is_lossy: bool,
    /// Which algorithm packed the buffers, in the first one of a file.
    pub(super) packing: u16,
}

#[derive(Copy, Clone, Debug)]
pub(super) enum BufferRead {
    Buffer(BufferHeader),
    /// The rest of the file is unused.
    End,
    /// The bytes cannot be the header of a buffer.
    Damaged,
}

impl BufferHeader {
    pub(super) fn read(from: &[u8; HEADER_BYTES]) -> BufferRead {
        if from.starts_with(&[0xff; 4]) || *from == [0; HEADER_BYTES] {
            return BufferRead::End;
        }
        match Self::fields(from) {
            Some(header) if header.is_possible() => BufferRead::Buffer(header),
            _ => BufferRead::Damaged,
        }
    }

    fn fields(from: &[u8; HEADER_BYTES]) -> Option<Self> {
        let at = |at: usize| Bytes::new(from.get(at..).unwrap_or_default(), Order::Little);
        let flags = at(52).u16()?;
        let (saved, offset) = (at(4).u32()?, at(48).u32()?);
        let cpu = if flags & HAS_LARGE_CPU == 0 { u16::from(from[40]) } else { at(40).u16()? };
        Some(Self {
            bytes: at(0).u32()?,
            // Windows 7 leaves one of these two fields 0.
            used: if saved == 0 { offset } else { saved },
            sequence: at(24).u64()?,
            cpu,
            is_packed: flags & IS_PACKED != 0,
            is_lossy: flags & (EVENTS_LOST | BUFFER_LOST) != 0,
            packing: at(44).u16()?,
        })
    }

    fn is_possible(&self) -> bool {
        let least = u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX);
        let sizes = least..=MAX_BUFFER_BYTES;
        sizes.contains(&self.bytes)
            && sizes.contains(&self.used)
            && (self.is_packed || self.used <= self.bytes)
    }

    /// Length of the buffer in the file without its header.
    pub(super) fn body_bytes(&self) -> u64 {
        u64::from(self.bytes).saturating_sub(HEADER_BYTES as u64)
    }

    pub(super) fn event_bytes(&self) -> usize {
        usize::try_from(self.used).unwrap_or(0).saturating_sub(HEADER_BYTES)
    }
}

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
/// Bit in the flags of a MANIFEST header.
const HAS_ITEMS: u8 = 1;

#[derive(Copy, Clone, Debug)]
pub(super) struct Event<'b> {
    /// Time in ticks of the session's clock.
    pub(super) ticks: u64,
    /// The thread that was on the CPU, if the header says.
    pub(super) tid: Option<u32>,
    pub(super) payload: Payload<'b>,
}

#[derive(Copy, Clone, Debug)]
pub(super) enum EventRead<'b> {
    Event(Event<'b>),
    /// An event without a time, or of a program.
    Other,
    End,
    Damaged,
}

/// Takes the next event, and what fills it up to a multiple of eight.
pub(super) fn take_event<'b>(rest: &mut &'b [u8]) -> EventRead<'b> {
    if rest.is_empty() || rest.starts_with(&[0xff; 4]) {
        return EventRead::End;
    }
    let Some((next, bytes)) = read_event(rest) else { return EventRead::Damaged };
    *rest = rest.get(bytes.next_multiple_of(8)..).unwrap_or_default();
    next
}

/// The event at the begin, and how long it is.
fn read_event(from: &[u8]) -> Option<(EventRead<'_>, usize)> {
    let [first, second, kind, flags, ..] = *from else { return None };
    if flags & IS_HEADER == 0 {
        return None;
    }
    let size = match kind {
        SYSTEM..=COMPACT_64 | PERFINFO | PERFINFO_64 if flags & IS_EVENT != 0 => number(from, 4, 2)?,
        _ => u64::from(u16::from_le_bytes([first, second])),
    };
    let whole = from.get(..usize::try_from(size).ok()?).filter(|whole| whole.len() >= 8)?;
    let next = if flags & IS_EVENT == 0 { EventRead::Other } else { event(whole, kind)? };
    Some((next, whole.len()))
}

/// A little-endian number of `bytes` bytes.
fn number(from: &[u8], at: usize, bytes: usize) -> Option<u64> {
    Some(Order::Little.number(from.get(at..at + bytes)?))
}

fn event(whole: &[u8], kind: u8) -> Option<EventRead<'_>> {
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
        _ => return Some(EventRead::Other),
    };
    let is_short = matches!(kind, PERFINFO | PERFINFO_64);
    let ticks = number(whole, if is_short { 8 } else { 16 }, 8)?;
    let tid = if is_short { None } else { tid() };
    let pointer_bytes = if is_64 { 8 } else { 4 };
    let payload = Payload { hook, version, pointer_bytes, bytes: whole.get(header_bytes..)? };
    Some(EventRead::Event(Event { ticks, tid, payload }))
}

/// Bit in `LogFileMode`: `EVENT_TRACE_COMPRESSED_MODE`.
const LOG_IS_PACKED: u32 = 0x0400_0000;

/// Values of `ClockType`.
const SYSTEM_TIME: u32 = 2;
const CYCLES: u32 = 3;

/// `FILETIME` counts ticks of 100 ns since 1601.
const FILE_TICKS_A_SECOND: u64 = 10_000_000;
const FILE_TICKS_TO_1970: u64 = 116_444_736_000_000_000;

/// `TRACE_LOGFILE_HEADER`, which is the payload of the first event.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct LogHeader {
    pub(super) clock: TickClock,
    pub(super) cpus: u16,
    /// The time of the event itself on all clocks.
    pub(super) began: Moment,
    /// Size of a buffer in memory.
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
            is_packed: short(32)? & LOG_IS_PACKED != 0,
            events_lost: u64::from(short(48)?) + u64::from(short(behind_names + 28)?),
        }))
    }
}

/// Buffers of a file; with 64 KiB each it has 128 GiB.
const MAX_BUFFERS: usize = 1 << 21;
/// Of a buffer, so much is read and unpacked to find its first event with a time.
const FIRST_BYTES: usize = 1024;

#[derive(Copy, Clone, Debug)]
pub(super) struct BufferEntry {
    /// Offset in the file.
    pub(super) at: u64,
    /// Time of the first event, ticks.
    pub(super) first: u64,
    /// Time of the first event of the next buffer of its CPU; `None`: this is the last buffer.
    pub(super) next: Option<u64>,
    sequence: u64,
    pub(super) cpu: u16,
    is_lossy: bool,
    /// Events are missing between this buffer and the next one of its CPU.
    pub(super) is_gap_behind: bool,
    /// Events are missing in front of this buffer, the first of its CPU.
    pub(super) is_gap_before: bool,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) entries: Vec<BufferEntry>,
    /// Sequence numbers of all readable buffers.
    sequences: Vec<u64>,
}

/// Properties that all buffers share.
#[derive(Copy, Clone, Debug)]
pub(super) struct Shape {
    pub(super) packing: u16,
    /// Bytes from one to the next; 0: each has a size of its own, because they are packed.
    pub(super) buffer_bytes: u32,
}

/// The first events of a buffer; `None`: they cannot be unpacked.
fn first_events(
    from: &mut dyn Read,
    header: &BufferHeader,
    packing: u16,
) -> std::io::Result<Option<Vec<u8>>> {
    let wanted = header.event_bytes().min(FIRST_BYTES);
    let most = header.body_bytes().min(2 * FIRST_BYTES as u64);
    let mut body = read_up_to(from, most, most)?.unwrap_or_default();
    if header.is_packed {
        let mut events = Vec::new();
        return Ok(unpack(packing, &body, wanted, &mut events).then_some(events));
    }
    body.truncate(wanted);
    Ok(Some(body))
}

impl Index {
    /// Reads all headers from `at` on.
    pub(super) fn read<R: Read + Seek>(
        from: &mut R,
        mut at: u64,
        shape: Shape,
        ending: &mut Ending,
    ) -> Result<Self, ReadError> {
        let mut index = Self::default();
        loop {
            from.seek(SeekFrom::Start(at))?;
            let mut header = Vec::with_capacity(HEADER_BYTES);
            from.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header)?;
            if header.is_empty() {
                break;
            }
            let found = header.first_chunk().map_or(BufferRead::Damaged, BufferHeader::read);
            let bytes = match found {
                BufferRead::End => break,
                BufferRead::Buffer(header) if [0, header.bytes].contains(&shape.buffer_bytes) => {
                    match first_events(from, &header, shape.packing)? {
                        Some(events) => index.add(at, &header, &events)?,
                        None => note_damage(ending, at, usize::try_from(header.bytes).unwrap_or(0)),
                    }
                    header.bytes
                }
                BufferRead::Buffer(_) | BufferRead::Damaged => {
                    note_damage(ending, at, if header.len() < HEADER_BYTES { header.len() } else { 0 });
                    // The next one is where it would be, if they all have one size.
                    if shape.buffer_bytes == 0 || header.len() < HEADER_BYTES {
                        break;
                    }
                    ending.unreadable_bytes += u64::from(shape.buffer_bytes);
                    shape.buffer_bytes
                }
            };
            at = at.saturating_add(bytes.into());
            if i64::try_from(at).is_err() {
                break;
            }
        }
        index.arrange();
        Ok(index)
    }

    /// Adds a buffer; `events` are its first ones.
    fn add(&mut self, at: u64, header: &BufferHeader, mut events: &[u8]) -> Result<(), ReadError> {
        if self.sequences.len() >= MAX_BUFFERS {
            return Err(ReadError::Unusable("it has more than 2,097,152 buffers"));
        }
        self.sequences.push(header.sequence);
        let first = loop {
            match take_event(&mut events) {
                EventRead::Event(event) => break event.ticks,
                EventRead::Other => {}
                // The buffer is empty, or begins with messages of programs; damage is found when the buffer is read.
                EventRead::End | EventRead::Damaged => {
                    break self.entries.last().map_or(0, |before| before.first);
                }
            }
        };
        self.entries.push(BufferEntry {
            at,
            first,
            next: None,
            sequence: header.sequence,
            cpu: header.cpu,
            is_lossy: header.is_lossy,
            is_gap_behind: false,
            is_gap_before: false,
        });
        Ok(())
    }

    /// Sorts the entries and finds the gaps.
    fn arrange(&mut self) {
        self.entries.sort_by_key(|entry| (entry.first, entry.cpu, entry.sequence));
        self.sequences.sort_unstable();
        // Buffers that are missing: the numbers around them.
        let jumps = self.sequences.windows(2).filter(|pair| pair[1] - pair[0] > 1);
        let holes: Vec<(u64, u64)> = jumps.map(|pair| (pair[0], pair[1])).collect();
        let mut behind: Vec<Option<usize>> = Vec::new();
        for place in (0..self.entries.len()).rev() {
            let mut entry = self.entries[place];
            let cpu = usize::from(entry.cpu);
            if cpu >= behind.len() {
                behind.resize(cpu + 1, None);
            }
            if let Some(next) = behind[cpu].replace(place).map(|next| self.entries[next]) {
                let hole = holes.get(holes.partition_point(|hole| hole.0 < entry.sequence));
                let is_hole = hole.is_some_and(|hole| hole.1 <= next.sequence);
                entry.is_gap_behind = entry.is_lossy || next.is_lossy || is_hole;
                entry.next = Some(next.first);
            }
            self.entries[place] = entry;
        }
        for first in behind.into_iter().flatten() {
            self.entries[first].is_gap_before = self.entries[first].is_lossy;
        }
    }
}

pub(super) fn note_damage(ending: &mut Ending, at: u64, bytes: usize) {
    ending.damaged_at = Some(ending.damaged_at.map_or(at, |known| known.min(at)));
    ending.gaps += 1;
    ending.unreadable_bytes += bytes as u64;
}
