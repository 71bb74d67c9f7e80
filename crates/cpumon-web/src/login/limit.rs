//! Limits wrong tokens, for each sender and for all senders together, in tables of bounded size. A token then
//! cannot be guessed, and verifying tokens cannot take the machine. Only tokens with the id of one of ours
//! are verified, so strangers cannot use up the tries of those who have a token.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Tries that a sender has at once, and the time in which one comes back.
const ONE: Bucket = Bucket { most: 5, each: Duration::from_secs(10) };
/// Tokens verified of all senders together.
const ALL: Bucket = Bucket { most: 30, each: Duration::from_secs(2) };
/// Senders remembered; the one that is nearest to being forgiven gives way.
const MAX_SENDERS: usize = 1024;

/// How many tries there are, and how fast they come back.
#[derive(Copy, Clone, Debug)]
struct Bucket {
    most: u32,
    each: Duration,
}

/// When all tries will be back (the generic cell rate algorithm).
#[derive(Copy, Clone, Debug)]
struct Full(Instant);

impl Bucket {
    /// Takes a try, or returns how long to wait for one.
    fn take(self, full: &mut Full, now: Instant) -> Result<(), Duration> {
        // A bucket that is full counts from now: time without tries is not saved up.
        let next = full.0.max(now) + self.each;
        let wait = next.saturating_duration_since(now + self.each * self.most);
        if wait.is_zero() {
            full.0 = next;
            Ok(())
        } else {
            Err(wait)
        }
    }

    fn give_back(self, full: &mut Full) {
        full.0 = full.0.checked_sub(self.each).unwrap_or(full.0);
    }
}

/// Tries of wrong tokens, by sender and of all senders.
#[derive(Debug)]
pub(super) struct Limiter {
    senders: HashMap<IpAddr, Full>,
    all: Full,
}

impl Default for Limiter {
    fn default() -> Self {
        Self { senders: HashMap::new(), all: Full(Instant::now()) }
    }
}

/// Who has one IPv6 address has its whole network (RFC 6177).
pub(crate) fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 64 << 64).into()),
    }
}

impl Limiter {
    /// Takes a try of a sender, or returns how long it has to wait.
    pub(super) fn take(&mut self, sender: IpAddr) -> Result<(), Duration> {
        self.take_at(sender, Instant::now())
    }

    fn take_at(&mut self, sender: IpAddr, now: Instant) -> Result<(), Duration> {
        // A sender whose tries are all back is the same as an unknown one.
        self.senders.retain(|_, full| full.0 > now);
        let sender = network(sender);
        if !self.senders.contains_key(&sender) && self.senders.len() >= MAX_SENDERS {
            let soonest = self.senders.iter().min_by_key(|(_, full)| full.0).map(|(ip, _)| *ip);
            soonest.map(|ip| self.senders.remove(&ip));
        }
        ONE.take(self.senders.entry(sender).or_insert(Full(now)), now)
    }

    /// Takes one of the tries that all have together, or returns how long to wait for it.
    pub(super) fn take_of_all(&mut self) -> Result<(), Duration> {
        ALL.take(&mut self.all, Instant::now())
    }

    /// It was no wrong try.
    pub(super) fn give_back(&mut self, sender: IpAddr) {
        ALL.give_back(&mut self.all);
        if let Some(full) = self.senders.get_mut(&network(sender)) {
            ONE.give_back(full);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_wrong_tries_then_one_each_ten_seconds() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        let sender: IpAddr = "2001:db8::1".parse().unwrap();
        for _ in 0..5 {
            assert_eq!(limiter.take_at(sender, now), Ok(()));
        }
        let neighbour = "2001:db8::ffff".parse().unwrap();
        assert_eq!(limiter.take_at(neighbour, now), Err(Duration::from_secs(10)), "the same network");
        assert_eq!(limiter.take_at("10.0.0.1".parse().unwrap(), now), Ok(()));
        assert_eq!(limiter.take_at(sender, now + Duration::from_secs(10)), Ok(()));
        assert!(limiter.take_at(sender, now + Duration::from_secs(10)).is_err());
        limiter.give_back(sender);
        assert_eq!(
            limiter.take_at(sender, now + Duration::from_secs(10)),
            Ok(()),
            "a right one costs nothing"
        );
    }

    #[test]
    fn many_senders_share_a_table_and_what_is_verified() {
        let (mut limiter, now) = (Limiter::default(), Instant::now());
        for n in 0_u32..100_000 {
            assert_eq!(limiter.take_at(IpAddr::V4(n.into()), now), Ok(()));
        }
        assert!(limiter.senders.len() <= MAX_SENDERS);
        let verified = (0..100).filter(|_| limiter.take_of_all().is_ok()).count();
        assert_eq!(verified, 30);
        assert!(limiter.take_of_all().is_err_and(|wait| wait <= Duration::from_secs(2)));
    }
}
