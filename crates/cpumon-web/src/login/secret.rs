//! Digests of secrets: what is looked up is never the secret itself.

use sha2::{Digest, Sha256};

/// SHA-256 of a secret, the key under which a session or a verified token is found.
pub(crate) type Digest256 = [u8; 32];

pub(super) fn digest(secret: &str) -> Digest256 {
    Sha256::digest(secret.as_bytes()).into()
}
