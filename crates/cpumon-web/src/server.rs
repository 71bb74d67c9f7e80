//! The server: one thread, one async runtime, bounded connections and times. In: a [`Live`]. Out: answers, until told to stop.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::login::Peer;
use crate::{Live, WebOptions, router};

/// Connections served at once; further ones wait in the kernel's accept queue.
const MAX_CONNECTIONS: usize = 256;
/// A request's header must arrive within this time; an idle connection is closed after it.
const HEADER_TIME: Duration = Duration::from_secs(15);
/// No connection is kept longer than this: a reader that stopped reading frees its place.
const CONNECTION_TIME: Duration = Duration::from_mins(5);
/// Threads that read the store: questions, exports, and single moments beside them.
const MAX_BLOCKING: usize = 12;
/// Pause after a failed accept (out of file descriptors, say), so that the loop cannot spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the server could not start or run.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The address is not a loopback address, and there is no login or no TLS: anyone on the network could read everything.
    #[error("refusing to serve HTTP on {0}: off loopback a login and TLS are needed")]
    Unguarded(SocketAddr),
    /// The port is in use, or the address is not this machine's.
    #[error("cannot listen for HTTP on {address}: {error}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        error: std::io::Error,
    },
    /// The runtime could not start.
    #[error("cannot start the HTTP server: {0}")]
    Runtime(#[source] std::io::Error),
}

/// Stops a running server from any thread.
#[derive(Clone, Debug)]
pub struct Shutdown(Arc<watch::Sender<bool>>);

impl Shutdown {
    /// Ends [`HttpServer::run`]; open connections are dropped.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// A bound HTTP server. Bind early, so that a port in use is said before anything else starts.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    options: WebOptions,
    shutdown: Shutdown,
}

impl HttpServer {
    /// Listens on `address`; off loopback with login and TLS only. Port 0 picks a free one.
    ///
    /// # Errors
    /// [`WebError::Unguarded`], or [`WebError::Bind`] when the port is taken.
    pub fn bind(address: SocketAddr, options: WebOptions) -> Result<Self, WebError> {
        if !address.ip().is_loopback() && (options.login.is_none() || options.tls.is_none()) {
            return Err(WebError::Unguarded(address));
        }
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let bound = listener.local_addr()?;
            Ok((listener, bound))
        };
        let (listener, address) = bind().map_err(|error| WebError::Bind { address, error })?;
        Ok(Self { listener, address, options, shutdown: Shutdown(Arc::new(watch::Sender::new(false))) })
    }

    /// Where it listens, with the port that was picked.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What stops it.
    #[must_use]
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Serves on this thread until [`Shutdown::stop`].
    ///
    /// # Errors
    /// [`WebError::Runtime`] if the runtime cannot start. Errors of single connections end only those.
    pub fn run(self, live: Arc<dyn Live>) -> Result<(), WebError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(MAX_BLOCKING)
            .build()
            .map_err(WebError::Runtime)?;
        let Self { listener, address, options, shutdown } = self;
        let tls = options.tls.as_ref().map(|tls| TlsAcceptor::from(Arc::clone(&tls.config)));
        let mut stopped = shutdown.0.subscribe();
        let result = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::select! {
                () = accept_all(listener, tls, router(live, address, options)) => {}
                _ = stopped.wait_for(|stop| *stop) => {}
            }
            Ok(())
        });
        runtime.shutdown_timeout(Duration::from_millis(200));
        result.map_err(WebError::Runtime)
    }
}

async fn accept_all(listener: tokio::net::TcpListener, tls: Option<TlsAcceptor>, router: axum::Router) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let router = router.clone().layer(axum::Extension(Peer(peer)));
                let tls = tls.clone();
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(CONNECTION_TIME, connection(stream, tls, router)).await;
                    drop(place);
                });
            }
            Err(error) => {
                log::warn!("HTTP: cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection, after its handshake if it has one.
async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, router: axum::Router) {
    let Some(tls) = tls else { return serve(stream, router).await };
    match tokio::time::timeout(HEADER_TIME, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, router).await,
        Ok(Err(error)) => log::debug!("HTTP: no TLS with a client: {error}"),
        Err(_) => log::debug!("HTTP: a client began TLS and fell silent"),
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, router: axum::Router) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    if let Err(error) = served {
        log::debug!("HTTP: a connection ended: {error}");
    }
}
