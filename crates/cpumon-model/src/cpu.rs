//! Per-CPU times by mode, cumulative ([`CpuSample`]) and over an interval ([`CpuInterval`]).

/// Times of one CPU by mode, ns (/proc/stat, proc(5)). `guest` is part of `user`, `guest_nice` part of `nice`.
/// Cumulative in a [`CpuSample`], differences in a [`CpuInterval`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuTimes {
    /// User mode, default priority or higher.
    pub user_ns: u64,
    /// User mode, niced.
    pub nice_ns: u64,
    /// Kernel mode.
    pub system_ns: u64,
    /// Nothing to run.
    pub idle_ns: u64,
    /// Nothing to run while some task of this CPU waits for a disk.
    pub iowait_ns: u64,
    /// Hard interrupts.
    pub irq_ns: u64,
    /// Soft interrupts.
    pub softirq_ns: u64,
    /// Taken by the hypervisor.
    pub steal_ns: u64,
    /// Running guests, inside `user_ns`.
    pub guest_ns: u64,
    /// Running niced guests, inside `nice_ns`.
    pub guest_nice_ns: u64,
}

/// One CPU at the end of a collection pass.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuSample {
    /// CPU number, 0-based; numbers may be missing while CPUs are offline.
    pub cpu: u32,
    /// Cumulative times since boot.
    pub times: CpuTimes,
}

/// One CPU over an interval.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuInterval {
    /// CPU number.
    pub cpu: u32,
    /// Times in the interval. A mode that fell (the kernel's idle and iowait can) counts as 0 and sets `went_back`.
    pub times: CpuTimes,
    /// Some mode of this CPU went backwards.
    pub went_back: bool,
}

impl CpuTimes {
    /// user + nice + system + idle + iowait + irq + softirq + steal (guest is inside user). Saturates: times may come from
    /// a made-up datagram.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        [self.idle_ns, self.iowait_ns, self.steal_ns].into_iter().fold(self.busy_ns(), u64::saturating_add)
    }

    /// Everything but idle, iowait and steal.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        [self.nice_ns, self.system_ns, self.irq_ns, self.softirq_ns]
            .into_iter()
            .fold(self.user_ns, u64::saturating_add)
    }

    /// The modes as an array in /proc/stat's order.
    #[must_use]
    pub fn to_array(self) -> [u64; 10] {
        [
            self.user_ns,
            self.nice_ns,
            self.system_ns,
            self.idle_ns,
            self.iowait_ns,
            self.irq_ns,
            self.softirq_ns,
            self.steal_ns,
            self.guest_ns,
            self.guest_nice_ns,
        ]
    }

    /// From an array in /proc/stat's order.
    #[must_use]
    pub fn from_array(modes: [u64; 10]) -> Self {
        let [
            user_ns,
            nice_ns,
            system_ns,
            idle_ns,
            iowait_ns,
            irq_ns,
            softirq_ns,
            steal_ns,
            guest_ns,
            guest_nice_ns,
        ] = modes;
        Self {
            user_ns,
            nice_ns,
            system_ns,
            idle_ns,
            iowait_ns,
            irq_ns,
            softirq_ns,
            steal_ns,
            guest_ns,
            guest_nice_ns,
        }
    }
}

impl CpuInterval {
    /// What happened on one CPU between two samples.
    #[must_use]
    pub fn between(prev: &CpuSample, cur: &CpuSample) -> Self {
        let (before, mut modes) = (prev.times.to_array(), cur.times.to_array());
        let mut went_back = false;
        for (mode, earlier) in modes.iter_mut().zip(before) {
            went_back |= *mode < earlier;
            *mode = mode.saturating_sub(earlier);
        }
        Self { cpu: cur.cpu, times: CpuTimes::from_array(modes), went_back }
    }
}
