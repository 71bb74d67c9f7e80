//! An interval as JSON: the types. Their conversions from and to [`cpumon_model::Interval`] are in `convert`.

use cpumon_model::{CpuSched, Ledger, Moment, Pressure};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::cgroup::Cgroup;
use super::delays::Delays;
use super::fields::is_default;
use super::sched::{Irq, Sched};

/// An interval with the receiver's serial number; pass it as `?after=` to wait for the next one. 0: from the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Numbered {
    /// Rises with every interval of any host; begins again when the receiver starts.
    pub serial: u64,
    /// The interval.
    pub interval: Interval,
}

/// What happened on one host between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Interval {
    /// Host id, 32 hexadecimal digits.
    pub host: String,
    /// Boot id, 32 hexadecimal digits.
    pub boot: String,
    /// Sequence number of the snapshot that ends it.
    pub sequence: u64,
    /// Who measured: `procfs`, `bpf`, `v1`, …
    pub source: String,
    /// Which counters were measured, e.g. `USER`, `RUN_DELAY`. What is not named here is unknown, not zero.
    pub fields: Vec<String>,
    /// Oddities of the whole interval, e.g. `SPANS_LOSS`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Start.
    pub begin: Moment,
    /// End.
    pub end: Moment,
    /// The device's own wall clock at the end less `end.wall_ns`, ns: where that clock is wrong, begin and end stand on the receiver's
    /// time line.
    #[serde(skip_serializing_if = "is_default")]
    pub wall_shift_ns: i64,
    /// How it came in: `local`, `authenticated`, `sealed`, `unauthenticated` or `imported`. Missing where that was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
    /// How long the ending snapshot's pass took.
    pub pass_ns: u64,
    /// The time stamp of a v1 device, 100 ns ticks since 0001-01-01 local time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1_ticks: Option<i64>,
    /// Per CPU.
    pub cpus: Vec<Cpu>,
    /// Processes.
    pub processes: Vec<Process>,
    /// Threads.
    pub threads: Vec<Thread>,
    /// Threads alive on the host.
    pub thread_count: u32,
    /// Processes alive on the host.
    pub process_count: u32,
    /// Where the CPU time went.
    pub ledger: Ledger,
    /// What the source could not do.
    pub health: Health,
    /// Interrupt lines that were handled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub irqs: Vec<Irq>,
    /// Run delays that ended, ascending by owner; owners without any are absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<Delays>,
    /// Control groups with a CPU limit on their path, or that waited for a CPU. Where `CGROUPS` is measured, others have neither,
    /// unless some were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<Cgroup>,
    /// Control groups in use that are not measured.
    #[serde(skip_serializing_if = "is_default")]
    pub cgroups_left_out: u32,
    /// Time in which tasks of the host waited for a CPU; missing where not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
}

/// One CPU's times, by mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Cpu {
    /// CPU number.
    pub cpu: u32,
    /// user, nice, system, idle, iowait, irq, softirq, steal, guest, `guest_nice` (the order of /proc/stat), ns.
    pub times_ns: [u64; 10],
    /// Some mode went backwards.
    #[serde(skip_serializing_if = "is_default")]
    pub went_back: bool,
    /// Counters of the scheduler's events.
    #[serde(skip_serializing_if = "is_default")]
    pub sched: CpuSched,
}

/// What a thread and a process have in common: what they did, and what is odd about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Task {
    /// `born`, `ended`, `born_ended`; absent if alive at both ends.
    #[serde(skip_serializing_if = "is_default")]
    pub life: String,
    /// Oddities, e.g. `FIRST_SIGHT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// User time.
    #[serde(skip_serializing_if = "is_default")]
    pub user_ns: i64,
    /// System time.
    #[serde(skip_serializing_if = "is_default")]
    pub system_ns: i64,
    /// Run time.
    #[serde(skip_serializing_if = "is_default")]
    pub run_ns: i64,
    /// Run delay.
    #[serde(skip_serializing_if = "is_default")]
    pub run_delay_ns: i64,
    /// Voluntary switches.
    #[serde(skip_serializing_if = "is_default")]
    pub voluntary_switches: i64,
    /// Involuntary switches.
    #[serde(skip_serializing_if = "is_default")]
    pub involuntary_switches: i64,
    /// Counters of the scheduler's events.
    #[serde(skip_serializing_if = "is_default")]
    pub sched: Sched,
}

/// A process over the interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Start, ns since boot; with the pid its identity.
    pub start_ns: u64,
    /// Parent's pid.
    #[serde(skip_serializing_if = "is_default")]
    pub parent_pid: u32,
    /// What it is.
    #[serde(flatten)]
    pub info: ProcessInfo,
    /// Threads of it in this interval's list.
    #[serde(skip_serializing_if = "is_default")]
    pub thread_rows: u32,
    /// What it did.
    #[serde(flatten)]
    pub task: Task,
}

/// What a process is. All text is hostile: it may hold control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ProcessInfo {
    /// Base name of the script that it runs, else of its executable, else the main thread's name.
    pub name: String,
    /// Base name of the executable that runs the script; empty where the name is the executable's.
    #[serde(skip_serializing_if = "is_default")]
    pub interpreter: String,
    /// The main thread's name.
    #[serde(skip_serializing_if = "is_default")]
    pub comm: String,
    /// Command line, only if the agent is set to send it.
    #[serde(skip_serializing_if = "is_default")]
    pub cmdline: String,
    /// cgroup path.
    #[serde(skip_serializing_if = "is_default")]
    pub cgroup: String,
    /// Container or unit name.
    #[serde(skip_serializing_if = "is_default")]
    pub container: String,
    /// Real user id.
    #[serde(skip_serializing_if = "is_default")]
    pub uid: u32,
    /// Name of that user on its host, if known. Uid 0 is root.
    #[serde(skip_serializing_if = "is_default")]
    pub user: String,
    /// Session on Windows: 0 is that of services; absent: not known, or another system.
    #[serde(skip_serializing_if = "is_default")]
    pub session: Option<u32>,
    /// Base priority on Windows, 0 to 31; absent: not known, or another system.
    #[serde(skip_serializing_if = "is_default")]
    pub base_priority: Option<u8>,
    /// Product name in the version resource of its executable on Windows; absent: none, or another system.
    #[serde(skip_serializing_if = "is_default")]
    pub product: String,
    /// A kernel thread.
    #[serde(skip_serializing_if = "is_default")]
    pub is_kernel: bool,
}

/// A thread over the interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Start, ns since boot; with the tid its identity.
    pub start_ns: u64,
    /// Its process's pid.
    pub pid: u32,
    /// Its process's start.
    pub process_start_ns: u64,
    /// Name at the end; bytes that are not UTF-8 show as U+FFFD. Hostile text.
    pub comm: String,
    /// The name's bytes, only if they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm_bytes: Option<Vec<u8>>,
    /// State letter as in proc(5); `?` not known.
    pub state: u8,
    /// Nice value.
    #[serde(skip_serializing_if = "is_default")]
    pub nice: i8,
    /// Kernel priority.
    #[serde(skip_serializing_if = "is_default")]
    pub priority: i16,
    /// The CPU it last ran on.
    #[serde(skip_serializing_if = "is_default")]
    pub last_cpu: u16,
    /// What it did.
    #[serde(flatten)]
    pub task: Task,
}

/// What the source could not do, cumulative. Meanings: [`cpumon_model::SourceHealth`]. What is absent is not measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[expect(missing_docs, reason = "each field is documented under the same name in the model's SourceHealth")]
pub struct Health {
    pub tasks_vanished: u64,
    pub permission_denied: u64,
    pub malformed: u64,
    pub exits_lost: u64,
    pub intervals_late: u64,
    pub intervals_skipped: u64,
    pub own_cpu_ns: u64,
    pub own_rss_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_untracked: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_missed_switches: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram_drops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_drops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execs_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endings_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuts_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_left_out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakeups_unknown: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<String>,
}
