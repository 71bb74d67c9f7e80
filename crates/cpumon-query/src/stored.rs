//! Finds single intervals of a host's past in the store.

use cpumon_model::{HostId, Interval};
use cpumon_store::{Reader, StoreError};

use crate::Seek;

/// The interval of a host that is asked for; `None` if nothing is stored there, a hole included.
///
/// # Errors
/// The store cannot be read.
pub fn seek(reader: &Reader, host: HostId, to: Seek) -> Result<Option<Interval>, StoreError> {
    match to {
        Seek::At(wall_ns) => reader.interval_at(host, wall_ns),
        Seek::Before(wall_ns) => reader.previous_interval(host, wall_ns),
        Seek::After(wall_ns) => reader.next_interval(host, wall_ns),
    }
}
