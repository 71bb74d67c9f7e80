//! [`HostTable`]: the v2 hosts of one kind of trust, bounded in number and in memory. Plain and encrypted hosts have a table each, so
//! that senders without a key take no place from those with one.

use std::collections::HashMap;

use cpumon_model::{HostId, Moment, Trust};
use cpumon_wire::v2::Frame;

use super::budget::{Accounts, Arrival, Charge, CpuTime, DemuxOptions, MemoryLimits, Output};
use super::gather::{Scratch, Work};
use super::rejects::Rejected;
use super::v2_host::V2Host;

/// A host that gave out an interval keeps its place for so long when nothing comes from it, ns.
pub(super) const KEEPS_PLACE_NS: u64 = 10_000_000_000;
/// A source with more than one in so many places of the table gives way first.
const MANY: usize = 4;
/// A place is searched for at most this often, ns: it takes a walk over the whole table.
pub(super) const MAKE_SPACE_EVERY_NS: u64 = 1_000_000;
/// Hosts that are silent give back what they hold after this time, ns.
pub(super) const RELEASE_AFTER_NS: u64 = 30_000_000_000;
/// But not while all hosts that do not encrypt hold no more than this, bytes.
const RELEASE_ABOVE_BYTES: usize = 4 << 20;
/// Checked this often, ns.
const RELEASE_EVERY_NS: u64 = 1_000_000_000;
/// A flush gives out snapshots of about so many bytes; the next one goes on. The thread that flushes receives datagrams, too.
pub(super) const FLUSH_BYTES: usize = 8 << 20;

#[derive(Debug)]
struct Entry {
    host: V2Host,
    charge: Charge,
}

/// The v2 hosts of one kind of trust.
#[derive(Debug)]
pub(super) struct HostTable {
    trust: Trust,
    hosts: HashMap<HostId, Entry>,
    pub(super) accounts: Accounts,
    next_search_ns: u64,
    next_release_ns: u64,
}

impl HostTable {
    pub(super) fn new(trust: Trust) -> Self {
        Self {
            trust,
            hosts: HashMap::new(),
            accounts: Accounts::default(),
            next_search_ns: 0,
            next_release_ns: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn hosts(&self) -> impl Iterator<Item = &V2Host> {
        self.hosts.values().map(|entry| &entry.host)
    }

    pub(super) fn get(&self, host: HostId) -> Option<&V2Host> {
        self.hosts.get(&host).map(|entry| &entry.host)
    }

    pub(super) fn get_mut(&mut self, host: HostId) -> Option<&mut V2Host> {
        self.hosts.get_mut(&host).map(|entry| &mut entry.host)
    }

    fn limits<'a>(&self, options: &'a DemuxOptions) -> &'a MemoryLimits {
        if self.trust == Trust::Encrypted { &options.encrypted } else { &options.plain }
    }

    /// Takes a frame for the host that it names.
    pub(super) fn accept(
        &mut self,
        frame: &mut Frame,
        arrival: &Arrival,
        options: &DemuxOptions,
        scratch: &mut Scratch,
        out: Output<'_>,
    ) -> Result<(), Rejected> {
        let (id, source) = (frame.header.host, arrival.from.ip().into());
        if !self.hosts.contains_key(&id) {
            self.make_space(arrival.received, options.max_hosts)?;
            let host = V2Host::new(&frame.header, self.trust);
            let charge = self.accounts.open(source);
            self.hosts.insert(id, Entry { host, charge });
        }
        let limits = self.limits(options);
        let Some(Entry { host, charge }) = self.hosts.get_mut(&id) else { return Ok(()) };
        self.accounts.receive(charge, source, arrival.bytes);
        let limit = self.accounts.limit(charge, limits);
        let taken = host.accept(frame, arrival, &mut Work { options, limit, scratch, out });
        self.accounts.set(charge, host.held());
        taken
    }

    /// Makes sure that there is a place for one more host. Of plain hosts the one that was silent longest gives way.
    fn make_space(&mut self, now: Moment, max_hosts: usize) -> Result<(), Rejected> {
        if self.hosts.len() < max_hosts {
            return Ok(());
        }
        let error = Err(Rejected::TooManyHosts { max_hosts });
        // Members of the group are known by their key: none of them makes another one leave.
        if self.trust == Trust::Encrypted || now.mono_ns < self.next_search_ns {
            return error;
        }
        self.next_search_ns = now.mono_ns.saturating_add(MAKE_SPACE_EVERY_NS);
        let Some(id) = self.least_wanted(now, max_hosts) else { return error };
        if let Some(entry) = self.hosts.remove(&id) {
            self.accounts.close(entry.charge);
        }
        Ok(())
    }

    /// The host that gives way: one of a source that has many, else one that gave out nothing or is silent.
    fn least_wanted(&self, now: Moment, max_hosts: usize) -> Option<HostId> {
        let most = self.accounts.largest_source().filter(|most| most.hosts > (max_hosts / MANY).max(1));
        let is_of_many = |entry: &Entry| most.is_some_and(|most| most.source == entry.charge.source);
        let is_idle =
            |entry: &Entry| !entry.host.is_established || entry.host.silent_ns(now) >= KEEPS_PLACE_NS;
        let longest_silent = |may_go: &dyn Fn(&Entry) -> bool| {
            let candidates = self.hosts.iter().filter(|(_, entry)| may_go(entry));
            let by_use = |entry: &Entry| (!entry.host.is_established, entry.host.silent_ns(now));
            candidates.max_by_key(|(_, entry)| by_use(entry)).map(|(id, _)| *id)
        };
        longest_silent(&is_of_many).or_else(|| longest_silent(&is_idle))
    }

    /// Gives out what has been waiting for missing datagrams for too long, and gives back memory of hosts that are silent. `time`:
    /// where to count how long that takes for each source.
    pub(super) fn flush(
        &mut self,
        now: Moment,
        options: &DemuxOptions,
        scratch: &mut Scratch,
        mut time: Option<&mut CpuTime>,
        out: Output<'_>,
    ) {
        let limits = *self.limits(options);
        let mut given_out = 0;
        let timeout_ns = options.reassembly_timeout_ns;
        for Entry { host, charge } in self.hosts.values_mut().filter(|one| one.host.is_late(now, timeout_ns))
        {
            let limit = self.accounts.limit(charge, &limits);
            given_out += host.pending_bytes();
            if let Some(time) = &mut time {
                time.go_on();
            }
            host.flush(now, &mut Work { options, limit, scratch, out });
            if let Some(time) = &mut time {
                time.end(charge.source, now.mono_ns);
            }
            self.accounts.set(charge, host.held());
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
        if self.accounts.held <= RELEASE_ABOVE_BYTES {
            return;
        }
        let mut silent: Vec<&mut Entry> =
            self.hosts.values_mut().filter(|one| one.host.is_gone(now, RELEASE_AFTER_NS)).collect();
        silent.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.host.held()));
        for Entry { host, charge } in silent {
            if self.accounts.held <= RELEASE_ABOVE_BYTES {
                return;
            }
            host.forget();
            self.accounts.set(charge, host.held());
        }
    }
}
