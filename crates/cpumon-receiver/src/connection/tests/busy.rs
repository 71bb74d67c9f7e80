//! Long work of a device: its next connection waits for it, and what ends the connection ends the work.

use std::sync::atomic::AtomicUsize;

use super::*;
use crate::enrolment::TokenScope;

/// What sessions did.
#[derive(Debug, Default)]
pub(super) struct Busy {
    working: AtomicUsize,
    most_working: AtomicUsize,
    ended: Mutex<Vec<ByeReason>>,
}

impl Busy {
    /// Works on a record until the session is to end.
    pub(super) fn work(&self, watch: AbortCheck<'_>) -> Result<(), End> {
        let now = self.working.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_working.fetch_max(now, Ordering::SeqCst);
        let ended = eventually("the work is ended", || watch().err());
        self.working.fetch_sub(1, Ordering::SeqCst);
        let End::Bye(reason, _) = ended else { panic!("this side ends it") };
        self.ended.lock().unwrap().push(reason);
        Err(ended)
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
    let (mut running, device) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let (busy, address, authority) = (Arc::new(Busy::default()), running.address, &running.authority);
    *running.got.busy.lock().unwrap() = Some(Arc::clone(&busy));
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
    Authority::open(running.dir.path()).unwrap().registry.revoke("device").unwrap();
    assert_eq!(goodbye(&mut second), ByeReason::Revoked);
    let _third = work(address, &enroll_again());
    works();
    running.server.stop.store(true, Ordering::Relaxed);
    running.thread.take().unwrap().join().unwrap();
    ended(&[ByeReason::Replaced, ByeReason::Revoked, ByeReason::Stopping]);
    assert_eq!(busy.most_working.load(Ordering::SeqCst), 1, "one after another");
}
