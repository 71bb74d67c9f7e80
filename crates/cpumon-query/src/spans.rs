//! Cuts a range into what is read from sums and what is read from intervals. The parts share no interval: each interval counts in
//! the part in which it ends, as in the store's sums.

use cpumon_model::HostId;
use cpumon_store::{Resolution, StoreError};

use crate::past::Past;
use crate::time::TimeRange;

const MINUTE_NS: i64 = 60_000_000_000;
const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Up to this, intervals are read: they are few, and have the end of each peak.
const FINE_NS: i64 = 2 * HOUR_NS;
/// Up to this, sums of minutes are read: their points are fine enough for a small line.
const MINUTES_NS: i64 = 12 * HOUR_NS;

/// A part of a range.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Intervals that end in it are its own.
    pub range: TimeRange,
    /// `None`: intervals.
    pub resolution: Option<Resolution>,
}

/// The finest data at both ends of a range; `None`: intervals.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finest {
    pub since: Option<Resolution>,
    pub until: Option<Resolution>,
}

/// A range as it can be read, in parts, in order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Wider than asked for where only sums are left of its ends.
    pub range: TimeRange,
    /// In order of time; together they are the range.
    pub spans: Vec<Span>,
}

fn down(ns: i64, length_ns: i64) -> i64 {
    ns.div_euclid(length_ns).saturating_mul(length_ns)
}

fn up(ns: i64, length_ns: i64) -> i64 {
    let begin_ns = down(ns, length_ns);
    if begin_ns == ns { ns } else { begin_ns.saturating_add(length_ns) }
}

/// Cuts a range. `Cut::spans` together are the range.
pub(crate) fn cut(asked: TimeRange, finest: Finest) -> Cut {
    cut_to(asked, finest, MINUTES_NS)
}

/// `minutes_ns`: up to this, sums of minutes are read.
fn cut_to(asked: TimeRange, finest: Finest, minutes_ns: i64) -> Cut {
    let length_of = |resolution: Option<Resolution>| resolution.map_or(1, Resolution::length_ns);
    let range = TimeRange {
        since_ns: down(asked.since_ns, length_of(finest.since)),
        until_ns: up(asked.until_ns, length_of(finest.until)),
    };
    let mut spans = Vec::new();
    let mut push = |since_ns: i64, until_ns: i64, resolution| {
        if since_ns < until_ns {
            spans.push(Span { range: TimeRange { since_ns, until_ns }, resolution });
        }
    };
    let TimeRange { since_ns, until_ns } = range;
    let (first, last) = (up(since_ns, MINUTE_NS), down(until_ns, MINUTE_NS));
    let has_sums_only = finest.since.is_some() || finest.until.is_some();
    if first >= last || range.length_ns() <= FINE_NS && !has_sums_only {
        push(since_ns, until_ns, None);
        return Cut { range, spans };
    }
    push(since_ns, first, None);
    let (from, to) = (up(first, HOUR_NS), down(last, HOUR_NS));
    let is_coarse = [finest.since, finest.until].contains(&Some(Resolution::Hour));
    if from < to && (range.length_ns() > minutes_ns || is_coarse) {
        push(first, from, Some(Resolution::Minute));
        push(from, to, Some(Resolution::Hour));
        push(to, last, Some(Resolution::Minute));
    } else {
        push(first, last, Some(Resolution::Minute));
    }
    push(last, until_ns, None);
    Cut { range, spans }
}

impl Finest {
    /// Of what is stored; `None`: there is nothing of this host.
    pub(crate) fn of(past: &dyn Past, host: HostId, range: TimeRange) -> Result<Option<Self>, StoreError> {
        let at =
            |since_ns: i64| past.plan(host, TimeRange { since_ns, until_ns: since_ns.saturating_add(1) }, 1);
        let ends = (at(range.since_ns)?, at(range.until_ns.saturating_sub(1))?);
        Ok(ends.0.zip(ends.1).map(|(since, until)| Self { since: since.resolution, until: until.resolution }))
    }
}

impl Cut {
    /// How a report, a sum and a comparison read a range of processes; `None`: there is nothing of this host.
    pub fn of(past: &dyn Past, host: HostId, range: TimeRange) -> Result<Option<Self>, StoreError> {
        Ok(Finest::of(past, host, range)?.map(|finest| cut(range, finest)))
    }

    /// Single intervals alone.
    pub(crate) fn fine(range: TimeRange) -> Self {
        Self { range, spans: vec![Span { range, resolution: None }] }
    }

    /// The coarsest that is read.
    #[must_use]
    pub fn coarsest(&self) -> Option<Resolution> {
        self.spans
            .iter()
            .map(|span| span.resolution)
            .max_by_key(|one| one.map_or(0, Resolution::length_ns))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_of(since_ns: i64, until_ns: i64, finest: Finest) -> Vec<(i64, i64, &'static str)> {
        let cut = cut(TimeRange { since_ns, until_ns }, finest);
        let ends = cut.spans.iter().map(|span| (span.range.since_ns, span.range.until_ns));
        assert!(ends.clone().zip(ends.skip(1)).all(|(one, next)| one.1 == next.0), "{cut:?}");
        let name = |span: &Span| span.resolution.map_or("interval", Resolution::name);
        let minutes = |ns: i64| ns / 1_000_000_000;
        cut.spans
            .iter()
            .map(|span| (minutes(span.range.since_ns), minutes(span.range.until_ns), name(span)))
            .collect()
    }

    #[test]
    fn sums_cover_whole_minutes_and_hours_and_intervals_the_edges() {
        let s = |seconds: i64| seconds * 1_000_000_000;
        let all = Finest::default();
        assert_eq!(cut_of(s(30), s(3630), all), [(30, 3630, "interval")]);
        assert_eq!(
            cut_of(s(30), s(10_830), all),
            [(30, 60, "interval"), (60, 10_800, "minute"), (10_800, 10_830, "interval")]
        );
        assert_eq!(
            cut_of(s(3000) + 1, s(90_100), all),
            [
                (3000, 3060, "interval"),
                (3060, 3600, "minute"),
                (3600, 90_000, "hour"),
                (90_000, 90_060, "minute"),
                (90_060, 90_100, "interval")
            ]
        );
        let old = Finest { since: Some(Resolution::Hour), until: Some(Resolution::Minute) };
        assert_eq!(cut_of(s(3700), s(7300), old), [(3600, 7200, "hour"), (7200, 7320, "minute")]);
        assert_eq!(cut_of(s(-90), s(-30), all), [(-90, -30, "interval")]);
    }
}
