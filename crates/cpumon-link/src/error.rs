//! What can go wrong when a link is opened or read. Sending has no errors, only counts: see [`crate::SendStats`].

use std::io;
use std::net::{IpAddr, SocketAddr};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    #[error("cannot open a UDP socket for {purpose}: {error}")]
    Open { purpose: &'static str, error: io::Error },
    #[error("cannot set {option} on the socket for {address}: {error}")]
    Option {
        /// The option's name in socket(7), ip(7) or ipv6(7).
        option: &'static str,
        address: SocketAddr,
        error: io::Error,
    },
    #[error("cannot listen on {address}: {error}{}", bind_hint(error))]
    Bind { address: SocketAddr, error: io::Error },
    #[error("no address to listen on was given")]
    NothingToListenOn,
    #[error("no target to send to was given")]
    NothingToSendTo,
    #[error("{group} is not a multicast group (IPv4: 224.0.0.0 to 239.255.255.255, IPv6: ff00::/8)")]
    NotMulticast { group: IpAddr },
    #[error("group {group} needs an {family} address to listen on, such as {example}")]
    NoSocketForGroup {
        group: IpAddr,
        /// `IPv4` or `IPv6`.
        family: &'static str,
        example: &'static str,
    },
    #[error("cannot list the network interfaces: {0}")]
    Interfaces(io::Error),
    #[error("cannot wait for datagrams: {0}")]
    Wait(io::Error),
}

fn bind_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program holds the port without sharing it (SO_REUSEADDR)",
        io::ErrorKind::AddrNotAvailable => "; no interface has this address",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE",
        _ => "",
    }
}
