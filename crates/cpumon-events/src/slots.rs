//! A list with a place for each thread of the tracker.

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
            self.0.resize_with(slot + 1, T::default);
        }
        &mut self.0[slot]
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
