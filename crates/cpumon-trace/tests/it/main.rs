//! Trace files and their analyses: what was written comes back, whatever happens to the file; and the state machine by the
//! scenarios of the live accounting.

#[path = "../../../../testing/seeded_rng.rs"]
mod seeded_rng;

#[path = "../../../../testing/cpu_time.rs"]
mod cpu_time;

#[path = "../../../../testing/made_events.rs"]
mod made_events;

mod analyses;
mod file;
mod ledger;
mod scenarios;
mod segments;
mod support;
mod timeline;
mod window;
