//! The agent: measures this machine, and sends or logs what it measured. In: the kernel and what the user asked for; out:
//! datagrams, a secure stream, a log on the disk.
//! Why a library: the slim `cpumon-agent`, `cpumon agent` and the desk's own agent are the same code.
//!
//! # Overview
//! [`AgentArgs`] is what the user said, [`Settings`] what to do, [`Agent`] does it, [`run`] is all three.
//! [`Sampler`] measures without sending: `cpumon top` and the desk use it directly.

mod agent;
mod args;
mod budget;
mod cage;
mod chain;
mod discover;
pub mod doctor;
mod encoding;
mod enroll_args;
mod keeper;
mod local_time;
mod process;
mod recorder;
mod report;
mod sampler;
mod service;
mod settings;
mod size;
mod stream;
mod to;

use std::sync::atomic::AtomicBool;

use anyhow::Context;
use cpumon_collect::RetainedCapabilities;
use cpumon_model::SourceKind;

pub use agent::Agent;
pub use args::{AgentArgs, SpoolSync};
pub use budget::{Budget, Change, CpuShare, ParseCpuShareError};
pub use cage::in_domain;
pub use chain::Chain;
pub use discover::DiscoverArgs;
pub use enroll_args::EnrollArgs;
pub use process::{DataMissing, Signals, log_to_stderr, wake_on};
pub use recorder::LogTotals;
pub use report::Totals;
pub use sampler::{Sampler, SamplerOptions, Step};
pub use service::{Manager, Pulse, Watch};
pub use settings::{LogSettings, Settings};
pub use size::size;
pub use stream::{StreamSettings, StreamTotals, default_state_dir, enroll_here};
pub use to::{To, parse_stream_address};

/// Gives up the capabilities that only opening needed: for the calling thread and those it starts from now on. A machine
/// that refuses is measured all the same, and it is said.
pub fn give_up_rights(kind: SourceKind, keep: RetainedCapabilities) {
    match cpumon_collect::drop_capabilities(kind, keep) {
        Ok(left) => log::debug!("capabilities left: {left}"),
        Err(error) => log::warn!("cannot give up capabilities: {error}"),
    }
}

/// Measures and sends as `args` say, until `stop` is set or the wanted number of snapshots was made. Whoever sets `stop` unparks the
/// calling thread ([`wake_on`] does for signals).
///
/// # Errors
/// The source cannot run, there is nothing to send with, measuring failed again and again, or [`DataMissing`].
pub fn run(args: &AgentArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    args.check()?;
    let manager = Manager::find();
    let mut agent = Agent::open(&Settings::from(args))?;
    log::info!("{}", agent.start_line());
    give_up_rights(agent.source_kind(), agent.rights_to_keep());
    log::info!("held to {}; {}", cage::give_up_calls(agent.calls_to_keep()), agent.start_threads()?);
    manager.ready();
    let watch = manager.watch(agent.pulse()).context("cannot start the watchdog's thread")?;
    let result = agent.run(stop);
    drop(watch);
    manager.stopping();
    result
}
