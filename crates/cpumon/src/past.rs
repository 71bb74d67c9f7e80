//! Places in a store's past. In: a moment. Out: the interval there, the one before or the one after.

use cpumon_model::{HostId, Interval};
use cpumon_query::Seek;
use cpumon_store::{Reader, StoreError};

/// The interval of a host that is asked for; `None` if nothing is kept there.
pub fn seek(reader: &Reader, host: HostId, to: Seek) -> Result<Option<Interval>, StoreError> {
    match to {
        Seek::At(wall_ns) => match reader.interval_at(host, wall_ns)? {
            Some(interval) => Ok(Some(interval)),
            None => reader.previous_interval(host, wall_ns),
        },
        Seek::Before(wall_ns) => reader.previous_interval(host, wall_ns),
        Seek::After(wall_ns) => reader.next_interval(host, wall_ns),
    }
}
