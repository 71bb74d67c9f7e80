//! Counters of one task. The kernel's own are [`Counters`], over an interval [`Delta`]. The scheduler's events add [`SchedTimes`], over an
//! interval [`SchedDelta`], with the blocked time by reason ([`Waits`]). [`Fields`] lists the known ones.

use std::ops::AddAssign;

use bitflags::bitflags;

use crate::{Comm, SourceKind, ThreadKey, WaitReason};

bitflags! {
    /// The counters that a source measures. A counter without its flag is *no data*, not zero.
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
        /// Times of each CPU by mode are measured.
        const CPUS = 1 << 5;
        /// Tasks that end between two snapshots are reported with their final counters.
        const EXITS = 1 << 6;
        /// Run time, run delay and switches come from the scheduler's own events; [`SchedTimes`] and
        /// [`CpuSched`](crate::CpuSched) are known.
        const SCHED = 1 << 7;
        /// Blocked time by reason ([`SchedTimes::waits`]).
        const WAITS = 1 << 8;
        /// irq and softirq are measured by event, by line and kind, and are no part of the threads' run time.
        const IRQ = 1 << 9;
        /// Histograms of the run delay.
        const HISTOGRAMS = 1 << 10;
        /// CPU limits of control groups, and how often they were reached ([`CgroupSample`](crate::CgroupSample)): a group without
        /// a row has no limit.
        const CGROUPS = 1 << 11;
        /// [`Counters::minor_faults`] and [`Counters::major_faults`] are measured; Windows has them of processes only.
        const FAULTS = 1 << 12;
        /// Waits of a millisecond and more by who ended them ([`WaitFor`](crate::WaitFor)).
        const WAITS_FOR = 1 << 13;
        /// Whether a thread may run on one CPU only ([`ThreadSample::has_one_cpu`](crate::ThreadSample::has_one_cpu)).
        const AFFINITY = 1 << 14;
    }
}

impl Fields {
    /// All of [`Counters`].
    pub const COUNTERS: Self = Self::USER
        .union(Self::SYSTEM)
        .union(Self::RUN)
        .union(Self::RUN_DELAY)
        .union(Self::SWITCHES)
        .union(Self::FAULTS);
    /// Counters that Windows has of processes only.
    const OF_PROCESSES_ON_WINDOWS: Self = Self::FAULTS;
    /// What the frames and the store of the first release carry.
    pub const FIRST_RELEASE: Self = Self::from_bits_truncate(Self::SCHED.bits() - 1);
    /// What frames and the store carry. They mask with it, so that the rest of what a source measures is no data there, never zero.
    pub const CARRIED: Self = Self::FIRST_RELEASE
        .union(Self::SCHED)
        .union(Self::WAITS)
        .union(Self::IRQ)
        .union(Self::HISTOGRAMS)
        .union(Self::CGROUPS)
        .union(Self::FAULTS)
        .union(Self::WAITS_FOR)
        .union(Self::AFFINITY);
    /// Counters that came later than the first release: stores and senders of earlier versions do not have them.
    pub const LATER_COUNTERS: Self = Self::COUNTERS.difference(Self::FIRST_RELEASE);

    /// Which of these fields rows of threads have.
    #[must_use]
    pub fn of_threads(self, source: SourceKind) -> Self {
        if source.is_windows() { self.difference(Self::OF_PROCESSES_ON_WINDOWS) } else { self }
    }
}

/// The counters of a task: the meaning of each, the meaning of its growth over an interval, and every operation on all counters. A counter
/// is a row of this list; the columns of wire, store and screens refer to it by its name.
macro_rules! counters {
    ($($(#[doc = $doc:tt])+ $counter:ident $field:ident, $growth:tt;)+) => {
        /// Cumulative counters of one task since it started. They never fall while the task lives. The BPF probes fill it in place, in C.
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(C)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $counter: u64,)+
        }

        /// Growth of [`Counters`] over an interval. Signed, because an impossible value is shown and flagged, not clamped:
        /// `Interval::between` makes none, but the original's devices sent negative times.
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
        pub struct Delta {
            $(
                #[doc = $growth]
                #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
                pub $counter: i64,
            )+
        }

        impl Counters {
            /// What was added since `earlier`; `None` if any counter fell (a counter reset, or another task under the same key).
            pub fn since(&self, earlier: &Self) -> Option<Delta> {
                let sub = |now: u64, then: u64| i64::try_from(now.checked_sub(then)?).ok();
                Some(Delta { $($counter: sub(self.$counter, earlier.$counter)?,)+ })
            }

            /// Each counter less the same counter of `base`, at least 0.
            #[must_use]
            pub fn without(&self, base: &Self) -> Self {
                Self { $($counter: self.$counter.saturating_sub(base.$counter),)+ }
            }

            /// What was added since `earlier`, where a counter that fell counts 0.
            pub(crate) fn grown(&self, earlier: &Self) -> Delta {
                Delta { $($counter: signed(self.$counter.saturating_sub(earlier.$counter)),)+ }
            }
        }

        impl Delta {
            /// Names of the counters, as the columns of tables and exports have them.
            pub const NAMES: [&'static str; [$(stringify!($counter)),+].len()] = [$(stringify!($counter)),+];

            /// The field that a source must measure for each counter.
            pub const FIELDS: [Fields; Self::NAMES.len()] = [$(Fields::$field),+];

            /// The counters in the order of [`Delta::NAMES`].
            #[inline]
            pub fn to_array(self) -> [i64; Self::NAMES.len()] {
                [$(self.$counter),+]
            }

            /// From the counters in the order of [`Delta::NAMES`].
            #[inline]
            pub fn from_array([$($counter),+]: [i64; Self::NAMES.len()]) -> Self {
                Self { $($counter),+ }
            }

            /// Each counter with that of `other`.
            #[inline]
            #[must_use]
            pub fn zip_with(&self, other: &Self, of: impl Fn(i64, i64) -> i64) -> Self {
                Self { $($counter: of(self.$counter, other.$counter),)+ }
            }

            /// Takes away what was charged elsewhere; may fall below zero.
            pub(crate) fn subtract(&mut self, charged: &Counters) {
                $(self.$counter = self.$counter.saturating_sub(signed(charged.$counter));)+
            }

            pub(crate) fn at_least_zero(self) -> Self {
                Self { $($counter: self.$counter.max(0),)+ }
            }
        }

        impl AddAssign<&Counters> for Counters {
            fn add_assign(&mut self, other: &Counters) {
                $(self.$counter = self.$counter.saturating_add(other.$counter);)+
            }
        }
    };
}

counters! {
    /// Run time in user mode, ns. The split is sampled at the clock tick (kernel/sched/cputime.c), the sum is not.
    user_ns USER, "User time in the interval, ns.";
    /// Run time in kernel mode, ns.
    system_ns SYSTEM, "System time in the interval, ns.";
    /// Time on a CPU, ns (`se.sum_exec_runtime`; first field of /proc/PID/task/TID/schedstat).
    run_ns RUN, "Run time in the interval, ns.";
    /// Time runnable but waiting for a CPU, ns (`sched_info.run_delay`; second field of schedstat).
    run_delay_ns RUN_DELAY, "Run delay in the interval, ns.";
    /// Times the task left the CPU to wait (`nvcsw`, proc(5) status).
    voluntary_switches SWITCHES, "Voluntary switches in the interval.";
    /// Times the task was pushed off the CPU while runnable (`nivcsw`).
    involuntary_switches SWITCHES, "Involuntary switches in the interval.";
    /// Page faults that needed no disk (`min_flt`, proc(5) stat).
    minor_faults FAULTS, "Minor page faults in the interval.";
    /// Page faults for which a page was read from a disk (`maj_flt`).
    major_faults FAULTS, "Major page faults in the interval.";
}

impl AddAssign<&Delta> for Delta {
    fn add_assign(&mut self, other: &Delta) {
        *self = self.zip_with(other, i64::saturating_add);
    }
}

impl Delta {
    /// Whether nothing happened: the task was idle all through.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// A number of nanoseconds or of events with a sign; beyond `i64` it sticks at the top.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// One thread's CPU time by three clocks, cumulative, ns, as a platform's reader hands it out.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Id and start of the thread.
    pub key: ThreadKey,
    /// Id of the process (thread group) it belongs to.
    pub pid: u32,
    /// Name (comm) at the time of the reading.
    pub comm: Comm,
    /// By the clock tick: user and system time as sampled (`utime + stime`, before the kernel scales them).
    pub tick_ns: u64,
    /// By the scheduler (`se.sum_exec_runtime`).
    pub clock_ns: u64,
    /// By the switches. Only its growth means something: it starts from the scheduler's clock at first sight.
    pub switch_ns: u64,
    /// Times it left its CPU.
    pub slices: u64,
    /// All three count the same slices: it was off its CPU, and kernel and events count the same switches.
    pub is_exact: bool,
}

/// Reasons that have a slot of their own.
pub const WAIT_SLOTS: usize = 6;

/// Time blocked by reason, ns: the sum never loses any. The table has a fixed size, because a thread waits for few things and a snapshot
/// has thousands of threads; packed, it leaves space in the row for a reason beside it. Empty slots have [`WaitReason::NONE`]; each reason
/// has one slot; equal contents in another order are equal.
#[derive(Copy, Clone, Debug, Default)]
#[repr(Rust, packed(4))]
pub struct Waits {
    reasons: [WaitReason; WAIT_SLOTS],
    ns: [u64; WAIT_SLOTS],
}

impl Waits {
    /// Adds time to a reason; [`WaitReason::NONE`] counts as [`WaitReason::OTHER`], a time of 0 changes nothing. If all
    /// slots are taken, the smallest time, the new one included, goes to [`WaitReason::OTHER`]; so the sum stays exact.
    pub fn add(&mut self, reason: WaitReason, ns: u64) {
        // A time of 0 must not take a slot from a reason that has some.
        if ns == 0 {
            return;
        }
        let reason = if reason.is_some() { reason } else { WaitReason::OTHER };
        if let Some(slot) = self.slot_of(reason).or_else(|| self.slot_of(WaitReason::NONE)) {
            self.reasons[slot] = reason;
            self.ns[slot] = self.ns[slot].saturating_add(ns);
            return;
        }
        self.add_to_full(reason, ns);
    }

    /// Takes time away, from the longest wait first.
    pub fn cut(&mut self, mut ns: u64) {
        while ns > 0 {
            let longest = (0..WAIT_SLOTS).max_by_key(|&slot| self.ns[slot]).filter(|&slot| self.ns[slot] > 0);
            let Some(slot) = longest else { return };
            let taken = ns.min(self.ns[slot]);
            self.shorten(slot, taken);
            ns -= taken;
        }
    }

    fn shorten(&mut self, slot: usize, ns: u64) {
        self.ns[slot] = self.ns[slot].saturating_sub(ns);
        if self.ns[slot] == 0 {
            self.reasons[slot] = WaitReason::NONE;
        }
    }

    fn add_to_full(&mut self, reason: WaitReason, ns: u64) {
        let others = self.slot_of(WaitReason::OTHER);
        let by_time = |slot: &usize| (self.ns[*slot], self.reasons[*slot]);
        let smallest = (0..WAIT_SLOTS).filter(|slot| Some(*slot) != others).min_by_key(by_time).unwrap_or(0);
        if let Some(others) = others {
            let mut spilled_ns = ns;
            if self.ns[smallest] < ns {
                self.reasons[smallest] = reason;
                spilled_ns = self.ns[smallest];
                self.ns[smallest] = ns;
            }
            self.ns[others] = self.ns[others].saturating_add(spilled_ns);
        } else {
            // No slot is OTHER yet: the smallest becomes it and takes the new one in, or is joined by the next smallest.
            // The recursion ends here: now OTHER has a slot.
            self.reasons[smallest] = WaitReason::OTHER;
            self.add(reason, ns);
        }
    }

    fn slot_of(&self, reason: WaitReason) -> Option<usize> {
        self.reasons.iter().position(|known| *known == reason)
    }

    /// The time of one reason.
    pub fn of(&self, reason: WaitReason) -> u64 {
        self.slot_of(reason).filter(|_| reason.is_some()).map_or(0, |slot| self.ns[slot])
    }

    /// Reasons with their times, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (WaitReason, u64)> + '_ {
        (0..WAIT_SLOTS).map(|slot| (self.reasons[slot], self.ns[slot])).filter(|(reason, _)| reason.is_some())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The sum over all reasons.
    pub fn total_ns(&self) -> u64 {
        (0..WAIT_SLOTS).fold(0, |sum, slot| sum.saturating_add(self.ns[slot]))
    }

    /// The reason with the most time; the smaller number of equal ones.
    pub fn longest(&self) -> Option<(WaitReason, u64)> {
        self.iter().max_by_key(|(reason, ns)| (*ns, std::cmp::Reverse(*reason)))
    }

    /// What was added to each reason since `earlier`. A reason that fell counts 0: an open wait is counted up to the
    /// instant of the pass, which may be a little more than it turned out to be.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut grown = Self::default();
        if self.reasons == earlier.reasons {
            // Nearly always: slots keep their places.
            for slot in 0..WAIT_SLOTS {
                grown.add(self.reasons[slot], self.ns[slot].saturating_sub(earlier.ns[slot]));
            }
            return grown;
        }
        for (reason, ns) in self.iter() {
            grown.add(reason, ns.saturating_sub(earlier.of(reason)));
        }
        grown
    }

    /// Takes time off a reason, at most all that it has.
    pub fn take(&mut self, reason: WaitReason, ns: u64) {
        if let Some(slot) = self.slot_of(reason).filter(|_| reason.is_some()) {
            self.shorten(slot, ns);
        }
    }

    /// Shortens the longest waits until their sum is at most `total_ns`.
    pub(crate) fn keep_within(&mut self, total_ns: u64) {
        self.cut(self.total_ns().saturating_sub(total_ns));
    }
}

impl PartialEq for Waits {
    fn eq(&self, other: &Self) -> bool {
        self.iter().count() == other.iter().count() && self.iter().all(|(reason, ns)| other.of(reason) == ns)
    }
}

impl Eq for Waits {}

impl AddAssign<&Waits> for Waits {
    fn add_assign(&mut self, other: &Waits) {
        for (reason, ns) in other.iter() {
            self.add(reason, ns);
        }
    }
}

impl FromIterator<(WaitReason, u64)> for Waits {
    fn from_iter<I: IntoIterator<Item = (WaitReason, u64)>>(reasons: I) -> Self {
        let mut waits = Self::default();
        for (reason, ns) in reasons {
            waits.add(reason, ns);
        }
        waits
    }
}

/// Counts of a thread from the scheduler's events, and every operation on them, as in `counters!`. A count that falls is a reset unless
/// it `may_fall`.
macro_rules! event_counters {
    ($($(#[doc = $doc:tt])+ $counter:ident, $growth:tt, may_fall: $may_fall:literal;)+) => {
        /// Cumulative times and counts of one thread since it was first seen, but for `longest_delay_ns` and `open_wait`. They are known
        /// where the source measures [`Fields::SCHED`].
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        pub struct SchedTimes {
            $($(#[doc = $doc])+ pub $counter: u64,)+
            /// The longest single run delay since the snapshot before, ns. Not cumulative: a maximum, never summed.
            pub longest_delay_ns: u64,
            /// `blocked_ns` by reason; known where [`Fields::WAITS`] is measured.
            pub waits: Waits,
            /// Reason of the wait that is open at the end of the pass; [`WaitReason::NONE`] while the thread runs or is ready.
            pub open_wait: WaitReason,
        }

        /// Growth of [`SchedTimes`] over an interval.
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
        pub struct SchedDelta {
            $(
                #[doc = $growth]
                #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
                pub $counter: i64,
            )+
            /// Longest single run delay that ended in the interval or was open at its end, ns; a process shows its threads' longest.
            #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
            pub longest_delay_ns: i64,
            /// Blocked time by reason in the interval.
            #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
            pub waits: Waits,
            /// Reason of the wait that was open at the interval's end; none for a process.
            #[cfg_attr(feature = "json", serde(skip_serializing_if = "crate::json::is_default"))]
            pub open_wait: WaitReason,
        }

        impl SchedTimes {
            /// What was added since `earlier`, and whether a counter fell; that one counts 0. Blocked time may fall by the length
            /// of a collection pass: an open wait is counted up to the pass, and the thread may have woken meanwhile.
            pub fn since(&self, earlier: &Self) -> (SchedDelta, bool) {
                let fell = $(!$may_fall && self.$counter < earlier.$counter)||+;
                let mut waits = self.waits.since(&earlier.waits);
                // More only if a wait was counted to one reason and turned out to be of another: the sum is right.
                waits.keep_within(self.blocked_ns.saturating_sub(earlier.blocked_ns));
                let delta = SchedDelta {
                    $($counter: signed(self.$counter.saturating_sub(earlier.$counter)),)+
                    // A maximum since the snapshot before: there is nothing to subtract.
                    longest_delay_ns: signed(self.longest_delay_ns),
                    waits,
                    open_wait: self.open_wait,
                };
                (delta, fell)
            }
        }

        impl AddAssign<&SchedDelta> for SchedDelta {
            /// Sums, but takes the longer of the longest delays; the open wait stays.
            fn add_assign(&mut self, other: &SchedDelta) {
                $(self.$counter = self.$counter.saturating_add(other.$counter);)+
                self.longest_delay_ns = self.longest_delay_ns.max(other.longest_delay_ns);
                self.waits += &other.waits;
            }
        }
    };
}

event_counters! {
    /// The part of the run delay that came after a wakeup, ns; the rest came after preemption.
    delay_after_wakeup_ns, "Run delay after wakeups in the interval, ns.", may_fall: false;
    /// Time neither running nor runnable, ns, the open wait included.
    blocked_ns, "Blocked time in the interval, ns.", may_fall: true;
    /// Times it was woken.
    wakeups, "Wakeups in the interval.", may_fall: false;
    /// Times it ran on another CPU than before.
    migrations, "Migrations in the interval.", may_fall: false;
}

impl SchedDelta {
    /// The longest single run delay, ns; `None`: there was none, or it is not measured.
    pub fn longest_ns(&self) -> Option<u64> {
        u64::try_from(self.longest_delay_ns).ok().filter(|&ns| ns > 0)
    }
}

impl SchedTimes {
    /// Times of a thread that no event reports: nothing is known.
    pub fn unwatched() -> Self {
        Self { open_wait: WaitReason::UNWATCHED, ..Self::default() }
    }

    /// Whether the scheduler's events report the thread.
    pub fn is_watched(&self) -> bool {
        self.open_wait != WaitReason::UNWATCHED
    }

    /// Lengthens the open wait by `ns`: for a thread that snapshots left out, because it kept sleeping.
    pub fn go_on_waiting(&mut self, ns: u64) {
        if self.open_wait.is_some() && self.is_watched() {
            self.blocked_ns = self.blocked_ns.saturating_add(ns);
            self.waits.add(self.open_wait, ns);
        }
    }
}

#[cfg(test)]
mod tests;
