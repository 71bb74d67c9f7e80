//! [`Demux`]: datagrams of many senders become intervals of many hosts. In: datagrams, where from and when. Out: for each
//! finished interval the host's status and the interval. Why: loss, order, restarts and limits are handled in one place, so
//! that nothing behind it ever sees a datagram.

mod senders;
mod v1_host;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use cpumon_model::{HostId, HostStatus, Interval, LossCounts, Moment, Snapshot};

use crate::v1::AssemblerLimits;
use crate::{DecodeError, v1};
pub use senders::RejectedSender;
use senders::Senders;
use v1_host::V1Host;

/// Limits and choices of a [`Demux`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DemuxOptions {
    /// Take v1 datagrams.
    pub accept_v1: bool,
    /// Take v2 frames.
    pub accept_v2: bool,
    /// Most hosts, v1 and v2 together; datagrams of further ones are refused and counted.
    pub max_hosts: usize,
    /// Most live threads kept per host; further ones are counted and left out.
    pub max_threads_per_host: usize,
    /// A snapshot with missing fragments is given out as partial this long after its first fragment, ns.
    pub reassembly_timeout_ns: u64,
    /// Tasks that were not heard of for this many refresh rotations ended unseen.
    pub stale_rotations: u32,
    /// Limits of one v1 set.
    pub v1: AssemblerLimits,
}

impl Default for DemuxOptions {
    fn default() -> Self {
        Self {
            accept_v1: true,
            accept_v2: true,
            max_hosts: 4_096,
            max_threads_per_host: 262_144,
            reassembly_timeout_ns: 500_000_000,
            stale_rotations: 3,
            v1: AssemblerLimits::default(),
        }
    }
}

/// Why a datagram was refused. It has been counted already.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// It is no datagram of ours.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It speaks for a host too many.
    #[error("taking a datagram of a new host: there are {max_hosts} already")]
    TooManyHosts {
        /// The limit.
        max_hosts: usize,
    },
    /// Its protocol is switched off.
    #[error("taking a datagram of protocol v{version}: it is not allowed here")]
    NotAllowed {
        /// 1 or 2.
        version: u8,
    },
}

/// Counts over all senders, cumulative.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct DemuxTotals {
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Bytes of those datagrams.
    pub bytes: u64,
    /// Datagrams refused, for whatever reason.
    pub rejected: u64,
    /// Of these, datagrams of hosts beyond the limit.
    pub refused_hosts: u64,
    /// Of these, datagrams whose sender had no room in the table of refused senders.
    pub rejected_elsewhere: u64,
    /// Intervals given out.
    pub intervals: u64,
}

/// Tells v1 from v2, keeps the hosts apart, puts snapshots together and makes intervals of them.
#[derive(Debug)]
pub struct Demux {
    options: DemuxOptions,
    v1_hosts: HashMap<IpAddr, V1Host>,
    senders: Senders,
    totals: DemuxTotals,
}

impl Demux {
    /// Nothing heard yet.
    #[must_use]
    pub fn new(options: DemuxOptions) -> Self {
        Self {
            options,
            v1_hosts: HashMap::new(),
            senders: Senders::default(),
            totals: DemuxTotals::default(),
        }
    }

    /// Takes one datagram and gives out every interval that it completes.
    ///
    /// # Errors
    /// When the datagram is unusable; it has then been counted, per sender.
    pub fn accept(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        received: Moment,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) -> Result<(), Rejected> {
        self.totals.datagrams += 1;
        self.totals.bytes += datagram.len() as u64;
        let mut given = 0;
        let mut count = |status: &HostStatus, interval: &Interval| {
            given += 1;
            out(status, interval);
        };
        let result = self.take_v1(datagram, from, received, &mut count);
        self.totals.intervals += given;
        if let Err(rejected) = result {
            self.totals.rejected += 1;
            self.totals.refused_hosts += u64::from(matches!(rejected, Rejected::TooManyHosts { .. }));
            self.senders.count(from.ip().to_canonical(), rejected, received);
        }
        result
    }

    /// Gives out what has been waiting for missing datagrams for too long. Call it now and then, e.g. every 100 ms.
    pub fn flush(&mut self, now: Moment, out: &mut dyn FnMut(&HostStatus, &Interval)) {
        let mut given = 0;
        let mut count = |status: &HostStatus, interval: &Interval| {
            given += 1;
            out(status, interval);
        };
        for host in self.v1_hosts.values_mut() {
            host.flush(now, &mut count);
        }
        self.totals.intervals += given;
    }

    /// Every host heard of, in no particular order.
    pub fn hosts(&self) -> impl Iterator<Item = &HostStatus> {
        self.v1_hosts.values().map(V1Host::status)
    }

    /// The full last known state of a v2 host: live threads with cumulative counters. `None` for v1 hosts.
    #[must_use]
    pub fn snapshot(&self, _host: HostId) -> Option<&Snapshot> {
        None
    }

    /// Counts over all senders.
    #[must_use]
    pub fn totals(&self) -> DemuxTotals {
        DemuxTotals { rejected_elsewhere: self.senders.elsewhere(), ..self.totals }
    }

    /// Senders whose datagrams were refused, in no particular order. A bounded table.
    pub fn rejected_senders(&self) -> impl Iterator<Item = &RejectedSender> {
        self.senders.iter()
    }

    fn take_v1(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        received: Moment,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) -> Result<(), Rejected> {
        let address = from.ip().to_canonical();
        if !self.options.accept_v1 {
            return Err(Rejected::NotAllowed { version: 1 });
        }
        let decoded = v1::decode(datagram).inspect_err(|_| {
            if let Some(host) = self.v1_hosts.get_mut(&address) {
                host.count_rejected(datagram.len());
            }
        })?;
        if !self.v1_hosts.contains_key(&address) {
            if self.v1_hosts.len() >= self.options.max_hosts {
                return Err(Rejected::TooManyHosts { max_hosts: self.options.max_hosts });
            }
            self.v1_hosts.insert(address, V1Host::new(address, self.options.v1));
        }
        if let Some(host) = self.v1_hosts.get_mut(&address) {
            host.accept(&decoded, datagram.len(), from, received, out);
        }
        Ok(())
    }
}

/// Adds what a datagram counts for.
fn count_datagram(loss: &mut LossCounts, bytes: usize) {
    loss.datagrams += 1;
    loss.bytes += bytes as u64;
}
