//! A host as JSON, from and to [`cpumon_model::HostStatus`].

use cpumon_model::{HostClock, HostInfo, HostStatus, LossCounts, Moment, ParseIdError, SourceKind, Trust};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `/api/v1/hosts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hosts {
    /// Hosts there are.
    #[serde(default)]
    pub total: usize,
    /// Hosts that reported since the receiver started, by name.
    pub hosts: Vec<Host>,
}

/// A host as the receiver sees it now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Host {
    /// Host id: 32 hexadecimal digits, stable over reboots.
    pub id: String,
    /// Boot id: 32 hexadecimal digits; all zero if not reported.
    pub boot: String,
    /// The machine's name; for v1 devices their address. Hostile text unless `trust` is `local`.
    pub hostname: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Machine architecture.
    pub arch: String,
    /// Agent name and version.
    pub agent: String,
    /// Why this source was chosen, one line.
    pub source_reason: String,
    /// Online CPUs; 0 if not reported.
    pub cpu_count: u32,
    /// The interval the agent aims at; 0 if not reported.
    pub interval_ns: u64,
    /// Where the last datagram came from, `address:port`; empty for the local agent.
    pub address: String,
    /// `local`, `authenticated` (over TLS, from the device enrolled under this host), `sealed` (datagrams encrypted under the group's key), `unauthenticated` (plain datagrams: anyone
    /// could have sent them) or `imported`.
    pub trust: String,
    /// Who measures: `procfs`, `bpf`, `v1`, …
    pub source: String,
    /// End of the newest interval on the device's clocks.
    pub last: Moment,
    /// When the receiver got it, on the receiver's clock.
    pub received_wall_ns: i64,
    /// The device's wall clock less the receiver's, ns: by exchanges of time over TLS, else as the newest interval arrived, the
    /// way included.
    pub clock_offset_ns: i64,
    /// How exact exchanges of time make it; absent where it follows from arrivals alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<HostClock>,
    /// Live threads.
    pub thread_count: u32,
    /// Live processes.
    pub process_count: u32,
    /// What was lost since the receiver started.
    pub loss: LossCounts,
}

impl From<&HostStatus> for Host {
    fn from(status: &HostStatus) -> Self {
        let info = &status.info;
        Self {
            id: info.host.to_string(),
            boot: info.boot.to_string(),
            hostname: info.hostname.to_string(),
            kernel: info.kernel.to_string(),
            arch: info.arch.to_string(),
            agent: info.agent.to_string(),
            source_reason: info.source_reason.to_string(),
            cpu_count: info.cpu_count,
            interval_ns: info.interval_ns,
            address: status.address.to_string(),
            trust: status.trust.name().into(),
            source: status.source.name().into(),
            last: status.last,
            received_wall_ns: status.received_wall_ns,
            clock_offset_ns: status.clock_offset_ns(),
            clock: status.clock,
            thread_count: status.thread_count,
            process_count: status.process_count,
            loss: status.loss,
        }
    }
}

impl TryFrom<Host> for HostStatus {
    type Error = ParseIdError;

    fn try_from(host: Host) -> Result<Self, ParseIdError> {
        Ok(Self {
            info: HostInfo {
                host: host.id.parse()?,
                boot: host.boot.parse()?,
                hostname: host.hostname.into(),
                kernel: host.kernel.into(),
                arch: host.arch.into(),
                agent: host.agent.into(),
                source_reason: host.source_reason.into(),
                cpu_count: host.cpu_count,
                interval_ns: host.interval_ns,
            },
            address: host.address.into(),
            trust: Trust::from_name(&host.trust),
            source: SourceKind::from_name(&host.source),
            last: host.last,
            received_wall_ns: host.received_wall_ns,
            clock: host.clock,
            thread_count: host.thread_count,
            process_count: host.process_count,
            loss: host.loss,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpumon_model::{BootId, HostId};

    #[test]
    fn a_host_survives_its_json() {
        let status = HostStatus {
            info: HostInfo {
                host: HostId([7; 16]),
                boot: BootId([9; 16]),
                hostname: "dev\u{1b}ice".into(),
                kernel: "Linux 6.18".into(),
                arch: "x86_64".into(),
                agent: "cpumon 0.1.0".into(),
                source_reason: "bpf: permitted".into(),
                cpu_count: 4,
                interval_ns: 1_000_000_000,
            },
            address: "10.0.0.2:41234".into(),
            trust: Trust::Unauthenticated,
            source: SourceKind::Bpf,
            last: Moment { mono_ns: u64::MAX, boot_ns: 2, wall_ns: i64::MIN },
            received_wall_ns: 3,
            clock: Some(HostClock { offset_ns: -9, round_trip_ns: 4, drift_ppb: Some(-5), steps: 6 }),
            thread_count: 4,
            process_count: 5,
            loss: LossCounts {
                datagrams: 1,
                bytes: 2,
                snapshots: 3,
                snapshots_lost: 4,
                snapshots_partial: 5,
                duplicates: 6,
                reordered: 7,
                rejected: 8,
                store_dropped: 9,
            },
        };
        let json = serde_json::to_string(&Host::from(&status)).unwrap();
        let back: Host = serde_json::from_str(&json).unwrap();
        assert_eq!(HostStatus::try_from(back).unwrap(), status);
    }
}
