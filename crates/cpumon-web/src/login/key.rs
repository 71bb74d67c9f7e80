//! The key of a server that is for one user only: `cpumon trace view` shows a file that other users of the machine may not read. It is in the
//! address that the command prints; the browser gets it as a cookie, so that it stays in no history and no link.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::secret::{Digest256, digest};
use crate::problem::Problem;

/// The parameter of an address, and the name of the cookie with the port behind it: cookies of all ports of a host are one set.
const NAME: &str = "key";

/// What a request must have.
pub(crate) struct Key {
    digest: Digest256,
    cookie: String,
}

impl Key {
    /// `port`: where the server listens.
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
pub(crate) async fn check_key(State(key): State<Option<Arc<Key>>>, request: Request, next: Next) -> Response {
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
