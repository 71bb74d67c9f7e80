//! One binary for this crate's integration tests: the demux against made-up machines.

#[path = "../../../cpumon-wire/tests/it/carried.rs"]
mod carried;
#[path = "../../../cpumon-wire/tests/it/damage.rs"]
mod damage;
#[path = "../../../cpumon-wire/tests/it/encrypted_agent.rs"]
mod encrypted_agent;
#[path = "../../../cpumon-wire/tests/it/machine.rs"]
#[expect(dead_code, reason = "the wire's tests use all of it")]
mod machine;
#[path = "../../../cpumon-store/tests/it/sleepers.rs"]
mod sleepers;

mod cgroups;
mod cost;
mod delays;
mod demux;
mod encrypted;
mod fleet;
mod hostile;
mod spool_snapshots;
mod summed;
mod tables;
mod unwatched;
mod waits;
mod waits_for;
