//! The probe's count of lost exits. In: an array map of one entry, shared with the kernel. Out: [`LostExits`]. Why: read
//! once for each snapshot, it must cost neither a system call nor an allocation.

use std::ptr::{self, NonNull};

use libbpf_rs::Object;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::lifecycle::find_map;
use super::records::{LostExits, TaskRecord};
use crate::CollectError;

/// Bytes shared: the map's only page.
const PAGE_BYTES: usize = 4096;

/// The shared page.
pub(crate) struct LostPage {
    page: NonNull<LostExits>,
}

#[expect(unsafe_code, reason = "a raw pointer is not Send by itself")]
// SAFETY: the page is a mapping of its own that only this value unmaps; it is only read, atomically enough (see `read`).
unsafe impl Send for LostPage {}

impl LostPage {
    /// Maps the map `lost` for reading.
    pub(crate) fn map(object: &Object) -> Result<Self, CollectError> {
        let map = find_map(object, "lost")?;
        #[expect(unsafe_code, reason = "mmap")]
        // SAFETY: a new read-only mapping at an address of the kernel's choice.
        let page = unsafe { mmap(ptr::null_mut(), PAGE_BYTES, ProtFlags::READ, MapFlags::SHARED, &map, 0) };
        let page = page.map_err(|error| CollectError::BpfUnavailable {
            reason: format!("cannot map the count of lost exits: {error}"),
        })?;
        let page = NonNull::new(page.cast()).ok_or_else(|| CollectError::BpfUnavailable {
            reason: "the count of lost exits was mapped at address 0".to_owned(),
        })?;
        Ok(Self { page })
    }

    /// The sums now. An exit being counted at this very moment may be half in them; the next call has it whole.
    pub(crate) fn read(&self) -> LostExits {
        #[expect(unsafe_code, reason = "memory that the kernel writes to")]
        // SAFETY: the page is mapped, aligned and larger than the value, and any bytes are valid; volatile because the
        // kernel changes it.
        unsafe {
            self.page.as_ptr().read_volatile()
        }
    }
}

impl Drop for LostPage {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "munmap")]
        // SAFETY: mapped by `map`, with this length; nothing borrows from it.
        let unmapped = unsafe { munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
        if let Err(error) = unmapped {
            log::debug!("cannot unmap the count of lost exits: {error}");
        }
    }
}

impl LostExits {
    /// Counts a thread in.
    pub(crate) fn add(&mut self, task: &TaskRecord) {
        self.count += 1;
        self.run_ns += task.run_ns;
        self.utime_ns += task.utime_ns;
        self.stime_ns += task.stime_ns;
        self.run_delay_ns += task.run_delay_ns;
        self.voluntary_switches += task.voluntary_switches;
        self.involuntary_switches += task.involuntary_switches;
    }

    /// Both together.
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        self.add(&other.as_task());
        self.count = self.count - 1 + other.count;
        self.execs += other.execs;
        self
    }
}
