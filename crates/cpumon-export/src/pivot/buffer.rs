//! [`PivotBuffer`]: the part of a host's intervals that the second pass of a pivot needs. Reading and unpacking the store is most
//! of the work of a pivot, so it is done once where this buffer fits.
//!
//! Memory: [`MAX_BUFFER_BYTES`] for all hosts together, about 5 bytes for each row of a process. A host that needs more is read a
//! second time instead, with the same result.

use std::collections::HashMap;
use std::sync::Arc;

use cpumon_model::varint::{self, unzigzag, zigzag};
use cpumon_model::{
    BootId, Fields, Flags, Interval, Moment, ProcessInfo, ProcessInterval, ProcessKey, SourceKind,
};
use foldhash::fast::RandomState;

/// Greatest size of all buffers together, bytes: a day of 100 processes active each second, at 5 bytes a row.
pub(super) const MAX_BUFFER_BYTES: usize = 64 << 20;
/// Memory of a process: its slot, and its entry in the index with the free space of a hash table.
const SLOT_BYTES: usize = 128;

/// A process with one name. A process that changes its name has two slots.
#[derive(Copy, Clone, Debug)]
struct PivotSlot {
    key: ProcessKey,
    column: Option<usize>,
}

/// The data of an interval that [`crate::rows::PivotSink`] and the second pass use.
struct BufferedInterval {
    begin_wall_ns: i64,
    end_wall_ns: i64,
    duration_ns: u64,
    v1_ticks: Option<i64>,
    boot: BootId,
    source: SourceKind,
    fields: Fields,
    flags: Flags,
    /// Where its rows end in [`PivotBuffer::rows`].
    rows_end: usize,
}

#[derive(Default)]
pub(super) struct PivotBuffer {
    heads: Vec<BufferedInterval>,
    /// For each row two varints: slot << 1 | ends, and the value in zigzag.
    rows: Vec<u8>,
    slots: Vec<PivotSlot>,
    /// Slots of the current boot by process and address of its description. The map holds the description, so no other one can
    /// get its address.
    index: HashMap<(ProcessKey, usize), (usize, Arc<ProcessInfo>), RandomState>,
    boot: BootId,
}

#[derive(Copy, Clone, Debug)]
pub(super) struct BufferedRow {
    pub key: ProcessKey,
    /// As given to [`PivotBuffer::push`]: in the order of the first pass, `None` for `(other)`.
    pub column: Option<usize>,
    /// Whether the process ended in the interval.
    pub ends: bool,
    pub value: i64,
}

impl PivotBuffer {
    pub fn bytes(&self) -> usize {
        self.rows.len() + self.heads.len() * size_of::<BufferedInterval>() + self.slots.len() * SLOT_BYTES
    }

    pub fn enter(&mut self, interval: &Interval) {
        if self.boot != interval.boot {
            self.boot = interval.boot;
            // Keys are unique within one boot only.
            self.index.clear();
        }
        self.heads.push(BufferedInterval {
            begin_wall_ns: interval.begin.wall_ns,
            end_wall_ns: interval.end.wall_ns,
            duration_ns: interval.duration_ns(),
            v1_ticks: interval.v1_ticks,
            boot: interval.boot,
            source: interval.source,
            fields: interval.fields,
            flags: interval.flags,
            rows_end: self.rows.len(),
        });
    }

    /// Adds a row to the interval that was begun last. `column` is called once for each process and name.
    pub fn push(
        &mut self,
        row: &ProcessInterval,
        ends: bool,
        value: i64,
        column: impl FnOnce() -> Option<usize>,
    ) {
        let slots = &mut self.slots;
        // Intervals share descriptions, so addresses suffice; an equal copy only takes a slot of its own.
        let (slot, _) = self.index.entry((row.key, Arc::as_ptr(&row.info).addr())).or_insert_with(|| {
            slots.push(PivotSlot { key: row.key, column: column() });
            (slots.len() - 1, Arc::clone(&row.info))
        });
        varint::push(&mut self.rows, (*slot as u64) << 1 | u64::from(ends));
        // Zigzag: a negative value would take ten bytes otherwise.
        varint::push(&mut self.rows, zigzag(value));
        if let Some(head) = self.heads.last_mut() {
            head.rows_end = self.rows.len();
        }
    }

    /// Ends the first pass: frees memory that only this pass needs.
    pub fn close(&mut self) {
        self.index = HashMap::default();
        self.rows.shrink_to_fit();
        self.heads.shrink_to_fit();
    }

    /// Calls `visit` with each interval, which has only the fields of a [`BufferedInterval`], and its rows.
    pub fn replay<E>(
        &self,
        mut visit: impl FnMut(&Interval, BufferedRows<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut interval = Interval::default();
        let mut begin = 0;
        for head in &self.heads {
            interval.begin = Moment { wall_ns: head.begin_wall_ns, ..Moment::default() };
            // The start is 0 on this clock, so the end is the length.
            interval.end =
                Moment { wall_ns: head.end_wall_ns, mono_ns: head.duration_ns, ..Moment::default() };
            interval.v1_ticks = head.v1_ticks;
            interval.boot = head.boot;
            interval.source = head.source;
            interval.fields = head.fields;
            interval.flags = head.flags;
            let bytes = self.rows.get(begin..head.rows_end).unwrap_or_default();
            begin = head.rows_end;
            visit(&interval, BufferedRows { bytes, slots: &self.slots })?;
        }
        Ok(())
    }
}

/// The rows of one interval, in the order in which they were added.
pub(super) struct BufferedRows<'k> {
    bytes: &'k [u8],
    slots: &'k [PivotSlot],
}

impl Iterator for BufferedRows<'_> {
    type Item = BufferedRow;

    fn next(&mut self) -> Option<BufferedRow> {
        let head = varint::take(&mut self.bytes)?;
        let value = unzigzag(varint::take(&mut self.bytes)?);
        let PivotSlot { key, column } = *self.slots.get(usize::try_from(head >> 1).ok()?)?;
        Some(BufferedRow { key, column, ends: head & 1 != 0, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were() {
        let values = [0, 1, -1, 63, 64, -64, -65, 1_000_000_000, i64::MAX, i64::MIN];
        let info = Arc::new(ProcessInfo::default());
        let mut buffer = PivotBuffer::default();
        for begin in [0, 5] {
            buffer.enter(&Interval { sequence: begin, ..Interval::default() });
            for (pid, value) in (0..).zip(values) {
                let key = ProcessKey { pid, start_ns: begin };
                let row = ProcessInterval { key, info: Arc::clone(&info), ..ProcessInterval::default() };
                buffer.push(&row, value < 0, value, || Some(pid as usize));
            }
        }
        buffer.close();
        let mut begins = [0, 5].into_iter();
        let replayed: Result<(), ()> = buffer.replay(|_, rows| {
            let begin = begins.next().unwrap();
            let rows: Vec<_> = rows.collect();
            assert_eq!(rows.len(), values.len());
            for ((row, value), pid) in rows.iter().zip(values).zip(0..) {
                assert_eq!((row.value, row.ends), (value, value < 0));
                assert_eq!(row.key, ProcessKey { pid, start_ns: begin });
                assert_eq!(row.column, Some(pid as usize));
            }
            Ok(())
        });
        assert_eq!((replayed, begins.next()), (Ok(()), None));
    }
}
