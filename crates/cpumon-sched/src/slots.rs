//! Places of threads: [`Slots`], a list with a place for each, and [`Numbers`], the place of each task by its number.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// Makes space for a place in a list, in steps of an eighth of its length: twice as much would be empty memory, where there are millions. A
/// short list doubles: there can be one for each of 65,536 CPUs.
#[inline]
pub fn reserve_some<T>(list: &mut Vec<T>, place: usize) {
    if place >= list.capacity() {
        let missing = (place + 1).saturating_sub(list.len());
        list.reserve_exact((list.len() / 8).max(list.len().clamp(4, 64)).max(missing));
    }
}

/// Values by place; grows when a place is first used.
#[derive(Debug)]
pub struct Slots<T>(Vec<T>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> Slots<T> {
    /// The value of a place; a new place gets the default value.
    #[inline]
    pub fn at(&mut self, slot: usize) -> &mut T {
        if slot >= self.0.len() {
            self.grow(slot);
        }
        &mut self.0[slot]
    }

    #[cold]
    fn grow(&mut self, slot: usize) {
        reserve_some(&mut self.0, slot);
        self.0.resize_with(slot + 1, T::default);
    }

    /// Memory of the list with places for at least `threads` threads, bytes, without memory that the values refer to.
    pub fn bytes(&self, threads: usize) -> usize {
        self.0.capacity().max(threads) * size_of::<T>()
    }

    pub fn get(&self, slot: usize) -> Option<&T> {
        self.0.get(slot)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Numbers up to here are in the list. Larger ones, which only imports and damaged files have, are searched.
const LISTED: u32 = 1 << 22;
const NONE: u32 = u32::MAX;

/// Places by number. Recorders number tasks from 1 up, so a list finds most places without a search.
#[derive(Debug, Default)]
pub struct Numbers {
    list: Vec<u32>,
    /// Keys come from files: the hash has a new seed in each table, so that no file can make keys collide.
    others: HashMap<u32, u32, RandomState>,
}

impl Numbers {
    #[inline]
    pub fn get(&self, number: u32) -> Option<usize> {
        match self.list.get(number as usize) {
            Some(&slot) => (slot != NONE).then_some(slot as usize),
            None if number < LISTED => None,
            None => self.others.get(&number).map(|&slot| slot as usize),
        }
    }

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

    /// Each had 64 places: 288 MB where a trace of 3 MB names 65,535 CPUs.
    #[test]
    fn short_lists_have_few_empty_places_and_long_ones_an_eighth() {
        let (mut list, mut steps) = (Vec::new(), 0);
        for place in 0..100_000 {
            let before = list.capacity();
            reserve_some(&mut list, place);
            list.push(place);
            steps += usize::from(list.capacity() > before);
            let most = (2 * list.len()).min(list.len() + (list.len() / 8).max(64)).max(4);
            assert!(list.capacity() <= most, "{} places for {place}", list.capacity());
        }
        assert!(steps < 70, "{steps}");
    }

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

    /// With one seed for all tables a file could choose numbers that collide: 28,000 of them, 98 kB, took a minute.
    #[test]
    fn each_table_has_a_seed_of_its_own() {
        let order = || {
            let mut numbers = Numbers::default();
            (0..1_000).zip(LISTED..).for_each(|(slot, number)| numbers.set(number, slot));
            numbers.others.into_keys().collect::<Vec<_>>()
        };
        assert_ne!(order(), order());
    }
}
