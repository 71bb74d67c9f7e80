//! The real binary as a user meets it: over sockets, files, signals and a terminal, on loopback only.

mod accuracy;
mod chaos;
mod cli;
mod discovery;
mod faults;
mod fleet;
mod flood;
mod log;
mod made_up;
mod outage;
mod replay;
mod sealed;
mod serve;
mod stream;
mod support;
mod terminal;
mod time_line;
mod units;

#[path = "../../../cpumon-link/tests/it/netns.rs"]
mod netns;
mod two_machines;
