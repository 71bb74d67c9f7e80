//! [`Ledger`]: where the CPU time of one interval went. capacity = threads + exited + irq + softirq + steal + idle + unattributed.

/// Where the CPU time of one interval went, ns, whole host. The unattributed rest is shown, never spread or clamped.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema), serde(default))]
pub struct Ledger {
    /// CPUs online × measured length of the interval.
    pub capacity_ns: i64,
    /// Run time of threads that are alive at the end.
    pub threads_ns: i64,
    /// Run time in this interval of threads that ended in it.
    pub exited_ns: i64,
    /// Hard interrupts; 0 when they are inside the threads' run time (`irq_in_run_time`).
    pub irq_ns: i64,
    /// Soft interrupts; 0 when they are inside the threads' run time.
    pub softirq_ns: i64,
    /// Taken by the hypervisor.
    pub steal_ns: i64,
    /// Time with nothing to run, iowait included.
    pub idle_ns: i64,
    /// The part of the unattributed time that has a counted cause: time that no switch event attributes to a thread, less the run
    /// time of threads flagged `UNWATCHED`. Negative if that run time was counted a clock tick late, and belongs to the unknown time of
    /// the interval before. Not a line of its own; 0 where no switch events are measured.
    pub unknown_ns: i64,
    /// irq and softirq are not lines of their own: the kernel charges them to the thread that was running.
    pub irq_in_run_time: bool,
}

impl Ledger {
    /// capacity − (threads + exited + irq + softirq + steal + idle). Negative when more was booked than there was.
    pub fn unattributed_ns(&self) -> i64 {
        self.capacity_ns.saturating_sub(self.accounted_ns())
    }

    /// The sum of all lines but `unattributed`.
    pub fn accounted_ns(&self) -> i64 {
        [self.threads_ns, self.exited_ns, self.irq_ns, self.softirq_ns, self.steal_ns, self.idle_ns]
            .iter()
            .fold(0_i64, |sum, line| sum.saturating_add(*line))
    }

    /// The time in which the run time of an interval was measured, ns, at least: its length, or longer where its threads ran more than
    /// its CPUs can in that time. Such an interval has run time from before its start: a pass takes time, and threads that a late
    /// pass read first ran on while it read the others. The highest rates divide by this.
    pub fn measured_in_ns(&self, length_ns: u64) -> u64 {
        let run_ns = self.threads_ns.saturating_add(self.exited_ns);
        if self.capacity_ns <= 0 || run_ns <= self.capacity_ns {
            return length_ns;
        }
        // 128 bits: both can be years of ns. Rounded up, so that no rate is above the capacity.
        let least_ns = (u128::from(length_ns) * u128::from(run_ns.unsigned_abs()))
            .div_ceil(u128::from(self.capacity_ns.unsigned_abs()));
        u64::try_from(least_ns).unwrap_or(u64::MAX)
    }

    /// unattributed ÷ capacity; 0 for an empty interval.
    pub fn unattributed_ratio(&self) -> f64 {
        if self.capacity_ns == 0 { 0.0 } else { self.unattributed_ns() as f64 / self.capacity_ns as f64 }
    }
}

impl std::ops::AddAssign<&Ledger> for Ledger {
    /// Adds another ledger line by line; sums saturate.
    fn add_assign(&mut self, other: &Ledger) {
        let lines = [
            (&mut self.capacity_ns, other.capacity_ns),
            (&mut self.threads_ns, other.threads_ns),
            (&mut self.exited_ns, other.exited_ns),
            (&mut self.irq_ns, other.irq_ns),
            (&mut self.softirq_ns, other.softirq_ns),
            (&mut self.steal_ns, other.steal_ns),
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.unknown_ns, other.unknown_ns),
        ];
        for (sum, ns) in lines {
            *sum = sum.saturating_add(ns);
        }
        self.irq_in_run_time = self.irq_in_run_time || other.irq_in_run_time;
    }
}
