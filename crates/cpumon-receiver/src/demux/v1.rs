//! v1 names no host: devices differ by their source address only. [`V1Host`] is the sender behind an address, [`V1Table`] has a bounded
//! number of senders. Their memory counts together with the memory of other plain hosts.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use cpumon_model::{HostId, HostInfo, HostStatus, Interval, Moment, SourceKind, Trust};
use cpumon_wire::v1::{Assembler, AssemblerLimits, Datagram};

use super::budget::{
    Arrival, Charge, DemuxOptions, FLUSH_BYTES, IntervalOutput, KEEPS_PLACE_NS, MAKE_SPACE_EVERY_NS,
    RELEASE_AFTER_NS, SourceBudget, count_datagram,
};
use crate::counts::Rejected;

#[derive(Debug, Default)]
pub(super) struct V1Table {
    hosts: HashMap<IpAddr, V1Host>,
    next_search_ns: u64,
    /// Of hosts that gave way.
    gone_rows_over_limit: u64,
}

impl V1Table {
    pub(super) fn hosts(&self) -> impl Iterator<Item = &V1Host> {
        self.hosts.values()
    }

    /// Processes and threads that were left out of sets that were full.
    pub(super) fn rows_over_limit(&self) -> u64 {
        self.hosts().map(V1Host::rows_over_limit).fold(self.gone_rows_over_limit, u64::saturating_add)
    }

    /// A datagram that cannot be read came from an address.
    pub(super) fn count_rejected(&mut self, arrival: &Arrival) {
        if let Some(host) = self.hosts.get_mut(&arrival.from.ip().to_canonical()) {
            count_datagram(&mut host.status.loss, arrival.bytes);
            host.status.loss.rejected += 1;
        }
    }

    /// Takes a datagram for the host at its address.
    pub(super) fn accept(
        &mut self,
        datagram: &Datagram,
        arrival: &Arrival,
        options: &DemuxOptions,
        budget: &mut SourceBudget,
        out: IntervalOutput<'_>,
    ) -> Result<(), Rejected> {
        let address = arrival.from.ip().to_canonical();
        if !self.hosts.contains_key(&address) {
            self.make_space(arrival.received, options.max_hosts, budget)?;
            let charge = budget.open(address.into());
            self.hosts.insert(address, V1Host::new(address, options.v1, charge));
        }
        let Some(host) = self.hosts.get_mut(&address) else { return Ok(()) };
        host.received_mono_ns = arrival.received.mono_ns;
        budget.receive(&mut host.charge, address.into(), arrival.bytes);
        let limit = budget.limit(&host.charge, &options.plain);
        host.accept(datagram, arrival, limit, out);
        budget.set(&mut host.charge, host.assembler.held());
        Ok(())
    }

    /// Makes sure that there is a place for one more host: the one that was silent longest gives way.
    fn make_space(
        &mut self,
        now: Moment,
        max_hosts: usize,
        budget: &mut SourceBudget,
    ) -> Result<(), Rejected> {
        if self.hosts.len() < max_hosts {
            return Ok(());
        }
        let error = Rejected::TooManyHosts { max_hosts };
        if now.mono_ns < self.next_search_ns {
            return Err(error);
        }
        self.next_search_ns = now.mono_ns.saturating_add(MAKE_SPACE_EVERY_NS);
        let silent = self.hosts.iter().min_by_key(|(_, host)| host.received_mono_ns);
        let may_go = |host: &V1Host| now.mono_ns.saturating_sub(host.received_mono_ns) >= KEEPS_PLACE_NS;
        let Some(address) = silent.filter(|(_, host)| may_go(host)).map(|(address, _)| *address) else {
            return Err(error);
        };
        if let Some(host) = self.hosts.remove(&address) {
            self.gone_rows_over_limit = self.gone_rows_over_limit.saturating_add(host.rows_over_limit());
            budget.close(host.charge);
        }
        Ok(())
    }

    /// Gives out sets that have been waiting for their end for too long.
    pub(super) fn flush(&mut self, now: Moment, budget: &mut SourceBudget, out: IntervalOutput<'_>) {
        let mut given_out = 0;
        budget.begin_work();
        for host in self.hosts.values_mut() {
            let held = host.assembler.held();
            let mut has_changed = host.flush(now, out);
            if has_changed {
                budget.end_work(host.charge.source, now.mono_ns);
                budget.begin_work();
                given_out += held;
            }
            let silent_ns = now.mono_ns.saturating_sub(host.received_mono_ns);
            if silent_ns >= RELEASE_AFTER_NS && host.assembler.held() > 0 {
                host.assembler.forget_infos();
                has_changed = true;
            }
            if has_changed {
                budget.set(&mut host.charge, host.assembler.held());
            }
            if given_out > FLUSH_BYTES {
                break;
            }
        }
    }
}

/// A source address that sends v1 datagrams.
#[derive(Debug)]
pub(super) struct V1Host {
    charge: Charge,
    received_mono_ns: u64,
    assembler: Assembler,
    pub(super) status: HostStatus,
    /// Port in the address that the status shows.
    port: Option<u16>,
}

impl V1Host {
    fn new(address: IpAddr, limits: AssemblerLimits, charge: Charge) -> Self {
        let host = host_of_address(address);
        let info = HostInfo {
            host,
            // v1 carries no name, so the address is shown in its place.
            hostname: address.to_string().into(),
            agent: "v1 device".into(),
            source_reason: "reported by the device itself, protocol v1".into(),
            ..HostInfo::default()
        };
        let status = HostStatus {
            info,
            trust: Trust::Unauthenticated,
            source: SourceKind::V1,
            ..HostStatus::default()
        };
        Self { charge, received_mono_ns: 0, assembler: Assembler::new(host, limits), status, port: None }
    }

    /// `limit`: bytes that the host may hold.
    fn accept(&mut self, datagram: &Datagram, arrival: &Arrival, limit: usize, out: IntervalOutput<'_>) {
        let Arrival { bytes, from, received } = *arrival;
        count_datagram(&mut self.status.loss, bytes);
        self.status.received_wall_ns = received.wall_ns;
        if self.port.replace(from.port()) != Some(from.port()) {
            self.status.address = SocketAddr::new(from.ip().to_canonical(), from.port()).to_string().into();
        }
        let Self { assembler, status, .. } = self;
        assembler.set_max_bytes(limit);
        assembler.accept(datagram, received, &mut |interval| give_out(status, interval, out));
        self.take_counts();
    }

    /// Gives out a set that has been waiting for its end for too long; false: there is none.
    fn flush(&mut self, now: Moment, out: IntervalOutput<'_>) -> bool {
        let Self { assembler, status, .. } = self;
        let mut has_given = false;
        assembler.flush(now, &mut |interval| {
            has_given = true;
            give_out(status, interval, out);
        });
        if has_given {
            self.take_counts();
        }
        has_given
    }

    fn rows_over_limit(&self) -> u64 {
        let counts = self.assembler.counts();
        counts.processes_over_limit.saturating_add(counts.threads_over_limit)
    }

    fn take_counts(&mut self) {
        let counts = self.assembler.counts();
        self.status.loss.duplicates = counts.duplicates;
        self.status.loss.reordered = counts.late;
        self.status.loss.snapshots_partial = counts.sets_without_end;
        self.status.loss.snapshots = counts.sets - counts.sets_without_end;
    }
}

fn give_out(status: &mut HostStatus, interval: &Interval, out: IntervalOutput<'_>) {
    status.last = interval.end;
    status.thread_count = interval.thread_count;
    status.process_count = interval.process_count;
    status.info.interval_ns = interval.duration_ns();
    out(status, interval);
}

/// A host id for an address: 128-bit FNV-1a over a prefix and the address' bytes, the same on every receiver.
fn host_of_address(address: IpAddr) -> HostId {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut hash = OFFSET;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        }
    };
    add(b"cpumon v1 ");
    match address {
        IpAddr::V4(address) => add(&address.octets()),
        IpAddr::V6(address) => add(&address.octets()),
    }
    HostId(hash.to_be_bytes())
}
