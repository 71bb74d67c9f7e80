//! How a connection ends: shared by the listener and by enrolment.

use std::time::{Duration, Instant};

use cpumon_link::tls::TlsError;
use cpumon_link::tls::pipe::Pipe;
use cpumon_wire::connection::ByeReason;

use super::handler::Refusal;
use crate::enrollment::EnrollmentError;

/// How often an idle thread checks whether it is to end, or its device was revoked.
pub(crate) const CHECK_EVERY: Duration = Duration::from_millis(250);
/// How long sending the last message may take.
const GOODBYE: Duration = Duration::from_millis(250);

pub(crate) enum End {
    /// The device closed it, or the network did.
    Gone,
    /// This side ended it.
    Bye(Refusal),
}

impl From<TlsError> for End {
    fn from(error: TlsError) -> Self {
        match error {
            // A request for a certificate that cannot be read is one of the last kind.
            TlsError::Message(_) | TlsError::Protocol(_) | TlsError::Crypto { .. } => {
                Self::Bye(Refusal { reason: ByeReason::Protocol, text: error.to_string() })
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

impl From<EnrollmentError> for End {
    fn from(error: EnrollmentError) -> Self {
        match error {
            EnrollmentError::Tls(error) => error.into(),
            EnrollmentError::TokenRefused(_) | EnrollmentError::WasRevoked => {
                bye(ByeReason::Token, &error.to_string())
            }
            _ => bye(ByeReason::Protocol, &error.to_string()),
        }
    }
}

pub(crate) fn bye(reason: ByeReason, text: &str) -> End {
    End::Bye(refusal(reason, text))
}

pub(super) fn refusal(reason: ByeReason, text: &str) -> Refusal {
    Refusal { reason, text: text.to_owned() }
}

/// Sends what there is, as far as the other side takes it in a moment.
pub(crate) fn flush(pipe: &mut Pipe) {
    let end = Instant::now() + GOODBYE;
    // Nothing is read: the end is decided, and what comes now changes nothing.
    while pipe.pump(false).is_ok() && (pipe.tls.wants_write() || !pipe.outbox.is_empty()) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || pipe.wait(left, false, None).is_err() {
            return;
        }
    }
}
