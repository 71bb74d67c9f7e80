//! [`Demux`]: datagrams of many senders become intervals of many hosts. Loss, order, restarts and limits are
//! handled in this one place, so that nothing behind it ever sees a datagram.

mod delays;
mod gather;
mod known;
mod options;
mod rejects;
mod senders;
mod usage;
mod v1_host;
mod v2_host;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use cpumon_model::limits::SourceTable;
use cpumon_model::{HostId, HostStatus, Interval, Moment, Snapshot, Trust};

use cpumon_wire::encrypted::{self, Decryptor, GroupKey, KeyId};
use cpumon_wire::{v1, v2};

pub use options::{DemuxOptions, SourceRate};
pub use rejects::{RejectCounts, RejectKind, Rejected};
pub use senders::RejectedSender;
use senders::Senders;
use usage::Usage;
use v1_host::V1Host;
use v2_host::V2Host;

/// Counts over all senders, cumulative.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct DemuxTotals {
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Bytes of those datagrams.
    pub bytes: u64,
    /// Datagrams refused, for whatever reason.
    pub rejected: u64,
    /// Of these, how many for which reason.
    pub rejected_by_kind: RejectCounts,
    /// Of these, datagrams whose sender did not fit into the table of refused senders.
    pub rejected_elsewhere: u64,
    /// Encrypted datagrams that were opened.
    pub opened: u64,
    /// Intervals given out.
    pub intervals: u64,
    /// Rows of v2 frames left out because a host had too many.
    pub rows_over_limit: u64,
    /// Threads of v2 hosts that were not received any more and whose end was in no frame.
    pub ended_unseen: u64,
}

/// Separates v1 from v2 and host from host, puts snapshots together and makes intervals of them.
#[derive(Debug)]
pub struct Demux {
    options: DemuxOptions,
    v1_hosts: HashMap<IpAddr, V1Host>,
    /// By id, and whether its frames were encrypted: a plain frame is never charged to an encrypted host.
    v2_hosts: HashMap<(HostId, bool), V2Host>,
    decryptor: Decryptor,
    frame: v2::Frame,
    /// What all v2 hosts hold together.
    held: Usage,
    senders: Senders,
    /// How many datagrams and bytes each source may send; `None`: any number.
    rates: Option<SourceTable<2>>,
    totals: DemuxTotals,
}

impl Demux {
    /// A demux without hosts.
    #[must_use]
    pub fn new(options: DemuxOptions) -> Self {
        Self {
            rates: options.source_rate.map(SourceRate::table),
            options,
            v1_hosts: HashMap::new(),
            v2_hosts: HashMap::new(),
            decryptor: Decryptor::default(),
            frame: v2::Frame::default(),
            held: Usage::default(),
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
        // Counted beside `self`, because the calls below borrow all of it.
        let mut given = 0;
        let mut count = |status: &HostStatus, interval: &Interval| {
            given += 1;
            out(status, interval);
        };
        // The rate comes first: a flood must not cost a key derivation or a parse for each datagram.
        let result = if !self.is_within_rate(datagram.len(), from, received) {
            Err(Rejected::TooFast)
        } else if datagram.starts_with(&encrypted::MAGIC) {
            self.take_encrypted(datagram, from, received, &mut count)
        } else if datagram.starts_with(&v2::MAGIC) {
            self.take_plain(datagram, from, received, &mut count)
        } else {
            self.take_v1(datagram, from, received, &mut count)
        };
        self.totals.intervals += given;
        if let Err(rejected) = result {
            self.totals.rejected += 1;
            self.totals.rejected_by_kind.count(rejected.kind());
            // A dual-stack socket delivers IPv4 senders as ::ffff:a.b.c.d: both spellings are one sender.
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
        for host in self.v2_hosts.values_mut() {
            within_limits(host, &self.options, &mut self.held, |host, options| {
                host.flush(now, options, &mut count);
            });
        }
        self.totals.intervals += given;
    }

    /// Every host that sent something, in no particular order.
    pub fn hosts(&self) -> impl Iterator<Item = &HostStatus> {
        self.v2_hosts.values().map(V2Host::status).chain(self.v1_hosts.values().map(V1Host::status))
    }

    /// The full last known state of a v2 host: live threads with cumulative counters. `None` for v1 hosts.
    #[must_use]
    pub fn snapshot(&self, host: HostId) -> Option<&Snapshot> {
        let of = |is_encrypted| self.v2_hosts.get(&(host, is_encrypted)).and_then(V2Host::snapshot);
        // Plain datagrams that claim the id of a host that encrypts never answer for it.
        of(true).or_else(|| of(false))
    }

    /// Counts over all senders.
    #[must_use]
    pub fn totals(&self) -> DemuxTotals {
        let over = |host: &V2Host| host.rows_over_limit;
        DemuxTotals {
            rejected_elsewhere: self.senders.elsewhere(),
            opened: self.decryptor.decrypted(),
            rows_over_limit: self.v2_hosts.values().map(over).fold(0, u64::saturating_add),
            ended_unseen: self.v2_hosts.values().map(|host| host.ended_unseen).fold(0, u64::saturating_add),
            ..self.totals
        }
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
            // Only a known host counts it: garbage must not create hosts. The sender is counted by `accept`.
            if let Some(host) = self.v1_hosts.get_mut(&address) {
                host.count_rejected(datagram.len());
            }
        })?;
        // After decoding, so that only a sound datagram takes a place among the hosts.
        if !self.v1_hosts.contains_key(&address) {
            self.check_space()?;
            self.v1_hosts.insert(address, V1Host::new(address, self.options.v1));
        }
        if let Some(host) = self.v1_hosts.get_mut(&address) {
            host.accept(&decoded, datagram.len(), from, received, out);
        }
        Ok(())
    }
}

impl Demux {
    /// Whether a datagram is within what its source may send.
    fn is_within_rate(&mut self, bytes: usize, from: SocketAddr, received: Moment) -> bool {
        let Some(rates) = &mut self.rates else { return true };
        rates.take(from.ip().into(), [1, bytes as u64], received.mono_ns).is_ok()
    }

    fn check_space(&self) -> Result<(), Rejected> {
        let max_hosts = self.options.max_hosts;
        let has_space = self.v1_hosts.len() + self.v2_hosts.len() < max_hosts;
        if has_space { Ok(()) } else { Err(Rejected::TooManyHosts { max_hosts }) }
    }

    fn take_plain(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        received: Moment,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) -> Result<(), Rejected> {
        if !self.options.accept_v2 {
            return Err(Rejected::NotAllowed { version: 2 });
        }
        self.frame.decode(datagram)?;
        self.take_frame(datagram.len(), Trust::Unauthenticated, from, received, out)
    }

    fn take_encrypted(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        received: Moment,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) -> Result<(), Rejected> {
        match self.decryptor.decrypt(datagram) {
            Ok(frame) => self.frame.decode(frame)?,
            Err(error) => {
                // A stranger can name any agent start, so the claim moves only a counter of a host that is
                // known already.
                if let Some(host) = self.decryptor.claimed_host(datagram)
                    && let Some(host) = self.v2_hosts.get_mut(&(host, true))
                {
                    host.count_refused(error);
                }
                return Err(error.into());
            }
        }
        self.take_frame(datagram.len(), Trust::Encrypted, from, received, out)
    }

    /// Takes the decoded frame.
    fn take_frame(
        &mut self,
        bytes: usize,
        trust: Trust,
        from: SocketAddr,
        received: Moment,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) -> Result<(), Rejected> {
        let key = (self.frame.header.host, trust == Trust::Encrypted);
        if !self.v2_hosts.contains_key(&key) {
            self.check_space()?;
            self.v2_hosts.insert(key, V2Host::new(&self.frame.header, trust));
        }
        let Self { v2_hosts, frame, options, held, .. } = self;
        let Some(host) = v2_hosts.get_mut(&key) else { return Ok(()) };
        within_limits(host, options, held, |host, options| {
            host.accept(frame, bytes, from, received, options, out)
        })
    }

    /// Opens encrypted datagrams with these keys from now on.
    pub fn set_keys(&mut self, keys: &[GroupKey]) {
        self.decryptor.set_keys(keys);
    }

    /// Names of the keys in use.
    pub fn key_ids(&self) -> impl Iterator<Item = KeyId> {
        self.decryptor.key_ids()
    }

    /// Whether unencrypted v1 datagrams and v2 frames are taken from now on.
    pub fn accept_plain(&mut self, v1: bool, v2: bool) {
        (self.options.accept_v1, self.options.accept_v2) = (v1, v2);
    }

    /// Hosts that encrypted datagrams ever spoke for: nothing else should speak for them.
    pub fn encrypted_hosts(&self) -> impl Iterator<Item = HostId> {
        self.decryptor.hosts()
    }

    /// What to keep so that a receiver that begins again takes nothing twice.
    #[must_use]
    pub fn memory(&self) -> String {
        self.decryptor.memory()
    }

    /// Takes up what was kept, once the keys are set. Gives the number of lines that cannot be read.
    pub fn recall(&mut self, memory: &str) -> usize {
        self.decryptor.recall(memory)
    }
}

/// Works on one host within what the others leave it, and counts what it holds afterwards.
fn within_limits<T>(
    host: &mut V2Host,
    options: &DemuxOptions,
    held: &mut Usage,
    work: impl FnOnce(&mut V2Host, &DemuxOptions) -> T,
) -> T {
    let before = host.held();
    // A host's own rows do not count against it: one at the limit must still be able to replace what it has.
    let others =
        Usage { threads: held.threads - before.threads, text_bytes: held.text_bytes - before.text_bytes };
    let space = |per_host: usize, in_all: usize, others: usize| per_host.min(in_all.saturating_sub(others));
    let result = work(
        host,
        &DemuxOptions {
            max_threads_per_host: space(options.max_threads_per_host, options.max_threads, others.threads),
            max_text_bytes_per_host: space(
                options.max_text_bytes_per_host,
                options.max_text_bytes,
                others.text_bytes,
            ),
            ..*options
        },
    );
    let after = host.held();
    *held =
        Usage { threads: others.threads + after.threads, text_bytes: others.text_bytes + after.text_bytes };
    result
}
