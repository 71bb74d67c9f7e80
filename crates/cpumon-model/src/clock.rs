//! A device's clock against the receiver's: from exchanges of time stamps it estimates the offset, how well that is known, and the
//! drift; and [`ClockPiece`], how one stretch of a boot is moved to the receiver's time.

use std::collections::VecDeque;

/// Exchanges kept: ten minutes at one every ten seconds.
const KEPT: usize = 60;
/// Number of newest exchanges considered for the offset: the one with the shortest round trip gives it.
const NEWEST: usize = 8;
/// The drift is reported from this span of exchanges on, ns.
const DRIFT_AFTER_NS: i64 = 60_000_000_000;
/// A clock that drifts by more than this was set, parts per billion.
const MAX_DRIFT_PPB: i64 = 500_000;
/// What scheduling alone may do to an exchange, ns.
const SLACK_NS: i64 = 2_000_000;

/// One exchange of time stamps between device and receiver.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockExchange {
    /// Time of the exchange on the receiver's wall clock, ns since the UNIX epoch.
    pub wall_ns: i64,
    /// The device's wall clock less the receiver's, ns, if both ways took equally long.
    pub offset_ns: i64,
    /// How long both ways took, ns: the offset is known to within half of this time.
    pub round_trip_ns: u64,
}

/// A device's clock, measured against the receiver's.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
#[cfg_attr(feature = "json", schema(as = Clock))]
pub struct HostClock {
    /// The device's wall clock less the receiver's, ns.
    pub offset_ns: i64,
    /// Round trip of the exchange that gave the offset, ns: the offset is known to within half of this time.
    pub round_trip_ns: u64,
    /// How much faster the device's clock runs than the receiver's, parts per billion; absent until exchanges span 60 s.
    pub drift_ppb: Option<i64>,
    /// Times the clock was set since the receiver began to watch it.
    pub steps: u64,
}

/// Gathers exchanges of one device.
#[derive(Clone, Debug, Default)]
pub struct ClockWatch {
    exchanges: VecDeque<ClockExchange>,
    steps: u64,
}

impl ClockWatch {
    /// Takes one exchange and returns the new estimate. A clock that was set starts over.
    pub fn take(&mut self, exchange: ClockExchange) -> HostClock {
        if let Some(known) = self.exchanges.back()
            && is_step(known, &exchange)
        {
            // Offsets from before the step would bend the slope of the drift.
            self.exchanges.clear();
            self.steps += 1;
        }
        if self.exchanges.len() >= KEPT {
            self.exchanges.pop_front();
        }
        self.exchanges.push_back(exchange);
        // Only recent exchanges: with drift, an old one with a short round trip is off by more than a new one with a long round trip.
        let newest = self.exchanges.iter().rev().take(NEWEST);
        let best = newest.min_by_key(|one| one.round_trip_ns).copied().unwrap_or(exchange);
        HostClock {
            offset_ns: best.offset_ns,
            round_trip_ns: best.round_trip_ns,
            drift_ppb: self.drift_ppb(),
            steps: self.steps,
        }
    }

    /// The slope of the offsets: least squares over the exchanges whose round trip is at most twice the shortest.
    fn drift_ppb(&self) -> Option<i64> {
        let (first, last) = (self.exchanges.front()?, self.exchanges.back()?);
        if last.wall_ns.saturating_sub(first.wall_ns) < DRIFT_AFTER_NS {
            return None;
        }
        let shortest = self.exchanges.iter().map(|one| one.round_trip_ns).min()?;
        // A long round trip comes from queueing on one way, and shifts the offset by up to half its length.
        let good = self.exchanges.iter().filter(|one| one.round_trip_ns <= shortest.saturating_mul(2));
        let points: Vec<(f64, f64)> = good
            .map(|one| {
                let since = |value: i64, origin: i64| value.saturating_sub(origin) as f64;
                (since(one.wall_ns, first.wall_ns), since(one.offset_ns, first.offset_ns))
            })
            .collect();
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum();
        let together: f64 = points.iter().map(|point| (point.0 - mean_x) * (point.1 - mean_y)).sum();
        #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
        let ppb = (together / spread * 1e9).round() as i64;
        // Two points always lie on a line, so their slope would be nothing but noise.
        (points.len() >= 3 && spread > 0.0).then_some(ppb)
    }
}

/// Between two exchanges the clock moved by more than drift and the unknown halves of the round trips explain.
fn is_step(before: &ClockExchange, now: &ClockExchange) -> bool {
    let half = |one: &ClockExchange| i64::try_from(one.round_trip_ns / 2).unwrap_or(i64::MAX);
    let passed = now.wall_ns.saturating_sub(before.wall_ns).saturating_abs();
    let drift = passed / 1_000_000_000 * MAX_DRIFT_PPB;
    let explained = half(before).saturating_add(half(now)).saturating_add(drift).saturating_add(SLACK_NS);
    now.offset_ns.saturating_sub(before.offset_ns).saturating_abs() > explained
}

/// From a moment of a boot on: how the time since boot (which runs on while the device is suspended) becomes the receiver's time.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClockPiece {
    /// Holds for what ends after this time since boot, ns.
    pub from_boot_ns: i64,
    /// Anchor before this piece, ns. If it is greater, time approaches the new anchor at half its pace, so that order stays.
    pub before_ns: i64,
    /// Added to the time since boot, it gives the receiver's time, ns.
    pub anchor_ns: i64,
    /// The device's own wall clock is used unchanged while its anchor (wall clock less time since boot) differs from `anchor_ns` by no
    /// more than this, ns.
    pub tolerance_ns: i64,
}

impl ClockPiece {
    /// The anchor at a moment at which the device's own is `own_ns`.
    pub(crate) fn anchor_at(&self, boot_ns: i64, own_ns: i64) -> i64 {
        let passed_ns = boot_ns.saturating_sub(self.from_boot_ns).max(0);
        // At half the pace later moments stay later while the line goes back.
        let slewed_ns = self.before_ns.saturating_sub(passed_ns / 2);
        if slewed_ns > self.anchor_ns {
            slewed_ns
        } else if self.trusts(own_ns) {
            own_ns
        } else {
            self.anchor_ns
        }
    }

    /// Whether it takes the device's own stamps as they are.
    pub(crate) fn trusts(&self, own_ns: i64) -> bool {
        distance(own_ns, self.anchor_ns) <= self.tolerance_ns
    }
}

pub(crate) fn distance(a: i64, b: i64) -> i64 {
    a.saturating_sub(b).saturating_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn exchange(second: i64, offset_ns: i64, round_trip_ns: u64) -> ClockExchange {
        ClockExchange { wall_ns: 1_700_000_000 * SECOND + second * SECOND, offset_ns, round_trip_ns }
    }

    #[test]
    fn the_shortest_round_trip_gives_the_offset() {
        let mut watch = ClockWatch::default();
        watch.take(exchange(0, 5_000_000, 12_000_000));
        watch.take(exchange(10, 1_000_000, 400_000));
        let known = watch.take(exchange(20, -3_000_000, 9_000_000));
        assert_eq!((known.offset_ns, known.round_trip_ns), (1_000_000, 400_000));
        assert_eq!((known.drift_ppb, known.steps), (None, 0));
    }

    #[test]
    fn a_clock_in_2003_that_drifts_shows_in_both_numbers() {
        let (mut watch, mut known) = (ClockWatch::default(), HostClock::default());
        let offset_2003 = -700_000_000 * SECOND;
        for nth in 0..60 {
            // 40 ppm: 400 µs in ten seconds, under a noise of some µs.
            let noise = (nth * 7_919 % 13) * 1_000;
            known = watch.take(exchange(nth * 10, offset_2003 + nth * 400_000 + noise, 300_000));
        }
        let drift = known.drift_ppb.unwrap();
        assert!((drift - 40_000).abs() < 500, "{drift}");
        assert!((known.offset_ns - (offset_2003 + 59 * 400_000)).abs() < 4_000_000);
        assert_eq!(known.steps, 0);
    }

    #[test]
    fn a_clock_that_is_set_starts_over() {
        let mut watch = ClockWatch::default();
        for nth in 0..20 {
            watch.take(exchange(nth * 10, 50, 300_000));
        }
        let known = watch.take(exchange(200, 3_600 * SECOND, 300_000));
        assert_eq!(
            known,
            HostClock { offset_ns: 3_600 * SECOND, round_trip_ns: 300_000, drift_ppb: None, steps: 1 }
        );
    }

    #[test]
    fn numbers_at_the_ends_of_their_range_do_no_harm() {
        let mut watch = ClockWatch::default();
        for (wall_ns, offset_ns) in
            [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN), (0, 0), (0, 0), (i64::MAX, 0)]
        {
            watch.take(ClockExchange { wall_ns, offset_ns, round_trip_ns: u64::MAX });
        }
    }
}
