//! A device gets its certificate. In: the receiver's address and a token. Out: an identity in the state directory. Why a
//! connection of its own: the device has nothing yet to show but the token, and the pin in it tells the receiver.

use std::path::Path;
use std::time::{Duration, Instant};

use cpumon_wire::stream::{ALPN_ENROL, MAX_SMALL_MESSAGE_BYTES, Message};

use super::connect::{await_message, connect};
use super::identity::{NewKey, pinned_builder};
use super::{DeviceIdentity, TlsError, Token};

/// How long the receiver may take to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Enrols this device with the receiver at `address` and keeps the identity in `dir`.
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
    // The directory first: a token must not be used up for a certificate that cannot be kept.
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
    DeviceIdentity::create(dir, address, token, key, &certificate)
}
