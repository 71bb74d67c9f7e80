//! Encrypted datagrams: v2 frames under a group key (ChaCha20-Poly1305). In: frames and a key on the device; datagrams and keys on the
//! receiver. Out: datagrams; frames of holders of a key, each once. Layout: docs/wire-format.md, argument: docs/security.md.
//!
//! Each start of an agent encrypts with a key of its own, derived from the group key, the start's time and 128 random bits,
//! and counts its datagrams from 0: so no two datagrams of a group share key and nonce.

mod decrypt;
mod encrypt;
mod key;
mod memory;
mod replay;

pub use decrypt::{DecryptError, Decryptor, MAX_KEYS};
pub use encrypt::{Encryptor, Exhausted};
pub use key::{GroupKey, KeyId};

use key::SessionId;

use crate::{DecodeError, Reason};

/// The first four bytes. As a v1 name length they are negative, and no v2 frame begins like this.
pub const MAGIC: [u8; 4] = [0x63, 0xb5, 0x6d, 0x73];

/// The version of this layout.
pub const VERSION: u8 = 1;

/// What this program writes before the frame; all of it is authenticated.
pub const HEADER_BYTES: usize = 42;

/// What follows the frame.
pub const TAG_BYTES: usize = 16;

/// What encryption adds to a frame.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;

/// The part that is not encrypted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Header {
    session: SessionId,
    counter: u64,
    /// Its length, unknown fields included.
    bytes: usize,
}

impl Header {
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
        let (fixed, _) = datagram
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(DecodeError::new(datagram.len(), Reason::Truncated))?;
        let bytes = usize::from(fixed[5]);
        if fixed[..4] != MAGIC {
            return Err(DecodeError::new(0, Reason::WrongMagic));
        }
        if fixed[4] != VERSION {
            return Err(DecodeError::new(4, Reason::UnknownVersion));
        }
        // A longer header has fields of a later release; the tag covers them too.
        if bytes < HEADER_BYTES {
            return Err(DecodeError::new(5, Reason::HeaderTooShort));
        }
        if datagram.len() < bytes + TAG_BYTES {
            return Err(DecodeError::new(datagram.len(), Reason::Truncated));
        }
        let mut random = [0; 16];
        random.copy_from_slice(&fixed[18..34]);
        let session = SessionId {
            key: KeyId(u32::from_le_bytes([fixed[6], fixed[7], fixed[8], fixed[9]])),
            started_boot_ns: number(&fixed[10..18]),
            random,
        };
        Ok(Self { session, counter: number(&fixed[34..42]), bytes })
    }
}

/// A little-endian number of at most 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
