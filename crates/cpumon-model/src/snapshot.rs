//! [`Snapshot`]: everything one collection pass saw, as cumulative counters.

use std::borrow::Cow;
use std::sync::Arc;

use bitflags::bitflags;

use crate::collections::emptied;
use crate::{
    BootId, CgroupNames, CgroupSample, Comm, Counters, CpuSample, Delays, Fields, HostId, IrqSample,
    Pressure, ProcessKey, SchedTimes, ThreadKey, WaitFor, coded, is_unit,
};

/// One instant on three clocks.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct Moment {
    /// `CLOCK_MONOTONIC`, ns: lengths are measured on this clock.
    pub mono_ns: u64,
    /// `CLOCK_BOOTTIME`, ns: start times are on this clock (it runs on during suspend).
    pub boot_ns: u64,
    /// `CLOCK_REALTIME`, ns since the UNIX epoch: for people; may jump.
    pub wall_ns: i64,
}

impl Moment {
    /// The instant this much earlier.
    #[must_use]
    pub fn before(self, ns: u64) -> Self {
        Self {
            mono_ns: self.mono_ns.saturating_sub(ns),
            boot_ns: self.boot_ns.saturating_sub(ns),
            wall_ns: self.wall_ns.saturating_sub_unsigned(ns),
        }
    }
}

coded! {
    /// The source that measured.
    #[non_exhaustive]
    SourceKind: code name {
        /// The sender does not report its source.
        #[default]
        Unknown = 0 "unknown",
        /// Linux, by reading /proc.
        Procfs = 1 "procfs",
        /// Linux BPF task iterator with exit records.
        Bpf = 2 "bpf",
        /// A v1 device (`cpumon2`).
        V1 = 3 "v1",
        /// Imported from a legacy database.
        Legacy = 4 "legacy",
        /// Made up by `cargo xtask simulate`, for tests.
        Simulated = 5 "simulated",
        /// Windows, by one call of the kernel for all threads (`NtQuerySystemInformation`).
        Nt = 6 "nt",
        /// Windows, by a list of threads and a call for each.
        Toolhelp = 7 "toolhelp",
        /// A context-switch trace that is played: never sent or stored.
        Trace = 8 "trace",
    }
}

impl SourceKind {
    /// Whether it reports the users of processes. What a v1 device sends has none, and no trace.
    pub fn has_users(self) -> bool {
        !matches!(self, Self::V1 | Self::Legacy | Self::Trace)
    }

    /// Whether it measures Windows: such a host has no nice values, and its own words ([`crate::Terms`]).
    pub const fn is_windows(self) -> bool {
        matches!(self, Self::Nt | Self::Toolhelp)
    }
}

/// A task's state as one letter of proc(5): R running, S sleeping, D uninterruptible, Z zombie, T stopped, t traced,
/// X dead, I idle kernel thread, P parked; `?` not known.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema))]
pub struct TaskState(pub u8);

impl Default for TaskState {
    fn default() -> Self {
        Self(b'?')
    }
}

impl TaskState {
    /// The letter; anything that is not an ASCII letter is `?`.
    pub fn letter(self) -> char {
        if self.0.is_ascii_alphabetic() { char::from(self.0) } else { '?' }
    }
}

/// One thread's cumulative counters at one instant.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSample {
    /// Id and start; unique within a boot.
    pub key: ThreadKey,
    /// The process it belongs to.
    pub process: ProcessKey,
    /// Name (comm) at the snapshot; it may change.
    pub comm: Comm,
    /// State of the scheduler, a letter of proc(5).
    pub state: TaskState,
    /// Nice value, −20..19.
    pub nice: i8,
    /// Kernel priority as in field 18 of /proc/PID/stat (proc(5)): 20 + nice, or −1 − `rt_priority` for real-time tasks.
    /// On Windows the base priority, 0 to 31, the higher the more urgent: boosts that come and go are not in it.
    pub priority: i16,
    /// The CPU it last ran on.
    pub last_cpu: u16,
    /// It may run on this CPU only (`sched_setaffinity`(2), cpuset(7)). Known where [`Fields::AFFINITY`] is measured, and not of threads of
    /// the kernel.
    pub has_one_cpu: bool,
    /// Counters since its start.
    pub counters: Counters,
    /// What the scheduler's events report.
    pub sched: SchedTimes,
}

/// Description of a process. It changes on exec, setuid or a move between cgroups, so it is shared and replaced, not edited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct ProcessInfo {
    /// Name shown for the process: the base name of the script that it runs, else of its executable where known, else the main
    /// thread's comm.
    pub name: Box<str>,
    /// Base name of the executable that runs the script; empty where `name` is the executable.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub interpreter: Box<str>,
    /// The main thread's comm.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub comm: Box<str>,
    /// Full command line, scrubbed of secrets, arguments joined by spaces; empty unless `--cmdline`.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub cmdline: Box<str>,
    /// cgroup v2 path (or the v1 `cpu` controller's path); empty if none or unreadable.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub cgroup: Box<str>,
    /// Container or systemd unit name derived from the cgroup; empty if none.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub container: Box<str>,
    /// Real user id of the process.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub uid: u32,
    /// Name of that user on its host; empty if unknown.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub user: Box<str>,
    /// Whether it works for the kernel only.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub is_kernel: bool,
    /// Session of Windows: 0 is that of services, each login has one; `None`: not known, or another system.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub session: Option<u32>,
    /// Base priority of a process of Windows, 0 to 31; `None`: not known, or another system.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub base_priority: Option<u8>,
    /// Product name in the version resource of the executable, which its author chose: shown beside the name, and never a key.
    /// Empty: none, not known, or another system than Windows.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub product: Box<str>,
}

impl ProcessInfo {
    /// Windows' priority class that has this base priority; a base priority of no class as a number.
    pub fn priority_class(&self) -> Option<Cow<'static, str>> {
        Some(match self.base_priority? {
            4 => "idle".into(),
            6 => "below normal".into(),
            8 => "normal".into(),
            10 => "above normal".into(),
            13 => "high".into(),
            24 => "realtime".into(),
            other => other.to_string().into(),
        })
    }

    /// Base name of the executable, as far as it is known.
    pub fn executable(&self) -> &str {
        if self.interpreter.is_empty() { &self.name } else { &self.interpreter }
    }

    /// What groups by program go by: the name; of a kernel thread that of its family (`kworker/0:1-events` is `kworker`).
    pub fn program(&self) -> &str {
        if self.is_kernel { self.name.split('/').next().unwrap_or(&self.name) } else { &self.name }
    }

    /// The systemd unit that the cgroup path names, in a container too; of hosts that send no path, what they call it.
    pub fn service(&self) -> Cow<'_, str> {
        if self.cgroup.is_empty() && is_unit(&self.container) {
            return (&*self.container).into();
        }
        CgroupNames::of(&self.cgroup).service()
    }

    /// Name of the user. Uid 0 is root on every host, also in data of agents that send no names.
    pub fn user_name(&self) -> Option<&str> {
        match (&*self.user, self.uid) {
            ("", 0) => Some("root"),
            ("", _) => None,
            (name, _) => Some(name),
        }
    }

    /// The user in one text that differs between users of several hosts: `root`, `ann (1000)`, or the id where no name is known.
    pub fn user_label(&self) -> Cow<'_, str> {
        match self.user_name() {
            Some("root") if self.uid == 0 => "root".into(),
            Some(name) => format!("{name} ({})", self.uid).into(),
            None => self.uid.to_string().into(),
        }
    }
}

/// One process in a snapshot. Its counters are the sum of its threads', so it carries none but `ended_threads`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// Id and start; unique within a boot.
    pub key: ProcessKey,
    /// Parent's pid; 0 for none.
    pub parent_pid: u32,
    /// Name, user, cgroup and command line.
    pub info: Arc<ProcessInfo>,
    /// Cumulative counters of its threads that ended *without* a row in [`Snapshot::exits`] (procfs: process total less
    /// the live threads). Zero where every exit is a row.
    pub ended_threads: Counters,
}

/// A thread that ended since the previous snapshot, with its final counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitSample {
    /// Its last state; `counters` are final.
    pub thread: ThreadSample,
    /// The parent process's pid at exit.
    pub parent_pid: u32,
    /// What its process was.
    pub info: Arc<ProcessInfo>,
    /// When it ended, ns since boot.
    pub end_ns: u64,
    /// Whether the whole process ended with it.
    pub ends_process: bool,
}

bitflags! {
    /// What ran in the kernel for a snapshot, so that a step down is in the data.
    #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Probes: u16 {
        /// Records of threads that ended, with final counters.
        const EXITS = 1;
        /// Every switch, and with it wakeups and migrations.
        const SCHED = 1 << 1;
        /// What each thread waits for.
        const WAITS = 1 << 2;
        /// Hard and soft interrupts.
        const IRQ = 1 << 3;
        /// Run delays counted by their length.
        const HISTOGRAMS = 1 << 4;
        /// Who ended each wait of a millisecond and more.
        const WAKERS = 1 << 5;
    }
}

/// What a source could not do, cumulative since it was opened. Each count reaches the user.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct SourceHealth {
    /// Tasks that vanished while being read (normal).
    pub tasks_vanished: u64,
    /// Tasks or files the kernel refused to show (EPERM, hidepid).
    pub permission_denied: u64,
    /// Lines of /proc or BPF records that made no sense.
    pub malformed: u64,
    /// Exit records lost because the kernel's buffer was full.
    pub exits_lost: u64,
    /// Intervals that began late (more than a tenth of the interval).
    pub intervals_late: u64,
    /// Intervals skipped because the previous pass was still running.
    pub intervals_skipped: u64,
    /// CPU time of the measuring process itself, ns.
    pub own_cpu_ns: u64,
    /// Resident memory of the measuring process, bytes.
    pub own_rss_bytes: u64,
    /// Threads for which the kernel's own counters stood in, because the switch events had no place for them.
    pub sched_untracked: u64,
    /// Switch events that were missed: one names another task as running than the event before it switched to.
    pub sched_missed_switches: u64,
    /// Switches to a thread whose wakeup time is not known: its whole wait counts as blocked.
    pub wakeups_unknown: u64,
    /// Snapshots at whose instant the run queues were not known: events were lost, and threads that waited for a CPU may be missing.
    pub run_queue_unknown: u64,
    /// Waits of 1 ms and more that are in no row of who ended them: the kernel's table had no place, the process that waited ended
    /// without a record, or there were too many rows.
    pub wakers_unknown: u64,
    /// Run delays without space for a histogram of their process or thread; those of the CPUs have them.
    pub histogram_drops: u64,
    /// Events (exits, execs, threads on their way out) that did not fit the kernel's ring buffer or in the list behind
    /// it: the sum of those below, of `exits_lost`, and of lost names of control groups. An older sender reports only this sum.
    pub ring_drops: u64,
    /// Execs among `ring_drops`: a process shows under its earlier name until it is read again.
    pub execs_lost: u64,
    /// Threads on their way out among `ring_drops`: one is missed only if a snapshot falls between the lost event and its last switch.
    pub endings_lost: u64,
    /// Counters at the instant of a snapshot, of threads that ended while it was made, among `ring_drops`: the run time of these
    /// threads up to that instant is in the next interval.
    pub cuts_lost: u64,
    /// Threads that BPF does not see and that are not read from /proc either, because there are too many; as of this snapshot, not
    /// cumulative.
    pub hidden_left_out: u64,
    /// What ran in the kernel for this snapshot; not cumulative.
    pub probes: Probes,
}

/// All samples of one collection pass.
///
/// Buffers are meant to be reused: [`Snapshot::clear`] keeps what of their capacity is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The host that was measured.
    pub host: HostId,
    /// The boot in which pids and start times count.
    pub boot: BootId,
    /// Number of this snapshot since the agent started, from 0.
    pub sequence: u64,
    /// The source that measured.
    pub source: SourceKind,
    /// Which counters are known.
    pub fields: Fields,
    /// Whether every live task is here. If not, the missing ones did not change ([`Snapshot::exits`] has those that ended).
    pub is_complete: bool,
    /// irq and softirq time is *inside* the threads' run time (no `IRQ_TIME_ACCOUNTING`), so the ledger must not add it.
    pub irq_in_run_time: bool,
    /// Start of the pass.
    pub begin: Moment,
    /// End of the pass.
    pub end: Moment,
    /// Per-CPU times, ascending by CPU.
    pub cpus: Vec<CpuSample>,
    /// Processes, ascending by key.
    pub processes: Vec<ProcessSample>,
    /// Threads, ascending by key.
    pub threads: Vec<ThreadSample>,
    /// Threads that ended since the previous snapshot, ascending by thread key.
    pub exits: Vec<ExitSample>,
    /// Threads that ended without an exit record since the previous snapshot, ascending. Only where `is_complete` is
    /// not set; a complete snapshot reports them by leaving them out.
    pub gone: Vec<ThreadKey>,
    /// Interrupt lines, ascending by number.
    pub irqs: Vec<IrqSample>,
    /// Run-delay histograms, cumulative, ascending by owner.
    pub delays: Vec<Delays>,
    /// Control groups in use that have a limit on their path or count their pressure, ascending by id.
    pub cgroups: Vec<CgroupSample>,
    /// Waits of a millisecond and more that ended since the previous snapshot, by who ended them; each key once, ascending.
    pub waits_for: Vec<WaitFor>,
    /// Groups in use that are not measured, because there are too many or their directories are out of reach.
    pub cgroups_left_out: u32,
    /// Pressure on the CPUs of the host, since it started; `None`: not known.
    pub pressure: Option<Pressure>,
    /// Cumulative counters of *all* threads that ended since the source was opened. Of those whose rows were lost on the way it has what
    /// they did since the last snapshot that shows them.
    pub exited_total: Counters,
    /// Threads alive on the host, in this snapshot or not.
    pub thread_count: u32,
    /// Processes alive on the host.
    pub process_count: u32,
    /// What the source could not do.
    pub health: SourceHealth,
}

impl Snapshot {
    /// Empties every list, keeping the capacity as far as it is used ([`crate::empty_list`]), and resets every value to its default.
    pub fn clear(&mut self) {
        // The lists are taken out: the default would drop their memory.
        *self = Self {
            cpus: emptied(&mut self.cpus),
            processes: emptied(&mut self.processes),
            threads: emptied(&mut self.threads),
            exits: emptied(&mut self.exits),
            gone: emptied(&mut self.gone),
            irqs: emptied(&mut self.irqs),
            delays: emptied(&mut self.delays),
            cgroups: emptied(&mut self.cgroups),
            waits_for: emptied(&mut self.waits_for),
            ..Self::default()
        };
    }

    /// Sets the counts of threads and processes: those of the lists, which have all.
    pub fn count_tasks(&mut self) {
        self.thread_count = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        self.process_count = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
    }

    /// Puts the lists into the order that [`crate::Interval::between`] needs. Cheap when they are sorted already.
    pub fn sort(&mut self) {
        self.cpus.sort_unstable_by_key(|cpu| cpu.cpu);
        self.processes.sort_unstable_by_key(|process| process.key);
        self.threads.sort_unstable_by_key(|thread| thread.key);
        self.exits.sort_unstable_by_key(|exit| exit.thread.key);
        self.irqs.sort_unstable_by_key(|irq| irq.irq);
        self.delays.sort_unstable_by_key(|row| row.of);
        self.cgroups.sort_unstable_by_key(|row| row.id);
        self.waits_for.sort_unstable_by_key(WaitFor::key);
    }
}
