//! [`Worker`]: what the thread of an uplink does. It goes from receiver to receiver until one answers, sends it the backlog, and takes its
//! messages, until the connection ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cpumon_wire::connection::{
    ATTACHMENT_VERSION, ByeReason, MAX_MESSAGE_BYTES, MAX_SMALL_MESSAGE_BYTES, Message, PACKED_VERSION,
    PLAIN_VERSION, TraceAnswer, VERSION, agree_on_version,
};
use rustix::event::{PollFd, PollFlags};

use super::attaching::Attaching;
use super::shared::{Comparing, PING_AFTER, SharedUplink, UplinkOptions};
use crate::discovery::{SearchOptions, search};
use crate::platform::{self, WakeReceiver};
use crate::tls::TlsError;
use crate::tls::connect::{await_message, connect};
use crate::tls::crypto::random;
use crate::tls::identity::NewKey;
use crate::tls::pipe::Pipe;
use crate::tls::session::Channels;

/// How long a receiver may take to answer the first message.
const WELCOME_LIMIT: Duration = Duration::from_secs(5);
/// Silence after which a receiver is taken for dead.
const DEAD_AFTER: Duration = Duration::from_secs(15);
/// Pauses between attempts: twice as long each time, up to the longest, each cut at random to between half and all. The longest leaves
/// time for the rest of the ten seconds in which a receiver that is back has live data.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Bytes that may wait for a receiver to read them; with more, nothing of it is read. More than the records and files of one turn, of which
/// a single record may be as long as a message: while it waits for a slow network, the receiver's messages are read.
const MAX_OUTBOX_BYTES: usize = MAX_MESSAGE_BYTES + (1 << 20);
/// A connection that lived this long counts as a good one: the next attempt comes soon.
const GOOD_AFTER: Duration = Duration::from_secs(10);

/// Rounds of failed attempts before the subnet is asked for the receivers.
const SEARCH_AFTER_ROUNDS: u32 = 2;
/// Least time from one search to the next, and time that a search listens.
const SEARCH_EVERY: Duration = Duration::from_secs(30);
const SEARCH_WAIT: Duration = Duration::from_secs(1);

pub(super) struct Worker {
    options: UplinkOptions,
    shared: Arc<SharedUplink>,
    awake: WakeReceiver,
    attaching: Option<Attaching>,
    /// Index of the receiver to try next.
    next: usize,
    candidates: Vec<Candidates>,
    next_search: Instant,
    /// The version of the last connection; 0: it came to none.
    version: u16,
    /// Highest protocol version to offer.
    most: u16,
}

impl Worker {
    pub(super) fn new(options: UplinkOptions, shared: Arc<SharedUplink>, awake: WakeReceiver) -> Self {
        let candidates = options.receivers.iter().map(|one| Candidates::new(&one.address)).collect();
        let attaching = options.attachments.as_ref().map(|wanted| Attaching::new(wanted.dir.clone()));
        Self {
            options,
            attaching,
            shared,
            awake,
            next: 0,
            candidates,
            next_search: Instant::now(),
            version: 0,
            most: VERSION,
        }
    }

    /// Returns when it is asked to stop, or has no receiver.
    pub(super) fn run(&mut self) {
        let mut failed_in_a_row = 0_u32;
        while !self.shared.is_stopping() && !self.options.receivers.is_empty() {
            let begin = Instant::now();
            let Err(error) = self.connection() else { return };
            // A connection that lived long was a good one, so the pauses start again with the shortest.
            let is_first = failed_in_a_row == 0;
            failed_in_a_row =
                if begin.elapsed() >= GOOD_AFTER { 1 } else { failed_in_a_row.saturating_add(1) };
            self.count_failure(&error, is_first);
            // The receiver could not unpack, or the packed bytes are wrong: packing again would end in the
            // same way.
            if self.version >= PACKED_VERSION
                && matches!(&error, TlsError::Bye { reason: ByeReason::Protocol, .. })
            {
                log::warn!("the receiver could not use what was sent; from now on records go as they are");
                self.most = PLAIN_VERSION;
            }
            // Without a welcome the address itself is in doubt.
            if self.version == 0
                && let Some(candidates) = self.candidates.get_mut(self.next)
            {
                candidates.advance();
            }
            let asked_back = matches!(&error, TlsError::Bye { reason: ByeReason::Resume, .. });
            // A receiver that ended the connection to get records again is there: stay with it.
            if !asked_back {
                self.next = (self.next + 1) % self.options.receivers.len();
            }
            // Each receiver of the list is tried at once; the pause comes before the next round.
            if asked_back || self.next == 0 || self.options.receivers.len() == 1 {
                self.pause(failed_in_a_row);
                let rounds = failed_in_a_row as usize / self.options.receivers.len();
                if rounds >= SEARCH_AFTER_ROUNDS as usize && Instant::now() >= self.next_search {
                    self.search();
                }
            }
        }
    }

    fn count_failure(&self, error: &TlsError, is_first: bool) {
        let text = error.to_string();
        let mut status = self.shared.status();
        // Once for each cause, not at every attempt.
        if is_first || status.last_error != text {
            let address = self.address();
            log::warn!("receiver {address}: {text}; trying again");
        }
        status.connected_to = None;
        status.is_backfilling = false;
        status.failures += 1;
        status.last_error = text;
    }

    fn address(&self) -> String {
        self.candidates.get(self.next).map(|candidates| candidates.current().to_owned()).unwrap_or_default()
    }

    fn search(&mut self) {
        self.next_search = Instant::now() + SEARCH_EVERY;
        if self.options.ask.is_empty() {
            return;
        }
        for (receiver, candidates) in self.options.receivers.iter().zip(&mut self.candidates) {
            // Another key would be refused by TLS, so its answers are not worth an attempt.
            let wanted = Some(receiver.identity.pin);
            let options = SearchOptions { to: self.options.ask.clone(), wanted, wait: SEARCH_WAIT };
            let shared = &self.shared;
            let search = match search(&options, &|| shared.is_stopping()) {
                Ok(search) => search,
                Err(error) => {
                    log::warn!("cannot search for receiver {}: {error}", receiver.address);
                    return;
                }
            };
            let mut status = shared.status();
            status.searches += 1;
            status.ignored_answers += search.ignored.suspicious();
            drop(status);
            let found = search.found.iter().flat_map(|found| &found.addresses).map(ToString::to_string);
            if let Some(address) = candidates.found(found) {
                log::info!("receiver {} may be at {address} now: trying there", receiver.address);
            }
        }
    }

    /// Sleeps for longer after each failure in a row; a request to stop ends it.
    fn pause(&mut self, failed_in_a_row: u32) {
        let most = FIRST_PAUSE
            .saturating_mul(1 << failed_in_a_row.clamp(1, 16).saturating_sub(1))
            .min(LONGEST_PAUSE);
        // Devices that lost the same receiver at the same moment must not come back all at once.
        let jitter = random::<4>().map_or(0, u32::from_le_bytes);
        let end = Instant::now() + most / 2 + (most / 2).mul_f64(f64::from(jitter) / f64::from(u32::MAX));
        while !self.shared.is_stopping() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // Each new snapshot wakes this thread too; the loop then waits for the rest. An error here is a shorter pause.
            let mut polls = [PollFd::from_borrowed_fd(self.awake.as_fd(), PollFlags::IN)];
            let _ = platform::wait(&mut polls, left);
            self.awake.drain();
        }
    }

    /// One connection, from the handshake to its end. `Ok`: asked to stop.
    fn connection(&mut self) -> Result<(), TlsError> {
        // If this stays 0, the attempt failed before the welcome.
        self.version = 0;
        let address = self.address();
        let Some(receiver) = self.options.receivers.get(self.next) else { return Ok(()) };
        let mut pipe = connect(&address, receiver.identity.client_config()?)?;
        let greeted = self.greet(&mut pipe);
        let Some(receiver) = self.options.receivers.get_mut(self.next) else { return Ok(()) };
        match &greeted {
            Ok(_) => receiver.identity.was_taken(),
            // It is not the certificate that is refused.
            Err(TlsError::Bye { reason, .. }) if *reason != ByeReason::Revoked => {}
            // Or the connection has ended, which can be all that is left of a refusal.
            Err(_) => receiver.identity.was_refused(),
        }
        let (version, window_bytes, is_renewal_due) = greeted?;
        self.version = agree_on_version(version, self.most).map_err(TlsError::Protocol)?;
        log::info!("connected to receiver {address}");
        {
            let mut status = self.shared.status();
            status.connected_to = Some(address);
            status.connections += 1;
        }
        let (channels, wants_full) =
            Channels::begin(&**self.shared.backlog(), self.version, window_bytes, &mut pipe.outbox);
        // A connection before may have asked for one that was not made yet: that must not be lost.
        self.shared.full_wanted.fetch_or(wants_full, Ordering::Relaxed);
        let takes_files = self.version >= ATTACHMENT_VERSION;
        if let Some(attaching) = &mut self.attaching {
            attaching.begin(if takes_files { window_bytes } else { 0 });
        }
        let clock = Comparing::new(self.options.clocks, self.options.boot);
        let mut talk = Talk { pipe, channels, last_received: Instant::now(), clock, new_key: None };
        if is_renewal_due {
            let key = NewKey::make()?;
            Message::Renew { request: &key.request_der }.push(&mut talk.pipe.outbox);
            talk.new_key = Some(key);
        }
        self.talk(&mut talk)
    }

    /// Says who this is, and waits for the welcome: version, window in bytes, whether the certificate is to be renewed.
    fn greet(&self, pipe: &mut Pipe) -> Result<(u16, u32, bool), TlsError> {
        let spool = self.shared.backlog().id();
        let (host, agent) = (self.options.host, self.options.agent.as_str());
        Message::Hello { version: self.most, host, spool, agent }.push(&mut pipe.outbox);
        pipe.pump(true)?;
        let end = Instant::now() + WELCOME_LIMIT;
        await_message(pipe, end, MAX_SMALL_MESSAGE_BYTES, |message| match message {
            Some(Message::Welcome { version, window_bytes, is_renewal_due }) => {
                Ok(Some((version, window_bytes, is_renewal_due)))
            }
            Some(Message::Bye { reason, text }) => Err(TlsError::Bye { reason, text: text.to_owned() }),
            // Messages of other types may come first; the time limit still holds.
            _ => Ok(None),
        })
    }

    fn talk(&mut self, talk: &mut Talk) -> Result<(), TlsError> {
        let mut counted = (0, 0);
        loop {
            // Records wait for the first comparison of clocks, so that they get their place on the receiver's
            // time line.
            if talk.clock.has_reported() {
                let mut backlog = self.shared.backlog();
                let last_full = self.shared.last_full.load(Ordering::Relaxed);
                talk.channels.fill(&mut **backlog, last_full, &mut talk.pipe.outbox);
            }
            let next_piece = self.attach(talk);
            let reads = talk.may_read();
            talk.pipe.pump(reads)?;
            self.take_messages(talk)?;
            {
                let mut status = self.shared.status();
                status.records += talk.channels.records - counted.0;
                status.wire_bytes += talk.pipe.wire_bytes - counted.1;
                counted = (talk.channels.records, talk.pipe.wire_bytes);
                status.is_backfilling = talk.channels.is_backfilling();
                if let Some(attaching) = &self.attaching {
                    status.attachments_stored = attaching.stored;
                    status.attachments_refused = attaching.refused;
                }
            }
            if self.shared.is_stopping() {
                talk.pipe.close();
                return Ok(());
            }
            let silence = talk.last_received.elapsed();
            if silence >= DEAD_AFTER {
                return Err(TlsError::Silent { seconds: DEAD_AFTER.as_secs() });
            }
            talk.clock.ask(silence, &mut talk.pipe.outbox);
            let next = talk.clock.next.saturating_duration_since(Instant::now()).min(next_piece);
            // The lower bound keeps a ping that is due from becoming a busy loop.
            talk.pipe.wait(
                next.clamp(Duration::from_millis(1), PING_AFTER / 5),
                talk.may_read(),
                Some(self.awake.as_fd()),
            )?;
            self.awake.drain();
        }
    }

    /// Queues parts of files behind the records. Returns how long to wait at most for the next one.
    fn attach(&mut self, talk: &mut Talk) -> Duration {
        let (Some(attaching), Some(options)) = (&mut self.attaching, &self.options.attachments) else {
            return PING_AFTER;
        };
        if options.requests.take_new() {
            attaching.scan_soon();
        }
        attaching.fill(&mut talk.pipe.outbox)
    }

    fn take_messages(&mut self, talk: &mut Talk) -> Result<(), TlsError> {
        let Talk { pipe, channels, last_received, clock, new_key } = talk;
        // Messages borrow the pipe, so the answers to them are gathered beside it.
        let mut answers = Vec::new();
        while let Some(bytes) = pipe.next_message(MAX_SMALL_MESSAGE_BYTES)? {
            *last_received = Instant::now();
            match Message::decode(bytes)? {
                Some(Message::Ack { channel, received, committed }) => {
                    if let Some(number) = channels.acked(channel, received, committed) {
                        self.shared.backlog().ack(number);
                    }
                }
                Some(Message::Bye { reason, text }) => {
                    return Err(TlsError::Bye { reason, text: text.to_owned() });
                }
                Some(Message::Certificate { der }) => {
                    if let (Some(key), Some(receiver)) =
                        // A certificate without a key that waits for it was not asked for.
                        (new_key.take(), self.options.receivers.get_mut(self.next))
                    {
                        receiver.identity.renew(key, der)?;
                        log::info!("got a new certificate for a new key from receiver {}", receiver.address);
                    }
                }
                Some(Message::Pong { token, times }) => clock.answered(token, times),
                Some(Message::Attachment { number, state, received, text }) => {
                    if let Some(attaching) = &mut self.attaching {
                        attaching.answered(number, state, received, text);
                    }
                }
                Some(Message::TakeTrace { token }) => {
                    let options = self.options.attachments.as_ref();
                    let answer = options.map_or(TraceAnswer::NoRecorder, |options| options.requests.ask());
                    Message::TraceAnswer { token, answer }.push(&mut answers);
                }
                _ => {}
            }
        }
        pipe.outbox.append(&mut answers);
        Ok(())
    }
}

struct Talk {
    pipe: Pipe,
    channels: Channels,
    last_received: Instant,
    clock: Comparing,
    new_key: Option<NewKey>,
}

impl Talk {
    /// A receiver that asks and does not read the answers is not read either.
    fn may_read(&self) -> bool {
        self.pipe.outbox.len() < MAX_OUTBOX_BYTES
    }
}

/// Addresses of one receiver, tried in turn. A wrong one costs an attempt: TLS proves who is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// The given address is the first one.
    addresses: Vec<String>,
    current: usize,
}

impl Candidates {
    pub fn new(given: &str) -> Self {
        Self { addresses: vec![given.to_owned()], current: 0 }
    }

    pub fn current(&self) -> &str {
        self.addresses.get(self.current).map_or("", String::as_str)
    }

    /// Moves on to the next address after a failed attempt to connect.
    pub fn advance(&mut self) {
        self.current = (self.current + 1) % self.addresses.len().max(1);
    }

    /// What a search found replaces what the search before found, and is tried first. Returns an address that is new.
    pub fn found(&mut self, found: impl IntoIterator<Item = String>) -> Option<&str> {
        let mut addresses: Vec<String> = self.addresses.iter().take(1).cloned().collect();
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let new = addresses.iter().position(|address| !self.addresses.contains(address));
        // An answer with the given address alone is no reason to leave out the others: they came from an earlier answer.
        if addresses.len() > 1 {
            self.addresses = addresses;
            self.current = 1;
        }
        new.and_then(|new| self.addresses.get(new)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(candidates: &mut Candidates, addresses: &[&str]) -> Option<String> {
        candidates.found(addresses.iter().map(ToString::to_string)).map(ToOwned::to_owned)
    }

    #[test]
    fn what_was_found_is_tried_first_and_a_false_address_costs_one_attempt() {
        let mut candidates = Candidates::new("a:1");
        assert_eq!(found(&mut candidates, &["false:1", "b:1"]).as_deref(), Some("false:1"));
        let mut tried = Vec::new();
        for _ in 0..4 {
            tried.push(candidates.current().to_owned());
            candidates.advance();
        }
        assert_eq!(tried, ["false:1", "b:1", "a:1", "false:1"]);
    }

    #[test]
    fn an_address_that_is_known_is_not_new() {
        let mut candidates = Candidates::new("a:1");
        assert_eq!(found(&mut candidates, &["a:1"]), None);
        assert_eq!(candidates.current(), "a:1");
        found(&mut candidates, &["b:1"]);
        assert_eq!(found(&mut candidates, &["b:1", "a:1"]), None);
        assert_eq!(candidates.current(), "b:1");
    }
}
