//! A device that sends and never reads what it is sent.

use std::net::TcpListener;

use super::after_bye::welcome;
use super::*;
use crate::connection::session::{DevicePeer, DeviceSession};

/// Its answers waited in the receiver's memory without a limit: 20 MB a second.
#[test]
fn a_device_that_pings_and_never_reads_is_not_read_either() {
    let (running, dir) = (TestReceiver::start(), tempfile::tempdir().unwrap());
    let identity = running.enroll(&dir).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = identity.client_config().unwrap();
    let (mut device, mut pipe) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| welcome(&listener, &running.authority));
        let mut device = connect(&address.to_string(), config).unwrap();
        Message::Hello { version: VERSION, host: HOST, spool: HOST, agent: "" }.push(&mut device.outbox);
        device.pump(false).unwrap();
        (device, receiver.join().unwrap())
    });
    let host = HostId(HOST);
    let peer = DevicePeer { host, key: [0; 32], is_renewal_asked: false, address, version: VERSION };
    let mut session = DeviceSession::new(&peer, running.server.sink.clone(), running.server.memory_of(host));
    for _ in 0..100 {
        while device.outbox.len() < 256 << 10 {
            Message::Ping { token: 1, clock: None }.push(&mut device.outbox);
        }
        device.pump(false).unwrap();
        running.server.take_turn(&mut pipe, &mut session, &peer, &mut || Ok(())).unwrap();
        assert!(pipe.outbox.len() < 1 << 20, "{} bytes wait", pipe.outbox.len());
    }
}
