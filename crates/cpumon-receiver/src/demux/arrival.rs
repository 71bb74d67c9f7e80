//! [`Arrival`]: how a datagram came.

use std::net::SocketAddr;

use cpumon_model::Moment;

/// A datagram's length, where it came from, and when.
#[derive(Copy, Clone, Debug)]
pub(super) struct Arrival {
    pub(super) bytes: usize,
    pub(super) from: SocketAddr,
    pub(super) received: Moment,
}
