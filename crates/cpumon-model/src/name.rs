//! [`Comm`]: the kernel's 15-byte task name, inline, so that a sample needs no allocation.

use std::borrow::Cow;
use std::fmt;

/// A task's name as the kernel keeps it (`comm`, proc(5)): at most 15 bytes, any bytes but NUL, changeable at any time.
#[derive(Copy, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm {
    bytes: [u8; Self::MAX_BYTES],
    len: u8,
}

impl Comm {
    /// The kernel's `TASK_COMM_LEN` less its terminating NUL.
    pub const MAX_BYTES: usize = 15;

    /// Takes bytes up to the first NUL, at most 15 of them.
    #[must_use]
    pub fn new(raw: &[u8]) -> Self {
        let len =
            raw.iter().take(Self::MAX_BYTES).position(|&b| b == 0).unwrap_or(raw.len().min(Self::MAX_BYTES));
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[..len].copy_from_slice(&raw[..len]);
        // What is behind the name stays 0, so that the derived comparisons see the name alone.
        Self { bytes, len: len.try_into().unwrap_or(0) }
    }

    /// The bytes, without a terminator.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// As text; invalid UTF-8 becomes U+FFFD. Hostile: escape it with [`crate::escape`] before a terminal sees it.
    #[must_use]
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.as_bytes())
    }

    /// Whether there is no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comm({:?})", self.to_str_lossy())
    }
}

impl From<&str> for Comm {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_nul_and_at_fifteen_bytes() {
        assert_eq!(Comm::new(b"bash\0garbage").as_bytes(), b"bash");
        assert_eq!(Comm::new(b"0123456789abcdefXYZ").as_bytes(), b"0123456789abcde");
        assert!(Comm::new(b"\0x").is_empty());
        assert!(Comm::new(b"").is_empty());
    }
}
