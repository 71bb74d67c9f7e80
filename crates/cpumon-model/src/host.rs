//! What is known about a reporting machine: who it is ([`HostInfo`]), how far to trust it, what got lost on the way.

use crate::{BootId, HostClock, HostId, Moment, SourceKind};

/// Part of a source's reason where /proc hides the processes of other users: their time is known in sum only.
pub const PROCESSES_ARE_HIDDEN: &str =
    "/proc hides other users' processes (hidepid), their time is unattributed";

/// A machine as its agent describes it. Sent at start, on change, and repeated now and then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct HostInfo {
    /// Identity of the machine, the same over reboots.
    #[cfg_attr(feature = "json", serde(rename = "id"))]
    pub host: HostId,
    /// Identity of the boot.
    pub boot: BootId,
    /// The machine's name (`uname -n`); for v1 devices their address.
    pub hostname: Box<str>,
    /// `uname -sr`, e.g. `Linux 6.18.4`.
    pub kernel: Box<str>,
    /// Machine architecture, `uname -m`.
    pub arch: Box<str>,
    /// Agent name and version.
    pub agent: Box<str>,
    /// Who measures and why that source was chosen, one line.
    pub source_reason: Box<str>,
    /// Number of CPUs online; 0 where unknown.
    pub cpu_count: u32,
    /// The interval the agent aims at, ns.
    pub interval_ns: u64,
}

impl HostInfo {
    /// Changes a name that is the id of another host, in any spelling, to one that is no id. Returns whether it did. A text that is
    /// an id means that host everywhere, so under such a name the host could not be found, and would pass for the other one.
    pub fn change_id_name(&mut self) -> bool {
        match self.hostname.parse::<HostId>() {
            // Its own id is what a host without a name shows.
            Ok(id) if id != self.host => {
                self.hostname = format!("host-{id}").into();
                true
            }
            _ => false,
        }
    }

    /// [`PROCESSES_ARE_HIDDEN`], if the agent says so.
    #[must_use]
    pub fn hidden_processes(&self) -> Option<&'static str> {
        self.source_reason.contains(PROCESSES_ARE_HIDDEN).then_some(PROCESSES_ARE_HIDDEN)
    }

    /// Whether it runs Windows, by the name of its system: sums in a store do not name the source that measured.
    #[must_use]
    pub fn is_windows(&self) -> bool {
        self.kernel.starts_with("Windows ")
    }
}

/// How a host's data came in.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Measured by this very process.
    Local,
    /// Plain datagrams: anyone on the network could have sent them. Every frontend says so.
    #[default]
    Unauthenticated,
    /// Encrypted datagrams: from a sender who has the group's key. Any device of the group could have sent them.
    Encrypted,
    /// Over TLS, from the device that was enrolled under this host: it showed its certificate.
    Authenticated,
    /// Read from a file that the user named.
    Imported,
}

impl Trust {
    /// How far a host's name is believed: of several hosts with one name, the highest is meant.
    #[must_use]
    pub fn rank(self) -> u8 {
        match self {
            Self::Unauthenticated => 0,
            Self::Imported => 1,
            Self::Encrypted => 2,
            Self::Authenticated => 3,
            Self::Local => 4,
        }
    }

    /// Whether anyone vouches for the sender. What all others use is limited, together: they can be as many as they like.
    #[must_use]
    pub fn is_trusted(self) -> bool {
        self != Self::Unauthenticated
    }

    /// The stable name (API, store).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Unauthenticated => "unauthenticated",
            Self::Encrypted => "sealed",
            Self::Authenticated => "authenticated",
            Self::Imported => "imported",
        }
    }

    /// From its stable name; anything else is [`Trust::Unauthenticated`].
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "local" => Self::Local,
            "sealed" => Self::Encrypted,
            "authenticated" => Self::Authenticated,
            "imported" => Self::Imported,
            _ => Self::Unauthenticated,
        }
    }
}

/// What was lost, doubled or refused between a host and this receiver; cumulative since the receiver started.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
#[cfg_attr(feature = "json", schema(as = Loss))]
pub struct LossCounts {
    /// Datagrams that arrived from this host.
    pub datagrams: u64,
    /// Bytes of those datagrams.
    pub bytes: u64,
    /// Snapshots put together completely.
    pub snapshots: u64,
    /// Snapshots of which no fragment arrived (sequence gaps).
    pub snapshots_lost: u64,
    /// Snapshots of which some fragments never arrived; what did arrive was used.
    pub snapshots_partial: u64,
    /// Datagrams that arrived a second time.
    pub duplicates: u64,
    /// Datagrams that arrived after a later one.
    pub reordered: u64,
    /// Datagrams that could not be decoded.
    pub rejected: u64,
    /// Intervals thrown away because the store's queue was full.
    pub store_dropped: u64,
}

impl HostStatus {
    /// The device's wall clock less the receiver's, ns: by exchanges, else as its newest interval arrived, the way included.
    #[must_use]
    pub fn clock_offset_ns(&self) -> i64 {
        let arrived = || self.last.wall_ns.saturating_sub(self.received_wall_ns);
        self.clock.map_or_else(arrived, |clock| clock.offset_ns)
    }
}

/// A host as the receiver sees it now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
#[cfg_attr(feature = "json", schema(as = Host))]
pub struct HostStatus {
    /// Identity, name and agent of the host.
    #[cfg_attr(feature = "json", serde(flatten))]
    pub info: HostInfo,
    /// Where the last datagram came from, `address:port`; empty for local.
    pub address: Box<str>,
    /// How its data came in.
    pub trust: Trust,
    /// The source that measures on the host.
    pub source: SourceKind,
    /// End of the newest interval, on the device's clocks.
    pub last: Moment,
    /// When the receiver got it, ns since the UNIX epoch on the receiver's clock.
    pub received_wall_ns: i64,
    /// Its clock against the receiver's, by exchanges over TLS; `None`: known from arrivals only.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "Option::is_none"))]
    pub clock: Option<HostClock>,
    /// Threads alive at the end of the newest interval.
    pub thread_count: u32,
    /// Processes alive at the end of the newest interval.
    pub process_count: u32,
    /// What was lost or refused on the way to this receiver.
    pub loss: LossCounts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_the_id_of_another_host_is_changed() {
        let (own, other) = (HostId([1; 16]), HostId([0xab; 16]));
        let spelled = format!(" ABABABAB-{} ", "abab-".repeat(6));
        for name in [other.to_string(), spelled] {
            let mut info = HostInfo { host: own, hostname: name.as_str().into(), ..HostInfo::default() };
            assert!(info.change_id_name() && !info.change_id_name(), "{name}");
            assert_eq!(*info.hostname, *format!("host-{other}"));
        }
        for name in [own.to_string().as_str(), "web", "", "abab"] {
            let mut info = HostInfo { host: own, hostname: name.into(), ..HostInfo::default() };
            assert!(!info.change_id_name() && *info.hostname == *name);
        }
    }
}
