//! [`DemuxOptions`]: what a demux takes, and how much it may hold.

use cpumon_model::limits::{Overflow, Rate, SourceTable};
use cpumon_wire::v1::AssemblerLimits;

use super::accounts::MemoryLimits;

/// Most sources with an allowance of their own at one time; those beyond share one allowance.
pub(super) const MAX_SOURCES: usize = 8_192;
/// A source may send what it may in so many ms at once: a receiver that was stopped takes in what waited in its socket.
const BURST_MS: u64 = 2_000;

/// What one source may send: an IPv4 address or an IPv6 network of 64 bits. A source that floods is refused before anything of
/// it is read, so that it takes no time from others.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SourceRate {
    /// Datagrams a second; 0: any number.
    pub datagrams_per_s: u64,
    /// Bytes a second; 0: any number.
    pub bytes_per_s: u64,
}

impl Default for SourceRate {
    /// docs/security.md says why so much.
    fn default() -> Self {
        Self { datagrams_per_s: 20_000, bytes_per_s: 64_000_000 }
    }
}

impl SourceRate {
    pub(super) fn table(self) -> SourceTable<2> {
        let rate = |amount| Rate { amount, seconds: 1, burst_ms: BURST_MS };
        SourceTable::new([self.datagrams_per_s, self.bytes_per_s].map(rate), MAX_SOURCES, Overflow::Share)
    }
}

/// Limits and choices of a [`Demux`](super::Demux).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DemuxOptions {
    /// Take v1 datagrams.
    pub accept_v1: bool,
    /// Take v2 frames that are not encrypted.
    pub accept_v2: bool,
    /// Most hosts of each table: plain v2, encrypted v2, v1. A full table refuses datagrams of further hosts, or one that was
    /// silent gives way.
    pub max_hosts: usize,
    /// Memory for hosts that do not encrypt, v1 among them; rows beyond are counted and left out.
    pub plain: MemoryLimits,
    /// Memory for hosts that encrypt.
    pub encrypted: MemoryLimits,
    /// A snapshot with missing fragments is given out as partial this long after its first fragment, ns.
    pub reassembly_timeout_ns: u64,
    /// Tasks that were not received for this many refresh rotations are taken as ended.
    pub stale_rotations: u32,
    /// Limits of one v1 set.
    pub v1: AssemblerLimits,
    /// What one source may send; `None`: any amount.
    pub source_rate: Option<SourceRate>,
    /// Sources of plain datagrams may take a share of the thread's time only. It is measured, so it differs from run to run.
    pub limits_cpu_time: bool,
}

impl Default for DemuxOptions {
    fn default() -> Self {
        Self {
            accept_v1: true,
            accept_v2: true,
            max_hosts: 4_096,
            plain: MemoryLimits::PLAIN,
            encrypted: MemoryLimits::ENCRYPTED,
            reassembly_timeout_ns: 500_000_000,
            stale_rotations: 3,
            v1: AssemblerLimits::default(),
            source_rate: None,
            limits_cpu_time: false,
        }
    }
}
