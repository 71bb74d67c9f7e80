//! [`Gate`]: which requests are answered. A person logs in with a token in the page and gets a cookie; programs send the token
//! itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use cpumon_files::{AuditEvent, AuditLog};
use cpumon_model::limits::{Limiter, Overflow, Rate};

use super::tokens::{Digest256, TokenEntry, TokenFile, digest, random_key};
use crate::problem::Problem;

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

    fn remove(&mut self, cookie: &Digest256) {
        self.0.remove(cookie);
    }

    /// Drops the sessions whose token `counts` refuses.
    fn retain(&mut self, counts: impl Fn(&str) -> bool) {
        self.0.retain(|_, session| counts(&session.token_id));
    }
}

pub(super) enum Credential {
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
            sessions.retain(counts);
            verified.retain(|_, id| counts(id));
        }
        inner
    }

    /// The name of the cookie. `__Host-` (RFC 6265bis) binds it to this very origin, over TLS only.
    fn cookie_name(&self) -> &'static str {
        if self.is_tls { "__Host-cpumon" } else { "cpumon" }
    }

    fn cookie<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find_map(|(name, value)| (name == self.cookie_name()).then_some(value))
    }

    /// The session of a request's cookie, if it is one of ours.
    fn session(&self, headers: &HeaderMap) -> Option<Digest256> {
        let cookie = digest(self.cookie(headers)?);
        self.refreshed().sessions.is_valid(&cookie).then_some(cookie)
    }

    /// Whether the request has the cookie of a valid session.
    pub(crate) fn has_session(&self, headers: &HeaderMap) -> bool {
        self.session(headers).is_some()
    }

    pub(super) fn still_counts(&self, pass: &Credential) -> bool {
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
            self.lock().sessions.remove(&digest(cookie));
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

    pub(super) async fn passes(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Credential, Problem> {
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
