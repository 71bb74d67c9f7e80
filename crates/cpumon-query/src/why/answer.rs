//! [`Why`]: why something is slow and who did it, as the API writes it and clients read it back. All frontends print its sentences, so they
//! have the same words. Names in sentences are escaped; names in fields of their own are hostile.

use cpumon_model::HostId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::Nanos;
use crate::named;
use crate::time::TimeRange;

named! {
    /// What makes something slow.
    #[derive(Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "kebab-case")]
    CauseKind,
    /// Others use the CPUs.
    Saturated = "saturated",
    /// A CPU limit of a control group.
    Quota = "quota",
    /// A lock, or a queue between threads of the program.
    Lock = "lock",
    /// One thread uses a whole CPU.
    OneThread = "one-thread",
    /// Others have real-time priority or a lower nice value.
    Priority = "priority",
    /// It runs on one CPU only.
    Affinity = "affinity",
    /// It starts many short processes.
    Starts = "starts",
    /// Disks.
    Disk = "disk",
    /// Another process.
    Peer = "peer",
    /// Interrupts.
    Interrupts = "interrupts",
    /// The hypervisor takes CPU time.
    Steal = "steal",
    /// Pages that have to be read from a disk.
    Faults = "faults",
    /// It cannot be known from what was measured.
    Unknown = "unknown",
}

named! {
    /// How much an answer can be relied on.
    #[derive(PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "lowercase")]
    SureLevel,
    /// It may be something else.
    Low = "low",
    /// A part is concluded or estimated.
    Medium = "medium",
    /// Its figures are measured.
    High = "high",
}

named! {
    /// A state of threads.
    #[derive(Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "lowercase")]
    TimeState,
    /// On a CPU.
    Ran = "ran",
    /// Waiting for a CPU.
    Ready = "ready",
    /// Waiting for a new period of a CPU limit.
    Throttled = "throttled",
    /// Waiting for others.
    Blocked = "blocked",
    /// Waiting for its own timer, or for work.
    Asleep = "asleep",
    /// Off the CPUs, and not known why; of a machine no program ran.
    Rest = "rest",
}

/// What is slow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyTarget {
    /// Grouping of its name: `name`, `process`, `user`, `service` or `container`; null: the machine.
    pub by: Option<String>,
    /// Its name, that of the host for a machine; hostile.
    pub name: Box<str>,
    /// Its processes that did something, short-lived ones aside.
    pub processes: u64,
    /// Their threads that did something; null: not read.
    pub threads: Option<u64>,
    /// The pid, where it is one process.
    pub pid: Option<u32>,
}

/// A program that makes others wait, or a thread of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Culprit {
    /// Name of the program, or of the thread where `tid` is given; hostile.
    pub name: Box<str>,
    /// The pid of the process that costs most.
    pub pid: Option<u32>,
    /// The thread.
    pub tid: Option<u32>,
    /// The pids of its processes, those that cost most first, at most 8.
    pub pids: Vec<u32>,
    /// Its processes.
    pub processes: u64,
    /// Time for which it made the subject wait, ns, summed over threads; estimated where `is_estimated`.
    pub ns: u64,
    /// Whether `ns` is concluded from what it ran: who was in front was not measured.
    pub is_estimated: bool,
    /// Its run time in percent of one CPU.
    pub cpu_pct: f64,
    /// The same in the time before; null: nothing was measured.
    pub before_cpu_pct: Option<f64>,
    /// Whether it began in this time.
    pub began: bool,
    /// How it is scheduled where that is not the default: `real-time 50`, `nice 19`.
    pub scheduling: Option<String>,
}

/// One cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cause {
    /// Its kind.
    pub cause: CauseKind,
    /// Share of the wanted time (ran, ready, throttled, blocked on others) that it explains, 0 to 1.
    pub share: f64,
    /// The cause in one sentence.
    pub sentence: String,
    /// What else was measured of it, in sentences.
    pub evidence: Vec<String>,
    /// What to do, in one sentence.
    pub action: String,
    /// A command that does it, on the host; null: there is none.
    pub command: Option<String>,
    /// Who did it, most time first.
    pub culprits: Vec<Culprit>,
    /// How much it can be relied on.
    pub sure: SureLevel,
}

/// A part of the time of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimeShare {
    /// The state.
    pub state: TimeState,
    /// What it waited in, in words: `lock (futex)`; null: not of this state.
    pub wait: Option<String>,
    /// Program, thread or kind of interrupt that had what it waited for, or ended the wait; hostile. Null: not known.
    pub on: Option<Box<str>>,
    /// Time, ns, summed over threads.
    pub ns: u64,
    /// Share of the time of all states, 0 to 1.
    pub share: f64,
    /// Number of waits; null: not counted.
    pub count: Option<u64>,
    /// The state in words: `ran`, `lock (futex)`, `asleep: sleep (clock_nanosleep)`.
    pub label: String,
    /// What is known of `on`, in words: `mostly behind db`, `by itself`; empty: nothing.
    pub note: String,
    /// Share of this state in the time before; null: nothing was measured then, or this is that time.
    pub before: Option<f64>,
}

/// Where the time of a program's threads went; of a machine that of its CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimeSplit {
    /// The range.
    pub range: TimeRange,
    /// Measured time.
    pub measured_ns: u64,
    /// Time of all states.
    pub total_ns: u64,
    /// The states; of waits the longest ones.
    pub states: Vec<TimeShare>,
}

/// How much an answer can be relied on, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sureness {
    /// Of the first cause.
    pub level: SureLevel,
    /// What it rests on.
    pub rests_on: Vec<String>,
    /// What was not measured.
    pub not_measured: Vec<String>,
    /// All of it in sentences.
    pub sentences: Vec<String>,
}

/// Why something is slow, and who did it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The host.
    pub host: HostId,
    /// Its name; hostile.
    pub host_name: Box<str>,
    /// What is slow.
    pub subject: WhyTarget,
    /// Start of the time that is explained: where it became slow, if that is within the time that was asked for.
    pub since_ns: Nanos,
    /// Its end.
    pub until_ns: Nanos,
    /// When it became slow; null: it was as slow before, or is not slow.
    pub slow_since_ns: Option<Nanos>,
    /// The causes, the largest share first; empty: nothing delays it.
    pub causes: Vec<Cause>,
    /// The answer in two to four sentences.
    pub summary: Vec<String>,
    /// What to do, in one sentence.
    pub action: String,
    /// Where the time went.
    pub time: TimeSplit,
    /// The same in the time before; null: nothing was measured.
    pub before: Option<TimeSplit>,
    /// How much the answer can be relied on.
    pub sure: Sureness,
    /// Commands that show more.
    pub more: Vec<String>,
}
