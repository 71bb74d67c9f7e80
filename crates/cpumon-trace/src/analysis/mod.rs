//! What the spans of a trace add up to: one file for each question.

mod behind;
pub(crate) mod cpu;
pub(crate) mod durations;
pub(crate) mod group;
pub(crate) mod history;
pub(crate) mod interrupts;
pub(crate) mod longest;
mod memory;
#[cfg(test)]
mod memory_tests;
pub(crate) mod pass;
pub(crate) mod path;
pub(crate) mod ready;
pub(crate) mod report;
mod run;
pub(crate) mod series;
mod slices;
pub(crate) mod snapshots;
mod switches;
pub(crate) mod wake_sources;
pub(crate) mod wakers;
