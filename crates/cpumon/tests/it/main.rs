//! The real binary as a user meets it: over sockets, files, signals and a terminal, on loopback only.

mod cli;
mod faults;
mod serve;
mod support;
mod terminal;
