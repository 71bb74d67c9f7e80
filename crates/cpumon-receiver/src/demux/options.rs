//! [`DemuxOptions`]: what a demux takes, and how much it may hold.

use cpumon_wire::v1::AssemblerLimits;

use super::rates::SourceRate;

/// Limits and choices of a [`Demux`](super::Demux).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DemuxOptions {
    /// Take v1 datagrams.
    pub accept_v1: bool,
    /// Take v2 frames that are not encrypted.
    pub accept_v2: bool,
    /// Most hosts, v1 and v2 together; datagrams of further ones are refused and counted.
    pub max_hosts: usize,
    /// Most live threads kept per host; further ones are counted and left out.
    pub max_threads_per_host: usize,
    /// Most live threads kept in all; as above.
    pub max_threads: usize,
    /// Most bytes of process names, command lines and groups kept per host; processes beyond stay nameless, counted.
    pub max_text_bytes_per_host: usize,
    /// Most bytes of such texts kept in all.
    pub max_text_bytes: usize,
    /// A snapshot with missing fragments is given out as partial this long after its first fragment, ns.
    pub reassembly_timeout_ns: u64,
    /// Tasks that were not received for this many refresh rotations are taken as ended.
    pub stale_rotations: u32,
    /// Limits of one v1 set.
    pub v1: AssemblerLimits,
    /// What one source address may send; `None`: any amount.
    pub source_rate: Option<SourceRate>,
}

impl Default for DemuxOptions {
    fn default() -> Self {
        Self {
            accept_v1: true,
            accept_v2: true,
            max_hosts: 4_096,
            max_threads_per_host: 262_144,
            max_threads: 8_000_000,
            max_text_bytes_per_host: 16 << 20,
            max_text_bytes: 1 << 30,
            reassembly_timeout_ns: 500_000_000,
            stale_rotations: 3,
            v1: AssemblerLimits::default(),
            source_rate: None,
        }
    }
}
