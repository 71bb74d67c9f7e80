//! [`App`]: the receiver, its options and the limits that all requests share.

use std::path::PathBuf;
use std::sync::Arc;

use cpumon_files::AuditLog;
use cpumon_query::traces::Timelines;
use cpumon_query::{Live, ReaderPool};
use tokio::sync::Semaphore;

use crate::ask::PastQueries;
use crate::exports::Exports;
use crate::fleet::FleetFeed;
use crate::login::Gate;
use crate::page::Page;
use crate::stream::Encoder;
use crate::tls::Tls;
use crate::traces::TraceQueries;

/// Requests that wait for a device at once.
const MAX_DEVICE_TURNS: usize = 4;

/// How a server is set up, beyond its address.
#[derive(Clone, Debug, Default)]
pub struct WebOptions {
    /// The store's file, for the past; `None`: only what is in memory.
    pub store: Option<PathBuf>,
    /// Timelines of traces; `None`: there are no traces.
    pub timelines: Option<Arc<Timelines>>,
    /// Serves the page from this directory, for those who work on it; `None`: the embedded one.
    pub web_dir: Option<PathBuf>,
    /// The file of tokens with which one must log in; `None`: anyone may read.
    pub login: Option<PathBuf>,
    /// What the address must have at first (`?key=…`); `None`: nothing.
    pub key: Option<String>,
    /// TLS; `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// Names, other than `localhost`, that the server goes by.
    pub names: Vec<String>,
    /// Where logins and exports are written down; `None`: nowhere.
    pub audit: Option<Arc<AuditLog>>,
}

/// What all requests of one server share.
pub(crate) struct App {
    pub(crate) live: Arc<dyn Live>,
    pub(crate) page: Page,
    /// Who may read; `None`: anyone.
    pub(crate) gate: Option<Arc<Gate>>,
    /// When the receiver started: ids of streams from before mean nothing now.
    pub(crate) epoch: i64,
    pub(crate) encoder: Encoder,
    pub(crate) fleet: FleetFeed,
    pub(crate) past: Arc<PastQueries>,
    pub(crate) exports: Exports,
    /// Turns of requests that wait for a device.
    pub(crate) device_turns: Arc<Semaphore>,
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
            fleet: FleetFeed::new(Arc::clone(&live), epoch, Arc::clone(&past)),
            past,
            live,
            gate: options
                .login
                .clone()
                .map(|tokens| Arc::new(Gate::new(tokens, options.tls.is_some(), options.audit.clone()))),
            page: Page { dir: options.web_dir.clone() },
            encoder: Encoder::default(),
            traces: options.timelines.clone().map(TraceQueries::new),
            exports: Exports::default(),
            device_turns: Arc::new(Semaphore::new(MAX_DEVICE_TURNS)),
            options,
        }
    }
}

/// [`App`] as routes get it.
pub(crate) type Shared = Arc<App>;
