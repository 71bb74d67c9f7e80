//! The order of imported rows: exports in the layout of 2012 show the original's row numbers.

use cpumon_model::HostId;
use rusqlite::{OptionalExtension, params};

use super::open::Reader;
use crate::error::{At, Result};
use crate::legacy::SetOrder;

impl Reader {
    /// How the original numbered the rows of an imported interval; `None` for an interval that was measured.
    pub fn legacy_order(&self, host: HostId, end_wall_ns: i64) -> Result<Option<SetOrder>> {
        let order: Option<Vec<u8>> = self
            .connection
            .prepare_cached(
                "SELECT idx FROM legacy_order
                 WHERE host_id = (SELECT id FROM host WHERE key = ?1) AND end_wall_ns = ?2",
            )
            .and_then(|mut select| {
                select.query_row(params![host.0, end_wall_ns], |row| row.get(0)).optional()
            })
            .at("read the order of imported rows", self.path())?;
        Ok(order.as_deref().and_then(SetOrder::decode))
    }
}
