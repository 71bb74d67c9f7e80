//! The place of each task by its number. Recorders number tasks from 1 up, so a list finds most of them without a search.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// Numbers up to here are in the list. Larger ones, which only imports and damaged files have, are searched.
const LISTED: u32 = 1 << 22;
const NONE: u32 = u32::MAX;

/// Places by number.
#[derive(Debug, Default)]
pub struct Numbers {
    list: Vec<u32>,
    others: HashMap<u32, u32, FixedState>,
}

impl Numbers {
    /// The place of a number.
    #[inline]
    #[must_use]
    pub fn get(&self, number: u32) -> Option<usize> {
        match self.list.get(number as usize) {
            Some(&slot) => (slot != NONE).then_some(slot as usize),
            None if number < LISTED => None,
            None => self.others.get(&number).map(|&slot| slot as usize),
        }
    }

    /// Gives a number its place.
    pub fn set(&mut self, number: u32, slot: usize) {
        let (Ok(place), Ok(listed)) = (usize::try_from(number), u32::try_from(slot)) else { return };
        if number >= LISTED {
            self.others.insert(number, listed);
            return;
        }
        if place >= self.list.len() {
            self.list.resize(place + 1, NONE);
        }
        self.list[place] = listed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_numbers_are_found() {
        let mut numbers = Numbers::default();
        let all = [1, 5, LISTED - 1, LISTED, u32::MAX - 1];
        for (slot, number) in all.into_iter().enumerate() {
            assert_eq!(numbers.get(number), None);
            numbers.set(number, slot);
        }
        for (slot, number) in all.into_iter().enumerate() {
            assert_eq!(numbers.get(number), Some(slot));
        }
        assert_eq!(numbers.get(2), None);
    }
}
