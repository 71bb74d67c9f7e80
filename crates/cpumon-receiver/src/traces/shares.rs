//! [`Shares`]: whose trace is deleted when there are too many.

use std::collections::BTreeMap;

use cpumon_model::HostId;

/// What one host has.
#[derive(Copy, Clone, Debug, Default)]
struct Share {
    files: u64,
    bytes: u64,
}

/// A trace, as far as it matters here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) id: i64,
    pub(super) host: HostId,
    pub(super) bytes: u64,
}

/// All traces, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Shares {
    stored: Vec<Stored>,
    max_bytes: u64,
    max_files: usize,
}

impl Shares {
    pub(super) fn new(max_bytes: u64, max_files: usize) -> Self {
        Self { stored: Vec::new(), max_bytes, max_files }
    }

    pub(super) fn add(&mut self, one: Stored) {
        self.stored.push(one);
    }

    pub(super) fn remove(&mut self, id: i64) {
        self.stored.retain(|one| one.id != id);
    }

    pub(super) fn max_files(&self) -> usize {
        self.max_files
    }

    pub(super) fn bytes(&self) -> u64 {
        self.stored.iter().map(|one| one.bytes).sum()
    }

    pub(super) fn files(&self) -> usize {
        self.stored.len()
    }

    /// The next trace to delete so that one of `bytes` of `host` fits beside `reserved` bytes: the oldest of the host that has the most, the
    /// new one counted. `Ok(None)`: it fits.
    pub(super) fn surplus(&self, host: HostId, bytes: u64, reserved: u64) -> Result<Option<i64>, Full> {
        let wanted = self.bytes().saturating_add(reserved).saturating_add(bytes);
        let is_wide = wanted > self.max_bytes;
        if !is_wide && self.files() < self.max_files {
            return Ok(None);
        }
        let mut shares: BTreeMap<HostId, Share> = BTreeMap::new();
        shares.insert(host, Share { files: 1, bytes });
        for one in &self.stored {
            let share = shares.entry(one.host).or_default();
            share.files += 1;
            share.bytes += one.bytes;
        }
        let size = |share: &Share| if is_wide { share.bytes } else { share.files };
        // A host without stored traces has none to lose.
        let owners = shares.iter().filter(|(host, _)| self.stored.iter().any(|one| one.host == **host));
        let (owner, _) = owners.max_by_key(|(_, share)| size(share)).ok_or(Full)?;
        let oldest = self.stored.iter().find(|one| one.host == *owner).ok_or(Full)?;
        Ok(Some(oldest.id))
    }
}

/// There is nothing to delete.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Full;

#[cfg(test)]
mod tests {
    use super::*;

    fn host(id: u8) -> HostId {
        HostId([id; 16])
    }

    fn shares(of: &[(u8, u64)]) -> Shares {
        let mut shares = Shares::new(100, 5);
        for (at, (id, bytes)) in of.iter().enumerate() {
            shares.add(Stored { id: i64::try_from(at).unwrap(), host: host(*id), bytes: *bytes });
        }
        shares
    }

    #[test]
    fn the_host_with_the_most_loses_its_oldest() {
        assert_eq!(shares(&[(1, 40), (2, 50)]).surplus(host(1), 10, 0), Ok(None));
        // With the new one host 1 has 51.
        assert_eq!(shares(&[(2, 50), (1, 40)]).surplus(host(1), 11, 0), Ok(Some(1)));
        assert_eq!(shares(&[(1, 40), (2, 20), (2, 40)]).surplus(host(1), 10, 0), Ok(Some(1)));
        assert_eq!(shares(&[(1, 40), (2, 20), (2, 40)]).surplus(host(3), 10, 0), Ok(Some(1)));
        assert_eq!(shares(&[]).surplus(host(3), 10, 95), Err(Full), "what is under way is not deleted");
        let many = shares(&[(1, 30), (2, 1), (2, 1), (2, 1), (2, 1)]);
        assert_eq!(many.surplus(host(3), 1, 0), Ok(Some(1)), "by number");
    }
}
