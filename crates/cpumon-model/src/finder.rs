//! [`Finder`]: finds ascending keys in a sorted list that is walked once, forwards. The differ matches 10,000 threads a second, so
//! it neither hashes nor starts from the front again.

use std::cmp::Ordering;

/// Walks a list sorted by key, forwards only.
pub(crate) struct Finder<'a, T> {
    rest: &'a [T],
}

impl<'a, T> Finder<'a, T> {
    pub(crate) fn new(rows: &'a [T]) -> Self {
        Self { rest: rows }
    }

    /// The row with this key; rows passed over on the way are handed to `passed`. For lists that mostly match.
    pub(crate) fn merge<K: Ord + Copy>(
        &mut self,
        key: K,
        key_of: impl Fn(&T) -> K,
        mut passed: impl FnMut(&'a T),
    ) -> Option<&'a T> {
        while let [first, rest @ ..] = self.rest {
            match key_of(first).cmp(&key) {
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

    /// The row with this key, by galloping. For few keys in a long list.
    pub(crate) fn search<K: Ord + Copy>(&mut self, key: K, key_of: impl Fn(&T) -> K) -> Option<&'a T> {
        let mut reach = 1;
        while self.rest.get(reach - 1).is_some_and(|row| key_of(row) < key) {
            reach *= 2;
        }
        let window = &self.rest[..reach.min(self.rest.len())];
        let at = window.partition_point(|row| key_of(row) < key);
        self.rest = &self.rest[at..];
        self.rest.first().filter(|row| key_of(row) == key)
    }

    pub(crate) fn rest(self, passed: impl FnMut(&'a T)) {
        self.rest.iter().for_each(passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [u32; 6] = [2, 3, 5, 7, 11, 13];

    #[test]
    fn merging_hands_out_what_it_passes_over() {
        let (mut finder, mut passed) = (Finder::new(&ROWS), Vec::new());
        assert_eq!(finder.merge(5, |&row| row, |&row| passed.push(row)), Some(&5));
        assert_eq!(finder.merge(6, |&row| row, |&row| passed.push(row)), None);
        assert_eq!(finder.merge(11, |&row| row, |&row| passed.push(row)), Some(&11));
        finder.rest(|&row| passed.push(row));
        assert_eq!(passed, [2, 3, 7, 13]);
    }

    #[test]
    fn galloping_finds_what_a_plain_search_finds() {
        let mut finder = Finder::new(&ROWS);
        for key in 0..20 {
            let expected = ROWS.contains(&key);
            assert_eq!(finder.search(key, |&row| row).is_some(), expected, "{key}");
        }
    }
}
