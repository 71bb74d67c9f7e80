//! A reporting machine: its identity ([`HostInfo`]), how far to trust it ([`Trust`]), its losses on the way ([`LossCounts`]), the host that
//! a text means ([`HostRef`]), and its own words ([`Terms`]).

use crate::{BootId, HostClock, HostId, Moment, SourceKind, coded};

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
    pub fn hidden_processes(&self) -> Option<&'static str> {
        self.source_reason.contains(PROCESSES_ARE_HIDDEN).then_some(PROCESSES_ARE_HIDDEN)
    }

    /// Whether it runs Windows, by the name of its system: sums in a store do not name the source that measured.
    pub fn is_windows(&self) -> bool {
        self.kernel.starts_with("Windows ")
    }
}

coded! {
    /// How a host's data came in. The number is its rank, how far a host's name is believed: of several hosts with one name, the highest
    /// is meant.
    Trust: rank name {
        /// Measured by this very process.
        Local = 4 "local",
        /// Plain datagrams: anyone on the network could have sent them. Every frontend says so.
        #[default]
        Unauthenticated = 0 "unauthenticated",
        /// Encrypted datagrams: from a sender who has the group's key. Any device of the group could have sent them.
        Encrypted = 2 "sealed",
        /// Over TLS, from the device that was enrolled under this host: it showed its certificate.
        Authenticated = 3 "authenticated",
        /// Read from a file that the user named.
        Imported = 1 "imported",
    }
}

impl Trust {
    /// Whether anyone vouches for the sender. What all others use is limited, together: they can be as many as they like.
    pub fn is_trusted(self) -> bool {
        self != Self::Unauthenticated
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
    /// Snapshots lost as a whole: none of their fragments arrived (sequence gaps).
    pub snapshots_lost: u64,
    /// Snapshots lost in part: some of their fragments never arrived. The rest was used.
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

/// The host that a text means among several: the one of this id, or the most trusted ones of this name. The receiver, the store, SQL
/// and the command line all ask here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum HostRef<'a> {
    /// The text is an id. Then it is no name: a host could be named after another one's id.
    Id(HostId),
    /// The text is a name; of several hosts with it, those of this [`Trust::rank`].
    Name {
        /// The name.
        name: &'a str,
        /// The highest rank that a host of this name has.
        rank: u8,
    },
}

impl<'a> HostRef<'a> {
    /// What `text` means among these hosts.
    pub fn new<'h>(text: &'a str, hosts: impl IntoIterator<Item = (&'h HostInfo, Trust)>) -> Self {
        if let Ok(id) = text.parse() {
            return Self::Id(id);
        }
        let named = hosts.into_iter().filter(|(info, _)| &*info.hostname == text);
        Self::Name { name: text, rank: named.map(|(_, trust)| trust.rank()).max().unwrap_or(0) }
    }

    /// Whether the text means this host.
    pub fn is(self, info: &HostInfo, trust: Trust) -> bool {
        match self {
            Self::Id(id) => info.host == id,
            Self::Name { name, rank } => &*info.hostname == name && trust.rank() == rank,
        }
    }
}

/// A label with its meaning.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Label beside a value.
    pub label: &'static str,
    /// Label where space is short.
    pub short: &'static str,
    /// Meaning in a few words.
    pub help: &'static str,
}

/// Words that differ between operating systems for the same counter: a deferred procedure call on Windows corresponds to a soft interrupt
/// on Linux. Names of columns stay the same everywhere, so that a mixed fleet compares; only labels and help texts change.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Time of hard interrupts.
    pub irq: Term,
    /// Time of what interrupts put off.
    pub softirq: Term,
}

impl Terms {
    /// Words of Linux, also for hosts whose system is not known.
    pub const LINUX: Self = Self {
        irq: Term { label: "irq", short: "irq", help: "hard interrupts" },
        softirq: Term { label: "softirq", short: "sirq", help: "soft interrupts" },
    };
    /// Words of Windows.
    pub const WINDOWS: Self = Self {
        irq: Term { label: "ISR", short: "ISR", help: "interrupt service routines (irq on Linux)" },
        softirq: Term { label: "DPC", short: "DPC", help: "deferred procedure calls (softirq on Linux)" },
    };

    /// Words of the host that this source measures.
    pub const fn of(source: SourceKind) -> Self {
        if source.is_windows() { Self::WINDOWS } else { Self::LINUX }
    }

    /// Words of this host, by the name of its system: sums have no source.
    pub fn of_host(info: &HostInfo) -> Self {
        if info.is_windows() { Self::WINDOWS } else { Self::LINUX }
    }

    /// The term for a CPU mode or a line of the ledger, by the name of its column; `None`: every system calls it the same.
    pub fn of_column(&self, name: &str) -> Option<&Term> {
        match name {
            "irq_ns" | "ledger_irq_ns" => Some(&self.irq),
            "softirq_ns" | "ledger_softirq_ns" => Some(&self.softirq),
            _ => None,
        }
    }
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

    #[test]
    fn an_id_is_no_name_and_of_equal_names_the_most_trusted_is_meant() {
        let host = |id: u8, name: &str| HostInfo {
            host: HostId([id; 16]),
            hostname: name.into(),
            ..HostInfo::default()
        };
        let id = HostId([1; 16]).to_string();
        let hosts = [
            (host(1, "web"), Trust::Authenticated),
            (host(2, "web"), Trust::Unauthenticated),
            (host(3, &id), Trust::Local),
        ];
        let meant = |text: &str| -> Vec<u8> {
            let meant = HostRef::new(text, hosts.iter().map(|(info, trust)| (info, *trust)));
            hosts.iter().filter(|(info, trust)| meant.is(info, *trust)).map(|host| host.0.host.0[0]).collect()
        };
        assert_eq!((meant("web"), meant(&id), meant("db")), (vec![1], vec![1], vec![]));
    }

    #[test]
    fn a_host_of_windows_has_its_own_words() {
        for source in [SourceKind::Nt, SourceKind::Toolhelp] {
            assert_eq!(Terms::of(source).softirq.label, "DPC");
        }
        for source in [SourceKind::Bpf, SourceKind::Procfs, SourceKind::V1, SourceKind::Unknown] {
            assert_eq!(Terms::of(source), Terms::LINUX);
        }
        for (kernel, label) in [("Windows 10.0.19045", "ISR"), ("Linux 6.18.4", "irq"), ("", "irq")] {
            let info = HostInfo { kernel: kernel.into(), ..HostInfo::default() };
            let terms = Terms::of_host(&info);
            assert_eq!(terms.of_column("ledger_irq_ns").map(|term| term.label), Some(label), "{kernel}");
            assert_eq!(terms.of_column("user_ns"), None);
        }
    }
}
