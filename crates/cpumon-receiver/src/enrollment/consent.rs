//! A device without a token asks to be let in, and gets its certificate when the user has entered the code
//! that it shows. What strangers cost here is bounded: how many wait, of one address, for how long, and how
//! often they may try.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cpumon_link::tls::connect::await_message;
use cpumon_link::tls::pipe::Pipe;
use cpumon_link::tls::{TlsError, Transcript, random};
use cpumon_wire::connection::{ByeReason, MAX_SMALL_MESSAGE_BYTES, Message};

use super::authority::Authority;
use super::authority::key_of_request;
use super::requests::{Decision, PendingRequest, REQUEST_WAITS, Shown};
use crate::tls::ServerStats;
use crate::tls::ending::{CHECK_EVERY, End, Unidentified, bye, flush};
use crate::tls::limits::{Allowance, Gate};

/// Requests that wait at one time, in all and of one address.
const MAX_WAITING: usize = 32;
const MAX_WAITING_OF_SOURCE: usize = 4;
/// New requests a second, and at once.
const ALL: Allowance = Allowance { per_second: 1.0, burst: 32.0 };
const OF_SOURCE: Allowance = Allowance { per_second: 0.2, burst: 4.0 };
/// The device hears this often that it is not forgotten.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// What a device reports about itself.
pub(crate) struct Applicant {
    commitment: [u8; 32],
    host: [u8; 16],
    name: String,
    request: Vec<u8>,
}

impl Applicant {
    pub(crate) fn new(commitment: [u8; 32], host: [u8; 16], name: &str, request: &[u8]) -> Self {
        Self { commitment, host, name: name.to_owned(), request: request.to_vec() }
    }
}

/// Who waits, by address, and who may try now.
pub(crate) struct PendingDevices {
    waiting: Mutex<HashMap<IpAddr, usize>>,
    gate: Mutex<Gate>,
}

impl PendingDevices {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::default(), gate: Mutex::new(Gate::new(ALL, OF_SOURCE)) }
    }

    fn enter(&self, source: IpAddr) -> Result<Seat<'_>, End> {
        let refused = |text| Err(bye(ByeReason::NotLetIn, text));
        // The gate comes first, so that a refused try counts against its source as well.
        if !self.gate.lock().unwrap_or_else(PoisonError::into_inner).lets_in(source) {
            return refused("too many ask to be let in: try again in some seconds");
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, of_source) = (waiting.values().sum::<usize>(), waiting.get(&source).copied().unwrap_or(0));
        if all >= MAX_WAITING || of_source >= MAX_WAITING_OF_SOURCE {
            return refused("too many wait to be let in");
        }
        waiting.insert(source, of_source + 1);
        Ok(Seat { pending: self, source })
    }

    /// How many wait now.
    pub(crate) fn count(&self) -> usize {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

/// One that waits is counted as long as this lives.
struct Seat<'a> {
    pending: &'a PendingDevices,
    source: IpAddr,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut waiting = self.pending.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = waiting.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.source);
            }
        }
    }
}

/// What the listener lends to a request.
pub(crate) struct Consent<'a> {
    pub(crate) authority: &'a Authority,
    /// Devices without a token may ask at all.
    pub(crate) takes_requests: bool,
    pub(crate) stats: &'a ServerStats,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) pending: &'a PendingDevices,
}

impl Consent<'_> {
    /// From the first message of the device to its certificate.
    pub(crate) fn ask_user(
        &self,
        pipe: &mut Pipe,
        applicant: &Applicant,
        source: IpAddr,
        stranger: Unidentified,
        deadline: Instant,
    ) -> Result<(), End> {
        self.stats.requests.fetch_add(1, Ordering::Relaxed);
        if !self.takes_requests {
            let text = "it takes tokens only: `cpumon token` there prints the line to enter here";
            return Err(bye(ByeReason::NotLetIn, text));
        }
        let _seat = self.pending.enter(source)?;
        let request = self.question(pipe, applicant, source, deadline)?;
        // From here on it is counted among the pending devices.
        drop(stranger);
        let shown = self.authority.requests().put(request)?;
        log::info!(
            "{} at {source} asks to be let in, code {}: `cpumon hosts accept CODE` with the code that it shows",
            shown.request.name.escape_debug(),
            shown.request.code
        );
        let decision = self.await_user(pipe, &shown)?;
        if decision == Decision::Reject {
            return Err(bye(ByeReason::NotLetIn, "the user does not let this device in"));
        }
        let der = self.authority.let_in(applicant.host, &applicant.name, &applicant.request)?;
        self.stats.requests_accepted.fetch_add(1, Ordering::Relaxed);
        self.stats.enrolled.fetch_add(1, Ordering::Relaxed);
        Message::Certificate { der: &der }.push(&mut pipe.outbox);
        flush(pipe);
        Ok(())
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
        let device_nonce =
            await_message(pipe, deadline, MAX_SMALL_MESSAGE_BYTES, |bytes| match Message::decode(bytes)? {
                Some(Message::Reveal { nonce }) => Ok(Some(nonce)),
                _ => Err(TlsError::Protocol("expected a nonce")),
            })?;
        let pin = self.authority.pin()?;
        let transcript = Transcript { device: key, pin, host: applicant.host, name: &applicant.name };
        // The device fixed its nonce before it saw ours. Otherwise it could search for one that gives a
        // wanted code.
        if transcript.commitment(&device_nonce) != applicant.commitment {
            return Err(bye(ByeReason::Protocol, "the nonce is not the one that it was bound to"));
        }
        let code = transcript.code(&device_nonce, &receiver_nonce);
        Ok(PendingRequest::new(code, applicant.host, &applicant.name, source.to_string(), key)?)
    }

    /// Waits for the user, as long as the device does.
    fn await_user(&self, pipe: &mut Pipe, shown: &Shown<'_>) -> Result<Decision, End> {
        let end = Instant::now() + REQUEST_WAITS;
        let mut next_word = Instant::now();
        loop {
            let now = Instant::now();
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
