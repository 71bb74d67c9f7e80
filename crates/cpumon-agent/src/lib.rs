//! The agent: measures this machine and sends what it measured. In: the kernel and what the user asked for; out: datagrams.
//! Why a library: the slim `cpumon-agent`, `cpumon agent` and the desk's own agent are the same code.
//!
//! # Overview
//! [`AgentArgs`] is what the user said, [`Settings`] what to do, [`Agent`] does it, [`run`] is all three.
//! [`Sampler`] measures without sending: `cpumon top` and the desk use it directly.

mod agent;
mod args;
mod encoding;
mod local_time;
mod process;
mod report;
mod sampler;
mod settings;

use std::sync::atomic::AtomicBool;

pub use agent::Agent;
pub use args::AgentArgs;
pub use process::{DataMissing, Signals, log_to_stderr, wake_on};
pub use report::Totals;
pub use sampler::{Sampler, SamplerOptions, Step};
pub use settings::Settings;

/// Measures and sends as `args` say, until `stop` is set or the wanted number of snapshots was made. Whoever sets `stop` unparks the
/// calling thread ([`wake_on`] does for signals).
///
/// # Errors
/// The source cannot run, there is nothing to send with, measuring failed again and again, or [`DataMissing`].
pub fn run(args: &AgentArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut agent = Agent::open(&Settings::from(args))?;
    log::info!("{}", agent.start_line());
    agent.run(stop)
}
