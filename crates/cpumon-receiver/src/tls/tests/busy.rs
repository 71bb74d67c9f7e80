//! Long work of a device: its next connection waits for it, and what ends the connection ends the work.

use std::sync::atomic::AtomicUsize;

use super::*;
use crate::enrollment::TokenScope;

/// What sessions did.
#[derive(Default)]
struct Busy {
    sessions: AtomicUsize,
    most_sessions: AtomicUsize,
    working: AtomicUsize,
    ended: Mutex<Vec<ByeReason>>,
}

struct BusyHandler(Arc<Busy>);

/// Works on its first record until it is to end.
struct BusySession(Arc<Busy>);

impl Handler for BusyHandler {
    fn open(&self, _: &Peer) -> Box<dyn Session> {
        let now = self.0.sessions.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most_sessions.fetch_max(now, Ordering::SeqCst);
        Box::new(BusySession(Arc::clone(&self.0)))
    }
}

impl Drop for BusySession {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Session for BusySession {
    fn begin(&mut self, _: u32, _: ChannelKind) -> Result<(), Refusal> {
        Ok(())
    }

    fn record(&mut self, _: u32, _: &[u8], watch: Watch<'_>) -> Result<(), Refusal> {
        self.0.working.fetch_add(1, Ordering::SeqCst);
        let ended = eventually("the work is ended", || watch().err());
        self.0.working.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.lock().unwrap().push(ended.reason);
        Err(ended)
    }

    fn clock(&mut self, _: ClockReport, _: i64) {}

    fn work(&mut self, _: &mut Acks<'_>, _: Watch<'_>) -> Result<bool, Refusal> {
        Ok(false)
    }
}

/// A connection whose record is worked on.
fn work(address: SocketAddr, identity: &DeviceIdentity) -> Pipe {
    let mut pipe = connect(&address.to_string(), identity.client_config().unwrap()).unwrap();
    Message::Hello { version: VERSION, host: HOST, spool: HOST, agent: "" }.push(&mut pipe.outbox);
    Message::Begin { channel: 1, kind: ChannelKind::Live }.push(&mut pipe.outbox);
    Message::Record { channel: 1, record: b"any" }.push(&mut pipe.outbox);
    pipe.pump(true).unwrap();
    pipe
}

#[test]
fn long_work_ends_with_a_newer_connection_a_revocation_and_the_receiver() {
    let (dir, device) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let authority = Arc::new(Authority::open(dir.path()).unwrap());
    let (busy, stop) = (Arc::new(Busy::default()), Arc::new(AtomicBool::new(false)));
    let (any, handler) = ("127.0.0.1:0".parse().unwrap(), Arc::new(BusyHandler(Arc::clone(&busy))));
    let server = TlsServer::bind(any, Arc::clone(&authority), handler, ServerLimits::default()).unwrap();
    let (address, stopped) = (server.address, Arc::clone(&stop));
    let thread = std::thread::spawn(move || server.run(&stopped));
    let enroll_again = || {
        let scope = TokenScope { host: None, again: true };
        let token = authority.make_token(Duration::from_mins(1), &scope).unwrap();
        enroll(device.path(), &address.to_string(), &token, HOST, "device").unwrap()
    };
    let ended = |wanted: &[ByeReason]| {
        eventually("the work ended", || (*busy.ended.lock().unwrap() == wanted).then_some(()));
    };
    let works = || eventually("a session works", || (busy.working.load(Ordering::SeqCst) == 1).then_some(()));

    let identity = enroll_again();
    let mut first = work(address, &identity);
    works();
    let mut second = work(address, &identity);
    assert_eq!(goodbye(&mut first), ByeReason::Replaced);
    ended(&[ByeReason::Replaced]);
    works();
    Authority::open(dir.path()).unwrap().registry.revoke("device").unwrap();
    assert_eq!(goodbye(&mut second), ByeReason::Revoked);
    let _third = work(address, &enroll_again());
    works();
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    ended(&[ByeReason::Replaced, ByeReason::Revoked, ByeReason::Stopping]);
    assert_eq!(busy.most_sessions.load(Ordering::SeqCst), 1, "one after another");
}
