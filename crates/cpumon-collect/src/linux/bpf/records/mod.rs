//! Structs that the probes and this program share: [`TaskRecord`], [`ExitEvent`], [`ExecEvent`], [`ScriptEvent`], [`LostExits`] and more.
//! The headers of the probes define them; build.rs reads their layout from the compiled programs, and lists it for [`layouts`].

pub(crate) mod task;

use std::mem::offset_of;

use cpumon_model::{Counters, Fields};
use cpumon_sched::up_to_zero;

/// Fields measured without any probe that can be switched off: the counters of a [`TaskRecord`], CPUs, and exits.
pub(crate) const FIELDS: Fields =
    Fields::COUNTERS.union(Fields::CPUS).union(Fields::EXITS).union(Fields::AFFINITY);

pub(crate) const KERNEL_THREAD: u8 = 1;
/// The leader ended, other threads of its process live on.
pub(crate) const ENDED_LEADER: u8 = 2;
/// Its affinity has one CPU. Not set for threads of the kernel.
const ONE_CPU: u8 = 64;
/// A leader that ended because another thread called exec, which took over its id. Set in user space.
pub(crate) const TAKEN_OVER: u8 = 4;
/// BPF does not see it: it is read from /proc. Set in user space.
pub(crate) const HIDDEN: u8 = 8;

/// In no list and reported by no event at the last pass, so it was shown as a pass before. Set in user space.
pub(crate) const STALE: u8 = 16;

/// A type that any bytes can be read as: integers, arrays of integers and structs of these, without padding.
///
/// # Safety
/// `repr(C)`, no padding, every bit pattern valid.
#[expect(unsafe_code, reason = "the marker of types that may be read from bytes")]
pub(crate) unsafe trait Plain: Copy {}

/// Asserts that a struct has this layout in Rust too, and no padding: its size, and each field with its offset.
macro_rules! same_layout {
    ($name:ident = $size:literal { $($at:literal $field:ident: $type:ty,)+ }) => {
        const _: () = {
            assert!(size_of::<$name>() == $size && 0 $(+ size_of::<$type>())+ == $size);
            $(assert!(offset_of!($name, $field) == $at);)+
            $(let _: fn(&$name) -> &$type = |value| &value.$field;)+
        };
    };
}
pub(crate) use same_layout;

/// The structs that the probes share with this program, by the layouts that build.rs finds in their objects.
macro_rules! layouts {
    ($($name:ident = $size:literal { $($at:literal $field:ident: $type:ty,)+ })+) => {
        $(
            #[derive(Copy, Clone, Debug, PartialEq, Eq)]
            #[allow(clippy::struct_field_names, reason = "of some structs all fields are times")]
            #[repr(C)]
            pub(crate) struct $name {
                $(pub(crate) $field: $type,)+
            }

            $crate::source::platform::bpf::records::same_layout! { $name = $size { $($at $field: $type,)+ } }

            #[expect(unsafe_code, reason = "integers only; the sizes asserted above exclude padding")]
            // SAFETY: build.rs lists integers, arrays of integers and structs of these; the sum of the fields is the asserted size.
            unsafe impl $crate::source::platform::bpf::records::Plain for $name {}

            impl Default for $name {
                fn default() -> Self {
                    $crate::source::platform::bpf::records::zeroed()
                }
            }
        )+
    };
}
pub(crate) use layouts;

include!(concat!(env!("OUT_DIR"), "/sched.rs"));

/// Sums of lost exits as of a cut. Its own side has those of earlier cuts of this side only up to the last pass: what came since is after it.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct LostAtCut {
    sides: [LostExits; 2],
}

impl LostAtCut {
    /// The sums before a cut on this side; `None`: there is no cut, and all count.
    pub(crate) fn read(&mut self, now: &LostSides, side: Option<usize>) -> LostExits {
        for (at, sums) in now.sides.iter().enumerate() {
            if Some(at) != side {
                self.sides[at] = *sums;
            }
        }
        let [one, other] = &self.sides;
        let mut counters = one.counters;
        counters += &other.counters;
        LostExits {
            count: one.count + other.count,
            counters,
            execs: now.sides.iter().map(|sums| sums.execs).sum(),
        }
    }
}

impl RingDrops {
    pub(crate) fn total(&self) -> u64 {
        self.exits + self.execs + self.endings + self.cuts + self.groups
    }
}

/// Length of an executable's name in an event, its NUL included.
pub(crate) const EXEC_NAME_BYTES: usize = 120;

/// [`TaskRecord`] without its times, as the iterator sends it for a thread that has none.
pub(crate) const PLAIN_RECORD_BYTES: usize = offset_of!(TaskRecord, times);

// Where only the begin of one is read or written, it is this.
const _: () = {
    assert!(offset_of!(ControlPage, cut_ns) == 0 && offset_of!(DelayPage, round) == 0);
    assert!(offset_of!(ExitEvent, kind) == 0 && offset_of!(ExecEvent, kind) == 0);
    assert!(offset_of!(ScriptEvent, exec) == 0 && offset_of!(GroupHeader, kind) == 0);
    assert!(PLAIN_RECORD_BYTES + size_of::<ThreadTimes>() == size_of::<TaskRecord>());
};

/// A value whose bytes are all 0.
pub(crate) fn zeroed<T: Plain>() -> T {
    #[expect(unsafe_code, reason = "a value of bytes")]
    // SAFETY: any bytes are a valid `T`.
    unsafe {
        std::mem::zeroed()
    }
}

/// The bytes of a value, as the probes have them.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    #[expect(unsafe_code, reason = "a record becomes bytes for the kernel")]
    // SAFETY: without padding every byte has a value.
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>())
    }
}

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
        up_to_zero(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lost_exit_is_in_the_pass_that_follows_it_and_in_no_other() {
        let mut at_cut = LostAtCut::default();
        let mut count = |sides: [u64; 2], side| {
            let now = LostSides { sides: sides.map(|count| LostExits { count, ..LostExits::default() }) };
            at_cut.read(&now, side).count
        };
        assert_eq!(count([5, 0], Some(1)), 5);
        assert_eq!(count([5, 3], Some(0)), 8);
        assert_eq!(count([12, 3], Some(0)), 8, "seven ended after the cut, before the sums were read");
        assert_eq!(count([12, 4], Some(1)), 15, "one more ended after this one");
        assert_eq!(count([12, 4], Some(0)), 16);
        assert_eq!(count([13, 4], None), 17, "without a cut");
    }
}
