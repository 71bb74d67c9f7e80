//! A list with a place for each thread of the tracker.

/// Grows as threads appear.
#[derive(Debug)]
pub(super) struct Slots<T>(Vec<T>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> Slots<T> {
    #[inline]
    pub(super) fn at(&mut self, slot: usize) -> &mut T {
        if slot >= self.0.len() {
            self.0.resize_with(slot + 1, T::default);
        }
        &mut self.0[slot]
    }

    pub(super) fn get(&self, slot: usize) -> Option<&T> {
        self.0.get(slot)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// Places so far.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
