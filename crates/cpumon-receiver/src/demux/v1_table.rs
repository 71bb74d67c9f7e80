//! [`V1Table`]: v1 hosts by their address, bounded in number. What they hold counts beside that of other plain hosts.

use std::collections::HashMap;
use std::net::IpAddr;

use cpumon_model::{HostStatus, Interval, Moment};
use cpumon_wire::v1::Datagram;

use super::accounts::{Accounts, Charge};
use super::arrival::Arrival;
use super::cpu_time::CpuTime;
use super::host_table::{FLUSH_BYTES, KEEPS_PLACE_NS, MAKE_SPACE_EVERY_NS, RELEASE_AFTER_NS};
use super::options::DemuxOptions;
use super::rejects::Rejected;
use super::v1_host::V1Host;

#[derive(Debug)]
struct Entry {
    host: V1Host,
    charge: Charge,
    received_mono_ns: u64,
}

/// The v1 hosts.
#[derive(Debug, Default)]
pub(super) struct V1Table {
    hosts: HashMap<IpAddr, Entry>,
    next_search_ns: u64,
}

impl V1Table {
    pub(super) fn hosts(&self) -> impl Iterator<Item = &V1Host> {
        self.hosts.values().map(|entry| &entry.host)
    }

    /// A datagram that cannot be read came from an address.
    pub(super) fn count_rejected(&mut self, arrival: &Arrival) {
        if let Some(entry) = self.hosts.get_mut(&arrival.from.ip().to_canonical()) {
            entry.host.count_rejected(arrival.bytes);
        }
    }

    /// Takes a datagram for the host at its address.
    pub(super) fn accept(
        &mut self,
        datagram: &Datagram,
        arrival: &Arrival,
        options: &DemuxOptions,
        accounts: &mut Accounts,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) -> Result<(), Rejected> {
        let address = arrival.from.ip().to_canonical();
        if !self.hosts.contains_key(&address) {
            self.make_space(arrival.received, options.max_hosts, accounts)?;
            let host = V1Host::new(address, options.v1);
            let charge = accounts.open(address.into());
            self.hosts.insert(address, Entry { host, charge, received_mono_ns: 0 });
        }
        let Some(entry) = self.hosts.get_mut(&address) else { return Ok(()) };
        entry.received_mono_ns = arrival.received.mono_ns;
        accounts.receive(&mut entry.charge, address.into(), arrival.bytes);
        let limit = accounts.limit(&entry.charge, &options.plain);
        entry.host.accept(datagram, arrival, limit, out);
        accounts.set(&mut entry.charge, entry.host.held());
        Ok(())
    }

    /// Makes sure that there is a place for one more host: the one that was silent longest gives way.
    fn make_space(&mut self, now: Moment, max_hosts: usize, accounts: &mut Accounts) -> Result<(), Rejected> {
        if self.hosts.len() < max_hosts {
            return Ok(());
        }
        let error = Rejected::TooManyHosts { max_hosts };
        if now.mono_ns < self.next_search_ns {
            return Err(error);
        }
        self.next_search_ns = now.mono_ns.saturating_add(MAKE_SPACE_EVERY_NS);
        let silent = self.hosts.iter().min_by_key(|(_, entry)| entry.received_mono_ns);
        let may_go = |entry: &Entry| now.mono_ns.saturating_sub(entry.received_mono_ns) >= KEEPS_PLACE_NS;
        let Some(address) = silent.filter(|(_, entry)| may_go(entry)).map(|(address, _)| *address) else {
            return Err(error);
        };
        if let Some(entry) = self.hosts.remove(&address) {
            accounts.close(entry.charge);
        }
        Ok(())
    }

    /// Gives out sets that have been waiting for their end for too long. `time`: where to count how long that takes for each source.
    pub(super) fn flush(
        &mut self,
        now: Moment,
        accounts: &mut Accounts,
        mut time: Option<&mut CpuTime>,
        out: &mut dyn FnMut(&HostStatus, &Interval),
    ) {
        let mut given_out = 0;
        if let Some(time) = &mut time {
            time.go_on();
        }
        for entry in self.hosts.values_mut() {
            let held = entry.host.held();
            let mut has_changed = entry.host.flush(now, out);
            if has_changed {
                if let Some(time) = &mut time {
                    time.end(entry.charge.source, now.mono_ns);
                    time.go_on();
                }
                given_out += held;
            }
            let silent_ns = now.mono_ns.saturating_sub(entry.received_mono_ns);
            if silent_ns >= RELEASE_AFTER_NS && entry.host.held() > 0 {
                entry.host.forget_infos();
                has_changed = true;
            }
            if has_changed {
                accounts.set(&mut entry.charge, entry.host.held());
            }
            if given_out > FLUSH_BYTES {
                break;
            }
        }
    }
}
