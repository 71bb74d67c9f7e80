//! The probe that accounts for every context switch: its programs (`sched.bpf.c`), and the readers of their maps.
//!
//! [`PassControl`] begins and ends a pass. Where the switches are watched it announces an instant T, the cut, shortly before it comes: a
//! pass over thousands of threads takes milliseconds, and the probe saves the state of each thread and CPU at T.

mod cost;
mod cpus;
mod delays;
mod programs;
mod times;
mod wait_for;

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use cpumon_model::Moment;
use libbpf_rs::MapCore;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

pub(crate) use self::cost::ProbeCost;
pub(crate) use self::cpus::{CpuAccounts, IrqTimes};
pub(crate) use self::delays::DelayAccounts;
pub(crate) use self::programs::{
    PROBE, Programs, Setup, casts_of, has_member, possible_cpus, vectors_in, visit_cpus, wanted,
};
#[cfg(test)]
pub(crate) use self::programs::{refuse_loading, watch_wakeups};
pub(crate) use self::times::{SentKind, TimesState, reason_of};
pub(crate) use self::wait_for::WaitAccounts;
use super::super::host;
use super::records::{ControlPage, Plain};
use crate::CollectError;

/// Distance of T from now when it is set: twenty times the time to write it.
const FIRST_LEAD_NS: u64 = 5_000;
/// Doublings of the lead, when this thread was delayed so long that T was past before it was written: up to 20 ms.
const MAX_ATTEMPTS: u32 = 13;
/// After T, for a transition on another CPU that was timed just before it.
const SETTLE_NS: u64 = 2_000;
/// Passes in which every idle thread is sent in full once. cut.h: `REFRESH_PASSES`.
const REFRESH_PASSES: u32 = 16;

/// The side on which the probe adds up the exits after this cut (`struct lost_sides`).
pub(crate) fn side_of(cut: Moment) -> usize {
    usize::from(cut.mono_ns % 2 == 1)
}

/// The page shared with the probe.
pub(crate) struct PassControl {
    page: MappedArray<ControlPage>,
    pass: u32,
    send_all: bool,
    cpus: u32,
    rest_mask: u32,
    group_round: u32,
}

impl PassControl {
    pub(crate) fn open(programs: &Programs) -> Result<Self, CollectError> {
        let page = MappedArray::map(programs, ".bss.control", true)?;
        let rest_mask = programs.map("rests")?.max_entries().saturating_sub(1);
        Ok(Self { page, pass: 0, send_all: true, cpus: possible_cpus(), rest_mask, group_round: 0 })
    }

    /// Begins a pass without a cut.
    pub(crate) fn begin(&mut self) {
        self.announce(false);
    }

    fn announce(&mut self, is_cut: bool) {
        self.pass = self.pass.wrapping_add(1);
        let page = ControlPage {
            is_reading: is_cut.into(),
            refresh: self.pass % REFRESH_PASSES,
            send_all: self.send_all.into(),
            cpus: self.cpus,
            rest_mask: self.rest_mask,
            group_round: self.group_round,
            ..ControlPage::default()
        };
        // All but T, which `begin_cut` writes last: a probe that sees T must find the rest in place.
        self.page.write_rest(&page);
        // Until the pass has succeeded.
        self.send_all = true;
    }

    /// Makes a cut, and waits until it is past. Two cuts in turn differ in their lowest bit ([`side_of`]). From here to
    /// [`PassControl::end`] threads that end leave a copy.
    pub(crate) fn begin_cut(&mut self) -> Moment {
        self.announce(true);
        let mut cut = host::now();
        for attempt in 0..MAX_ATTEMPTS {
            let now = host::now();
            // T must lie ahead when it becomes visible: this thread may be pushed off between reading the clock and writing the page.
            let even_ns = FIRST_LEAD_NS << attempt;
            let lead_ns = even_ns + ((now.mono_ns + even_ns) ^ u64::from(self.pass)) % 2;
            cut = Moment {
                mono_ns: now.mono_ns + lead_ns,
                boot_ns: now.boot_ns + lead_ns,
                wall_ns: now.wall_ns.saturating_add_unsigned(lead_ns),
            };
            // A full barrier: every CPU sees T before this one reads the clock again.
            self.page.head().swap(cut.mono_ns, Ordering::SeqCst);
            if host::mono_ns() < cut.mono_ns {
                break;
            }
        }
        while host::mono_ns() < cut.mono_ns + SETTLE_NS {
            std::hint::spin_loop();
        }
        cut
    }

    /// Ends a pass, after the iterator.
    pub(crate) fn end(&mut self) {
        // The mask stays: renames, which the probe reports at any time, find the slot of a thread by it.
        // So does the round: groups are named at any time.
        let (rest_mask, group_round) = (self.rest_mask, self.group_round);
        self.page.write_rest(&ControlPage { rest_mask, group_round, ..ControlPage::default() });
    }

    /// From the next pass on the probe sends the names of groups that it sent in another round again.
    pub(crate) fn set_group_round(&mut self, round: u32) {
        self.group_round = round;
    }

    /// Whether the probe takes a pass to be on.
    #[cfg(test)]
    pub(crate) fn is_reading(&self) -> bool {
        self.page.read(0).is_some_and(|page| page.is_reading != 0)
    }

    /// Called after a pass that succeeded: its records need not be sent again.
    pub(crate) fn keep(&mut self) {
        self.send_all = false;
    }
}

/// An array map of the probe, mapped into memory, with its entries as plain values. A snapshot must read them without a system call or an
/// allocation.
pub(crate) struct MappedArray<T> {
    first: NonNull<T>,
    count: usize,
    bytes: usize,
    entries: PhantomData<T>,
}

#[expect(unsafe_code, reason = "a raw pointer is not Send by itself")]
// SAFETY: the memory is a mapping of its own that only this value unmaps; it holds plain values.
unsafe impl<T: Plain> Send for MappedArray<T> {}

impl<T: Plain> MappedArray<T> {
    /// Maps `name`, whose value must be a `T`.
    pub(crate) fn map(
        programs: &Programs,
        name: &'static str,
        can_write: bool,
    ) -> Result<Self, CollectError> {
        Self::map_first(&programs.map(name)?, name, can_write, usize::MAX)
    }

    /// Maps the first `count` entries of `map`, or all if it has fewer: mapped pages count as memory of this process. A
    /// value of the map can be several entries.
    pub(crate) fn map_first(
        map: &impl MapCore,
        name: &'static str,
        can_write: bool,
        count: usize,
    ) -> Result<Self, CollectError> {
        let refused = |why: &str| CollectError::BpfUnavailable {
            reason: format!("cannot map `{name}` of the probe: {why}"),
        };
        let value_bytes = map.value_size() as usize;
        // The kernel rounds array entries up to 8 bytes: only then is the map an array of `T`.
        if value_bytes == 0
            || !value_bytes.is_multiple_of(size_of::<T>())
            || !size_of::<T>().is_multiple_of(8)
        {
            return Err(refused("its value has another size"));
        }
        let count = count.min(map.max_entries() as usize * (value_bytes / size_of::<T>()));
        let bytes = (count * size_of::<T>()).next_multiple_of(rustix::param::page_size());
        let access = if can_write { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        #[expect(unsafe_code, reason = "mmap")]
        // SAFETY: a new mapping at an address of the kernel's choice.
        let first = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, map.as_fd(), 0) };
        let first = first.map_err(|error| refused(&error.to_string()))?;
        let first = NonNull::new(first.cast()).ok_or_else(|| refused("it was mapped at address 0"))?;
        Ok(Self { first, count, bytes, entries: PhantomData })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// An entry now. One that changes at this very moment may be half old, half new.
    pub(crate) fn read(&self, at: usize) -> Option<T> {
        (at < self.count).then(|| {
            #[expect(unsafe_code, reason = "memory that the kernel writes to")]
            // SAFETY: inside the mapping, aligned to 8, any bytes are a valid value; volatile because the kernel changes it.
            unsafe {
                self.first.as_ptr().add(at).read_volatile()
            }
        })
    }

    /// Replaces an entry. A count that the probe adds at this very moment may be lost.
    pub(crate) fn write(&mut self, at: usize, value: &T) {
        if at >= self.count {
            return;
        }
        #[expect(unsafe_code, reason = "memory that the kernel reads")]
        // SAFETY: inside the mapping, aligned to 8; only maps that were made writable are written to.
        unsafe {
            self.first.as_ptr().add(at).write_volatile(*value);
        }
    }

    /// Writes the first entry, all but its first 8 bytes.
    fn write_rest(&mut self, value: &T) {
        let bytes = size_of::<T>() - size_of::<u64>();
        #[expect(unsafe_code, reason = "memory that the kernel reads")]
        // SAFETY: the first entry is inside the mapping, which was made writable; both sides hold `size_of::<T>()` bytes.
        unsafe {
            let from = ptr::from_ref(value).cast::<u8>().add(size_of::<u64>());
            self.first.as_ptr().cast::<u8>().add(size_of::<u64>()).copy_from_nonoverlapping(from, bytes);
        }
    }

    /// The first 8 bytes of the first entry.
    pub(crate) fn head(&mut self) -> &AtomicU64 {
        #[expect(unsafe_code, reason = "memory that the kernel reads")]
        // SAFETY: inside the mapping, aligned to a page, made writable; this side touches it through the atomic only.
        unsafe {
            AtomicU64::from_ptr(self.first.as_ptr().cast())
        }
    }
}

impl<T> MappedArray<T> {
    /// The 8 bytes at `offset` of an entry, for fields that both sides write at the same time.
    pub(crate) fn atomic(&self, at: usize, offset: usize) -> Option<&AtomicU64> {
        let is_inside = at < self.count && offset.is_multiple_of(8) && offset < size_of::<T>();
        is_inside.then(|| {
            #[expect(unsafe_code, reason = "memory that the kernel writes to")]
            // SAFETY: inside the mapping, aligned to 8; mapped writable, or only loaded from.
            unsafe {
                AtomicU64::from_ptr(self.first.as_ptr().add(at).byte_add(offset).cast())
            }
        })
    }
}

impl<T> Drop for MappedArray<T> {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "munmap")]
        // SAFETY: mapped by `map`, with this length; nothing borrows from it.
        let unmapped = unsafe { munmap(self.first.as_ptr().cast(), self.bytes) };
        if let Err(error) = unmapped {
            log::debug!("cannot unmap a map of the probe: {error}");
        }
    }
}
