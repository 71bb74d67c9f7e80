//! The agent as a whole: as a process, between network namespaces, and without allocations in a steady state.

mod allocations;
mod budget;
mod cage;
mod process;

#[path = "../../../cpumon-link/tests/it/netns.rs"]
mod netns;
mod rights;
mod scene;
mod soak;
mod travel;
