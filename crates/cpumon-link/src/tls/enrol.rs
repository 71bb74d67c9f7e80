//! Enrolment: a device gets its certificate, with a [`Token`] or with the user's consent. It uses a connection of its own, because
//! the device has no certificate yet; the pin identifies the receiver.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cpumon_wire::connection::{ALPN_ENROL, MAX_SMALL_MESSAGE_BYTES, Message};

use super::connect::{await_message, connect};
use super::crypto::sha256;
use super::identity::{NewKey, pinned_builder};
use super::pipe::Pipe;
use super::{DeviceIdentity, TlsError};

/// How long the receiver may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
/// A receiver that is silent for so long while the user thinks is gone.
const SILENCE: Duration = Duration::from_secs(15);

/// Enrols this device with the receiver at `address` and stores the identity in `dir`.
///
/// # Errors
/// The receiver cannot be reached, is not the one of the token, or does not take the token.
pub fn enroll(
    dir: &Path,
    address: &str,
    token: &Token,
    host: [u8; 16],
    name: &str,
) -> Result<DeviceIdentity, TlsError> {
    // The directory first: a token must not be used up for a certificate that cannot be stored.
    super::files::make_dir(dir)?;
    let key = NewKey::make()?;
    let mut pipe = open(address, token.pin)?;
    Message::Enrol { secret: token.secret, host, name, request: &key.request_der }.push(&mut pipe.outbox);
    pipe.pump(true)?;
    let other = "the receiver answers with something else than a certificate";
    let certificate = answer(&mut pipe, LIMIT, other, |message| match message {
        Message::Certificate { der } => Some(der.to_vec()),
        _ => None,
    })?;
    pipe.close();
    DeviceIdentity::create(dir, address, token.pin, key, &certificate)
}

/// Asks the user of the receiver with this pin to let this device in, and keeps the identity in `dir`. Of `addresses` (`host:port`) the
/// first that answers is used. The user sees `name`, cut to 255 bytes. `show` gets the code as soon as it is known; `agree` is asked
/// when the receiver says yes: whether its user entered that code.
///
/// # Errors
/// The receiver cannot be reached, has another key, or does not let this device in; or the user of this device does not agree.
pub fn ask(
    dir: &Path,
    addresses: &[String],
    pin: [u8; 32],
    host: [u8; 16],
    name: &str,
    show: &mut dyn FnMut(Code),
    agree: &mut dyn FnMut(Code) -> bool,
) -> Result<DeviceIdentity, TlsError> {
    super::files::make_dir(dir)?;
    let key = NewKey::make()?;
    let (address, mut pipe) = reach(addresses, pin)?;
    // As it will be read at the other end.
    let name = &name[..name.floor_char_boundary(255.min(name.len()))];
    let (transcript, nonce) = (Transcript { device: key.hash, pin, host, name }, super::random()?);
    let commitment = transcript.commitment(&nonce);
    Message::Ask { commitment, host, name, request: &key.request_der }.push(&mut pipe.outbox);
    pipe.pump(true)?;
    let receiver_nonce = answer(&mut pipe, LIMIT, UNEXPECTED, |message| match message {
        Message::Challenge { nonce } => Some(nonce),
        _ => None,
    })?;
    Message::Reveal { nonce }.push(&mut pipe.outbox);
    pipe.pump(true)?;
    let code = transcript.code(&nonce, &receiver_nonce);
    show(code);
    let certificate = loop {
        let word = answer(&mut pipe, SILENCE, UNEXPECTED, |message| match message {
            Message::Waiting { .. } => Some(None),
            Message::Certificate { der } => Some(Some(der.to_vec())),
            _ => None,
        })?;
        if let Some(certificate) = word {
            break certificate;
        }
    };
    pipe.close();
    // A false receiver can send a certificate at once: only the user knows whether the code was entered.
    if !agree(code) {
        return Err(TlsError::NotAgreed);
    }
    DeviceIdentity::create(dir, address, pin, key, &certificate)
}

/// Opens a connection for enrolment, without a client certificate.
fn open(address: &str, pin: [u8; 32]) -> Result<Pipe, TlsError> {
    let mut config = pinned_builder(pin)?.with_no_client_auth();
    config.alpn_protocols = vec![ALPN_ENROL.to_vec()];
    connect(address, config)
}

fn reach(addresses: &[String], pin: [u8; 32]) -> Result<(&str, Pipe), TlsError> {
    let mut last = TlsError::Protocol("the receiver says no address");
    let reached = addresses.iter().find_map(|address| {
        let opened = open(address, pin).map_err(|error| last = error);
        Some((address.as_str(), opened.ok()?))
    });
    reached.ok_or(last)
}

const UNEXPECTED: &str = "the receiver says something else than expected";

/// The next message, which must be one that `take` knows; `other`: the error if it is not.
fn answer<T>(
    pipe: &mut Pipe,
    limit: Duration,
    other: &'static str,
    take: impl Fn(Message<'_>) -> Option<T>,
) -> Result<T, TlsError> {
    await_message(pipe, Instant::now() + limit, MAX_SMALL_MESSAGE_BYTES, |message| match message {
        Some(Message::Bye { reason, text }) => Err(TlsError::Bye { reason, text: text.to_owned() }),
        Some(message) => take(message).map(Some).ok_or(TlsError::Protocol(other)),
        None => Ok(None),
    })
}

const CODES: u64 = 10_000_000_000;

/// The code by which a user verifies that no one is between a device and a receiver: ten digits, shown as `12345-67890`, made from both
/// keys, the device's name and id, and a nonce of each side. Without nonces an attacker in between could search for a key that gives the
/// same code; so the device commits to its nonce before it knows the receiver's (docs/discovery.md).
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

/// Input of the code besides the nonces: the keys of both sides, and the device's id and name.
#[derive(Clone, Debug)]
pub struct Transcript<'a> {
    /// SHA-256 of the device's public key.
    pub device: [u8; 32],
    pub pin: [u8; 32],
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
    pub fn commitment(&self, device_nonce: &[u8; 32]) -> [u8; 32] {
        self.hash(b"cpumon commitment 1\0", &[device_nonce])
    }

    /// The code that both sides show.
    pub fn code(&self, device_nonce: &[u8; 32], receiver_nonce: &[u8; 32]) -> Code {
        let hash = self.hash(b"cpumon code 2\0", &[device_nonce, receiver_nonce]);
        let number = hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        Code(number % CODES)
    }
}

/// What people compare of a receiver's key: the first half of its pin, 32 digits.
pub fn fingerprint(pin: &[u8; 32]) -> String {
    hex::encode(&pin[..16])
}

const PREFIX: &str = "cpumon1.";

/// A receiver's pin and a secret that is good for one enrolment.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// SHA-256 of the public key that signs the receiver's certificates.
    pub pin: [u8; 32],
    /// 256 random bits.
    pub secret: [u8; 32],
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [self.pin, self.secret].concat();
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Token {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        let coded =
            text.trim().strip_prefix(PREFIX).ok_or(TlsError::Token("it does not begin with cpumon1."))?;
        let bytes = URL_SAFE_NO_PAD.decode(coded).map_err(|_| TlsError::Token("it is not whole"))?;
        match bytes.as_chunks::<32>() {
            ([pin, secret], []) => Ok(Self { pin: *pin, secret: *secret }),
            _ => Err(TlsError::Token("it is not whole")),
        }
    }
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

    #[test]
    fn a_token_survives_pasting_and_shows_nothing_in_logs() {
        let token = Token { pin: [1; 32], secret: [0xfe; 32] };
        let text = token.to_string();
        assert_eq!(format!(" {text}\n").parse::<Token>().unwrap(), token);
        assert!(!text.contains(' ') && text.len() == 94);
        assert_eq!(format!("{token:?}"), "Token { .. }");
    }

    #[test]
    fn what_was_cut_is_refused() {
        let text = Token { pin: [1; 32], secret: [2; 32] }.to_string();
        for wrong in ["", "cpumon1.", &text[1..], &text[..text.len() - 1], &format!("{text}AAAA")] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
    }
}
