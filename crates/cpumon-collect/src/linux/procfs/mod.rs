//! The procfs source. In: /proc, no privileges. Out: snapshots.

use cpumon_model::{Comm, Counters, Fields, ProcessKey, ProcessSample, Snapshot, SourceKind};

use super::cpustat::CpuStat;
use super::own::OwnUsage;
use super::procinfo::{About, InfoCache};
use super::split::Split;
use super::{clock, host};
use crate::{CollectError, Source, SourceOptions};

/// Measures with /proc.
pub(crate) struct ProcfsSource {
    cpus: CpuStat,
    own: OwnUsage,
    template: Snapshot,
    infos: InfoCache,
}

impl ProcfsSource {
    /// Opens /proc.
    pub(crate) fn open(options: &SourceOptions) -> Result<Self, CollectError> {
        let boot = host::boot_id(&options.proc_root)?;
        let template = Snapshot {
            host: host::host_id(options, boot),
            boot,
            source: SourceKind::Procfs,
            fields: Fields::CPUS,
            irq_in_run_time: host::irq_in_run_time(options),
            ..Snapshot::default()
        };
        Ok(Self {
            cpus: CpuStat::open(&options.proc_root)?,
            own: OwnUsage::open(),
            template,
            infos: InfoCache::open(&options.proc_root, options.cmdline)?,
        })
    }
}

impl Source for ProcfsSource {
    fn snapshot(&mut self, into: &mut Snapshot) -> Result<(), CollectError> {
        into.clear();
        into.begin = clock::now();
        self.cpus.read(&mut into.cpus)?;
        into.end = clock::now();
        self.own.fill(&mut into.health);
        (into.host, into.boot, into.source) = (self.template.host, self.template.boot, self.template.source);
        let key = ProcessKey { pid: std::process::id(), start_ns: 0 };
        let info = self.infos.resolve(&About { key, comm: Comm::default(), is_kernel: false, uid: None });
        let split = Split::default().advance(1, 0, into.health.own_cpu_ns);
        let ended_threads =
            Counters { user_ns: split.user_ns, system_ns: split.system_ns, ..Counters::default() };
        into.processes.push(ProcessSample { key, parent_pid: 0, info, ended_threads });
        self.infos.end_pass();
        into.health.permission_denied = self.infos.denied();
        Ok(())
    }
}
