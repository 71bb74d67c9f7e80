//! The program `cpumon`: command line, printing, and composition of the other crates. It is a library so that tests can reach its
//! parts.
//!
//! # Overview
//! [`cli`] is the definition of the command line, [`dispatch`] runs a command, and the other modules are one command or one kind of
//! input each.

mod accuracy;
mod audit;
mod charts;
pub mod cli;
pub mod client;
mod columns;
mod damage;
mod data;
mod doctor;
mod enrolment;
pub mod exit;
pub mod feeds;
mod forget;
mod gaps;
mod hosts;
mod import_log;
mod json;
mod key;
pub mod known_hosts;
mod ledger;
mod login;
mod man;
mod output;
mod past;
pub mod paths;
mod recording;
mod records;
mod report;
mod screen;
mod second_lines;
mod serve;
mod serving;
mod signals;
mod status;
mod stdout;
mod store;
mod table;
mod top;
mod trace;
pub mod units;
pub mod when;

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use cpumon_agent::signals::survive_file_limit;
use cpumon_agent::{AgentArgs, AgentError};

use crate::cli::{
    Cli, Command, Format, FormatArgs, HostsArgs, HostsCommand, StoreCommand, StoreCommandArgs, TraceCommand,
};
use crate::exit::{Outcome, Usage, finish};
use crate::signals::Signals;

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

/// Runs one command.
pub fn dispatch(cli: &Cli) -> anyhow::Result<Outcome> {
    match &cli.command {
        Command::Top(args) => top::top(args),
        Command::Run(args) => serve::run(args),
        Command::Serve(args) => serve::serve(args),
        Command::Agent(args) => agent(args),
        Command::LoginToken(args) => to_output(args.action.format(), |out| login::login_token(args, out)),
        Command::Ledger(args) => to_output(Some(&args.format), |out| ledger::ledger(args, out)),
        Command::Report(args) => to_output(Some(&args.format), |out| report::report(args, out)),
        Command::Gaps(args) => to_output(Some(&args.format), |out| gaps::gaps(args, out)),
        Command::Find(args) => to_output(Some(&args.format), |out| report::find(args, out)),
        Command::Export(args) => data::export(args),
        Command::Import(args) => data::import(args),
        Command::Sql(args) => to_output(Some(&args.format), |out| data::sql(args, out)),
        Command::Store(StoreCommandArgs { command: StoreCommand::Check(args) }) => {
            to_output(Some(&args.format), |out| store::check(args, out))
        }
        Command::Key(args) => to_output(args.action.format(), |out| key::key(args, out)),
        Command::Token(args) => to_stdout(|out| enrolment::token(args, out)),
        Command::Enroll(args) => to_stdout(|out| enrolment::enroll(args, out)),
        Command::Discover(args) => to_output(Some(&args.format), |out| enrolment::discover(args, out)),
        Command::Hosts(HostsArgs { command: Some(command), .. }) => {
            to_output(command.format(), |out| match command {
                HostsCommand::Revoke(args) => enrolment::revoke(args, out),
                HostsCommand::Forget(args) => forget::forget(args, out),
                HostsCommand::Enrolled(args) => enrolment::enrolled(args, out),
                HostsCommand::Pending(args) => enrolment::pending(args, out),
                HostsCommand::Accept(args) => enrolment::accept(args, out),
                HostsCommand::Reject(args) => enrolment::reject(args, out),
            })
        }
        Command::Hosts(args) if args.stored || args.store.is_some() => {
            to_output(Some(&args.format), |out| data::hosts(args, out))
        }
        Command::Hosts(args) => to_output(Some(&args.format), |out| hosts::hosts(args, out)),
        Command::Audit(args) => to_output(Some(&args.format), |out| audit::audit(args, out)),
        Command::Status(args) => to_output(Some(&args.format), |out| status::status(args, out)),
        Command::Doctor(args) => to_output(Some(&args.format), |out| doctor::doctor(args, out)),
        Command::Accuracy(args) => to_output(Some(&args.format), |out| accuracy::accuracy(args, out)),
        Command::Trace(args) => match &args.command {
            TraceCommand::Record(args) => trace::record(args),
            TraceCommand::Export(args) => to_stdout(|out| trace::export(args, out)),
            TraceCommand::Report(args) => to_output(Some(&args.input.format), |out| trace::report(args, out)),
            TraceCommand::View(args) => trace::view(args),
            TraceCommand::Top(args) => trace::top(args),
            TraceCommand::Delays(args) => to_output(Some(&args.format), |out| trace::delays(args, out)),
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
    cpumon_agent::signals::wake_on(&signals::ASKS_TO_STOP).context("cannot handle signals")?;
    match cpumon_agent::run(args, signals.stop()) {
        Ok(()) => Ok(signals.outcome()),
        Err(AgentError::DataMissing(missing)) => {
            log::warn!("{missing}");
            Ok(Outcome::DataMissing)
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs a command that writes to the file of `--output`, else to standard output.
fn to_output(
    format: Option<&FormatArgs>,
    command: impl FnOnce(&mut dyn Write) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    let path = format.and_then(|format| cli::file_of(format.output.as_deref()));
    let is_binary = format.is_some_and(|format| format.get() == Format::Parquet);
    if is_binary && path.is_none() && io::stdout().is_terminal() {
        return Err(Usage("Parquet is binary; give a file with -o".to_owned()).into());
    }
    match path {
        Some(path) => to_file_with_rows(path, command),
        None => to_stdout(command),
    }
}

/// Runs a command that writes a file. Where there is no data for it, and not even a heading, what is there stays.
fn to_file_with_rows(
    path: &Path,
    command: impl FnOnce(&mut dyn Write) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    let mut without_rows = None;
    let written = output::to_file(path, |file| {
        let (mut rows, mut out) = (false, BufWriter::new(file));
        let outcome = command(&mut Noted { out: &mut out, is_written: &mut rows })?;
        out.flush().context("cannot write the file")?;
        if !rows && outcome != Outcome::Done {
            without_rows = Some(outcome);
            anyhow::bail!("nothing was written");
        }
        Ok(outcome)
    });
    without_rows.map_or_else(|| written.with_context(|| format!("cannot write {}", path.display())), Ok)
}

/// Notes whether anything is written.
struct Noted<'o> {
    out: &'o mut dyn Write,
    is_written: &'o mut bool,
}

impl Write for Noted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        *self.is_written |= !bytes.is_empty();
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Runs a command that writes to standard output, buffered.
fn to_stdout(command: impl FnOnce(&mut dyn Write) -> anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    let mut out = stdout::stdout();
    let outcome = command(&mut out)?;
    out.flush().context("cannot write to standard output")?;
    Ok(outcome)
}
