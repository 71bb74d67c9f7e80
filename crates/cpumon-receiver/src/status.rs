//! [`ReceiverState`]: the receiver's own state as frontends see it. In: counters of the threads. Out: [`status::Status`].

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use cpumon_query::status;

use crate::connection::DeviceServer;
use crate::counts::SharedCounts;
use crate::storing::StoreHandle;
use crate::wall_ns;

pub struct ReceiverState {
    started_wall_ns: i64,
    udp: Vec<SocketAddr>,
    http: SocketAddr,
    /// Set once, at the start; not set where no device is accepted over TLS.
    pub(crate) connections: OnceLock<Arc<DeviceServer>>,
    store: Option<Arc<StoreHandle>>,
    traces: Option<Arc<SharedCounts<status::Traces>>>,
    /// Counts of the receiving thread.
    pub(crate) receiver: SharedCounts<status::Receiver>,
}

impl ReceiverState {
    pub(crate) fn new(
        udp: Vec<SocketAddr>,
        http: SocketAddr,
        store: Option<Arc<StoreHandle>>,
        traces: Option<Arc<SharedCounts<status::Traces>>>,
    ) -> Self {
        let (connections, receiver) = (OnceLock::new(), SharedCounts::default());
        Self { started_wall_ns: wall_ns(), udp, http, connections, store, traces, receiver }
    }

    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.connections.get().map(|server| server.address)
    }

    /// Fingerprint of this receiver's key; `None` without discovery.
    pub fn discovery_key(&self) -> Option<String> {
        Some(self.connections.get()?.discovery.as_ref()?.status().key)
    }

    /// The receiver's status without its hosts.
    pub fn status(&self) -> status::Status {
        let no_store = || status::Store { state: status::StoreState::None, ..status::Store::default() };
        status::Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_wall_ns: self.started_wall_ns,
            now_wall_ns: wall_ns(),
            udp: self.udp.iter().map(ToString::to_string).collect(),
            http: self.http.to_string(),
            receiver: self.receiver.status(),
            connections: self.connections.get().map(|server| server.status()),
            traces: self.traces.as_ref().map(|counts| counts.status()),
            store: self.store.as_ref().map_or_else(no_store, |store| store.status()),
            // The hub has them.
            hosts: Vec::new(),
        }
    }
}
