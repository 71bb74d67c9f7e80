//! Finds single intervals of a host's past in the store.

use cpumon_model::{HostId, Interval};
use cpumon_store::{Reader, StoreError};

use crate::Seek;

/// The interval of a host that is asked for, with the rows of idle processes, which are zero; `None` if nothing is stored there, a hole included.
///
/// # Errors
/// The store cannot be read.
pub fn seek(reader: &Reader, host: HostId, to: Seek) -> Result<Option<Interval>, StoreError> {
    let mut found = match to {
        Seek::At(wall_ns) => reader.interval_at(host, wall_ns),
        Seek::Before(wall_ns) => reader.previous_interval(host, wall_ns),
        Seek::After(wall_ns) => reader.next_interval(host, wall_ns),
    }?;
    if let Some(interval) = &mut found {
        // Where it is not known who was idle, the rows are fewer than the interval's count of processes, which frontends show.
        reader.add_idle(interval)?;
    }
    Ok(found)
}
