//! [`Tally`]: the lengths of a column's values, from which the coding with the fewest bits is chosen.

use super::bits::bit_len;
use super::columns::{Column, Kind, is_text};

/// What is known of a column's values.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) id: u8,
    /// Index of its values in a gathered row.
    pub(crate) slot: usize,
    /// Index into [`UNITS`].
    pub(crate) unit: usize,
    /// Some difference is negative, so all are folded.
    pub(crate) folded: bool,
    pub(crate) zeros: bool,
    /// Significant bits of the shortest value but 0, and of the longest.
    pub(crate) min_bits: u32,
    pub(crate) max_bits: u32,
    pub(crate) values: u64,
    /// Sum of the bits below the topmost one.
    pub(crate) low_bits: u64,
}

impl Tally {
    pub(crate) fn new(id: u8, slot: usize) -> Self {
        Self {
            id,
            slot,
            unit: 0,
            folded: false,
            zeros: false,
            min_bits: 64,
            max_bits: 0,
            values: 0,
            low_bits: 0,
        }
    }

    /// A value that will be written.
    pub(crate) fn add(&mut self, coded: u64) {
        self.cover(coded);
        self.values += 1;
        self.low_bits += u64::from(bit_len(coded).saturating_sub(1));
    }

    /// A value that may be written.
    pub(crate) fn cover(&mut self, coded: u64) {
        let bits = bit_len(coded);
        self.max_bits = self.max_bits.max(bits);
        if bits == 0 {
            self.zeros = true;
        } else {
            self.min_bits = self.min_bits.min(bits);
        }
    }

    /// Whether a code of its own for 0 makes the prefix narrower, and how wide that is.
    fn prefix(&self) -> (bool, u32) {
        let spread = self.max_bits.saturating_sub(self.min_bits);
        let apart = bit_len(u64::from(spread + 1));
        if !self.zeros {
            return (false, bit_len(u64::from(spread)));
        }
        let together = bit_len(u64::from(self.max_bits));
        (apart < together, apart.min(together))
    }

    fn fixed_cost(&self) -> u64 {
        // A folded column says so in its kind, which has a prefix.
        if self.folded { u64::MAX } else { self.values * u64::from(self.max_bits) }
    }

    fn prefixed_cost(&self) -> u64 {
        self.values * u64::from(self.prefix().1) + self.low_bits
    }

    pub(crate) fn cost(&self) -> u64 {
        self.fixed_cost().min(self.prefixed_cost())
    }

    pub(crate) fn column(&self) -> Column {
        let (id, unit) = (self.id, self.unit);
        if !is_text(id) && self.fixed_cost() <= self.prefixed_cost() {
            let min = self.max_bits;
            return Column { id, kind: Kind::Fixed, prefix: 0, min, zero_is_apart: false, unit };
        }
        let kind = match (is_text(id), self.folded) {
            (true, _) => Kind::Text,
            (false, true) => Kind::Folded,
            (false, false) => Kind::Prefixed,
        };
        let (zero_is_apart, prefix) = self.prefix();
        let min = if self.zeros && !zero_is_apart { 0 } else { self.min_bits };
        Column { id, kind, prefix, min, zero_is_apart, unit }
    }
}
