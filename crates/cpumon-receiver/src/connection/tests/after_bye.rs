//! What a receiver sends behind its *bye* counts for nothing: a trace stays on the device, and comes again with the next connection.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver as Channel, Sender, channel};

use cpumon_link::attachments::TraceRequests;
use cpumon_link::tls::connect::shake_hands;
use cpumon_wire::connection::{AttachmentState, MAX_MESSAGE_BYTES};
use rustls::ServerConnection;

use super::*;

/// A connection of a device, behind the welcome.
pub(super) fn welcome(listener: &TcpListener, authority: &Authority) -> Pipe {
    let config = Arc::new(authority.server_config().unwrap());
    let tls = ServerConnection::new(config).unwrap();
    let mut pipe = Pipe::new(listener.accept().unwrap().0, tls.into()).unwrap();
    let end = Instant::now() + PATIENCE;
    shake_hands(&mut pipe, end).unwrap();
    await_message(&mut pipe, end, MAX_SMALL_MESSAGE_BYTES, |message| {
        Ok(matches!(message, Some(Message::Hello { .. })).then_some(()))
    })
    .unwrap();
    Message::Welcome { version: VERSION, window_bytes: 1 << 20, is_renewal_due: false }
        .push(&mut pipe.outbox);
    pipe.pump(true).unwrap();
    pipe
}

/// Waits for one message.
fn find<T>(pipe: &mut Pipe, wanted: impl Fn(&Message<'_>) -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    await_message(pipe, end, MAX_MESSAGE_BYTES, |message| Ok(message.as_ref().and_then(&wanted))).unwrap()
}

fn offered(pipe: &mut Pipe) -> (u32, [u8; 32]) {
    find(pipe, |message| match message {
        Message::Offer { number, hash, .. } => Some((*number, *hash)),
        _ => None,
    })
}

/// Two connections: the first one ends while pieces are under way.
fn attend(listener: &TcpListener, authority: &Authority, ended: &Sender<()>, go_on: &Channel<()>) {
    let mut pipe = welcome(listener, authority);
    let (number, hash) = offered(&mut pipe);
    Message::Attachment { number, state: AttachmentState::Taking, received: 0, text: "" }
        .push(&mut pipe.outbox);
    pipe.pump(true).unwrap();
    find(&mut pipe, |message| matches!(message, Message::Piece { .. }).then_some(()));
    Message::Bye { reason: ByeReason::Stopping, text: "it stops" }.push(&mut pipe.outbox);
    Message::Attachment { number, state: AttachmentState::Stored, received: 1, text: "" }
        .push(&mut pipe.outbox);
    Message::TakeTrace { token: 1 }.push(&mut pipe.outbox);
    pipe.pump(false).unwrap();
    // The device hangs up; pieces that were on their way are read by no one.
    while pipe.pump(true).is_ok() && pipe.wait(Duration::from_millis(50), true, None).is_ok() {
        while let Ok(Some(_)) = pipe.next_message(MAX_MESSAGE_BYTES) {}
    }
    ended.send(()).unwrap();
    go_on.recv().unwrap();
    drop(pipe);
    let mut pipe = welcome(listener, authority);
    let (number, again) = offered(&mut pipe);
    assert_eq!(again, hash, "the same file");
    Message::Attachment { number, state: AttachmentState::Stored, received: 0, text: "" }
        .push(&mut pipe.outbox);
    while pipe.pump(true).is_ok() && pipe.wait(Duration::from_millis(50), true, None).is_ok() {}
}

#[test]
fn a_trace_stays_on_the_device_when_its_last_messages_come_behind_a_bye() {
    let (running, dir) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let identity = running.enroll(&dir).unwrap();
    let flights = tempfile::tempdir().unwrap();
    let path = flights.path().join("flight-1.trace");
    std::fs::write(&path, vec![7; 600_000]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ((ended, is_ended), (go_on, goes_on)) = (channel(), channel());
    let authority = Arc::clone(&running.authority);
    std::thread::spawn(move || attend(&listener, &authority, &ended, &goes_on));
    let requests = Arc::new(TraceRequests::new(Duration::from_mins(1)));
    let options = AttachmentOptions { dir: flights.path().to_owned(), requests: Arc::clone(&requests) };
    let uplink = uplink_with(&address, identity, ram(), Some(options));
    is_ended.recv_timeout(PATIENCE).unwrap();
    assert!(path.exists() && uplink.status().attachments_stored == 0, "stored is no answer behind a bye");
    assert!(!requests.take(), "nor is a request");
    go_on.send(()).unwrap();
    eventually("the next connection has it", || (!path.exists()).then_some(()));
    eventually("it is counted", || (uplink.status().attachments_stored == 1).then_some(()));
}
