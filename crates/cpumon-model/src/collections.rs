//! Collections: lists that are filled again at each snapshot, [`Finder`] for sorted lists, and [`Recent`], a map of bounded size.
//!
//! Lists retain their memory, so that a steady state allocates nothing, but shrink when they are far longer than they were used: one
//! storm must not cost memory for ever.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

/// Lists of fewer bytes stay as long as they are.
const SMALL_BYTES: usize = 256 << 10;
/// Places of capacity for each used one, beyond which a list is shortened.
const PLACES_FOR_ONE: usize = 8;

/// Shortens a list to twice its length if it has far more capacity than that.
pub fn trim_list<T>(list: &mut Vec<T>) {
    trim(list, list.len());
}

/// Empties a list, and shortens it if it held far less than its capacity.
pub fn empty_list<T>(list: &mut Vec<T>) {
    let used = list.len();
    list.clear();
    trim(list, used);
}

/// Takes the list and clears it; its memory is kept for reuse.
pub(crate) fn emptied<T>(list: &mut Vec<T>) -> Vec<T> {
    let mut list = std::mem::take(list);
    empty_list(&mut list);
    list
}

fn trim<T>(list: &mut Vec<T>, used: usize) {
    let space = list.capacity();
    if space.saturating_mul(size_of::<T>()) > SMALL_BYTES && used < space / PLACES_FOR_ONE {
        // Twice, so that a little more in the next pass does not allocate at once.
        list.shrink_to(used * 2);
    }
}

/// Most rows of a list that is sorted in place, without allocating.
const FEW_ROWS: usize = 1_024;

/// Sorts rows by key; rows of the same key in any order. Rows of a long list move once: sorting moves each several times, and rows of
/// 200 bytes take longer to move than to compare.
pub fn sort_rows<T, K: Ord + Copy>(list: &mut [T], key_of: impl Fn(&T) -> K) {
    /// Marks a row that is at its final position.
    const DONE: u32 = u32::MAX;
    let (Ok(count), true) = (u32::try_from(list.len()), list.len() > FEW_ROWS) else {
        list.sort_unstable_by_key(key_of);
        return;
    };
    if list.is_sorted_by_key(&key_of) {
        return;
    }
    let mut order: Vec<(K, u32)> = list.iter().map(&key_of).zip(0..count).collect();
    order.sort_unstable_by_key(|one| one.0);
    for begin in 0..list.len() {
        let mut at = begin;
        // A ring of places: each gets the row of the next one.
        loop {
            let from = std::mem::replace(&mut order[at].1, DONE);
            if from == DONE || from as usize == begin {
                break;
            }
            list.swap(at, from as usize);
            at = from as usize;
        }
    }
}

/// Where a key is in an ascending list from `from` on, or would be: by galloping. For few keys in a long list.
pub fn gallop<T, K: Ord>(list: &[T], from: usize, key: &K, key_of: impl Fn(&T) -> K) -> usize {
    let rest = list.get(from..).unwrap_or_default();
    // Keys that are searched one after the other ascend, so the next one is mostly close behind the last one.
    let mut reach = 1;
    while rest.get(reach - 1).is_some_and(|row| key_of(row) < *key) {
        reach *= 2;
    }
    from + rest[..reach.min(rest.len())].partition_point(|row| key_of(row) < *key)
}

/// Walks a list sorted by key, forwards only: the keys that are searched ascend, too. The differ matches 10,000 threads a second, so it
/// neither hashes nor starts from the front again.
pub struct Finder<'a, T, F> {
    rest: &'a [T],
    key_of: F,
}

impl<'a, T, F> Finder<'a, T, F> {
    /// At the begin of a list.
    pub fn new<K: Ord>(rows: &'a [T], key_of: F) -> Self
    where
        F: Fn(&T) -> K,
    {
        Self { rest: rows, key_of }
    }

    /// The row with this key; rows passed over on the way are handed to `passed`. For lists that mostly match.
    pub(crate) fn merge<K: Ord>(&mut self, key: &K, mut passed: impl FnMut(&'a T)) -> Option<&'a T>
    where
        F: Fn(&T) -> K,
    {
        while let [first, rest @ ..] = self.rest {
            match (self.key_of)(first).cmp(key) {
                Ordering::Less => passed(first),
                Ordering::Equal => {
                    self.rest = rest;
                    return Some(first);
                }
                Ordering::Greater => return None,
            }
            self.rest = rest;
        }
        None
    }

    /// The row with this key, by [`gallop`]ing.
    pub(crate) fn search<K: Ord>(&mut self, key: &K) -> Option<&'a T>
    where
        F: Fn(&T) -> K,
    {
        self.rest = &self.rest[gallop(self.rest, 0, key, &self.key_of)..];
        self.rest.first().filter(|row| (self.key_of)(row) == *key)
    }

    /// Whether the list has this key.
    #[inline]
    pub fn has<K: Ord>(&mut self, key: &K) -> bool
    where
        F: Fn(&T) -> K,
    {
        self.search(key).is_some()
    }

    pub(crate) fn rest(self, passed: impl FnMut(&'a T)) {
        self.rest.iter().for_each(passed);
    }
}

/// A full map forgets one entry in this many at once: each added entry pays for the check of four, however large the map is.
const FORGOTTEN_PART: usize = 4;

/// A map of bounded size. It remembers others, such as senders, who choose their own number: the least recently used entries give way.
#[derive(Debug)]
pub struct Recent<K, V, S = RandomState> {
    entries: HashMap<K, UsedValue<V>, S>,
    max: usize,
    uses: u64,
}

#[derive(Debug)]
struct UsedValue<V> {
    value: V,
    /// Value of `Recent::uses` at the last use.
    used: u64,
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> Recent<K, V, S> {
    /// An empty map of at most `max` entries; 0 counts as 1.
    pub fn new(max: usize) -> Self {
        Self { entries: HashMap::default(), max: max.max(1), uses: 0 }
    }

    /// The value of a key, which counts as used now.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.uses;
        Some(&mut entry.value)
    }

    /// The value of a key, which does not count as a use.
    pub fn peek<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// The value of a key, which is added if it is new.
    pub fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        if self.entries.len() >= self.max && !self.entries.contains_key(&key) {
            self.forget_some();
        }
        self.uses += 1;
        let used = self.uses;
        let entry = self.entries.entry(key).or_insert_with(|| UsedValue { value: value(), used });
        entry.used = used;
        &mut entry.value
    }

    /// Adds or replaces the value of a key.
    pub fn insert(&mut self, key: K, value: V) -> &mut V {
        self.remove(&key);
        self.get_or_insert_with(key, || value)
    }

    /// Removes a key and returns its value.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.entries.remove(key).map(|entry| entry.value)
    }

    /// All values, in no order; none counts as used.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
    }

    /// Mutable [`Recent::values`]; no value counts as used.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.values_mut().map(|entry| &mut entry.value)
    }

    /// Removes the values for which `passes` is false.
    pub fn retain(&mut self, mut passes: impl FnMut(&V) -> bool) {
        self.entries.retain(|_, entry| passes(&entry.value));
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all entries and frees their memory.
    pub fn clear(&mut self) {
        self.entries = HashMap::default();
    }

    /// Makes space: the entries that were not used for longest go.
    fn forget_some(&mut self) {
        let mut uses: Vec<u64> = self.entries.values().map(|entry| entry.used).collect();
        let last = uses.len().div_ceil(FORGOTTEN_PART).saturating_sub(1);
        let (_, &mut last_to_go, _) = uses.select_nth_unstable(last);
        self.entries.retain(|_, entry| entry.used > last_to_go);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_long_lists_are_sorted_as_those_of_short_ones() {
        let mut state = 7_u32;
        for count in [0, 1, 2, 1_024, 1_025, 5_000, 20_000] {
            for distinct in [3, 100_000] {
                let mut rows: Vec<(u32, [u64; 9])> = Vec::new();
                for _ in 0..count {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let key = (state >> 8) % distinct;
                    rows.push((key, [u64::from(key); 9]));
                }
                let mut expected = rows.clone();
                expected.sort_by_key(|row| row.0);
                sort_rows(&mut rows, |row| row.0);
                assert!(rows == expected, "{count} rows of {distinct} keys");
                // Two runs, as exits behind threads.
                rows.rotate_left(count / 3);
                sort_rows(&mut rows, |row| row.0);
                assert!(rows == expected, "{count} rows of {distinct} keys in two runs");
            }
        }
    }

    #[test]
    fn what_only_a_storm_needed_is_given_back_and_what_is_used_is_kept() {
        let mut list: Vec<u64> = (0..100_000).collect();
        let space = list.capacity();
        empty_list(&mut list);
        assert_eq!((list.len(), list.capacity()), (0, space), "it was used");
        list.extend(0..20_000);
        empty_list(&mut list);
        assert_eq!(list.capacity(), space, "a fifth of it");
        list.extend(0..5_000);
        trim_list(&mut list);
        assert_eq!((list.len(), list.capacity()), (5_000, 10_000));
        empty_list(&mut list);
        empty_list(&mut list);
        assert_eq!(list.capacity(), 10_000, "it is small");
    }

    const ROWS: [u32; 6] = [2, 3, 5, 7, 11, 13];

    #[test]
    fn merging_hands_out_what_it_passes_over() {
        let (mut finder, mut passed) = (Finder::new(&ROWS, |&row| row), Vec::new());
        assert_eq!(finder.merge(&5, |&row| passed.push(row)), Some(&5));
        assert_eq!(finder.merge(&6, |&row| passed.push(row)), None);
        assert_eq!(finder.merge(&11, |&row| passed.push(row)), Some(&11));
        finder.rest(|&row| passed.push(row));
        assert_eq!(passed, [2, 3, 7, 13]);
    }

    #[test]
    fn galloping_finds_what_a_plain_search_finds() {
        let list: Vec<u32> = (0..500).filter(|number| number % 3 != 1 && number % 7 != 0).collect();
        for step in 1..40 {
            let (mut finder, mut at) = (Finder::new(&list, |row| *row), 0);
            for key in (0..520).step_by(step) {
                at = gallop(&list, at, &key, |row| *row);
                assert_eq!(at, list.partition_point(|row| *row < key), "{key}");
                assert_eq!(finder.has(&key), list.contains(&key), "{key}");
                assert!(finder.has(&key) == list.contains(&key), "asked twice");
            }
        }
    }

    #[test]
    fn what_is_used_stays_however_many_others_come() {
        let mut recent: Recent<u64, u64> = Recent::new(100);
        for number in 0..10_000 {
            *recent.get_or_insert_with(number + 1, || 0) += 1;
            // Used between any two others, but by its key alone.
            let first = if number == 0 { Some(recent.insert(0, 7)) } else { recent.get_mut(&0) };
            assert_eq!(first, Some(&mut 7));
            assert!(recent.len() <= 100);
        }
        assert!(recent.len() >= 75 && recent.peek(&10_000) == Some(&1) && recent.peek(&9_000).is_none());
    }

    #[test]
    fn the_longest_unused_go_first_and_peeking_is_no_use() {
        let mut recent: Recent<u8, u8> = Recent::new(4);
        for key in 1..=4 {
            recent.insert(key, key);
        }
        assert_eq!(recent.peek(&1), Some(&1));
        assert_eq!(recent.get_mut(&2), Some(&mut 2));
        recent.insert(5, 5);
        assert_eq!((recent.peek(&1), recent.len()), (None, 4));
        recent.insert(6, 6);
        assert_eq!((recent.peek(&3), recent.peek(&2)), (None, Some(&2)));
        assert_eq!(recent.remove(&2), Some(2));
        recent.clear();
        assert!(recent.is_empty());
    }

    #[test]
    fn one_place_is_the_least() {
        let mut recent: Recent<u8, u8> = Recent::new(0);
        recent.insert(1, 1);
        recent.insert(2, 2);
        assert_eq!((recent.len(), recent.peek(&2)), (1, Some(&2)));
    }
}
