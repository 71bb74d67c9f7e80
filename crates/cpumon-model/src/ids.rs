//! Identity and names. Never a bare pid: pids are reused, so a task is its number *and* its start time. [`Comm`] is the kernel's 15-byte
//! task name, inline, so that a sample needs no allocation.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A machine, stable over reboots: derived from `/etc/machine-id` (machine-id(5)) without revealing it.
#[derive(Copy, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub [u8; 16]);

/// One boot of a machine: `/proc/sys/kernel/random/boot_id` (random(4)). All zero where the sender names none (v1).
#[derive(Copy, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BootId(pub [u8; 16]);

/// A process (thread group) under a host and boot.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
// Each row of a thread has two keys: packed, it is 8 bytes shorter.
#[repr(Rust, packed(4))]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct ProcessKey {
    /// Process id as users know it (the kernel: thread group id).
    pub pid: u32,
    /// Start of the process, ns since boot (`CLOCK_BOOTTIME`); 0 where the sender does not know it (v1).
    pub start_ns: u64,
}

/// A thread under a host and boot.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(Rust, packed(4))]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct ThreadKey {
    /// Thread id (gettid(2)).
    pub tid: u32,
    /// Start of the thread, ns since boot (`CLOCK_BOOTTIME`); 0 where the sender does not know it (v1).
    pub start_ns: u64,
}

/// A text that is not 32 hexadecimal digits (dashes allowed).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an id: expected 32 hexadecimal digits, dashes allowed")]
pub struct ParseIdError {
    text: String,
}

fn parse_hex16(text: &str) -> Result<[u8; 16], ParseIdError> {
    let error = || ParseIdError { text: text.chars().take(64).collect() };
    let mut bytes = [0_u8; 16];
    let mut count = 0_usize;
    for c in text.trim().chars().filter(|&c| c != '-') {
        let digit = c.to_digit(16).and_then(|d| u8::try_from(d).ok()).ok_or_else(error)?;
        // More than 32 digits end here.
        let byte = bytes.get_mut(count / 2).ok_or_else(error)?;
        *byte = *byte << 4 | digit;
        count += 1;
    }
    if count == 32 { Ok(bytes) } else { Err(error()) }
}

macro_rules! id_text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                parse_hex16(text).map(Self)
            }
        }
    };
}
id_text!(HostId);
id_text!(BootId);

/// A task's name as the kernel keeps it (`comm`, proc(5)): at most 15 bytes, any bytes but NUL, changeable at any time.
#[derive(Copy, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm {
    bytes: [u8; Self::MAX_BYTES],
    len: u8,
}

impl Comm {
    /// The kernel's `TASK_COMM_LEN` less its terminating NUL.
    pub const MAX_BYTES: usize = 15;

    /// Takes the bytes up to the first NUL, at most 15 bytes.
    pub fn new(raw: &[u8]) -> Self {
        let len =
            raw.iter().take(Self::MAX_BYTES).position(|&b| b == 0).unwrap_or(raw.len().min(Self::MAX_BYTES));
        let mut bytes = [0; Self::MAX_BYTES];
        bytes[..len].copy_from_slice(&raw[..len]);
        // The bytes behind the name stay 0, so that the derived comparisons see the name alone.
        Self { bytes, len: len.try_into().unwrap_or(0) }
    }

    /// The bytes, without a terminator.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// As text; invalid UTF-8 becomes U+FFFD. Hostile: escape it with [`crate::escape`] before a terminal sees it.
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.as_bytes())
    }

    /// Whether there is no name.
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
    fn an_id_survives_its_text() {
        let id: BootId = "3b2c7a9e-0f1d-4c5b-8a69-778899aabbcc\n".parse().unwrap();
        assert_eq!(id.to_string(), "3b2c7a9e0f1d4c5b8a69778899aabbcc");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn too_short_too_long_and_non_hex_are_refused() {
        for text in ["", "12", "3b2c7a9e0f1d4c5b8a69778899aabbc", "3b2c7a9e0f1d4c5b8a69778899aabbccd", "zz"] {
            assert!(text.parse::<HostId>().is_err(), "{text}");
        }
    }

    #[test]
    fn stops_at_nul_and_at_fifteen_bytes() {
        assert_eq!(Comm::new(b"bash\0garbage").as_bytes(), b"bash");
        assert_eq!(Comm::new(b"0123456789abcdefXYZ").as_bytes(), b"0123456789abcde");
        assert!(Comm::new(b"\0x").is_empty());
        assert!(Comm::new(b"").is_empty());
    }
}
