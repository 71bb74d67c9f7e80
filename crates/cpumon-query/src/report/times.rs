//! [`Times`]: when a group was there and ran most, as far as it is known from what was read so far. Where that was a sum, it notes
//! which one, so that finer data can be read for it.

use cpumon_store::Resolution;

use super::answer::Peak;
use crate::time::TimeRange;

/// A span of time, and what was read of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) range: TimeRange,
    /// `None`: an interval.
    pub(super) resolution: Option<Resolution>,
}

/// A sum in which the peak of a group may be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) mark: Mark,
    /// Not more than this, ns per second.
    pub(super) upper: i64,
    /// Not less.
    pub(super) lower: i64,
}

/// What is known of when a group was there and ran most.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    pub(super) first: Option<Mark>,
    pub(super) last: Option<Mark>,
    /// The highest of the intervals that were read.
    pub(super) peak: Option<Peak>,
    pub(super) candidates: Vec<Candidate>,
}

impl Times {
    pub(super) fn see(&mut self, mark: Mark) {
        let is_earlier = |first: &Mark| mark.range.since_ns < first.range.since_ns;
        if self.first.as_ref().is_none_or(is_earlier) {
            self.first = Some(mark);
        }
        let is_later = |last: &Mark| mark.range.until_ns > last.range.until_ns;
        if self.last.as_ref().is_none_or(is_later) {
            self.last = Some(mark);
        }
    }

    pub(super) fn append(&mut self, more: Self) {
        for mark in more.first.into_iter().chain(more.last) {
            self.see(mark);
        }
        self.peak = highest(self.peak, more.peak);
        self.candidates.extend(more.candidates);
    }
}

/// The higher of two peaks, the earlier of equal ones.
pub(super) fn highest(one: Option<Peak>, other: Option<Peak>) -> Option<Peak> {
    match (one, other) {
        (Some(one), Some(other)) if other.ns_per_s > one.ns_per_s => Some(other),
        (None, other) => other,
        (one, _) => one,
    }
}
