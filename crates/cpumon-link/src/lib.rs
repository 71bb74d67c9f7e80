//! Transport between agents and receivers: UDP sockets, TLS connections, discovery, and the spool on a device's disk.
//! Only this crate uses sockets, batched system calls, network interfaces and the files of a spool.
//!
//! # Overview
//! [`UdpSender`] sends each datagram to one address, to every subnet this machine is on (broadcast) or to a multicast
//! group; a network that is down is counted, never fatal. [`UdpReceiver`](receiving::UdpReceiver) listens on one or more ports that it shares
//! with other receivers, and reports how many datagrams the kernel dropped. [`spool`] stores snapshots on the device's own disk.
//! [`group`] is the file of keys for encrypted datagrams. [`tls`] is the encrypted connection, which delivers everything
//! that its [`Backlog`] holds. [`discovery`] finds receivers on the subnet.
//!
//! ```
//! use std::time::Duration;
//! use cpumon_link::receiving::{ReceiverOptions, UdpReceiver};
//! use cpumon_link::{SenderOptions, Target, UdpSender};
//! let mut receiver = UdpReceiver::bind(&ReceiverOptions {
//!     listen: vec!["127.0.0.1:0".parse()?],
//!     ..ReceiverOptions::default()
//! })?;
//! let to = receiver.local_addresses()?[0];
//! let mut sender = UdpSender::open(&SenderOptions { to: vec![Target::Unicast(to)], pace: None })?;
//! sender.send_batch(&[b"one", b"two"]);
//! let mut bytes = 0;
//! while bytes < 6 {
//!     receiver.recv_batch(Duration::from_secs(1), &mut |datagram, _from| bytes += datagram.len())?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![allow(missing_docs, reason = "an inner crate: names that say everything have no doc")]

pub mod attachments;
mod backlog;
mod destinations;
pub mod discovery;
mod error;
pub mod group;
mod interfaces;
mod platform;
mod sender;
pub mod spool;
mod target;
pub mod tls;

pub use backlog::{Backlog, BacklogCounts, NumberedRecord, RamBacklog};
pub use destinations::local_ips;
pub use error::LinkError;
pub use platform::receiving;
pub use sender::{SendStats, SenderOptions, UdpSender};
pub use target::{ParseTargetError, Target};

/// The port of agents and receivers, the same as the original's.
pub const DEFAULT_PORT: u16 = 3001;

/// The longest datagram that UDP can carry: 65,535 less the UDP header, over IPv6 (over IPv4 it is 65,507).
pub const MAX_DATAGRAM_BYTES: usize = 65_527;
