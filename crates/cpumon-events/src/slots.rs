//! A list with a place for each thread of the tracker.

/// Makes space for a place in a list, in steps of an eighth of its length: twice as much would be empty memory, where there are millions.
#[inline]
pub fn reserve_some<T>(list: &mut Vec<T>, place: usize) {
    if place >= list.capacity() {
        let missing = (place + 1).saturating_sub(list.len());
        list.reserve_exact((list.len() / 8).max(64).max(missing));
    }
}

/// Grows as threads appear.
#[derive(Debug)]
pub struct Slots<T>(Vec<T>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> Slots<T> {
    /// The place, made if it is new.
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

    /// Memory of the list with places for so many threads, without what these refer to.
    #[must_use]
    pub fn bytes(&self, threads: usize) -> usize {
        self.0.capacity().max(threads) * size_of::<T>()
    }

    /// The place, if it was made.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<&T> {
        self.0.get(slot)
    }

    /// All places, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// Places so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
