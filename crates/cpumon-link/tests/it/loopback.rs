//! Batches, sizes, shared ports, drops and errors, all on loopback.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cpumon_link::receiving::{ReceiverOptions, UdpReceiver};
use cpumon_link::{LinkError, MAX_DATAGRAM_BYTES, SenderOptions, Target, UdpSender};

use crate::{payloads, receive, receive_within};

fn listen_on(addresses: &[&str]) -> UdpReceiver {
    let listen = addresses.iter().map(|address| address.parse().unwrap()).collect();
    UdpReceiver::bind(&ReceiverOptions { listen, ..ReceiverOptions::default() }).unwrap()
}

fn send_to(addresses: &[SocketAddr]) -> UdpSender {
    let to = addresses.iter().copied().map(Target::from_address).collect();
    UdpSender::open(&SenderOptions { to, pace: None }).unwrap()
}

#[test]
fn more_datagrams_than_a_batch_arrive_in_order() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut receiver = listen_on(&[address]);
        let mut sender = send_to(&receiver.local_addresses().unwrap());
        let datagrams: Vec<[u8; 2]> = (0..300_u16).map(u16::to_be_bytes).collect();
        sender.send_batch(&datagrams);
        let received = receive(&mut receiver, datagrams.len());
        assert!(
            received.iter().map(|datagram| &datagram.0[..]).eq(datagrams.iter().map(|sent| &sent[..])),
            "{address}"
        );
        assert_eq!((sender.stats.datagrams, sender.stats.bytes, sender.stats.errors), (300, 600, 0));
        assert_eq!((receiver.kernel_drops(), receiver.receive_errors), (0, 0));
    }
}

#[test]
fn one_receiver_hears_several_addresses_and_families() {
    let mut receiver = listen_on(&["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"]);
    let addresses = receiver.local_addresses().unwrap();
    send_to(&addresses).send_batch(&[b"x"]);
    let received = receive(&mut receiver, 3);
    assert_eq!(received.len(), 3);
    assert_eq!(received.iter().filter(|datagram| datagram.1.is_ipv6()).count(), 1);
}

#[test]
fn a_name_is_as_good_as_an_address() {
    let mut receiver = listen_on(&["127.0.0.1:0", "[::1]:0"]);
    let to = receiver.local_addresses().unwrap();
    for port in [to[0].port(), to[1].port()] {
        let target = format!("localhost:{port}").parse().unwrap();
        UdpSender::open(&SenderOptions { to: vec![target], pace: None }).unwrap().send_batch(&[b"by name"]);
    }
    assert!(!receive(&mut receiver, 1).is_empty());
}

#[test]
fn the_longest_datagrams_arrive_whole_and_longer_ones_are_counted() {
    for (address, longest) in [("127.0.0.1:0", 65_507), ("[::1]:0", MAX_DATAGRAM_BYTES)] {
        let mut receiver = listen_on(&[address]);
        let mut sender = send_to(&receiver.local_addresses().unwrap());
        let (whole, empty, too_long) = (vec![7_u8; longest], Vec::new(), vec![8_u8; longest + 1]);
        sender.send_batch(&[&whole, &empty, &too_long, &whole]);
        let received = receive(&mut receiver, 3);
        assert_eq!(payloads(&received), [&empty[..], &whole[..], &whole[..]], "{address}");
        let stats = &sender.stats;
        assert_eq!((stats.datagrams, stats.errors), (3, 1));
        let kinds: Vec<_> = stats.by_kind().map(|(error, count)| (error.raw_os_error(), count)).collect();
        assert_eq!(kinds, [(Some(libc_errno::EMSGSIZE), 1)]);
    }
}

/// The one number of errno(3) that these tests name.
mod libc_errno {
    pub const EMSGSIZE: i32 = 90;
}

#[test]
fn no_one_listening_is_no_error() {
    // An address of its own: the port is free soon, and another test may get it.
    let closed = {
        let receiver = listen_on(&["127.44.0.1:0"]);
        receiver.local_addresses().unwrap()
    };
    let mut sender = send_to(&closed);
    for _ in 0..50 {
        sender.send_batch(&[b"anyone?"]);
    }
    assert_eq!((sender.stats.datagrams, sender.stats.errors), (50, 0));
}

#[test]
fn an_unknown_name_is_counted_and_harms_no_other_target() {
    let mut receiver = listen_on(&["127.0.0.1:0"]);
    let to = vec![
        Target::Unicast(receiver.local_addresses().unwrap()[0]),
        "no-such-host.invalid".parse().unwrap(),
    ];
    let mut sender = UdpSender::open(&SenderOptions { to, pace: None }).unwrap();
    sender.send_batch(&[b"a", b"b"]);
    assert_eq!(receive(&mut receiver, 2).len(), 2);
    assert_eq!((sender.stats.datagrams, sender.stats.errors), (2, 2));
}

#[test]
fn two_receivers_on_one_port_and_unicast_goes_to_the_newer() {
    let mut older = listen_on(&["127.0.0.1:0"]);
    let address = older.local_addresses().unwrap()[0];
    let mut newer = listen_on(&[&address.to_string()]);
    assert_eq!(older.shared_addresses().count(), 0);
    assert_eq!(newer.shared_addresses().collect::<Vec<_>>(), [address], "the newer one reports it");
    for _ in 0..20 {
        // Another source port each time: with SO_REUSEPORT the kernel would deal them out.
        send_to(&[address]).send_batch(&[b"one"]);
    }
    assert_eq!(receive(&mut newer, 20).len(), 20);
    assert_eq!(receive_within(&mut older, 1, Duration::from_millis(50)).len(), 0);
    drop(newer);
    // A datagram may be lost, on a crowded machine here too.
    let hears = |_| {
        send_to(&[address]).send_batch(&[b"one"]);
        !receive_within(&mut older, 1, Duration::from_millis(100)).is_empty()
    };
    assert!((0..100).any(hears));
}

#[test]
fn what_the_kernel_drops_is_counted_exactly() {
    let options = ReceiverOptions {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        receive_buffer_bytes: 8192,
        ..ReceiverOptions::default()
    };
    let mut receiver = UdpReceiver::bind(&options).unwrap();
    let mut sender = send_to(&receiver.local_addresses().unwrap());
    let (mut sent, mut received) = (0, 0);
    for _round in 0..3 {
        let datagrams = vec![[1_u8; 1000]; 200];
        sender.send_batch(&datagrams);
        sent += datagrams.len();
        received += receive_within(&mut receiver, sent, Duration::from_millis(50)).len();
    }
    assert!(received < sent, "a buffer of 8 KiB cannot hold 200 datagrams of 1,000 bytes");
    assert_eq!(received as u64 + receiver.kernel_drops(), sent as u64);
    assert_eq!(receiver.kernel_drops(), receiver.kernel_drops());
}

#[test]
fn the_buffer_asked_for_is_reported() {
    let options = |bytes| ReceiverOptions {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        receive_buffer_bytes: bytes,
        ..ReceiverOptions::default()
    };
    let small = UdpReceiver::bind(&options(16 << 10)).unwrap().buffer_bytes();
    let large = UdpReceiver::bind(&options(128 << 10)).unwrap().buffer_bytes();
    assert!(small >= 16 << 10 && large > small, "{small} {large}");
}

#[test]
fn the_pace_is_kept_between_datagrams() {
    let mut receiver = listen_on(&["127.0.0.1:0"]);
    let to = vec![Target::Unicast(receiver.local_addresses().unwrap()[0])];
    let mut sender = UdpSender::open(&SenderOptions { to, pace: Some(Duration::from_millis(2)) }).unwrap();
    let start = Instant::now();
    sender.send_batch(&[b"x"; 10]);
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert_eq!(receive(&mut receiver, 10).len(), 10);
}

#[test]
fn waiting_ends_after_the_timeout() {
    let mut receiver = listen_on(&["127.0.0.1:0"]);
    let start = Instant::now();
    assert_eq!(receiver.recv_batch(Duration::from_millis(30), &mut |_, _| {}).unwrap(), 0);
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(receiver.recv_batch(Duration::ZERO, &mut |_, _| {}).unwrap(), 0);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let bind =
        |options: &ReceiverOptions| UdpReceiver::bind(options).err().map(|error| error.to_string()).unwrap();
    let options = |listen: &str, group: &str| ReceiverOptions {
        listen: vec![listen.parse().unwrap()],
        multicast: vec![group.parse().unwrap()],
        ..ReceiverOptions::default()
    };
    assert!(bind(&options("127.0.0.1:0", "10.0.0.1")).contains("10.0.0.1 is not a multicast group"));
    assert!(bind(&options("127.0.0.1:0", "ff02::1")).contains("needs an IPv6 address"));
    assert!(bind(&options("192.0.2.77:3001", "239.1.1.1")).contains("no interface has this address"));
    let nothing = SenderOptions::default();
    assert!(matches!(UdpSender::open(&nothing), Err(LinkError::NothingToSendTo)));
    let alone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = ReceiverOptions { listen: vec![alone.local_addr().unwrap()], ..ReceiverOptions::default() };
    assert!(bind(&taken).contains("another program holds the port"));
}
