//! Places in a store's past. In: a moment. Out: the interval there, the one before or the one after.

use std::ops::ControlFlow;

use cpumon_model::{HostId, Interval};
use cpumon_store::{Query, Reader, StoreError, What};
use cpumon_web::Seek;

/// How far back an earlier interval is looked for, ns: first close by, where it nearly always is. The last reaches all.
const WINDOWS_NS: [i64; 5] =
    [10_000_000_000, 300_000_000_000, 7_200_000_000_000, 172_800_000_000_000, i64::MAX];

/// The interval of a host that is asked for; `None` if nothing is kept there.
pub fn seek(reader: &Reader, host: HostId, to: Seek) -> Result<Option<Interval>, StoreError> {
    match to {
        Seek::At(wall_ns) => match reader.interval_at(host, wall_ns)? {
            Some(interval) => Ok(Some(interval)),
            None => before(reader, host, wall_ns),
        },
        Seek::Before(wall_ns) => before(reader, host, wall_ns),
        Seek::After(wall_ns) => reader.next_interval(host, wall_ns),
    }
}

/// The newest interval that ends before `wall_ns`.
fn before(reader: &Reader, host: HostId, wall_ns: i64) -> Result<Option<Interval>, StoreError> {
    let Some((first_ns, last_ns)) = reader.time_range(host)? else { return Ok(None) };
    let until_ns = wall_ns.saturating_sub(1).min(last_ns);
    if until_ns < first_ns {
        return Ok(None);
    }
    for window_ns in WINDOWS_NS {
        // Ends are looked at first, without their rows; the range is open at its begin.
        let since_ns = until_ns.saturating_sub(window_ns).max(first_ns.saturating_sub(1));
        let mut end_ns = None;
        let query = Query::new(host).range(since_ns, until_ns).what(What::Meta);
        reader.for_each_interval(&query, &mut |interval| {
            end_ns = Some(interval.end.wall_ns);
            ControlFlow::Continue(())
        })?;
        if let Some(end_ns) = end_ns {
            return reader.next_interval(host, end_ns.saturating_sub(1));
        }
    }
    Ok(None)
}
