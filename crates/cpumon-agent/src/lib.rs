//! The agent: measures this machine, and sends or records the snapshots. The slim `cpumon-agent`, `cpumon agent` and the
//! receiver's own agent use this library.
//!
//! # Overview
//! [`AgentArgs`] is the command line, [`Settings`] the configuration made from it, [`Agent`] does the work, and [`run`] joins the
//! three. [`Sampler`] only measures: `cpumon top` and the receiver use it directly.

mod agent;
mod args;
mod budget_policy;
mod connection;
mod cpu_budget;
pub mod doctor;
mod encoding;
mod enrol;
mod error;
mod flight;
mod on_demand;
mod platform;
mod process;
mod recorder;
mod recording;
mod report;
mod sampler;
mod settings;
#[cfg(test)]
#[path = "../../../testing/skip.rs"]
mod skip;
#[cfg(test)]
#[path = "../../../testing/small_disk.rs"]
mod small_disk;
mod values;

use std::sync::atomic::AtomicBool;

pub use agent::Agent;
pub use args::{AgentArgs, SpoolSync};
pub use budget_policy::{BudgetPolicy, CpuShare, ParseCpuShareError, ProbeChange};
pub use connection::ConnectionTotals;
pub use cpumon_collect::{
    AllowedPaths, Calls, CollectError, RetainedCapabilities, SourceChoice, give_large_lists_back,
    give_memory_back, now,
};
use cpumon_model::SourceKind;
pub use enrol::{DiscoverArgs, EnrollArgs, enroll_here, search_notes};
pub use error::{
    AgentError, ConnectionError, DataMissing, DiscoverError, EnrollError, FlagsError, FlightError,
};
pub use flight::{Flight, FlightArgs, FlightDisk, FlightRule, FlightSettings, ParseFlightRuleError};
pub use on_demand::{LONGEST_RECORDING, OnDemandRecorder, RecordError, RecordingPhase, RecordingProgress};
pub use platform::{EXAMPLES, Manager, ServiceCommand, WatchdogThread, default_state_dir, signals};
pub use process::{Chain, Pulse, Signals, give_up_calls, in_domain, log_to_stderr};
pub use recorder::RecordingTotals;
pub use recording::{RecordingOutput, SwitchRecording, trace_header};
pub use report::AgentTotals;
pub use sampler::{Sampler, SamplerOptions, SamplerStep};
pub use settings::{ConnectionSettings, Settings};
pub use values::{
    To, is_flag, parse_receiver_address, size, variable_of, whole_number, with_old_variable, with_variables,
    with_yes_and_no, without_unset_variable,
};

/// Raises the calling thread's priority, so that a reader of events loses none where every CPU is busy. Without the right to it, nothing
/// changes.
pub fn hurry() {
    platform::hurry();
}

/// Gives up the capabilities that only opening needed, for the calling thread and the threads it starts from now on. A failure is
/// logged, and measuring continues.
pub fn give_up_rights(kind: SourceKind, keep: RetainedCapabilities) {
    match cpumon_collect::drop_capabilities(kind, keep) {
        Ok(left) => log::debug!("capabilities left: {left}"),
        Err(error) => log::warn!("cannot give up capabilities: {error}"),
    }
}

/// Measures and sends as `args` say, until `stop` is set or the wanted number of snapshots was made. The caller that sets `stop` must
/// unpark the calling thread ([`Signals`] does for signals).
///
/// # Errors
/// The source or an output cannot be opened, ten passes in a row failed, or [`DataMissing`].
pub fn run(args: &AgentArgs, stop: &AtomicBool) -> Result<(), AgentError> {
    args.check()?;
    let manager = Manager::find();
    let mut agent = Agent::open(&Settings::from(args))?;
    log::info!("{}", agent.start_line());
    // Before the network threads start: a thread inherits the capabilities of the one that starts it.
    give_up_rights(agent.source_kind(), agent.rights_to_keep());
    // Not as arguments of the log line: with --quiet these are not evaluated.
    let filter = give_up_calls(agent.calls_to_keep());
    let domain = agent.start_threads()?;
    log::info!("sandbox: {filter}; {domain}");
    manager.ready();
    let result = {
        // Ends with the run, because a watchdog has nothing to report after it.
        let _watch = manager.watch(agent.pulse()).map_err(AgentError::Watchdog)?;
        agent.run(stop)
    };
    manager.stopping();
    result
}
