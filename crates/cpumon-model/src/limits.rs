//! Limits of what senders may use of a receiver: datagrams, handshakes, discovery, requests, logins, connections.
//!
//! Limits count by [`Source`] in tables of bounded size, and read no clock: the caller gives the time. They charge the memory that an input
//! needs when it is decoded, not its bytes on the wire; the sizes of rows are here, so that all limits count the same.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{
    CgroupInterval, CpuInterval, Delays, Interval, IrqInterval, ProcessInfo, ProcessInterval, ThreadInterval,
    WaitFor,
};

const SECOND_NS: u64 = 1_000_000_000;
/// While all sources of a full table are busy, it is searched this often.
const SWEEP_EVERY_NS: u64 = 1_000_000;

/// A sender as limits count it: an IPv4 address, an IPv6 network of 64 bits, or a single link-local or loopback IPv6 address.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        // A dual-stack socket delivers IPv4 senders as ::ffff:a.b.c.d, which all lie in one network.
        Self(match address.to_canonical() {
            // Who has one IPv6 address has its whole network (RFC 6177). But fe80::/64 is that of all machines
            // on the link: there only the address sets them apart. ::1 is this machine and no network.
            IpAddr::V6(ip) if has_network(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
            address => address,
        })
    }
}

fn has_network(ip: Ipv6Addr) -> bool {
    !ip.is_unicast_link_local() && !ip.is_loopback()
}

impl fmt::Display for Source {
    /// `10.0.0.1`, `2001:db8:0:1::/64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V6(ip) if has_network(ip) => write!(f, "{ip}/64"),
            address => write!(f, "{address}"),
        }
    }
}

/// How much may be used, over time and at once.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Amount that comes back in `seconds`; 0: there is no limit.
    pub amount: u64,
    /// Time in which `amount` comes back, s.
    pub seconds: u64,
    /// At once as much may be used as comes back in this time, ms.
    pub burst_ms: u64,
}

impl Rate {
    fn burst_ns(&self) -> u64 {
        self.burst_ms * 1_000_000
    }

    /// The time in which so much comes back, ns.
    fn cost_ns(&self, amount: u64) -> u64 {
        amount.saturating_mul(self.seconds * SECOND_NS).checked_div(self.amount).unwrap_or(0)
    }

    /// When all is back once `amount` is used, too (the generic cell rate algorithm).
    fn full_after_ns(&self, full_at_ns: u64, amount: u64, now_ns: u64) -> u64 {
        // A full budget counts from now: time without use is not saved up.
        full_at_ns.max(now_ns).saturating_add(self.cost_ns(amount))
    }

    /// How long to wait for `amount`, ns. For ever, if it is more than may be used at once.
    fn wait_ns(&self, full_at_ns: u64, amount: u64, now_ns: u64) -> u64 {
        let full_ns = self.full_after_ns(full_at_ns, amount, now_ns);
        full_ns.saturating_sub(now_ns.saturating_add(self.burst_ns()))
    }
}

fn wait(wait_ns: u64) -> Result<(), Duration> {
    if wait_ns == 0 { Ok(()) } else { Err(Duration::from_nanos(wait_ns)) }
}

/// Remaining budget of one user of a [`Rate`].
#[derive(Copy, Clone, Debug)]
pub struct Bucket {
    rate: Rate,
    full_at_ns: u64,
}

impl Bucket {
    /// A full bucket: nothing is used yet.
    pub fn new(rate: Rate) -> Self {
        Self { rate, full_at_ns: 0 }
    }

    /// Uses one unit.
    ///
    /// # Errors
    /// How long to wait for it.
    pub fn take(&mut self, now_ns: u64) -> Result<(), Duration> {
        self.take_many(1, now_ns)
    }

    /// Uses `amount` units.
    ///
    /// # Errors
    /// How long to wait for them. For ever, if it is more than may be used at once.
    pub fn take_many(&mut self, amount: u64, now_ns: u64) -> Result<(), Duration> {
        wait(self.rate.wait_ns(self.full_at_ns, amount, now_ns))?;
        self.spend(amount, now_ns);
        Ok(())
    }

    /// Counts an amount that was used already, even beyond the rest of the budget: later uses wait for it.
    pub fn spend(&mut self, amount: u64, now_ns: u64) {
        self.full_at_ns = self.rate.full_after_ns(self.full_at_ns, amount, now_ns);
    }

    /// Whether anything is left.
    pub fn has_left(&self, now_ns: u64) -> bool {
        self.full_at_ns < now_ns.saturating_add(self.rate.burst_ns())
    }
}

/// What a source gets that finds the table full of busy sources.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// A share of what all sources without a place have together: more addresses do not get more.
    Share,
    /// The place of the source that has most back: many sources cannot lock others out.
    Evict,
}

/// Remaining budgets of sources for `N` rates, in a table of bounded size; [`Overflow`] decides about further sources.
#[derive(Debug)]
pub struct SourceTable<const N: usize> {
    rates: [Rate; N],
    /// By source, when all of each rate is back.
    sources: HashMap<Source, [u64; N]>,
    max_sources: usize,
    overflow: Overflow,
    /// The same for all sources that did not fit into the table, together.
    others: [u64; N],
    next_sweep_ns: u64,
}

impl<const N: usize> SourceTable<N> {
    /// A table without sources.
    pub fn new(rates: [Rate; N], max_sources: usize, overflow: Overflow) -> Self {
        let sources = HashMap::new();
        Self { rates, sources, max_sources, overflow, others: [0; N], next_sweep_ns: 0 }
    }

    /// Uses an amount of each rate, or nothing at all.
    ///
    /// # Errors
    /// How long to wait for it.
    pub fn take(&mut self, source: Source, amounts: [u64; N], now_ns: u64) -> Result<(), Duration> {
        let rates = self.rates;
        let full_at_ns = self.place_of(source, now_ns);
        let each = || rates.iter().zip(amounts);
        let wait_ns = each().zip(&*full_at_ns).map(|((rate, amount), &at)| rate.wait_ns(at, amount, now_ns));
        // A refused use costs nothing: a source that floods still gets its rate, instead of silence.
        wait(wait_ns.max().unwrap_or(0))?;
        for ((rate, amount), at) in each().zip(full_at_ns) {
            *at = rate.full_after_ns(*at, amount, now_ns);
        }
        Ok(())
    }

    /// Counts amounts that were used already, even beyond the rest of the budget: later uses wait for them.
    pub fn spend(&mut self, source: Source, amounts: [u64; N], now_ns: u64) {
        let rates = self.rates;
        for ((rate, amount), at) in rates.iter().zip(amounts).zip(self.place_of(source, now_ns)) {
            *at = rate.full_after_ns(*at, amount, now_ns);
        }
    }

    fn place_of(&mut self, source: Source, now_ns: u64) -> &mut [u64; N] {
        // A source in the table never waits for a search.
        if self.sources.len() >= self.max_sources && !self.sources.contains_key(&source) {
            self.make_space(now_ns);
        }
        let has_space = self.sources.len() < self.max_sources;
        match self.sources.entry(source) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) if has_space => place.insert([0; N]),
            Entry::Vacant(_) => &mut self.others,
        }
    }

    fn make_space(&mut self, now_ns: u64) {
        if self.overflow == Overflow::Evict {
            let fullest = self.sources.iter().min_by_key(|(_, full_at_ns)| **full_at_ns);
            fullest.map(|(&source, _)| source).map(|source| self.sources.remove(&source));
        } else if now_ns >= self.next_sweep_ns {
            // A source that has all back is the same as one that never came.
            self.sources.retain(|_, full_at_ns| full_at_ns.iter().any(|&at_ns| at_ns > now_ns));
            // Without a pause each datagram of a flood would walk over the whole table.
            if self.sources.len() >= self.max_sources {
                self.next_sweep_ns = now_ns.saturating_add(SWEEP_EVERY_NS);
            }
        }
    }
}

/// A rate of each source, and one of all together.
#[derive(Debug)]
pub struct Limiter {
    all: Bucket,
    of_source: SourceTable<1>,
}

impl Limiter {
    /// A limiter whose rates are unused.
    pub fn new(all: Rate, of_source: Rate, max_sources: usize, overflow: Overflow) -> Self {
        Self { all: Bucket::new(all), of_source: SourceTable::new([of_source], max_sources, overflow) }
    }

    /// Uses one of both rates.
    ///
    /// # Errors
    /// How long to wait for it.
    pub fn take(&mut self, source: impl Into<Source>, now_ns: u64) -> Result<(), Duration> {
        // In this order a source beyond its own rate takes nothing from the others.
        self.take_of_source(source, now_ns)?;
        self.take_of_all(now_ns)
    }

    /// Uses one of the source's own rate.
    ///
    /// # Errors
    /// How long to wait for it.
    pub fn take_of_source(&mut self, source: impl Into<Source>, now_ns: u64) -> Result<(), Duration> {
        self.of_source.take(source.into(), [1], now_ns)
    }

    /// Uses one of the rate of all sources together.
    ///
    /// # Errors
    /// How long to wait for it.
    pub fn take_of_all(&mut self, now_ns: u64) -> Result<(), Duration> {
        self.all.take(now_ns)
    }

    /// Undoes the last use of both rates.
    pub fn give_back(&mut self, source: impl Into<Source>) {
        let [rate] = self.of_source.rates;
        if let Some([full_at_ns]) = self.of_source.sources.get_mut(&source.into()) {
            *full_at_ns = full_at_ns.saturating_sub(rate.cost_ns(1));
        }
        self.all.full_at_ns = self.all.full_at_ns.saturating_sub(self.all.rate.cost_ns(1));
    }
}

/// Places that sources take for some time, such as those of connections.
#[derive(Clone, Debug, Default)]
pub struct Places(Arc<Mutex<HashMap<Source, usize>>>);

/// A taken place; dropping it frees the place.
#[derive(Debug)]
pub struct Place {
    places: Places,
    source: Source,
}

impl Places {
    /// Takes a place; `None` if the source has `most_of_source`, or all together have `most`.
    pub fn enter(&self, source: impl Into<Source>, most_of_source: usize, most: usize) -> Option<Place> {
        let (source, mut taken) = (source.into(), self.lock());
        let of_source = taken.get(&source).copied().unwrap_or(0);
        if of_source >= most_of_source || taken.values().sum::<usize>() >= most {
            return None;
        }
        taken.insert(source, of_source + 1);
        Some(Place { places: self.clone(), source })
    }

    /// Number of places that all sources together have taken.
    pub fn count(&self) -> usize {
        self.lock().values().sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Source, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Entry::Occupied(mut taken) = self.places.lock().entry(self.source) {
            *taken.get_mut() -= 1;
            // Otherwise the map would keep every source that ever had a place.
            if *taken.get() == 0 {
                taken.remove();
            }
        }
    }
}

/// Memory of an interrupt line beside its row: its name.
const IRQ_NAME_BYTES: usize = 64;
/// Memory of a control group's path beside its bytes: counts of the `Arc`, the allocator's share.
pub const CGROUP_PATH_BYTES: usize = 32;
/// Memory of a histogram beside its place in the list and its buckets: counts of the `Arc`, the list, the allocator's share.
pub const HISTOGRAM_BYTES: usize = 80;
/// Memory of one bucket of a delay histogram, bytes.
pub const DELAY_BUCKET_BYTES: usize = size_of::<(u8, u64)>();

/// Memory of a process's description without its texts, bytes: with the counts of the `Arc`, and the allocator's share of its
/// allocations.
pub const INFO_BYTES: usize = size_of::<ProcessInfo>() + 64;

/// Memory of a process's description with its texts, bytes.
pub fn bytes_of_info(info: &ProcessInfo) -> usize {
    let texts = [
        &info.name,
        &info.interpreter,
        &info.comm,
        &info.cmdline,
        &info.cgroup,
        &info.container,
        &info.user,
        &info.product,
    ];
    INFO_BYTES + texts.iter().map(|text| text.len()).sum::<usize>()
}

/// Memory of a histogram, bytes: its place in the list, the shared part, and the buckets.
pub fn bytes_of_delays(row: &Delays) -> usize {
    size_of::<Delays>() + HISTOGRAM_BYTES + row.histogram.iter().count() * DELAY_BUCKET_BYTES
}

fn bytes_of_cgroup(row: &CgroupInterval) -> usize {
    size_of::<CgroupInterval>() + CGROUP_PATH_BYTES + row.path.len()
}

/// Memory of an interval's rows, bytes, without the descriptions of its processes, which intervals share.
pub fn bytes_of_rows(interval: &Interval) -> usize {
    size_of::<Interval>()
        + interval.threads.len() * size_of::<ThreadInterval>()
        + interval.processes.len() * size_of::<ProcessInterval>()
        + interval.cpus.len() * size_of::<CpuInterval>()
        + interval.irqs.len() * (size_of::<IrqInterval>() + IRQ_NAME_BYTES)
        + interval.cgroups.iter().map(bytes_of_cgroup).sum::<usize>()
        + interval.delays.iter().map(bytes_of_delays).sum::<usize>()
        + interval.waits_for.len() * size_of::<WaitFor>()
        + interval.resting.as_deref().map_or(0, size_of_val)
        + interval.idle_processes.as_deref().map_or(0, size_of_val)
}

#[cfg(test)]
mod tests;
