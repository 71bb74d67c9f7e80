//! [`Sink`] takes the intervals of the receiving and the measuring threads to the store's queue and to the hub without waiting, each at its
//! place on the receiver's time line.
//!
//! [`Claims`] has the senders that use the id of another host: this machine's, or an enrolled one's. Agents in containers do so in good
//! faith, because they share the machine's id; others may do so on purpose. Each becomes a host of its own.

mod store;
mod time_line;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cpumon_model::{ClockEstimate, ClockLine, HostId, HostInfo, HostStatus, Interval, Trust};
use cpumon_query::HostRecord;
use cpumon_store::{Gap, ReceiptRequest, StoreState};
use ring::digest;

use self::store::Earlier;
use self::time_line::TimeLines;
use crate::enrolment::Authority;
use crate::hub::{Hub, is_undescribed};
use crate::lock;
use crate::traces::TraceStore;

pub use self::store::{StoreHandle, hosts_of_store, past_of_store};

/// Takes intervals to the store and the hub. Clones share everything.
#[derive(Clone)]
pub struct Sink {
    pub(crate) hub: Arc<Hub>,
    store: Option<Arc<StoreHandle>>,
    local: Option<HostId>,
    authority: Option<Arc<Authority>>,
    /// Hosts that encrypt: plain datagrams do not speak for them. As many as the demux knows.
    encrypted: Arc<Mutex<HashSet<HostId>>>,
    pub(crate) lines: Arc<TimeLines>,
    claims: Arc<Claims>,
    earlier: Arc<Earlier>,
    pub(crate) traces: Option<TraceStore>,
}

impl Sink {
    /// `local`: the id of this machine, if this process measures it; `authority`: knows whose id belongs to an enrolled host.
    pub fn new(
        hub: Arc<Hub>,
        store: Option<Arc<StoreHandle>>,
        local: Option<HostId>,
        authority: Option<Arc<Authority>>,
    ) -> Self {
        let (encrypted, lines, claims) = (Arc::default(), Arc::default(), Arc::default());
        Self { hub, store, local, authority, encrypted, lines, claims, earlier: Arc::default(), traces: None }
    }

    /// Takes names of tasks from the store until agents repeat them. `hosts`: those of the store.
    pub fn with_names_of_tasks(self, hosts: &[HostRecord]) -> Self {
        let earlier = self.store.as_ref().map(|store| Earlier::read(&store.path, hosts)).unwrap_or_default();
        Self { earlier: Arc::new(earlier), ..self }
    }

    /// The host for which data of an enrolled device are stored, which connects from there.
    pub fn host_of_enrolled(&self, host: HostId, from: SocketAddr) -> HostId {
        let is_claim = self.local == Some(host);
        if is_claim { claimed_id(host, Some(from.ip().to_canonical()), Trust::Authenticated) } else { host }
    }

    /// Notes that encrypted datagrams speak for this host.
    pub fn note_encrypted(&self, host: HostId) {
        lock(&self.encrypted).insert(host);
    }

    /// Whether a datagram may speak for this host: not for this machine, nor for one that was enrolled, and only if it was
    /// encrypted for one that encrypts.
    fn is_open(&self, host: HostId, trust: Trust) -> bool {
        // If the registry cannot be read, every host may be enrolled: no datagram speaks for any.
        let has = |authority: &Arc<Authority>| authority.registry.ids().map(|ids| ids.contains(&host.0));
        let is_enrolled = || self.authority.as_ref().is_some_and(|one| has(one).unwrap_or(true));
        // The registry comes last, because it may read files.
        self.is_plain_or_encrypts(host, trust) && !is_enrolled()
    }

    /// The part of [`Sink::is_open`] that does not ask the registry.
    fn is_plain_or_encrypts(&self, host: HostId, trust: Trust) -> bool {
        let encrypts = || lock(&self.encrypted).contains(&host);
        self.local != Some(host) && (trust == Trust::Encrypted || !encrypts())
    }

    /// Takes an interval of an enrolled device. `estimate`: how far its clock is off; `receipt` is settled when it is stored;
    /// without one it is only shown. False: it is not in the store's queue.
    pub fn take_enrolled(
        &self,
        status: &HostStatus,
        interval: &Interval,
        estimate: Option<ClockEstimate>,
        is_live: bool,
        receipt: Option<ReceiptRequest>,
    ) -> bool {
        let (mut status, mut interval) = (status.clone(), interval.clone());
        // An agent in a container has this machine's id, and must not write into the host that is measured here.
        if self.local == Some(interval.host) {
            claim(&mut status, &mut interval);
        }
        // After `claim`, because the store has the line under the id that results.
        interval.trust = Some(status.trust);
        let recall = self.recall(&interval);
        self.lines.place_compared(&mut interval, estimate, recall);
        let is_put = match (&self.store, receipt) {
            (Some(store), Some(receipt)) => store.handle.try_put_with_receipt(
                &status.info,
                status.trust,
                &status.loss,
                &interval,
                receipt,
            ),
            _ => false,
        };
        if is_live {
            self.show(&status, interval);
        } else {
            self.hub.put_past(&interval);
        }
        is_put
    }

    /// Takes a hole that an enrolled device reports, on its clock: it is moved as the intervals beside it. Its `wall_shift_ns` counts
    /// where none is known. False: it is not in the store's queue.
    pub fn take_gap(&self, host: HostId, mut gap: Gap, receipt: ReceiptRequest) -> bool {
        gap.wall_shift_ns = self.lines.shift_ns(host).unwrap_or(gap.wall_shift_ns);
        gap.begin_wall_ns = gap.begin_wall_ns.saturating_sub(gap.wall_shift_ns);
        gap.end_wall_ns = gap.end_wall_ns.saturating_sub(gap.wall_shift_ns);
        let info = HostInfo { host, ..HostInfo::default() };
        self.store
            .as_ref()
            .is_some_and(|store| store.handle.try_put_gap(&info, Trust::Authenticated, gap, receipt))
    }

    /// Asks the store how the intervals of a boot were placed before this start.
    fn recall(&self, interval: &Interval) -> impl FnOnce() -> ClockLine + use<'_> {
        let (host, boot) = (interval.host, interval.boot);
        move || self.store.as_ref().map_or_else(ClockLine::default, |one| one.clock_line(host, boot))
    }

    /// Whether old records may be taken in beside new ones.
    pub fn has_ample_space(&self) -> bool {
        self.store.as_ref().is_none_or(|store| store.handle.has_ample_space())
    }

    pub fn is_storing(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.handle.status().state == StoreState::Ok)
    }

    /// Takes an interval that came by datagram. A sender that claims the id of this machine, of an enrolled host or, unencrypted,
    /// of a host that encrypts becomes a host of its own: no datagram is charged to their accounts, and an agent in a container,
    /// with the id of its machine, shows as a host beside it. There are at most 16 such hosts at a time; intervals of others are
    /// counted.
    pub fn take_received(&self, status: &HostStatus, interval: &Interval) {
        let mut interval = interval.clone();
        if status.trust == Trust::Encrypted {
            self.note_encrypted(interval.host);
        }
        let mut status = status.clone();
        // Before the id becomes the one that is claimed.
        let is_undescribed = is_undescribed(&status.info);
        if !self.is_open(interval.host, status.trust) && !self.claims.take(&mut status, &mut interval) {
            return;
        }
        if is_undescribed {
            self.hub.describe(&mut status);
        }
        self.earlier.name_tasks(status.trust, &mut interval);
        let recall = self.recall(&interval);
        self.lines.place_received(&status, &mut interval, recall);
        self.put(&status, interval);
    }

    /// Intervals by datagram that were refused, because more hosts than allowed claimed the id of another one.
    pub fn refused_claims(&self) -> u64 {
        self.claims.refused.load(Ordering::Relaxed)
    }

    /// Updates the status of hosts that came by datagram.
    pub fn note_all<'a>(&self, hosts: impl Iterator<Item = &'a HostStatus>) {
        // Asked once for all hosts: there can be thousands, four times a second.
        let enrolled = match self.authority.as_ref().map(|one| one.registry.ids()) {
            None => Arc::default(),
            Some(Ok(ids)) => ids,
            // As in `is_open`.
            Some(Err(_)) => return,
        };
        for status in hosts {
            let host = status.info.host;
            if enrolled.contains(&host.0) || !self.is_plain_or_encrypts(host, status.trust) {
                continue;
            }
            let mut status = status.clone();
            status.loss.store_dropped = self.store.as_ref().map_or(0, |store| store.handle.dropped(host));
            self.hub.put_status(&status);
        }
    }

    /// Gives an interval to the frontends; the list of threads that rest is for the store alone.
    fn show(&self, status: &HostStatus, interval: Interval) {
        let are_listed = interval.knows_all_processes();
        let idle = interval.idle_processes.filter(|_| are_listed);
        let interval = Interval { resting: None, idle_processes: None, corrects_lists: false, ..interval };
        self.hub.put_listed(status, Arc::new(interval), idle.as_deref());
    }

    /// Takes an interval to the store and the frontends as it is.
    pub fn put(&self, status: &HostStatus, mut interval: Interval) {
        interval.trust = Some(status.trust);
        let Some(store) = &self.store else {
            self.show(status, interval);
            return;
        };
        // Local measurements come over no network, so they have no losses to store.
        let loss = (status.trust != Trust::Local).then_some(&status.loss);
        store.handle.try_put(&status.info, status.trust, loss, &interval);
        let mut status = status.clone();
        // Read after the put, so that a drop of this interval shows at once.
        status.loss.store_dropped = store.handle.dropped(interval.host);
        self.show(&status, interval);
    }
}

/// Most hosts at a time that claim an id by datagram. Datagrams can come from any number of forged addresses.
const MAX_CLAIMS: usize = 16;
/// A claimed host that was silent for so long gives its place to a new one.
const SILENT_NS: u64 = 60_000_000_000;

#[derive(Debug, Default)]
struct Claims {
    /// When each sent last, on the receiver's monotonic clock, ns.
    places: Mutex<HashMap<HostId, u64>>,
    refused: AtomicU64,
}

impl Claims {
    /// Turns a host that came by datagram into the one that its address claims to be. False, and counted: there are enough of those.
    fn take(&self, status: &mut HostStatus, interval: &mut Interval) -> bool {
        claim(status, interval);
        let is_taken = self.place(interval.host, cpumon_agent::now().mono_ns);
        self.refused.fetch_add(u64::from(!is_taken), Ordering::Relaxed);
        is_taken
    }

    fn place(&self, host: HostId, now_ns: u64) -> bool {
        let mut places = lock(&self.places);
        let is_known = places.contains_key(&host);
        if !is_known && places.len() >= MAX_CLAIMS {
            places.retain(|_, last_ns| now_ns.saturating_sub(*last_ns) < SILENT_NS);
        }
        let is_taken = is_known || places.len() < MAX_CLAIMS;
        if is_taken {
            places.insert(host, now_ns);
        }
        is_taken
    }
}

/// Turns a host into the one that its address claims to be.
fn claim(status: &mut HostStatus, interval: &mut Interval) {
    let address = status.address.parse::<SocketAddr>();
    let ip = address.ok().map(|address| address.ip().to_canonical());
    let id = claimed_id(interval.host, ip, status.trust);
    interval.host = id;
    status.info.host = id;
    let shown = ip.map_or_else(|| "unknown".to_owned(), |ip| ip.to_string());
    status.info.hostname = format!("{}@{shown}", status.info.hostname).into();
}

/// An id that is the same for the same claim from the same address with the same trust. It is a digest, so that no choice of address
/// leads to the id of another host.
fn claimed_id(id: HostId, ip: Option<IpAddr>, trust: Trust) -> HostId {
    let address = match ip {
        Some(IpAddr::V4(ip)) => ip.to_ipv6_mapped().octets(),
        Some(IpAddr::V6(ip)) => ip.octets(),
        None => [0; 16],
    };
    let mut claim = b"cpumon: claimed host id\0".to_vec();
    claim.extend_from_slice(&id.0);
    claim.extend_from_slice(&address);
    claim.extend_from_slice(trust.name().as_bytes());
    let digest = digest::digest(&digest::SHA256, &claim);
    HostId(std::array::from_fn(|at| digest.as_ref()[at]))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use cpumon_query::Live;
    use cpumon_query::status::Status;

    use super::*;
    use crate::hub::HubOptions;

    #[test]
    fn a_datagram_cannot_write_into_the_local_host() {
        let local = HostId([3; 16]);
        let hub =
            Arc::new(Hub::new(HubOptions::default(), Box::new(|_, _| Ok(None)), Box::new(Status::default)));
        let sink = Sink::new(Arc::clone(&hub), None, Some(local), None);
        let info = HostInfo { host: local, hostname: "me".into(), ..HostInfo::default() };
        let interval = Interval { host: local, ..Interval::default() };
        let mine = HostStatus { info, trust: Trust::Local, ..HostStatus::default() };
        sink.put(&mine, interval.clone());
        for address in ["10.0.0.2:4000", "10.0.0.2:4001", "[::ffff:10.0.0.2]:9", "10.0.0.3:4000"] {
            let claimed =
                HostStatus { address: address.into(), trust: Trust::Unauthenticated, ..mine.clone() };
            sink.take_received(&claimed, &Interval { sequence: 666, ..interval.clone() });
        }
        let names: Vec<String> = hub.hosts().iter().map(|host| host.info.hostname.to_string()).collect();
        assert_eq!(names, ["me", "me@10.0.0.2", "me@10.0.0.3"]);
        assert_eq!(hub.newest(local).unwrap().interval.sequence, 0);
        for host in &hub.hosts()[1..] {
            assert_eq!(host.trust, Trust::Unauthenticated);
            assert_eq!(hub.newest(host.info.host).unwrap().interval.host, host.info.host);
        }
    }

    #[test]
    fn no_address_makes_the_claimed_id_that_of_a_host() {
        // With the exclusive or of id and rotated address that was used once, this source got the id that it claimed.
        let mark = *b"claimed-by-udp-\0";
        let address = Ipv6Addr::from(mark.map(|byte| byte.rotate_right(4)));
        let id = HostId([7; 16]);
        assert_ne!(claimed_id(id, Some(address.into()), Trust::Unauthenticated), id);
    }

    #[test]
    fn trust_is_part_of_a_claimed_host() {
        let id = HostId([7; 16]);
        let ids = [Trust::Unauthenticated, Trust::Encrypted, Trust::Authenticated]
            .map(|trust| claimed_id(id, Some(IpAddr::from([10, 0, 0, 2])), trust));
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    }

    #[test]
    fn six_thousand_addresses_are_sixteen_hosts_until_some_are_silent() {
        let claims = Claims::default();
        let host = |number: u16| {
            claimed_id(HostId([7; 16]), Some(Ipv6Addr::from([number; 8]).into()), Trust::Encrypted)
        };
        let taken = (0..6_000).filter(|number| claims.place(host(*number), 1)).count();
        assert_eq!(taken, MAX_CLAIMS);
        assert!(claims.place(host(3), SILENT_NS), "who has a place keeps it");
        assert!(claims.place(host(6_000), SILENT_NS + 1), "the silent ones give way");
        assert!(claims.place(host(3), SILENT_NS + 1), "and the others do not");
    }
}
