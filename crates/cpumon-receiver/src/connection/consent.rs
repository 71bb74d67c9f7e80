//! A device without a token asks to be let in, and gets its certificate when the user has entered the code
//! that it shows. What strangers cost here is bounded: how many wait, of one address, for how long, and how
//! often they may try.

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cpumon_files::AuditEvent;
use cpumon_link::tls::connect::await_message;
use cpumon_link::tls::pipe::Pipe;
use cpumon_link::tls::{TlsError, Transcript, random};
use cpumon_model::limits::{Limiter, Overflow, Place, Rate};
use cpumon_wire::connection::{ByeReason, MAX_SMALL_MESSAGE_BYTES, Message};

use super::server::{DeviceServer, DeviceTurn};
use super::{CHECK_EVERY, End, bye};
use crate::counts::MAX_SOURCES;
use crate::enrolment::{Decision, PendingRequest, REQUEST_WAITS, ShownRequest, key_of_request, named_host};
use crate::{lock, mono_ns};

/// Requests that wait at one time, in all and of one source.
const MAX_WAITING: usize = 32;
const MAX_WAITING_OF_SOURCE: usize = 4;
/// Limits of new requests: one a second, and 32 at once.
const ALL: Rate = Rate { amount: 1, seconds: 1, burst_ms: 32_000 };
const OF_SOURCE: Rate = Rate { amount: 1, seconds: 5, burst_ms: 20_000 };
/// The device hears this often that it is not forgotten.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// What a device reports about itself.
pub(super) struct Applicant {
    pub(super) commitment: [u8; 32],
    pub(super) host: [u8; 16],
    pub(super) name: String,
    pub(super) request: Vec<u8>,
}

pub(super) fn new_tries() -> Mutex<Limiter> {
    Mutex::new(Limiter::new(ALL, OF_SOURCE, MAX_SOURCES, Overflow::Share))
}

impl DeviceServer {
    /// From the first message of the device to its certificate.
    pub(super) fn ask_user(
        &self,
        pipe: &mut Pipe,
        applicant: &Applicant,
        source: IpAddr,
        stranger: Place,
        deadline: Instant,
    ) -> Result<Vec<u8>, End> {
        self.counts.note(|counts| counts.requests += 1);
        if !self.takes_requests {
            let text = "it takes tokens only: `cpumon token` there prints the line to enter here";
            return Err(bye(ByeReason::NotLetIn, text));
        }
        let _place = self.enter(source, mono_ns())?;
        let request = self.question(pipe, applicant, source, deadline)?;
        // From here on it is counted among the pending devices.
        drop(stranger);
        // Ends the request of this host that waits, if there is one: who tries codes must begin from the start each time, and the user
        // sees one code for each host.
        let turn = self.requests.begin(applicant.host);
        let shown = self.authority.requests.put(request)?;
        log::info!(
            "{} at {source} asks to be let in, code {}: `cpumon hosts accept CODE` with the code that it shows",
            shown.request.name.escape_debug(),
            shown.request.code
        );
        if self.await_user(pipe, &shown, &turn)? == Decision::Reject {
            return Err(bye(ByeReason::NotLetIn, "the user does not let this device in"));
        }
        let der = self.authority.let_in(applicant.host, &applicant.name, &applicant.request)?;
        let subject = named_host(applicant.host, &applicant.name);
        self.authority.audit.note(AuditEvent::Enrolled, &source.to_string(), &subject, "by code");
        self.counts.note(|counts| counts.requests_accepted += 1);
        Ok(der)
    }

    fn enter(&self, source: IpAddr, now_ns: u64) -> Result<Place, End> {
        let refused = |text: &str| bye(ByeReason::NotLetIn, text);
        // The rate comes first, so that a refused try counts against its source as well.
        lock(&self.tries).take(source, now_ns).map_err(|wait| {
            refused(&format!("too many ask to be let in: try again in {} s", wait.as_secs() + 1))
        })?;
        let place = self.waiting.enter(source, MAX_WAITING_OF_SOURCE, MAX_WAITING);
        place.ok_or_else(|| refused("too many wait to be let in"))
    }

    /// Nonce against nonce, and the code that they make.
    fn question(
        &self,
        pipe: &mut Pipe,
        applicant: &Applicant,
        source: IpAddr,
        deadline: Instant,
    ) -> Result<PendingRequest, End> {
        let key = key_of_request(&applicant.request)?;
        let receiver_nonce = random()?;
        Message::Challenge { nonce: receiver_nonce }.push(&mut pipe.outbox);
        pipe.pump(false)?;
        let device_nonce = await_message(pipe, deadline, MAX_SMALL_MESSAGE_BYTES, |message| match message {
            Some(Message::Reveal { nonce }) => Ok(Some(nonce)),
            _ => Err(TlsError::Protocol("expected a nonce")),
        })?;
        let pin = self.authority.pin()?;
        let transcript = Transcript { device: key, pin, host: applicant.host, name: &applicant.name };
        // The device fixed its nonce before it saw ours. Otherwise it could search for one that gives a wanted code.
        if transcript.commitment(&device_nonce) != applicant.commitment {
            return Err(bye(ByeReason::Protocol, "the nonce is not the one that it was bound to"));
        }
        let code = transcript.code(&device_nonce, &receiver_nonce);
        Ok(PendingRequest::new(code, applicant.host, &applicant.name, source.to_string(), key)?)
    }

    /// Waits for the user, as long as the device does.
    fn await_user(
        &self,
        pipe: &mut Pipe,
        shown: &ShownRequest<'_>,
        turn: &DeviceTurn<'_>,
    ) -> Result<Decision, End> {
        let end = Instant::now() + REQUEST_WAITS;
        let mut next_word = Instant::now();
        loop {
            let now = Instant::now();
            if turn.is_replaced() {
                return Err(bye(ByeReason::NotLetIn, "a newer request of this host has replaced this one"));
            }
            // Before the time is checked: a decision of the last moment counts.
            if let Some(decision) = shown.decision() {
                return Ok(decision);
            }
            if now >= end {
                return Err(bye(ByeReason::NotLetIn, "no user has let this device in within 10 minutes"));
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(bye(ByeReason::Stopping, "it stops"));
            }
            if now >= next_word {
                next_word = now + SAY_EVERY;
                let left_s = u32::try_from(end.duration_since(now).as_secs()).unwrap_or(u32::MAX);
                Message::Waiting { left_s }.push(&mut pipe.outbox);
            }
            // This also notices that the device has gone, which takes its request off the user's list.
            pipe.pump(true)?;
            if pipe.next_message(MAX_SMALL_MESSAGE_BYTES)?.is_some() {
                return Err(bye(ByeReason::Protocol, "it speaks while it waits"));
            }
            pipe.wait(CHECK_EVERY, true, None).map_err(TlsError::from)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::TestReceiver;

    #[test]
    fn an_ipv6_network_has_no_more_places_among_those_who_wait_than_an_address() {
        let server = TestReceiver::start().server;
        let enter = |nth: u16| {
            server.enter(format!("2001:db8::{nth}").parse().unwrap(), u64::from(nth) * 60_000_000_000)
        };
        let waiting: Vec<_> = (1..=40).filter_map(|nth| enter(nth).ok()).collect();
        assert_eq!((waiting.len(), server.waiting.count()), (MAX_WAITING_OF_SOURCE, MAX_WAITING_OF_SOURCE));
    }
}
