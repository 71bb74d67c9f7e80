//! [`Target`]: where datagrams go, parsed from the command line.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use crate::DEFAULT_PORT;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Target {
    Unicast(SocketAddr),
    /// One host by name, looked up at start and now and then, never on the sending thread.
    Name {
        /// The name, or an IPv6 address with a zone (`fe80::1%eth0`).
        host: String,
        port: u16,
    },
    /// Every IPv4 subnet that this machine is on. IPv6 has no broadcast; multicast to `ff02::1` is its nearest.
    Broadcast {
        port: u16,
        /// Names of the interfaces to use; empty: all that are up and can broadcast, loopback left out.
        interfaces: Vec<String>,
    },
    Multicast {
        group: IpAddr,
        port: u16,
        /// Routers that may forward it, plus one (time to live, hop limit); 1 stays on the link.
        ttl: u8,
        /// Names of the interfaces to use; empty: all that are up and can multicast, loopback left out.
        interfaces: Vec<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a target: {reason} (expected ADDRESS[:PORT], [IPV6]:PORT or HOST[:PORT])")]
pub struct ParseTargetError {
    text: String,
    reason: &'static str,
}

impl Target {
    pub fn broadcast(port: u16) -> Self {
        Self::Broadcast { port, interfaces: Vec::new() }
    }

    /// The same target on the named interfaces only. A single address takes whatever route it has.
    #[must_use]
    pub fn on_interfaces(self, names: &[String]) -> Self {
        match self {
            Self::Broadcast { port, .. } => Self::Broadcast { port, interfaces: names.to_vec() },
            Self::Multicast { group, port, ttl, .. } => {
                Self::Multicast { group, port, ttl, interfaces: names.to_vec() }
            }
            single => single,
        }
    }

    /// Which kind of target an address is: 255.255.255.255 means broadcast, a group means multicast on the link.
    pub fn from_address(address: SocketAddr) -> Self {
        match address.ip() {
            IpAddr::V4(Ipv4Addr::BROADCAST) => Self::broadcast(address.port()),
            group if group.is_multicast() => {
                Self::Multicast { group, port: address.port(), ttl: 1, interfaces: Vec::new() }
            }
            _ => Self::Unicast(address),
        }
    }
}

impl FromStr for Target {
    type Err = ParseTargetError;

    /// As [`Target::parse`], with port 3001 if none is given.
    fn from_str(text: &str) -> Result<Self, ParseTargetError> {
        Self::parse(text, DEFAULT_PORT)
    }
}

impl Target {
    /// `ADDRESS`, `ADDRESS:PORT`, `[IPV6]`, `[IPV6]:PORT`, `HOST`, `HOST:PORT`.
    ///
    /// # Errors
    /// The text is none of these.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, ParseTargetError> {
        let error = |reason| ParseTargetError { text: text.chars().take(80).collect(), reason };
        if text.is_empty() {
            return Err(error("it is empty"));
        }
        if let Ok(ip) = text.parse::<Ipv6Addr>() {
            return Ok(Self::from_address(SocketAddr::new(ip.into(), default_port)));
        }
        let (host, port) = split_port(text, default_port).map_err(error)?;
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(Self::from_address(SocketAddr::new(ip, port)));
        }
        check_name(host).map_err(error)?;
        Ok(Self::Name { host: host.to_owned(), port })
    }
}

/// Splits `[host]:port`, `[host]`, `host:port` or `host`.
fn split_port(text: &str, default_port: u16) -> Result<(&str, u16), &'static str> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("the ] is missing")?;
        if host.split('%').next().is_none_or(|ip| ip.parse::<Ipv6Addr>().is_err()) {
            return Err("there is no IPv6 address between [ and ]");
        }
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err("only :PORT may follow the ]"),
        }
    } else {
        match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return Err("write an IPv6 address with a port as [IPV6]:PORT");
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    Ok((host, port.map_or(Ok(default_port), parse_port)?))
}

fn parse_port(text: &str) -> Result<u16, &'static str> {
    let port = if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None };
    port.filter(|&port| port != 0).ok_or("the port is not a number from 1 to 65535")
}

fn check_name(host: &str) -> Result<(), &'static str> {
    if host.contains('%') {
        return Ok(()); // an IPv6 address with a zone, checked by split_port
    }
    if host.is_empty() || host.len() > 253 {
        return Err("the host has no name");
    }
    if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err("the address is not a valid IPv4 address");
    }
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.starts_with('-') || !host.bytes().all(is_name_byte) {
        return Err("the host name holds a character that no host name has");
    }
    Ok(())
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |f: &mut fmt::Formatter<'_>, interfaces: &[String]| {
            if interfaces.is_empty() { Ok(()) } else { write!(f, " on {}", interfaces.join(", ")) }
        };
        match self {
            Self::Unicast(address) => write!(f, "{address}"),
            Self::Name { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Broadcast { port, interfaces } => {
                write!(f, "broadcast port {port}")?;
                on(f, interfaces)
            }
            Self::Multicast { group, port, interfaces, .. } => {
                write!(f, "multicast {}", SocketAddr::new(*group, *port))?;
                on(f, interfaces)
            }
        }
    }
}

/// Between two attempts while the name is not known.
const RETRY: Duration = Duration::from_secs(10);
/// Between two look-ups of a name that is known: its address may change.
const RENEW: Duration = Duration::from_mins(5);

type Answer = io::Result<SocketAddr>;

/// A host name and the address that it resolved to last.
pub struct Resolver {
    host: String,
    port: u16,
    address: Option<SocketAddr>,
    pending: Option<Receiver<Answer>>,
    next: Instant,
    has_warned: bool,
}

impl Resolver {
    /// Starts to resolve the name at once.
    pub fn new(host: &str, port: u16, now: Instant) -> Self {
        let mut resolver =
            Self { host: host.to_owned(), port, address: None, pending: None, next: now, has_warned: false };
        resolver.start(now);
        resolver
    }

    fn start(&mut self, now: Instant) {
        let (to_us, from_thread) = sync_channel(1);
        let (host, port) = (self.host.clone(), self.port);
        let resolve = move || {
            let mut found = (host.as_str(), port).to_socket_addrs();
            let first = found.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()));
            let answer =
                first.and_then(|list| list.next().ok_or_else(|| io::Error::other("it has no address")));
            // The receiving end is gone if the sender was closed meanwhile.
            let _ = to_us.send(answer);
        };
        self.next = now + RETRY;
        match thread::Builder::new().name("cpumon-resolve".into()).spawn(resolve) {
            Ok(_) => self.pending = Some(from_thread),
            Err(error) => self.accept(Err(error), now),
        }
    }

    fn accept(&mut self, answer: Answer, now: Instant) {
        match answer {
            Ok(address) => {
                (self.address, self.next, self.has_warned) = (Some(address), now + RENEW, false);
            }
            Err(error) => {
                self.next = now + RETRY;
                if !std::mem::replace(&mut self.has_warned, true) {
                    log::warn!("cannot look up {}: {error}; trying again every {RETRY:?}", self.host);
                }
            }
        }
    }

    /// Waits for the look-up under way, at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) {
        match self.pending.as_ref().map(|pending| pending.recv_timeout(timeout)) {
            None | Some(Err(RecvTimeoutError::Timeout)) => {}
            // The thread panicked without an answer: the next try starts another one.
            Some(Err(RecvTimeoutError::Disconnected)) => self.pending = None,
            Some(Ok(answer)) => {
                self.pending = None;
                self.accept(answer, Instant::now());
            }
        }
    }

    /// The address as far as it is known; an address that cannot be looked up again stays in use.
    pub fn address(&mut self, now: Instant) -> Option<SocketAddr> {
        self.wait(Duration::ZERO);
        if self.pending.is_none() && now >= self.next {
            self.start(now);
        }
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_with_and_without_a_port() {
        for (text, shown) in [
            ("10.0.0.1", "10.0.0.1:3001"),
            ("10.0.0.1:9", "10.0.0.1:9"),
            ("::1", "[::1]:3001"),
            ("[::1]", "[::1]:3001"),
            ("[2001:db8::2]:65535", "[2001:db8::2]:65535"),
        ] {
            assert!(matches!(target(text), Target::Unicast(_)), "{text}");
            assert_eq!(target(text).to_string(), shown);
        }
    }

    #[test]
    fn names_are_resolved_later() {
        assert_eq!(target("server"), Target::Name { host: "server".into(), port: 3001 });
        assert_eq!(target("server.example:7").to_string(), "server.example:7");
        assert_eq!(target("[fe80::1%eth0]:7").to_string(), "[fe80::1%eth0]:7");
    }

    #[test]
    fn the_address_determines_the_kind() {
        assert_eq!(target("255.255.255.255:5"), Target::broadcast(5));
        assert_eq!(target("239.1.2.3").to_string(), "multicast 239.1.2.3:3001");
        assert!(matches!(target("[ff02::1]:5"), Target::Multicast { ttl: 1, .. }));
    }

    #[test]
    fn errors_name_the_reason() {
        for (text, reason) in [
            ("", "empty"),
            ("10.0.0.1:", "the port is not"),
            ("10.0.0.1:0", "the port is not"),
            ("10.0.0.1:+5", "the port is not"),
            ("10.0.0.1:65536", "the port is not"),
            ("10.0.0.256:3001", "not a valid IPv4"),
            ("2001:db8::2:3001:x", "[IPV6]:PORT"),
            ("[::1", "] is missing"),
            ("[::1]x", "only :PORT"),
            ("[server]:1", "no IPv6 address"),
            ("a b", "character"),
            ("-x", "character"),
            (":3001", "no name"),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn interfaces_apply_to_broadcast_and_multicast_only() {
        let names = ["eth0".to_owned()];
        assert_eq!(
            target("255.255.255.255").on_interfaces(&names).to_string(),
            "broadcast port 3001 on eth0"
        );
        assert_eq!(target("10.0.0.1").on_interfaces(&names), target("10.0.0.1"));
    }

    #[test]
    fn a_name_becomes_an_address() {
        let mut resolver = Resolver::new("localhost", 7, Instant::now());
        resolver.wait(Duration::from_mins(2));
        let address = resolver.address(Instant::now()).unwrap();
        assert!(address.ip().is_loopback());
        assert_eq!(address.port(), 7);
    }

    #[test]
    fn an_unknown_name_is_tried_again_later_and_keeps_the_old_address() {
        let now = Instant::now();
        let mut resolver = Resolver::new("localhost", 7, now);
        resolver.wait(Duration::from_mins(2));
        resolver.accept(Err(io::Error::other("gone")), now);
        assert!(resolver.address(now).is_some());
        assert!(resolver.pending.is_none());
        assert!(resolver.address(now + RETRY).is_some());
        assert!(resolver.pending.is_some());
    }
}
