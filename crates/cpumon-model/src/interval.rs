//! [`Interval`]: the changes between two snapshots, as rows of threads and processes, and the tasks without a row ([`Resting`],
//! [`IdleProcess`]).

use std::sync::Arc;

use bitflags::bitflags;

use crate::counters::signed;
use crate::{
    BootId, CgroupInterval, ClockPiece, Comm, CpuInterval, CpuSched, DelayHistogram, DelayOf, Delays, Delta,
    Fields, HostId, IrqInterval, Ledger, Moment, Pressure, ProcessInfo, ProcessKey, SchedDelta, SourceHealth,
    SourceKind, TaskState, ThreadKey, ThreadSample, Trust, WaitFor, WaitReason, Waits, find_delays,
};

/// What became of a task inside the interval.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "json",
    derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema),
    serde(rename_all = "snake_case")
)]
pub enum Life {
    /// Alive at both ends.
    #[default]
    Alive,
    /// Began inside; charged from its start.
    Born,
    /// Ended inside; charged up to its end (or up to the last pass where the source misses exits).
    Ended,
    /// Began and ended inside.
    BornEnded,
}

bitflags! {
    /// Oddities of a row or an interval. They are shown, never corrected in silence.
    #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u16 {
        /// A counter fell: it counts 0 in this interval, the others stay exact.
        const COUNTER_RESET = 1;
        /// Seen for the first time although it is older than the interval: its earlier counters are unknown, so its
        /// growth is zero and its run time is in `unattributed`.
        const FIRST_SIGHT = 1 << 1;
        /// Ended without final counters: its run time after the last pass is unknown.
        const NO_FINAL_COUNTERS = 1 << 2;
        /// A value that cannot be (negative time, more run time than CPUs × length).
        const IMPOSSIBLE = 1 << 3;
        /// Snapshots between the two ends were lost: the same time, in fewer rows.
        const SPANS_LOSS = 1 << 4;
        /// Fragments of the ending snapshot are missing: some threads' time shows up in a later interval.
        const PARTIAL = 1 << 5;
        /// Another boot or agent start lies between the two ends; nothing is charged across it.
        const RESTART = 1 << 6;
        /// No process, but the sum of threads that ended when the kernel's buffer was full, of one parent's program or of all
        /// others; on Windows of those that ended between two passes. Their CPU time is here, their names are lost.
        const SUMMED = 1 << 7;
        /// No event of the scheduler reports it, as with the threads that a virtual machine hides from BPF: its counters are
        /// those of /proc, and what only the events measure (blocked time, wakeups, waits) is no data. What interrupts took while it
        /// ran is inside its run time.
        const UNWATCHED = 1 << 8;
        /// Of the interval: the length of the run queues is not known, because events were lost. The waiting time of some threads
        /// may count in a neighbouring interval; sums over longer times include it all the same.
        const RUN_QUEUE_UNKNOWN = 1 << 9;
        /// It may run on its last CPU only, of several ([`ThreadSample::has_one_cpu`]). No oddity: how it is scheduled.
        const ONE_CPU = 1 << 10;
    }
}

/// One thread over an interval.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct ThreadInterval {
    /// Id and start; unique within a boot.
    pub key: ThreadKey,
    /// The process it belongs to.
    pub process: ProcessKey,
    /// Its name at the end.
    pub comm: Comm,
    /// Its state at the end.
    pub state: TaskState,
    /// Nice value, −20 to 19.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub nice: i8,
    /// Kernel priority: 20 + nice, or −1 − `rt_priority`.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub priority: i16,
    /// The CPU it last ran on.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub last_cpu: u16,
    /// Whether it began or ended in the interval.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub life: Life,
    /// Oddities that a reader must know before trusting the row.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub flags: Flags,
    /// Growth of the counters in the interval.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub delta: Delta,
    /// Times and counts from the scheduler's events. Blocked time alone does not make a row active: `delta` decides.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub sched: SchedDelta,
}

/// One process over an interval: the sum of its threads, ended ones included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct ProcessInterval {
    /// Id and start; unique within a boot.
    pub key: ProcessKey,
    /// Pid of the parent process; 0 for none.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub parent_pid: u32,
    /// Name, user, cgroup and command line.
    pub info: Arc<ProcessInfo>,
    /// Number of the process's threads, ended ones included: those with a row, and those at rest once a receiver has added them.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub thread_rows: u32,
    /// Whether it began or ended in the interval.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub life: Life,
    /// Oddities, those of its threads included.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub flags: Flags,
    /// Sum over its threads (and over those that ended without a row).
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub delta: Delta,
    /// Sum over its threads, those that only waited included, with or without a row of their own.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub sched: SchedDelta,
}

/// What happened between two snapshots of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct Interval {
    /// The host that was measured.
    pub host: HostId,
    /// The boot in which pids and start times count.
    pub boot: BootId,
    /// Sequence number of the snapshot that ends it.
    pub sequence: u64,
    /// The source that measured.
    pub source: SourceKind,
    /// Which counters are known.
    pub fields: Fields,
    /// Oddities of the interval as a whole.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub flags: Flags,
    /// End of the snapshot that begins it.
    pub begin: Moment,
    /// End of the snapshot that ends it. A receiver moves both wall times to its own time line if the device's clock is wrong.
    pub end: Moment,
    /// The device's own wall clock at the end less the time in `end`, ns; 0: it is the device's own.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub wall_shift_ns: i64,
    /// The piece that placed it, if the boot's clock was ever wrong; only on its way through a receiver.
    #[cfg_attr(feature = "json", serde(skip))]
    pub clock_piece: Option<ClockPiece>,
    /// How it came in; `None`: no receiver has taken it yet, or one that did not record that.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub trust: Option<Trust>,
    /// How long the ending snapshot's collection pass took, ns.
    pub pass_ns: u64,
    /// The device's own time stamp in a v1 datagram, 100 ns ticks since 0001-01-01 local time; such intervals stand on
    /// the receiver's clock.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub v1_ticks: Option<i64>,
    /// Per CPU; empty if unknown.
    pub cpus: Vec<CpuInterval>,
    /// Processes, ascending by key: all live ones if the ending snapshot was complete, else those that changed.
    pub processes: Vec<ProcessInterval>,
    /// Processes without a row that are there and did nothing, ascending by key; `None`: they are not listed. Only on its way to the
    /// hub and the store, and only now and then: from one list to the next, rows report who began and who ended.
    #[cfg_attr(feature = "json", serde(skip))]
    pub idle_processes: Option<Arc<[IdleProcess]>>,
    /// A list of tasks before this one had some that had ended, which was found out only now: this one counts from here on. Only on its
    /// way to the store.
    #[cfg_attr(feature = "json", serde(skip))]
    pub corrects_lists: bool,
    /// Threads, ascending by key: all live ones if the ending snapshot was complete, else those that changed.
    pub threads: Vec<ThreadInterval>,
    /// Threads without a row that wait at its end; `None`: they are not listed. Together with the rows these are all threads that
    /// wait. Only on its way to a store, and there only now and then: from one list to the next, rows report who began to wait.
    #[cfg_attr(feature = "json", serde(skip))]
    pub resting: Option<Arc<[Resting]>>,
    /// Interrupt lines that were handled, ascending by number.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub irqs: Vec<IrqInterval>,
    /// Run delays that ended, by owner, ascending; owners without any are left out.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub delays: Vec<Delays>,
    /// Control groups that have a limit on their path or that waited for a CPU, ascending by id; from a store by path. Where
    /// [`Fields::CGROUPS`] is measured, others have no limit, unless some were left out.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub cgroups: Vec<CgroupInterval>,
    /// Waits of a millisecond and more that ended in it, by who ended them; each key once, ascending. Where a snapshot was lost on the
    /// way, those of its time are missing.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub waits_for: Vec<WaitFor>,
    /// Groups in use that are not measured, as of its end.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub cgroups_left_out: u32,
    /// Pressure on the CPUs of the host in the interval; `None`: not known.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub pressure: Option<Pressure>,
    /// Threads alive on the host.
    pub thread_count: u32,
    /// Processes alive on the host.
    pub process_count: u32,
    /// Where the CPU time of the interval went.
    pub ledger: Ledger,
    /// What the source could not do, cumulative.
    pub health: SourceHealth,
}

/// Copies who a thread is, which its sample, its row and a resting thread all say.
macro_rules! thread_like {
    ($type:ident, $thread:expr, $($rest:tt)+) => {
        $type {
            key: $thread.key,
            process: $thread.process,
            comm: $thread.comm,
            state: $thread.state,
            nice: $thread.nice,
            priority: $thread.priority,
            last_cpu: $thread.last_cpu,
            $($rest)+
        }
    };
}

impl ThreadInterval {
    /// A thread's row with all counters 0.
    pub(crate) fn of_sample(thread: &ThreadSample) -> Self {
        thread_like!(Self, thread, ..Self::default())
    }

    /// The thread if it waits at the interval's end.
    pub fn resting(&self) -> Option<Resting> {
        let is_unwatched = self.flags.contains(Flags::UNWATCHED);
        let reason = if is_unwatched { WaitReason::UNWATCHED } else { self.sched.open_wait };
        (reason.is_some() && !self.life.has_ended()).then_some(thread_like!(Resting, self, reason))
    }

    /// How it is scheduled, where that is not the default: `real-time 50`, `deadline`, `nice 19`, `nice 19, CPU 0 only`. By field 18 of
    /// /proc/PID/stat (proc(5)): −101 is a deadline, −2 to −100 are the real-time priorities 1 to 99.
    pub fn scheduling(&self) -> Option<String> {
        let order = match (self.priority, self.nice) {
            (..=-101, _) => Some("deadline".to_owned()),
            (priority @ -100..=-2, _) => Some(format!("real-time {}", -1 - priority)),
            (_, 0) => None,
            (_, nice) => Some(format!("nice {nice}")),
        };
        let only = self.flags.contains(Flags::ONE_CPU).then(|| format!("CPU {} only", self.last_cpu));
        let words: Vec<String> = order.into_iter().chain(only).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// The row of a thread that waited throughout an interval of this length.
    pub fn of_resting(thread: &Resting, length_ns: u64) -> Self {
        let row = thread_like!(Self, thread, ..Self::default());
        if thread.reason == WaitReason::UNWATCHED {
            return Self { flags: Flags::UNWATCHED, ..row };
        }
        let mut waits = Waits::default();
        waits.add(thread.reason, length_ns);
        let blocked_ns = signed(length_ns);
        let sched = SchedDelta { blocked_ns, waits, open_wait: thread.reason, ..SchedDelta::default() };
        Self { sched, ..row }
    }
}

impl ProcessInterval {
    /// A process's row with all counters 0. Each field is set by name: a default would allocate a description and drop it.
    pub fn new(key: ProcessKey, parent_pid: u32, info: Arc<ProcessInfo>) -> Self {
        Self {
            key,
            parent_pid,
            info,
            thread_rows: 0,
            life: Life::Alive,
            flags: Flags::empty(),
            delta: Delta::default(),
            sched: SchedDelta::default(),
        }
    }
}

impl Interval {
    /// Its end as the device's own wall clock stood, ns since the UNIX epoch.
    pub fn device_end_wall_ns(&self) -> i64 {
        self.end.wall_ns.saturating_add(self.wall_shift_ns)
    }

    /// Measured length, ns. Rates divide by this.
    pub fn duration_ns(&self) -> u64 {
        self.end.mono_ns.saturating_sub(self.begin.mono_ns)
    }

    /// The time in which its run time was measured, at least; see [`Ledger::measured_in_ns`].
    pub fn measured_in_ns(&self) -> u64 {
        self.ledger.measured_in_ns(self.duration_ns())
    }

    /// Utilization of `run_ns` with 100 = one CPU (`%CPU`). `None` for an interval without length.
    pub fn cpu_pct(&self, run_ns: i64) -> Option<f64> {
        let duration_ns = self.duration_ns();
        (duration_ns > 0).then(|| run_ns as f64 * 100.0 / duration_ns as f64)
    }

    /// Utilization of `run_ns` with 100 = all CPUs (`%host`). `None` if length or CPUs are unknown.
    pub fn host_pct(&self, run_ns: i64) -> Option<f64> {
        (self.ledger.capacity_ns > 0).then(|| run_ns as f64 * 100.0 / self.ledger.capacity_ns as f64)
    }

    /// What the scheduler's events report of all CPUs together: sums, and the longest of the run queues.
    pub fn cpu_sched(&self) -> CpuSched {
        let mut sum = CpuSched::default();
        for cpu in &self.cpus {
            sum += &cpu.sched;
        }
        sum
    }

    /// Mean number of tasks running or ready over the interval, on all CPUs together. `None` where that is not measured, or not known.
    pub fn run_queue_mean(&self) -> Option<f64> {
        let is_known = self.fields.contains(Fields::SCHED) && !self.flags.contains(Flags::RUN_QUEUE_UNKNOWN);
        let mean = || self.cpu_sched().run_queue_mean(self.duration_ns());
        (is_known && !self.cpus.is_empty()).then(mean).flatten()
    }

    /// The run delays of one owner that ended in the interval; `None` if there were none, or none are measured.
    pub fn delays_of(&self, of: DelayOf) -> Option<&DelayHistogram> {
        find_delays(&self.delays, of)
    }

    /// The longest single run delay of all processes, ns, where it is known.
    pub fn longest_delay_ns(&self) -> Option<u64> {
        self.processes.iter().filter_map(|row| row.sched.longest_ns()).max()
    }

    /// The run delays of all CPUs together.
    pub fn cpu_delays(&self) -> DelayHistogram {
        let mut sum = DelayHistogram::default();
        // Owners ascend, and CPUs come first.
        for row in self.delays.iter().take_while(|row| matches!(row.of, DelayOf::Cpu(_))) {
            sum += &row.histogram;
        }
        sum
    }

    /// The row of a control group; `None`: it has no limit and did not wait, or nothing is known about the group
    /// ([`Interval::knows_limits`]).
    pub fn cgroup(&self, path: &str) -> Option<&CgroupInterval> {
        self.cgroups.iter().find(|row| *row.path == *path)
    }

    /// Whether a control group without a row has no limit.
    pub fn knows_limits(&self) -> bool {
        self.fields.contains(Fields::CGROUPS) && self.cgroups_left_out == 0
    }

    /// The process row with this key.
    pub fn process(&self, key: ProcessKey) -> Option<&ProcessInterval> {
        self.processes.binary_search_by_key(&key, |row| row.key).ok().and_then(|at| self.processes.get(at))
    }

    /// The thread whose state, nice value, scheduling and CPU stand for its process; `None` where it has no row.
    pub fn main_thread(&self, process: ProcessKey) -> Option<&ThreadInterval> {
        let key = ThreadKey { tid: process.pid, start_ns: process.start_ns };
        let at = self.threads.binary_search_by_key(&key, |row| row.key).ok()?;
        self.threads.get(at)
    }

    /// How a thread is scheduled, as [`ThreadInterval::scheduling`]. Kernel threads have nice values of their own: `None`.
    pub fn scheduling(&self, thread: &ThreadInterval) -> Option<String> {
        let words = thread.scheduling()?;
        let is_kernel = self.process(thread.process).is_some_and(|process| process.info.is_kernel);
        (!is_kernel).then_some(words)
    }
}

/// Names of [`Flags`] joined by `|`; empty if none.
pub fn flag_names(flags: Flags) -> String {
    let mut names = String::new();
    for (name, _) in flags.iter_names() {
        if !names.is_empty() {
            names.push('|');
        }
        names.extend(name.chars().map(|c| c.to_ascii_lowercase()));
    }
    names
}

impl Life {
    /// The life of a task that began inside the interval or not, and ended inside or not.
    pub fn of(is_born: bool, has_ended: bool) -> Self {
        match (is_born, has_ended) {
            (false, false) => Self::Alive,
            (true, false) => Self::Born,
            (false, true) => Self::Ended,
            (true, true) => Self::BornEnded,
        }
    }

    /// Over two times, in any order.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self::of(self.is_born() || other.is_born(), self.has_ended() || other.has_ended())
    }

    /// Whether it began inside.
    pub fn is_born(self) -> bool {
        matches!(self, Self::Born | Self::BornEnded)
    }

    /// Whether it ended inside.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Ended | Self::BornEnded)
    }

    /// The name in exports and SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Born => "born",
            Self::Ended => "ended",
            Self::BornEnded => "born_ended",
        }
    }
}

/// A waiting thread with its reason. [`WaitReason::UNWATCHED`]: its activity is not known.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Resting {
    /// Id and start; unique within a boot.
    pub key: ThreadKey,
    /// The process it belongs to.
    pub process: ProcessKey,
    /// Its name.
    pub comm: Comm,
    /// Its state.
    pub state: TaskState,
    /// Nice value, −20 to 19.
    pub nice: i8,
    /// Kernel priority, as in [`ThreadSample::priority`].
    pub priority: i16,
    /// The CPU it last ran on.
    pub last_cpu: u16,
    /// Reason of its wait.
    pub reason: WaitReason,
}

impl Resting {
    /// The thread of a sample; `None` if it does not wait.
    pub fn of_sample(thread: &ThreadSample) -> Option<Self> {
        let reason = thread.sched.open_wait;
        reason.is_some().then_some(thread_like!(Self, thread, reason))
    }
}

/// A process that is there and did nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleProcess {
    /// Id and start; unique within a boot.
    pub key: ProcessKey,
    /// Name, user, cgroup and command line.
    pub info: Arc<ProcessInfo>,
    /// Pid of the parent process; 0 for none.
    pub parent_pid: u32,
    /// Its threads.
    pub thread_rows: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduling_is_named_where_it_is_not_the_default() {
        let words =
            |priority, nice| ThreadInterval { nice, priority, ..ThreadInterval::default() }.scheduling();
        assert_eq!([words(20, 0), words(0, 0), words(8, 0)], [None, None, None], "unknown, and Windows");
        for (priority, nice, expected) in
            [(39, 19, "nice 19"), (0, -20, "nice -20"), (-2, 0, "real-time 1"), (-100, 0, "real-time 99")]
        {
            assert_eq!(words(priority, nice).as_deref(), Some(expected));
        }
        assert_eq!(words(-101, 0).as_deref(), Some("deadline"));
        let on_one = |nice| ThreadInterval {
            nice,
            priority: 20,
            last_cpu: 3,
            flags: Flags::ONE_CPU,
            ..ThreadInterval::default()
        };
        assert_eq!(on_one(0).scheduling().as_deref(), Some("CPU 3 only"));
        assert_eq!(on_one(5).scheduling().as_deref(), Some("nice 5, CPU 3 only"));
    }
}
