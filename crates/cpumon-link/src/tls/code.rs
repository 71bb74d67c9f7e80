//! The code by which a user verifies that no one is between a device and a receiver: ten digits made from both keys, the
//! device's name and id, and a nonce of each side. Without nonces an attacker in between could search for a key that gives the
//! same code; so the device commits to its nonce before it knows the receiver's (docs/discovery.md).

use std::fmt;
use std::str::FromStr;

use super::TlsError;
use super::crypto::sha256;

const CODES: u64 = 10_000_000_000;

/// Ten digits, shown as `12345-67890`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Code(u64);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:05}-{:05}", self.0 / 100_000, self.0 % 100_000)
    }
}

impl FromStr for Code {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        let digits: String = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
        let is_code = digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let code = if is_code { digits.parse().ok() } else { None };
        code.map(Self).ok_or_else(|| TlsError::Code(text.chars().take(40).collect()))
    }
}

/// What the code is made from: who talks to whom.
#[derive(Clone, Debug)]
pub struct Transcript<'a> {
    /// Hash of the device's key.
    pub device: [u8; 32],
    /// The receiver's pin.
    pub pin: [u8; 32],
    /// The device's host id.
    pub host: [u8; 16],
    /// The name that the device gives.
    pub name: &'a str,
}

impl Transcript<'_> {
    fn hash(&self, context: &[u8], nonces: &[&[u8; 32]]) -> [u8; 32] {
        let name_bytes = u16::try_from(self.name.len()).unwrap_or(u16::MAX).to_le_bytes();
        let mut bytes =
            [context, &self.device, &self.pin, &self.host, &name_bytes, self.name.as_bytes()].concat();
        bytes.extend(nonces.iter().copied().flatten());
        sha256(&bytes)
    }

    /// The hash by which the device is bound to its nonce before it knows the receiver's.
    #[must_use]
    pub fn commitment(&self, device_nonce: &[u8; 32]) -> [u8; 32] {
        self.hash(b"cpumon commitment 1\0", &[device_nonce])
    }

    /// The code that both sides show.
    #[must_use]
    pub fn code(&self, device_nonce: &[u8; 32], receiver_nonce: &[u8; 32]) -> Code {
        let hash = self.hash(b"cpumon code 2\0", &[device_nonce, receiver_nonce]);
        let number = hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        Code(number % CODES)
    }
}

/// What people compare of a receiver's key: the first half of its pin, 32 digits.
#[must_use]
pub fn fingerprint(pin: &[u8; 32]) -> String {
    hex::encode(&pin[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_it_is_shown_and_nothing_else_is() {
        let code = Code(1_234_567);
        assert_eq!(code.to_string(), "00012-34567");
        for text in ["00012-34567", "0001234567", " 00012 34567"] {
            assert_eq!(text.parse::<Code>().unwrap(), code);
        }
        for wrong in ["", "0123-4567", "00012-345678", "00012-3456x", "+001234567", "name"] {
            assert!(wrong.parse::<Code>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_part_of_who_talks_to_whom_changes_the_code() {
        let one = Transcript { device: [1; 32], pin: [2; 32], host: [3; 16], name: "dev" };
        let others = [
            Transcript { device: [9; 32], ..one.clone() },
            Transcript { pin: [9; 32], ..one.clone() },
            Transcript { host: [9; 16], ..one.clone() },
            Transcript { name: "dev2", ..one.clone() },
        ];
        let (device, receiver) = ([4; 32], [5; 32]);
        for other in &others {
            assert_ne!(other.code(&device, &receiver), one.code(&device, &receiver), "{other:?}");
            assert_ne!(other.commitment(&device), one.commitment(&device), "{other:?}");
        }
        assert_ne!(one.code(&receiver, &device), one.code(&device, &receiver));
        assert_eq!(fingerprint(&[0xab; 32]), "ab".repeat(16));
    }
}
