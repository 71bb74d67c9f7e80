//! [`Sink`]: takes intervals of the receiving and the measuring threads to the store's queue and to the hub,
//! without waiting.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use cpumon_model::{ClockEstimate, ClockLine, HostId, HostInfo, HostStatus, Interval, Trust};
use cpumon_query::HostRecord;
use cpumon_store::{ReceiptRequest, ReportedGap};

use super::claims::{Claims, claim, claimed_id};
use super::earlier::Earlier;
use super::store_handle::StoreHandle;
use super::time_line::TimeLines;
use crate::clock;
use crate::enrollment::Authority;
use crate::hub::{Hub, is_undescribed};
use crate::traces::Shelf;

/// Where intervals go. Clones share everything.
#[derive(Clone, Debug)]
pub struct Sink {
    hub: Arc<Hub>,
    store: Option<Arc<StoreHandle>>,
    local: Option<HostId>,
    authority: Option<Arc<Authority>>,
    /// Hosts that encrypt: plain datagrams do not speak for them. As many as the demux knows.
    encrypted: Arc<RwLock<HashSet<HostId>>>,
    lines: Arc<TimeLines>,
    claims: Arc<Claims>,
    earlier: Arc<Earlier>,
    /// Where traces go.
    shelf: Option<Shelf>,
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
        Self { hub, store, local, authority, encrypted, lines, claims, earlier: Arc::default(), shelf: None }
    }

    /// Takes names of tasks from the store until agents repeat them. `hosts`: those of the store.
    #[must_use]
    pub fn with_names_of_tasks(self, hosts: &[HostRecord]) -> Self {
        let earlier = self.store.as_ref().map(|store| Earlier::read(store.path(), hosts)).unwrap_or_default();
        Self { earlier: Arc::new(earlier), ..self }
    }

    /// Stores traces too.
    #[must_use]
    pub fn with_shelf(self, shelf: Option<Shelf>) -> Self {
        Self { shelf, ..self }
    }

    /// Where traces go.
    pub fn shelf(&self) -> Option<&Shelf> {
        self.shelf.as_ref()
    }

    /// The host for which data of an enrolled device are stored, which connects from there.
    pub fn host_of_enrolled(&self, host: HostId, from: SocketAddr) -> HostId {
        let is_claim = self.local == Some(host);
        if is_claim { claimed_id(host, Some(from.ip().to_canonical()), Trust::Authenticated) } else { host }
    }

    /// How far the last interval of an enrolled host was moved, ns; `None`: it is not known here.
    pub fn shift_ns(&self, host: HostId) -> Option<i64> {
        self.lines.shift_ns(host)
    }

    /// Encrypted datagrams speak for this host.
    pub fn note_encrypted(&self, host: HostId) {
        // Asked for each interval, but a host is new only once: the write lock is rarely taken.
        let is_known = self.encrypted.read().unwrap_or_else(PoisonError::into_inner).contains(&host);
        if !is_known {
            self.encrypted.write().unwrap_or_else(PoisonError::into_inner).insert(host);
        }
    }

    /// Whether a datagram may speak for this host: not for this machine, nor for one that was enrolled, and only if it was
    /// encrypted for one that encrypts.
    fn is_open(&self, host: HostId, trust: Trust) -> bool {
        // If the registry cannot be read, every host may be enrolled: no datagram speaks for any.
        let is_enrolled =
            || self.authority.as_ref().is_some_and(|one| one.registry().has(host.0).unwrap_or(true));
        // The registry comes last, because it may read files.
        self.is_plain_or_encrypts(host, trust) && !is_enrolled()
    }

    /// What [`Sink::is_open`] asks before the registry.
    fn is_plain_or_encrypts(&self, host: HostId, trust: Trust) -> bool {
        let encrypts = || self.encrypted.read().unwrap_or_else(PoisonError::into_inner).contains(&host);
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
        // An agent in a container has this machine's id, and must not write into what is measured here.
        if self.local == Some(interval.host) {
            claim(&mut status, &mut interval);
        }
        // After `claim`, because the store has the line under the id that results.
        interval.trust = Some(status.trust);
        let recall = self.recall(&interval);
        self.lines.place_compared(&mut interval, estimate, recall);
        let is_put = match (&self.store, receipt) {
            (Some(store), Some(receipt)) => store.put_with_receipt(&status, &interval, receipt),
            _ => false,
        };
        if is_live {
            self.show(&status, interval);
        }
        is_put
    }

    /// Takes a hole that an enrolled device reports, on its clock: it is moved as the intervals beside it. Its `wall_shift_ns` counts
    /// where none is known. False: it is not in the store's queue.
    pub fn take_gap(&self, host: HostId, mut gap: ReportedGap, receipt: ReceiptRequest) -> bool {
        gap.wall_shift_ns = self.lines.shift_ns(host).unwrap_or(gap.wall_shift_ns);
        gap.begin_wall_ns = gap.begin_wall_ns.saturating_sub(gap.wall_shift_ns);
        gap.end_wall_ns = gap.end_wall_ns.saturating_sub(gap.wall_shift_ns);
        let info = HostInfo { host, ..HostInfo::default() };
        self.store.as_ref().is_some_and(|store| store.put_gap(&info, Trust::Authenticated, gap, receipt))
    }

    /// Asks the store how the intervals of a boot were placed before this start.
    fn recall(&self, interval: &Interval) -> impl FnOnce() -> ClockLine + use<'_> {
        let (host, boot) = (interval.host, interval.boot);
        move || self.store.as_ref().map_or_else(ClockLine::default, |one| one.clock_line(host, boot))
    }

    /// Whether old records may be taken in beside new ones.
    pub fn has_ample_space(&self) -> bool {
        self.store.as_ref().is_none_or(|store| store.has_ample_space())
    }

    /// Whether the store takes what it is given.
    pub fn is_storing(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.is_storing())
    }

    /// Takes an interval that this process measured.
    pub fn take_local(&self, status: &HostStatus, interval: &Interval) {
        self.put(status, interval.clone());
    }

    /// Takes an interval that came by datagram. One that claims to be this machine, or one that was enrolled, becomes a host of
    /// its own, so that no datagram is charged to their accounts (and so that an agent in a container, which shares
    /// the machine's id, shows as what it is). There are at most 16 of those; others are counted.
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
        self.claims.refused()
    }

    /// Gives back what silent hosts that are not authenticated have in memory.
    pub fn forget_silent(&self) {
        self.hub.forget_silent(clock::wall_ns());
    }

    /// What the recent past of all hosts takes, bytes.
    pub fn bytes_in_memory(&self) -> usize {
        self.hub.bytes()
    }

    /// Updates what is known about hosts that came by datagram.
    pub fn note_all<'a>(&self, hosts: impl Iterator<Item = &'a HostStatus>) {
        // Asked once for all of them: there can be thousands, four times a second.
        let enrolled = match self.authority.as_ref().map(|one| one.registry().ids()) {
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
            status.loss.store_dropped = self.store.as_ref().map_or(0, |store| store.dropped(host));
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

    fn put(&self, status: &HostStatus, mut interval: Interval) {
        interval.trust = Some(status.trust);
        let Some(store) = &self.store else {
            self.show(status, interval);
            return;
        };
        store.put(status, &interval);
        let mut status = status.clone();
        // Read after the put, so that a drop of this interval shows at once.
        status.loss.store_dropped = store.dropped(interval.host);
        self.show(&status, interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::HubOptions;
    use cpumon_query::Live;
    use cpumon_query::status::Status;

    #[test]
    fn a_datagram_cannot_write_into_the_local_host() {
        let local = HostId([3; 16]);
        let hub =
            Arc::new(Hub::new(HubOptions::default(), Box::new(|_, _| Ok(None)), Box::new(Status::default)));
        let sink = Sink::new(Arc::clone(&hub), None, Some(local), None);
        let info = HostInfo { host: local, hostname: "me".into(), ..HostInfo::default() };
        let interval = Interval { host: local, ..Interval::default() };
        let mine = HostStatus { info, trust: Trust::Local, ..HostStatus::default() };
        sink.take_local(&mine, &interval);
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
}
