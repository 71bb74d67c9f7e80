//! Whose a process is: the user of its token, by name. Asking for a name may take the machine to a domain's server, so each user is
//! asked for once.

use std::collections::HashMap;

use super::sys;

/// As on Linux where the user of a process is not known.
const UNKNOWN_UID: u32 = 65_534;
/// Users that are kept; beyond it all are forgotten and asked for again.
const MOST_USERS: usize = 4_096;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    /// The last number of the security id: 18 is SYSTEM, people's begin at 1000.
    pub(super) id: u32,
    /// Account name; empty if unknown.
    pub(super) name: Box<str>,
}

/// Users by security id.
#[derive(Default)]
pub(super) struct Users {
    known: HashMap<Vec<u8>, User>,
}

impl Users {
    pub(super) fn of(&mut self, pid: u32) -> User {
        let Some(sid) = sys::user_sid(pid) else { return User { id: UNKNOWN_UID, name: "".into() } };
        if self.known.len() >= MOST_USERS {
            self.known.clear();
        }
        let ask = |sid: &Vec<u8>| User {
            // A security id ends with its numbers, 4 bytes each.
            id: sid.last_chunk().map_or(UNKNOWN_UID, |last| u32::from_le_bytes(*last)),
            name: sys::account_name(sid).unwrap_or_default().into(),
        };
        self.known.entry(sid).or_insert_with_key(ask).clone()
    }
}
