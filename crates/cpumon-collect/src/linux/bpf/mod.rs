//! The BPF source. In: the kernel's task iterator and the events of exec and exit. Out: complete snapshots in which no
//! thread's CPU time is missing and none is there twice. Why: it costs a fraction of reading /proc, and sees what lived
//! and died between two looks.
//!
//! # One pass
//! 1. The iterator reads every thread that has not made its last switch.
//! 2. `/proc/stat` is read.
//! 3. The ring buffer is emptied, and the pass is over: every thread that made its last switch before now has left an
//!    event in it.
//! 4. The tracker puts both together: who is in both ended in between and counts as ended; who is in neither, though it
//!    was there last time, is ending this very moment: it is kept as it was until its event comes.
//!
//! The order matters: were the ring buffer emptied first, a thread that ends right after would be in neither for good
//! reason or bad, and no pass could tell.

mod exits;
mod lifecycle;
mod load;
mod lost;
mod names;
mod records;
mod renames;
mod tasks;
mod tracker;

pub(super) use load::route_messages;

use cpumon_model::{BootId, Fields, HostId, Snapshot, SourceKind};

use self::lifecycle::Lifecycle;
use self::records::{Event, TaskRecord};
use self::tasks::TaskIterator;
use self::tracker::Tracker;
use super::cpustat::CpuStat;
use super::own::OwnUsage;
use super::procinfo::InfoCache;
use super::{clock, host};
use crate::{CollectError, Source, SourceOptions};

/// What it measures.
const FIELDS: Fields = Fields::USER
    .union(Fields::SYSTEM)
    .union(Fields::RUN)
    .union(Fields::RUN_DELAY)
    .union(Fields::SWITCHES)
    .union(Fields::CPUS)
    .union(Fields::EXITS);

/// A probe as the doctor knows it.
pub(crate) struct Probe {
    /// The name of its directory.
    pub(crate) name: &'static str,
    /// What it gives.
    pub(crate) gives: &'static str,
    /// Loads and attaches it for a moment.
    pub(crate) try_loading: fn() -> Result<(), CollectError>,
}

/// Every probe.
pub(crate) const PROBES: [Probe; 2] = [
    Probe {
        name: "tasks",
        gives: "every thread of the host in one pass of the kernel's task iterator",
        try_loading: || TaskIterator::open().map(drop),
    },
    Probe {
        name: "lifecycle",
        gives: "every process that lived and died between two snapshots, with its name and final counters",
        try_loading: || Lifecycle::open().map(drop),
    },
];

/// Measures with BPF.
pub(crate) struct BpfSource {
    host: HostId,
    boot: BootId,
    irq_in_run_time: bool,
    sequence: u64,
    iterator: TaskIterator,
    lifecycle: Lifecycle,
    cpus: CpuStat,
    own: OwnUsage,
    infos: InfoCache,
    tracker: Tracker,
    records: Vec<TaskRecord>,
    events: Vec<Event>,
    malformed: u64,
}

impl BpfSource {
    /// Loads and attaches the programs. From here on every exit is seen.
    ///
    /// Errors: [`CollectError::BpfUnavailable`] says which step was refused and what to grant.
    pub(crate) fn open(options: &SourceOptions) -> Result<Self, CollectError> {
        load::check_kernel()?;
        let boot = host::boot_id(&options.proc_root)?;
        let source = Self {
            host: host::host_id(options, boot),
            boot,
            irq_in_run_time: host::irq_in_run_time(options),
            sequence: 0,
            iterator: TaskIterator::open()?,
            lifecycle: Lifecycle::open()?,
            cpus: CpuStat::open(&options.proc_root)?,
            own: OwnUsage::open(),
            infos: InfoCache::open(&options.proc_root, options.cmdline)?,
            tracker: Tracker::new(),
            records: Vec::new(),
            events: Vec::new(),
            malformed: 0,
        };
        load::give_memory_back();
        Ok(source)
    }
}

impl Source for BpfSource {
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        into.clear();
        (into.host, into.boot) = (self.host, self.boot);
        (into.source, into.fields) = (SourceKind::Bpf, FIELDS);
        (into.is_complete, into.irq_in_run_time) = (true, self.irq_in_run_time);
        into.sequence = self.sequence;
        into.begin = clock::now();
        let odd_bytes = self.iterator.read(&mut self.records)?;
        self.cpus.read(&mut into.cpus)?;
        // Last, because it cannot be repeated: a pass that fails must not take events with it.
        let (odd_events, lost) = self.lifecycle.drain(&mut self.events)?;
        into.end = clock::now();

        self.tracker.track(&mut self.records, &self.events, lost, &mut self.infos, into);
        self.infos.end_pass();
        self.malformed += u64::from(odd_bytes > 0);
        into.health.malformed = self.malformed + odd_events;
        into.health.permission_denied = self.infos.denied();
        self.own.fill(&mut into.health);
        self.sequence += 1;
        Ok(())
    }
}
