//! [`Texts`]: texts that were told on a lane. In: texts. Out: a number for each. Why: a full snapshot tells every name again.

use std::collections::HashMap;
use std::sync::Arc;

use super::coder::{Chance, Coder, Number, tree};

/// Bytes of texts that are remembered, 64 more for each.
const MAX_BYTES: usize = 1 << 20;
const OVERHEAD: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Texts {
    list: Vec<Arc<[u8]>>,
    index: HashMap<Arc<[u8]>, u64>,
    bytes: usize,
    is_known: Chance,
    length: Number,
    letters: Box<[Chance; 256]>,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            index: HashMap::default(),
            bytes: 0,
            is_known: Chance::default(),
            length: Number::default(),
            letters: Box::new([Chance::default(); 256]),
        }
    }
}

/// Stands for a text that is not remembered.
pub(super) const UNKNOWN: u64 = u64::MAX;

impl Texts {
    /// The text with this number; empty if there is none.
    pub(super) fn get(&self, number: u64) -> &[u8] {
        usize::try_from(number).ok().and_then(|at| self.list.get(at)).map_or(&[], |text| text)
    }

    /// The number of a text; [`UNKNOWN`]: it is not remembered.
    pub(super) fn find(&self, text: &[u8]) -> u64 {
        self.index.get(text).copied().unwrap_or(UNKNOWN)
    }

    /// Codes a text; gives its number. What was told is left in `told`. `None`: it is longer than `most`.
    pub(super) fn code(
        &mut self,
        coder: &mut impl Coder,
        text: &[u8],
        most: usize,
        told: &mut Vec<u8>,
    ) -> Option<u64> {
        told.clear();
        let known = self.index.get(text).copied();
        let is_known = coder.bit(&mut self.is_known, known.is_some());
        let width = u64::BITS - (self.list.len() as u64).leading_zeros();
        if is_known {
            let number = coder.plain(known.unwrap_or(0), width);
            told.extend_from_slice(self.get(number));
            return (told.len() <= most).then_some(number);
        }
        let len = usize::try_from(self.length.code(coder, text.len() as u64)).ok();
        let len = len.filter(|&len| len <= most)?;
        for at in 0..len {
            let letter = text.get(at).copied().unwrap_or(0);
            let letter = tree(coder, &mut self.letters[..], u64::from(letter), 8);
            told.push(u8::try_from(letter).unwrap_or(0));
        }
        Some(self.remember(told))
    }

    fn remember(&mut self, text: &[u8]) -> u64 {
        let bytes = text.len() + OVERHEAD;
        if self.bytes + bytes > MAX_BYTES || self.index.contains_key(text) {
            return UNKNOWN;
        }
        self.bytes += bytes;
        let (text, number): (Arc<[u8]>, _) = (text.into(), self.list.len() as u64);
        self.list.push(Arc::clone(&text));
        self.index.insert(text, number);
        number
    }

    /// Whether less than half of the room is left.
    pub(super) fn is_half_full(&self) -> bool {
        self.bytes > MAX_BYTES / 2
    }

    /// Forgets the texts that are not used; the new number of each.
    pub(super) fn retain(&mut self, used: &[bool]) -> Vec<u64> {
        let old = std::mem::take(&mut self.list);
        self.index.clear();
        self.bytes = 0;
        let keep = |(at, text): (usize, Arc<[u8]>)| match used.get(at) {
            Some(true) => self.remember(&text),
            _ => UNKNOWN,
        };
        old.into_iter().enumerate().map(keep).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}
