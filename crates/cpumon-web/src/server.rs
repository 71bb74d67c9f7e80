//! The server: one thread, one async runtime, bounded connections and times. It answers until [`Shutdown::stop`].

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cpumon_model::limits::{Place, Places};
use cpumon_query::Live;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::login::Peer;
use crate::readers::{CONNECTION_TIME, HEADER_TIME, Lease};
use crate::{WebOptions, router};

/// Connections served at once; further ones wait in the kernel's accept queue.
const MAX_CONNECTIONS: usize = 256;
/// Connections of one address that is not this machine's, so that no stranger takes all places.
const MAX_OF_ADDRESS: usize = 64;
/// Threads that block: questions about the past (4) and about traces (4), exports (2), requests that wait for devices (4), and short work
/// beside them.
const MAX_BLOCKING: usize = 16;
/// Pause after a failed accept (out of file descriptors, say), so that the loop cannot spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The address is not a loopback address, and there is no login or no TLS: anyone on the network could read everything.
    #[error("refusing to serve HTTP on {0}: off loopback a login and TLS are needed")]
    Unguarded(SocketAddr),
    /// The port is in use, or the address is not this machine's.
    #[error("cannot listen for HTTP on {address}: {error}")]
    Bind { address: SocketAddr, error: std::io::Error },
    #[error("cannot start the HTTP server: {0}")]
    Runtime(std::io::Error),
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

/// A bound HTTP server. Bind early, so that a port in use is reported before anything else starts.
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
            // `tokio::net::TcpListener::from_std` leaves this to the caller; a blocking socket would stop the
            // runtime.
            listener.set_nonblocking(true)?;
            let bound = listener.local_addr()?;
            Ok((listener, bound))
        };
        let (listener, address) = bind().map_err(|error| WebError::Bind { address, error })?;
        Ok(Self { listener, address, options, shutdown: Shutdown(Arc::new(watch::Sender::new(false))) })
    }

    /// Where it listens, with the port that was picked.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Stops this server from any thread, also before it runs.
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
                // `wait_for` checks the current value first, so a stop that came earlier counts too.
                _ = stopped.wait_for(|stop| *stop) => {}
            }
            Ok(())
        });
        // A thread may read the store for seconds; the end of the receiver does not wait for it.
        runtime.shutdown_timeout(Duration::from_millis(200));
        result.map_err(WebError::Runtime)
    }
}

/// Counts a connection; `None` if its address has too many.
fn enter(guests: &Places, ip: IpAddr) -> Option<Place> {
    let most = if ip.to_canonical().is_loopback() { usize::MAX } else { MAX_OF_ADDRESS };
    guests.enter(ip, most, usize::MAX)
}

async fn accept_all(listener: tokio::net::TcpListener, tls: Option<TlsAcceptor>, router: axum::Router) {
    let (places, guests) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), Places::default());
    loop {
        // Taken before `accept`, so that further connections wait in the kernel. The semaphore is never
        // closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Some(guest) = enter(&guests, peer.ip()) else {
                    log::debug!("HTTP: {} has too many connections", peer.ip());
                    continue;
                };
                let router = router.clone().layer(axum::Extension(Peer(peer)));
                let tls = tls.clone();
                tokio::spawn(async move {
                    connection(stream, tls, router).await;
                    // Both move into the task, so they count until the connection ends.
                    drop((place, guest));
                });
            }
            Err(error) => {
                log::warn!("HTTP: cannot accept a connection: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection, after its handshake if it has one.
async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, router: axum::Router) {
    let Some(tls) = tls else { return serve(stream, router).await };
    // A client that does not finish its handshake must not occupy a place.
    match tokio::time::timeout(HEADER_TIME, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, router).await,
        Ok(Err(error)) => log::debug!("HTTP: no TLS with a client: {error}"),
        Err(_) => log::debug!("HTTP: a client began TLS and fell silent"),
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, router: axum::Router) {
    let lease = Lease::new();
    let router = router.layer(axum::Extension(lease.clone()));
    let mut served = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
    );
    let ended = tokio::select! {
        ended = served.as_mut() => Some(ended),
        () = sleep(CONNECTION_TIME) => {
            // No further request on this connection; an answer in progress may go on until the lease is over.
            served.as_mut().graceful_shutdown();
            tokio::select! {
                ended = served => Some(ended),
                () = lease.is_over() => None,
            }
        }
    };
    if let Some(Err(error)) = ended {
        log::debug!("HTTP: a connection ended: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use axum::body::{Body, Bytes};
    use axum::routing::get;
    use axum::{Extension, Router};
    use futures_util::stream::unfold;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::readers::LAST_ANSWER;
    use crate::stream::{Messages, heartbeat, respond};
    use tokio::time::Instant;

    /// A message each second, without an end.
    struct Ticks;

    impl Messages for Ticks {
        async fn next(&mut self) -> Option<VecDeque<Bytes>> {
            sleep(Duration::from_secs(1)).await;
            Some(heartbeat())
        }
    }

    #[test]
    fn one_address_has_not_all_places_but_this_machine_may() {
        let guests = Places::default();
        let enter = |ip: &str| enter(&guests, ip.parse().unwrap());
        let mut all: Vec<_> =
            (0..MAX_OF_ADDRESS).map(|nth| enter(&format!("2001:db8::{nth}")).unwrap()).collect();
        assert!(enter("2001:db8::ffff").is_none(), "the same network");
        all.extend(enter("10.1.2.3"));
        all.extend((0..MAX_CONNECTIONS).map(|_| enter("127.0.0.1").unwrap()));
        all.extend((0..MAX_CONNECTIONS).map(|_| enter("::ffff:127.0.0.1").unwrap()));
        all.extend((0..MAX_CONNECTIONS).map(|_| enter("::1").unwrap()));
        assert_eq!(all.len(), MAX_OF_ADDRESS + 1 + 3 * MAX_CONNECTIONS);
    }

    /// A file of `pieces` pieces, one each half minute.
    fn file(pieces: u32, lease: Option<Lease>) -> Body {
        Body::from_stream(unfold((pieces, lease), |(left, lease)| async move {
            sleep(LAST_ANSWER / 2).await;
            if let Some(lease) = &lease {
                lease.renew();
            }
            let next = left.checked_sub(1)?;
            Some((Ok::<_, Infallible>(Bytes::from_static(b"piece")), (next, lease)))
        }))
    }

    /// The answer to a client that asks for `path`, and the time after which the connection ended.
    async fn ask(path: &str) -> (String, Duration) {
        let slow = || async {
            sleep(CONNECTION_TIME + LAST_ANSWER / 2).await;
            "done"
        };
        let router = Router::new()
            .route("/slow", get(slow))
            .route("/file", get(|Extension(lease): Extension<Lease>| async move { file(30, Some(lease)) }))
            .route(
                "/events",
                get(|Extension(lease): Extension<Lease>| async move { respond(Ticks, Some(lease)) }),
            )
            .route("/stream", get(|| async { file(u32::MAX, None) }));
        let (mut client, server) = duplex(1 << 16);
        let begin = Instant::now();
        let served = tokio::spawn(serve(server, router));
        client.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        served.await.unwrap();
        (answer, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_answered_is_answered_to_its_end() {
        let (answer, _) = ask("/slow").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_lasts_while_its_reader_takes_it_and_a_stream_does_not() {
        let (answer, time) = ask("/file").await;
        assert!(answer.matches("piece").count() == 30 && answer.ends_with("0\r\n\r\n"), "{answer}");
        assert!(time > 2 * CONNECTION_TIME, "{time:?}");
        // An event stream ends by itself before that: its last piece says so.
        let (answer, time) = ask("/events").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("0\r\n\r\n"), "{answer}");
        assert!(time > CONNECTION_TIME && time < CONNECTION_TIME + LAST_ANSWER, "{time:?}");
        let (answer, time) = ask("/stream").await;
        assert!(answer.contains("piece") && time <= CONNECTION_TIME + LAST_ANSWER, "{time:?}");
    }
}
