//! Integration tests of the collector: made-up /proc trees, the real /proc, and a steady state that allocates nothing;
//! BPF against this kernel.

#[path = "../../../../testing/cgroup.rs"]
mod cgroup;
#[path = "../../../../testing/allocations.rs"]
mod counting;
#[path = "../../../../testing/eventually.rs"]
mod eventually;
#[path = "../../../../testing/perf_script.rs"]
mod perf_script;
#[path = "../../../../testing/program.rs"]
mod program;
#[path = "../../../../testing/skip.rs"]
mod skip;

mod alloc;
mod alone;
mod at_rest;
mod bpf;
mod calm;
mod cgroups;
mod delays;
mod doctor;
mod faults;
mod hidden;
mod mass;
mod perf;
mod pid_namespace;
mod real;
mod recorder;
mod rest;
mod sched;
mod stamped;
mod support;
mod switches;
mod tree;
mod wakers;
