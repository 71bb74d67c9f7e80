//! The check of each request: whether it has a login, if the receiver asks for one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::gate::Gate;
use super::streams::while_it_counts;

/// Paths that anyone may ask: what the page needs to show a login, and what is about no host.
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
