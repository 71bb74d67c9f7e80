//! The receiver's side of connections with enrolled devices (TLS), and how one ends. `serve` accepts them, within the limits of `server`,
//! each on a thread; `consent` is the wait for a user who lets a device in. `session` takes the records of a device to the hub and the
//! store, `channel` by `channel`.

mod channel;
mod consent;
mod serve;
mod server;
mod session;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use cpumon_link::tls::TlsError;
use cpumon_link::tls::pipe::Pipe;
use cpumon_wire::connection::ByeReason;

use crate::enrolment::EnrolmentError;

pub use self::serve::{DeviceListener, leave_address};
pub use self::server::DeviceServer;

/// Polled during long work; an error aborts the work and closes the connection: the receiver stops, the device was revoked, or it has
/// connected again.
type AbortCheck<'a> = &'a mut dyn FnMut() -> Result<(), End>;

/// How often an idle thread checks whether it is to end, or its device was revoked.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// How long sending the last message may take.
const GOODBYE: Duration = Duration::from_millis(250);

/// Why a device's connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The device closed it, or the network did.
    Gone,
    /// This side ends it: why, for the program and for people.
    Bye(ByeReason, String),
}

impl From<TlsError> for End {
    fn from(error: TlsError) -> Self {
        match error {
            // A request for a certificate that cannot be read is one of the last kind.
            TlsError::Message(_) | TlsError::Protocol(_) | TlsError::Crypto { .. } => {
                bye(ByeReason::Protocol, &error.to_string())
            }
            TlsError::File { .. } => {
                log::warn!("cannot enrol: {error}");
                bye(ByeReason::Busy, "the receiver cannot keep the enrolment")
            }
            // The socket or TLS failed, so no last message can be sent.
            _ => Self::Gone,
        }
    }
}

impl From<EnrolmentError> for End {
    fn from(error: EnrolmentError) -> Self {
        match error {
            EnrolmentError::Tls(error) => error.into(),
            EnrolmentError::TokenRefused(_) | EnrolmentError::WasRevoked => {
                bye(ByeReason::Token, &error.to_string())
            }
            _ => bye(ByeReason::Protocol, &error.to_string()),
        }
    }
}

pub fn bye(reason: ByeReason, text: &str) -> End {
    End::Bye(reason, text.to_owned())
}

/// Sends what there is, as far as the other side takes it in a moment.
fn flush(pipe: &mut Pipe) {
    let end = Instant::now() + GOODBYE;
    // Nothing is read: the end is decided, and what comes now changes nothing.
    while pipe.pump(false).is_ok() && (pipe.tls.wants_write() || !pipe.outbox.is_empty()) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || pipe.wait(left, false, None).is_err() {
            return;
        }
    }
}
