//! Names of tasks, a thousand in one blob. A compiler's threads live for a second, and their names take more space than their
//! samples; side by side and compressed a name takes a quarter of its row. Layout: docs/store.md, "Blocks of names".

use cpumon_model::Comm;

use super::varint::{self, Cursor, Malformed, write_section};
use super::zip::{unzip, zip};

/// First byte of a block.
const FORMAT: u8 = 1;
/// Most names in a block; more is damage.
const MAX_NAMES: usize = 1 << 20;

/// A row of table `thread`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadName {
    pub(crate) id: u64,
    pub(crate) process_id: u64,
    pub(crate) tid: u32,
    pub(crate) start_ns: u64,
    pub(crate) comm: Comm,
    pub(crate) nice: i8,
    pub(crate) priority: i16,
}

/// A row of table `process`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessName {
    pub(crate) id: u64,
    pub(crate) boot_id: i64,
    pub(crate) pid: u32,
    pub(crate) start_ns: u64,
    pub(crate) parent_pid: u32,
    pub(crate) info_id: i64,
    pub(crate) is_short: bool,
}

/// Most columns of numbers.
pub(crate) const MOST_NUMBERS: usize = 7;

/// A row that can be packed into a block.
pub(crate) trait Name: Copy + Default {
    /// Columns of numbers, at most [`MOST_NUMBERS`]; text follows them.
    const NUMBERS: usize;

    /// Row id in its table.
    fn id(&self) -> u64;

    /// Its numbers; `before` is the row before.
    fn numbers(&self, before: &Self) -> [i64; MOST_NUMBERS];

    /// The reverse of [`Name::numbers`]; `None` for numbers that it never gives.
    fn from_numbers(numbers: &[i64; MOST_NUMBERS], before: &Self) -> Option<Self>;

    /// Its text; empty if it has none.
    fn text(&self) -> &[u8] {
        &[]
    }

    /// Takes its text back.
    fn set_text(&mut self, _text: &[u8]) {}
}

/// `a − b` of unsigned numbers, wrapping.
fn step(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b).cast_signed()
}

/// The reverse of [`step`].
fn stepped(before: u64, by: i64) -> u64 {
    before.wrapping_add(by.cast_unsigned())
}

/// [`stepped`] for numbers of 32 bits.
fn stepped_u32(before: u32, by: i64) -> Option<u32> {
    u32::try_from(stepped(before.into(), by)).ok()
}

impl Name for ThreadName {
    const NUMBERS: usize = 6;

    fn id(&self) -> u64 {
        self.id
    }

    fn numbers(&self, before: &Self) -> [i64; MOST_NUMBERS] {
        [
            step(self.id, before.id),
            step(self.process_id, before.process_id),
            step(self.tid.into(), before.tid.into()),
            step(self.start_ns, before.start_ns),
            self.nice.into(),
            // Priority is 20 + nice but for real-time threads: the difference is mostly the same number.
            i64::from(self.priority) - i64::from(self.nice),
            0,
        ]
    }

    fn from_numbers(numbers: &[i64; MOST_NUMBERS], before: &Self) -> Option<Self> {
        let &[id, process_id, tid, start_ns, nice, priority, _] = numbers;
        Some(Self {
            id: stepped(before.id, id),
            process_id: stepped(before.process_id, process_id),
            tid: stepped_u32(before.tid, tid)?,
            start_ns: stepped(before.start_ns, start_ns),
            comm: Comm::default(),
            nice: nice.try_into().ok()?,
            // A damaged block can have any numbers of 64 bits here.
            priority: priority.checked_add(nice)?.try_into().ok()?,
        })
    }

    fn text(&self) -> &[u8] {
        self.comm.as_bytes()
    }

    fn set_text(&mut self, text: &[u8]) {
        self.comm = Comm::new(text);
    }
}

impl Name for ProcessName {
    const NUMBERS: usize = 7;

    fn id(&self) -> u64 {
        self.id
    }

    fn numbers(&self, before: &Self) -> [i64; MOST_NUMBERS] {
        [
            step(self.id, before.id),
            self.boot_id.wrapping_sub(before.boot_id),
            step(self.pid.into(), before.pid.into()),
            step(self.start_ns, before.start_ns),
            // The kernel gives pids in ascending order, so a parent's pid is mostly a little lower.
            step(self.pid.into(), self.parent_pid.into()),
            self.info_id,
            self.is_short.into(),
        ]
    }

    fn from_numbers(numbers: &[i64; MOST_NUMBERS], before: &Self) -> Option<Self> {
        let &[id, boot_id, pid, start_ns, above_parent, info_id, is_short] = numbers;
        let pid = stepped_u32(before.pid, pid)?;
        Some(Self {
            id: stepped(before.id, id),
            boot_id: before.boot_id.wrapping_add(boot_id),
            pid,
            start_ns: stepped(before.start_ns, start_ns),
            parent_pid: u32::try_from(u64::from(pid).wrapping_sub(above_parent.cast_unsigned())).ok()?,
            info_id,
            is_short: is_short != 0,
        })
    }
}

/// Packs names, given in order of id.
pub(crate) fn encode<N: Name>(names: &[N], level: i32) -> std::io::Result<Vec<u8>> {
    let mut columns = vec![Vec::new(); N::NUMBERS];
    let (mut lengths, mut text) = (Vec::new(), Vec::new());
    let mut before = N::default();
    for name in names {
        for (column, number) in columns.iter_mut().zip(name.numbers(&before)) {
            varint::write_signed(column, number);
        }
        varint::write(&mut lengths, name.text().len() as u64);
        text.extend_from_slice(name.text());
        before = *name;
    }
    let mut plain = vec![FORMAT];
    varint::write(&mut plain, names.len() as u64);
    for column in columns.iter().chain([&lengths, &text]) {
        write_section(&mut plain, column);
    }
    zip(&plain, level)
}

/// Unpacks what [`encode`] packed.
pub(crate) fn decode<N: Name>(block: &[u8]) -> Result<Vec<N>, Malformed> {
    let mut plain = Vec::new();
    unzip(block, &mut plain)?;
    let mut cursor = Cursor::new(&plain);
    if cursor.u8()? != FORMAT {
        return Err(cursor.malformed("unknown format"));
    }
    // A name has at least one byte in each of its columns.
    let count = cursor.count(N::NUMBERS)?.min(MAX_NAMES);
    let mut columns = (0..N::NUMBERS).map(|_| cursor.section()).collect::<Result<Vec<_>, _>>()?;
    let (mut lengths, mut text) = (cursor.section()?, cursor.section()?);
    let mut names = Vec::with_capacity(count);
    let (mut before, mut numbers) = (N::default(), [0; MOST_NUMBERS]);
    for _ in 0..count {
        for (number, column) in numbers.iter_mut().zip(&mut columns) {
            *number = column.i64()?;
        }
        let name = N::from_numbers(&numbers, &before);
        let mut name = name.ok_or_else(|| cursor.malformed("number out of range"))?;
        let length: usize = lengths.narrow()?;
        name.set_text(text.bytes(length)?);
        names.push(name);
        before = name;
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn any_thread()(id in any::<u64>(), process_id in any::<u64>(), tid in any::<u32>(), start_ns in any::<u64>(),
            comm in proptest::collection::vec(any::<u8>(), 0..16), nice in any::<i8>(), priority in any::<i16>()) -> ThreadName {
            ThreadName { id, process_id, tid, start_ns, comm: Comm::new(&comm), nice, priority }
        }
    }

    prop_compose! {
        fn any_process()(id in any::<u64>(), boot_id in any::<i64>(), pid in any::<u32>(), start_ns in any::<u64>(),
            parent_pid in any::<u32>(), info_id in any::<i64>(), is_short in any::<bool>()) -> ProcessName {
            ProcessName { id, boot_id, pid, start_ns, parent_pid, info_id, is_short }
        }
    }

    proptest! {
        #[test]
        fn names_come_back(
            threads in proptest::collection::vec(any_thread(), 0..40),
            processes in proptest::collection::vec(any_process(), 0..40),
        ) {
            prop_assert_eq!(decode::<ThreadName>(&encode(&threads, 3).unwrap()).unwrap(), threads);
            prop_assert_eq!(decode::<ProcessName>(&encode(&processes, 3).unwrap()).unwrap(), processes);
        }

        #[test]
        fn damaged_blocks_do_not_panic(
            threads in proptest::collection::vec(any_thread(), 1..9),
            flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        ) {
            let mut plain = Vec::new();
            unzip(&encode(&threads, 3).unwrap(), &mut plain).unwrap();
            for (at, flip) in flips {
                let at = at % plain.len();
                plain[at] ^= flip;
            }
            let block = zip(&plain, 3).unwrap();
            prop_assert!(decode::<ThreadName>(&block).map_or(0, |names| names.len()) <= plain.len());
            let _ = decode::<ProcessName>(&block);
        }
    }
}
