//! The data read for a question about a range. A picture with points is read at one resolution (`Plan`): a month is read from sums, not
//! from samples. Figures that add up are read in parts ([`Cut`]), each at its best resolution. The parts share no interval: an interval
//! counts in the part in which it ends, as in the store's sums.

use cpumon_model::HostId;
use cpumon_store::{Reader, Resolution, StoreError, StoredReach};

use crate::time::{PlotRange, TimeRange};

const MINUTE_NS: i64 = 60_000_000_000;
const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Up to this, intervals are read: they are few, and have the end of each peak.
const FINE_NS: i64 = 2 * HOUR_NS;
/// Up to this, sums of minutes are read: their points are fine enough for a small line.
const MINUTES_NS: i64 = 12 * HOUR_NS;
/// The same for lines over time: hundreds of points of a week are minutes apart.
const LINES_NS: i64 = 8 * 24 * HOUR_NS;

/// How a range is walked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Only what ends after this; not before what the store holds.
    pub(crate) since_ns: i64,
    /// And not after this; not after what the store holds.
    pub(crate) until_ns: i64,
    /// Sums of this length; `None`: the intervals themselves.
    pub(crate) resolution: Option<Resolution>,
    /// Width of a point, ns; of sums a multiple of theirs.
    pub(crate) width_ns: i64,
}

/// The coarsest resolution that is fine enough for points `wanted_ns` apart; a coarser one where finer data no longer reaches
/// back to `since_ns`. `None`: the samples themselves.
fn choose_resolution(wanted_ns: i64, since_ns: i64, reach: &StoredReach) -> Option<Resolution> {
    let StoredReach { first_ns, minutes_ns, hours_ns, .. } = *reach;
    let since_ns = since_ns.max(reach.oldest_ns.saturating_sub(1));
    // Hours begin up to an hour before the first sample they sum: within that hour, all data reaches equally far.
    let oldest = hours_ns.unwrap_or(i64::MAX).saturating_add(HOUR_NS).max(since_ns);
    let reaches = |begin: Option<i64>| begin.is_some_and(|begin| begin <= oldest);
    if hours_ns.is_some() && wanted_ns >= HOUR_NS {
        Some(Resolution::Hour)
    } else if wanted_ns >= MINUTE_NS && reaches(minutes_ns) {
        Some(Resolution::Minute)
    } else if hours_ns.is_none() || reaches(first_ns) {
        None
    } else if reaches(minutes_ns) {
        Some(Resolution::Minute)
    } else {
        Some(Resolution::Hour)
    }
}

impl Plan {
    /// For a picture: over sums where its points are minutes or hours apart, or where nothing finer reaches back.
    pub(crate) fn of(reach: &StoredReach, range: PlotRange) -> Self {
        let points = i64::try_from(range.points).unwrap_or(i64::MAX).max(1);
        // The points are those of the range that was asked for: it is what the picture shows.
        let wanted_ns = (range.time().length_ns() / points).max(1);
        let resolution = choose_resolution(wanted_ns, range.since_ns, reach);
        let width_ns = resolution.map_or(wanted_ns, |resolution| {
            let length_ns = resolution.length_ns();
            (wanted_ns.saturating_add(length_ns - 1) / length_ns).max(1).saturating_mul(length_ns)
        });
        let since_ns = range.since_ns.max(reach.oldest_ns.saturating_sub(1));
        Self { since_ns, until_ns: range.until_ns.min(reach.last_ns), resolution, width_ns }
    }
}

/// A part of a range that is read at one resolution.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Time of the span; an interval belongs to the span in which it ends.
    pub range: TimeRange,
    /// Resolution of the sums; `None` for single intervals.
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

/// The begin of the next span of this length, or the moment itself where one begins.
pub(crate) fn up(ns: i64, length_ns: i64) -> i64 {
    let begin_ns = down(ns, length_ns);
    if begin_ns == ns { ns } else { begin_ns.saturating_add(length_ns) }
}

/// Cuts a range into spans that together cover it.
pub(crate) fn cut(asked: TimeRange, finest: Finest) -> Cut {
    cut_to(asked, finest, MINUTES_NS)
}

/// The same for lines over time, which have more points.
pub(crate) fn cut_for_lines(asked: TimeRange, finest: Finest) -> Cut {
    cut_to(asked, finest, LINES_NS)
}

/// `minutes_ns`: up to this, sums of minutes are read.
fn cut_to(asked: TimeRange, finest: Finest, minutes_ns: i64) -> Cut {
    let length_of = |resolution: Option<Resolution>| resolution.map_or(1, Resolution::length_ns);
    let range = TimeRange {
        since_ns: down(asked.since_ns, length_of(finest.since)),
        until_ns: up(asked.until_ns, length_of(finest.until)),
    };
    let TimeRange { since_ns, until_ns } = range;
    let (first, last) = (up(since_ns, MINUTE_NS), down(until_ns, MINUTE_NS));
    let has_sums_only = finest.since.is_some() || finest.until.is_some();
    if first >= last || range.length_ns() <= FINE_NS && !has_sums_only {
        return Cut::at(range, [(range.until_ns, None)]);
    }
    let (from, to) = (up(first, HOUR_NS), down(last, HOUR_NS));
    let is_coarse = [finest.since, finest.until].contains(&Some(Resolution::Hour));
    let (minute, hour) = (Some(Resolution::Minute), Some(Resolution::Hour));
    if from < to && (range.length_ns() > minutes_ns || is_coarse) {
        Cut::at(range, [(first, None), (from, minute), (to, hour), (last, minute), (until_ns, None)])
    } else {
        Cut::at(range, [(first, None), (last, minute), (until_ns, None)])
    }
}

/// [`cut`] for threads, which have sums of hours alone; hours of `without` have none, and are read from intervals.
pub(crate) fn cut_threads(asked: TimeRange, finest: Finest, without: &[TimeRange]) -> Cut {
    let end = |ns: i64, finest: Option<Resolution>, to: fn(i64, i64) -> i64| {
        if finest.is_some() { to(ns, HOUR_NS) } else { ns }
    };
    let range = TimeRange {
        since_ns: end(asked.since_ns, finest.since, down),
        until_ns: end(asked.until_ns, finest.until, up),
    };
    let (from, to) = (up(range.since_ns, HOUR_NS), down(range.until_ns, HOUR_NS));
    let has_sums_only = finest.since.is_some() || finest.until.is_some();
    if from >= to || range.length_ns() <= FINE_NS && !has_sums_only {
        return Cut::at(range, [(range.until_ns, None)]);
    }
    let sums = Some(Resolution::Hour);
    let without = without.iter().filter(|hour| hour.since_ns >= from && hour.until_ns <= to);
    let without = without.flat_map(|hour| [(hour.since_ns, sums), (hour.until_ns, None)]);
    let (begin, end) = ([(from, None)], [(to, sums), (range.until_ns, None)]);
    Cut::at(range, begin.into_iter().chain(without).chain(end))
}

impl Finest {
    pub(crate) fn of(reach: &StoredReach, range: TimeRange) -> Self {
        let at = |since_ns: i64| choose_resolution(1, since_ns, reach);
        Self { since: at(range.since_ns), until: at(range.until_ns.saturating_sub(1)) }
    }
}

impl Cut {
    /// How a report, a sum and a comparison read a range of processes; `None`: there is nothing of this host.
    pub fn of(past: &Reader, host: HostId, range: TimeRange) -> Result<Option<Self>, StoreError> {
        Ok(past.reach(host)?.map(|reach| cut(range, Finest::of(&reach, range))))
    }

    /// A range cut at these ends, each with the resolution of the part before it.
    fn at(range: TimeRange, ends: impl IntoIterator<Item = (i64, Option<Resolution>)>) -> Self {
        let mut since_ns = range.since_ns;
        let span = |(until_ns, resolution)| {
            let range = TimeRange { since_ns: std::mem::replace(&mut since_ns, until_ns), until_ns };
            (range.since_ns < until_ns).then_some(Span { range, resolution })
        };
        Self { range, spans: ends.into_iter().filter_map(span).collect() }
    }

    /// Reads the whole range as single intervals.
    pub(crate) fn fine(range: TimeRange) -> Self {
        Self { range, spans: vec![Span { range, resolution: None }] }
    }

    /// Time from `known.since_ns` to `known.until_ns` that is read interval by interval, ns.
    pub(crate) fn intervals_ns(&self, known: TimeRange) -> i64 {
        let fine = self.spans.iter().filter(|span| span.resolution.is_none());
        let length_ns = |span: &Span| {
            let since_ns = span.range.since_ns.max(known.since_ns);
            span.range.until_ns.min(known.until_ns).saturating_sub(since_ns).max(0)
        };
        fine.map(length_ns).fold(0, i64::saturating_add)
    }

    /// Coarsest resolution that is read; `None` if only intervals are.
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
    fn a_plan_is_as_coarse_as_the_picture_allows() {
        let s = |seconds: i64| seconds * 1_000_000_000;
        let reach = StoredReach {
            first_ns: Some(s(36_001)),
            minutes_ns: Some(s(36_000)),
            hours_ns: Some(s(36_000)),
            oldest_ns: s(36_000),
            last_ns: s(36_660),
        };
        let plan = |minutes: i64, points| {
            let (since_ns, until_ns) = (s(36_000), s(36_000 + 60 * minutes));
            Plan::of(&reach, PlotRange { since_ns, until_ns, points })
        };
        assert_eq!((plan(10, 100).resolution, plan(10, 100).width_ns), (None, s(6)));
        assert_eq!((plan(10, 10).resolution, plan(10, 10).width_ns), (Some(Resolution::Minute), MINUTE_NS));
        assert_eq!(plan(10, 4).width_ns, 3 * MINUTE_NS, "whole minutes");
        assert_eq!(plan(60 * 24, 4).resolution, Some(Resolution::Hour));
        assert_eq!(plan(60 * 24, 4).until_ns, s(36_660), "no further than what is stored");
        // Samples are left of the last minute alone, minutes of the last two hours.
        let old = StoredReach {
            first_ns: Some(s(36_601)),
            minutes_ns: Some(s(29_400)),
            hours_ns: Some(0),
            oldest_ns: 0,
            ..reach
        };
        let at = |since_ns: i64| {
            Plan::of(&old, PlotRange { since_ns, until_ns: since_ns + 1, points: 1 }).resolution
        };
        assert_eq!(
            [s(36_610), s(30_000), s(7_200)].map(at),
            [None, Some(Resolution::Minute), Some(Resolution::Hour)]
        );
    }

    #[test]
    fn threads_are_read_from_hours_and_where_there_are_none_from_intervals() {
        let s = |seconds: i64| seconds * 1_000_000_000;
        let range = |since: i64, until: i64| TimeRange { since_ns: s(since), until_ns: s(until) };
        let of = |asked: TimeRange, finest: Finest, without: &[TimeRange]| {
            let cut = cut_threads(asked, finest, without);
            let seconds = |span: &Span| [span.range.since_ns, span.range.until_ns].map(|ns| ns / s(1));
            cut.spans.iter().map(|span| (seconds(span), span.resolution.is_some())).collect::<Vec<_>>()
        };
        let all = Finest::default();
        assert_eq!(of(range(30, 7230), all, &[]), [([30, 7230], false)]);
        let parts = [([30, 3600], false), ([3600, 10_800], true), ([10_800, 10_860], false)];
        assert_eq!(of(range(30, 10_860), all, &[]), parts);
        let without = [range(0, 3600), range(7200, 10_800)];
        let parts =
            [([30, 3600], false), ([3600, 7200], true), ([7200, 10_800], false), ([10_800, 14_400], true)];
        assert_eq!(of(range(30, 14_400), all, &without), parts);
        let old = Finest { since: Some(Resolution::Minute), until: None };
        assert_eq!(of(range(3700, 7230), old, &[]), [([3600, 7200], true), ([7200, 7230], false)]);
        let cut = cut_threads(range(30, 14_400), all, &without);
        assert_eq!(cut.intervals_ns(range(3000, 8000)), s(600 + 800));
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
