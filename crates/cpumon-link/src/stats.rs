//! [`SendStats`]: counts of datagrams sent and of errors, by error number.

use std::io;

/// What a sender did since it was opened. A datagram to three destinations counts three times.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SendStats {
    /// Datagrams that the kernel took.
    pub datagrams: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Datagrams that it refused, or that had nowhere to go (no interface up, name without an address).
    pub errors: u64,
    /// Those of them for whose receiver's name there was no address.
    pub unresolved: u64,
    /// Times the list of destinations changed (an interface came, went or got another address).
    pub destination_changes: u64,
    by_errno: [(i32, u64); SendStats::KINDS],
}

impl SendStats {
    /// Kinds of errors counted separately; later kinds are in `errors` alone.
    const KINDS: usize = 12;

    /// The errors by kind and how often each occurred, in the order they first did.
    pub fn by_kind(&self) -> impl Iterator<Item = (io::Error, u64)> {
        self.by_errno
            .iter()
            .take_while(|row| row.1 > 0)
            .map(|row| (io::Error::from_raw_os_error(row.0), row.1))
    }

    /// Counts datagrams for a name without an address; returns whether these are the first.
    pub(crate) fn count_unresolved(&mut self, count: u64) -> bool {
        let is_new = self.unresolved == 0;
        self.errors += count;
        self.unresolved += count;
        is_new
    }

    /// Counts errors; returns whether this kind is new.
    pub(crate) fn count_errors(&mut self, errno: i32, count: u64) -> bool {
        self.errors += count;
        let Some(row) = self.by_errno.iter_mut().find(|row| row.1 == 0 || row.0 == errno) else {
            return false;
        };
        let is_new = row.1 == 0;
        *row = (errno, row.1 + count);
        is_new && count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::NETWORK_UNREACHABLE;

    #[test]
    fn each_kind_is_new_once_and_the_sum_is_whole() {
        let mut stats = SendStats::default();
        assert!(stats.count_errors(NETWORK_UNREACHABLE, 1));
        assert!(!stats.count_errors(NETWORK_UNREACHABLE, 2));
        for errno in 1..=40 {
            stats.count_errors(errno, 1);
        }
        assert_eq!(stats.errors, 43);
        assert_eq!(stats.by_kind().count(), SendStats::KINDS);
        assert_eq!(stats.by_kind().next().map(|kind| kind.1), Some(3));
    }
}
