//! [`GroupKey`]: a secret of 32 random bytes that receivers and devices of a group share. The keys of agent
//! starts are derived from it (HKDF with SHA-256).

use std::fmt;

use ring::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use ring::digest;
use ring::hkdf::{HKDF_SHA256, Prk, Salt};

/// Keeps these derivations apart from all others.
const SALT: &[u8] = b"cpumon sealed datagrams 1";
const ID_LABEL: &[u8] = b"cpumon group key id 1";

/// Names a key without revealing it: the first four bytes of a hash of it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u32);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// A secret that all devices and receivers of a group have.
#[derive(Clone)]
pub struct GroupKey {
    id: KeyId,
    secret: [u8; 32],
    root: Prk,
}

impl GroupKey {
    /// From 256 random bits.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(ID_LABEL);
        hash.update(&secret);
        let id = hash.finish().as_ref().iter().take(4).fold(0, |id, byte| id << 8 | u32::from(*byte));
        Self { id: KeyId(id), secret, root: Salt::new(HKDF_SHA256, SALT).extract(&secret) }
    }

    /// The name of the key, which may be public.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// What must stay secret, to write it into a key file.
    #[must_use]
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// The key of one start of an agent. `None`: never, the lengths are right.
    pub(super) fn of(&self, session: &SessionId) -> Option<LessSafeKey> {
        let (started, random) = (session.started_boot_ns.to_le_bytes(), session.random);
        let info: [&[u8]; 2] = [&started, &random];
        let derived = self.root.expand(&info, &CHACHA20_POLY1305).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(derived)))
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl PartialEq for GroupKey {
    fn eq(&self, other: &Self) -> bool {
        self.secret == other.secret
    }
}

/// One start of an agent, as its datagrams name it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SessionId {
    pub(super) key: KeyId,
    /// When it began, on the device's `CLOCK_BOOTTIME`, ns: later starts of a boot have more.
    pub(super) started_boot_ns: u64,
    pub(super) random: [u8; 16],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_name_and_does_not_show_itself() {
        let (key, other) = (GroupKey::new([7; 32]), GroupKey::new([8; 32]));
        assert_ne!(key.id(), other.id());
        assert_eq!(key.id(), GroupKey::new([7; 32]).id());
        assert_eq!(format!("{key:?}"), format!("GroupKey {{ id: KeyId({}), .. }}", key.id().0));
    }
}
