//! [`State`]: the receiver's own state as frontends see it. In: counters of the threads. Out: [`status::Status`].

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cpumon_query::status;

use crate::clock;
use crate::counts::Counts;
use crate::storing::StoreHandle;
use crate::tls::ListenerInfo;

/// See the module.
#[derive(Debug)]
pub struct State {
    started_wall_ns: i64,
    udp: Vec<SocketAddr>,
    http: SocketAddr,
    connections: OnceLock<ListenerInfo>,
    store: Option<Arc<StoreHandle>>,
    traces: OnceLock<Arc<Counts<status::Traces>>>,
    receiver: Mutex<status::Receiver>,
}

impl State {
    pub(crate) fn new(udp: Vec<SocketAddr>, http: SocketAddr, store: Option<Arc<StoreHandle>>) -> Self {
        let (connections, traces, receiver) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        Self { started_wall_ns: clock::wall_ns(), udp, http, connections, store, traces, receiver }
    }

    /// There is a TLS listener.
    pub(crate) fn put_listener(&self, info: ListenerInfo) {
        // Set once, at the start.
        let _ = self.connections.set(info);
    }

    /// Traces are stored.
    pub(crate) fn put_traces(&self, counts: Arc<Counts<status::Traces>>) {
        // Set once, at the start.
        let _ = self.traces.set(counts);
    }

    /// The address of the TLS listener, if there is one.
    #[must_use]
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.connections.get().map(|info| info.address)
    }

    /// Fingerprint of this receiver's key, with discovery.
    #[must_use]
    pub fn discovery_key(&self) -> Option<String> {
        self.connections.get().and_then(ListenerInfo::discovery_key)
    }

    /// Replaces the receiving thread's counters.
    pub(crate) fn put_receiver(&self, counters: status::Receiver) {
        *self.receiver.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    /// Everything but the hosts.
    #[must_use]
    pub fn status(&self) -> status::Status {
        let no_store = || status::Store { state: status::StoreState::None, ..status::Store::default() };
        status::Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_wall_ns: self.started_wall_ns,
            now_wall_ns: clock::wall_ns(),
            udp: self.udp.iter().map(ToString::to_string).collect(),
            http: self.http.to_string(),
            receiver: self.receiver.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            connections: self.connections.get().map(ListenerInfo::status),
            traces: self.traces.get().map(|counts| counts.status()),
            store: self.store.as_ref().map_or_else(no_store, |store| store.status()),
            // The hub has them.
            hosts: Vec::new(),
        }
    }
}
