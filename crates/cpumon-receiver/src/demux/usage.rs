//! What hosts cost: the memory that they take, and the datagrams that they send.

use cpumon_model::LossCounts;

/// Memory that v2 hosts take.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) threads: usize,
    pub(super) text_bytes: usize,
}

/// Adds what a datagram counts for.
pub(super) fn count_datagram(loss: &mut LossCounts, bytes: usize) {
    loss.datagrams += 1;
    loss.bytes += bytes as u64;
}
