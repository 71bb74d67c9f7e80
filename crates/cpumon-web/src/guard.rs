//! Refuses requests that another site makes. A web page in the user's browser can point a name of its own at
//! this server (DNS rebinding), or send requests to it with the user's cookie (CSRF). The first names a
//! foreign host in `Host`, the second a foreign origin in `Origin`. No answer has a CORS header either.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, uri::Authority};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::login::is_data;
use crate::problem::Problem;

/// Names of this server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) bound: SocketAddr,
    pub(crate) names: Vec<String>,
    pub(crate) is_tls: bool,
}

impl Server {
    /// Whether a `Host` header names this server: `localhost`, a loopback address, the very address it is bound to (any, if
    /// it is bound to all: an address is no name that could be pointed here), or a name that it was given.
    fn is_ours(&self, host: &str) -> bool {
        // An `Authority` may have user information (`user@host`), a Host header never has.
        let Some(authority) = host.parse::<Authority>().ok().filter(|_| !host.contains('@')) else {
            return false;
        };
        let name = authority.host();
        // `Authority::host` keeps the brackets of an IPv6 address.
        let name = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        if let Ok(address) = name.parse::<IpAddr>() {
            return address.is_loopback() || address == self.bound.ip() || self.bound.ip().is_unspecified();
        }
        // Host names have no case (RFC 9110, section 4.2.3).
        let is = |ours: &str| name.eq_ignore_ascii_case(ours);
        is("localhost") || self.names.iter().any(|ours| is(ours))
    }

    /// The one `Host` of a request, if it names this server.
    fn host<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let mut hosts = headers.get_all(header::HOST).iter();
        match (hosts.next(), hosts.next()) {
            // RFC 9112, section 3.2: a request with more than one Host header is invalid.
            (Some(host), None) => host.to_str().ok().filter(|host| self.is_ours(host)),
            _ => None,
        }
    }

    /// Whether a request was made by another site. Browsers say so in `Origin` (RFC 6454) and `Sec-Fetch-Site` (W3C Fetch
    /// Metadata); other programs send neither.
    fn is_from_elsewhere(&self, headers: &HeaderMap, host: &str) -> bool {
        let ours = format!("{}://{host}", if self.is_tls { "https" } else { "http" });
        let is_other = |origin: &HeaderValue| !origin.as_bytes().eq_ignore_ascii_case(ours.as_bytes());
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        headers.get_all(header::ORIGIN).iter().any(is_other)
            // `none`: the user typed the address or opened a bookmark.
            || site.is_some_and(|site| site != b"same-origin" && site != b"none")
    }

    fn refuses(&self, request: &Request) -> Option<Problem> {
        let headers = request.headers();
        let Some(host) = self.host(headers) else {
            let bound = self.bound;
            return Some(
                Problem::new(
                    StatusCode::MISDIRECTED_REQUEST,
                    "The Host header does not name this server. A web page may be trying to read it through DNS rebinding.",
                )
                .how(format!("Ask localhost or {bound}; --http-name gives the server further names.")),
            );
        };
        // A link from elsewhere may open the page, but nothing else may be asked from there.
        let is_data = is_data(request.uri().path());
        (is_data && self.is_from_elsewhere(headers, host)).then(|| {
            Problem::new(StatusCode::FORBIDDEN, "Another site made this request.")
                .how("Open the page of this server itself.")
        })
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

/// Passes requests for this server, and marks every answer as private.
pub(crate) async fn check(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let mut response = match server.refuses(&request) {
        None => next.run(request).await,
        Some(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if server.is_tls {
        // RFC 6797: never again without TLS, for half a year.
        let always = HeaderValue::from_static("max-age=15768000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, always);
    }
    for (name, value) in UNLESS_SET {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(bound: &str, names: &[&str]) -> Server {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Server { bound: bound.parse().unwrap(), names, is_tls: false }
    }

    #[test]
    fn only_loopback_names_and_the_bound_address_are_ours() {
        let bound = server("10.1.2.3:3080", &["box.lan"]);
        for host in [
            "localhost",
            "LOCALHOST:3080",
            "127.0.0.1:3080",
            "127.8.0.1",
            "[::1]:3080",
            "10.1.2.3:3080",
            "Box.LAN:3080",
        ] {
            assert!(bound.is_ours(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:3080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "box.lan.evil.example",
            "10.1.2.4",
            "a b",
            "evil@localhost",
            "[::1",
        ] {
            assert!(!bound.is_ours(host), "{host}");
        }
        let all = server("0.0.0.0:3080", &[]);
        assert!(all.is_ours("192.168.1.7:3080") && !all.is_ours("evil.example"));
    }

    #[test]
    fn other_origins_are_refused() {
        let server = server("127.0.0.1:3080", &[]);
        for (name, value, is_other) in [
            ("origin", "http://localhost:3080", false),
            ("origin", "https://localhost:3080", true),
            ("origin", "http://localhost", true),
            ("origin", "http://evil.example", true),
            ("origin", "null", true),
            ("sec-fetch-site", "same-origin", false),
            ("sec-fetch-site", "none", false),
            ("sec-fetch-site", "same-site", true),
            ("sec-fetch-site", "cross-site", true),
        ] {
            let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())]);
            assert_eq!(server.is_from_elsewhere(&headers, "localhost:3080"), is_other, "{name}: {value}");
        }
        assert!(!server.is_from_elsewhere(&HeaderMap::new(), "localhost:3080"));
    }
}
