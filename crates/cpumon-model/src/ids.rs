//! Identity. Never a bare pid: pids are reused, so a task is its number *and* its start time.

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
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct ProcessKey {
    /// Process id as users know it (the kernel: thread group id).
    pub pid: u32,
    /// Start of the process, ns since boot (`CLOCK_BOOTTIME`); 0 where the sender does not know it (v1).
    pub start_ns: u64,
}

/// A thread under a host and boot.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
}
