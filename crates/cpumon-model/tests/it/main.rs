//! Integration tests of the model: scenario files and properties of the differ.

mod delays;
mod probes;
mod properties;
mod scenarios;
mod summed;
mod unwatched;
mod waiting;
