//! The effect of a sampler on the C library's heap.

use cpumon_agent::{Sampler, SamplerOptions};
use cpumon_collect::{SourceChoice, SourceOptions};

const LISTS: usize = 64;
const LIST_BYTES: usize = 1 << 20;

/// Memory of this process that is not a mapped file, bytes.
fn anonymous_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn lists_that_end_go_back_to_the_system_after_a_larger_one_did() {
    let source = SourceOptions { choice: SourceChoice::Procfs, ..SourceOptions::default() };
    Sampler::open(&SamplerOptions { source, ..SamplerOptions::default() }).unwrap();
    // As much as the kernel's type information takes when BPF programs are loaded.
    drop(std::hint::black_box(vec![1_u8; 24 << 20]));
    let before = anonymous_bytes();
    let mut small = Vec::new();
    let mut lists = Vec::new();
    for _ in 0..LISTS {
        lists.push(std::hint::black_box(vec![1_u8; LIST_BYTES]));
        // Stays behind it, as rows of a longer life do.
        small.push(std::hint::black_box(vec![1_u8; 4096]));
    }
    assert!(anonymous_bytes() > before + LISTS * LIST_BYTES / 2);
    drop(lists);
    let grown = anonymous_bytes().saturating_sub(before);
    assert!(grown < LISTS * LIST_BYTES / 2, "{grown} bytes stay with the C library");
}
