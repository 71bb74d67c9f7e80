//! [`App`]: the receiver, its options and the limits that all requests share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::http::StatusCode;
use cpumon_files::{AuditEvent, AuditLog};
use cpumon_query::traces::Timelines;
use cpumon_query::{Live, ReaderPool};
use tokio::sync::Semaphore;

use crate::ask::{PastQueries, TraceQueries, in_turn};
use crate::fleet::FleetFeed;
use crate::login::{Gate, Peer};
use crate::page::WebPage;
use crate::problem::Problem;
use crate::readers::Exports;
use crate::stream::StreamEncoder;
use crate::tls::Tls;

/// Requests that wait for a device at once.
const MAX_DEVICE_TURNS: usize = 4;
/// A request waits no longer than this for such a turn.
const MAX_DEVICE_WAIT: Duration = Duration::from_secs(10);

/// Scrapes at once: each takes some MB.
const MAX_SCRAPES: usize = 2;

/// How a server is set up, beyond its address.
#[derive(Clone, Debug, Default)]
pub struct WebOptions {
    /// The store's file, for the past; `None`: only the intervals in memory.
    pub store: Option<PathBuf>,
    pub timelines: Option<Arc<Timelines>>,
    /// Serves the page from this directory, for development; `None`: the embedded one.
    pub web_dir: Option<PathBuf>,
    /// The file of tokens with which one must log in; `None`: anyone may read.
    pub login: Option<PathBuf>,
    /// The key that the first address must have (`?key=…`); `None`: no key.
    pub key: Option<String>,
    /// TLS; `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// Names, other than `localhost`, that the server goes by.
    pub names: Vec<String>,
    /// Where logins and exports are written down; `None`: nowhere.
    pub audit: Option<Arc<AuditLog>>,
}

pub(crate) struct App {
    pub(crate) live: Arc<dyn Live>,
    pub(crate) page: WebPage,
    /// Checks who may read; `None`: anyone.
    pub(crate) gate: Option<Arc<Gate>>,
    /// When the receiver started: ids of streams from before mean nothing now.
    pub(crate) epoch: i64,
    pub(crate) encoder: StreamEncoder,
    pub(crate) fleet: Arc<FleetFeed>,
    pub(crate) past: Arc<PastQueries>,
    pub(crate) exports: Exports,
    /// Turns of requests that wait for a device.
    pub(crate) device_turns: Arc<Semaphore>,
    /// Turns of scrapes by Prometheus.
    pub(crate) scrapes: Arc<Semaphore>,
    pub(crate) traces: Option<TraceQueries>,
    pub(crate) options: WebOptions,
}

impl App {
    pub(crate) fn new(live: Arc<dyn Live>, options: WebOptions) -> Self {
        let epoch = live.status().started_wall_ns;
        let pool = ReaderPool::new(options.store.clone());
        let past = Arc::new(PastQueries::new(Arc::clone(&live), pool));
        Self {
            epoch,
            fleet: Arc::new(FleetFeed::new(Arc::clone(&live), epoch, Arc::clone(&past))),
            past,
            live,
            gate: options
                .login
                .clone()
                .map(|tokens| Arc::new(Gate::new(tokens, options.tls.is_some(), options.audit.clone()))),
            page: WebPage { dir: options.web_dir.clone() },
            encoder: StreamEncoder::default(),
            traces: options.timelines.clone().map(TraceQueries::new),
            exports: Exports::default(),
            device_turns: Arc::new(Semaphore::new(MAX_DEVICE_TURNS)),
            scrapes: Arc::new(Semaphore::new(MAX_SCRAPES)),
            options,
        }
    }

    /// Lets `work` wait for a device on a thread of its own, one of few: the others are for readers.
    pub(crate) async fn wait_for_device<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Live) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let busy = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Other requests wait for devices.")
            .how("Ask again in a moment.");
        let live = Arc::clone(&self.live);
        in_turn(&self.device_turns, MAX_DEVICE_WAIT, busy, move |_| work(&*live)).await
    }

    /// Adds a client's action to the audit log.
    pub(crate) fn note(&self, peer: Option<Extension<Peer>>, event: AuditEvent, subject: &str, detail: &str) {
        if let Some(audit) = &self.options.audit {
            let by = peer.map_or_else(String::new, |Extension(peer)| peer.0.ip().to_canonical().to_string());
            audit.note(event, &by, subject, detail);
        }
    }
}

pub(crate) type SharedApp = Arc<App>;
