//! What reading a trace, or blobs of a store, may cost: memory and CPU time by the length of the file. The limits of docs/trace.md, times what
//! sanitizers and checks cost.

#[allow(dead_code)]
#[path = "../../../testing/held_memory.rs"]
mod held_memory;

const FREE_BYTES: usize = 64 << 20;
const HELD_TIMES: usize = 64;
/// A second for a megabyte, and one for any file.
const NS_A_BYTE: u64 = 1_000;
const FREE_NS: u64 = 1_000_000_000;
const SLOWER: u64 = 20;

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Reads a file of `bytes` bytes. Panics if that takes more memory or CPU time than allowed.
pub fn within(bytes: usize, read: impl FnOnce()) {
    let before = cpu_ns();
    let ((), taken) = held_memory::taken_by(read);
    let spent_ns = cpu_ns() - before;
    assert!(taken.most <= FREE_BYTES + HELD_TIMES * bytes, "{} bytes are held for a file of {bytes}", taken.most);
    let most_ns = SLOWER * (FREE_NS + NS_A_BYTE * bytes as u64);
    assert!(spent_ns <= most_ns, "{spent_ns} ns of CPU time for a file of {bytes} bytes");
}
