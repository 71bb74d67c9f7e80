//! [`Demux`] turns the datagrams of many senders into intervals of many hosts. Loss, order, restarts and limits are handled in this one
//! place, so that nothing behind it ever sees a datagram.
//!
//! `HostTable` has the v2 hosts of one kind of trust, bounded in number and in memory. Plain and encrypted hosts have a table each, so that
//! senders without a key take no place from those with one.

mod budget;
mod gather;
mod known;
mod sparse;
mod v1;
mod v2_host;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::SocketAddr;

use cpumon_model::{HostId, HostStatus, Interval, Moment, Snapshot, Trust};
use cpumon_query::status;
use cpumon_wire::encrypted::{self, Decryptor};
use cpumon_wire::v2::Frame;
use cpumon_wire::{DecodeError, v2};

use self::budget::{
    Arrival, FLUSH_BYTES, IntervalOutput, KEEPS_PLACE_NS, MAKE_SPACE_EVERY_NS, RELEASE_AFTER_NS, SourceBudget,
};
use self::gather::{Scratch, Work};
use self::v1::V1Table;
use self::v2_host::V2Host;
use crate::counts::Refusals;

pub use self::budget::{DemuxOptions, MemoryLimits, SourceRate};
pub use crate::counts::{RejectCounts, RejectKind, Rejected};

/// Counts over all senders, cumulative.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct DemuxTotals {
    pub datagrams: u64,
    pub bytes: u64,
    pub rejected: u64,
    pub rejected_by_kind: RejectCounts,
    pub opened: u64,
    pub intervals: u64,
    /// Names of hosts that were the id of another one, and were changed.
    pub changed_names: u64,
    /// Rows left out because a host had too many.
    pub rows_over_limit: u64,
    /// Threads of v2 hosts that were not received any more and whose end was in no frame.
    pub ended_unseen: u64,
}

/// Separates v1 from v2 and host from host, assembles snapshots and turns them into intervals.
#[derive(Debug)]
pub struct Demux {
    /// May be changed at any time, but for the rates of sources.
    pub options: DemuxOptions,
    v1_hosts: V1Table,
    /// v2 hosts whose frames were not encrypted.
    plain: HostTable,
    /// v2 hosts whose frames were encrypted: a plain frame is never charged to such a host.
    encrypted: HostTable,
    /// Opens encrypted datagrams. Holds the keys, the hosts that encrypt, and the state that lets a restarted receiver refuse replays.
    pub decryptor: Decryptor,
    frame: Frame,
    scratch: Scratch,
    pub refusals: Refusals<Rejected>,
    totals: DemuxTotals,
}

impl Demux {
    pub fn new(options: DemuxOptions) -> Self {
        Self {
            options,
            v1_hosts: V1Table::default(),
            plain: HostTable::new(Trust::Unauthenticated, SourceBudget::of_strangers(&options)),
            encrypted: HostTable::new(Trust::Encrypted, SourceBudget::default()),
            decryptor: Decryptor::default(),
            frame: Frame::default(),
            scratch: Scratch::default(),
            refusals: Refusals::default(),
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
        // Counted beside `self`, because the calls below borrow `self` as a whole.
        let mut given = 0;
        let mut count = |status: &HostStatus, interval: &Interval| {
            given += 1;
            out(status, interval);
        };
        let arrival = Arrival { bytes: datagram.len(), from, received };
        // The rate comes first: a flood must not cost a key derivation or a parse for each datagram. So encrypted ones count as well.
        let result = if !self.plain.budget.is_within_rate(&arrival) {
            Err(Rejected::TooFast)
        } else if datagram.starts_with(&encrypted::MAGIC) {
            self.take_encrypted(datagram, &arrival, &mut count)
        } else {
            self.take_timed(datagram, &arrival, &mut count)
        };
        self.totals.intervals += given;
        if let Err(rejected) = result {
            self.totals.rejected += 1;
            self.totals.rejected_by_kind.count(rejected.kind());
            self.refusals.count(from.ip().into(), 1, Some(rejected.kind()), rejected);
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
        let Self { v1_hosts, plain, encrypted, options, scratch, .. } = self;
        v1_hosts.flush(now, &mut plain.budget, &mut count);
        plain.flush(now, options, scratch, &mut count);
        encrypted.flush(now, options, scratch, &mut count);
        self.totals.intervals += given;
    }

    /// Every host that sent something, in no particular order.
    pub fn hosts(&self) -> impl Iterator<Item = &HostStatus> {
        self.v2_hosts().map(|host| &host.status).chain(self.v1_hosts.hosts().map(|host| &host.status))
    }

    /// The full last known state of a v2 host: live threads with cumulative counters. `None` for v1 hosts.
    pub fn snapshot(&self, host: HostId) -> Option<&Snapshot> {
        // Plain datagrams that claim the id of a host that encrypts never answer for it.
        [&self.encrypted, &self.plain].into_iter().find_map(|table| table.hosts.get(&host)?.snapshot())
    }

    pub fn tables(&self) -> status::Tables {
        status::Tables {
            plain_hosts: self.plain.hosts.len() as u64,
            encrypted_hosts: self.encrypted.hosts.len() as u64,
            v1_hosts: self.v1_hosts.hosts().count() as u64,
            max_hosts: self.options.max_hosts as u64,
            held_bytes: self.held_bytes() as u64,
        }
    }

    /// Memory for the known data of all hosts, bytes.
    pub fn held_bytes(&self) -> usize {
        self.plain.budget.held + self.encrypted.budget.held
    }

    fn v2_hosts(&self) -> impl Iterator<Item = &V2Host> {
        [&self.plain, &self.encrypted].into_iter().flat_map(|table| table.hosts.values())
    }

    pub fn totals(&self) -> DemuxTotals {
        let tables = [&self.plain, &self.encrypted];
        let gone = tables.map(|table| table.gone_rows_over_limit);
        let over = self.v2_hosts().map(|host| host.rows_over_limit).chain(gone);
        let gone = tables.map(|table| table.gone_ended_unseen);
        let unseen = self.v2_hosts().map(|host| host.ended_unseen).chain(gone);
        DemuxTotals {
            opened: self.decryptor.decrypted(),
            changed_names: self.scratch.changed_names,
            rows_over_limit: over.fold(self.v1_hosts.rows_over_limit(), u64::saturating_add),
            ended_unseen: unseen.fold(0, u64::saturating_add),
            ..self.totals
        }
    }

    fn take_v1(
        &mut self,
        datagram: &[u8],
        arrival: &Arrival,
        out: IntervalOutput<'_>,
    ) -> Result<(), Rejected> {
        if !self.options.accept_v1 {
            return Err(Rejected::NotAllowed { version: 1 });
        }
        let decoded = cpumon_wire::v1::decode(datagram).inspect_err(|_| {
            // Only a known host counts it: garbage must not create hosts. The sender is counted by `accept`.
            self.v1_hosts.count_rejected(arrival);
        })?;
        // After decoding, so that only a sound datagram takes a place among the hosts.
        self.v1_hosts.accept(&decoded, arrival, &self.options, &mut self.plain.budget, out)
    }

    /// Takes a datagram that is not encrypted, and counts the time that it takes for its source.
    fn take_timed(
        &mut self,
        datagram: &[u8],
        arrival: &Arrival,
        out: IntervalOutput<'_>,
    ) -> Result<(), Rejected> {
        let (source, now_ns) = (arrival.from.ip().into(), arrival.received.mono_ns);
        if !self.plain.budget.may_work(source, now_ns) {
            return Err(Rejected::TooCostly);
        }
        self.plain.budget.begin_work();
        let taken = if !datagram.starts_with(&v2::MAGIC) {
            self.take_v1(datagram, arrival, out)
        } else if self.options.accept_v2 {
            let decoded = self.frame.decode(datagram);
            self.take_frame(decoded, Trust::Unauthenticated, arrival, out)
        } else {
            Err(Rejected::NotAllowed { version: 2 })
        };
        self.plain.budget.end_work(source, now_ns);
        taken
    }

    fn take_encrypted(
        &mut self,
        datagram: &[u8],
        arrival: &Arrival,
        out: IntervalOutput<'_>,
    ) -> Result<(), Rejected> {
        let decoded = match self.decryptor.decrypt(datagram) {
            Ok(frame) => self.frame.decode(frame),
            Err(error) => {
                // A stranger can name any agent start, so the claim moves only a counter of a host that is
                // known already.
                let claimed = self.decryptor.claimed_host(datagram);
                if let Some(host) = claimed.and_then(|host| self.encrypted.hosts.get_mut(&host)) {
                    host.count_refused(error);
                }
                return Err(error.into());
            }
        };
        self.take_frame(decoded, Trust::Encrypted, arrival, out)
    }

    fn take_frame(
        &mut self,
        decoded: Result<(), DecodeError>,
        trust: Trust,
        arrival: &Arrival,
        out: IntervalOutput<'_>,
    ) -> Result<(), Rejected> {
        let Self { plain, encrypted, frame, options, scratch, .. } = self;
        let table = if trust == Trust::Encrypted { encrypted } else { plain };
        let taken = match decoded {
            Ok(()) => table.accept(frame, arrival, options, scratch, out),
            Err(error) => Err(error.into()),
        };
        frame.trim();
        taken
    }
}

/// A source with more than one in `MANY` places of the table gives way first.
const MANY: usize = 4;
/// Silent hosts keep what they hold while all hosts that do not encrypt hold no more than this, bytes.
const RELEASE_ABOVE_BYTES: usize = 4 << 20;
/// How often memory is checked for release, ns.
const RELEASE_EVERY_NS: u64 = 1_000_000_000;

#[derive(Debug)]
struct HostTable {
    trust: Trust,
    hosts: HashMap<HostId, V2Host>,
    budget: SourceBudget,
    next_search_ns: u64,
    next_release_ns: u64,
    /// Counts of hosts that gave way.
    gone_rows_over_limit: u64,
    gone_ended_unseen: u64,
}

impl HostTable {
    fn new(trust: Trust, budget: SourceBudget) -> Self {
        Self {
            trust,
            hosts: HashMap::new(),
            budget,
            next_search_ns: 0,
            next_release_ns: 0,
            gone_rows_over_limit: 0,
            gone_ended_unseen: 0,
        }
    }

    fn limits<'a>(&self, options: &'a DemuxOptions) -> &'a MemoryLimits {
        if self.trust == Trust::Encrypted { &options.encrypted } else { &options.plain }
    }

    /// Takes a frame for the host that it names.
    fn accept(
        &mut self,
        frame: &mut Frame,
        arrival: &Arrival,
        options: &DemuxOptions,
        scratch: &mut Scratch,
        out: IntervalOutput<'_>,
    ) -> Result<(), Rejected> {
        let (id, source) = (frame.header.host, arrival.from.ip().into());
        if !self.hosts.contains_key(&id) {
            self.make_space(arrival.received, options.max_hosts)?;
            let host = V2Host::new(&frame.header, self.trust, self.budget.open(source));
            self.hosts.insert(id, host);
        }
        let limits = self.limits(options);
        let Some(host) = self.hosts.get_mut(&id) else { return Ok(()) };
        self.budget.receive(&mut host.charge, source, arrival.bytes);
        let limit = self.budget.limit(&host.charge, limits);
        let taken = host.accept(frame, arrival, &mut Work { options, limit, scratch, out });
        let held = host.held();
        self.budget.set(&mut host.charge, held);
        taken
    }

    /// Makes sure that there is a place for one more host. Of plain hosts the one that was silent longest gives way.
    fn make_space(&mut self, now: Moment, max_hosts: usize) -> Result<(), Rejected> {
        if self.hosts.len() < max_hosts {
            return Ok(());
        }
        let error = Err(Rejected::TooManyHosts { max_hosts });
        // Members of the group are known by their key: no member makes another one leave.
        if self.trust == Trust::Encrypted || now.mono_ns < self.next_search_ns {
            return error;
        }
        self.next_search_ns = now.mono_ns.saturating_add(MAKE_SPACE_EVERY_NS);
        let Some(id) = self.least_wanted(now, max_hosts) else { return error };
        if let Some(host) = self.hosts.remove(&id) {
            self.gone_rows_over_limit = self.gone_rows_over_limit.saturating_add(host.rows_over_limit);
            self.gone_ended_unseen = self.gone_ended_unseen.saturating_add(host.ended_unseen);
            self.budget.close(host.charge);
        }
        Ok(())
    }

    /// The host that gives way: one of a source that has many, else one that gave out nothing or is silent.
    fn least_wanted(&self, now: Moment, max_hosts: usize) -> Option<HostId> {
        let most = self.budget.largest_source().filter(|(_, hosts)| *hosts > (max_hosts / MANY).max(1));
        let is_of_many = |host: &V2Host| most.is_some_and(|(source, _)| source == host.charge.source);
        let is_idle = |host: &V2Host| !host.is_established || host.silent_ns(now) >= KEEPS_PLACE_NS;
        let longest_silent = |may_go: &dyn Fn(&V2Host) -> bool| {
            let candidates = self.hosts.iter().filter(|(_, host)| may_go(host));
            let by_use = |host: &V2Host| (!host.is_established, host.silent_ns(now));
            candidates.max_by_key(|(_, host)| by_use(host)).map(|(id, _)| *id)
        };
        longest_silent(&is_of_many).or_else(|| longest_silent(&is_idle))
    }

    /// Gives out what has been waiting for missing datagrams for too long, and gives back memory of hosts that are silent.
    fn flush(&mut self, now: Moment, options: &DemuxOptions, scratch: &mut Scratch, out: IntervalOutput<'_>) {
        let limits = *self.limits(options);
        let mut given_out = 0;
        let timeout_ns = options.reassembly_timeout_ns;
        for host in self.hosts.values_mut().filter(|host| host.is_late(now, timeout_ns)) {
            let limit = self.budget.limit(&host.charge, &limits);
            given_out += host.pending_bytes();
            self.budget.begin_work();
            host.flush(now, &mut Work { options, limit, scratch, out });
            self.budget.end_work(host.charge.source, now.mono_ns);
            let held = host.held();
            self.budget.set(&mut host.charge, held);
            if given_out > FLUSH_BYTES {
                break;
            }
        }
        if self.trust != Trust::Encrypted && now.mono_ns >= self.next_release_ns {
            self.next_release_ns = now.mono_ns.saturating_add(RELEASE_EVERY_NS);
            self.release(now);
        }
    }

    /// Gives back what silent hosts hold, those with most first, as long as all together hold much.
    fn release(&mut self, now: Moment) {
        if self.budget.held <= RELEASE_ABOVE_BYTES {
            return;
        }
        let mut silent: Vec<&mut V2Host> =
            self.hosts.values_mut().filter(|host| host.is_gone(now, RELEASE_AFTER_NS)).collect();
        silent.sort_unstable_by_key(|host| Reverse(host.held()));
        for host in silent {
            if self.budget.held <= RELEASE_ABOVE_BYTES {
                return;
            }
            host.forget();
            let held = host.held();
            self.budget.set(&mut host.charge, held);
        }
    }
}
