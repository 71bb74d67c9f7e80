//! `cpumon-agent`: the agent as a program of its own, without receiver, store and web page.

use std::error::Error;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use cpumon_agent::doctor::{write_details, write_summary};
use cpumon_agent::signals::survive_file_limit;
use cpumon_agent::{
    AgentArgs, Chain, DiscoverArgs, EXAMPLES, EnrollArgs, ServiceCommand, Signals, log_to_stderr, run,
    with_variables,
};
use cpumon_collect::{DoctorOptions, diagnose};

const PROGRAM: &str = "cpumon-agent";

const ENROLL_EXAMPLES: &str = "\
EXAMPLES:
  Enter the command that `cpumon token` printed on the receiver:
    cpumon-agent enroll 10.77.0.1:3002 cpumon1.…
  Find the receiver on the subnet and print a code for its user:
    cpumon-agent enroll --discover";
const DISCOVER_EXAMPLES: &str = "\
EXAMPLES:
  Ask on one interface and wait 3 seconds:
    cpumon-agent discover --interface eth0 --wait 3s";
const DOCTOR_EXAMPLES: &str = "\
EXAMPLES:
  Check this machine without loading BPF programs:
    cpumon-agent doctor --no-load";

/// Measure where the CPU time of this machine goes, per process and thread, and send it to a cpumon receiver
#[derive(Parser)]
#[command(name = PROGRAM, version, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    agent: AgentArgs,
    #[command(subcommand)]
    command: Option<AgentCommand>,
}

#[derive(Subcommand)]
enum AgentCommand {
    /// Enroll this machine with a receiver, by an enrolment token or by --discover
    #[command(after_help = ENROLL_EXAMPLES)]
    Enroll(Box<EnrollArgs>),
    /// List the receivers on the subnet
    #[command(after_help = DISCOVER_EXAMPLES)]
    Discover(DiscoverArgs),
    /// Show what can be measured on this machine, and how to get what is missing
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Commands of this operating system.
    #[command(flatten)]
    Service(ServiceCommand),
}

/// `cpumon-agent doctor`.
#[derive(Args)]
struct DoctorArgs {
    /// Only read files; do not try to load the probes
    #[arg(long)]
    no_load: bool,
    /// Show every check: what was found, what it gives, how to get it
    #[arg(short, long)]
    verbose: bool,
}

/// Prints the report. Exit code 3 if something is missing.
fn doctor(args: &DoctorArgs) -> ExitCode {
    const COLUMNS: usize = 80;
    let diagnosis = diagnose(&DoctorOptions { load: !args.no_load, ..DoctorOptions::default() });
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let write = if args.verbose { write_details } else { write_summary };
    match write(&diagnosis, columns.unwrap_or(COLUMNS), &mut std::io::stdout().lock()) {
        Ok(()) if diagnosis.is_complete() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(3),
        // The reader of the output has closed it (`cpumon-agent doctor | head`).
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("cannot write the report: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the text of a command. Exit code 3 if it found nothing.
fn print<E: Error + 'static>(result: Result<(String, bool), E>) -> ExitCode {
    match result {
        Ok((text, is_found)) => {
            // Standard output may be closed; the key is stored all the same.
            let _ = write!(std::io::stdout(), "{text}");
            if is_found { ExitCode::SUCCESS } else { ExitCode::from(3) }
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{PROGRAM}: {}", Chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Cli, clap::Error> {
    // `Cli::parse` would not read the environment variables of former flag names, and would take empty ones for values.
    let matches = with_variables(Cli::command()).try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

/// Prints a help text, the version or the error in the command line.
fn not_run(text: &clap::Error) -> ExitCode {
    match text.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if !text.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            // Standard error may be closed; the exit code still reports it.
            let _ = writeln!(std::io::stderr(), "{PROGRAM}: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(text.exit_code()).unwrap_or(2)),
    }
}

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(text) => return not_run(&text),
    };
    // Before the logger: a service has another one.
    if let Some(AgentCommand::Service(command)) = &cli.command {
        return command.run(PROGRAM);
    }
    log_to_stderr(PROGRAM, cli.agent.log_level());
    if let Err(error) = survive_file_limit() {
        log::error!("cannot handle signals: {error}");
        return ExitCode::FAILURE;
    }
    if let Some(AgentCommand::Doctor(args)) = &cli.command {
        return doctor(args);
    }
    match &cli.command {
        Some(AgentCommand::Enroll(args)) => return print(args.run().map(|text| (text + "\n", true))),
        Some(AgentCommand::Discover(args)) => return print(args.run()),
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
