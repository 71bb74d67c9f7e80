//! What is odd about a host: nothing, of a healthy one.

use cpumon_model::{Trust, WRONG_BEYOND_NS, WRONG_ON_ARRIVAL_NS};

use super::host::{BALANCED_RATIO, FleetHost, HostState};
use crate::named;

named! {
    /// Something odd about a host that a reader of its figures must know. In order of weight, the heaviest first.
    #[derive(PartialOrd, Ord)]
    Oddity,
    /// Nothing arrived for a while.
    Silent = "silent",
    /// It did not report since the receiver started; the store has its past.
    Stored = "stored",
    /// Its newest interval is late.
    Late = "late",
    /// Intervals of the last minute lack data that was lost on the way.
    Loss = "loss",
    /// The ledger of the last minute is not balanced.
    Ledger = "ledger",
    /// Its clock is wrong.
    Clock = "clock",
}

impl FleetHost {
    /// What is odd about it, the heaviest first. Of a host that does not report, only that: what its last minute lacked is long past.
    #[must_use]
    pub fn oddities(&self) -> Vec<Oddity> {
        match self.state {
            HostState::Silent => return vec![Oddity::Silent],
            HostState::Stored => return vec![Oddity::Stored],
            HostState::Reporting | HostState::Late => {}
        }
        let minute = self.glance.as_ref().map(|glance| glance.minute).unwrap_or_default();
        let is_open = minute.unattributed_ratio.is_some_and(|ratio| ratio.abs() > BALANCED_RATIO);
        [
            (self.state == HostState::Late, Oddity::Late),
            (minute.incomplete > 0, Oddity::Loss),
            (is_open, Oddity::Ledger),
            (self.has_wrong_clock(), Oddity::Clock),
        ]
        .into_iter()
        .filter_map(|(is_so, oddity)| is_so.then_some(oddity))
        .collect()
    }

    /// By the limits from which on the receiver places intervals itself: arrivals say less than exchanges of time.
    fn has_wrong_clock(&self) -> bool {
        let limit_ns = if self.status.clock.is_some() { WRONG_BEYOND_NS } else { WRONG_ON_ARRIVAL_NS };
        let is_foreign = !matches!(self.status.trust, Trust::Local | Trust::Imported);
        is_foreign && self.status.clock_offset_ns().unsigned_abs() > limit_ns.unsigned_abs()
    }

    /// The names of what is odd, joined by commas; empty if nothing is.
    #[must_use]
    pub fn health(&self) -> String {
        self.oddities().iter().map(|oddity| oddity.name()).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cpumon_model::{HostStatus, Moment};

    use super::super::host::{Glance, Minute};
    use super::*;

    fn host(state: HostState, minute: Minute) -> FleetHost {
        let glance = Some(Arc::new(Glance { minute, ..Glance::default() }));
        FleetHost { status: HostStatus::default(), state, age_ns: 0, glance }
    }

    #[test]
    fn a_healthy_host_has_no_mark_and_an_odd_one_names_each_cause() {
        let fine = Minute { unattributed_ratio: Some(0.004), intervals: 60, ..Minute::default() };
        assert_eq!(host(HostState::Reporting, fine).health(), "", "unauthenticated is no oddity of one host");
        let bad = Minute { unattributed_ratio: Some(-0.02), incomplete: 1, ..fine };
        let mut late = host(HostState::Late, bad);
        assert_eq!(late.health(), "late, loss, ledger");
        late.status.last = Moment { wall_ns: -6_000_000_000, ..Moment::default() };
        assert_eq!(late.health(), "late, loss, ledger, clock");
        late.status.trust = Trust::Local;
        assert_eq!(late.health(), "late, loss, ledger");
        assert_eq!(host(HostState::Silent, bad).health(), "silent");
        assert_eq!(host(HostState::Stored, bad).health(), "stored");
    }
}
