//! How to read a long range for a chart: the samples themselves where it is short, sums per minute or hour where it is long. A
//! chart of a month must not read a month of samples.

use cpumon_model::HostId;

use super::open::Reader;
use crate::error::{At, Result};
use crate::rows::HostRow;
use crate::sums::Resolution;
use crate::time::TimeRange;

/// How a range is walked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Only what ends after this; not before what the store holds.
    pub since_ns: i64,
    /// And not after this; not after what the store holds.
    pub until_ns: i64,
    /// Sums of this length; `None`: the intervals themselves.
    pub resolution: Option<Resolution>,
    /// Width of a point, ns; of sums a multiple of theirs.
    pub width_ns: i64,
}

/// How far back the data of a host reaches, ns; `None` where there is none.
struct Oldest {
    /// End of the oldest sample.
    sample: Option<i64>,
    /// Start of the oldest sum of a minute.
    minute: Option<i64>,
    /// Start of the oldest sum of an hour.
    hour: Option<i64>,
}

/// The coarsest resolution that is fine enough for points `wanted_ns` apart; a coarser one where finer data no longer reaches
/// back to `since`. `None`: the samples themselves.
fn choose_resolution(wanted_ns: i64, since: i64, oldest: &Oldest) -> Option<Resolution> {
    let Oldest { sample: first, minute: minutes, hour: hours } = *oldest;
    // Hours begin up to an hour before the first sample they sum: within that hour, all data reaches equally far.
    let oldest = hours.unwrap_or(i64::MAX).saturating_add(Resolution::Hour.length_ns()).max(since);
    let reaches = |begin: Option<i64>| begin.is_some_and(|begin| begin <= oldest);
    if hours.is_some() && wanted_ns >= Resolution::Hour.length_ns() {
        Some(Resolution::Hour)
    } else if wanted_ns >= Resolution::Minute.length_ns() && reaches(minutes) {
        Some(Resolution::Minute)
    } else if hours.is_none() || reaches(first) {
        None
    } else if reaches(minutes) {
        Some(Resolution::Minute)
    } else {
        Some(Resolution::Hour)
    }
}

impl Reader {
    /// How to walk a range for a picture of at most about `points` points: over sums where points are minutes or hours apart,
    /// or where nothing finer reaches back. `None` if the store holds nothing of the host.
    pub fn plan(&self, host: HostId, range: TimeRange, points: usize) -> Result<Option<Plan>> {
        let Some(host_row) = self.host_row(host)? else { return Ok(None) };
        let (minutes, _) = self.sum_range(host_row, Resolution::Minute)?;
        let (hours, last_hour) = self.sum_range(host_row, Resolution::Hour)?;
        let (first, last) = self.host_span(host_row).at("find the time range", self.path())?;
        let oldest = first.into_iter().chain(minutes).chain(hours).min();
        let Some((oldest, last)) = oldest.zip(last.or(last_hour)) else { return Ok(None) };
        let since = range.since_ns.max(oldest.saturating_sub(1));
        let until = range.until_ns.min(last.max(oldest));
        let points = i64::try_from(points).unwrap_or(i64::MAX).max(1);
        // The points are those of the range that was asked for: it is what the picture shows.
        let wanted_ns = (range.until_ns.saturating_sub(range.since_ns) / points).max(1);
        let resolution =
            choose_resolution(wanted_ns, since, &Oldest { sample: first, minute: minutes, hour: hours });
        let width_ns = resolution.map_or(wanted_ns, |resolution| {
            let length_ns = resolution.length_ns();
            (wanted_ns.saturating_add(length_ns - 1) / length_ns).max(1).saturating_mul(length_ns)
        });
        Ok(Some(Plan { since_ns: since, until_ns: until, resolution, width_ns }))
    }

    /// Start of the oldest sum of a host and end of the newest, ns.
    fn sum_range(&self, host: HostRow, resolution: Resolution) -> Result<(Option<i64>, Option<i64>)> {
        let name = resolution.name();
        let text = format!("SELECT min({name}), max({name}) + 1 FROM host_{name} WHERE host_id = ?1");
        let span: (Option<i64>, Option<i64>) = self
            .connection
            .prepare_cached(&text)
            .and_then(|mut select| select.query_row([host], |row| Ok((row.get(0)?, row.get(1)?))))
            .at("find sums", self.path())?;
        let ns = |bucket: i64| bucket.saturating_mul(resolution.length_ns());
        Ok((span.0.map(ns), span.1.map(ns)))
    }
}
