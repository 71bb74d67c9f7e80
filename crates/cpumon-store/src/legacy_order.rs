//! How the original receiver numbered the rows of an imported interval: its exports list them in that order (table `legacy_order`).

use cpumon_model::HostId;
use rusqlite::params;

use crate::codec::varint::{self, Malformed, VarintCursor};
use crate::error::{At, Result};
use crate::reader::Reader;
use crate::rows::{execute, find_row, first};
use crate::writer::Writer;

/// The original's row numbers for one interval, in the order of the interval's (sorted) rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyOrder {
    /// `Processes.idx` of each process row.
    pub process_idx: Vec<i64>,
    /// Position of each thread row among the set's thread rows, from 0.
    pub thread_position: Vec<u32>,
}

impl LegacyOrder {
    /// Packs it: varints of the first idx, the number of processes, each idx less the first, each thread position.
    fn encode(&self) -> Vec<u8> {
        let first = self.process_idx.iter().copied().min().unwrap_or(0);
        let mut bytes = Vec::with_capacity(16 + self.process_idx.len() + 2 * self.thread_position.len());
        varint::write(&mut bytes, first.cast_unsigned());
        varint::write(&mut bytes, self.process_idx.len() as u64);
        for idx in &self.process_idx {
            varint::write(&mut bytes, idx.wrapping_sub(first).cast_unsigned());
        }
        for position in &self.thread_position {
            varint::write(&mut bytes, u64::from(*position));
        }
        bytes
    }

    /// `None` for bytes that [`LegacyOrder::encode`] did not make.
    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::read(&mut VarintCursor::new(bytes)).ok()
    }

    fn read(cursor: &mut VarintCursor<'_>) -> Result<Self, Malformed> {
        let first = cursor.u64()?.cast_signed();
        let mut order = Self::default();
        // Each idx takes at least one byte, so a larger count is damage.
        for _ in 0..cursor.count(1)? {
            order.process_idx.push(first.wrapping_add(cursor.u64()?.cast_signed()));
        }
        while cursor.remaining() > 0 {
            order.thread_position.push(cursor.narrow()?);
        }
        Ok(order)
    }
}

impl Writer {
    /// Records in the open transaction how the original numbered the rows of an interval that was put before. What was recorded for an
    /// interval of this host with this end (ns since the UNIX epoch) is replaced; for a host that the store does not know, nothing is.
    ///
    /// # Errors
    /// As for [`Writer::put`].
    pub fn put_legacy_order(&mut self, host: HostId, end_wall_ns: i64, order: &LegacyOrder) -> Result<()> {
        self.write("store the order of imported rows", |transaction| {
            let text = "INSERT OR REPLACE INTO legacy_order (host_id, end_wall_ns, idx)
                        SELECT id, ?2, ?3 FROM host WHERE key = ?1";
            execute(transaction, text, params![host.0, end_wall_ns, order.encode()]).map(drop)
        })
    }
}

impl Reader {
    /// How the original numbered the rows of an imported interval, which ends at `end_wall_ns` (ns since the UNIX epoch); `None` for an
    /// interval that was measured.
    ///
    /// # Errors
    /// SQLite's errors.
    pub fn legacy_order(&self, host: HostId, end_wall_ns: i64) -> Result<Option<LegacyOrder>> {
        let text = "SELECT idx FROM legacy_order
                    WHERE host_id = (SELECT id FROM host WHERE key = ?1) AND end_wall_ns = ?2";
        let order: Option<Vec<u8>> = find_row(self.question(), text, params![host.0, end_wall_ns], first)
            .at("read the order of imported rows", self.path())?;
        Ok(order.as_deref().and_then(LegacyOrder::decode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn survives_its_bytes(process_idx in prop::collection::vec(any::<i64>(), 0..40), thread_position in prop::collection::vec(any::<u32>(), 0..40)) {
            let order = LegacyOrder { process_idx, thread_position };
            prop_assert_eq!(LegacyOrder::decode(&order.encode()), Some(order));
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(order) = LegacyOrder::decode(&bytes) {
                prop_assert!(order.process_idx.len() + order.thread_position.len() <= bytes.len());
            }
        }
    }
}
