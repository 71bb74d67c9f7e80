//! CPU use of the newest minutes, a line each host.

use cpumon_model::{HostId, HostStatus};

use super::busy::busy_ratio;
use crate::Live;
use crate::time::now_ns;

/// Values in a line.
const VALUES: i64 = 120;
/// Time between two values of a line, ns.
pub const SPARK_STEP_NS: i64 = 1_000_000_000;

/// CPU use of a host, the newest value last.
#[derive(Clone, Debug, PartialEq)]
pub struct SparkLine {
    /// The host.
    pub host: HostId,
    /// Share of all CPUs that was busy, 0 to 1, rounded to 1/10,000; `None`: nothing arrived.
    pub busy_ratio: Vec<Option<f64>>,
}

/// CPU use of the newest minutes, by the receiver's clock.
pub fn sparks<'h>(live: &dyn Live, hosts: impl IntoIterator<Item = &'h HostStatus>) -> Vec<SparkLine> {
    let now_ns = now_ns();
    hosts.into_iter().map(|host| line(live, host, now_ns)).collect()
}

fn line(live: &dyn Live, host: &HostStatus, now_ns: i64) -> SparkLine {
    // Intervals whose device's clock is wrong are on the receiver's time line already: their shift is no offset.
    let moved_ns = live.newest(host.info.host).map_or(0, |shown| shown.interval.wall_shift_ns);
    let offset_ns = host.clock_offset_ns().saturating_sub(moved_ns);
    let begin_ns = now_ns.saturating_sub(VALUES * SPARK_STEP_NS);
    let mut line = vec![None; usize::try_from(VALUES).unwrap_or(0)];
    for shown in live.recent(host.info.host, begin_ns.saturating_add(offset_ns)) {
        let interval = &shown.interval;
        let Some(busy) = busy_ratio(interval) else { continue };
        let place = |wall_ns: i64| {
            let at = wall_ns.saturating_sub(offset_ns).saturating_sub(begin_ns).div_euclid(SPARK_STEP_NS);
            usize::try_from(at.clamp(0, VALUES)).unwrap_or(0)
        };
        let (from, to) = (place(interval.begin.wall_ns), place(interval.end.wall_ns));
        // At least one value, because an interval may be shorter than a step.
        let end = line.len().min(to.max(from + 1));
        if let Some(part) = line.get_mut(from..end) {
            part.fill(Some((busy * 1e4).round() / 1e4));
        }
    }
    SparkLine { host: host.info.host, busy_ratio: line }
}
