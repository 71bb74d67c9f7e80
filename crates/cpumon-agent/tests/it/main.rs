//! The agent as a whole: as a process, between network namespaces, and without allocations in a steady state.

#[path = "../../../../testing/allocations.rs"]
mod counting;
#[path = "../../../../testing/netns.rs"]
mod netns;
#[path = "../../../../testing/program.rs"]
mod program;
#[path = "../../../../testing/seeded_rng.rs"]
mod seeded_rng;
#[path = "../../../../testing/service_manager.rs"]
mod service_manager;
#[path = "../../../../testing/skip.rs"]
mod skip;

mod allocations;
mod budget;
mod heap;
mod odd_proc;
mod process;
mod rights;
mod sandbox;
mod scene;
mod soak;
mod travel;
mod v1_pace;
