//! Layouts that the probes and this program share: [`TaskRecord`], [`ExitEvent`], [`ExecEvent`], [`ScriptEvent`], [`LostExits`]. records.h defines
//! them, and both sides assert the same size and the same place of every field.

pub(crate) mod task;

use std::mem::offset_of;

use cpumon_model::DELAY_BUCKETS;

/// Works for the kernel only.
pub(crate) const KERNEL_THREAD: u8 = 1;
/// The leader ended, other threads of its process live on.
pub(crate) const ENDED_LEADER: u8 = 2;
/// A leader that ended because another thread called exec, which took over its id. Set in user space.
pub(crate) const TAKEN_OVER: u8 = 4;
/// BPF does not see it: it is read from /proc. Set in user space.
pub(crate) const HIDDEN: u8 = 8;

/// In no list and reported by no event at the last pass, so it was shown as a pass before. Set in user space.
pub(crate) const STALE: u8 = 16;

/// One thread as the kernel reports it. After [`TaskRecord::settle`] `utime_ns` and `stime_ns` are the split of `run_ns`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct TaskRecord {
    pub(crate) start_ns: u64,
    pub(crate) process_start_ns: u64,
    pub(crate) run_ns: u64,
    pub(crate) utime_ns: u64,
    pub(crate) stime_ns: u64,
    pub(crate) run_delay_ns: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) tid: u32,
    pub(crate) pid: u32,
    pub(crate) parent_pid: u32,
    pub(crate) uid: u32,
    pub(crate) comm: [u8; 16],
    pub(crate) state: u32,
    pub(crate) cpu: u16,
    pub(crate) priority: i16,
    pub(crate) nice: i8,
    pub(crate) flags: u8,
    /// 0 from the kernel; then the passes in which the thread was neither seen nor reported as ended.
    pub(crate) missed: u16,
    pub(crate) migrations: u32,
    /// Zero where the switches are not watched.
    pub(crate) times: ThreadTimes,
}

/// Reasons that have a place in [`ThreadTimes`], the last of them "other".
pub(crate) const WAIT_SLOTS: usize = 6;

/// A thread by its switches, as of one instant.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ThreadTimes {
    /// `CLOCK_MONOTONIC`, as all instants here: begin of the open state.
    pub(crate) at_ns: u64,
    /// Woken at; 0: not yet.
    pub(crate) ready_ns: u64,
    pub(crate) run_ns: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) delay_wakeup_ns: u64,
    pub(crate) delay_preempt_ns: u64,
    pub(crate) blocked_ns: u64,
    /// Since the cut of `longest_cut`.
    pub(crate) longest_delay_ns: u64,
    /// Ran here last, or became ready here.
    pub(crate) cpu: u16,
    /// Of the open wait.
    pub(crate) reason: u16,
    pub(crate) state: u8,
    pub(crate) flags: u8,
    pub(crate) reserved: u16,
    pub(crate) reasons: [u16; WAIT_SLOTS],
    /// Lower half of its instant.
    pub(crate) longest_cut: u32,
    pub(crate) wait_ns: [u64; WAIT_SLOTS],
}

/// Header before each record of the iterator.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct SentHeader {
    pub(crate) kind: u32,
    pub(crate) tid: u32,
}

/// A thread's last words, or those when it began to end; or how it stood at the cut.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ExitEvent {
    pub(crate) kind: u32,
    /// Threads of its process that had not begun to end.
    pub(crate) threads_left: u32,
    pub(crate) end_ns: u64,
    /// The newest cut that was past; 0: none.
    pub(crate) cut_ns: u64,
    pub(crate) task: TaskRecord,
    /// Number of the control group of a process of which no thread is left; 0: not known, or threads are left.
    pub(crate) group: u64,
}

/// A process became another program.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ExecEvent {
    pub(crate) kind: u32,
    pub(crate) old_tid: u32,
    pub(crate) at_ns: u64,
    /// The newest cut that was past; 0: none.
    pub(crate) cut_ns: u64,
    pub(crate) task: TaskRecord,
    pub(crate) name: [u8; EXEC_NAME_BYTES],
}

/// A process became a program that may run a script.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ScriptEvent {
    pub(crate) exec: ExecEvent,
    /// Of `arguments`; 0: they could not be read.
    pub(crate) bytes: u32,
    /// There are more.
    pub(crate) is_cut: u32,
    /// Each NUL-terminated.
    pub(crate) arguments: [u8; ARGUMENT_BYTES],
}

/// What precedes the names of a control group and those above it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct GroupHeader {
    pub(crate) kind: u32,
    /// Of the names.
    pub(crate) bytes: u32,
    pub(crate) number: u64,
}

/// Sums over threads whose exit event did not fit, cumulative since the probe was loaded: what they did since the last snapshot that
/// has them. User and system time are whole, their proportion counts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct LostExits {
    pub(crate) count: u64,
    pub(crate) run_ns: u64,
    pub(crate) utime_ns: u64,
    pub(crate) stime_ns: u64,
    pub(crate) run_delay_ns: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) execs: u64,
}

/// Events that did not fit the ring buffer, by kind, cumulative since the probe was loaded.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RingDrops {
    pub(crate) exits: u64,
    pub(crate) execs: u64,
    /// Threads on their way out.
    pub(crate) endings: u64,
    /// Threads as of the cut, that ended while a pass was on.
    pub(crate) cuts: u64,
    /// Names of control groups.
    pub(crate) groups: u64,
}

impl RingDrops {
    pub(crate) fn total(&self) -> u64 {
        self.exits + self.execs + self.endings + self.cuts + self.groups
    }
}

/// How a CPU stood at the cut.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct CpuAccount {
    pub(crate) since_ns: u64,
    /// Time in each [`Mode`](super::sched::Mode) since the CPU was first seen, ns.
    pub(crate) mode_ns: [u64; 8],
    pub(crate) slice_ns: u64,
    pub(crate) slice_base_ns: u64,
    /// What of the open slice is the current thread's.
    pub(crate) slice_run_ns: u64,
    pub(crate) steal_clock_ns: u64,
    /// What the kernel had counted of `tid` when it came; 0: no event reported its switch-in.
    pub(crate) slice_exec_ns: u64,
    /// In slices of threads, with all that interrupted them.
    pub(crate) busy_ns: u64,
    pub(crate) switches: u64,
    pub(crate) breaks: u64,
    pub(crate) softirq_ns: [u64; 16],
    pub(crate) queue_cut_ns: u64,
    pub(crate) queue_max: u32,
    /// The current thread; 0: idle.
    pub(crate) tid: u32,
    pub(crate) base: u8,
    pub(crate) mode: u8,
    pub(crate) irq_depth: u8,
    pub(crate) softirq: u8,
    /// `tid` was not switched to by any event.
    pub(crate) came_unseen: u32,
}

/// A CPU's entry. What only the probe uses is not named.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct CpuEntry {
    pub(crate) changes: u64,
    pub(crate) cut_ns: u64,
    pub(crate) irq_ns: u64,
    /// Waits in this CPU's queue that ended on another CPU.
    pub(crate) pulled_ns: u64,
    /// `shown` could not be read whole.
    pub(crate) is_torn: u32,
    pub(crate) reserved: u32,
    pub(crate) addresses: [u64; 3],
    pub(crate) now: CpuAccount,
    pub(crate) cut: CpuAccount,
    pub(crate) shown: CpuAccount,
    pub(crate) clocks: [u64; 3],
    /// Switches to a thread of which it is not known when it was woken.
    pub(crate) unknown_wakeups: u64,
    /// Waits in this CPU's queue that ended here.
    pub(crate) waited_ns: u64,
    pub(crate) padding: [u64; 7],
}

/// What user space sets for the probe.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ControlPage {
    pub(crate) cut_ns: u64,
    pub(crate) is_reading: u32,
    pub(crate) refresh: u32,
    pub(crate) send_all: u32,
    pub(crate) cpus: u32,
    /// Slots of `rests` less one.
    pub(crate) rest_mask: u32,
    /// What the probe sent in an earlier round it sends again.
    pub(crate) group_round: u32,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct IrqEntry {
    pub(crate) time_ns: u64,
    pub(crate) count: u64,
}

/// A slot of a run-delay histogram (delays.h).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct DelayEntry {
    /// 0: free; else the owner is a process or a selected thread (delays.h: `DELAYS_*`).
    pub(crate) kind: u32,
    pub(crate) owner: u32,
    pub(crate) start_ns: u64,
    pub(crate) counts: [u32; DELAY_BUCKETS],
}

impl DelayEntry {
    pub(crate) const EMPTY: Self = Self { kind: 0, owner: 0, start_ns: 0, counts: [0; DELAY_BUCKETS] };
}

/// What user space and the probe share about histograms.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct DelayPage {
    pub(crate) round: u64,
    pub(crate) drops: u64,
    /// Bits of the numbers of all slots that the probe ever took.
    pub(crate) taken: u64,
}

/// Length of an executable's name in an event, its NUL included.
pub(crate) const EXEC_NAME_BYTES: usize = 120;

/// The most that is read of the arguments of a program that may run a script.
pub(crate) const ARGUMENT_BYTES: usize = 256;

/// Asserts a layout, as `ASSERT_SIZE` and `ASSERT_AT` in records.h do.
macro_rules! assert_layout {
    ($type:ident: $size:literal, $($field:ident: $at:literal),+) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(offset_of!($type, $field) == $at);)+
        };
    };
}

assert_layout!(TaskRecord: 256, start_ns: 0, process_start_ns: 8, run_ns: 16, utime_ns: 24, stime_ns: 32, run_delay_ns: 40, voluntary_switches: 48, involuntary_switches: 56, tid: 64, pid: 68, parent_pid: 72, uid: 76, comm: 80, state: 96, cpu: 100, priority: 102, nice: 104, flags: 105, missed: 106, migrations: 108, times: 112);
assert_layout!(ThreadTimes: 144, at_ns: 0, ready_ns: 8, run_ns: 16, voluntary_switches: 24, involuntary_switches: 32, delay_wakeup_ns: 40, delay_preempt_ns: 48, blocked_ns: 56, longest_delay_ns: 64, cpu: 72, reason: 74, state: 76, flags: 77, reserved: 78, reasons: 80, longest_cut: 92, wait_ns: 96);
assert_layout!(SentHeader: 8, kind: 0, tid: 4);
assert_layout!(ExitEvent: 288, kind: 0, threads_left: 4, end_ns: 8, cut_ns: 16, task: 24, group: 280);
assert_layout!(ExecEvent: 400, kind: 0, old_tid: 4, at_ns: 8, cut_ns: 16, task: 24, name: 280);
assert_layout!(ScriptEvent: 664, exec: 0, bytes: 400, is_cut: 404, arguments: 408);
assert_layout!(GroupHeader: 16, kind: 0, bytes: 4, number: 8);
assert_layout!(LostExits: 64, count: 0, run_ns: 8, utime_ns: 16, stime_ns: 24, run_delay_ns: 32, voluntary_switches: 40, involuntary_switches: 48, execs: 56);
assert_layout!(RingDrops: 40, exits: 0, execs: 8, endings: 16, cuts: 24, groups: 32);
assert_layout!(CpuAccount: 288, since_ns: 0, mode_ns: 8, slice_ns: 72, slice_base_ns: 80, slice_run_ns: 88, steal_clock_ns: 96, slice_exec_ns: 104, busy_ns: 112, switches: 120, breaks: 128, softirq_ns: 136, queue_cut_ns: 264, queue_max: 272, tid: 276, base: 280, mode: 281, irq_depth: 282, softirq: 283, came_unseen: 284);
assert_layout!(CpuEntry: 1024, changes: 0, cut_ns: 8, pulled_ns: 24, is_torn: 32, shown: 640, unknown_wakeups: 952, waited_ns: 960);
assert_layout!(ControlPage: 32, cut_ns: 0, is_reading: 8, refresh: 12, send_all: 16, cpus: 20, rest_mask: 24, group_round: 28);
assert_layout!(IrqEntry: 16, time_ns: 0, count: 8);
assert_layout!(DelayEntry: 1040, kind: 0, owner: 4, start_ns: 8, counts: 16);
assert_layout!(DelayPage: 24, round: 0, drops: 8, taken: 16);

/// [`TaskRecord`] without its times, as the iterator sends it for a thread that has none.
pub(crate) const PLAIN_RECORD_BYTES: usize = offset_of!(TaskRecord, times);

/// A type that any bytes make a valid value of: integers and arrays of them, without padding.
///
/// # Safety
/// `repr(C)`, no padding, every bit pattern valid.
#[expect(unsafe_code, reason = "the marker of types that may be read from bytes")]
pub(crate) unsafe trait Plain: Copy {}

/// Marks the types above.
macro_rules! plain {
    ($($type:ty),+) => {
        $(
            #[expect(unsafe_code, reason = "integers only; sizes asserted above exclude padding")]
            // SAFETY: integers and arrays of them in `repr(C)`; the sum of the fields is the asserted size.
            unsafe impl Plain for $type {}
        )+
    };
}
plain!(
    TaskRecord,
    ThreadTimes,
    SentHeader,
    ExitEvent,
    ExecEvent,
    ScriptEvent,
    GroupHeader,
    LostExits,
    RingDrops,
    CpuAccount,
    CpuEntry,
    ControlPage,
    IrqEntry,
    DelayEntry,
    DelayPage
);

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

impl LostExits {
    /// As the record of one imaginary thread.
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
