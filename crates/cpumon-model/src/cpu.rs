//! Per-CPU times by mode, cumulative ([`CpuSample`]) and over an interval ([`CpuInterval`]), and interrupts by line ([`IrqSample`],
//! [`IrqInterval`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::counters::signed;

/// Times of one CPU by mode, ns (/proc/stat, proc(5)). `guest` is part of `user`, `guest_nice` part of `nice`.
/// Cumulative in a [`CpuSample`], differences in a [`CpuInterval`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct CpuTimes {
    /// User mode, default priority or higher.
    pub user_ns: u64,
    /// Time of niced threads in user mode.
    pub nice_ns: u64,
    /// Time in kernel mode, interrupts excluded.
    pub system_ns: u64,
    /// Time with nothing to run, iowait excluded.
    pub idle_ns: u64,
    /// Nothing to run while some task of this CPU waits for a disk.
    pub iowait_ns: u64,
    /// Time in hard interrupts.
    pub irq_ns: u64,
    /// Time in soft interrupts.
    pub softirq_ns: u64,
    /// Taken by the hypervisor.
    pub steal_ns: u64,
    /// Running guests, inside `user_ns`.
    pub guest_ns: u64,
    /// Running niced guests, inside `nice_ns`.
    pub guest_nice_ns: u64,
}

/// Kinds of soft interrupts, in the kernel's order (include/linux/interrupt.h).
pub const SOFTIRQ_KINDS: [&str; 10] =
    ["hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu"];

/// What the scheduler's events report of one CPU: cumulative in a sample, differences in an interval, but for
/// `run_queue_max`. Known where the source measures `SCHED`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct CpuSched {
    /// Time during which no switch event says which thread ran, ns. That of threads read from /proc is in it: it is not known on which CPU they
    /// ran.
    pub unknown_ns: u64,
    /// Integral of the run queue's length over time, the running task included: task-nanoseconds. Divided by the length
    /// of the interval it is the mean length.
    pub run_queue_ns: u64,
    /// Longest run queue since the snapshot before, tasks. A maximum: never summed over time.
    pub run_queue_max: u32,
    /// Number of context switches on this CPU.
    pub switches: u64,
    /// Time in soft interrupts, ns: hi, timer, `net_tx`, `net_rx`, block, `irq_poll`, tasklet, sched, hrtimer, rcu; known where `IRQ` is
    /// measured.
    pub softirq_ns: [u64; SOFTIRQ_KINDS.len()],
}

/// One CPU at the end of a collection pass.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuSample {
    /// CPU number, 0-based; numbers may be missing while CPUs are offline.
    pub cpu: u32,
    /// Cumulative times since boot.
    pub times: CpuTimes,
    /// What the scheduler's events report.
    pub sched: CpuSched,
}

/// One CPU over an interval.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct CpuInterval {
    /// Number of the CPU, from 0.
    pub cpu: u32,
    /// Times in the interval. A mode that fell (the kernel's idle and iowait can) counts as 0 and sets `went_back`.
    pub times: CpuTimes,
    /// Some mode or other count of this CPU went backwards.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub went_back: bool,
    /// What the scheduler's events report of the interval.
    #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
    pub sched: CpuSched,
}

impl CpuTimes {
    /// Most time of one CPU in one mode, ns: 36 years. So the sum over all modes fits 64 bits. A source reports no more, and a frame with
    /// more is refused.
    pub const MAX_NS: u64 = 1 << 60;

    /// With no mode above [`Self::MAX_NS`]: for a source that adds time of its own to values that were read.
    #[must_use]
    pub fn clamped(self) -> Self {
        Self::from_array(self.to_array().map(|ns| ns.min(Self::MAX_NS)))
    }

    /// user + nice + system + idle + iowait + irq + softirq + steal (guest is inside user). Saturates: times may come from
    /// a made-up datagram.
    pub fn total_ns(&self) -> u64 {
        [self.idle_ns, self.iowait_ns, self.steal_ns].into_iter().fold(self.busy_ns(), u64::saturating_add)
    }

    /// Everything but idle, iowait and steal.
    pub fn busy_ns(&self) -> u64 {
        [self.nice_ns, self.system_ns, self.irq_ns, self.softirq_ns]
            .into_iter()
            .fold(self.user_ns, u64::saturating_add)
    }
}

/// Limit on the CPUs whose times are known: the numbers come from outside.
const MAX_KNOWN_CPUS: usize = 1 << 13;

/// The times of each CPU as a source last took them, those of CPUs that are offline too.
#[derive(Clone, Debug, Default)]
pub struct KnownCpuTimes {
    cpus: BTreeMap<u32, KnownTimes>,
}

/// Modes of one CPU in /proc/stat's order.
#[derive(Copy, Clone, Debug, Default)]
struct KnownTimes {
    ns: [u64; 10],
    /// Time before the first value of a mode that was odd at first, ns: it belongs to no interval.
    skipped_ns: [u64; 10],
    /// Modes that had no value yet, bit *n* for mode *n*.
    missing: u16,
}

impl KnownCpuTimes {
    /// Takes what was read of a CPU, an array in /proc/stat's order. A mode that could not be read, or is more than [`CpuTimes::MAX_NS`], is no
    /// data: it keeps its earlier value, or 0, and its first value adds nothing to an interval. Also returns those modes as a mask, bit *n*
    /// for mode *n*.
    pub fn bounded(&mut self, cpu: u32, modes: [Option<u64>; 10]) -> (CpuTimes, u16) {
        let is_new = !self.cpus.contains_key(&cpu);
        let mut beyond = KnownTimes::default();
        let known = if is_new && self.cpus.len() >= MAX_KNOWN_CPUS {
            &mut beyond
        } else {
            self.cpus.entry(cpu).or_default()
        };
        let mut odd = 0;
        for (mode, read) in modes.into_iter().enumerate() {
            let bit = 1_u16 << mode;
            if let Some(ns) = read.filter(|ns| *ns <= CpuTimes::MAX_NS) {
                if known.missing & bit != 0 {
                    known.skipped_ns[mode] = ns;
                    known.missing &= !bit;
                }
                known.ns[mode] = ns.saturating_sub(known.skipped_ns[mode]);
            } else {
                odd |= bit;
                known.missing |= if is_new { bit } else { 0 };
            }
        }
        (CpuTimes::from_array(known.ns), odd)
    }
}

/// The modes in /proc/stat's order.
macro_rules! modes {
    ($($field:ident $name:literal)+) => {
        impl CpuTimes {
            /// Names of the modes, in /proc/stat's order.
            pub const MODES: [&'static str; 10] = [$($name),+];

            /// The modes as an array in /proc/stat's order.
            pub fn to_array(self) -> [u64; 10] {
                [$(self.$field),+]
            }

            /// From an array in /proc/stat's order.
            pub fn from_array(modes: [u64; 10]) -> Self {
                let [$($field),+] = modes;
                Self { $($field),+ }
            }
        }

        impl std::ops::AddAssign<&CpuTimes> for CpuTimes {
            fn add_assign(&mut self, more: &CpuTimes) {
                $(self.$field = self.$field.saturating_add(more.$field);)+
            }
        }
    };
}

modes! {
    user_ns "user" nice_ns "nice" system_ns "system" idle_ns "idle" iowait_ns "iowait" irq_ns "irq" softirq_ns "softirq"
    steal_ns "steal" guest_ns "guest" guest_nice_ns "guest_nice"
}

impl CpuSched {
    /// What was added since `earlier`, and whether a count fell; that one counts 0.
    pub fn since(&self, earlier: &Self) -> (Self, bool) {
        let mut fell = false;
        let mut grown = |now: u64, then: u64| {
            fell |= now < then;
            now.saturating_sub(then)
        };
        let mut softirq_ns = self.softirq_ns;
        for (now, then) in softirq_ns.iter_mut().zip(earlier.softirq_ns) {
            *now = grown(*now, then);
        }
        let delta = Self {
            unknown_ns: grown(self.unknown_ns, earlier.unknown_ns),
            run_queue_ns: grown(self.run_queue_ns, earlier.run_queue_ns),
            // A maximum since the snapshot before: there is nothing to subtract.
            run_queue_max: self.run_queue_max,
            switches: grown(self.switches, earlier.switches),
            softirq_ns,
        };
        (delta, fell)
    }

    /// Mean length of the run queue over `duration_ns`; `None` without a length.
    pub fn run_queue_mean(&self, duration_ns: u64) -> Option<f64> {
        (duration_ns > 0).then(|| self.run_queue_ns as f64 / duration_ns as f64)
    }
}

impl std::ops::AddAssign<&CpuSched> for CpuSched {
    /// Sums, but takes the longer of the run queues.
    fn add_assign(&mut self, other: &CpuSched) {
        self.unknown_ns = self.unknown_ns.saturating_add(other.unknown_ns);
        self.run_queue_ns = self.run_queue_ns.saturating_add(other.run_queue_ns);
        // The longest of all queues: a sum would be a length that no queue had.
        self.run_queue_max = self.run_queue_max.max(other.run_queue_max);
        self.switches = self.switches.saturating_add(other.switches);
        for (sum, more) in self.softirq_ns.iter_mut().zip(other.softirq_ns) {
            *sum = sum.saturating_add(more);
        }
    }
}

impl CpuInterval {
    /// What happened on one CPU between two samples.
    pub fn between(prev: &CpuSample, cur: &CpuSample) -> Self {
        let (before, mut modes) = (prev.times.to_array(), cur.times.to_array());
        let mut went_back = false;
        for (mode, earlier) in modes.iter_mut().zip(before) {
            // proc(5) warns that iowait may decrease; idle can too.
            went_back |= *mode < earlier;
            *mode = mode.saturating_sub(earlier);
        }
        let (sched, fell) = cur.sched.since(&prev.sched);
        Self { cpu: cur.cpu, times: CpuTimes::from_array(modes), went_back: went_back || fell, sched }
    }

    /// The CPU's own balance: its length less everything that was measured. Negative when more was accounted than there was.
    pub fn unattributed_ns(&self, duration_ns: u64) -> i64 {
        signed(duration_ns).saturating_sub(signed(self.times.total_ns()))
    }
}

/// First of the numbers for interrupts that have no line of their own, such as a CPU's local timer.
pub const LOCAL_IRQ_FROM: u32 = 1 << 16;

/// One interrupt line, all CPUs together, with counts since the source was opened; local vectors have numbers from [`LOCAL_IRQ_FROM`] on.
/// Known where the source measures [`Fields::IRQ`](crate::Fields::IRQ).
pub type IrqSample = IrqInterval;

/// One interrupt line over an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct IrqInterval {
    /// Number of the line.
    pub irq: u32,
    /// Name of the line in /proc/interrupts.
    pub name: Arc<str>,
    /// Time in its handlers in the interval, ns.
    pub time_ns: u64,
    /// Times it was handled in the interval.
    pub count: u64,
}

impl IrqInterval {
    /// What was added since `earlier`. A line that a complete snapshot had not began in between; what an incomplete one
    /// did not report is not known, so it counts 0, as does a counter that fell.
    pub fn between(earlier: Option<&IrqSample>, cur: &IrqSample, is_complete: bool) -> Self {
        // Compared with itself, a line whose earlier count is not known comes to 0.
        let unknown = if is_complete { (0, 0) } else { (cur.time_ns, cur.count) };
        let (time_ns, count) = earlier.map_or(unknown, |earlier| (earlier.time_ns, earlier.count));
        Self {
            irq: cur.irq,
            name: Arc::clone(&cur.name),
            time_ns: cur.time_ns.saturating_sub(time_ns),
            count: cur.count.saturating_sub(count),
        }
    }

    /// Whether the line was not handled at all.
    pub fn is_zero(&self) -> bool {
        self.time_ns == 0 && self.count == 0
    }
}
