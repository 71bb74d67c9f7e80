//! Integration tests of the model: scenario files and properties of the differ.

mod delays;
mod properties;
mod replay;
mod scenarios;
mod sched;
mod summed;
mod unwatched;
