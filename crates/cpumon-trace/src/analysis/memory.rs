//! [`Memory`]: what an analysis takes beside a place for each thread.

use std::collections::HashMap;

/// Memory of lists of whom threads waited behind, of histograms and the like, bytes. Half of what a tracker may take with them.
const MAX_BYTES: usize = 512 << 20;

/// Memory of a table, without what its entries refer to.
pub(super) fn table_bytes<K, V, S>(table: &HashMap<K, V, S>) -> usize {
    // An eighth of its places stays empty, and each has a byte beside it.
    table.capacity().div_ceil(7) * 8 * (size_of::<(K, V)>() + 1)
}

/// Counts memory, and what found none.
#[derive(Debug, Default)]
pub(super) struct Memory {
    bytes: usize,
    left_out: u64,
}

impl Memory {
    /// Takes so many bytes. False: there are none left, and something is left out.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let is_taken = self.bytes + bytes <= MAX_BYTES;
        if is_taken {
            self.bytes += bytes;
        } else {
            self.left_out += 1;
        }
        is_taken
    }

    /// Takes bytes back.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// What was taken.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How often nothing was left.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}
