//! [`HostTable`]: the v2 hosts of one kind of trust, bounded in number and in memory. Plain and encrypted hosts have a table each, so
//! that senders without a key take no place from those with one.

use std::cmp::Reverse;
use std::collections::HashMap;

use cpumon_model::{HostId, Moment, Trust};
use cpumon_wire::v2::Frame;

use super::budget::{Arrival, DemuxOptions, IntervalOutput, MemoryLimits, SourceBudget};
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
/// How often memory is checked for release, ns.
const RELEASE_EVERY_NS: u64 = 1_000_000_000;
/// A flush gives out snapshots of about so many bytes; the next one goes on. The thread that flushes receives datagrams, too.
pub(super) const FLUSH_BYTES: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct HostTable {
    trust: Trust,
    pub(super) hosts: HashMap<HostId, V2Host>,
    pub(super) budget: SourceBudget,
    next_search_ns: u64,
    next_release_ns: u64,
}

impl HostTable {
    pub(super) fn new(trust: Trust, budget: SourceBudget) -> Self {
        Self { trust, hosts: HashMap::new(), budget, next_search_ns: 0, next_release_ns: 0 }
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
        // Members of the group are known by their key: none of them makes another one leave.
        if self.trust == Trust::Encrypted || now.mono_ns < self.next_search_ns {
            return error;
        }
        self.next_search_ns = now.mono_ns.saturating_add(MAKE_SPACE_EVERY_NS);
        let Some(id) = self.least_wanted(now, max_hosts) else { return error };
        if let Some(host) = self.hosts.remove(&id) {
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
    pub(super) fn flush(
        &mut self,
        now: Moment,
        options: &DemuxOptions,
        scratch: &mut Scratch,
        out: IntervalOutput<'_>,
    ) {
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
