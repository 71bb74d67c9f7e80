//! `cpumon-agent`: the agent alone, small enough for any device.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use cpumon_agent::{AgentArgs, EnrollArgs, Signals, log_to_stderr, run};

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
    /// Enrol this machine with a receiver: the line that `cpumon token` prints there
    Enroll(EnrollArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr(PROGRAM, cli.agent.log_level());
    if let Some(Command::Enroll(args)) = &cli.command {
        return match args.run() {
            Ok(said) => {
                // Nobody may be reading; the key is kept all the same.
                let _ = writeln!(std::io::stdout(), "{said}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "{PROGRAM}: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    match Signals::install() {
        Ok(signals) => signals.exit_code(PROGRAM, &run(&cli.agent, signals.stop())),
        Err(error) => {
            log::error!("cannot handle signals: {error}");
            ExitCode::FAILURE
        }
    }
}
