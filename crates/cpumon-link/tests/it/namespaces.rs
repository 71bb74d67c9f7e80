//! Broadcast and multicast between two network namespaces joined by cables.

use std::net::IpAddr;
use std::time::Duration;

use cpumon_link::receiving::{ReceiverOptions, UdpReceiver};
use cpumon_link::{SenderOptions, Target, UdpSender};

use crate::netns::{Namespace, available};
use crate::{payloads, receive, receive_all, receive_within};

/// A device and a server with one cable, 10.77.1.0/24 and `fd77:1::/64`.
fn device_and_server(label: &str) -> (Namespace, Namespace) {
    let (device, server) = (Namespace::new(&format!("{label}-a")), Namespace::new(&format!("{label}-b")));
    device.cable(&server, "veth0");
    for (namespace, host) in [(&device, 1), (&server, 2)] {
        namespace.ip(&format!("addr add 10.77.1.{host}/24 brd + dev veth0"));
        namespace.ip(&format!("addr add fd77:1::{host}/64 dev veth0 nodad"));
    }
    (device, server)
}

fn listen_in(namespace: &Namespace, listen: &str, groups: &[&str]) -> UdpReceiver {
    let options = ReceiverOptions {
        listen: vec![listen.parse().unwrap()],
        multicast: groups.iter().map(|group| group.parse().unwrap()).collect(),
        ..ReceiverOptions::default()
    };
    namespace.run(|| UdpReceiver::bind(&options).unwrap())
}

fn send_in(namespace: &Namespace, to: Target, datagrams: &[&[u8]]) -> UdpSender {
    namespace.run(|| {
        let mut sender = UdpSender::open(&SenderOptions { to: vec![to], pace: None }).unwrap();
        sender.send_batch(datagrams);
        sender
    })
}

#[test]
fn a_broadcast_reaches_every_receiver_on_the_subnet() {
    if !available() {
        return;
    }
    let (device, server) = device_and_server("bc");
    let mut receivers = [listen_in(&server, "0.0.0.0:3001", &[]), listen_in(&server, "0.0.0.0:3001", &[])];
    let sender = send_in(&device, Target::broadcast(3001), &[b"hello", b"data"]);
    assert_eq!((sender.stats.datagrams, sender.stats.errors), (2, 0));
    for receiver in &mut receivers {
        let received = receive(receiver, 2);
        assert_eq!(payloads(&received), [&b"data"[..], b"hello"]);
        assert!(received.iter().all(|datagram| datagram.1.ip() == IpAddr::from([10, 77, 1, 1])));
    }
}

#[test]
fn a_broadcast_leaves_through_every_interface_but_loopback() {
    if !available() {
        return;
    }
    let (device, server) = device_and_server("if");
    device.cable(&server, "veth1");
    device.cable(&server, "veth2");
    // veth1: no broadcast address was set; veth2: a second address in one subnet must not double the traffic.
    for (namespace, host) in [(&device, 1), (&server, 2)] {
        namespace.ip(&format!("addr add 10.77.2.{host}/24 dev veth1"));
        namespace.ip(&format!("addr add 10.77.3.{host}/24 brd + dev veth2"));
    }
    device.ip("addr add 10.77.3.9/24 brd + dev veth2");
    let mut receiver = listen_in(&server, "0.0.0.0:3001", &[]);
    let mut own_loopback = listen_in(&device, "127.255.255.255:3001", &[]);
    let sender = send_in(&device, Target::broadcast(3001), &[b"x"]);
    let mut from: Vec<_> =
        receive_all(&mut receiver, 3).iter().map(|datagram| datagram.1.ip().to_string()).collect();
    from.sort();
    assert_eq!(from, ["10.77.1.1", "10.77.2.1", "10.77.3.1"]);
    let mut to: Vec<_> = sender.destinations().map(|to| to.ip().to_string()).collect();
    to.sort();
    assert_eq!(to, ["10.77.1.255", "10.77.3.255", "255.255.255.255"]);
    assert!(receive_within(&mut own_loopback, 1, Duration::from_millis(20)).is_empty());
}

#[test]
fn a_named_interface_is_the_only_one() {
    if !available() {
        return;
    }
    let (device, server) = device_and_server("nm");
    device.cable(&server, "veth1");
    device.ip("addr add 10.77.2.1/24 brd + dev veth1");
    server.ip("addr add 10.77.2.2/24 brd + dev veth1");
    let mut receiver = listen_in(&server, "0.0.0.0:3001", &[]);
    let to = Target::broadcast(3001).on_interfaces(&["veth1".into()]);
    send_in(&device, to, &[b"x"]);
    let received = receive_all(&mut receiver, 1);
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].1.ip(), IpAddr::from([10, 77, 2, 1]));
    let sender = send_in(&device, Target::broadcast(3001).on_interfaces(&["lo".into()]), &[b"x"]);
    assert_eq!(sender.destinations().map(|to| to.to_string()).collect::<Vec<_>>(), ["127.255.255.255:3001"]);
    assert_eq!(sender.stats.errors, 0);
}

#[test]
fn multicast_reaches_those_who_joined() {
    if !available() {
        return;
    }
    let (device, server) = device_and_server("mc");
    for (listen, group, to) in [
        ("0.0.0.0:3001", "239.77.0.1", "239.77.0.1:3001"),
        ("[::]:3001", "ff02::7701", "[ff02::7701]:3001"),
        ("[::]:3001", "ff05::7701", "[ff05::7701]:3001"),
    ] {
        let mut joined = [listen_in(&server, listen, &[group]), listen_in(&server, listen, &[group])];
        let sender = send_in(&device, to.parse().unwrap(), &[b"group"]);
        assert_eq!((sender.stats.datagrams, sender.stats.errors), (1, 0), "{to}");
        for receiver in &mut joined {
            assert_eq!(payloads(&receive(receiver, 1)), [b"group"], "{to}");
        }
    }
}

#[test]
fn a_network_that_comes_back_is_used_again() {
    if !available() {
        return;
    }
    let (device, server) = device_and_server("up");
    let mut receiver = listen_in(&server, "0.0.0.0:3001", &[]);
    device.ip("link set veth0 down");
    let mut sender = send_in(&device, Target::broadcast(3001), &[b"lost", b"lost"]);
    assert_eq!((sender.stats.datagrams, sender.stats.errors), (0, 2));
    assert_eq!(sender.destinations().count(), 0);
    device.ip("link set veth0 up");
    // A sender that found nothing reads the interfaces again after a second, not after ten.
    std::thread::sleep(Duration::from_millis(1100));
    device.run(|| sender.send_batch(&[b"back"]));
    assert_eq!(payloads(&receive(&mut receiver, 1)), [b"back"]);
    assert_eq!(sender.stats.destination_changes, 1);
}
