//! Logins: off loopback, names of processes and users would be open to the network without one. [`Gate`] decides which requests are
//! answered, and [`check`] asks it about each: a person logs in with a token in the page and gets a cookie; programs send the token itself.
//!
//! [`AddressKey`] is the key of a server that is for one user only: `cpumon trace view` shows a file that other users of the machine may
//! not read.

mod tokens;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cpumon_files::{AuditEvent, AuditLog};
use cpumon_model::limits::{Limiter, Overflow, Rate};
use futures_util::StreamExt;
use futures_util::future::ready;

use crate::problem::Problem;
use tokens::{Digest256, digest};

pub(crate) use tokens::write_private;
pub use tokens::{TokenEntry, TokenError, TokenFile, random_key};

/// Paths without a login: those that the page needs to show one, and those about no host.
pub(crate) const OPEN: [&str; 4] =
    ["/api/v1/session", "/api/v1/login", "/api/v1/columns", "/api/v1/openapi.json"];

/// The path that Prometheus scrapes, by its own custom.
pub(crate) const METRICS: &str = "/metrics";

/// The sender of a request, as the socket reports it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Values of a header.
fn texts(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
}

/// Names and values of a request's cookies.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let pairs = texts(headers, header::COOKIE).flat_map(|value| value.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('='))
}

/// The address a request came from; tests that ask the router directly have none.
pub(crate) fn peer_of(request: &Request) -> IpAddr {
    let peer = request.extensions().get::<Peer>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip().to_canonical())
}

/// Whether a path may have data of hosts: the API and the metrics. Everything else is the page.
pub(crate) fn is_data(path: &str) -> bool {
    path.starts_with("/api") || path == METRICS
}

/// Lets requests pass that have a login, and those of open paths.
pub(crate) async fn check(State(gate): State<Option<Arc<Gate>>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    // The page itself has no data, and it must load to show the login.
    let is_open = !is_data(path) || OPEN.contains(&path);
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

/// The file of tokens is checked for changes this often.
const RECHECK: Duration = Duration::from_secs(1);
/// Limit of the tokens that are remembered as verified.
const MAX_VERIFIED: usize = 256;
/// Longest token read; ours have 80 characters.
const MAX_TOKEN: usize = 256;

/// Wrong tokens of one sender: 5 at once, then one in 10 s.
const TRIES_OF_SENDER: Rate = Rate { amount: 1, seconds: 10, burst_ms: 50_000 };
/// Tokens verified of all senders together, 30 at once, so that verifying cannot take the machine. Only tokens with a
/// known id are verified: strangers cannot use up the tries of users with a token.
const TRIES_OF_ALL: Rate = Rate { amount: 1, seconds: 2, burst_ms: 60_000 };
const MAX_SENDERS: usize = 1024;

const SESSION_LIFE: Duration = Duration::from_hours(12);
/// Most sessions at once; a new one ends the oldest.
const MAX_SESSIONS: usize = 1024;

#[derive(Clone, Debug)]
struct LoginSession {
    token_id: String,
    ends: Instant,
}

/// Sessions of logged-in people, by the digest of their cookie. They are in memory only: a restart logs everyone out.
#[derive(Debug, Default)]
struct Sessions(HashMap<Digest256, LoginSession>);

impl Sessions {
    fn add(&mut self, cookie: Digest256, token_id: String) {
        let now = Instant::now();
        self.0.retain(|_, session| session.ends > now);
        if self.0.len() >= MAX_SESSIONS {
            // All sessions last equally long, so the one that ends first is the oldest.
            let oldest = self.0.iter().min_by_key(|(_, session)| session.ends).map(|(cookie, _)| *cookie);
            oldest.map(|cookie| self.0.remove(&cookie));
        }
        self.0.insert(cookie, LoginSession { token_id, ends: now + SESSION_LIFE });
    }

    fn is_valid(&self, cookie: &Digest256) -> bool {
        self.0.get(cookie).is_some_and(|session| session.ends > Instant::now())
    }
}

enum Credential {
    /// Digest of a session's cookie.
    Session(Digest256),
    /// The id of a token.
    Token(String),
}

struct Verified {
    id: String,
    /// Whether the token was verified just now, not remembered.
    is_new: bool,
}

pub(crate) struct Gate {
    tokens: TokenFile,
    is_tls: bool,
    audit: Option<Arc<AuditLog>>,
    inner: Mutex<GateState>,
    started: Instant,
    /// Verifying is made slow on purpose: one at a time, so that it cannot take the machine.
    turn: tokio::sync::Semaphore,
}

struct GateState {
    entries: Vec<TokenEntry>,
    checked: Option<Instant>,
    sessions: Sessions,
    verified: HashMap<Digest256, String>,
    tries: Limiter,
}

impl Gate {
    pub(crate) fn new(tokens: PathBuf, is_tls: bool, audit: Option<Arc<AuditLog>>) -> Self {
        let inner = GateState {
            entries: Vec::new(),
            checked: None,
            sessions: Sessions::default(),
            verified: HashMap::new(),
            // Someone with many addresses must not keep a person from logging in.
            tries: Limiter::new(TRIES_OF_ALL, TRIES_OF_SENDER, MAX_SENDERS, Overflow::Evict),
        };
        Self {
            tokens: TokenFile::new(tokens),
            is_tls,
            audit,
            inner: Mutex::new(inner),
            started: Instant::now(),
            turn: tokio::sync::Semaphore::new(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The tokens that count now, read no longer than [`RECHECK`] ago. One that was revoked ends its sessions.
    fn refreshed(&self) -> MutexGuard<'_, GateState> {
        self.refreshed_within(RECHECK)
    }

    fn refreshed_within(&self, age: Duration) -> MutexGuard<'_, GateState> {
        let mut inner = self.lock();
        if inner.checked.is_none_or(|at| at.elapsed() >= age) {
            // Also if the read fails: a broken file is not read at each request.
            inner.checked = Some(Instant::now());
            match self.tokens.list() {
                Ok(entries) => inner.entries = entries,
                Err(error) => {
                    log::warn!("{error}; all requests are refused");
                    // Tokens that were revoked in a file that cannot be read must not stay valid.
                    inner.entries.clear();
                }
            }
            let GateState { entries, sessions, verified, .. } = &mut *inner;
            let counts = |id: &str| entries.iter().any(|entry| entry.id == id);
            sessions.0.retain(|_, session| counts(&session.token_id));
            verified.retain(|_, id| counts(id));
        }
        inner
    }

    /// The name of the cookie. `__Host-` (RFC 6265bis) binds it to this very origin, over TLS only.
    fn cookie_name(&self) -> &'static str {
        if self.is_tls { "__Host-cpumon" } else { "cpumon" }
    }

    fn cookie<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        cookies(headers).find_map(|(name, value)| (name == self.cookie_name()).then_some(value))
    }

    /// The session of a request's cookie, if it is a valid one of ours.
    pub(crate) fn session(&self, headers: &HeaderMap) -> Option<Digest256> {
        let cookie = digest(self.cookie(headers)?);
        self.refreshed().sessions.is_valid(&cookie).then_some(cookie)
    }

    fn still_counts(&self, pass: &Credential) -> bool {
        let inner = self.refreshed();
        match pass {
            Credential::Session(cookie) => inner.sessions.is_valid(cookie),
            Credential::Token(id) => inner.entries.iter().any(|entry| entry.id == *id),
        }
    }

    /// Verifies a token and returns its id. The audit log gets each wrong token, each log-in of a person, and each program once.
    async fn verify(&self, token: &str, peer: IpAddr, is_person: bool) -> Result<String, Problem> {
        match self.check(token, peer).await {
            Ok(Verified { id, is_new }) => {
                if is_new || is_person {
                    let label = self
                        .lock()
                        .entries
                        .iter()
                        .find(|entry| entry.id == id)
                        .map(|entry| entry.label.clone());
                    let who = if is_person { "a person" } else { "a program" };
                    self.note(
                        AuditEvent::LoggedIn,
                        peer,
                        &label.unwrap_or_default(),
                        &format!("{who}, token {id}"),
                    );
                }
                Ok(id)
            }
            Err(problem) => {
                self.note(AuditEvent::Refused, peer, "login", &problem.detail);
                Err(problem)
            }
        }
    }

    fn note(&self, event: AuditEvent, peer: IpAddr, subject: &str, detail: &str) {
        if let Some(audit) = &self.audit {
            audit.note(event, &peer.to_string(), subject, detail);
        }
    }

    /// Verifies a token; limits the wrong ones by sender.
    async fn check(&self, token: &str, peer: IpAddr) -> Result<Verified, Problem> {
        // A longer text would be hashed before any limit counts it.
        if token.len() > MAX_TOKEN {
            return Err(wrong_token());
        }
        let key = digest(token);
        if let Some(id) = self.refreshed().verified.get(&key) {
            return Ok(Verified { id: id.clone(), is_new: false });
        }
        // Taken first and given back after a right token, so that tries made at the same time all count.
        self.lock()
            .tries
            .take_of_source(peer, self.now_ns())
            .map_err(|wait| too_many(" from this address", wait))?;
        let Ok(_turn) = self.turn.acquire().await else { return Err(wrong_token()) };
        let known =
            |age| self.refreshed_within(age).entries.iter().find(|entry| entry.is_for(token)).cloned();
        // It may have been made a moment ago; frequent attempts are limited before this.
        let entry = known(RECHECK).or_else(|| known(Duration::ZERO)).ok_or_else(wrong_token)?;
        self.lock().tries.take_of_all(self.now_ns()).map_err(|wait| too_many("", wait))?;
        let text = token.to_owned();
        // argon2 is slow: on the only thread of the runtime it would stop every other connection.
        let verified = tokio::task::spawn_blocking(move || entry.verify(&text).then_some(entry));
        let Ok(Some(entry)) = verified.await else { return Err(wrong_token()) };
        let mut inner = self.lock();
        inner.tries.give_back(peer);
        if inner.verified.len() >= MAX_VERIFIED {
            // The bound costs little: each of these tokens is only verified once more.
            inner.verified.clear();
        }
        inner.verified.insert(key, entry.id.clone());
        Ok(Verified { id: entry.id, is_new: true })
    }

    /// Logs a person in; returns the cookie to be set.
    pub(crate) async fn log_in(&self, token: &str, peer: IpAddr) -> Result<HeaderValue, Problem> {
        let id = self.verify(token, peer, true).await?;
        let secret = random_key().map_err(|error| Problem::fault(&error))?;
        self.lock().sessions.add(digest(&secret), id);
        self.set_cookie(&secret, SESSION_LIFE)
    }

    /// Logs a person out; returns the cookie to be set.
    pub(crate) fn log_out(&self, headers: &HeaderMap) -> Result<HeaderValue, Problem> {
        if let Some(cookie) = self.cookie(headers) {
            self.lock().sessions.0.remove(&digest(cookie));
        }
        // Max-Age=0 makes the browser delete the cookie (RFC 6265, section 5.2.2).
        self.set_cookie("", Duration::ZERO)
    }

    fn set_cookie(&self, value: &str, life: Duration) -> Result<HeaderValue, Problem> {
        let secure = if self.is_tls { "; Secure" } else { "" };
        let (name, seconds) = (self.cookie_name(), life.as_secs());
        HeaderValue::from_str(&format!(
            "{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
        ))
        .map_err(|error| Problem::fault(&error))
    }

    async fn passes(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Credential, Problem> {
        if let Some(cookie) = self.session(headers) {
            return Ok(Credential::Session(cookie));
        }
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        // Schemes are valid in any case (RFC 9110, section 11.1).
        let bearer = bearer.and_then(|value| value.split_once(' '));
        match bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) {
            Some((_, token)) => self.verify(token.trim(), peer, false).await.map(Credential::Token),
            None => Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "This receiver answers only requests with a login.",
            )
            .how(
                "Log in at its page, or send a token as `Authorization: Bearer TOKEN`; \
                 `cpumon login-token add NAME` on the receiver makes one.",
            )),
        }
    }
}

fn wrong_token() -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "This is not a token of this receiver.")
        .how("`cpumon login-token add NAME` on the receiver makes one.")
}

fn too_many(from: &str, wait: Duration) -> Problem {
    // Rounded up, so that a client that waits this long is not refused again.
    let seconds = wait.as_secs() + 1;
    let detail = format!("Too many wrong tokens came{from}.");
    let problem =
        Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).how(format!("Try again in {seconds} s."));
    Problem { retry_after_s: Some(seconds), ..problem }
}

/// The parameter of an address that has the key, and the start of the cookie's name, which ends with the port: a host has one set of cookies
/// for all of its ports.
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
        let bearer = |value: &str| value.split_once(' ').is_some_and(|(_, token)| self.is_it(token.trim()));
        cookies(headers).any(|(name, value)| name == self.cookie && self.is_it(value))
            || texts(headers, header::AUTHORIZATION).any(bearer)
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
