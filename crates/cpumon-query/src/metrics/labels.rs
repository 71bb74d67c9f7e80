//! [`Labels`]: the few names of a host that have series of their own, and the sum of all others. Time is added to the name's series if
//! it has one now, else to `(other)`; what was counted stays where it is.
//!
//! Who gets a series is found by the Space-Saving algorithm (Metwally, Agrawal, El Abbadi 2005), whose memory is bounded whatever names
//! come: a new name takes the place of the lightest candidate, and its weight counts as the candidate's error. Weights are halved every
//! ten minutes, so that the present counts.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::AddAssign;
use std::sync::Arc;

use cpumon_model::escape;
use foldhash::fast::RandomState;

use super::budget::HostSeries;
use crate::report::OTHERS;

/// Names with a series at most, those not counted that no longer get time.
pub(super) const MAX_NAMES: usize = 20;
/// Names without a series whose weight is followed.
const MAX_CANDIDATES: usize = 40;
/// Length of a label at most, bytes: longer names are cut, and count together if they are the same up to there.
const MAX_LABEL: usize = 64;
/// A series without news for this long ends.
const ENDS_AFTER_NS: u64 = 3_600_000_000_000;
const HALVED_EVERY_NS: u64 = 600_000_000_000;

struct Named<S> {
    name: Arc<str>,
    weight: u64,
    /// When it last had time, by the host's time that was counted.
    last_ns: u64,
    /// When it had to give way to a heavier one. Since then its time is in `(other)`, and its series grows no more until it ends.
    left_ns: Option<u64>,
    /// The last interval in which it had time in `(other)`.
    seen: u64,
    sums: S,
}

struct Candidate {
    name: Arc<str>,
    weight: u64,
    /// How much of the weight may be that of names before it.
    error: u64,
    seen: u64,
}

#[derive(Copy, Clone)]
enum Place {
    Named(usize),
    Candidate(usize),
}

pub(super) struct Labels<S> {
    places: HashMap<Arc<str>, Place, RandomState>,
    named: Vec<Named<S>>,
    candidates: Vec<Candidate>,
    others: S,
    /// Sums of series that have ended: with it, all series add up to what was counted.
    ended: S,
    halved_ns: u64,
    /// Number of the interval that is being added.
    interval: u64,
    /// Names with time in `(other)` in it, an upper bound.
    left_out: u64,
    /// The name that is being added, where it must be changed to be a label.
    changed: String,
}

/// How many names may have a series.
#[derive(Copy, Clone)]
pub(super) struct Allowance {
    pub(super) names: usize,
    /// Series of each.
    pub(super) each: usize,
    /// The host's time that was counted.
    pub(super) now_ns: u64,
}

impl<S: Default> Default for Labels<S> {
    fn default() -> Self {
        let (places, named, candidates) = (HashMap::default(), Vec::new(), Vec::new());
        let (others, ended, changed) = (S::default(), S::default(), String::new());
        Self { places, named, candidates, others, ended, halved_ns: 0, interval: 1, left_out: 0, changed }
    }
}

/// Whether a name is a label as it is: no control or hidden characters, and not too long.
fn is_label(name: &str) -> bool {
    name.len() <= MAX_LABEL && name.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// Writes a name as a label: what is hidden is spelled out, and it is cut.
pub(super) fn write_label(name: &str, into: &mut String) {
    into.clear();
    // Cut first: names from outside are bounded, but long.
    let cut = &name[..name.floor_char_boundary(MAX_LABEL)];
    let _ = write!(into, "{}", escape(cut));
    into.truncate(into.floor_char_boundary(MAX_LABEL));
}

impl<S: Default + Copy + AddAssign> Labels<S> {
    /// The sums to which the time of a name is added.
    pub(super) fn sums_of(&mut self, name: &str, weight: u64, now_ns: u64) -> &mut S {
        let mut changed = std::mem::take(&mut self.changed);
        let name = if is_label(name) {
            name
        } else {
            write_label(name, &mut changed);
            &changed
        };
        let named = self.find(name, weight, now_ns);
        self.changed = changed;
        named.map_or(&mut self.others, |at| &mut self.named[at].sums)
    }

    pub(super) fn others(&mut self) -> &mut S {
        &mut self.others
    }

    /// Notes the weight of a name; gives its place in `named` if it has a series that grows.
    fn find(&mut self, name: &str, weight: u64, now_ns: u64) -> Option<usize> {
        // A program can have that name.
        if name == OTHERS {
            return None;
        }
        let seen = match self.places.get(name) {
            Some(Place::Named(at)) => {
                let named = &mut self.named[*at];
                named.weight = named.weight.saturating_add(weight);
                if weight > 0 {
                    named.last_ns = now_ns;
                }
                if named.left_ns.is_none() {
                    return Some(*at);
                }
                &mut named.seen
            }
            Some(Place::Candidate(at)) => {
                let candidate = &mut self.candidates[*at];
                candidate.weight = candidate.weight.saturating_add(weight);
                &mut candidate.seen
            }
            None if weight > 0 => {
                self.follow(name, weight);
                self.left_out += 1;
                return None;
            }
            None => return None,
        };
        if weight > 0 && *seen != self.interval {
            *seen = self.interval;
            self.left_out += 1;
        }
        None
    }

    fn follow(&mut self, name: &str, weight: u64) {
        let name: Arc<str> = name.into();
        let seen = self.interval;
        let at = self.candidates.len();
        if at < MAX_CANDIDATES {
            self.places.insert(Arc::clone(&name), Place::Candidate(at));
            self.candidates.push(Candidate { name, weight, error: 0, seen });
            return;
        }
        let lightest = self.candidates.iter_mut().enumerate().min_by_key(|(_, one)| one.weight);
        let Some((at, one)) = lightest else { return };
        self.places.remove(&one.name);
        self.places.insert(Arc::clone(&name), Place::Candidate(at));
        *one = Candidate { name, weight: one.weight.saturating_add(weight), error: one.weight, seen };
    }

    /// Ends an interval: gives series to heavy names, and ends those without news.
    pub(super) fn settle(&mut self, allowed: Allowance, series: &mut HostSeries) {
        self.interval += 1;
        if allowed.now_ns.saturating_sub(self.halved_ns) >= HALVED_EVERY_NS {
            self.halved_ns = allowed.now_ns;
            self.halve();
        }
        let is_old = |ns: u64| allowed.now_ns.saturating_sub(ns) >= ENDS_AFTER_NS;
        while let Some(at) = self.named.iter().position(|one| is_old(one.left_ns.unwrap_or(one.last_ns))) {
            self.end(at);
            series.give_names(allowed.each);
        }
        while self.active() > allowed.names {
            self.leave(allowed.now_ns);
        }
        while self.admit(allowed, series) {}
    }

    fn halve(&mut self) {
        for one in &mut self.named {
            one.weight /= 2;
        }
        for one in &mut self.candidates {
            (one.weight, one.error) = (one.weight / 2, one.error / 2);
        }
        while let Some(at) = self.candidates.iter().position(|one| one.weight == 0) {
            self.remove_candidate(at);
        }
    }

    fn active(&self) -> usize {
        self.named.iter().filter(|one| one.left_ns.is_none()).count()
    }

    fn lightest(&self) -> Option<(usize, u64)> {
        let active = self.named.iter().enumerate().filter(|(_, one)| one.left_ns.is_none());
        active.map(|(at, one)| (at, one.weight)).min_by_key(|one| one.1)
    }

    /// The lightest name with a series gets no more time.
    fn leave(&mut self, now_ns: u64) {
        if let Some((at, _)) = self.lightest() {
            self.named[at].left_ns = Some(now_ns);
        }
    }

    /// Gives the heaviest name without a series one, if there is a place, or a name of less than half the weight. False: there is none.
    fn admit(&mut self, allowed: Allowance, series: &mut HostSeries) -> bool {
        let left = self.named.iter().enumerate().filter(|(_, one)| one.left_ns.is_some());
        let left = left.map(|(at, one)| (one.weight, Place::Named(at)));
        let waiting = self.candidates.iter().enumerate();
        let waiting = waiting.map(|(at, one)| (one.weight - one.error, Place::Candidate(at)));
        let heaviest = left.chain(waiting).filter(|one| one.0 > 0).max_by_key(|one| one.0);
        let Some((weight, place)) = heaviest.filter(|_| allowed.names > 0) else { return false };
        let active = self.active();
        let gives_way = active >= allowed.names;
        if gives_way {
            // A series that grows no more takes space, too.
            let has_space =
                matches!(place, Place::Named(_)) || self.named.len() - active < allowed.names.div_ceil(4);
            let is_heavier = self.lightest().is_some_and(|(_, least)| weight / 2 > least);
            if !(has_space && is_heavier) {
                return false;
            }
        }
        if matches!(place, Place::Candidate(_)) && !series.take_names(allowed.each) {
            return false;
        }
        if gives_way {
            self.leave(allowed.now_ns);
        }
        match place {
            // Its series goes on where it stood.
            Place::Named(at) => (self.named[at].left_ns, self.named[at].last_ns) = (None, allowed.now_ns),
            Place::Candidate(at) => {
                let Candidate { name, weight, seen, .. } = self.remove_candidate(at);
                self.places.insert(Arc::clone(&name), Place::Named(self.named.len()));
                let (last_ns, sums) = (allowed.now_ns, S::default());
                self.named.push(Named { name, weight, last_ns, left_ns: None, seen, sums });
            }
        }
        true
    }

    fn remove_candidate(&mut self, at: usize) -> Candidate {
        let gone = self.candidates.swap_remove(at);
        self.places.remove(&gone.name);
        if let Some(moved) = self.candidates.get(at) {
            self.places.insert(Arc::clone(&moved.name), Place::Candidate(at));
        }
        gone
    }

    fn end(&mut self, at: usize) {
        let gone = self.named.swap_remove(at);
        self.places.remove(&gone.name);
        self.ended += gone.sums;
        if let Some(moved) = self.named.get(at) {
            self.places.insert(Arc::clone(&moved.name), Place::Named(at));
        }
    }

    /// Names with a series, those that stand still included.
    pub(super) fn names(&self) -> usize {
        self.named.len()
    }

    /// Names with time in `(other)` since the last call, an upper bound.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// Every series with its name, `(other)` last.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &S)> {
        let named = self.named.iter().map(|one| (&*one.name, &one.sums));
        named.chain([(OTHERS, &self.others)])
    }

    /// What series have that ended.
    pub(super) fn ended(&self) -> &S {
        &self.ended
    }
}
