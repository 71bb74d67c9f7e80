//! The program `cpumon`: command line, printing, and composition of the other crates. It is a library so that tests can reach its
//! parts.
//!
//! # Overview
//! [`cli`] is the definition of the command line, [`dispatch`] runs a command, and the other modules are one command or one kind of
//! input each.

mod access;
mod accuracy;
pub mod cli;
pub mod client;
mod doctor;
mod enrolment;
pub mod exit;
mod export;
pub mod feeds;
mod hosts;
mod import;
pub mod known_hosts;
mod ledger;
mod man;
mod output;
mod past;
pub mod paths;
mod recording;
mod report;
mod serve;
mod serving;
mod status;
mod store;
mod top;
mod trace;
pub mod units;
pub mod when;
mod why;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use cpumon_agent::signals::survive_file_limit;
use cpumon_agent::{AgentArgs, AgentError};

use crate::cli::{Cli, CliCommand, HostsArgs, HostsCommand, StoreCommand, StoreCommandArgs, TraceCommand};
use crate::exit::{ASKS_TO_STOP, Outcome, Signals, finish};
use crate::output::CommandOutput;

/// Runs the program with `args`, whose first word is the name of the program. Without any other word it is `cpumon top` on a terminal,
/// and a usage error elsewhere.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if args.len() == 1 && io::stdin().is_terminal() && io::stdout().is_terminal() {
        args.push("top".into());
    }
    match cli::parse(args) {
        Ok(cli) => {
            if !has_own_log(&cli.command) {
                cpumon_agent::log_to_stderr("cpumon", log::LevelFilter::Warn);
            }
            finish(&survive_file_limit().context("cannot handle signals").and_then(|()| dispatch(&cli)))
        }
        Err(text) if !text.use_stderr() => finish(&print_help(&text)),
        Err(error) => {
            // The output may be closed; the exit code still reports the error.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

/// Whether a command sets a log level of its own; the others log warnings.
fn has_own_log(command: &CliCommand) -> bool {
    matches!(command, CliCommand::Run(_) | CliCommand::Serve(_) | CliCommand::Agent(_))
}

/// Prints a help text or the version, which clap hands over as an error.
fn print_help(text: &clap::Error) -> anyhow::Result<Outcome> {
    text.print().and_then(|()| io::stdout().flush()).context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

pub fn dispatch(cli: &Cli) -> anyhow::Result<Outcome> {
    let mut out = CommandOutput::default();
    let done = match &cli.command {
        CliCommand::Top(args) => top::top(args),
        CliCommand::Run(args) => serve::run(args),
        CliCommand::Serve(args) => serve::serve(args),
        CliCommand::Agent(args) => agent(args),
        CliCommand::LoginToken(args) => access::login_token(args, out.to(args.action.format())?),
        CliCommand::Ledger(args) => ledger::ledger(args, out.to(&args.format)?),
        CliCommand::Report(args) => report::report(args, out.to(&args.format)?),
        CliCommand::Why(args) => why::why(args, out.to(&args.format)?),
        CliCommand::Gaps(args) => report::gaps(args, out.to(&args.format)?),
        CliCommand::Find(args) => report::find(args, out.to(&args.format)?),
        CliCommand::Export(args) => export::export(args),
        CliCommand::Import(args) => import::import(args),
        CliCommand::Sql(args) => store::sql(args, out.to(&args.format)?),
        CliCommand::Store(StoreCommandArgs { command: StoreCommand::Check(args) }) => {
            store::check(args, out.to(&args.format)?)
        }
        CliCommand::Store(StoreCommandArgs { command: StoreCommand::Backup(args) }) => {
            store::back_up(args, out.to(&args.format)?)
        }
        CliCommand::Key(args) => access::key(args, out.to(args.action.format())?),
        CliCommand::Token(args) => enrolment::token(args, out.stdout()),
        CliCommand::Enroll(args) => enrolment::enroll(args, out.stdout()),
        CliCommand::Discover(args) => enrolment::discover(args, out.to(&args.format)?),
        CliCommand::Hosts(HostsArgs { command: Some(command), .. }) => {
            let out = out.to(command.format())?;
            match command {
                HostsCommand::Revoke(args) => enrolment::revoke(args, out),
                HostsCommand::Forget(args) => store::forget(args, out),
                HostsCommand::Enrolled(args) => enrolment::enrolled(args, out),
                HostsCommand::Pending(args) => enrolment::pending(args, out),
                HostsCommand::Accept(args) => enrolment::accept(args, out),
                HostsCommand::Reject(args) => enrolment::reject(args, out),
            }
        }
        CliCommand::Hosts(args) if args.stored || args.store.is_some() => {
            store::hosts(args, out.to(&args.format)?)
        }
        CliCommand::Hosts(args) => hosts::hosts(args, out.to(&args.format)?),
        CliCommand::Audit(args) => access::audit(args, out.to(&args.format)?),
        CliCommand::Status(args) => status::status(args, out.to(&args.format)?),
        CliCommand::Doctor(args) => doctor::doctor(args, out.to(&args.format)?),
        CliCommand::Accuracy(args) => accuracy::accuracy(args, out.to(&args.format)?),
        CliCommand::Trace(args) => match &args.command {
            TraceCommand::Record(args) => trace::record(args),
            TraceCommand::Export(args) => trace::export(args, out.stdout()),
            TraceCommand::Report(args) => trace::report(args, out.to(&args.input.format)?),
            TraceCommand::View(args) => trace::view(args),
            TraceCommand::Top(args) => trace::top(args),
            TraceCommand::Delays(args) => trace::delays(args, out.to(&args.input.format)?),
            TraceCommand::Wakers(args) => trace::wakers(args, out.to(&args.input.format)?),
            TraceCommand::Path(args) => trace::path(args, out.to(&args.format)?),
            TraceCommand::Histogram(args) => trace::histogram(args, out.to(&args.input.format)?),
            TraceCommand::List(args) => trace::list(args, out.to(&args.format)?),
            TraceCommand::Get(args) => trace::get(args, out.stdout()),
            TraceCommand::Take(args) => trace::take(args, out.stdout()),
        },
        CliCommand::Man(args) => man::man(args, out.stdout()),
        CliCommand::Completions(args) => man::completions(args, out.stdout()),
    };
    out.finish(done)
}

/// `cpumon agent`: the same as the slim `cpumon-agent`.
fn agent(args: &AgentArgs) -> anyhow::Result<Outcome> {
    cpumon_agent::log_to_stderr("cpumon", args.log_level());
    let signals = Signals::install()?;
    cpumon_agent::signals::wake_on(&ASKS_TO_STOP).context("cannot handle signals")?;
    match cpumon_agent::run(args, signals.stop()) {
        Ok(()) => Ok(signals.outcome()),
        Err(AgentError::DataMissing(missing)) => {
            log::warn!("{missing}");
            Ok(Outcome::DataMissing)
        }
        Err(error) => Err(error.into()),
    }
}
