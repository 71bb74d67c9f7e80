//! [`SetOrder`]: in which order the original stored the rows of one set. Intervals are sorted by id, but the original's exports
//! show `Idx` and have the order of arrival.

/// The original's row numbers for one interval, in the order of the interval's (sorted) rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetOrder {
    /// `Processes.idx` of each process row.
    pub process_idx: Vec<i64>,
    /// Position of each thread row among the set's thread rows, from 0.
    pub thread_position: Vec<u32>,
}

impl SetOrder {
    /// Packs it: varints of the first idx, the number of processes, each idx less the first, each thread position.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let first = self.process_idx.iter().copied().min().unwrap_or(0);
        let mut bytes = Vec::with_capacity(16 + self.process_idx.len() + 2 * self.thread_position.len());
        put(&mut bytes, first.cast_unsigned());
        put(&mut bytes, self.process_idx.len() as u64);
        for idx in &self.process_idx {
            put(&mut bytes, idx.wrapping_sub(first).cast_unsigned());
        }
        for position in &self.thread_position {
            put(&mut bytes, u64::from(*position));
        }
        bytes
    }

    /// `None` for bytes that [`SetOrder::encode`] did not make.
    #[must_use]
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let first = take(&mut bytes)?.cast_signed();
        // Each idx takes at least one byte, so a larger count is damage.
        let count = usize::try_from(take(&mut bytes)?).ok().filter(|count| *count <= bytes.len())?;
        let mut order = Self::default();
        for _ in 0..count {
            order.process_idx.push(first.wrapping_add(take(&mut bytes)?.cast_signed()));
        }
        while !bytes.is_empty() {
            order.thread_position.push(u32::try_from(take(&mut bytes)?).ok()?);
        }
        Some(order)
    }
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push((value & 0x7f) as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn survives_its_bytes(process_idx in prop::collection::vec(any::<i64>(), 0..40), thread_position in prop::collection::vec(any::<u32>(), 0..40)) {
            let order = SetOrder { process_idx, thread_position };
            prop_assert_eq!(SetOrder::decode(&order.encode()), Some(order));
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(order) = SetOrder::decode(&bytes) {
                prop_assert!(order.process_idx.len() + order.thread_position.len() <= bytes.len());
            }
        }
    }
}
