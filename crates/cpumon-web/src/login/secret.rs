//! Secrets, and their digests: what is looked up is never the secret itself.

use std::io;

use sha2::{Digest, Sha256};

/// SHA-256 of a secret, the key under which a session or a verified token is found.
pub(crate) type Digest256 = [u8; 32];

pub(super) fn digest(secret: &str) -> Digest256 {
    Sha256::digest(secret.as_bytes()).into()
}

/// A new secret of 256 random bits, in hexadecimal.
///
/// # Errors
/// The system has no random numbers.
pub fn random_key() -> io::Result<String> {
    let mut secret = [0_u8; 32];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    Ok(hex::encode(secret))
}
