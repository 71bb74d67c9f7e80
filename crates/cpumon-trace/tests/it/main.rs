//! Trace files and their analyses: what was written comes back, whatever happens to the file; and the state machine by the
//! scenarios of the live accounting.

#[path = "../../../../testing/seeded_rng.rs"]
mod seeded_rng;

#[path = "../../../../testing/held_memory.rs"]
mod held_memory;

mod analyses;
mod costs;
mod etl;
mod file;
mod imports;
mod ledger;
mod made_etl;
mod made_perf;
mod made_perfetto;
mod made_trace;
mod made_trace_dat;
mod made_tracepoints;
mod perf_data;
mod perfetto;
mod scenarios;
mod segments;
mod support;
mod timeline;
mod trace_dat;
mod window;
mod worst;
