//! From an address to a TLS connection whose handshake is done, within a time limit.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpumon_wire::connection::Message;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ClientConnection, InvalidMessage};

use super::TlsError;
use super::crypto::RECEIVER_NAME;
use super::pipe::Pipe;

/// How long connecting and the handshake may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Connects to a receiver; the handshake is done when this returns.
///
/// # Errors
/// The receiver cannot be reached within 5 s, or its key is not the pinned one.
pub fn connect(address: &str, config: ClientConfig) -> Result<Pipe, TlsError> {
    let failed = |error| TlsError::Connect { address: address.to_owned(), error };
    let deadline = Instant::now() + LIMIT;
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    let socket = address.to_socket_addrs().map_err(failed)?.find_map(|address| {
        // Half of the limit for each address, so that one silent address does not use up the whole limit.
        TcpStream::connect_timeout(&address, LIMIT / 2).map_err(|error| last = error).ok()
    });
    let socket = socket.ok_or(last).map_err(failed)?;
    let name = ServerName::try_from(RECEIVER_NAME).map_err(TlsError::crypto("name the receiver"))?;
    let tls = ClientConnection::new(Arc::new(config), name)?;
    let mut pipe = Pipe::new(socket, tls.into())?;
    shake_hands(&mut pipe, deadline).map_err(|error| match error {
        // `Pinned` gives this error where the pinned key is not in the chain.
        TlsError::Tls(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            TlsError::WrongKey { address: address.to_owned() }
        }
        TlsError::Tls(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => TlsError::NotTls,
        other => other,
    })?;
    Ok(pipe)
}

/// Reads and writes until the handshake is done.
///
/// # Errors
/// The connection breaks, TLS refuses the other side, or `deadline` has passed.
pub fn shake_hands(pipe: &mut Pipe, deadline: Instant) -> Result<(), TlsError> {
    pipe.pump(true)?;
    while pipe.tls.is_handshaking() || pipe.tls.wants_write() {
        pump_until(pipe, deadline)?;
    }
    Ok(())
}

/// Waits for a message of at most `most` bytes from which `take` makes something; `None` is one of an unknown type.
///
/// # Errors
/// The connection breaks, `take` fails, or `deadline` has passed.
pub fn await_message<T>(
    pipe: &mut Pipe,
    deadline: Instant,
    most: usize,
    mut take: impl FnMut(Option<Message<'_>>) -> Result<Option<T>, TlsError>,
) -> Result<T, TlsError> {
    loop {
        while let Some(bytes) = pipe.next_message(most)? {
            if let Some(taken) = take(Message::decode(bytes)?)? {
                return Ok(taken);
            }
        }
        pump_until(pipe, deadline)?;
    }
}

/// Waits for what comes next, and reads and writes it.
fn pump_until(pipe: &mut Pipe, deadline: Instant) -> Result<(), TlsError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(TlsError::Silent { seconds: LIMIT.as_secs() });
    }
    pipe.wait(left, true, None)?;
    pipe.pump(true)
}
