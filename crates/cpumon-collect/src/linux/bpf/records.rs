//! What the probes hand over, as Rust sees it. In: bytes from the kernel. Out: [`TaskRecord`], [`ExitEvent`],
//! [`ExecEvent`], [`LostExits`]. Why: records.h defines these layouts, this is their mirror; both sides assert the
//! same size and the same place of every field.

use std::mem::offset_of;

use cpumon_model::{Comm, Counters, ProcessKey, TaskState, ThreadKey, ThreadSample};

use super::super::split::Split;

/// Works for the kernel only.
pub(crate) const KERNEL_THREAD: u8 = 1;
/// The leader ended, other threads of its process live on.
pub(crate) const ENDED_LEADER: u8 = 2;

/// One thread as the kernel tells it. After [`TaskRecord::settle`] `utime_ns` and `stime_ns` are the split of `run_ns`.
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
    pub(crate) reserved: u16,
    /// 0 from the kernel; then the passes in which the thread was neither seen nor reported as ended.
    pub(crate) missed: u32,
}

/// A thread's last words, or those when it began to end.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ExitEvent {
    pub(crate) kind: u32,
    /// Threads of its process that had not begun to end.
    pub(crate) threads_left: u32,
    pub(crate) end_ns: u64,
    pub(crate) task: TaskRecord,
}

/// A process became another program.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ExecEvent {
    pub(crate) kind: u32,
    pub(crate) old_tid: u32,
    pub(crate) at_ns: u64,
    pub(crate) task: TaskRecord,
    pub(crate) name: [u8; EXEC_NAME_BYTES],
}

/// Sums over threads whose exit event did not fit, cumulative since the probe was loaded.
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

/// Length of an executable's name in an event, its NUL included.
pub(crate) const EXEC_NAME_BYTES: usize = 120;

/// Asserts a layout, as `ASSERT_SIZE` and `ASSERT_AT` in records.h do.
macro_rules! assert_layout {
    ($type:ident: $size:literal, $($field:ident: $at:literal),+) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(offset_of!($type, $field) == $at);)+
        };
    };
}

assert_layout!(TaskRecord: 112, start_ns: 0, process_start_ns: 8, run_ns: 16, utime_ns: 24, stime_ns: 32, run_delay_ns: 40, voluntary_switches: 48, involuntary_switches: 56, tid: 64, pid: 68, parent_pid: 72, uid: 76, comm: 80, state: 96, cpu: 100, priority: 102, nice: 104, flags: 105, reserved: 106, missed: 108);
assert_layout!(ExitEvent: 128, kind: 0, threads_left: 4, end_ns: 8, task: 16);
assert_layout!(ExecEvent: 248, kind: 0, old_tid: 4, at_ns: 8, task: 16, name: 128);
assert_layout!(LostExits: 64, count: 0, run_ns: 8, utime_ns: 16, stime_ns: 24, run_delay_ns: 32, voluntary_switches: 40, involuntary_switches: 48, execs: 56);

/// A record of the ring buffer.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Exit(ExitEvent),
    Ending(ExitEvent),
    /// Boxed: it is twice as long as the others, and rarer.
    Exec(Box<ExecEvent>),
}

const EVENT_EXIT: u32 = 1;
const EVENT_EXEC: u32 = 2;
const EVENT_ENDING: u32 = 3;

/// A type that any bytes make a valid value of: integers and arrays of them, without padding.
///
/// # Safety
/// `repr(C)`, no padding, every bit pattern valid.
#[expect(unsafe_code, reason = "the marker of types that may be read from bytes")]
pub(crate) unsafe trait Plain: Copy {}
#[expect(unsafe_code, reason = "integers only; sizes asserted above leave no room for padding")]
// SAFETY: integers and byte arrays in `repr(C)`; the sum of the fields is the asserted size.
unsafe impl Plain for TaskRecord {}
#[expect(unsafe_code, reason = "integers only; sizes asserted above leave no room for padding")]
// SAFETY: as above.
unsafe impl Plain for ExitEvent {}
#[expect(unsafe_code, reason = "integers only; sizes asserted above leave no room for padding")]
// SAFETY: as above.
unsafe impl Plain for ExecEvent {}
#[expect(unsafe_code, reason = "integers only; sizes asserted above leave no room for padding")]
// SAFETY: as above.
unsafe impl Plain for LostExits {}

/// Reads a value from the start of `bytes`; `None` if they are too few.
fn read_plain<T: Plain>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.get(..size_of::<T>())?;
    #[expect(unsafe_code, reason = "bytes from the kernel become a record")]
    // SAFETY: the slice holds `size_of::<T>()` bytes and any bytes are a valid `T`; the read needs no alignment.
    let value = unsafe { bytes.as_ptr().cast::<T>().read_unaligned() };
    Some(value)
}

/// The whole records in `bytes`, and how many bytes are left over.
pub(crate) fn records_in<T: Plain>(bytes: &[u8]) -> (impl Iterator<Item = T>, usize) {
    let chunks = bytes.chunks_exact(size_of::<T>());
    let odd = chunks.remainder().len();
    (chunks.filter_map(read_plain), odd)
}

impl Event {
    /// Reads a record of the ring buffer; `None` for one that makes no sense.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        match u32::from_ne_bytes(*bytes.first_chunk()?) {
            EVENT_EXIT => read_plain(bytes).map(Self::Exit),
            EVENT_EXEC => read_plain(bytes).map(|exec| Self::Exec(Box::new(exec))),
            EVENT_ENDING => read_plain(bytes).map(Self::Ending),
            _ => None,
        }
    }
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

/// A start time as keys have it, cut to whole µs: no id is given out twice within one, and a frame tells it in 10 bits less.
pub(crate) fn whole_us(start_ns: u64) -> u64 {
    start_ns - start_ns % 1_000
}

impl TaskRecord {
    pub(crate) fn key(&self) -> ThreadKey {
        ThreadKey { tid: self.tid, start_ns: whole_us(self.start_ns) }
    }

    pub(crate) fn process_key(&self) -> ProcessKey {
        ProcessKey { pid: self.pid, start_ns: whole_us(self.process_start_ns) }
    }

    pub(crate) fn comm(&self) -> Comm {
        Comm::new(&self.comm)
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.tid == self.pid
    }

    /// Turns the times sampled at the tick into a split of the run time, not behind that of the `earlier`, settled record
    /// of the same thread. User time is cut to whole µs, the rest counts as system time: the split is sampled anyway, and
    /// small numbers are short on the wire.
    pub(crate) fn settle(&mut self, earlier: Option<&Self>) {
        let before = earlier.map_or_else(Split::default, |earlier| Split {
            user_ns: earlier.utime_ns,
            system_ns: earlier.stime_ns,
        });
        if before.user_ns.checked_add(before.system_ns) == Some(self.run_ns) {
            (self.utime_ns, self.stime_ns) = (before.user_ns, before.system_ns);
            return;
        }
        let split = before.advance(self.utime_ns, self.stime_ns, self.run_ns);
        // `before.user_ns` is whole µs, so cutting does not fall behind it.
        self.utime_ns = split.user_ns - split.user_ns % 1_000;
        self.stime_ns = self.run_ns - self.utime_ns;
    }

    /// Takes away what ran under another identity.
    pub(crate) fn subtract(&mut self, base: &Counters) {
        let take = |from: &mut u64, part: u64| *from = from.saturating_sub(part);
        take(&mut self.utime_ns, base.user_ns);
        take(&mut self.stime_ns, base.system_ns);
        take(&mut self.run_ns, base.run_ns);
        take(&mut self.run_delay_ns, base.run_delay_ns);
        take(&mut self.voluntary_switches, base.voluntary_switches);
        take(&mut self.involuntary_switches, base.involuntary_switches);
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

    pub(crate) fn to_sample(self) -> ThreadSample {
        ThreadSample {
            key: self.key(),
            process: self.process_key(),
            comm: self.comm(),
            state: state_letter(self.state),
            nice: self.nice,
            priority: self.priority,
            last_cpu: self.cpu,
            counters: self.counters(),
            ..ThreadSample::default()
        }
    }
}

/// The letter of a state as /proc prints it (`task_state_array` in fs/proc/array.c).
fn state_letter(state: u32) -> TaskState {
    /// Uninterruptible, but not counted as load.
    const IDLE: u32 = 0x402;
    /// Waiting for a sleeping lock of a real-time kernel; frozen.
    const RTLOCK_OR_FROZEN: u32 = 0x1000 | 0x8000;
    /// The bits that have a letter.
    const REPORTED: u32 = 0x7f;
    let letter = if state & IDLE == IDLE {
        b'I'
    } else if state & RTLOCK_OR_FROZEN != 0 {
        b'D'
    } else {
        let highest = (u32::BITS - (state & REPORTED).leading_zeros()) as usize;
        b"RSDTtXZP".get(highest).copied().unwrap_or(b'?')
    };
    TaskState(letter)
}
