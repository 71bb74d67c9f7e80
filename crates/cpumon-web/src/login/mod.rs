//! Logins: off loopback, names of processes and users would be open to the network without one. [`check`] asks [`Gate`] about each request.
//! [`AddressKey`] is the key of a server that is for one user only: `cpumon trace view` shows a file that other users of the machine may not read.

mod gate;
mod tokens;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::future::ready;

use crate::problem::Problem;
use gate::Credential;
use tokens::{Digest256, digest};

pub(crate) use gate::Gate;
pub(crate) use tokens::write_private;
pub use tokens::{TokenEntry, TokenError, TokenFile, random_key};

/// Paths without a login: those that the page needs to show one, and those about no host.
pub(crate) const OPEN: [&str; 4] =
    ["/api/v1/session", "/api/v1/login", "/api/v1/columns", "/api/v1/openapi.json"];

/// The sender of a request, as the socket reports it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The address a request came from; tests that ask the router directly have none.
pub(crate) fn peer_of(request: &Request) -> IpAddr {
    let peer = request.extensions().get::<Peer>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip().to_canonical())
}

/// Lets requests pass that have a login, and those of open paths.
pub(crate) async fn check(State(gate): State<Option<Arc<Gate>>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    // The page itself has no data, and it must load to show the login.
    let is_open = !path.starts_with("/api") || OPEN.contains(&path);
    let Some(gate) = gate.filter(|_| !is_open) else { return next.run(request).await };
    match gate.passes(request.headers(), peer_of(&request)).await {
        Ok(pass) => while_it_counts(next.run(request).await, gate, pass),
        Err(problem) => {
            let is_missing = problem.status == StatusCode::UNAUTHORIZED;
            let mut response = problem.into_response();
            if is_missing {
                // RFC 9110, section 15.5.2: a 401 must name a scheme.
                let bearer = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
            }
            response
        }
    }
}

/// Ends an event stream whose login is no longer valid: it would outlive a log-out. Asks before each piece; a heartbeat is one too.
fn while_it_counts(response: Response, gate: Arc<Gate>, pass: Credential) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    // Other answers are finite: the check before them is enough.
    if kind.is_none_or(|kind| kind != "text/event-stream") {
        return response;
    }
    response.map(|body| {
        let counts = move |_: &_| ready(gate.still_counts(&pass));
        Body::from_stream(body.into_data_stream().take_while(counts))
    })
}

/// The parameter of an address, and the name of the cookie with the port behind it: cookies of all ports of a host are one set.
const NAME: &str = "key";

/// The key that a request must have. It is in the address that the command prints; the browser gets it as a cookie, so that it stays in no
/// history and no link.
pub(crate) struct AddressKey {
    digest: Digest256,
    cookie: String,
}

impl AddressKey {
    /// `port`: where the server listens; it is part of the cookie's name.
    pub(crate) fn new(key: &str, port: u16) -> Self {
        Self { digest: digest(key), cookie: format!("cpumon-{NAME}-{port}") }
    }

    fn is_it(&self, text: &str) -> bool {
        // Digests are compared: how long that takes says nothing about the key.
        digest(text) == self.digest
    }

    fn is_in(&self, headers: &HeaderMap) -> bool {
        let texts = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = texts(header::COOKIE).flat_map(|value| value.split(';'));
        let named = |pair: &str| {
            pair.trim().split_once('=').is_some_and(|(name, value)| name == self.cookie && self.is_it(value))
        };
        let bearer = |value: &str| value.split_once(' ').is_some_and(|(_, token)| self.is_it(token.trim()));
        cookies.any(named) || texts(header::AUTHORIZATION).any(bearer)
    }

    /// Sends the browser to the address without the key, if it has the right one.
    fn redirect(&self, uri: &Uri) -> Option<Response> {
        let pairs = uri.query()?.split('&');
        let value = |pair: &str| Some(pair.strip_prefix(NAME)?.strip_prefix('=')?.to_owned());
        let key = pairs.clone().find_map(value).filter(|key| self.is_it(key))?;
        let rest: Vec<&str> = pairs.filter(|pair| value(pair).is_none()).collect();
        let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
        // Lax: the address may be a link in the page of a terminal.
        let cookie = format!("{}={key}; Path=/; HttpOnly; SameSite=Lax", self.cookie);
        let to = format!("{}{query}", uri.path());
        Some((StatusCode::SEE_OTHER, [(header::LOCATION, to), (header::SET_COOKIE, cookie)]).into_response())
    }
}

/// Lets requests pass that have the key, if the server has one.
pub(crate) async fn check_key(
    State(key): State<Option<Arc<AddressKey>>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(key) = key else { return next.run(request).await };
    if request.method() == Method::GET
        && let Some(redirect) = key.redirect(request.uri())
    {
        return redirect;
    }
    if key.is_in(request.headers()) {
        return next.run(request).await;
    }
    Problem::new(StatusCode::UNAUTHORIZED, "This server answers only to the user who started it.")
        .how("Open the whole address that the command printed; it has a key.")
        .into_response()
}
