//! What a sample has in front of a tracepoint's record: it depends on how the event was opened.

use super::super::bytes::{Bytes, Order};

// Bits of `perf_event_attr.sample_type`.
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;

// Bits of `perf_event_attr.read_format`.
const READ_ENABLED: u64 = 1 << 0;
const READ_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

/// Flag `sample_id_all`: other records end with time and CPU too.
const SAMPLE_ID_ALL: u64 = 1 << 18;
/// Up to `read_format` and the flags: the first version of the structure.
const ATTR_BYTES: usize = 64;

/// When and where.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) at_ns: u64,
    pub(super) cpu: u32,
}

/// The layout of the records of an event.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    sample: u64,
    read: u64,
    has_stamps: bool,
}

impl Layout {
    /// Of a `perf_event_attr`.
    pub(super) fn of(attr: &[u8], order: Order) -> Option<Self> {
        let mut bytes = Bytes::new(attr.get(..ATTR_BYTES)?, order);
        bytes.skip(24)?;
        let (sample, read, flags) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        // A bit field: the first flag is the highest bit there.
        let flags = if order == Order::Big { flags.reverse_bits() } else { flags };
        Some(Self { sample, read, has_stamps: flags & SAMPLE_ID_ALL != 0 })
    }

    /// Whether its records name their event in a fixed place.
    pub(super) fn has_identifier(self) -> bool {
        self.sample & IDENTIFIER != 0
    }

    /// Whether its samples have a record of a tracepoint, a time and a CPU.
    pub(super) fn is_usable(self) -> bool {
        self.sample & (TIME | CPU | RAW) == TIME | CPU | RAW
    }

    /// Takes a sample apart.
    pub(super) fn sample<'b>(self, body: &'b [u8], order: Order) -> Option<(Stamp, &'b [u8])> {
        let mut bytes = Bytes::new(body, order);
        let has = |bit| self.sample & bit != 0;
        let skip = |bytes: &mut Bytes<'b>, bit| if has(bit) { bytes.skip(8) } else { Some(()) };
        for bit in [IDENTIFIER, IP, TID] {
            skip(&mut bytes, bit)?;
        }
        let at_ns = if has(TIME) { bytes.u64()? } else { 0 };
        for bit in [ADDR, ID, STREAM_ID] {
            skip(&mut bytes, bit)?;
        }
        let cpu = if has(CPU) { bytes.u32()? } else { 0 };
        if has(CPU) {
            bytes.skip(4)?;
        }
        skip(&mut bytes, PERIOD)?;
        if has(READ) {
            self.skip_read(&mut bytes)?;
        }
        if has(CALLCHAIN) {
            let words = bytes.u64()?;
            bytes.skip(words.checked_mul(8)?)?;
        }
        let raw = if has(RAW) { bytes.sized(4)? } else { &[] };
        Some((Stamp { at_ns, cpu }, raw))
    }

    fn skip_read(self, bytes: &mut Bytes<'_>) -> Option<()> {
        let has = |bit| u64::from(self.read & bit != 0);
        let (times, more) = (has(READ_ENABLED) + has(READ_RUNNING), has(READ_ID) + has(READ_LOST));
        let words = if has(READ_GROUP) == 1 {
            bytes.u64()?.checked_mul(1 + more)?.checked_add(times)?
        } else {
            1 + times + more
        };
        bytes.skip(words.checked_mul(8)?)
    }

    /// Splits the stamp off the end of another record.
    pub(super) fn stamp(self, body: &[u8], order: Order) -> Option<(Stamp, &[u8])> {
        if !self.has_stamps {
            return Some((Stamp::default(), body));
        }
        let has = |bit| self.sample & bit != 0;
        let words = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER].into_iter().filter(|bit| has(*bit)).count();
        let (front, end) = body.split_at_checked(body.len().checked_sub(words * 8)?)?;
        let mut bytes = Bytes::new(end, order);
        let mut stamp = Stamp::default();
        if has(TID) {
            bytes.skip(8)?;
        }
        if has(TIME) {
            stamp.at_ns = bytes.u64()?;
        }
        for bit in [ID, STREAM_ID] {
            if has(bit) {
                bytes.skip(8)?;
            }
        }
        if has(CPU) {
            stamp.cpu = bytes.u32()?;
        }
        Some((stamp, front))
    }
}
