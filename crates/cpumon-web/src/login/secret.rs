//! Digests of secrets: what is looked up is never the secret itself.

use sha2::{Digest, Sha256};

/// SHA-256 of a secret, the key under which a session or a verified token is found.
pub(crate) type Digest256 = [u8; 32];

pub(super) fn digest(secret: &str) -> Digest256 {
    Sha256::digest(secret.as_bytes()).into()
}

/// Two lower-case hexadecimal digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
