//! [`V1Host`]: one v1 sender behind its address. v1 names no host: devices differ by their source address
//! only.

use std::net::{IpAddr, SocketAddr};

use cpumon_model::{HostId, HostInfo, HostStatus, Interval, Moment, SourceKind, Trust};

use super::accounts::count_datagram;
use super::arrival::Arrival;
use cpumon_wire::v1::{Assembler, AssemblerLimits, Datagram};

/// A source address that sends v1 datagrams.
#[derive(Debug)]
pub(super) struct V1Host {
    assembler: Assembler,
    status: HostStatus,
    /// The port the status' address shows.
    port: Option<u16>,
}

impl V1Host {
    pub(super) fn new(address: IpAddr, limits: AssemblerLimits) -> Self {
        let host = host_of(address);
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
        Self { assembler: Assembler::new(host, limits), status, port: None }
    }

    pub(super) fn status(&self) -> &HostStatus {
        &self.status
    }

    pub(super) fn count_rejected(&mut self, bytes: usize) {
        count_datagram(&mut self.status.loss, bytes);
        self.status.loss.rejected += 1;
    }

    /// Memory that it takes, bytes.
    pub(super) fn held(&self) -> usize {
        self.assembler.held()
    }

    /// Gives back what only makes the next set cheaper.
    pub(super) fn forget_infos(&mut self) {
        self.assembler.forget_infos();
    }

    /// `limit`: bytes that it may hold.
    pub(super) fn accept(
        &mut self,
        datagram: &Datagram,
        arrival: &Arrival,
        limit: usize,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) {
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
    pub(super) fn flush(&mut self, now: Moment, out: &mut dyn FnMut(&HostStatus, &Interval)) -> bool {
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

    fn take_counts(&mut self) {
        let counts = self.assembler.counts();
        self.status.loss.duplicates = counts.duplicates;
        self.status.loss.reordered = counts.late;
        self.status.loss.snapshots_partial = counts.sets_without_end;
        self.status.loss.snapshots = counts.sets - counts.sets_without_end;
    }
}

fn give_out(status: &mut HostStatus, interval: &Interval, out: &mut dyn FnMut(&HostStatus, &Interval)) {
    status.last = interval.end;
    status.thread_count = interval.thread_count;
    status.process_count = interval.process_count;
    status.info.interval_ns = interval.duration_ns();
    out(status, interval);
}

/// A host id for an address: 128-bit FNV-1a over a prefix and the address' bytes, the same on every receiver.
fn host_of(address: IpAddr) -> HostId {
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
