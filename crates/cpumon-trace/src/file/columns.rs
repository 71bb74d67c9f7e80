//! Events of a chunk by columns: all tags, then all times, then all tasks, and so on. Numbers of one kind are alike, so columns are packed
//! better than rows: the events of a build, and of a pipe, take a quarter less.

use std::io::Cursor;

use cpumon_model::varint::{MAX_BYTES as MAX_VARINT_BYTES, push as push_varint, take as take_varint};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::compress_bound;

use super::events::{EventFields, fields};

/// Tags; of times the first byte, the second one and the others, because each has its own range; tasks; other numbers.
const COLUMNS: usize = 6;

/// The columns of one chunk at a time. In a steady state it allocates nothing.
#[derive(Default)]
pub(super) struct EventColumns {
    raw: [Vec<u8>; COLUMNS],
    frame: Vec<u8>,
}

impl EventColumns {
    /// Packs the rows of a chunk; false: they are none.
    pub(super) fn pack(&mut self, rows: &[u8], zstd: &mut Compressor<'_>, out: &mut Vec<u8>) -> bool {
        if self.split(rows).is_none() {
            return false;
        }
        for column in &self.raw {
            self.frame.clear();
            self.frame.reserve(compress_bound(column.len()));
            let packed = zstd.compress_to_buffer(column, &mut self.frame);
            // What does not get smaller is stored as it is.
            let is_packed = packed.is_ok_and(|bytes| bytes < column.len());
            let stored = if is_packed { &self.frame } else { column };
            push_varint(out, column.len() as u64);
            push_varint(out, stored.len() as u64);
            out.extend_from_slice(stored);
        }
        true
    }

    fn split(&mut self, mut rows: &[u8]) -> Option<()> {
        self.raw.iter_mut().for_each(Vec::clear);
        let [tags, first, second, third, tasks, others] = &mut self.raw;
        while let Some((&tag, rest)) = rows.split_first() {
            rows = rest;
            tags.push(tag);
            let time = take_number(&mut rows)?;
            first.push(time[0]);
            second.extend(time.get(1));
            third.extend_from_slice(time.get(2..).unwrap_or_default());
            let (task_count, other_count) = fields(tag);
            for _ in 0..task_count {
                tasks.extend_from_slice(take_number(&mut rows)?);
            }
            for _ in 0..other_count {
                others.extend_from_slice(take_number(&mut rows)?);
            }
        }
        Some(())
    }
}

/// How far the columns of a chunk, one behind the other, have been read.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ColumnPlaces {
    at: [usize; COLUMNS],
    ends: [usize; COLUMNS],
}

impl ColumnPlaces {
    /// Unpacks columns that together have this many bytes, one behind the other; `None`: they are not in there.
    pub(super) fn unpack(
        mut stored: &[u8],
        bytes: usize,
        zstd: &mut Decompressor<'_>,
        raw: &mut Vec<u8>,
    ) -> Option<Self> {
        let mut places = Self::default();
        raw.reserve_exact(bytes);
        for column in 0..COLUMNS {
            places.at[column] = raw.len();
            take_column(&mut stored, bytes - raw.len(), zstd, raw)?;
            places.ends[column] = raw.len();
        }
        (raw.len() == bytes && stored.is_empty()).then_some(places)
    }

    #[inline]
    pub(super) fn rest<'b>(&self, raw: &'b [u8]) -> UnreadColumns<'b> {
        let column = |at: usize| raw.get(self.at[at]..self.ends[at]).unwrap_or_default();
        UnreadColumns([column(0), column(1), column(2), column(3), column(4), column(5)])
    }

    #[inline]
    pub(super) fn go_on(&mut self, rest: &UnreadColumns<'_>) {
        for (column, rest) in rest.0.iter().enumerate() {
            self.at[column] = self.ends[column] - rest.len();
        }
    }

    pub(super) fn is_read(&self) -> bool {
        self.at == self.ends
    }
}

pub(super) struct UnreadColumns<'b>([&'b [u8]; COLUMNS]);

impl EventFields for UnreadColumns<'_> {
    #[inline]
    fn tag(&mut self) -> Option<u8> {
        take_byte(&mut self.0[0])
    }

    #[inline]
    fn time_ns(&mut self) -> Option<u64> {
        let low = take_byte(&mut self.0[1])?;
        if !is_continued(low) {
            return Some(low.into());
        }
        let middle = take_byte(&mut self.0[2])?;
        let both = u64::from(low & 0x7f) | u64::from(middle & 0x7f) << 7;
        if !is_continued(middle) {
            return Some(both);
        }
        let high = take_varint(&mut self.0[3])?;
        (high <= u64::MAX >> 14).then_some(both | high << 14)
    }

    #[inline]
    fn task_number(&mut self) -> Option<u64> {
        take_varint(&mut self.0[4])
    }

    #[inline]
    fn other(&mut self) -> Option<u64> {
        take_varint(&mut self.0[5])
    }
}

#[inline]
fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

fn take_column(
    stored: &mut &[u8],
    most: usize,
    zstd: &mut Decompressor<'_>,
    raw: &mut Vec<u8>,
) -> Option<()> {
    let raw_bytes = usize::try_from(take_varint(stored)?).ok().filter(|bytes| *bytes <= most)?;
    let stored_bytes = usize::try_from(take_varint(stored)?).ok()?;
    let (data, rest) = stored.split_at_checked(stored_bytes)?;
    *stored = rest;
    if stored_bytes == raw_bytes {
        raw.extend_from_slice(data);
        return Some(());
    }
    // zstd writes no more than there is space for, whatever the frame announces.
    let end = raw.len() + raw_bytes;
    let mut behind = Cursor::new(raw);
    behind.set_position(behind.get_ref().len() as u64);
    zstd.decompress_to_buffer(data, &mut behind).ok()?;
    (behind.get_ref().len() == end).then_some(())
}

fn is_continued(byte: u8) -> bool {
    byte >= 0x80
}

/// Takes the bytes of one variable-length number.
#[inline]
fn take_number<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let last = bytes.iter().take(MAX_VARINT_BYTES).position(|byte| !is_continued(*byte))?;
    let (number, rest) = bytes.split_at_checked(last + 1)?;
    *bytes = rest;
    Some(number)
}

/// Bytes of the rows of what [`EventColumns::pack`] made, as its columns announce them; for fuzzers.
pub(super) fn announced_bytes(mut stored: &[u8]) -> Option<u64> {
    let mut sum = 0_u64;
    for _ in 0..COLUMNS {
        sum = sum.checked_add(take_varint(&mut stored)?)?;
        let stored_bytes = usize::try_from(take_varint(&mut stored)?).ok()?;
        stored = stored.get(stored_bytes..)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use cpumon_sched::SchedEvent;
    use proptest::prelude::*;

    use super::*;
    use crate::file::events::Context;
    use crate::file::events::tests::kind;

    fn both() -> (Compressor<'static>, Decompressor<'static>) {
        (Compressor::new(1).unwrap(), Decompressor::new().unwrap())
    }

    /// All events of a chunk on CPU 1, and whether the chunk was read to its end.
    fn unpacked(stored: &[u8], bytes: usize, zstd: &mut Decompressor<'_>) -> Option<(Vec<SchedEvent>, bool)> {
        let (mut raw, mut context, mut events) = (Vec::new(), Context::new(1, 0), Vec::new());
        let mut places = ColumnPlaces::unpack(stored, bytes, zstd, &mut raw)?;
        let mut rest = places.rest(&raw);
        while let Some(event) = context.take(&mut rest) {
            events.push(event);
        }
        places.go_on(&rest);
        Some((events, places.is_read()))
    }

    proptest! {
        #[test]
        fn events_come_back_and_damage_is_no_panic(
            kinds in prop::collection::vec((kind(), 0_u64..1 << 50, 0_u32..50), 0..200),
            at: prop::sample::Index,
            bit in 0_u8..8,
        ) {
            let (mut rows, mut at_ns, mut context, mut events) = (Vec::new(), 0, Context::new(1, 0), Vec::new());
            for (kind, passed_ns, shift) in kinds {
                at_ns += passed_ns >> shift;
                events.push(SchedEvent { at_ns, cpu: 1, kind });
                context.push(&mut rows, &SchedEvent { at_ns, cpu: 1, kind });
            }
            let ((mut pack, mut unpack), mut columns, mut stored) =
                (both(), EventColumns::default(), Vec::new());
            prop_assert!(columns.pack(&rows, &mut pack, &mut stored));
            prop_assert_eq!(announced_bytes(&stored), Some(rows.len() as u64));
            prop_assert_eq!(unpacked(&stored, rows.len(), &mut unpack), Some((events, true)));
            for wrong in [Some(rows.len() + 1), rows.len().checked_sub(1)].into_iter().flatten() {
                prop_assert_eq!(unpacked(&stored, wrong, &mut unpack), None);
            }
            let at = at.index(stored.len());
            stored[at] ^= 1 << bit;
            let _ = unpacked(&stored, rows.len(), &mut unpack);
        }
    }

    #[test]
    fn columns_of_different_lengths_leave_something_unread() {
        let (_, mut zstd) = both();
        let mut read = |raw: [&[u8]; COLUMNS]| {
            let mut stored = Vec::new();
            for column in raw {
                push_varint(&mut stored, column.len() as u64);
                push_varint(&mut stored, column.len() as u64);
                stored.extend_from_slice(column);
            }
            let (events, is_read) = unpacked(&stored, raw.concat().len(), &mut zstd).unwrap();
            (events.len(), is_read)
        };
        // The ends of task 5.
        assert_eq!(read([&[4], &[1], &[], &[], &[5], &[]]), (1, true));
        assert_eq!(read([&[4, 4], &[1, 1], &[], &[], &[5], &[]]).0, 1, "a task is missing");
        assert_eq!(read([&[4], &[1], &[], &[], &[5, 5], &[]]), (1, false), "a task is too much");
        assert_eq!(read([&[4], &[0x80], &[0x80], &[], &[5], &[]]).0, 0, "a time does not end");
        assert_eq!(
            read([&[4], &[0x80], &[0x80], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], &[5], &[]]).0,
            0
        );
        assert_eq!(read([&[7], &[1], &[], &[], &[], &[]]).0, 0, "a kind that there is not");
        let mut columns = EventColumns::default();
        let (mut pack, _) = both();
        assert!(!columns.pack(&[0, 0x80], &mut pack, &mut Vec::new()), "a number without an end");
    }

    #[test]
    fn a_column_takes_no_more_memory_than_the_chunk_announces() {
        let (mut pack, mut unpack) = both();
        let bomb = pack.compress(&vec![0; 1 << 20]).unwrap();
        let mut stored = Vec::new();
        push_varint(&mut stored, 1 << 20);
        push_varint(&mut stored, bomb.len() as u64);
        stored.extend_from_slice(&bomb);
        let mut raw = Vec::new();
        assert_eq!(ColumnPlaces::unpack(&stored, 1_000, &mut unpack, &mut raw), None);
        // Announced as short, and long when it is unpacked.
        stored.splice(..3, [50]);
        assert_eq!(ColumnPlaces::unpack(&stored, 1_000, &mut unpack, &mut raw), None);
        assert!(raw.capacity() < 4_096);
    }
}
