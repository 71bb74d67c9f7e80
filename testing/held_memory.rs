//! An allocator for tests: counts the bytes that each thread holds, so that other tests do not disturb.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    HELD.set(HELD.get() + bytes);
    MOST.set(MOST.get().max(HELD.get()));
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

// SAFETY: every call is handed to the system's allocator unchanged; counting touches constant-initialised cells only.
#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    // Large blocks are moved page by page, so old and new do not add up.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(signed(bytes) - signed(layout.size()));
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of the calling thread.
#[derive(Copy, Clone, Debug)]
#[allow(dead_code, reason = "not every test asks for both")]
pub(crate) struct Taken {
    /// The most that it held meanwhile, beyond what it had before.
    pub(crate) most: usize,
    /// What of that is left.
    pub(crate) left: usize,
}

/// What `work` takes.
pub(crate) fn taken_by<T>(work: impl FnOnce() -> T) -> (T, Taken) {
    let before = HELD.get();
    MOST.set(before);
    let result = work();
    let since = |bytes: isize| usize::try_from(bytes - before).unwrap_or(0);
    (result, Taken { most: since(MOST.get()), left: since(HELD.get()) })
}
