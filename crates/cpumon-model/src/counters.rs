//! Counters of one task: cumulative ([`Counters`]) and over an interval ([`Delta`]), and which of them are known ([`Fields`]).

use bitflags::bitflags;

bitflags! {
    /// Which counters a source measures. What is not set is *no data*, which is not zero.
    #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Fields: u32 {
        /// [`Counters::user_ns`] is measured.
        const USER = 1;
        /// [`Counters::system_ns`] is measured.
        const SYSTEM = 1 << 1;
        /// [`Counters::run_ns`] is measured.
        const RUN = 1 << 2;
        /// [`Counters::run_delay_ns`] is measured; /proc has it only with schedstat.
        const RUN_DELAY = 1 << 3;
        /// [`Counters::voluntary_switches`] and [`Counters::involuntary_switches`] are measured.
        const SWITCHES = 1 << 4;
        /// Times of each CPU by mode
        const CPUS = 1 << 5;
        /// Tasks that end between two snapshots are reported with their final counters.
        const EXITS = 1 << 6;
        /// Run time, run delay and switches come from the scheduler's own events; [`SchedTimes`](crate::SchedTimes) and
        /// [`CpuSched`](crate::CpuSched) are known.
        const SCHED = 1 << 7;
        /// Blocked time by reason ([`SchedTimes::waits`](crate::SchedTimes::waits)).
        const WAITS = 1 << 8;
        /// irq and softirq are measured by event, by line and kind, and are no part of the threads' run time.
        const IRQ = 1 << 9;
        /// Histograms of the run delay.
        const HISTOGRAMS = 1 << 10;
        /// CPU limits of control groups, and how often they were reached ([`CgroupSample`](crate::CgroupSample)): a group without
        /// a row has no limit.
        const CGROUPS = 1 << 11;
    }
}

impl Fields {
    /// What the frames and the store of the first release carry. A crate that carries no more masks with it, so that the
    /// rest is no data there, never zero.
    pub const FIRST_RELEASE: Self = Self::from_bits_truncate(Self::SCHED.bits() - 1);
}

/// Cumulative counters of one task since it started. They never fall while the task lives.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counters {
    /// Run time in user mode, ns. The split is sampled at the clock tick (kernel/sched/cputime.c), the sum is not.
    pub user_ns: u64,
    /// Run time in kernel mode, ns.
    pub system_ns: u64,
    /// Time on a CPU, ns (`se.sum_exec_runtime`; first field of /proc/PID/task/TID/schedstat).
    pub run_ns: u64,
    /// Time runnable but waiting for a CPU, ns (`sched_info.run_delay`; second field of schedstat).
    pub run_delay_ns: u64,
    /// Times the task left the CPU to wait (`nvcsw`, proc(5) status).
    pub voluntary_switches: u64,
    /// Times the task was pushed off the CPU while runnable (`nivcsw`).
    pub involuntary_switches: u64,
}

/// What [`Counters`] grew by. Signed, because an impossible value is shown and flagged, not clamped:
/// `Interval::between` makes none, but the original's devices sent negative times.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct Delta {
    /// User time in the interval, ns.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub user_ns: i64,
    /// System time in the interval, ns.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub system_ns: i64,
    /// Run time in the interval, ns.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub run_ns: i64,
    /// Run delay in the interval, ns.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub run_delay_ns: i64,
    /// Voluntary switches in the interval.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub voluntary_switches: i64,
    /// Involuntary switches in the interval.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub involuntary_switches: i64,
}

impl Counters {
    /// What was added since `earlier`; `None` if any counter fell (a counter reset, or another task under the same key).
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Delta> {
        let sub = |now: u64, then: u64| i64::try_from(now.checked_sub(then)?).ok();
        Some(Delta {
            user_ns: sub(self.user_ns, earlier.user_ns)?,
            system_ns: sub(self.system_ns, earlier.system_ns)?,
            run_ns: sub(self.run_ns, earlier.run_ns)?,
            run_delay_ns: sub(self.run_delay_ns, earlier.run_delay_ns)?,
            voluntary_switches: sub(self.voluntary_switches, earlier.voluntary_switches)?,
            involuntary_switches: sub(self.involuntary_switches, earlier.involuntary_switches)?,
        })
    }
}

impl Delta {
    /// Whether nothing happened: the task was idle all through.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign<&Delta> for Delta {
    fn add_assign(&mut self, other: &Delta) {
        self.user_ns = self.user_ns.saturating_add(other.user_ns);
        self.system_ns = self.system_ns.saturating_add(other.system_ns);
        self.run_ns = self.run_ns.saturating_add(other.run_ns);
        self.run_delay_ns = self.run_delay_ns.saturating_add(other.run_delay_ns);
        self.voluntary_switches = self.voluntary_switches.saturating_add(other.voluntary_switches);
        self.involuntary_switches = self.involuntary_switches.saturating_add(other.involuntary_switches);
    }
}

impl std::ops::AddAssign<&Counters> for Counters {
    fn add_assign(&mut self, other: &Counters) {
        self.user_ns = self.user_ns.saturating_add(other.user_ns);
        self.system_ns = self.system_ns.saturating_add(other.system_ns);
        self.run_ns = self.run_ns.saturating_add(other.run_ns);
        self.run_delay_ns = self.run_delay_ns.saturating_add(other.run_delay_ns);
        self.voluntary_switches = self.voluntary_switches.saturating_add(other.voluntary_switches);
        self.involuntary_switches = self.involuntary_switches.saturating_add(other.involuntary_switches);
    }
}
