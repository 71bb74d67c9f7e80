//! Lists that are filled again at each snapshot. They retain their memory, so that a steady state allocates nothing, but shrink
//! when they are far longer than they were used: one storm must not cost memory for ever.

/// Lists of fewer bytes stay as long as they are.
const SMALL_BYTES: usize = 256 << 10;
/// A list that uses less than one place in so many is shortened.
const PLACES_FOR_ONE: usize = 8;

/// Shortens a list to twice its length if it has far more capacity than that.
pub fn trim_list<T>(list: &mut Vec<T>) {
    trim(list, list.len());
}

/// Empties a list, and shortens it if what it held was far less than its capacity.
pub fn empty_list<T>(list: &mut Vec<T>) {
    let used = list.len();
    list.clear();
    trim(list, used);
}

fn trim<T>(list: &mut Vec<T>, used: usize) {
    let space = list.capacity();
    if space.saturating_mul(size_of::<T>()) > SMALL_BYTES && used < space / PLACES_FOR_ONE {
        // Twice, so that a little more in the next pass does not allocate at once.
        list.shrink_to(used * 2);
    }
}

/// Lists of so many rows are sorted in place, which allocates nothing.
const FEW_ROWS: usize = 1_024;

/// Sorts rows by key; rows of the same key in any order. Rows of a long list move once: sorting moves each several times, and rows of
/// 200 bytes take longer to move than to compare.
pub fn sort_rows<T, K: Ord + Copy>(list: &mut [T], key_of: impl Fn(&T) -> K) {
    /// It is where it belongs.
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
        // A ring of places, each of which gets the row of the next one.
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
}
