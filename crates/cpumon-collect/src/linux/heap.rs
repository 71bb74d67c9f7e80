//! The C library's heap.

/// Lists that are longer get memory of their own, bytes.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 256 << 10;

/// Gives memory that was freed back to the system. The C library would keep it for later.
pub(crate) fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "the C library's own housekeeping")]
        // SAFETY: no arguments that could be wrong; returns unused heap pages to the kernel.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

/// Lets memory of large lists go back to the system as soon as it is freed. By itself the C library keeps lists of up to 32 MiB on its
/// heap, once it saw one of that length end.
pub(crate) fn give_large_lists_back() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "the C library's own housekeeping")]
        // SAFETY: sets a number of the allocator; what it refuses changes nothing.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        }
    }
}
