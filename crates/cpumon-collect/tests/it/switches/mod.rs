//! The accounting of context switches, once more in Rust, and its comparison with the BPF programs.
//!
//! [`accounts`] is a state machine that does in user space the work of `linux/bpf/sched/threads.h` and `cpus.h` in the
//! kernel. It exists for tests only: `scenarios` checks each of its transitions, `replay` feeds it recorded events of a
//! real kernel, and `record` records new ones and compares its results with those of the BPF programs for the same
//! events, on this kernel. So a change of the C code that is not made here, or the other way round, fails a test.

mod accounts;
mod lossy;
mod record;
mod replay;
mod scenarios;
