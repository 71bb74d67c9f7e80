//! The check of the `Host` header. In: a request. Out: the request, or a refusal.
//! Why: a web page in the user's browser can point a name of its own at 127.0.0.1 (DNS rebinding) and would then read
//! every process name; such a request names the page's host, not ours. There is no CORS header either.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header, uri::Authority};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// Whether a `Host` header names this server: `localhost`, a loopback address, or the very address it is bound to.
fn names_us(host: &str, bound: SocketAddr) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let name = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address == bound.ip(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

/// Headers of every answer.
const ALWAYS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];
/// Headers of every answer that does not say otherwise: the page's files do.
const UNLESS_SET: [(HeaderName, &str); 2] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
];

/// Lets pass what was meant for this server, and marks every answer as private.
pub(crate) async fn check(State(bound): State<SocketAddr>, request: Request, next: Next) -> Response {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let is_ours = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().is_ok_and(|host| names_us(host, bound)),
        _ => false,
    };
    let mut response = if is_ours {
        next.run(request).await
    } else {
        let detail = format!(
            "The Host header must name this server (localhost or {bound}); this one does not. \
             A web page may be trying to read it through DNS rebinding."
        );
        Problem::new(StatusCode::MISDIRECTED_REQUEST, detail).into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in UNLESS_SET {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_and_the_bound_address_are_ours() {
        let bound: SocketAddr = "10.1.2.3:3080".parse().unwrap();
        for host in
            ["localhost", "LOCALHOST:3080", "127.0.0.1:3080", "127.8.0.1", "[::1]:3080", "10.1.2.3:3080"]
        {
            assert!(names_us(host, bound), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:3080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.1.2.4",
            "a b",
            "[::1",
        ] {
            assert!(!names_us(host, bound), "{host}");
        }
    }
}
