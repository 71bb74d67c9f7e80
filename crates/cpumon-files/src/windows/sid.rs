//! [`Sid`]: a security id, the name of a user or group in access lists.

use std::fmt;

/// The bytes: revision, count of parts, authority, parts of 4 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sid(pub Vec<u8>);

impl Sid {
    /// LocalSystem (`S-1-5-18`): the system and services that run as it.
    pub const SYSTEM: &[u8] = &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
    /// The group of administrators (`S-1-5-32-544`).
    pub const ADMINISTRATORS: &[u8] = &[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0];

    /// Whether it is `us`, or may do everything on this machine anyway.
    pub fn is_trusted(&self, us: &Self) -> bool {
        self == us || self.0 == Self::SYSTEM || self.0 == Self::ADMINISTRATORS
    }
}

impl fmt::Display for Sid {
    /// Writes the textual form, such as `S-1-5-32-544`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [revision, _, authority @ ..] = self.0.first_chunk::<8>().unwrap_or(&[0; 8]);
        let authority = authority.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        write!(f, "S-{revision}-{authority}")?;
        let (parts, _) = self.0.get(8..).unwrap_or_default().as_chunks::<4>();
        parts.iter().try_for_each(|part| write!(f, "-{}", u32::from_le_bytes(*part)))
    }
}
