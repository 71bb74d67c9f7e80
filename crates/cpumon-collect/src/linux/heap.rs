//! The C library's heap.

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
