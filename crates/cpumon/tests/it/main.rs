//! The real binary as a user meets it: over sockets, files, signals and a terminal, on loopback only.

#[path = "../../../cpumon-collect/tests/it/switches/accounts.rs"]
#[expect(dead_code, reason = "the tests of cpumon-collect use all of it")]
mod accounts;
#[path = "../../../../testing/cgroup.rs"]
mod cgroup;
#[path = "../../../../testing/eventually.rs"]
mod eventually;
#[path = "../../../../testing/netns.rs"]
mod netns;
#[path = "../../../../testing/perf_script.rs"]
mod perf_script;
#[path = "../../../../testing/program.rs"]
mod program;
#[path = "../../../../testing/seeded_rng.rs"]
mod seeded_rng;
#[path = "../../../../testing/service_manager.rs"]
mod service_manager;
#[path = "../../../../testing/skip.rs"]
mod skip;
#[path = "../../../../testing/small_disk.rs"]
mod small_disk;
#[path = "../../../cpumon-receiver/tests/it/tables.rs"]
#[expect(dead_code, reason = "the receiver's tests use all of it")]
mod tables;

mod accuracy;
mod answers;
mod cgroups;
mod chaos;
mod cli;
mod cli_more;
mod connections;
mod csv_readers;
mod damage;
mod device_agent;
mod discovery;
mod encrypted;
mod equal;
mod faults;
mod fleet;
mod flight;
mod flood;
mod live_and_trace;
mod log;
mod made_up;
mod metrics;
mod names;
mod outage;
mod past;
mod recording;
mod replay;
mod report;
mod screen_report;
mod serve;
mod serve_v1;
mod static_agent;
mod support;
mod terminal;
mod time_line;
mod top;
mod trace;
mod trace_analyses;
mod trace_cmd;
mod trace_perf;
mod trace_top;
mod trace_view;
mod two_machines;
mod units;
mod v1_agent;
mod variables;
mod why;
mod windows_agent;
