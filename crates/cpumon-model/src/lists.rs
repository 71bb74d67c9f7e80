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

#[cfg(test)]
mod tests {
    use super::*;

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
