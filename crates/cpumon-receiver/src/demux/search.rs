//! Searches in ascending lists for keys that ascend too. A snapshot names few of many tasks, so neither hashing nor a search from the
//! front again would pay.

/// Where a key is to be found in an ascending list, from `from` on: by galloping.
pub(super) fn search<T, K: Ord>(list: &[T], from: usize, key: &K, key_of: impl Fn(&T) -> K) -> usize {
    let rest = list.get(from..).unwrap_or_default();
    // Both lists ascend, so the next key is mostly close behind the last one.
    let mut reach = 1;
    while rest.get(reach - 1).is_some_and(|row| key_of(row) < *key) {
        reach *= 2;
    }
    from + rest[..reach.min(rest.len())].partition_point(|row| key_of(row) < *key)
}

/// An ascending list, asked for keys that ascend too: one pass over both answers for all.
pub(super) struct Among<'a, T, F> {
    list: &'a [T],
    at: usize,
    key_of: F,
}

impl<'a, T, F> Among<'a, T, F> {
    pub(super) fn new<K: Ord>(list: &'a [T], key_of: F) -> Self
    where
        F: Fn(&T) -> K,
    {
        Self { list, at: 0, key_of }
    }

    /// Whether the list has a key, which is not less than the one before.
    #[inline]
    pub(super) fn has<K: Ord>(&mut self, key: &K) -> bool
    where
        F: Fn(&T) -> K,
    {
        self.at = search(self.list, self.at, key, &self.key_of);
        self.list.get(self.at).is_some_and(|row| (self.key_of)(row) == *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascending_keys_are_found_as_by_a_plain_search() {
        let list: Vec<u32> = (0..500).filter(|number| number % 3 != 1 && number % 7 != 0).collect();
        for step in 1..40 {
            let (mut among, mut at) = (Among::new(&list, |row| *row), 0);
            for key in (0..520).step_by(step) {
                at = search(&list, at, &key, |row| *row);
                assert_eq!(at, list.partition_point(|row| *row < key), "{key}");
                assert_eq!(among.has(&key), list.contains(&key), "{key}");
                assert!(among.has(&key) == list.contains(&key), "asked twice");
            }
        }
    }
}
