//! Layouts that the probes and this program share: [`TaskRecord`], [`ExitEvent`], [`ExecEvent`], [`ScriptEvent`], [`LostExits`]. records.h defines
//! them, and both sides assert the same size and the same place of every field.

pub(crate) mod task;

use std::mem::offset_of;

use cpumon_model::{Counters, DELAY_BUCKETS, Fields};

/// What is measured without any probe that can be switched off: what a [`TaskRecord`] counts, and CPUs.
pub(crate) const FIELDS: Fields = Fields::USER
    .union(Fields::SYSTEM)
    .union(Fields::RUN)
    .union(Fields::RUN_DELAY)
    .union(Fields::SWITCHES)
    .union(Fields::CPUS)
    .union(Fields::EXITS);

pub(crate) const KERNEL_THREAD: u8 = 1;
/// The leader ended, other threads of its process live on.
pub(crate) const ENDED_LEADER: u8 = 2;
/// A leader that ended because another thread called exec, which took over its id. Set in user space.
pub(crate) const TAKEN_OVER: u8 = 4;
/// BPF does not see it: it is read from /proc. Set in user space.
pub(crate) const HIDDEN: u8 = 8;

/// In no list and reported by no event at the last pass, so it was shown as a pass before. Set in user space.
pub(crate) const STALE: u8 = 16;

/// A type that any bytes can be read as: integers and arrays of integers, without padding.
///
/// # Safety
/// `repr(C)`, no padding, every bit pattern valid.
#[expect(unsafe_code, reason = "the marker of types that may be read from bytes")]
pub(crate) unsafe trait Plain: Copy {}

/// The layouts that C and Rust share, as the C header defines them: each field with its offset, and the total size. A
/// struct of integers and arrays of integers without padding can be read from any bytes.
macro_rules! layouts {
    ($($(#[$attribute:meta])* $name:ident = $size:literal { $($(#[$doc:meta])* $at:literal $field:ident: $type:ty,)+ })+) => {
        $(
            $(#[$attribute])*
            #[derive(Copy, Clone, Debug, PartialEq, Eq)]
            #[repr(C)]
            pub(crate) struct $name {
                $($(#[$doc])* pub(crate) $field: $type,)+
            }

            const _: () = {
                assert!(size_of::<$name>() == $size && 0 $(+ size_of::<$type>())+ == $size);
                $(assert!(std::mem::offset_of!($name, $field) == $at);)+
            };

            #[expect(unsafe_code, reason = "integers only; the sizes asserted above exclude padding")]
            // SAFETY: integers and arrays of integers in `repr(C)`; the sum of the fields is the asserted size.
            unsafe impl $crate::source::platform::bpf::records::Plain for $name {}
        )+
    };
}
pub(crate) use layouts;

layouts! {
    /// One thread as the kernel reports it. After [`TaskRecord::settle`] `utime_ns` and `stime_ns` are the split of `run_ns`.
    #[derive(Default)]
    TaskRecord = 256 {
        0 start_ns: u64,
        8 process_start_ns: u64,
        16 run_ns: u64,
        24 utime_ns: u64,
        32 stime_ns: u64,
        40 run_delay_ns: u64,
        48 voluntary_switches: u64,
        56 involuntary_switches: u64,
        64 tid: u32,
        68 pid: u32,
        72 parent_pid: u32,
        76 uid: u32,
        80 comm: [u8; 16],
        96 state: u32,
        100 cpu: u16,
        102 priority: i16,
        104 nice: i8,
        105 flags: u8,
        /// 0 from the kernel; then the passes in which the thread was neither seen nor reported as ended.
        106 missed: u16,
        108 migrations: u32,
        /// Zero where the switches are not watched.
        112 times: ThreadTimes,
    }

    /// A thread by its switches, as of one instant.
    #[derive(Default)]
    ThreadTimes = 144 {
        /// `CLOCK_MONOTONIC`, as all instants here: begin of the open state.
        0 at_ns: u64,
        /// Time at which the thread was woken; 0: not yet.
        8 ready_ns: u64,
        16 run_ns: u64,
        24 voluntary_switches: u64,
        32 involuntary_switches: u64,
        40 delay_wakeup_ns: u64,
        48 delay_preempt_ns: u64,
        56 blocked_ns: u64,
        /// Longest run delay since the cut of `longest_cut`.
        64 longest_delay_ns: u64,
        /// CPU on which the thread ran last or became runnable.
        72 cpu: u16,
        /// Reason of the open wait.
        74 reason: u16,
        76 state: u8,
        77 flags: u8,
        78 reserved: u16,
        80 reasons: [u16; WAIT_SLOTS],
        /// Lower 32 bits of the cut's time.
        92 longest_cut: u32,
        96 wait_ns: [u64; WAIT_SLOTS],
    }

    /// Header before each record of the iterator.
    #[derive(Default)]
    SentHeader = 8 {
        0 kind: u32,
        4 tid: u32,
    }

    /// A thread's last words, or those when it began to end; or how it stood at the cut.
    #[derive(Default)]
    ExitEvent = 288 {
        0 kind: u32,
        /// Threads of its process that had not begun to end.
        4 threads_left: u32,
        8 end_ns: u64,
        /// Time of the last cut before the event; 0: none.
        16 cut_ns: u64,
        24 task: TaskRecord,
        /// Number of the control group of a process whose last thread ended; 0: unknown, or threads are left.
        280 group: u64,
    }

    /// A process called exec.
    ExecEvent = 400 {
        0 kind: u32,
        4 old_tid: u32,
        8 at_ns: u64,
        /// Time of the last cut before the event; 0: none.
        16 cut_ns: u64,
        24 task: TaskRecord,
        280 name: [u8; EXEC_NAME_BYTES],
    }

    /// A process became a program that may run a script.
    ScriptEvent = 664 {
        0 exec: ExecEvent,
        /// Length of `arguments`; 0: they could not be read.
        400 bytes: u32,
        /// Whether there are more arguments.
        404 is_cut: u32,
        /// Each NUL-terminated.
        408 arguments: [u8; ARGUMENT_BYTES],
    }

    /// Precedes the names of a control group and of those above it.
    #[derive(Default)]
    GroupHeader = 16 {
        0 kind: u32,
        /// Length of the names.
        4 bytes: u32,
        8 number: u64,
    }

    /// Sums over threads whose exit event did not fit, cumulative since the probe was loaded: their counters since the
    /// last snapshot that has them. User and system time are whole, because only their proportion counts.
    #[derive(Default)]
    LostExits = 64 {
        0 count: u64,
        8 run_ns: u64,
        16 utime_ns: u64,
        24 stime_ns: u64,
        32 run_delay_ns: u64,
        40 voluntary_switches: u64,
        48 involuntary_switches: u64,
        56 execs: u64,
    }

    /// Events that did not fit the ring buffer, by kind, cumulative since the probe was loaded.
    #[derive(Default)]
    RingDrops = 40 {
        0 exits: u64,
        8 execs: u64,
        /// Events of threads that began to end.
        16 endings: u64,
        /// Threads as of the cut, that ended while a pass was on.
        24 cuts: u64,
        /// Events with names of control groups.
        32 groups: u64,
    }

    /// State and cumulative times of a CPU at the cut.
    #[derive(Default)]
    CpuAccount = 288 {
        0 since_ns: u64,
        /// Time in each `CpuMode` (sched/cpus.rs) since the CPU was first seen, ns.
        8 mode_ns: [u64; 8],
        72 slice_ns: u64,
        80 slice_base_ns: u64,
        /// Run time of the current thread in the open slice.
        88 slice_run_ns: u64,
        96 steal_clock_ns: u64,
        /// The kernel's run time of `tid` at its switch-in; 0: no event reported that.
        104 slice_exec_ns: u64,
        /// In slices of threads, with all that interrupted them.
        112 busy_ns: u64,
        120 switches: u64,
        128 breaks: u64,
        136 softirq_ns: [u64; 16],
        264 queue_cut_ns: u64,
        272 queue_max: u32,
        /// The current thread; 0: idle.
        276 tid: u32,
        280 base: u8,
        281 mode: u8,
        282 irq_depth: u8,
        283 softirq: u8,
        /// Whether no event reported the switch to `tid`.
        284 came_unseen: u32,
    }

    /// A CPU's entry. Fields that only the probe uses are not named.
    CpuEntry = 1024 {
        0 changes: u64,
        8 cut_ns: u64,
        16 irq_ns: u64,
        /// Waits in this CPU's queue that ended on another CPU.
        24 pulled_ns: u64,
        /// Whether `shown` could not be copied as a whole.
        32 is_torn: u32,
        36 reserved: u32,
        40 addresses: [u64; 3],
        64 now: CpuAccount,
        352 cut: CpuAccount,
        640 shown: CpuAccount,
        928 clocks: [u64; 3],
        /// Switches to a thread whose wakeup time is unknown.
        952 unknown_wakeups: u64,
        /// Sum of the waits in this CPU's queue that ended here.
        960 waited_ns: u64,
        968 padding: [u64; 7],
    }

    /// Settings of the probe, written by user space.
    #[derive(Default)]
    ControlPage = 32 {
        0 cut_ns: u64,
        8 is_reading: u32,
        12 refresh: u32,
        16 send_all: u32,
        20 cpus: u32,
        /// Number of slots in `rests` minus 1.
        24 rest_mask: u32,
        /// The probe sends the names again that it sent in an earlier round.
        28 group_round: u32,
    }

    #[derive(Default)]
    IrqEntry = 16 {
        0 time_ns: u64,
        8 count: u64,
    }

    /// A slot of a run-delay histogram (delays.h).
    DelayEntry = 1040 {
        /// 0: free; else the owner is a process or a selected thread (delays.h: `DELAYS_*`).
        0 kind: u32,
        4 owner: u32,
        8 start_ns: u64,
        16 counts: [u32; DELAY_BUCKETS],
    }

    /// Data about histograms that user space and the probe share.
    #[derive(Default)]
    DelayPage = 24 {
        0 round: u64,
        8 drops: u64,
        /// Bits of the numbers of all slots that the probe ever took.
        16 taken: u64,
    }
}

/// Reasons with a slot in [`ThreadTimes`], the last one "other".
pub(crate) const WAIT_SLOTS: usize = 6;

impl RingDrops {
    pub(crate) fn total(&self) -> u64 {
        self.exits + self.execs + self.endings + self.cuts + self.groups
    }
}

impl DelayEntry {
    pub(crate) const EMPTY: Self = Self { kind: 0, owner: 0, start_ns: 0, counts: [0; DELAY_BUCKETS] };
}

/// Length of an executable's name in an event, its NUL included.
pub(crate) const EXEC_NAME_BYTES: usize = 120;

/// The most that is read of the arguments of a program that may run a script.
pub(crate) const ARGUMENT_BYTES: usize = 256;

/// [`TaskRecord`] without its times, as the iterator sends it for a thread that has none.
pub(crate) const PLAIN_RECORD_BYTES: usize = offset_of!(TaskRecord, times);

/// Reads a value from the start of `bytes`; `None` if they are too few.
pub(crate) fn read_plain<T: Plain>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.get(..size_of::<T>())?;
    #[expect(unsafe_code, reason = "bytes from the kernel become a record")]
    // SAFETY: the slice holds `size_of::<T>()` bytes and any bytes are a valid `T`; the read needs no alignment.
    let value = unsafe { bytes.as_ptr().cast::<T>().read_unaligned() };
    Some(value)
}

impl ExecEvent {
    /// The executable's base name.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.split(|&b| b == 0).next().unwrap_or_default()
    }
}

impl TaskRecord {
    pub(crate) fn set_counters(&mut self, counters: &Counters) {
        self.utime_ns = counters.user_ns;
        self.stime_ns = counters.system_ns;
        self.run_ns = counters.run_ns;
        self.run_delay_ns = counters.run_delay_ns;
        self.voluntary_switches = counters.voluntary_switches;
        self.involuntary_switches = counters.involuntary_switches;
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters {
            user_ns: self.utime_ns,
            system_ns: self.stime_ns,
            run_ns: self.run_ns,
            run_delay_ns: self.run_delay_ns,
            voluntary_switches: self.voluntary_switches,
            involuntary_switches: self.involuntary_switches,
        }
    }
}

impl LostExits {
    /// The sums as the record of one imaginary thread.
    pub(crate) fn as_task(&self) -> TaskRecord {
        TaskRecord {
            run_ns: self.run_ns,
            utime_ns: self.utime_ns,
            stime_ns: self.stime_ns,
            run_delay_ns: self.run_delay_ns,
            voluntary_switches: self.voluntary_switches,
            involuntary_switches: self.involuntary_switches,
            ..TaskRecord::default()
        }
    }
}
