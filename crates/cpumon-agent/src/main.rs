//! `cpumon-agent`: the agent alone, small enough for any device.

use std::process::ExitCode;

use clap::Parser;
use cpumon_agent::{AgentArgs, Signals, log_to_stderr, run};

const PROGRAM: &str = "cpumon-agent";

/// Measures where the CPU time of this machine goes, per process and thread, and sends it to a cpumon receiver.
#[derive(Parser)]
#[command(name = PROGRAM, version)]
struct Cli {
    #[command(flatten)]
    agent: AgentArgs,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr(PROGRAM, cli.agent.log_level());
    match Signals::install() {
        Ok(signals) => signals.exit_code(PROGRAM, &run(&cli.agent, signals.stop())),
        Err(error) => {
            log::error!("cannot handle signals: {error}");
            ExitCode::FAILURE
        }
    }
}
