//! [`Source`] fills snapshots of a machine, and a [`TraceRecorder`](crate::TraceRecorder) hands out [`TraceItem`]s. This file alone chooses
//! the platform; the rest of the workspace reaches it through `platform` and never asks which one it is.

#[cfg(not(target_os = "linux"))]
#[path = "absent.rs"]
mod absent;
#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
pub(crate) mod platform;
#[cfg(target_os = "windows")]
#[path = "windows/mod.rs"]
pub(crate) mod platform;
#[cfg(not(any(target_os = "linux", target_os = "windows")))]
#[path = "unsupported.rs"]
pub(crate) mod platform;

use cpumon_model::{Probes, Snapshot, SourceKind};
use cpumon_sched::{SchedEvent, TraceGroup, TraceIdentity};

use crate::CollectError;

pub trait Source {
    /// Makes one collection pass and replaces the content of `into`.
    ///
    /// Buffers of `into` are reused: a steady state allocates nothing. Its data from an earlier pass of this source may
    /// be reused, so it must come unchanged or cleared. All lists come out sorted. `sequence` counts passes from 0. The
    /// interval counts of `into.health` stay 0: [`crate::Schedule::count_into`] sets them.
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError>;

    /// CPU time of code inside the kernel for this source, ns, cumulative: measured where the kernel measures it
    /// (`kernel.bpf_stats_enabled`), else estimated from the events. It is not in this process's own CPU time.
    fn probe_cpu_ns(&self) -> u64 {
        0
    }
}

/// A source that runs, and why it is this one.
pub struct Opened {
    pub source: Box<dyn Source + Send>,
    pub kind: SourceKind,
    /// Why this source was chosen, in one line: `procfs: BPF needs CAP_BPF and CAP_PERFMON (EPERM on bpf())`; and which data it lacks.
    pub reason: String,
    /// Its probes; fewer than requested where one does not load.
    pub probes: Probes,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("kind", &self.kind)
            .field("reason", &self.reason)
            .field("probes", &self.probes)
            .finish_non_exhaustive()
    }
}

/// User id of a process whose user is not known: the kernel's overflow id (`user_namespaces(7)`).
pub(crate) const UNKNOWN_UID: u32 = 65_534;

/// One thing that a [`TraceRecorder`](crate::TraceRecorder) has read.
#[derive(Clone, Debug)]
pub enum TraceItem {
    /// Those of one CPU come in the order of their time, except that one may be some µs early or late.
    Event(SchedEvent),
    /// Who a task is, before its first event, and when it changes.
    Identity(TraceIdentity),
    /// The name of a control group, before the first identity in it.
    Group(TraceGroup),
}

#[derive(Copy, Clone, Debug)]
pub struct TraceRecorderOptions {
    /// Memory in the kernel for unread records, bytes a CPU. Rounded to a power of two, and less where the sum would
    /// exceed 512 MiB on all CPUs. Three quarters are for events of 24 bytes each, the rest is for the names of tasks.
    pub buffer_bytes: u32,
    /// Whether interrupts are recorded, too: an event for each.
    pub has_interrupts: bool,
}

impl Default for TraceRecorderOptions {
    fn default() -> Self {
        Self { buffer_bytes: 8 << 20, has_interrupts: false }
    }
}

/// Mixed into every hash, so that a host id cannot be compared with other programs' hashes of the machine id.
#[cfg(any(target_os = "linux", target_os = "windows"))]
const HASH_CONTEXT: &[u8] = b"cpumon host id 1\0";

/// An id that is stable and reveals nothing: 16 bytes of the hash of `content`, which the system keeps about itself; different kinds of
/// content never give the same.
#[cfg(any(target_os = "linux", target_os = "windows"))]
pub(crate) fn hashed(kind: &[u8], content: &[u8]) -> [u8; 16] {
    use sha2::{Digest, Sha256};
    let digest = Sha256::new().chain_update(HASH_CONTEXT).chain_update(kind).chain_update(content).finalize();
    let mut id = [0; 16];
    id.iter_mut().zip(digest.iter()).for_each(|(to, from)| *to = *from);
    id
}
