//! Ids that are stable and reveal nothing: hashes of what the system keeps about itself.

use sha2::{Digest, Sha256};

/// Mixed into every hash, so that a host id cannot be compared with what other programs derive from the machine id.
const HASH_CONTEXT: &[u8] = b"cpumon host id 1\0";

/// 16 bytes of the hash of `content`; different kinds of content never give the same.
pub(crate) fn hashed(kind: &[u8], content: &[u8]) -> [u8; 16] {
    let digest = Sha256::new().chain_update(HASH_CONTEXT).chain_update(kind).chain_update(content).finalize();
    let mut id = [0; 16];
    id.iter_mut().zip(digest.iter()).for_each(|(to, from)| *to = *from);
    id
}
