//! The table of stored columns: name, type, unit, help text, and the SQL tables and exports that have the column.
//!
//! CSV and JSON exports, SQL virtual tables and docs/store.md are made from it, so a name means the same everywhere. What people
//! see on a screen (rates, shares, short headings) is in `screen`, which refers to this table.

mod screen;
#[cfg(test)]
mod tests;
mod values;

use bitflags::bitflags;

pub use self::screen::{Align, Format, Frontends, HOST_COLUMNS, PageLayout, ScreenColumn, TASK_COLUMNS};
use self::values::{CellRow, filled, names_of, wait_kind, waited_on};
pub use self::values::{IntervalView, Value};
use crate::{
    CgroupInterval, CgroupNames, CpuInterval, Delta, Fields, IrqInterval, Ledger, ProcessInterval,
    SchedDelta, ThreadInterval, WaitFor, WaitReason,
};

bitflags! {
    /// The tables a column is part of.
    #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Tables: u16 {
        /// SQL `hosts`: one row a host.
        const HOSTS = 1;
        /// SQL `processes`: one row a process that was ever stored.
        const PROCESSES = 1 << 1;
        /// SQL `threads`: one row a thread that was ever stored.
        const THREADS = 1 << 2;
        /// SQL `process_interval`, export `processes`: one row a process and interval.
        const PROCESS_INTERVAL = 1 << 3;
        /// SQL `thread_interval`, export `threads`: one row a thread and interval.
        const THREAD_INTERVAL = 1 << 4;
        /// SQL `cpu_interval`: one row a CPU and interval.
        const CPU_INTERVAL = 1 << 5;
        /// SQL `host_interval`, export `ledger`: one row a host and interval.
        const HOST_INTERVAL = 1 << 6;
        /// SQL `wait_interval`: one row a thread, wait reason and interval.
        const WAIT_INTERVAL = 1 << 7;
        /// SQL `irq_interval`: one row an interrupt line and interval.
        const IRQ_INTERVAL = 1 << 8;
        /// SQL `cgroup_interval`: one row a control group and interval.
        const CGROUP_INTERVAL = 1 << 9;
        /// SQL `wait_for_interval`: one row a process, what it waited for and on whom, and interval.
        const WAIT_FOR_INTERVAL = 1 << 10;
    }
}

/// Type of a column's values.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A whole number, signed, 64 bits.
    Integer,
    /// A fraction, as a 64-bit float.
    Real,
    /// Text. Hostile where it is a name: escape it before a terminal sees it.
    Text,
}

/// One stored column: everything that exports, SQL and documents state about it.
#[derive(Copy, Clone, Debug)]
pub struct Column {
    /// Key of the column in code.
    pub id: ColumnId,
    /// Name in CSV, JSON and SQL.
    pub name: &'static str,
    /// Type of its values.
    pub kind: Kind,
    /// Unit; empty for names, ids and counts without one.
    pub unit: &'static str,
    /// Tables that have the column.
    pub tables: Tables,
    /// The counters a source must measure for it to have data; otherwise it is empty (null), which is not zero.
    pub needs: Fields,
    /// Meaning, in one sentence.
    pub help: &'static str,
}

/// A row a column: id, name, type, unit, tables, needed counters, its value in a row of an interval, and its help text. Columns that only
/// tables of hosts and tasks have name no value: those are not read from intervals.
macro_rules! columns {
    (|$view:ident, $row:ident|
        $($id:ident $name:literal $kind:ident $unit:literal [$($table:ident)|+] $needs:ident $($value:expr)?, $help:literal;)+
    ) => {
        /// Key of a column in code; its variants are in the order of [`COLUMNS`].
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ColumnId {
            $(#[doc = concat!("The column `", $name, "`.")] $id,)+
        }

        /// Every column. A table has its columns in the order of this list; new ones are added at its end.
        pub const COLUMNS: &[Column] = &[
            $(Column {
                id: ColumnId::$id,
                name: $name,
                kind: Kind::$kind,
                unit: $unit,
                tables: Tables::empty()$(.union(Tables::$table))+,
                needs: columns!(@fields $needs),
                help: $help,
            },)+
        ];

        /// What a column has in a row of an interval; `None`: nothing. One function for all: a call for each cell by a pointer of its column made
        /// exports slower by a sixth.
        fn value_of<'v>(
            $view: &'v IntervalView<'v>,
            $row: CellRow<'v>,
            id: ColumnId,
        ) -> Option<Value<'v>> {
            match id {
                $(ColumnId::$id => columns!(@value $($value)?),)+
            }
        }
    };
    (@fields NONE) => { Fields::empty() };
    (@fields $field:ident) => { Fields::$field };
    (@value) => { None };
    (@value $value:expr) => { Some(Value::from($value)) };
}

columns! { |view, row|
    Host "host" Text "" [HOSTS|PROCESSES|THREADS|PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL|WAIT_INTERVAL|IRQ_INTERVAL|CGROUP_INTERVAL|WAIT_FOR_INTERVAL] NONE view.host, "The host's name; for v1 devices their address.";
    HostId "host_id" Text "" [HOSTS|PROCESSES|THREADS] NONE, "The host's identity over reboots, 32 hexadecimal digits.";
    BootId "boot_id" Text "" [HOSTS|PROCESSES|THREADS|HOST_INTERVAL] NONE filled(&*view.boot)?, "The boot, 32 hexadecimal digits; empty where the sender names none. Pids and start times count within it.";
    BeginUtc "begin_utc" Text "UTC" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL|WAIT_INTERVAL|IRQ_INTERVAL|CGROUP_INTERVAL|WAIT_FOR_INTERVAL] NONE &*view.begin_utc, "Start of the interval, ISO 8601 with nanoseconds: on the device's wall clock, or on the receiver's time line where that clock is wrong (device_end_ns).";
    EndUtc "end_utc" Text "UTC" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL|WAIT_INTERVAL|IRQ_INTERVAL|CGROUP_INTERVAL|WAIT_FOR_INTERVAL] NONE &*view.end_utc, "End of the interval, as begin_utc.";
    Cpu "cpu" Integer "" [CPU_INTERVAL] CPUS row.as_cpu()?.cpu, "CPU number, from 0.";
    Pid "pid" Integer "" [PROCESSES|THREADS|PROCESS_INTERVAL|THREAD_INTERVAL|WAIT_INTERVAL] NONE row.task()?.process.pid, "Process id (thread group id). Reused by the kernel: with start_ns it is unique in a boot.";
    Tid "tid" Integer "" [THREADS|THREAD_INTERVAL|WAIT_INTERVAL] NONE row.as_thread()?.key.tid, "Thread id. Reused by the kernel: with start_ns it is unique in a boot.";
    Name "name" Text "" [PROCESSES|THREADS|PROCESS_INTERVAL|THREAD_INTERVAL|WAIT_INTERVAL] NONE row.name()?, "Process: the base name of the script that it runs, else of its executable where known, else its comm. Thread: its comm at the interval's end.";
    ProcessName "process_name" Text "" [THREADS|THREAD_INTERVAL|WAIT_INTERVAL] NONE &*view.info(row)?.name, "Name of the process the thread belongs to.";
    StartNs "start_ns" Integer "ns" [PROCESSES|THREADS|PROCESS_INTERVAL|THREAD_INTERVAL|WAIT_INTERVAL] NONE view.known(row.task()?.start_ns)?, "Start of the process or thread since boot (CLOCK_BOOTTIME); empty where the sender does not know it.";
    BeginNs "begin_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL|WAIT_INTERVAL|IRQ_INTERVAL|CGROUP_INTERVAL|WAIT_FOR_INTERVAL] NONE view.interval.begin.wall_ns, "Start of the interval, since the UNIX epoch; as begin_utc.";
    EndNs "end_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL|WAIT_INTERVAL|IRQ_INTERVAL|CGROUP_INTERVAL|WAIT_FOR_INTERVAL] NONE view.interval.end.wall_ns, "End of the interval, since the UNIX epoch; as begin_utc.";
    DurationNs "duration_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL|WAIT_INTERVAL|IRQ_INTERVAL|CGROUP_INTERVAL|WAIT_FOR_INTERVAL] NONE view.interval.duration_ns(), "Measured length of the interval on the monotonic clock; rates divide by it.";
    UserNs "user_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL] USER row.task()?.delta.user_ns, "Run time in user mode within the interval.";
    SystemNs "system_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL] SYSTEM row.task()?.delta.system_ns, "Run time in kernel mode within the interval.";
    RunNs "run_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL] RUN row.task()?.delta.run_ns, "Time on a CPU within the interval.";
    RunDelayNs "run_delay_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL] RUN_DELAY row.task()?.delta.run_delay_ns, "Run delay: time runnable but waiting for a CPU within the interval.";
    VoluntarySwitches "voluntary_switches" Integer "" [PROCESS_INTERVAL|THREAD_INTERVAL] SWITCHES row.task()?.delta.voluntary_switches, "Times it left the CPU to wait.";
    InvoluntarySwitches "involuntary_switches" Integer "" [PROCESS_INTERVAL|THREAD_INTERVAL] SWITCHES row.task()?.delta.involuntary_switches, "Times it was pushed off the CPU while runnable.";
    CpuPct "cpu_pct" Real "%CPU" [PROCESS_INTERVAL|THREAD_INTERVAL] RUN view.interval.cpu_pct(row.task()?.delta.run_ns)?, "Utilization: run_ns / duration_ns x 100; 100 = one CPU.";
    ParentPid "parent_pid" Integer "" [PROCESSES|PROCESS_INTERVAL] NONE view.known(row.as_process()?.parent_pid)?, "Pid of the parent process; 0 for none.";
    Uid "uid" Integer "" [PROCESSES|PROCESS_INTERVAL|THREAD_INTERVAL] NONE view.known(view.info(row)?.uid)?, "Real user id of the process.";
    Cgroup "cgroup" Text "" [PROCESSES|PROCESS_INTERVAL|THREAD_INTERVAL] NONE filled(&*view.info(row)?.cgroup)?, "cgroup path; empty if none or unreadable.";
    Container "container" Text "" [PROCESSES|PROCESS_INTERVAL|THREAD_INTERVAL] NONE filled(&*view.info(row)?.container)?, "Container, or else systemd unit, out of the cgroup path: name (LXC, nspawn) or first 12 digits of the id; empty if none.";
    Cmdline "cmdline" Text "" [PROCESSES|PROCESS_INTERVAL] NONE filled(&*view.info(row)?.cmdline)?, "Command line, scrubbed of secrets; empty unless the agent runs with --cmdline.";
    IsKernel "is_kernel" Integer "0/1" [PROCESSES|PROCESS_INTERVAL] NONE view.known(view.info(row)?.is_kernel)?, "1 for a kernel thread.";
    ThreadRows "thread_rows" Integer "" [PROCESS_INTERVAL] NONE row.as_process()?.thread_rows, "Threads of the process, those that ended and those without a row of their own included.";
    State "state" Text "" [THREAD_INTERVAL] NONE view.known(row.as_thread()?.state.letter().to_string())?, "State at the interval's end: a letter of proc(5).";
    LastCpu "last_cpu" Integer "" [THREAD_INTERVAL] NONE view.known_but_windows(row.as_thread()?.last_cpu)?, "CPU it last ran on.";
    Priority "priority" Integer "" [THREAD_INTERVAL] NONE view.known(row.as_thread()?.priority)?, "Kernel priority: 20 + nice, or -1 - rt_priority for real-time tasks. On Windows the base priority, 0 to 31, the higher the more urgent.";
    Nice "nice" Integer "" [THREAD_INTERVAL] NONE view.known_but_windows(row.as_thread()?.nice)?, "Nice value, -20 to 19. Windows has none.";
    Life "life" Text "" [PROCESS_INTERVAL|THREAD_INTERVAL] NONE view.known(row.task()?.life.name())?, "alive at both ends, born inside, ended inside, or born_ended: both.";
    CpuUserNs "user_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] CPUS view.mode(row, |times| times.user_ns)?, "User mode, guests included (/proc/stat).";
    CpuNiceNs "nice_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] CPUS view.mode(row, |times| times.nice_ns)?, "Niced user mode (/proc/stat).";
    CpuSystemNs "system_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] CPUS view.mode(row, |times| times.system_ns)?, "Kernel mode (/proc/stat).";
    CpuIdleNs "idle_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] CPUS view.mode(row, |times| times.idle_ns)?, "Nothing to run, iowait not included (/proc/stat).";
    CpuIowaitNs "iowait_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] CPUS view.mode(row, |times| times.iowait_ns)?, "Nothing to run while a task waits for a disk (/proc/stat).";
    CpuIrqNs "irq_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] CPUS view.mode(row, |times| times.irq_ns)?, "Hard interrupts (/proc/stat); on Windows interrupt service routines (ISR).";
    CpuSoftirqNs "softirq_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] CPUS view.mode(row, |times| times.softirq_ns)?, "Soft interrupts (/proc/stat); on Windows deferred procedure calls (DPC).";
    CpuStealNs "steal_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] CPUS view.mode(row, |times| times.steal_ns)?, "Taken by the hypervisor (/proc/stat).";
    CpuGuestNs "guest_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] CPUS view.mode(row, |times| times.guest_ns)?, "Running guests; part of user_ns (/proc/stat).";
    CpuGuestNiceNs "guest_nice_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] CPUS view.mode(row, |times| times.guest_nice_ns)?, "Running niced guests; part of nice_ns (/proc/stat).";
    WentBack "went_back" Integer "0/1" [CPU_INTERVAL] CPUS row.as_cpu()?.went_back, "1 if a mode of this CPU went backwards; it counts as 0.";
    CapacityNs "capacity_ns" Integer "ns" [HOST_INTERVAL] NONE view.line(|ledger| ledger.capacity_ns)?, "CPUs online x measured length; empty if the CPUs are not known.";
    LedgerThreadsNs "ledger_threads_ns" Integer "ns" [HOST_INTERVAL] NONE view.interval.ledger.threads_ns, "Ledger: run time of threads alive at the end.";
    LedgerExitedNs "ledger_exited_ns" Integer "ns" [HOST_INTERVAL] NONE view.interval.ledger.exited_ns, "Ledger: run time of threads that ended in the interval.";
    LedgerIrqNs "ledger_irq_ns" Integer "ns" [HOST_INTERVAL] NONE view.line(|ledger| ledger.irq_ns)?, "Ledger: hard interrupts (Windows: ISR); 0 when inside the threads' run time.";
    LedgerSoftirqNs "ledger_softirq_ns" Integer "ns" [HOST_INTERVAL] NONE view.line(|ledger| ledger.softirq_ns)?, "Ledger: soft interrupts (Windows: DPC); 0 when inside the threads' run time.";
    LedgerStealNs "ledger_steal_ns" Integer "ns" [HOST_INTERVAL] NONE view.line(|ledger| ledger.steal_ns)?, "Ledger: taken by the hypervisor.";
    LedgerIdleNs "ledger_idle_ns" Integer "ns" [HOST_INTERVAL] NONE view.line(|ledger| ledger.idle_ns)?, "Ledger: idle, iowait included.";
    UnattributedNs "unattributed_ns" Integer "ns" [HOST_INTERVAL] NONE view.line(Ledger::unattributed_ns)?, "Ledger: what is left of the capacity; negative when more was accounted than there was.";
    UnattributedRatio "unattributed_ratio" Real "ratio" [HOST_INTERVAL] NONE view.line(Ledger::unattributed_ratio)?, "unattributed_ns / capacity_ns.";
    IrqInRunTime "irq_in_run_time" Integer "0/1" [HOST_INTERVAL] NONE view.known(view.interval.ledger.irq_in_run_time)?, "1 if the kernel charges interrupts to the thread that was running.";
    Sequence "sequence" Integer "" [HOST_INTERVAL] NONE view.interval.sequence, "Number of the snapshot that ends the interval, from the agent's start.";
    ThreadCount "thread_count" Integer "" [HOST_INTERVAL] NONE view.interval.thread_count, "Threads alive on the host at the end.";
    ProcessCount "process_count" Integer "" [HOST_INTERVAL] NONE view.interval.process_count, "Processes alive on the host at the end.";
    PassNs "pass_ns" Integer "ns" [HOST_INTERVAL] NONE view.known(view.interval.pass_ns)?, "How long the ending collection pass took.";
    TasksVanished "tasks_vanished" Integer "" [HOST_INTERVAL] NONE view.known(view.interval.health.tasks_vanished)?, "Tasks that vanished while being read, since the agent's start (normal).";
    PermissionDenied "permission_denied" Integer "" [HOST_INTERVAL] NONE view.known(view.interval.health.permission_denied)?, "Tasks or files that the kernel refused to show, since the agent's start.";
    Malformed "malformed" Integer "" [HOST_INTERVAL] NONE view.known(view.interval.health.malformed)?, "Records that could not be decoded, since the agent's start.";
    ExitsLost "exits_lost" Integer "" [HOST_INTERVAL] NONE view.known(view.interval.health.exits_lost)?, "Exit records lost, since the agent's start.";
    IntervalsLate "intervals_late" Integer "" [HOST_INTERVAL] NONE view.known(view.interval.health.intervals_late)?, "Intervals that began late, since the agent's start.";
    IntervalsSkipped "intervals_skipped" Integer "" [HOST_INTERVAL] NONE view.known(view.interval.health.intervals_skipped)?, "Intervals skipped, since the agent's start.";
    OwnCpuNs "own_cpu_ns" Integer "ns" [HOST_INTERVAL] NONE view.known(view.interval.health.own_cpu_ns)?, "CPU time of the agent itself, since its start.";
    OwnRssBytes "own_rss_bytes" Integer "bytes" [HOST_INTERVAL] NONE view.known(view.interval.health.own_rss_bytes)?, "Resident memory of the agent.";
    V1Ticks "v1_ticks" Integer "100 ns" [HOST_INTERVAL] NONE view.interval.v1_ticks?, "The device's own time stamp in v1 data: ticks since 0001-01-01, local time.";
    Kernel "kernel" Text "" [HOSTS] NONE, "Kernel name and release.";
    Arch "arch" Text "" [HOSTS] NONE, "Machine architecture.";
    Agent "agent" Text "" [HOSTS] NONE, "Agent name and version.";
    SourceReason "source_reason" Text "" [HOSTS] NONE, "The source, and why it was chosen.";
    CpuCount "cpu_count" Integer "" [HOSTS] NONE, "Online CPUs.";
    IntervalNs "interval_ns" Integer "ns" [HOSTS] NONE, "Intended length of an interval.";
    Trust "trust" Text "" [HOSTS] NONE, "The most trusted way in which data of the host arrived: local, authenticated, sealed, unauthenticated or imported; host_interval has the trust of each interval.";
    FirstNs "first_ns" Integer "ns" [HOSTS] NONE, "End of the oldest stored interval, since the UNIX epoch.";
    LastNs "last_ns" Integer "ns" [HOSTS] NONE, "End of the newest stored interval, since the UNIX epoch.";
    Flags "flags" Text "" [PROCESS_INTERVAL|THREAD_INTERVAL|HOST_INTERVAL] NONE view.flags(row)?, "Anomalies, names joined by |: counter_reset, first_sight, no_final_counters, impossible, spans_loss, partial, restart, summed (exits of one parent's program for which there was no space, together), unwatched (hidden from the scheduler's events, read from /proc), run_queue_unknown (events were lost). No anomaly: one_cpu (of a thread: it may run on its last CPU only, by its affinity).";
    Source "source" Text "" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL|WAIT_INTERVAL|IRQ_INTERVAL|CGROUP_INTERVAL|WAIT_FOR_INTERVAL] NONE view.interval.source.name(), "The source that measured: procfs, bpf, nt, toolhelp, v1, legacy, simulated.";
    BlockedNs "blocked_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL] SCHED row.watched()?.blocked_ns, "Time neither running nor runnable within the interval; of a process the sum over its threads.";
    DelayAfterWakeupNs "delay_after_wakeup_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL] SCHED row.watched()?.delay_after_wakeup_ns, "The part of run_delay_ns that came after a wakeup; the rest came after preemption.";
    LongestRunDelayNs "longest_run_delay_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL] SCHED row.watched()?.longest_delay_ns, "Longest single run delay; of a process the longest of its threads. Never summed.";
    Wakeups "wakeups" Integer "" [PROCESS_INTERVAL|THREAD_INTERVAL] SCHED row.watched()?.wakeups, "Times it was woken.";
    Migrations "migrations" Integer "" [PROCESS_INTERVAL|THREAD_INTERVAL] SCHED row.watched()?.migrations, "Times it ran on another CPU than before.";
    WaitReason "wait_reason" Text "" [PROCESS_INTERVAL|THREAD_INTERVAL] WAITS row.watched()?.waits.longest()?.0.name(), "What it was blocked by for most of blocked_ns: a system call, disk, page fault, stopped, traced, kernel, exit, other; empty if it was not blocked.";
    WaitNs "wait_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL] WAITS row.watched()?.waits.longest().map_or(0, |longest| longest.1), "Time blocked by wait_reason.";
    OpenWait "open_wait" Text "" [THREAD_INTERVAL] WAITS filled(row.watched()?.open_wait.name())?, "What it waited for at the interval's end; empty while running or ready.";
    Reason "reason" Text "" [WAIT_INTERVAL] WAITS row.as_wait()?.0.name(), "What the thread was blocked by, as wait_reason.";
    WaitBlockedNs "blocked_ns" Integer "ns" [WAIT_INTERVAL] WAITS row.as_wait()?.1, "Time the thread was blocked by that reason within the interval.";
    Irq "irq" Integer "" [IRQ_INTERVAL] IRQ row.as_irq()?.irq, "Number of the interrupt line; from 65536 on: local vectors without a line.";
    IrqName "name" Text "" [IRQ_INTERVAL] IRQ &*row.as_irq()?.name, "Name of the line in /proc/interrupts.";
    IrqTimeNs "time_ns" Integer "ns" [IRQ_INTERVAL] IRQ row.as_irq()?.time_ns, "Time in the line's handlers within the interval, all CPUs.";
    IrqCount "count" Integer "" [IRQ_INTERVAL] IRQ row.as_irq()?.count, "Times the line was handled.";
    UnknownNs "unknown_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] SCHED view.unknown_ns(row)?, "The part of unattributed_ns during which no switch event says which thread ran; a CPU's includes what unwatched threads ran.";
    CpuUnattributedNs "unattributed_ns" Integer "ns" [CPU_INTERVAL] CPUS row.as_cpu()?.unattributed_ns(view.interval.duration_ns()), "Length of the interval minus all modes of this CPU; negative when more was accounted than there was.";
    RunQueueMean "run_queue_mean" Real "tasks" [CPU_INTERVAL|HOST_INTERVAL] SCHED view.run_queue_mean(row)?, "Tasks running or ready, weighted by time; of the host the sum over its CPUs. Empty where events were lost (flag run_queue_unknown).";
    RunQueueMax "run_queue_max" Integer "tasks" [CPU_INTERVAL|HOST_INTERVAL] SCHED view.cpu_sched(row)?.run_queue_max, "Longest run queue of the CPU, or of any CPU.";
    Switches "switches" Integer "" [CPU_INTERVAL|HOST_INTERVAL] SCHED view.cpu_sched(row)?.switches, "Context switches.";
    SoftirqHiNs "softirq_hi_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] IRQ view.cpu_sched(row)?.softirq_ns[0], "Soft interrupts: high-priority tasklets; part of softirq_ns.";
    SoftirqTimerNs "softirq_timer_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] IRQ view.cpu_sched(row)?.softirq_ns[1], "Soft interrupts: timers; part of softirq_ns.";
    SoftirqNetTxNs "softirq_net_tx_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] IRQ view.cpu_sched(row)?.softirq_ns[2], "Soft interrupts: sending packets; part of softirq_ns.";
    SoftirqNetRxNs "softirq_net_rx_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] IRQ view.cpu_sched(row)?.softirq_ns[3], "Soft interrupts: receiving packets; part of softirq_ns.";
    SoftirqBlockNs "softirq_block_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] IRQ view.cpu_sched(row)?.softirq_ns[4], "Soft interrupts: finished block I/O; part of softirq_ns.";
    SoftirqIrqPollNs "softirq_irq_poll_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] IRQ view.cpu_sched(row)?.softirq_ns[5], "Soft interrupts: polled block devices; part of softirq_ns.";
    SoftirqTaskletNs "softirq_tasklet_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] IRQ view.cpu_sched(row)?.softirq_ns[6], "Soft interrupts: tasklets; part of softirq_ns.";
    SoftirqSchedNs "softirq_sched_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] IRQ view.cpu_sched(row)?.softirq_ns[7], "Soft interrupts: balancing the run queues; part of softirq_ns.";
    SoftirqHrtimerNs "softirq_hrtimer_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] IRQ view.cpu_sched(row)?.softirq_ns[8], "Soft interrupts: high-resolution timers; part of softirq_ns.";
    SoftirqRcuNs "softirq_rcu_ns" Integer "ns" [CPU_INTERVAL|HOST_INTERVAL] IRQ view.cpu_sched(row)?.softirq_ns[9], "Soft interrupts: RCU callbacks; part of softirq_ns.";
    SchedUntracked "sched_untracked" Integer "" [HOST_INTERVAL] SCHED view.interval.health.sched_untracked, "Threads measured by the kernel's own counters instead of by switch events, since the agent's start.";
    SchedMissedSwitches "sched_missed_switches" Integer "" [HOST_INTERVAL] SCHED view.interval.health.sched_missed_switches, "Switch events that were missed, since the agent's start.";
    Probes "probes" Text "" [HOST_INTERVAL] NONE names_of(view.interval.health.probes), "What ran in the kernel for the ending snapshot, names joined by |: exits, sched, waits, irq, histograms, wakers.";
    HistogramDrops "histogram_drops" Integer "" [HOST_INTERVAL] HISTOGRAMS view.interval.health.histogram_drops, "Run delays without space for a histogram of their process or thread, since the agent's start.";
    RunDelays "run_delays" Integer "" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL] HISTOGRAMS view.delays(row)?.histogram.total(), "Run delays that ended: waits for a CPU, each counted by its length. Of a CPU those that ended on it; of a thread only if it was selected.";
    RunDelayP50Ns "run_delay_p50_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL] HISTOGRAMS view.delays(row)?.percentile_ns(50)?, "Half of these run delays were no longer, to within an eighth; empty if none ended.";
    RunDelayP90Ns "run_delay_p90_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL] HISTOGRAMS view.delays(row)?.percentile_ns(90)?, "90 % of these run delays were no longer, to within an eighth; empty if none ended.";
    RunDelayP99Ns "run_delay_p99_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL] HISTOGRAMS view.delays(row)?.percentile_ns(99)?, "99 % of these run delays were no longer, to within an eighth; empty if none ended.";
    RunDelayMaxNs "run_delay_max_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL] HISTOGRAMS view.delays(row)?.percentile_ns(100)?, "None of these run delays was longer, to within an eighth; longest_run_delay_ns is exact, and includes delays that are not over.";
    RunDelayHistogram "run_delay_histogram" Text "" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL] HISTOGRAMS view.delays(row)?.histogram.to_string(), "These run delays by length, [[up to ns, count], ...], JSON: add up the counts of several rows to merge them.";
    RingDrops "ring_drops" Integer "" [HOST_INTERVAL] NONE view.known(view.interval.health.ring_drops)?, "Events (exits, execs, threads on their way out) that were lost because the kernel's ring buffer or the queue behind it was full, since the agent's start: exits_lost, execs_lost, endings_lost, cuts_lost and names of control groups together.";
    DeviceEndNs "device_end_ns" Integer "ns" [PROCESS_INTERVAL|THREAD_INTERVAL|CPU_INTERVAL|HOST_INTERVAL|WAIT_INTERVAL|IRQ_INTERVAL|CGROUP_INTERVAL|WAIT_FOR_INTERVAL] NONE view.device_end_ns()?, "End of the interval on the device's own wall clock, however wrong, since the UNIX epoch; empty for v1 data, which has v1_ticks.";
    ExecsLost "execs_lost" Integer "" [HOST_INTERVAL] NONE view.known(view.interval.health.execs_lost)?, "Of ring_drops: execs; a process shows under its earlier name until it is read again.";
    EndingsLost "endings_lost" Integer "" [HOST_INTERVAL] NONE view.known(view.interval.health.endings_lost)?, "Of ring_drops: threads on their way out; one is missed only if a snapshot falls between that and its last switch.";
    CutsLost "cuts_lost" Integer "" [HOST_INTERVAL] NONE view.known(view.interval.health.cuts_lost)?, "Of ring_drops: counters at the instant of a snapshot of threads that ended while it was made; what they ran up to that instant is in the next interval.";
    HiddenLeftOut "hidden_left_out" Integer "" [HOST_INTERVAL] NONE view.known(view.interval.health.hidden_left_out)?, "Threads hidden from BPF that are not read from /proc because there are too many, at the interval's end; what they ran is unknown.";
    WakeupsUnknown "wakeups_unknown" Integer "" [HOST_INTERVAL] SCHED view.interval.health.wakeups_unknown, "Switches to a thread of which it is not known when it was woken, since the agent's start; its whole wait counts as blocked.";
    IntervalTrust "trust" Text "" [HOST_INTERVAL] NONE view.interval.trust?.name(), "How the interval came in: local, authenticated, sealed, unauthenticated or imported; empty where that was not recorded.";
    CgroupPath "cgroup" Text "" [CGROUP_INTERVAL] CGROUPS &*row.as_cgroup()?.path, "Path of a control group that has a limit on it, or that waited for a CPU; the others have neither.";
    CpuLimit "cpu_limit" Real "CPUs" [CGROUP_INTERVAL] CGROUPS row.as_cgroup()?.limit.cpus()?, "The tightest CPU limit of the group and those above it (cpu.max, cpu.cfs_quota_us), at the end of the interval; empty without one.";
    LimitedBy "limited_by" Text "" [CGROUP_INTERVAL] CGROUPS row.limiter()?, "Path of the group that has this limit; rows with the same one have its counters and must not be added up.";
    Periods "periods" Integer "" [CGROUP_INTERVAL] CGROUPS row.as_cgroup()?.throttle?.periods, "Periods of that limit in which there was something to run; empty where not known, as where the group is seen for the first time.";
    ThrottledPeriods "throttled_periods" Integer "" [CGROUP_INTERVAL] CGROUPS row.as_cgroup()?.throttle?.throttled_periods, "Periods in which the limit was used up.";
    ThrottledNs "throttled_ns" Integer "ns" [CGROUP_INTERVAL] CGROUPS row.as_cgroup()?.throttle?.throttled_ns, "Time in which that group was not allowed to run, summed over CPUs as the kernel does (cpu.stat).";
    PressureSomeNs "pressure_some_ns" Integer "ns" [CGROUP_INTERVAL|HOST_INTERVAL] NONE view.pressure(row)?.some_ns, "Time in which at least one task waited for a CPU (cpu.pressure), a new period included; of the group itself or of the host; empty where not known.";
    PressureFullNs "pressure_full_ns" Integer "ns" [CGROUP_INTERVAL|HOST_INTERVAL] NONE view.pressure(row)?.full_ns, "Time in which all tasks with something to run waited for a CPU; 0 for a host and before Linux 5.13.";
    CgroupsLeftOut "cgroups_left_out" Integer "" [HOST_INTERVAL] CGROUPS view.interval.cgroups_left_out, "Control groups in use that are not measured because there are more than 256, or because their files are out of reach, at the interval's end.";
    Interpreter "interpreter" Text "" [PROCESSES|PROCESS_INTERVAL] NONE filled(&*view.info(row)?.interpreter)?, "Base name of the executable that runs the script; empty where the name is the executable's.";
    User "user" Text "" [PROCESSES|PROCESS_INTERVAL|THREAD_INTERVAL] NONE view.known(view.info(row)?.user_name()?)?, "Name of the real user on its host: uid 0 is root; empty if the agent does not know it.";
    Service "service" Text "" [PROCESSES|PROCESS_INTERVAL] NONE filled(view.info(row)?.service())?, "systemd unit of the process, out of its cgroup path: a service or a scope; empty if none.";
    Pod "pod" Text "" [PROCESSES|PROCESS_INTERVAL] NONE filled(CgroupNames::of(&view.info(row)?.cgroup).pod())?, "Uid of its Kubernetes pod (of Podman: the pod's id), out of its cgroup path, which has no name of it; empty if none.";
    Session "session" Integer "" [PROCESSES|PROCESS_INTERVAL] NONE view.info(row)?.session?, "Windows session of the process: 0 for services, one for each login; empty on other systems.";
    PriorityClass "priority_class" Text "" [PROCESSES|PROCESS_INTERVAL] NONE view.info(row)?.priority_class()?, "Windows priority class of the process, by its base priority: idle (4), below normal (6), normal (8), above normal (10), high (13), realtime (24); any other base priority is shown as its number; empty on other systems.";
    Product "product" Text "" [PROCESSES|PROCESS_INTERVAL] NONE filled(&*view.info(row)?.product)?, "Product name in the version resource of the executable, on Windows: a text that its author chose; empty if it has none or was not read yet, and on other systems.";
    MinorFaults "minor_faults" Integer "" [PROCESS_INTERVAL|THREAD_INTERVAL] FAULTS faults(view, row)?.minor_faults, "Page faults that needed no disk: the page was in memory, or new. On Windows of processes only.";
    MajorFaults "major_faults" Integer "" [PROCESS_INTERVAL|THREAD_INTERVAL] FAULTS faults(view, row)?.major_faults, "Page faults for which a page was read from a disk. On Windows of processes only.";
    WaiterPid "pid" Integer "" [WAIT_FOR_INTERVAL] WAITS_FOR row.as_wait_for()?.waiter.pid, "Process id of the process that waited.";
    WaiterName "name" Text "" [WAIT_FOR_INTERVAL] WAITS_FOR view.name_of(row.as_wait_for()?.waiter)?, "Name of the process that waited; empty where it has no row in the interval.";
    WaiterStartNs "start_ns" Integer "ns" [WAIT_FOR_INTERVAL] WAITS_FOR row.as_wait_for()?.waiter.start_ns, "Start of the process that waited, since boot (CLOCK_BOOTTIME).";
    WaitForKind "kind" Text "" [WAIT_FOR_INTERVAL] WAITS_FOR wait_kind(row.as_wait_for()?.kind), "What it waited for: ready: a CPU; throttled: CPU time of its control group, which had used up its limit; blocked: reason.";
    WaitForReason "reason" Text "" [WAIT_FOR_INTERVAL] WAITS_FOR filled(row.wait_for_reason()?.name())?, "What it was blocked by, as wait_reason; empty where it was not blocked.";
    WaitedOn "waited_on" Text "" [WAIT_FOR_INTERVAL] WAITS_FOR waited_on(row.as_wait_for()?.on), "On whom, or who ended the wait: process: another one; thread: one of the same process; interrupt: hard or soft; others: not known, or the rest of a list that was too long.";
    OnPid "on_pid" Integer "" [WAIT_FOR_INTERVAL] WAITS_FOR row.on_process()?.pid, "Process id of the process that was waited on, or of its own for a thread; empty for interrupt and others.";
    OnTid "on_tid" Integer "" [WAIT_FOR_INTERVAL] WAITS_FOR row.on_thread()?.tid, "Thread id of the thread that was waited on; empty unless waited_on is thread.";
    OnName "on_name" Text "" [WAIT_FOR_INTERVAL] WAITS_FOR view.name_of(row.on_process()?)?, "Name of the process of on_pid; empty where it has no row in the interval.";
    WaitForNs "wait_ns" Integer "ns" [WAIT_FOR_INTERVAL] WAITS_FOR row.as_wait_for()?.ns, "Sum of these waits, of 1 ms and more, that ended in the interval; of several threads more than the interval is long.";
    WaitForCount "count" Integer "" [WAIT_FOR_INTERVAL] WAITS_FOR row.as_wait_for()?.count, "Number of these waits.";
}

/// Counters with page faults; Windows counts none for single threads.
fn faults<'v>(view: &IntervalView<'_>, row: CellRow<'v>) -> Option<&'v Delta> {
    let interval = view.interval;
    let is_counted =
        row.as_thread().is_none() || Fields::FAULTS == Fields::FAULTS.of_threads(interval.source);
    row.task().filter(|_| is_counted).map(|task| task.delta)
}

impl ColumnId {
    /// Its column.
    pub fn column(self) -> &'static Column {
        &COLUMNS[self as usize]
    }
}

impl Column {
    /// Whether every process and thread has the column, and so a group has it too: the counters, and the wait reason.
    pub fn is_measured_of_tasks(&self) -> bool {
        let is_of_tasks = self.tables.contains(Tables::PROCESS_INTERVAL | Tables::THREAD_INTERVAL);
        is_of_tasks && self.kind != Kind::Real && !(self.needs - Fields::HISTOGRAMS).is_empty()
    }
}

/// The columns of one table, in their order.
pub fn columns(table: Tables) -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(move |column| column.tables.contains(table))
}

/// The column of this name in a table; `None` if the table has none.
pub fn column(table: Tables, name: &str) -> Option<&'static Column> {
    columns(table).find(|column| column.name == name)
}

/// Which percentile of the run delays a column shows, if it is one of those; 100 is the highest.
pub fn delay_percent(id: ColumnId) -> Option<u32> {
    Some(match id {
        ColumnId::RunDelayP50Ns => 50,
        ColumnId::RunDelayP90Ns => 90,
        ColumnId::RunDelayP99Ns => 99,
        ColumnId::RunDelayMaxNs => 100,
        _ => return None,
    })
}

/// The table whose rows are like this one.
fn table_of(row: CellRow<'_>) -> Tables {
    match row {
        CellRow::Host => Tables::HOST_INTERVAL,
        CellRow::Process(_) | CellRow::Group(..) => Tables::PROCESS_INTERVAL,
        CellRow::Thread(_) => Tables::THREAD_INTERVAL,
        CellRow::Wait(..) => Tables::WAIT_INTERVAL,
        CellRow::Cpu(_) => Tables::CPU_INTERVAL,
        CellRow::Irq(_) => Tables::IRQ_INTERVAL,
        CellRow::Cgroup(_) => Tables::CGROUP_INTERVAL,
        CellRow::WaitFor(_) => Tables::WAIT_FOR_INTERVAL,
    }
}

/// Cells: the [`Value`] of a column in a row. Exports, SQL tables and screens all read them here, so that a name gives the same value
/// everywhere.
impl IntervalView<'_> {
    /// Value of one column of a process row.
    pub fn process<'v>(&'v self, row: &'v ProcessInterval, id: ColumnId) -> Value<'v> {
        self.cell(CellRow::Process(row), id)
    }

    /// A cell of several processes together; null for a column that is not measured for each process.
    pub fn group<'v>(&'v self, delta: &'v Delta, sched: &'v SchedDelta, id: ColumnId) -> Value<'v> {
        if !id.column().is_measured_of_tasks() {
            return Value::Null;
        }
        self.cell(CellRow::Group(delta, sched), id)
    }

    /// The number in [`IntervalView::group`], measured or not, to sort by; 0 if the cell is no number.
    pub fn weight(&self, delta: &Delta, sched: &SchedDelta, id: ColumnId) -> i64 {
        match value_of(self, CellRow::Group(delta, sched), id) {
            Some(Value::Int(number)) => number,
            _ => 0,
        }
    }

    /// Value of one column of a thread row.
    pub fn thread<'v>(&'v self, row: &'v ThreadInterval, id: ColumnId) -> Value<'v> {
        self.cell(CellRow::Thread(row), id)
    }

    /// A cell of the table of waits: one reason of one thread.
    pub fn wait<'v>(
        &'v self,
        row: &'v ThreadInterval,
        reason: WaitReason,
        ns: u64,
        id: ColumnId,
    ) -> Value<'v> {
        self.cell(CellRow::Wait(row, reason, ns), id)
    }

    /// A cell of the CPU table.
    pub fn cpu<'v>(&'v self, row: &'v CpuInterval, id: ColumnId) -> Value<'v> {
        self.cell(CellRow::Cpu(row), id)
    }

    /// Value of one column of an interrupt line's row.
    pub fn irq<'v>(&'v self, row: &'v IrqInterval, id: ColumnId) -> Value<'v> {
        self.cell(CellRow::Irq(row), id)
    }

    /// Value of one column of a control group's row.
    pub fn cgroup<'v>(&'v self, row: &'v CgroupInterval, id: ColumnId) -> Value<'v> {
        self.cell(CellRow::Cgroup(row), id)
    }

    /// Value of one column of a row of waits by who ended them.
    pub fn wait_for<'v>(&'v self, row: &'v WaitFor, id: ColumnId) -> Value<'v> {
        self.cell(CellRow::WaitFor(row), id)
    }

    /// A cell of the host's interval: the ledger, the CPU modes of all CPUs together, health.
    pub fn host(&self, id: ColumnId) -> Value<'_> {
        self.cell(CellRow::Host, id)
    }

    fn cell<'v>(&'v self, row: CellRow<'v>, id: ColumnId) -> Value<'v> {
        let column = id.column();
        // Where CPUs have rows, they are known, though a sum over intervals that lack some does not say so.
        let is_measured = self.interval.fields.contains(column.needs - Fields::CPUS);
        let is_cell = is_measured && column.tables.contains(table_of(row));
        is_cell.then(|| value_of(self, row, id)).flatten().unwrap_or(Value::Null)
    }
}
