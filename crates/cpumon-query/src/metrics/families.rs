//! [`Family`]: the families of metrics with their types and help texts. `docs/metrics.md` has the same list.

/// The type of a family.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// Facts as labels of a sample that is always 1.
    Info,
}

macro_rules! families {
    ($($variant:ident = $kind:ident $name:literal: $help:literal),+ $(,)?) => {
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub(super) enum Family { $($variant),+ }

        impl Family {
            pub(super) const ALL: &[Self] = &[$(Self::$variant),+];

            pub(super) fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind),+ }
            }

            /// Its name without the suffix of its samples.
            pub(super) fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            pub(super) fn help(self) -> &'static str {
                match self { $(Self::$variant => $help),+ }
            }
        }
    };
}

families! {
    HostSeconds = Counter "cpumon_host_seconds": "Where the CPU time of the host went, s. All parts together, less cpumon_overbooked_seconds, are its capacity.",
    Capacity = Counter "cpumon_host_capacity_seconds": "CPUs online times measured time, s.",
    Overbooked = Gauge "cpumon_overbooked_seconds": "Time in the counters that later intervals have yet to give back, s: of=\"host\" in the parts of the host, of=\"cpu\" in its programs. A broken sender makes it grow.",
    Cpu = Counter "cpumon_cpu_seconds": "CPU time of programs, s. All of them, with the series that have ended, are the parts threads and exited.",
    Ready = Counter "cpumon_ready_seconds": "Time in which threads of a program were ready to run and waited for a CPU, s.",
    Blocked = Counter "cpumon_blocked_seconds": "Time in which threads of a program waited for something else than a CPU, s.",
    ServiceCpu = Counter "cpumon_service_cpu_seconds": "CPU time of systemd units, s.",
    ServiceReady = Counter "cpumon_service_ready_seconds": "Time in which threads of a systemd unit waited for a CPU, s.",
    ContainerCpu = Counter "cpumon_container_cpu_seconds": "CPU time of containers, or of systemd units where there is none, s.",
    ContainerReady = Counter "cpumon_container_ready_seconds": "Time in which threads of a container waited for a CPU, s.",
    UserCpu = Counter "cpumon_user_cpu_seconds": "CPU time of users, s.",
    UserReady = Counter "cpumon_user_ready_seconds": "Time in which threads of a user waited for a CPU, s.",
    Ended = Counter "cpumon_ended_series_seconds": "What series had that have ended, because their label did nothing or was no longer among the largest for an hour, s.",
    LeftOut = Gauge "cpumon_programs_left_out": "Programs in (other) that did something in the newest interval, at most.",
    Throttled = Counter "cpumon_throttled_seconds": "Time in which a CPU limit kept a control group from running, s, added up over CPUs.",
    Periods = Counter "cpumon_periods": "Periods of a CPU limit in which the control group had something to run.",
    ThrottledPeriods = Counter "cpumon_throttled_periods": "Periods in which the control group used up its limit.",
    CpuLimit = Gauge "cpumon_cpu_limit": "CPU limit of a control group, CPUs.",
    RunQueue = Counter "cpumon_run_queue_seconds": "Integral of the number of tasks running or ready, s: its rate is their mean number.",
    RunDelay = Histogram "cpumon_run_delay_seconds": "How long each single wait for a CPU took, s. The sum is the ready time of all processes meanwhile.",
    SnapshotsLost = Counter "cpumon_snapshots_lost": "Snapshots of the host that never arrived. Their time is in the next one.",
    SnapshotsPartial = Counter "cpumon_snapshots_partial": "Snapshots of the host of which a part never arrived.",
    StoreDropped = Counter "cpumon_store_dropped_intervals": "Intervals that were counted and not stored, because the store's queue was full.",
    ExitsLost = Counter "cpumon_exits_lost": "Ends of threads whose records were lost: their last CPU time has no name.",
    AgentCpu = Counter "cpumon_agent_cpu_seconds": "CPU time of the process that measures, s.",
    AgentBytes = Gauge "cpumon_agent_resident_bytes": "Resident memory of the process that measures.",
    HostUp = Gauge "cpumon_host_up": "1 while intervals arrive, 0 once the host is silent.",
    Host = Info "cpumon_host": "What the host is.",
    Receiver = Info "cpumon_receiver": "What the receiver is.",
    StoreBytes = Gauge "cpumon_store_bytes": "Size of the store with its write-ahead log.",
    KernelDropped = Counter "cpumon_datagrams_dropped": "Datagrams that the kernel threw away because the receiver's buffer was full.",
    Rejected = Counter "cpumon_datagrams_rejected": "Datagrams that could not be used.",
    Series = Gauge "cpumon_series": "Series that are reserved for hosts and names.",
    MaxSeries = Gauge "cpumon_series_limit": "Series at most. Beyond it hosts have fewer names.",
    HostsLeftOut = Gauge "cpumon_hosts_left_out": "Hosts without series, because the limit is reached.",
}
