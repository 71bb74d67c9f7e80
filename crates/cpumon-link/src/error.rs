//! What can go wrong when a link is opened or read. Sending has no errors, only counts: see [`crate::SendStats`].

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::ParseTargetError;

/// A link could not be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A socket could not be made.
    #[error("cannot open a UDP socket for {purpose}: {error}")]
    Open {
        /// What the socket was for.
        purpose: &'static str,
        /// The system's answer.
        error: io::Error,
    },
    /// A socket option was refused.
    #[error("cannot set {option} on the socket for {address}: {error}")]
    Option {
        /// The option's name in socket(7), ip(7) or ipv6(7).
        option: &'static str,
        /// What the socket is for.
        address: SocketAddr,
        /// The system's answer.
        error: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}{}", bind_hint(error))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        error: io::Error,
    },
    /// No address to listen on was given.
    #[error("no address to listen on was given")]
    NothingToListenOn,
    /// No target to send to was given.
    #[error("no target to send to was given")]
    NothingToSendTo,
    /// The address is no multicast group.
    #[error("{group} is not a multicast group (IPv4: 224.0.0.0 to 239.255.255.255, IPv6: ff00::/8)")]
    NotMulticast {
        /// The address.
        group: IpAddr,
    },
    /// A group was given, but no socket of its address family listens.
    #[error("group {group} needs an {family} address to listen on, such as {example}")]
    NoSocketForGroup {
        /// The group.
        group: IpAddr,
        /// `IPv4` or `IPv6`.
        family: &'static str,
        /// An address that would do.
        example: &'static str,
    },
    /// The interfaces of this machine could not be listed.
    #[error("cannot list the network interfaces: {0}")]
    Interfaces(io::Error),
    /// Waiting for datagrams failed.
    #[error("cannot wait for datagrams: {0}")]
    Wait(io::Error),
    /// Receiving failed for good.
    #[error("cannot receive on {address}: {error}")]
    Receive {
        /// The address listened on.
        address: SocketAddr,
        /// The system's answer.
        error: io::Error,
    },
    /// A target could not be understood.
    #[error(transparent)]
    Target(#[from] ParseTargetError),
}

fn bind_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program holds the port without sharing it (SO_REUSEADDR)",
        io::ErrorKind::AddrNotAvailable => "; no interface has this address",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE",
        _ => "",
    }
}
