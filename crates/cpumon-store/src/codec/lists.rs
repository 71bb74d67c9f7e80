//! Lists of rows of integers, packed column by column behind their number: the processes that were there at the end of an interval, idle ones
//! too, the threads that waited then, and the names of tasks ([`crate::names`]). Layout: docs/store.md, "Lists of processes", "Lists of
//! threads that wait" and "Blocks of names".

use cpumon_model::{TaskState, WaitReason};

use super::varint::{self, Malformed, VarintCursor, unzigzag, write_section, zigzag};
use super::{MAX_ROWS, place_code, place_of, unzip, zip};

/// First byte of a list.
const FORMAT: u8 = 1;
pub(crate) const MOST_NUMBERS: usize = 7;
/// Most processes of a list; longer ones are not written: idle processes of such a host stay unknown.
pub(crate) const MAX_PROCESSES: usize = 1 << 15;
/// Most idle threads of a list; beside them it has those with a row in its interval that wait.
pub(crate) const MAX_IDLE_THREADS: usize = 1 << 17;
const MAX_THREADS: usize = MAX_IDLE_THREADS + MAX_ROWS;

/// Longest time between two lists of processes, ns, for long intervals.
pub(crate) const LONGEST_LIST_NS: i64 = 600_000_000_000;

pub(crate) trait ListRow: Copy + Default {
    /// Columns of numbers, at most [`MOST_NUMBERS`]. Each row has at least a byte in each.
    const NUMBERS: usize;
    /// Whether columns of text lengths and texts follow.
    const HAS_TEXT: bool = false;
    /// More rows, or more plain bytes, are damage.
    const MAX_ROWS: usize;
    const MAX_BYTES: usize;
    /// The error of more rows.
    const TOO_MANY: &'static str;

    /// Its numbers as they are written; `before` is the row before.
    fn numbers(&self, before: &Self) -> [u64; MOST_NUMBERS];

    /// The reverse of [`ListRow::numbers`]; `None` for numbers that it never gives.
    fn from_numbers(numbers: &[u64; MOST_NUMBERS], before: &Self) -> Option<Self>;

    fn text(&self) -> &[u8] {
        &[]
    }

    fn set_text(&mut self, _text: &[u8]) {}
}

/// Packs rows, given in order of id.
pub(crate) fn pack<R: ListRow>(rows: &[R], level: i32) -> std::io::Result<Vec<u8>> {
    let mut columns = vec![Vec::new(); R::NUMBERS];
    let (mut lengths, mut text) = (Vec::new(), Vec::new());
    let mut before = R::default();
    for row in rows {
        for (column, number) in columns.iter_mut().zip(row.numbers(&before)) {
            varint::write(column, number);
        }
        if R::HAS_TEXT {
            varint::write(&mut lengths, row.text().len() as u64);
            text.extend_from_slice(row.text());
        }
        before = *row;
    }
    if R::HAS_TEXT {
        columns.extend([lengths, text]);
    }
    let mut plain = vec![FORMAT];
    varint::write(&mut plain, rows.len() as u64);
    for column in &columns {
        write_section(&mut plain, column);
    }
    zip(&plain, level)
}

pub(crate) fn unpack<R: ListRow>(bytes: &[u8]) -> Result<Vec<R>, Malformed> {
    let mut plain = Vec::new();
    unzip(bytes, &mut plain, R::MAX_BYTES)?;
    let mut cursor = VarintCursor::open(&plain, FORMAT)?;
    // Damage cannot make the list longer than its bytes.
    let count = cursor.count_to(R::NUMBERS, R::MAX_ROWS, R::TOO_MANY)?;
    let mut columns = (0..R::NUMBERS).map(|_| cursor.section()).collect::<Result<Vec<_>, _>>()?;
    let (mut lengths, mut text) = if R::HAS_TEXT {
        (cursor.section()?, cursor.section()?)
    } else {
        (VarintCursor::new(&[]), VarintCursor::new(&[]))
    };
    let mut rows = Vec::with_capacity(count);
    let (mut before, mut numbers) = (R::default(), [0; MOST_NUMBERS]);
    for _ in 0..count {
        for (number, column) in numbers.iter_mut().zip(&mut columns) {
            *number = column.u64()?;
        }
        let row = R::from_numbers(&numbers, &before);
        let mut row = row.ok_or_else(|| cursor.malformed("number out of range"))?;
        if R::HAS_TEXT {
            let length: usize = lengths.narrow()?;
            row.set_text(text.bytes(length)?);
        }
        rows.push(row);
        before = row;
    }
    Ok(rows)
}

/// `a − b` of unsigned numbers, wrapping, as a small number where they are near.
pub(crate) fn step(a: u64, b: u64) -> u64 {
    zigzag(a.wrapping_sub(b).cast_signed())
}

/// The reverse of [`step`].
pub(crate) fn stepped(before: u64, by: u64) -> u64 {
    before.wrapping_add(unzigzag(by).cast_unsigned())
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListedProcess {
    /// Row id in table `process`.
    pub(crate) id: u64,
    pub(crate) thread_rows: u32,
}

impl ListRow for ListedProcess {
    const NUMBERS: usize = 2;
    const MAX_ROWS: usize = MAX_PROCESSES;
    // The longest numbers take 15 bytes.
    const MAX_BYTES: usize = MAX_PROCESSES * 16;
    const TOO_MANY: &'static str = "more processes than a list has";

    fn numbers(&self, before: &Self) -> [u64; MOST_NUMBERS] {
        [self.id.wrapping_sub(before.id), self.thread_rows.into(), 0, 0, 0, 0, 0]
    }

    fn from_numbers(numbers: &[u64; MOST_NUMBERS], before: &Self) -> Option<Self> {
        let &[id, thread_rows, ..] = numbers;
        Some(Self { id: before.id.wrapping_add(id), thread_rows: thread_rows.try_into().ok()? })
    }
}

/// Lists have them in order of process and thread.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListedThread {
    /// Row id in table `process`.
    pub(crate) process_id: u64,
    /// Row id in table `thread`.
    pub(crate) id: u64,
    pub(crate) reason: WaitReason,
    pub(crate) last_cpu: u16,
    /// State letter, as in proc(5).
    pub(crate) state: u8,
}

impl ListRow for ListedThread {
    const NUMBERS: usize = 4;
    const MAX_ROWS: usize = MAX_THREADS;
    // The longest numbers take 27 bytes.
    const MAX_BYTES: usize = MAX_THREADS * 28;
    const TOO_MANY: &'static str = "more threads than a list has";

    fn numbers(&self, before: &Self) -> [u64; MOST_NUMBERS] {
        let process = self.process_id.wrapping_sub(before.process_id);
        let place = place_code(self.last_cpu, TaskState(self.state));
        [process, step(self.id, before.id), self.reason.code(), place, 0, 0, 0]
    }

    fn from_numbers(numbers: &[u64; MOST_NUMBERS], before: &Self) -> Option<Self> {
        let &[process, id, reason, place, ..] = numbers;
        let (last_cpu, TaskState(state)) = place_of(place)?;
        Some(Self {
            process_id: before.process_id.wrapping_add(process),
            id: stepped(before.id, id),
            reason: WaitReason::from_code(reason),
            last_cpu,
            state,
        })
    }
}

#[cfg(test)]
mod tests;
