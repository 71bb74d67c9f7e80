//! A boot's intervals on the receiver's time line. A device's wall clock may show 2003 or be set at any moment; the time since its
//! boot runs on, so within one boot that alone decides what came first. Intervals whose clock is wrong are moved to the receiver's
//! time, and record by how much (docs/adr/0007-time-line.md).

use crate::clock::distance;
use crate::counters::signed;
use crate::{ClockPiece, HostClock, Interval, Moment};

/// Beyond this a device's clock is wrong where exchanges measure it, ns.
pub const WRONG_BEYOND_NS: i64 = 1_000_000_000;
/// Beyond this (and the interval that the device aims at) where it is known from arrivals only, ns: datagrams may wait in a busy receiver.
pub const WRONG_ON_ARRIVAL_NS: i64 = 5_000_000_000;
/// The line of a wrong clock follows its estimate when that is off by more than this, ns.
const FOLLOW_BEYOND_NS: i64 = 250_000_000;
/// A line that was too late goes back over time, at most so far, ns; beyond it, it leaps.
const MAX_SLEW_NS: i64 = 600_000_000_000;
/// Length of one window of arrivals, ns. The earliest arrival counts until the window after its own ends.
const ARRIVAL_WINDOW_NS: i64 = 300_000_000_000;
/// Maximum number of clock pieces of one boot.
pub const MAX_CLOCK_PIECES: usize = 256;

/// How a device's clocks stand to the receiver's wall clock, as far as is known.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ClockEstimate {
    /// The receiver's wall clock less the device's time since boot, ns: its *anchor*.
    pub anchor_ns: i64,
    /// The device's wall clock is wrong when it is off by more than this, ns.
    pub wrong_beyond_ns: i64,
    /// The line follows the estimate if it is off by more than this, ns.
    pub follow_beyond_ns: i64,
    /// It was measured in this boot; else it is a guess, good only until the first interval of the boot is placed.
    pub is_measured: bool,
}

impl ClockEstimate {
    /// By exchanges of time: `boot` compares the device's time since boot with the receiver's wall clock.
    pub fn measured(boot: &HostClock) -> Self {
        let round_trip_ns = signed(boot.round_trip_ns);
        Self {
            anchor_ns: 0_i64.saturating_sub(boot.offset_ns),
            // The offset is known to half of the round trip only, so a slow way widens both limits.
            wrong_beyond_ns: WRONG_BEYOND_NS.max(round_trip_ns),
            follow_beyond_ns: FOLLOW_BEYOND_NS.max(round_trip_ns),
            is_measured: true,
        }
    }

    /// For a boot that is over, or a device that does not report its time since boot: its clock counts as off then as it is now.
    /// `None`: it is not off now, so nothing is known against its stamps.
    pub fn as_off_now(clock: &HostClock, end: &Moment) -> Option<Self> {
        let round_trip_ns = signed(clock.round_trip_ns);
        let wrong_beyond_ns = WRONG_BEYOND_NS.max(round_trip_ns);
        (clock.offset_ns.saturating_abs() > wrong_beyond_ns).then(|| Self {
            // The time since that boot cannot be compared any more; only its wall clock is known.
            anchor_ns: anchor_of(end).saturating_sub(clock.offset_ns),
            wrong_beyond_ns,
            follow_beyond_ns: FOLLOW_BEYOND_NS,
            is_measured: false,
        })
    }
}

/// When intervals of one boot arrived: nothing can arrive before it was sent, so the earliest arrival is the best estimate of the anchor.
#[derive(Copy, Clone, Debug, Default)]
pub struct Arrivals {
    since_ns: i64,
    least: Option<i64>,
    /// Least anchor of the previous window, ns.
    least_before: Option<i64>,
}

impl Arrivals {
    /// Takes an arrival and returns the new estimate. `interval_ns`: how often the device means to send.
    pub fn take(&mut self, received_wall_ns: i64, interval_ns: u64, end: &Moment) -> ClockEstimate {
        let anchor_ns = received_wall_ns.saturating_sub(boot_of(end));
        let age_ns = received_wall_ns.saturating_sub(self.since_ns);
        // Two windows overlap: the clocks drift, so old arrivals must be forgotten, yet right after the change a single late arrival
        // must not count as the earliest.
        if self.least.is_none() || !(0..ARRIVAL_WINDOW_NS).contains(&age_ns) {
            // A receiver's clock that was set, or a long silence, makes the earlier window worthless.
            let is_near = (0..2 * ARRIVAL_WINDOW_NS).contains(&age_ns);
            self.least_before = self.least.take().filter(|_| is_near);
            self.since_ns = received_wall_ns;
        }
        let now_ns = self.least.map_or(anchor_ns, |known| known.min(anchor_ns));
        self.least = Some(now_ns);
        ClockEstimate {
            anchor_ns: self.least_before.map_or(now_ns, |before| before.min(now_ns)),
            wrong_beyond_ns: WRONG_ON_ARRIVAL_NS.saturating_add(signed(interval_ns)),
            follow_beyond_ns: FOLLOW_BEYOND_NS,
            is_measured: true,
        }
    }
}

/// The time line of one boot. What was placed once is placed there again, whenever it comes.
#[derive(Clone, Debug, Default)]
pub struct ClockLine {
    pieces: Vec<ClockPiece>,
    /// The latest end that was placed, ns since boot.
    newest_boot_ns: Option<i64>,
}

impl ClockLine {
    /// As it was kept: pieces in order, and the latest end that was stored.
    pub fn recall(pieces: Vec<ClockPiece>, newest_boot_ns: Option<i64>) -> Self {
        Self { pieces, newest_boot_ns }
    }

    /// Whether nothing that ends then or later was placed.
    pub fn is_newest(&self, end: &Moment) -> bool {
        self.newest_boot_ns.is_none_or(|newest| boot_of(end) > newest)
    }

    /// Moves an interval to the receiver's time, if the device's clock is wrong. An estimate changes the line only if the line is
    /// empty or the interval is newer than all before it.
    pub fn place(&mut self, interval: &mut Interval, estimate: Option<ClockEstimate>) {
        let (begin, end) = (interval.begin, interval.end);
        // An interval that is sent again must be placed as before, so it may not change the line.
        let is_new = self.is_newest(&end);
        // A guess begins a line and changes none: a clock that is set in the middle of a boot does not move it.
        let is_first = self.pieces.is_empty() && self.newest_boot_ns.is_none();
        let counts = |one: &ClockEstimate| is_first || one.is_measured && (is_new || self.pieces.is_empty());
        if let Some(estimate) = estimate.filter(counts) {
            self.learn(&begin, &end, &estimate);
        }
        // After learning, so that a new piece begins behind everything placed before and never moves it.
        self.newest_boot_ns = self.newest_boot_ns.max(Some(boot_of(&end)));
        let (begin_wall_ns, end_wall_ns) = (self.wall_at(&begin), self.wall_at(&end));
        let is_moved = (begin_wall_ns, end_wall_ns) != (begin.wall_ns, end.wall_ns);
        if is_moved {
            interval.begin.wall_ns = begin_wall_ns;
            // A piece that begins inside the interval may put its end before its start.
            interval.end.wall_ns = end_wall_ns.max(begin_wall_ns);
        }
        interval.wall_shift_ns = end.wall_ns.saturating_sub(interval.end.wall_ns);
        // A clock that was right all the time needs no memory.
        let piece = self.piece_at(boot_of(&end)).filter(|_| is_moved || self.pieces.len() > 1);
        interval.clock_piece = piece.copied();
    }

    fn learn(&mut self, begin: &Moment, end: &Moment, estimate: &ClockEstimate) {
        let (own_ns, wrong_ns) = (anchor_of(end), estimate.wrong_beyond_ns);
        let off_ns = distance(own_ns, estimate.anchor_ns);
        let Some(last) = self.pieces.last() else {
            let is_right = off_ns <= wrong_ns;
            let anchor_ns = if is_right { own_ns } else { estimate.anchor_ns };
            // What was stored before stays as it was.
            let from_boot_ns = if is_right { i64::MIN } else { self.newest_boot_ns.unwrap_or(i64::MIN) };
            let tolerance_ns = if is_right { wrong_ns } else { 0 };
            self.pieces.push(ClockPiece { from_boot_ns, before_ns: anchor_ns, anchor_ns, tolerance_ns });
            return;
        };
        let is_trusted = last.tolerance_ns > 0 && last.trusts(own_ns);
        // Half the limit to become trusted again: a clock near the limit would otherwise change sides with every interval.
        let is_right = off_ns <= if is_trusted { wrong_ns } else { wrong_ns / 2 };
        let is_good = if is_right || is_trusted {
            is_right == is_trusted
        } else {
            distance(last.anchor_ns, estimate.anchor_ns) <= estimate.follow_beyond_ns
        };
        // The piece in force explains the interval, so the line needs no change.
        if is_good {
            return;
        }
        // Not before the latest end that was placed: what was placed once stays where it is.
        let from_boot_ns = self.newest_boot_ns.unwrap_or(i64::MIN).max(boot_of(begin));
        let anchor_ns = if is_right { own_ns } else { estimate.anchor_ns };
        let before_ns = last.anchor_at(from_boot_ns, anchor_of(begin));
        // Going back at half pace over hours would leave the time line wrong for hours: a leap is the smaller evil.
        let is_far = before_ns.saturating_sub(anchor_ns) > MAX_SLEW_NS;
        self.push(ClockPiece {
            from_boot_ns,
            before_ns: if is_far { anchor_ns } else { before_ns },
            anchor_ns,
            // 0: the device's own stamps are not used while its clock is wrong.
            tolerance_ns: if is_right { wrong_ns } else { 0 },
        });
    }

    fn push(&mut self, piece: ClockPiece) {
        if self.pieces.len() >= MAX_CLOCK_PIECES {
            // A clock that is set again and again must not take memory without end: the oldest piece goes.
            self.pieces.remove(0);
        }
        self.pieces.push(piece);
    }

    fn piece_at(&self, boot_ns: i64) -> Option<&ClockPiece> {
        // Strictly less: a piece holds for what ends after its start, not at it.
        let after = self.pieces.partition_point(|piece| piece.from_boot_ns < boot_ns);
        after.checked_sub(1).and_then(|at| self.pieces.get(at))
    }

    /// The receiver's time of a moment of this boot.
    fn wall_at(&self, moment: &Moment) -> i64 {
        let boot_ns = boot_of(moment);
        self.piece_at(boot_ns).map_or(moment.wall_ns, |piece| {
            boot_ns.saturating_add(piece.anchor_at(boot_ns, anchor_of(moment)))
        })
    }
}

fn boot_of(moment: &Moment) -> i64 {
    signed(moment.boot_ns)
}

/// The device's wall clock less its time since boot: it changes when the clock is set, and at no other time.
fn anchor_of(moment: &Moment) -> i64 {
    moment.wall_ns.saturating_sub(boot_of(moment))
}

#[cfg(test)]
mod tests;
