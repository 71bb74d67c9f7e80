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
mod damage;
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
mod table;
mod top;
mod trace;
pub mod units;
pub mod when;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use cpumon_agent::signals::survive_file_limit;
use cpumon_agent::{AgentArgs, AgentError};

use crate::cli::{Cli, Command, HostsArgs, HostsCommand, StoreCommand, StoreCommandArgs, TraceCommand};
use crate::exit::{ASKS_TO_STOP, Outcome, Signals, finish};
use crate::output::{to_output, to_stdout};

/// Runs the program with `args`, whose first word is the name of the program. Without any other word it is `cpumon top` on a terminal,
/// and a usage error elsewhere.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if args.len() == 1 && io::stdin().is_terminal() && io::stdout().is_terminal() {
        args.push("top".into());
    }
    match cli::parse(args) {
        Ok(cli) => {
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

/// Prints a help text or the version, which clap hands over as an error.
fn print_help(text: &clap::Error) -> anyhow::Result<Outcome> {
    text.print().and_then(|()| io::stdout().flush()).context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

pub fn dispatch(cli: &Cli) -> anyhow::Result<Outcome> {
    match &cli.command {
        Command::Top(args) => top::top(args),
        Command::Run(args) => serve::run(args),
        Command::Serve(args) => serve::serve(args),
        Command::Agent(args) => agent(args),
        Command::LoginToken(args) => to_output(args.action.format(), |out| access::login_token(args, out)),
        Command::Ledger(args) => to_output(Some(&args.format), |out| ledger::ledger(args, out)),
        Command::Report(args) => to_output(Some(&args.format), |out| report::report(args, out)),
        Command::Gaps(args) => to_output(Some(&args.format), |out| report::gaps(args, out)),
        Command::Find(args) => to_output(Some(&args.format), |out| report::find(args, out)),
        Command::Export(args) => export::export(args),
        Command::Import(args) => import::import(args),
        Command::Sql(args) => to_output(Some(&args.format), |out| store::sql(args, out)),
        Command::Store(StoreCommandArgs { command: StoreCommand::Check(args) }) => {
            to_output(Some(&args.format), |out| store::check(args, out))
        }
        Command::Key(args) => to_output(args.action.format(), |out| access::key(args, out)),
        Command::Token(args) => to_stdout(|out| enrolment::token(args, out)),
        Command::Enroll(args) => to_stdout(|out| enrolment::enroll(args, out)),
        Command::Discover(args) => to_output(Some(&args.format), |out| enrolment::discover(args, out)),
        Command::Hosts(HostsArgs { command: Some(command), .. }) => {
            to_output(command.format(), |out| match command {
                HostsCommand::Revoke(args) => enrolment::revoke(args, out),
                HostsCommand::Forget(args) => store::forget(args, out),
                HostsCommand::Enrolled(args) => enrolment::enrolled(args, out),
                HostsCommand::Pending(args) => enrolment::pending(args, out),
                HostsCommand::Accept(args) => enrolment::accept(args, out),
                HostsCommand::Reject(args) => enrolment::reject(args, out),
            })
        }
        Command::Hosts(args) if args.stored || args.store.is_some() => {
            to_output(Some(&args.format), |out| store::hosts(args, out))
        }
        Command::Hosts(args) => to_output(Some(&args.format), |out| hosts::hosts(args, out)),
        Command::Audit(args) => to_output(Some(&args.format), |out| access::audit(args, out)),
        Command::Status(args) => to_output(Some(&args.format), |out| status::status(args, out)),
        Command::Doctor(args) => to_output(Some(&args.format), |out| doctor::doctor(args, out)),
        Command::Accuracy(args) => to_output(Some(&args.format), |out| accuracy::accuracy(args, out)),
        Command::Trace(args) => match &args.command {
            TraceCommand::Record(args) => trace::record(args),
            TraceCommand::Export(args) => to_stdout(|out| trace::export(args, out)),
            TraceCommand::Report(args) => to_output(Some(&args.input.format), |out| trace::report(args, out)),
            TraceCommand::View(args) => trace::view(args),
            TraceCommand::Top(args) => trace::top(args),
            TraceCommand::Delays(args) => to_output(Some(&args.input.format), |out| trace::delays(args, out)),
            TraceCommand::Wakers(args) => to_output(Some(&args.input.format), |out| trace::wakers(args, out)),
            TraceCommand::Path(args) => to_output(Some(&args.format), |out| trace::path(args, out)),
            TraceCommand::Histogram(args) => {
                to_output(Some(&args.input.format), |out| trace::histogram(args, out))
            }
            TraceCommand::List(args) => to_output(Some(&args.format), |out| trace::list(args, out)),
            TraceCommand::Get(args) => to_stdout(|out| trace::get(args, out)),
            TraceCommand::Take(args) => to_stdout(|out| trace::take(args, out)),
        },
        Command::Man(args) => to_stdout(|out| man::man(args, out)),
        Command::Completions(args) => to_stdout(|out| man::completions(args, out)),
    }
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
