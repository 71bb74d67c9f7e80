//! [`Rates`]: how much each source address may send. A source that floods is refused before anything of it is
//! read, so that it takes no time from others. The table is bounded: a source that has its whole allowance
//! back is the same as one that never sent.

use std::collections::HashMap;
use std::net::IpAddr;

/// Most sources with an allowance of their own at one time; those beyond share one allowance.
const MAX_SOURCES: usize = 8_192;
/// A source may send what it may in so many seconds at once: a receiver that was stopped takes in what waited in its socket.
const BURST_S: u64 = 2;
const SECOND_NS: u64 = 1_000_000_000;
/// While all sources are busy, quiet ones are removed this often.
const SWEEP_EVERY_NS: u64 = 1_000_000;

/// What one source address may send.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SourceRate {
    /// Datagrams a second; 0: any number.
    pub datagrams_per_s: u64,
    /// Bytes a second; 0: any number.
    pub bytes_per_s: u64,
}

impl Default for SourceRate {
    /// docs/security.md says why so much.
    fn default() -> Self {
        Self { datagrams_per_s: 20_000, bytes_per_s: 64_000_000 }
    }
}

/// What a source used up of its allowance.
#[derive(Copy, Clone, Debug, Default)]
struct Used {
    at_ns: u64,
    /// By datagrams and by bytes: the time in which it may send so many.
    used_ns: [u64; 2],
}

impl Used {
    /// What it is at a later moment: time gives back.
    fn at(self, now_ns: u64) -> Self {
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        Self {
            // A moment before the last one must not give the same time back twice.
            at_ns: now_ns.max(self.at_ns),
            used_ns: self.used_ns.map(|used_ns| used_ns.saturating_sub(passed_ns)),
        }
    }

    /// With one datagram more, if that is within the limits.
    fn with(self, bytes: usize, rate: &SourceRate) -> Option<Self> {
        // A rate of 0 divides by zero, costs nothing, and so is no limit.
        let cost_ns =
            |amount: u64, per_s: u64| amount.saturating_mul(SECOND_NS).checked_div(per_s).unwrap_or_default();
        let [datagrams_ns, bytes_ns] = self.used_ns;
        let used_ns = [
            datagrams_ns.saturating_add(cost_ns(1, rate.datagrams_per_s)),
            bytes_ns.saturating_add(cost_ns(bytes as u64, rate.bytes_per_s)),
        ];
        used_ns.iter().all(|&used_ns| used_ns <= BURST_S * SECOND_NS).then_some(Self { used_ns, ..self })
    }
}

/// What each source used up of its allowance; at most `MAX_SOURCES` of them.
#[derive(Debug, Default)]
pub(super) struct Rates {
    sources: HashMap<IpAddr, Used>,
    /// Of all sources that did not fit into the table.
    others: Used,
    next_sweep_ns: u64,
}

impl Rates {
    /// Whether a datagram is within what its source may send; if so, it counts.
    pub(super) fn admits(&mut self, source: IpAddr, bytes: usize, now_ns: u64, rate: &SourceRate) -> bool {
        // A source that is in the table never waits for a sweep.
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&source) {
            self.sweep(now_ns);
        }
        let has_space = self.sources.len() < MAX_SOURCES;
        let used = match self.sources.get_mut(&source) {
            Some(used) => used,
            None if has_space => self.sources.entry(source).or_default(),
            // More addresses do not get more: those beyond the table share one allowance.
            None => &mut self.others,
        };
        let now = used.at(now_ns);
        let more = now.with(bytes, rate);
        // A refused datagram costs nothing: a source that floods still gets its rate, instead of silence.
        *used = more.unwrap_or(now);
        more.is_some()
    }

    /// Forgets sources that used up nothing.
    fn sweep(&mut self, now_ns: u64) {
        if now_ns < self.next_sweep_ns {
            return;
        }
        self.sources.retain(|_, used| used.at(now_ns).used_ns != [0, 0]);
        // All of them are busy. Without a pause each datagram of a flood would walk over the whole table.
        if self.sources.len() >= MAX_SOURCES {
            self.next_sweep_ns = now_ns.saturating_add(SWEEP_EVERY_NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const RATE: SourceRate = SourceRate { datagrams_per_s: 100, bytes_per_s: 10_000 };

    fn source(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(number))
    }

    #[test]
    fn a_source_gets_its_rate_and_a_burst_and_takes_nothing_from_others() {
        let mut rates = Rates::default();
        let mut taken = 0;
        for number in 0..20_000_u64 {
            // 2000 a second for ten seconds.
            taken += u64::from(rates.admits(source(1), 10, number * 500_000, &RATE));
            if number % 200 == 0 {
                assert!(rates.admits(source(2), 10, number * 500_000, &RATE), "ten a second");
            }
        }
        assert!((1_190..=1_201).contains(&taken), "2 s at once, and 10 s: {taken}");
    }

    #[test]
    fn bytes_count_as_well_and_0_is_no_limit() {
        let mut rates = Rates::default();
        let taken = (0..100).filter(|_| rates.admits(source(1), 1_000, 0, &RATE)).count();
        assert_eq!(taken, 20);
        assert!(!rates.admits(source(2), 30_000, 0, &RATE), "more than it may ever send at once");
        let none = SourceRate { datagrams_per_s: 0, bytes_per_s: 0 };
        assert!((0..100_000).all(|_| rates.admits(source(3), 60_000, 0, &none)));
    }

    #[test]
    fn a_flood_of_addresses_is_bounded_and_newcomers_are_taken() {
        let mut rates = Rates::default();
        for number in 0..100_000 {
            // Each once, 200,000 a second: by the time the table is full the first ones are quiet again.
            assert!(rates.admits(source(number), 10, u64::from(number) * 5_000, &RATE));
            assert!(rates.sources.len() <= MAX_SOURCES);
        }
        // All at one moment: no source is quiet, and those without a place share.
        let mut rates = Rates::default();
        let taken = (0..20_000).filter(|&number| rates.admits(source(number), 10, 7, &RATE)).count();
        assert_eq!((rates.sources.len(), taken), (MAX_SOURCES, MAX_SOURCES + 200));
        assert!(rates.admits(source(30_000), 10, 7 + SECOND_NS, &RATE), "a second later there is space");
    }
}
