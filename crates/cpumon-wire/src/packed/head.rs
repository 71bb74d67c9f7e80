//! [`Heads`]: the headers of frames. In: a header, or room for one. Out: its bits, by the headers before. Why: they are 87 bytes
//! of which a snapshot changes a few numbers, and its second frame next to nothing.

use super::cell::{Cell, ColumnModel};
use super::coder::{Chance, Coder, Number, tree};
use super::table::Malformed;
use crate::v2::HEADER_BYTES;

/// Where numbers stand that change: begin and length.
const FLAGS: (usize, usize) = (6, 2);
const SEQUENCE: (usize, usize) = (44, 8);
const FRAGMENT: (usize, usize) = (52, 2);
const COUNT: (usize, usize) = (54, 2);
const MONO: (usize, usize) = (56, 8);
const BOOT: (usize, usize) = (64, 8);
const WALL: (usize, usize) = (72, 8);
/// Where the length of the header stands.
const LENGTH_AT: usize = 5;

/// How the numbers of a header differ from what was expected.
#[derive(Debug, Default)]
struct Numbers {
    flags: Number,
    sequence: Number,
    fragment: Number,
    count: Number,
    mono: Number,
    boot: Number,
    wall: Number,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Heads {
    before: Vec<u8>,
    is_same: Chance,
    length: Number,
    letters: Box<[Chance; 256]>,
    first: Numbers,
    others: Numbers,
    mono: (Cell, ColumnModel),
}

impl Default for Heads {
    fn default() -> Self {
        Self {
            before: vec![0; HEADER_BYTES],
            is_same: Chance::default(),
            length: Number::default(),
            letters: Box::new([Chance::default(); 256]),
            first: Numbers::default(),
            others: Numbers::default(),
            mono: Default::default(),
        }
    }
}

impl Heads {
    /// Codes a header: the one at `at` of the `count` frames of a record. What was coded is in `head`.
    pub(super) fn code(
        &mut self,
        coder: &mut impl Coder,
        head: &mut Vec<u8>,
        (at, count): (u64, u64),
    ) -> Result<(), Malformed> {
        let mut told = self.code_fixed(coder, head)?;
        let numbers = if at == 0 { &mut self.first } else { &mut self.others };
        let step = u64::from(at == 0);
        let before = |field| get(&self.before, field);
        let mut number = |model: &mut Number, field, expected: u64| {
            let difference = get(head, field).wrapping_sub(expected).cast_signed();
            let value = expected.wrapping_add(model.code_signed(coder, difference).cast_unsigned());
            set(&mut told, field, value);
            get(&told, field)
        };
        number(&mut numbers.flags, FLAGS, before(FLAGS));
        number(&mut numbers.sequence, SEQUENCE, before(SEQUENCE).wrapping_add(step));
        number(&mut numbers.fragment, FRAGMENT, at);
        number(&mut numbers.count, COUNT, count);
        if at > 0 {
            for (model, field) in
                [(&mut numbers.mono, MONO), (&mut numbers.boot, BOOT), (&mut numbers.wall, WALL)]
            {
                number(model, field, before(field));
            }
        } else {
            let (cell, model) = &mut self.mono;
            let mono = model.code(coder, cell, get(head, MONO), 1);
            set(&mut told, MONO, mono);
            let passed = mono.wrapping_sub(before(MONO));
            for (model, field) in [(&mut numbers.boot, BOOT), (&mut numbers.wall, WALL)] {
                let expected = before(field).wrapping_add(passed);
                let difference = get(head, field).wrapping_sub(expected).cast_signed();
                let difference = model.code_signed(coder, difference).cast_unsigned();
                set(&mut told, field, expected.wrapping_add(difference));
            }
        }
        self.before.clone_from(&told);
        head.clone_from(&told);
        Ok(())
    }

    /// What does not change, and how long it is; the numbers are 0 in what this gives.
    fn code_fixed(&mut self, coder: &mut impl Coder, head: &[u8]) -> Result<Vec<u8>, Malformed> {
        let zeroed = |head: &[u8]| {
            let mut head = head.to_vec();
            for field in [FLAGS, SEQUENCE, FRAGMENT, COUNT, MONO, BOOT, WALL] {
                set(&mut head, field, 0);
            }
            head
        };
        let (wanted, before) = (zeroed(head), zeroed(&self.before));
        if coder.bit(&mut self.is_same, wanted == before) {
            return Ok(before);
        }
        let length = usize::try_from(self.length.code(coder, wanted.len() as u64)).ok();
        let length = length.filter(|length| (HEADER_BYTES..=usize::from(u8::MAX)).contains(length));
        let mut told = Vec::new();
        for at in 0..length.ok_or(Malformed)? {
            let letter = u64::from(wanted.get(at).copied().unwrap_or(0));
            told.push(u8::try_from(tree(coder, &mut self.letters[..], letter, 8)).unwrap_or(0));
        }
        Ok(zeroed(&told))
    }

    /// When the snapshot of the last header ended, by the wall clock.
    pub(super) fn wall(&self) -> u64 {
        get(&self.before, WALL)
    }
}

fn get(head: &[u8], (begin, length): (usize, usize)) -> u64 {
    let mut bytes = [0; 8];
    if let Some(field) = head.get(begin..begin + length) {
        bytes[..length].copy_from_slice(field);
    }
    u64::from_le_bytes(bytes)
}

fn set(head: &mut [u8], (begin, length): (usize, usize), value: u64) {
    if let Some(field) = head.get_mut(begin..begin + length) {
        field.copy_from_slice(&value.to_le_bytes()[..length]);
    }
}

/// The header at the beginning of a frame; `None`: there is none.
pub(super) fn head_of(frame: &[u8]) -> Option<&[u8]> {
    let length = usize::from(*frame.get(LENGTH_AT)?);
    frame.get(..length).filter(|head| head.len() >= HEADER_BYTES)
}
