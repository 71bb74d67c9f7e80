//! Packed records over loopback: old and new versions together, and what no device should send.

use std::net::TcpListener;

use cpumon_link::tls::connect::shake_hands;
use cpumon_wire::connection::MAX_MESSAGE_BYTES;
use cpumon_wire::spool::push_snapshot;
use rustls::ServerConnection;

use super::*;

/// A pipe of an enrolled device by hand, behind the welcome, which says the version to speak.
fn device(running: &TestReceiver, identity: &DeviceIdentity, version: u16) -> (Pipe, u16) {
    let mut pipe = connect(&running.address.to_string(), identity.client_config().unwrap()).unwrap();
    Message::Hello { version, host: HOST, spool: HOST, agent: "" }.push(&mut pipe.outbox);
    pipe.pump(true).unwrap();
    let end = Instant::now() + PATIENCE;
    let version = await_message(&mut pipe, end, MAX_SMALL_MESSAGE_BYTES, |message| {
        let Some(Message::Welcome { version, .. }) = message else { panic!("no welcome") };
        Ok(Some(version))
    });
    (pipe, version.unwrap())
}

/// What a receiver was sent, connection by connection: the version of the hello, and types of records.
type Received = Arc<Mutex<Vec<(u16, Vec<char>)>>>;

/// A receiver that speaks `version` and, if it cannot use packed records, says so.
fn receiver(running: &TestReceiver, version: u16, takes_packed: bool) -> (SocketAddr, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, received) = (listener.local_addr().unwrap(), Received::default());
    let (config, text) = (Arc::new(running.authority.server_config().unwrap()), Arc::clone(&received));
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut pipe = Pipe::new(socket.unwrap(), tls.into()).unwrap();
            // The device of a test that is over is gone at any moment.
            let _ = attend(&mut pipe, version, takes_packed, &text);
        }
    });
    (address, received)
}

fn attend(pipe: &mut Pipe, version: u16, takes_packed: bool, received: &Received) -> Result<(), TlsError> {
    let end = Instant::now() + PATIENCE;
    shake_hands(pipe, end)?;
    let offered = await_message(pipe, end, MAX_SMALL_MESSAGE_BYTES, |message| {
        let Some(Message::Hello { version, .. }) = message else { panic!("no hello") };
        Ok(Some(version))
    })?;
    received.lock().unwrap().push((offered, Vec::new()));
    let version = version.min(offered);
    Message::Welcome { version, window_bytes: 1 << 20, is_renewal_due: false }.push(&mut pipe.outbox);
    let mut number = 0;
    loop {
        pipe.pump(true)?;
        let mut answers = Vec::new();
        while let Some(bytes) = pipe.next_message(MAX_MESSAGE_BYTES)? {
            let kind = match Message::decode(bytes)? {
                Some(Message::Record { .. }) => 'r',
                Some(Message::Packed { .. }) => 'p',
                _ => continue,
            };
            received.lock().unwrap().last_mut().unwrap().1.push(kind);
            if kind == 'p' && !takes_packed {
                Message::Bye { reason: ByeReason::Protocol, text: "what is this?" }.push(&mut answers);
                break;
            }
            number += 1;
            Message::Ack { channel: 1, received: number, committed: number }.push(&mut answers);
        }
        pipe.outbox.append(&mut answers);
        pipe.pump(false)?;
        pipe.wait(Duration::from_millis(50), true, None)?;
    }
}

#[test]
fn records_go_packed_and_arrive_as_they_were_also_behind_a_cut() {
    let (running, dir) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let identity = running.enroll(&dir).unwrap();
    let uplink = uplink(&running.address.to_string(), identity, ram());
    append(&uplink, 70);
    assert!(uplink.drain(PATIENCE));
    // 70 records of 226 bytes; the handshake alone takes some 2,000.
    assert!(uplink.status().wire_bytes < 12_000, "{}", uplink.status().wire_bytes);
    let (dir, address, got) = running.stop();
    // A device whose connection comes late sends the newest first.
    let mut numbers = got.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=70).collect::<Vec<_>>());
    append(&uplink, 30);
    let running = TestReceiver::start_in(dir, address);
    append(&uplink, 1);
    assert!(
        uplink.drain(PATIENCE),
        "what the receiver knew of the channel is gone, and the device knows that"
    );
    let mut got = running.got.numbers();
    got.sort_unstable();
    got.dedup();
    assert_eq!(got, (65..=101).collect::<Vec<_>>());
    assert_eq!(uplink.status().backlog.lost, 0);
}

#[test]
fn a_receiver_of_the_first_release_gets_records_as_they_are() {
    let (running, dir) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let (address, received) = receiver(&running, 1, false);
    let uplink = uplink(&address.to_string(), running.enroll(&dir).unwrap(), ram());
    append(&uplink, 5);
    assert!(uplink.drain(PATIENCE));
    assert_eq!(*received.lock().unwrap(), [(VERSION, vec!['r'; 5])]);
}

#[test]
fn a_device_of_the_first_release_is_taken_as_before() {
    let (running, dir) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let identity = running.enroll(&dir).unwrap();
    let (mut pipe, version) = device(&running, &identity, 1);
    assert_eq!(version, 1, "both sides speak what the other knows");
    let mut record = Vec::new();
    assert!(push_snapshot(&mut record, 1, 5, true, &[frame(10)]));
    Message::Begin { channel: 1, kind: ChannelKind::Live }.push(&mut pipe.outbox);
    Message::Record { channel: 1, record: &record }.push(&mut pipe.outbox);
    pipe.pump(true).unwrap();
    eventually("the record arrives", || (running.got.numbers() == [1]).then_some(()));
    assert_eq!(device(&running, &identity, u16::MAX).1, VERSION, "a device of the future speaks as we do");
    let mut pipe = connect(&running.address.to_string(), identity.client_config().unwrap()).unwrap();
    Message::Hello { version: 2, host: HOST, spool: HOST, agent: "" }.push(&mut pipe.outbox);
    pipe.pump(true).unwrap();
    assert_eq!(goodbye(&mut pipe), ByeReason::Protocol, "no release has version 2");
}

#[test]
fn a_receiver_that_cannot_use_what_is_packed_gets_it_as_it_is() {
    let (running, dir) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let (address, received) = receiver(&running, VERSION, false);
    let uplink = uplink(&address.to_string(), running.enroll(&dir).unwrap(), ram());
    append(&uplink, 3);
    assert!(uplink.drain(PATIENCE));
    let received = received.lock().unwrap().clone();
    assert_eq!((received[0].0, received[0].1[0]), (VERSION, 'p'));
    assert_eq!(received[1], (1, vec!['r'; 3]));
}

#[test]
fn what_is_packed_wrongly_ends_the_connection_and_is_counted() {
    let (running, dir) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let identity = running.enroll(&dir).unwrap();
    let mut record = Vec::new();
    assert!(push_snapshot(&mut record, 1, 5, true, &[frame(10)]));
    let mut packed = Vec::new();
    assert!(cpumon_wire::packed::Packer::default().pack(&record, &mut packed));
    let mut damaged = packed.clone();
    damaged[0] ^= 1;
    for (channel, bytes) in [(1, &b""[..]), (1, &[0xff; 300]), (1, &damaged), (2, &packed)] {
        let (mut pipe, version) = device(&running, &identity, VERSION);
        assert_eq!(version, VERSION);
        Message::Begin { channel: 1, kind: ChannelKind::Live }.push(&mut pipe.outbox);
        Message::Packed { channel, packed: bytes }.push(&mut pipe.outbox);
        pipe.pump(true).unwrap();
        assert_eq!(goodbye(&mut pipe), ByeReason::Protocol);
    }
    assert!(running.got.numbers().is_empty());
    let (mut pipe, _) = device(&running, &identity, VERSION);
    Message::Begin { channel: 1, kind: ChannelKind::Live }.push(&mut pipe.outbox);
    Message::Packed { channel: 1, packed: &packed }.push(&mut pipe.outbox);
    pipe.pump(true).unwrap();
    eventually("a sound one arrives", || (running.got.numbers() == [1]).then_some(()));
}
