//! [`Accounts`]: how many bytes hosts make a demux hold, by the source address that sends for them, and how many more each may.
//! Limits count what datagrams become: a row of four bytes takes some 200 bytes of memory.

use std::collections::HashMap;

use cpumon_model::LossCounts;
use cpumon_model::limits::Source;

/// A source may hold this much before it has sent enough for more, bytes.
const UNSENT_BYTES: usize = 1 << 20;

/// Memory that hosts may make a demux hold, bytes: rows and texts of what is known of them, and of snapshots that come in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// One host. At most half of it is what is known, so that a host at its limit can still replace that.
    pub host: usize,
    /// All hosts of one source address together.
    pub source: usize,
    /// All hosts together.
    pub all: usize,
    /// Bytes that a source may hold for each byte that it sent.
    pub per_sent_byte: usize,
}

impl MemoryLimits {
    /// For senders that nothing is known of: about 21,000 threads of one address. A byte that is sent may be held as 32: hub and store
    /// have a share of the 64 that it may cost.
    pub const PLAIN: Self = Self { host: 12 << 20, source: 12 << 20, all: 256 << 20, per_sent_byte: 32 };
    /// For members of the group: about 116,000 threads of a host.
    pub const ENCRYPTED: Self =
        Self { host: 64 << 20, source: 1 << 30, all: 1 << 30, per_sent_byte: usize::MAX };
    /// For an enrolled device, and for files that the user names: about 466,000 threads.
    pub const ENROLLED: Self = Self::one_host(256 << 20);

    /// For a demux of one host.
    #[must_use]
    pub const fn one_host(bytes: usize) -> Self {
        Self { host: bytes, source: bytes, all: bytes, per_sent_byte: usize::MAX }
    }
}

/// What a host is charged with, and to whom.
#[derive(Copy, Clone, Debug)]
pub(super) struct Charge {
    pub(super) source: Source,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Account {
    held: usize,
    sent: usize,
    hosts: usize,
}

/// What the hosts of one table hold.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    sources: HashMap<Source, Account>,
    held: usize,
}

impl Accounts {
    /// A host that holds nothing yet.
    pub(super) fn open(&mut self, source: Source) -> Charge {
        self.sources.entry(source).or_default().hosts += 1;
        Charge { source, bytes: 0 }
    }

    /// A host that is gone.
    pub(super) fn close(&mut self, mut charge: Charge) {
        self.set(&mut charge, 0);
        if let Some(source) = self.sources.get_mut(&charge.source) {
            source.hosts -= 1;
            if source.hosts == 0 {
                self.sources.remove(&charge.source);
            }
        }
    }

    /// Counts bytes that came from `source` for a host, which is charged to it from now on.
    pub(super) fn receive(&mut self, charge: &mut Charge, source: Source, bytes: usize) {
        if charge.source != source {
            let held = charge.bytes;
            self.close(*charge);
            *charge = self.open(source);
            self.set(charge, held);
        }
        if let Some(source) = self.sources.get_mut(&source) {
            source.sent = source.sent.saturating_add(bytes);
        }
    }

    /// Bytes that the host may hold in all.
    pub(super) fn limit(&self, charge: &Charge, limits: &MemoryLimits) -> usize {
        let Some(source) = self.sources.get(&charge.source) else { return 0 };
        // A host's own bytes do not count against it: one at the limit must still be able to replace what it has.
        let others = |held: usize| held.saturating_sub(charge.bytes);
        let paid = source.sent.saturating_mul(limits.per_sent_byte).saturating_add(UNSENT_BYTES);
        let of_source = limits.source.min(paid).saturating_sub(others(source.held));
        limits.host.min(of_source).min(limits.all.saturating_sub(others(self.held)))
    }

    /// Notes what a host holds now.
    pub(super) fn set(&mut self, charge: &mut Charge, bytes: usize) {
        self.held = self.held - charge.bytes + bytes;
        if let Some(source) = self.sources.get_mut(&charge.source) {
            source.held = source.held - charge.bytes + bytes;
        }
        charge.bytes = bytes;
    }

    /// What all hosts hold.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// The source with most hosts.
    pub(super) fn largest_source(&self) -> Option<SourceHosts> {
        let most = self.sources.iter().max_by_key(|(_, source)| source.hosts);
        most.map(|(&source, of)| SourceHosts { source, hosts: of.hosts })
    }
}

/// How many hosts a source has.
#[derive(Copy, Clone, Debug)]
pub(super) struct SourceHosts {
    pub(super) source: Source,
    pub(super) hosts: usize,
}

/// Adds what a datagram counts for.
pub(super) fn count_datagram(loss: &mut LossCounts, bytes: usize) {
    loss.datagrams += 1;
    loss.bytes += bytes as u64;
}

/// Makes space for `more` rows. By an eighth where that is more: doubling would let a host hold twice what it is charged with.
pub(super) fn grow<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more + list.len() / 8);
    }
}

/// Memory of a list, bytes.
pub(super) fn bytes_of<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: MemoryLimits =
        MemoryLimits { host: 5 << 20, source: 6 << 20, all: 10 << 20, per_sent_byte: 2 };

    fn source(number: u8) -> Source {
        std::net::IpAddr::from([10, 0, 0, number]).into()
    }

    #[test]
    fn hosts_of_a_source_share_and_what_was_sent_pays() {
        let mut accounts = Accounts::default();
        let mut one = accounts.open(source(1));
        let mut two = accounts.open(source(1));
        assert_eq!(accounts.limit(&one, &LIMITS), UNSENT_BYTES, "nothing was sent");
        accounts.receive(&mut one, source(1), 2 << 20);
        assert_eq!(accounts.limit(&one, &LIMITS), 5 << 20);
        accounts.set(&mut one, 4 << 20);
        assert_eq!((accounts.limit(&one, &LIMITS), accounts.limit(&two, &LIMITS)), (5 << 20, 1 << 20));
        accounts.receive(&mut two, source(2), 5 << 20);
        assert_eq!(accounts.limit(&two, &LIMITS), 5 << 20, "another address pays now");
        accounts.set(&mut two, 5 << 20);
        let three = accounts.open(source(3));
        assert_eq!((accounts.limit(&three, &LIMITS), accounts.held()), (1 << 20, 9 << 20));
        accounts.close(one);
        accounts.close(two);
        assert_eq!((accounts.held(), accounts.sources.len()), (0, 1));
    }
}
