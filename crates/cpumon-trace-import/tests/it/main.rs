//! Traces of other recorders: what their files say, whatever happens to them; and what any trace costs its reader, our own too.

#[path = "../../../../testing/seeded_rng.rs"]
mod seeded_rng;

#[path = "../../../../testing/held_memory.rs"]
mod held_memory;

#[path = "../../../../testing/cpu_time.rs"]
mod cpu_time;

#[path = "../../../../testing/made_events.rs"]
mod made_events;

mod costs;
mod etl;
mod imports;
mod made_etl;
mod made_perf;
mod made_perfetto;
mod made_trace;
mod made_trace_dat;
mod made_tracepoints;
mod perf_data;
mod perfetto;
mod trace_dat;
mod worst;
