//! The link as a whole: over loopback, and between network namespaces that the tests make. The spool has its own program.

#[path = "../../../../testing/netns.rs"]
mod netns;
#[path = "../../../../testing/skip.rs"]
mod skip;

mod group_file;
mod loopback;
mod namespaces;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cpumon_link::receiving::UdpReceiver;

/// Receives until `count` datagrams are there or two seconds have passed.
fn receive(receiver: &mut UdpReceiver, count: usize) -> Vec<(Vec<u8>, SocketAddr)> {
    receive_within(receiver, count, Duration::from_mins(2))
}

/// As many as were sent, and any more that come within a moment.
fn receive_all(receiver: &mut UdpReceiver, count: usize) -> Vec<(Vec<u8>, SocketAddr)> {
    let mut received = receive(receiver, count);
    received.extend(receive_within(receiver, 1, Duration::from_millis(200)));
    received
}

fn receive_within(receiver: &mut UdpReceiver, count: usize, time: Duration) -> Vec<(Vec<u8>, SocketAddr)> {
    let (mut received, end) = (Vec::new(), Instant::now() + time);
    while received.len() < count && Instant::now() < end {
        let rest = end.saturating_duration_since(Instant::now());
        receiver.recv_batch(rest, &mut |bytes, from| received.push((bytes.to_vec(), from))).unwrap();
    }
    received
}

/// What arrived, without senders, sorted.
fn payloads(received: &[(Vec<u8>, SocketAddr)]) -> Vec<&[u8]> {
    let mut all: Vec<_> = received.iter().map(|datagram| datagram.0.as_slice()).collect();
    all.sort_unstable();
    all
}
