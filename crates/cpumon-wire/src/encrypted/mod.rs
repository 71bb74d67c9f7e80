//! Encrypted datagrams: v2 frames under a group key (ChaCha20-Poly1305). In: frames and a key on the device; datagrams and keys on the
//! receiver. Out: datagrams; frames of holders of a key, each once. Layout: docs/wire-format.md, argument: docs/security.md.
//!
//! Each start of an agent encrypts with a key of its own, derived from the group key, the start's time and 128 random bits,
//! and counts its datagrams from 0: so no two datagrams of a group share key and nonce.

mod decrypt;

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::digest;
use ring::hkdf::{HKDF_SHA256, Prk, Salt};

use crate::fields::{FieldReader, WireField, around_field, in_order};
use crate::{Datagrams, DecodeError, Reason};

pub use self::decrypt::{DecryptError, Decryptor, MAX_KEYS};

/// The first four bytes. As a v1 name length they are negative, and no v2 frame begins like this.
pub const MAGIC: [u8; 4] = [0x63, 0xb5, 0x6d, 0x73];

/// Version of the datagram layout.
pub const VERSION: u8 = 1;

/// Length of the header that this program writes before the frame, bytes; the tag covers the whole header.
pub const HEADER_BYTES: usize = 42;

/// Length of the authentication tag, which follows the frame.
pub const TAG_BYTES: usize = 16;

/// Bytes that encryption adds to a frame.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;

/// The part of a datagram that is not encrypted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct PlainHeader {
    session: SessionId,
    counter: u64,
    /// Length of the header, unknown fields included.
    bytes: usize,
}

impl PlainHeader {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC);
        put(&[VERSION, 42]);
        put(&self.session.key.0.to_le_bytes());
        put(&self.session.started_boot_ns.to_le_bytes());
        put(&self.session.random);
        put(&self.counter.to_le_bytes());
        bytes
    }

    fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let cut = DecodeError::new(datagram.len(), Reason::Truncated);
        let mut fields = FieldReader { rest: datagram.get(..HEADER_BYTES).ok_or(cut)? };
        if fields.take().ok_or(cut)? != MAGIC {
            return Err(DecodeError::new(0, Reason::WrongMagic));
        }
        let [version, bytes] = fields.take().ok_or(cut)?;
        let bytes = usize::from(bytes);
        if version != VERSION {
            return Err(DecodeError::new(4, Reason::UnknownVersion));
        }
        // A longer header has fields of a later release; the tag covers them too.
        if bytes < HEADER_BYTES {
            return Err(DecodeError::new(5, Reason::HeaderTooShort));
        }
        if datagram.len() < bytes + TAG_BYTES {
            return Err(cut);
        }
        let (session, counter) = (WireField::take(&mut fields).ok_or(cut)?, fields.u64().ok_or(cut)?);
        Ok(Self { session, counter, bytes })
    }
}

/// Separates these key derivations from all others.
const SALT: &[u8] = b"cpumon sealed datagrams 1";
const ID_LABEL: &[u8] = b"cpumon group key id 1";

/// Names a key without revealing it: the first four bytes of the key's hash.
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
    /// A key made of 256 random bits.
    pub fn new(secret: [u8; 32]) -> Self {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(ID_LABEL);
        hash.update(&secret);
        let id = hash.finish().as_ref().iter().take(4).fold(0, |id, byte| id << 8 | u32::from(*byte));
        Self { id: KeyId(id), secret, root: Salt::new(HKDF_SHA256, SALT).extract(&secret) }
    }

    /// The name of the key, which may be public.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// What must stay secret, to write it into a key file.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// The key of one start of an agent. `None`: never, the lengths are right.
    fn of(&self, session: &SessionId) -> Option<LessSafeKey> {
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
struct SessionId {
    key: KeyId,
    /// When it began, on the device's `CLOCK_BOOTTIME`, ns: later starts of a boot have more.
    started_boot_ns: u64,
    random: [u8; 16],
}

around_field! { KeyId }
in_order!(SessionId { key, started_boot_ns, random });

/// 2^64 datagrams were encrypted: the next one would repeat a nonce.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("encrypting a datagram: this start of the agent has used up its numbers")]
pub struct Exhausted;

/// Encrypts the datagrams of one start of an agent.
#[derive(Debug)]
pub struct Encryptor {
    session: SessionId,
    key: Option<LessSafeKey>,
    next: u64,
}

impl Encryptor {
    /// `started_boot_ns`: now on `CLOCK_BOOTTIME`; `random`: 128 bits of the operating system, never used before.
    pub fn new(key: &GroupKey, started_boot_ns: u64, random: [u8; 16]) -> Self {
        let session = SessionId { key: key.id(), started_boot_ns, random };
        Self { key: key.of(&session), session, next: 0 }
    }

    /// Encrypts each datagram in its buffer, which grows by [`OVERHEAD_BYTES`].
    ///
    /// # Errors
    /// [`Exhausted`]; then nothing may be sent.
    pub fn encrypt(&mut self, datagrams: &mut Datagrams) -> Result<(), Exhausted> {
        datagrams.as_mut_slice().iter_mut().try_for_each(|datagram| self.encrypt_one(datagram))
    }

    fn encrypt_one(&mut self, datagram: &mut Vec<u8>) -> Result<(), Exhausted> {
        let key = self.key.as_ref().ok_or(Exhausted)?;
        let counter = self.next;
        // Counted before anything can fail, so no number is ever used for two datagrams.
        self.next = counter.checked_add(1).ok_or(Exhausted)?;
        let header = PlainHeader { session: self.session, counter, bytes: HEADER_BYTES }.encode();
        datagram.splice(0..0, header);
        let tag = key
            .seal_in_place_separate_tag(nonce(counter), Aad::from(header), &mut datagram[HEADER_BYTES..])
            .map_err(|_| Exhausted)?;
        datagram.extend_from_slice(tag.as_ref());
        Ok(())
    }
}

/// The number of the datagram; the key is of one start only.
fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
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

    #[test]
    fn numbers_are_used_up_and_never_begin_again() {
        let mut encryptor = Encryptor::new(&GroupKey::new([1; 32]), 5, [2; 16]);
        encryptor.next = u64::MAX - 1;
        let mut two = Datagrams::from(vec![vec![1], vec![1]]);
        assert_eq!(encryptor.encrypt(&mut two), Err(Exhausted));
        assert_eq!(encryptor.encrypt(&mut Datagrams::from(vec![vec![1]])), Err(Exhausted));
    }

    #[test]
    fn the_same_frame_is_never_encrypted_to_the_same_bytes() {
        let key = GroupKey::new([1; 32]);
        let encrypted = |mut encryptor: Encryptor| {
            let mut datagrams = Datagrams::from(vec![vec![7; 64], vec![7; 64]]);
            encryptor.encrypt(&mut datagrams).unwrap();
            datagrams.as_slice().to_vec()
        };
        let mut all = encrypted(Encryptor::new(&key, 5, [2; 16]));
        all.extend(encrypted(Encryptor::new(&key, 6, [2; 16])));
        all.extend(encrypted(Encryptor::new(&key, 5, [3; 16])));
        let mut bodies: Vec<&[u8]> = all.iter().map(|one| &one[HEADER_BYTES..]).collect();
        bodies.sort_unstable();
        bodies.dedup();
        assert_eq!(bodies.len(), 6);
        assert!(all.iter().all(|one| one.len() == 64 + OVERHEAD_BYTES));
    }
}
