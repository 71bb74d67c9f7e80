//! [`Encryptor`]: encrypts frames in their buffers, with a key that belongs to one start of the agent.

use ring::aead::{Aad, LessSafeKey, Nonce};

use super::key::SessionId;
use super::{GroupKey, HEADER_BYTES, Header};
use crate::Datagrams;

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
    #[must_use]
    pub fn new(key: &GroupKey, started_boot_ns: u64, random: [u8; 16]) -> Self {
        let session = SessionId { key: key.id(), started_boot_ns, random };
        Self { key: key.of(&session), session, next: 0 }
    }

    /// Encrypts each datagram in its buffer, which grows by [`OVERHEAD_BYTES`](super::OVERHEAD_BYTES).
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
        let header = Header { session: self.session, counter, bytes: HEADER_BYTES }.encode();
        datagram.splice(0..0, header);
        let tag = key
            .seal_in_place_separate_tag(nonce(counter), Aad::from(header), &mut datagram[HEADER_BYTES..])
            .map_err(|_| Exhausted)?;
        datagram.extend_from_slice(tag.as_ref());
        Ok(())
    }
}

/// The number of the datagram; the key is of one start only.
pub(super) fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(all.iter().all(|one| one.len() == 64 + super::super::OVERHEAD_BYTES));
    }
}
