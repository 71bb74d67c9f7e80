//! Sessions of people who logged in, by the digest of their cookie. They are in memory only: a restart logs
//! everyone out.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::secret::Digest256;

/// A session ends after this time.
pub(super) const LIFE: Duration = Duration::from_hours(12);
/// Sessions at once; the oldest gives way.
const MAX_SESSIONS: usize = 1024;

#[derive(Clone, Debug)]
struct Session {
    token_id: String,
    ends: Instant,
}

/// Sessions by the digest of their cookie.
#[derive(Debug, Default)]
pub(super) struct Sessions(HashMap<Digest256, Session>);

impl Sessions {
    pub(super) fn add(&mut self, cookie: Digest256, token_id: String) {
        let now = Instant::now();
        self.0.retain(|_, session| session.ends > now);
        if self.0.len() >= MAX_SESSIONS {
            // All sessions last equally long, so the one that ends first is the oldest.
            let oldest = self.0.iter().min_by_key(|(_, session)| session.ends).map(|(cookie, _)| *cookie);
            oldest.map(|cookie| self.0.remove(&cookie));
        }
        self.0.insert(cookie, Session { token_id, ends: now + LIFE });
    }

    pub(super) fn is_valid(&self, cookie: &Digest256) -> bool {
        self.0.get(cookie).is_some_and(|session| session.ends > Instant::now())
    }

    pub(super) fn remove(&mut self, cookie: &Digest256) {
        self.0.remove(cookie);
    }

    /// Keeps the sessions of tokens that count.
    pub(super) fn retain(&mut self, counts: impl Fn(&str) -> bool) {
        self.0.retain(|_, session| counts(&session.token_id));
    }
}
