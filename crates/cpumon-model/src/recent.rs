//! [`Recent`]: a map of bounded size for what is remembered of others, whose number they choose.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

/// When the map is full, one part in so many is forgotten at once: each entry that is added pays for the check of four,
/// however large the map is.
const FORGOTTEN_PART: usize = 4;

/// A map of at most so many entries: those that were not used for longest give way.
#[derive(Debug)]
pub struct Recent<K, V, S = RandomState> {
    entries: HashMap<K, Entry<V>, S>,
    max: usize,
    uses: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    /// Number of its last use.
    used: u64,
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> Recent<K, V, S> {
    /// Empty; of at most `max` entries, at least one.
    #[must_use]
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
        let entry = self.entries.entry(key).or_insert_with(|| Entry { value: value(), used });
        entry.used = used;
        &mut entry.value
    }

    /// Adds or replaces the value of a key.
    pub fn insert(&mut self, key: K, value: V) -> &mut V {
        self.remove(&key);
        self.get_or_insert_with(key, || value)
    }

    /// Takes the value of a key out.
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

    /// [`Recent::values`], to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.values_mut().map(|entry| &mut entry.value)
    }

    /// Forgets the values that do not pass.
    pub fn retain(&mut self, mut passes: impl FnMut(&V) -> bool) {
        self.entries.retain(|_, entry| passes(&entry.value));
    }

    /// Entries in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all, and gives the memory back.
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
