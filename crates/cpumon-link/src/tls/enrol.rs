//! Enrolment: a device gets its certificate, with a token or with the user's consent. It uses a connection of its own, because
//! the device has no certificate yet; the pin identifies the receiver.

use std::path::Path;
use std::time::{Duration, Instant};

use cpumon_wire::connection::{ALPN_ENROL, MAX_SMALL_MESSAGE_BYTES, Message};

use super::code::Transcript;
use super::connect::{await_message, connect};
use super::identity::{NewKey, pinned_builder};
use super::pipe::Pipe;
use super::{Code, DeviceIdentity, TlsError, Token};

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
    let mut config = pinned_builder(token.pin)?.with_no_client_auth();
    config.alpn_protocols = vec![ALPN_ENROL.to_vec()];
    let mut pipe = connect(address, config)?;
    Message::Enrol { secret: token.secret, host, name, request: &key.request_der }.push(&mut pipe.outbox);
    pipe.pump(true)?;
    let certificate = await_message(&mut pipe, Instant::now() + LIMIT, MAX_SMALL_MESSAGE_BYTES, |bytes| {
        match Message::decode(bytes)? {
            Some(Message::Certificate { der }) => Ok(Some(der.to_vec())),
            Some(Message::Bye { reason, text }) => Err(TlsError::Bye { reason, text: text.to_owned() }),
            None => Ok(None),
            Some(_) => Err(TlsError::Protocol("the receiver answers with something else than a certificate")),
        }
    })?;
    pipe.close();
    DeviceIdentity::create(dir, address, token.pin, key, &certificate)
}

/// A receiver that a device asks for a certificate.
#[derive(Copy, Clone, Debug)]
pub struct AskedReceiver<'a> {
    /// `host:port`; the first one that answers is used.
    pub addresses: &'a [String],
    /// SHA-256 of the public key that signs the receiver's certificates.
    pub pin: [u8; 32],
}

/// The device that asks.
#[derive(Copy, Clone, Debug)]
pub struct AskingDevice<'a> {
    /// The device's host id.
    pub host: [u8; 16],
    /// The name that the receiver's user sees, cut to 255 bytes.
    pub name: &'a str,
}

/// Asks the user of the receiver with this pin to let this device in, and keeps the identity in `dir`. `show` gets the code as soon as
/// it is known; `agree` is asked when the receiver says yes: whether its user entered that code. Of `addresses` the first that answers.
///
/// # Errors
/// The receiver cannot be reached, has another key, or does not let this device in; or the user of this device does not agree.
pub fn ask(
    dir: &Path,
    receiver: AskedReceiver<'_>,
    device: AskingDevice<'_>,
    show: &mut dyn FnMut(Code),
    agree: &mut dyn FnMut(Code) -> bool,
) -> Result<DeviceIdentity, TlsError> {
    super::files::make_dir(dir)?;
    let key = NewKey::make()?;
    let (AskedReceiver { addresses, pin }, AskingDevice { host, name }) = (receiver, device);
    let (address, mut pipe) = reach(addresses, pin)?;
    // As it will be read at the other end.
    let name = &name[..name.floor_char_boundary(255.min(name.len()))];
    let (transcript, nonce) = (Transcript { device: key.hash, pin, host, name }, super::random()?);
    let commitment = transcript.commitment(&nonce);
    Message::Ask { commitment, host, name, request: &key.request_der }.push(&mut pipe.outbox);
    pipe.pump(true)?;
    let receiver_nonce = answer(&mut pipe, LIMIT, |message| match message {
        Message::Challenge { nonce } => Some(nonce),
        _ => None,
    })?;
    Message::Reveal { nonce }.push(&mut pipe.outbox);
    pipe.pump(true)?;
    let code = transcript.code(&nonce, &receiver_nonce);
    show(code);
    let certificate = loop {
        let word = answer(&mut pipe, SILENCE, |message| match message {
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

fn reach(addresses: &[String], pin: [u8; 32]) -> Result<(&str, Pipe), TlsError> {
    let mut last = TlsError::Protocol("the receiver says no address");
    for address in addresses {
        let mut config = pinned_builder(pin)?.with_no_client_auth();
        config.alpn_protocols = vec![ALPN_ENROL.to_vec()];
        match connect(address, config) {
            Ok(pipe) => return Ok((address, pipe)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The next message, which must be one that `take` knows.
fn answer<T>(
    pipe: &mut Pipe,
    limit: Duration,
    take: impl Fn(Message<'_>) -> Option<T>,
) -> Result<T, TlsError> {
    await_message(pipe, Instant::now() + limit, MAX_SMALL_MESSAGE_BYTES, |bytes| {
        match Message::decode(bytes)? {
            Some(Message::Bye { reason, text }) => Err(TlsError::Bye { reason, text: text.to_owned() }),
            Some(message) => take(message)
                .map(Some)
                .ok_or(TlsError::Protocol("the receiver says something else than expected")),
            None => Ok(None),
        }
    })
}
