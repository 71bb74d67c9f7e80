//! [`Decryptor`]: turns encrypted datagrams into frames and returns each frame once. A datagram of a stranger
//! costs a derivation and a check, and leaves nothing behind. [`ReplayWindow`]: which datagram numbers of one agent start were taken.
//!
//! The memory that survives a receiver's restart is a text with a line for each agent start. Without the text, an attacker could send
//! all recorded datagrams again to a receiver that has just started.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

use cpumon_model::{BootId, HostId};
use ring::aead::{Aad, LessSafeKey};

use super::{GroupKey, KeyId, PlainHeader, SessionId, nonce};
use crate::{DecodeError, v2};

/// Most keys that are valid at one time: one in use, one that comes or goes, and two for mistakes.
pub const MAX_KEYS: usize = 4;
const MAX_HOSTS: usize = 4_096;
/// Most agent starts of a host that are accepted at one time.
const MAX_SESSIONS: usize = 8;
/// Most boots of a host whose agent starts are remembered as over.
const MAX_RETIRED: usize = 64;

/// Why an encrypted datagram was refused.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecryptError {
    /// Its header, or the one of the frame inside, cannot be read.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// No key of this name is in use here.
    #[error("decrypting a datagram: key {0} is not in use here")]
    UnknownKey(KeyId),
    /// It was not encrypted with this key, or was changed on the way.
    #[error("decrypting a datagram: it was not encrypted with key {0}, or was changed")]
    BadTag(KeyId),
    /// It was accepted before, or is older than the replay window, which cannot say.
    #[error("decrypting a datagram: it came before")]
    Replayed,
    /// It belongs to an agent start that is over.
    #[error("decrypting a datagram: it is of an earlier start of the agent")]
    Earlier,
    /// It is of an agent start that spoke for another host.
    #[error("decrypting a datagram: its sender spoke for another host before")]
    OtherHost,
    /// The datagram is of a new host, and there are too many hosts already.
    #[error("decrypting a datagram: there are {MAX_HOSTS} hosts already")]
    TooManyHosts,
}

/// One agent start whose datagrams are accepted.
#[derive(Debug)]
struct DatagramSession {
    key: LessSafeKey,
    host: HostId,
    boot: BootId,
    window: ReplayWindow,
    /// [`Decryptor::decrypted`] when its last datagram came.
    last_received: u64,
}

#[derive(Debug, Default)]
struct EncryptedHost {
    sessions: Vec<SessionId>,
    /// Boots, and the newest start in each that is over. The oldest boot first.
    retired: VecDeque<(BootId, u64)>,
}

/// Decrypts the datagrams of a group; refuses forged and repeated ones, and those of a start that is over.
#[derive(Debug, Default)]
pub struct Decryptor {
    keys: Vec<GroupKey>,
    sessions: HashMap<SessionId, DatagramSession>,
    known: HashMap<HostId, EncryptedHost>,
    plain: Vec<u8>,
    decrypted: u64,
}

impl Decryptor {
    /// Uses these keys from now on, at most [`MAX_KEYS`]; what was encrypted with others is refused.
    pub fn set_keys(&mut self, keys: &[GroupKey]) {
        self.keys = keys.iter().take(MAX_KEYS).cloned().collect();
        let gone: Vec<SessionId> =
            self.sessions.keys().filter(|one| self.key(one.key).is_none()).copied().collect();
        // Retired and not only removed: if the key comes back, recorded datagrams must stay refused.
        for session in gone {
            self.retire(&session);
        }
    }

    /// Ids of the keys in use.
    pub fn key_ids(&self) -> impl Iterator<Item = KeyId> {
        self.keys.iter().map(GroupKey::id)
    }

    /// Whether an encrypted datagram ever spoke for this host: then no other may.
    pub fn knows(&self, host: HostId) -> bool {
        self.known.contains_key(&host)
    }

    /// Hosts that encrypted datagrams ever spoke for, in no particular order.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> {
        self.known.keys().copied()
    }

    /// Number of datagrams decrypted so far.
    pub fn decrypted(&self) -> u64 {
        self.decrypted
    }

    /// The frame in an encrypted datagram.
    ///
    /// # Errors
    /// The datagram is refused; nothing was kept.
    pub fn decrypt(&mut self, datagram: &[u8]) -> Result<&[u8], DecryptError> {
        let header = PlainHeader::decode(datagram)?;
        let (clear, encrypted) = datagram.split_at(header.bytes);
        self.plain.clear();
        self.plain.extend_from_slice(encrypted);
        let id = header.session;
        let known = self.sessions.get(&id);
        // The key of an unknown start is stored only after a tag proved it, so strangers leave nothing
        // behind.
        let derived = if known.is_some() { None } else { Some(self.derive(&id)?) };
        let key = known.map(|session| &session.key).or(derived.as_ref());
        let decrypted = key
            .and_then(|key| key.open_in_place(nonce(header.counter), Aad::from(clear), &mut self.plain).ok());
        let length = decrypted.ok_or(DecryptError::BadTag(id.key))?.len();
        // The tag is still behind the decrypted text.
        self.plain.truncate(length);
        let (frame, _) = v2::Header::decode(&self.plain)?;
        if let Some(key) = derived {
            self.admit(id, frame.host, frame.boot, key)?;
        }
        let session = self.sessions.get_mut(&id).ok_or(DecryptError::Earlier)?;
        // Every device of the group has the key; without this, one start could speak for many hosts.
        if (session.host, session.boot) != (frame.host, frame.boot) {
            return Err(DecryptError::OtherHost);
        }
        // Only now: a forged counter must not move the window.
        if !session.window.take(header.counter) {
            return Err(DecryptError::Replayed);
        }
        self.decrypted += 1;
        session.last_received = self.decrypted;
        Ok(&self.plain)
    }

    /// The host of the agent start that a datagram names, which may not be true: a stranger can name it too.
    pub fn claimed_host(&self, datagram: &[u8]) -> Option<HostId> {
        let header = PlainHeader::decode(datagram).ok()?;
        self.sessions.get(&header.session).map(|session| session.host)
    }

    fn key(&self, id: KeyId) -> Option<&GroupKey> {
        self.keys.iter().find(|key| key.id() == id)
    }

    fn derive(&self, session: &SessionId) -> Result<LessSafeKey, DecryptError> {
        let key = self.key(session.key).and_then(|key| key.of(session));
        key.ok_or(DecryptError::UnknownKey(session.key))
    }

    /// Begins to listen to an agent start that proved itself.
    fn admit(
        &mut self,
        id: SessionId,
        host: HostId,
        boot: BootId,
        key: LessSafeKey,
    ) -> Result<(), DecryptError> {
        if !self.known.contains_key(&host) && self.known.len() >= MAX_HOSTS {
            return Err(DecryptError::TooManyHosts);
        }
        let known = self.known.entry(host).or_default();
        // A start that is over stays over: its datagrams may be a recording, and its window is forgotten.
        let over = known.retired.iter().find(|retired| retired.0 == boot).map(|retired| retired.1);
        if over.is_some_and(|started| id.started_boot_ns <= started) {
            return Err(DecryptError::Earlier);
        }
        // A machine runs one agent, or two while one replaces the other: the start that was silent longest is the one that ended.
        if known.sessions.len() >= MAX_SESSIONS {
            let last_received =
                |id: &&SessionId| self.sessions.get(*id).map_or(0, |session| session.last_received);
            if let Some(silent) = known.sessions.iter().min_by_key(last_received).copied() {
                self.retire(&silent);
            }
        }
        self.keep(
            id,
            DatagramSession { key, host, boot, window: ReplayWindow::new(), last_received: self.decrypted },
        );
        Ok(())
    }

    fn keep(&mut self, id: SessionId, session: DatagramSession) {
        self.known.entry(session.host).or_default().sessions.push(id);
        self.sessions.insert(id, session);
    }

    /// An agent start is over: it, and those before it in the same boot, are not listened to again.
    fn retire(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.remove(id) else { return };
        self.known.entry(session.host).or_default().sessions.retain(|one| one != id);
        self.note_over(session.host, session.boot, id.started_boot_ns);
    }

    fn note_over(&mut self, host: HostId, boot: BootId, started_boot_ns: u64) {
        let retired = &mut self.known.entry(host).or_default().retired;
        if let Some(one) = retired.iter_mut().find(|one| one.0 == boot) {
            one.1 = one.1.max(started_boot_ns);
            return;
        }
        if retired.len() >= MAX_RETIRED {
            retired.pop_front();
        }
        retired.push_back((boot, started_boot_ns));
    }

    /// Remembers an agent start from before this process began. The start is over if its key is no longer in use or no space is left.
    fn remember(&mut self, id: SessionId, host: HostId, boot: BootId, top: u64) {
        let has_space = self
            .known
            .get(&host)
            .map_or(self.known.len() < MAX_HOSTS, |known| known.sessions.len() < MAX_SESSIONS);
        match self.derive(&id) {
            Ok(key) if has_space && !self.sessions.contains_key(&id) => {
                // The missing numbers below `top` are not stored, so every number below `top` counts as taken.
                self.keep(
                    id,
                    DatagramSession { key, host, boot, window: ReplayWindow::up_to(top), last_received: 0 },
                );
            }
            _ if self.known.contains_key(&host) || self.known.len() < MAX_HOSTS => {
                self.note_over(host, boot, id.started_boot_ns);
            }
            _ => {}
        }
    }
}

/// Numbers behind the greatest one that are distinguished: more than a snapshot of 20,000 threads has datagrams.
const BITS: u64 = 2_048;
const WORDS: usize = 32;

/// Which numbers of one agent start were taken. Its size does not depend on what was sent.
#[derive(Copy, Clone, Debug)]
struct ReplayWindow {
    /// Greatest number taken; `None` if none was.
    top: Option<u64>,
    /// A ring: number *n* is bit *n* modulo [`BITS`]. A bit is cleared when the greatest number passes it, because it belongs to a
    /// newer number then.
    bits: [u64; WORDS],
}

impl ReplayWindow {
    fn new() -> Self {
        Self { top: None, bits: [0; WORDS] }
    }

    /// A window in which every number up to `top` was taken.
    fn up_to(top: u64) -> Self {
        Self { top: Some(top), bits: [u64::MAX; WORDS] }
    }

    /// Greatest number taken; 0 if none was.
    fn top(&self) -> u64 {
        self.top.unwrap_or(0)
    }

    /// Accepts a number. False: it was accepted before, or is too far behind the greatest one to be known; such a datagram is refused,
    /// because accepting a replay would count CPU time twice and losing one late datagram costs only resolution.
    fn take(&mut self, number: u64) -> bool {
        match self.top {
            Some(top) if number <= top => {
                let is_new = top - number < BITS && !self.has(number);
                if is_new {
                    self.set(number);
                }
                is_new
            }
            before => {
                // At most one turn of the ring is cleared, so a jump of any length costs no more than that.
                let first = before.map_or(0, |top| top + 1).max(number.saturating_sub(BITS - 1));
                (first..number).for_each(|skipped| self.clear(skipped));
                self.set(number);
                self.top = Some(number);
                true
            }
        }
    }

    fn place(number: u64) -> (usize, u64) {
        let bit = number % BITS;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn has(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.bits[word] & bit != 0
    }

    fn set(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.bits[word] |= bit;
    }

    fn clear(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.bits[word] &= !bit;
    }
}

const TITLE: &str = "cpumon sealed 1";

impl Decryptor {
    /// The text to store, which [`Decryptor::recall`] reads after a restart.
    pub fn memory(&self) -> String {
        let mut text = format!("{TITLE}\n");
        let mut sessions: Vec<_> = self.sessions.iter().collect();
        sessions.sort_by_key(|(id, _)| **id);
        // Writing to a String cannot fail.
        for (id, session) in sessions {
            let _ = writeln!(
                text,
                "heard {} {} {} {} {:032x} {}",
                session.host,
                session.boot,
                id.key,
                id.started_boot_ns,
                u128::from_be_bytes(id.random),
                session.window.top()
            );
        }
        let mut hosts: Vec<_> = self.known.iter().collect();
        hosts.sort_by_key(|(host, _)| **host);
        for (host, known) in hosts {
            for (boot, started) in &known.retired {
                let _ = writeln!(text, "over {host} {boot} {started}");
            }
        }
        text
    }

    /// Takes up what was kept; the keys must be set before. Gives the number of lines that cannot be read.
    pub fn recall(&mut self, text: &str) -> usize {
        let mut lines = text.lines();
        let is_known = lines.next() == Some(TITLE);
        lines.filter(|line| !is_known || self.recall_line(line).is_none()).count() + usize::from(!is_known)
    }

    fn recall_line(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["heard", host, boot, key, started, random, top] => {
                let id = SessionId {
                    key: KeyId(u32::from_str_radix(key, 16).ok()?),
                    started_boot_ns: started.parse().ok()?,
                    random: u128::from_str_radix(random, 16).ok()?.to_be_bytes(),
                };
                let (host, boot) = ids(host, boot)?;
                self.remember(id, host, boot, top.parse().ok()?);
            }
            ["over", host, boot, started] => {
                let (host, boot) = ids(host, boot)?;
                self.note_over(host, boot, started.parse().ok()?);
            }
            _ => return None,
        }
        Some(())
    }
}

fn ids(host: &str, boot: &str) -> Option<(HostId, BootId)> {
    Some((host.parse().ok()?, boot.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_number_is_new_once_in_any_order() {
        let mut window = ReplayWindow::new();
        for number in [0, 3, 1, 2, 9_000, 8_999, 9_000 - BITS + 1] {
            assert!(window.take(number), "{number}");
            assert!(!window.take(number), "{number} again");
        }
        assert!(!window.take(9_000 - BITS), "further back than the window");
        assert!(!window.take(0) && window.take(u64::MAX) && !window.take(u64::MAX));
        let mut loaded = ReplayWindow::up_to(77);
        assert!(!loaded.take(77) && !loaded.take(5) && loaded.take(78) && loaded.take(90) && loaded.take(80));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(steps in prop::collection::vec((0_u64..3_000, any::<bool>()), 1..400)) {
            let (mut window, mut taken, mut top) = (ReplayWindow::new(), HashSet::new(), 0_u64);
            for (step, is_forward) in steps {
                let number = if is_forward { top + step } else { top.saturating_sub(step) };
                let is_in_reach = number >= top || top - number < BITS;
                let expected = is_in_reach && taken.insert(number);
                prop_assert_eq!(window.take(number), expected, "{} with {} on top", number, top);
                top = top.max(number);
            }
        }
    }
}
