//! `cpumon-agent`: the agent alone, small enough for any device.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use cpumon_agent::doctor::write_text;
use cpumon_agent::{AgentArgs, Chain, DiscoverArgs, EnrollArgs, Signals, log_to_stderr, run};
use cpumon_collect::{DoctorOptions, diagnose};

const PROGRAM: &str = "cpumon-agent";

/// Measures where the CPU time of this machine goes, per process and thread, and sends it to a cpumon receiver.
#[derive(Parser)]
#[command(name = PROGRAM, version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    agent: AgentArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Enrol this machine with a receiver: the line that `cpumon token` prints there, or --discover
    Enroll(Box<EnrollArgs>),
    /// List the receivers on the subnet that answer with a signed beacon
    Discover(DiscoverArgs),
    /// Say what can be measured here: each probe, right and kernel feature, why not, what it gives and how to get it
    Doctor(DoctorArgs),
}

/// `cpumon-agent doctor`.
#[derive(Args)]
struct DoctorArgs {
    /// Only read files; do not load the probes to see whether they do
    #[arg(long)]
    no_load: bool,
}

/// Status 3 where something is missing.
fn doctor(args: &DoctorArgs) -> ExitCode {
    const COLUMNS: usize = 80;
    let diagnosis = diagnose(&DoctorOptions { load: !args.no_load, ..DoctorOptions::default() });
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    match write_text(&diagnosis, columns.unwrap_or(COLUMNS), &mut std::io::stdout().lock()) {
        Ok(()) if diagnosis.is_complete() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(3),
        Err(error) => {
            log::error!("cannot write the findings: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Says what a command brought; status 3 where it found nothing.
fn say(result: anyhow::Result<(String, bool)>) -> ExitCode {
    match result {
        Ok((said, is_found)) => {
            // Nobody may be reading; a key is kept all the same.
            let _ = write!(std::io::stdout(), "{said}");
            if is_found { ExitCode::SUCCESS } else { ExitCode::from(3) }
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{PROGRAM}: {}", Chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr(PROGRAM, cli.agent.log_level());
    if let Some(Command::Doctor(args)) = &cli.command {
        return doctor(args);
    }
    match &cli.command {
        Some(Command::Enroll(args)) => return say(args.run().map(|said| (said + "\n", true))),
        Some(Command::Discover(args)) => return say(args.run()),
        _ => {}
    }
    match Signals::install() {
        Ok(signals) => signals.exit_code(PROGRAM, &run(&cli.agent, signals.stop())),
        Err(error) => {
            log::error!("cannot handle signals: {error}");
            ExitCode::FAILURE
        }
    }
}
