//! The command line: one definition from which parsing, `--help`, man pages and shell completions come.
//! In: arguments and `CPUMON_*` variables. Out: [`Cli`], what the user said; commands turn it into what is done.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

mod charts;
mod devices;
mod looking;
mod receiver;
mod recorded;
mod stored;
#[cfg(test)]
mod tests;

pub use charts::*;
pub use devices::*;
pub use looking::*;
pub use receiver::*;
pub use recorded::*;
pub use stored::*;

/// Where `serve` answers HTTP and where `top --host`, `hosts` and `status` look for it.
pub const HTTP_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3080);
/// URL of [`HTTP_ADDRESS`].
pub const HTTP_URL: &str = "http://127.0.0.1:3080";

/// Where did every nanosecond of CPU go? Live and after the fact, on this machine and on others
#[derive(Clone, Debug, Parser)]
#[command(name = "cpumon", version, max_term_width = 100, propagate_version = true, after_help = AFTER_HELP)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

const AFTER_HELP: &str = "Every option can also be given in the environment: --store FILE is CPUMON_STORE=FILE.\n\
    Exit status: 0 ok, 1 failed, 2 wrong usage, 3 finished but data is missing, 130 interrupted.";

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show where the CPU time goes: this machine, a host of a receiver, or a past moment
    Top(TopArgs),
    /// Receive, measure this machine, store and show, all in one, on loopback only
    Run(RunArgs),
    /// Receive from agents, measure this machine, store, and answer `top --host` and `status`
    Serve(ServeArgs),
    /// Measure this machine and send to a receiver
    Agent(cpumon_agent::AgentArgs),
    /// Let a device in: print the line to enter there; good once
    Token(TokenArgs),
    /// Make, list or retire the keys with which a group seals its datagrams
    Key(KeyArgs),
    /// Enrol this machine with a receiver: the line that `cpumon token` prints there, or --discover
    Enroll(Box<cpumon_agent::EnrollArgs>),
    /// List the receivers that answer on the subnet (DNS-SD)
    Discover(cpumon_agent::DiscoverArgs),
    /// List the hosts of a receiver, or of a store; let one in that waits, revoke one
    Hosts(HostsArgs),
    /// Tell how a receiver is doing: addresses, losses, rejects, store
    Status(StatusArgs),
    /// Show the books: where the capacity of the CPUs went, and in which intervals they close worst
    Ledger(LedgerArgs),
    /// Write recorded data as CSV or JSON lines, or a chart of it as SVG or PNG
    Export(ExportArgs),
    /// Make, list or revoke the tokens with which people and programs log in to a receiver
    LoginToken(LoginTokenArgs),
    /// Take over a log (`cpumon-agent --log`), or a database of the original cpumon receiver (2012, 2013)
    Import(ImportArgs),
    /// Ask a store in SQL, read-only
    Sql(SqlArgs),
    /// Tell what can be measured here, why not the rest, and how to get it
    Doctor(DoctorArgs),
    /// Compare what the tick sampler, the scheduler's clock and the switches say of each thread's CPU time
    Accuracy(AccuracyArgs),
    /// Write the manual pages
    Man(ManArgs),
    /// Write a shell's completions to standard output
    Completions(CompletionsArgs),
}
/// `cpumon man`.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Write one file a command into this directory; without it, cpumon(1) to standard output
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `cpumon completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: clap_complete::Shell,
}

/// The definition, each option with its variable: `--retain-days` is `CPUMON_RETAIN_DAYS`.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| {
        command.mut_args(with_variable).mut_subcommands(|command| command.mut_args(with_variable))
    })
}

fn with_variable(arg: clap::Arg) -> clap::Arg {
    let Some(long) = arg.get_long().map(str::to_owned) else { return arg };
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    let variable = format!("CPUMON_{}", long.to_ascii_uppercase().replace('-', "_"));
    // One sentence in the help says it for all; the manual pages name each.
    let arg = arg.env(variable).hide_env(true).hide_env_values(true);
    if is_flag { arg.value_parser(clap::builder::FalseyValueParser::new()) } else { arg }
}

/// Reads a command line, the program's name first.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let matches = command().try_get_matches_from(args)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    if let (Command::Top(top), Some(("top", given))) = (&mut cli.command, matches.subcommand()) {
        // CPUMON_STORE alone tells where recorded data is; it does not make `top` show the past.
        let from_environment = given.value_source("store") == Some(ValueSource::EnvVariable);
        if from_environment && top.at.is_none() && top.host.is_none() {
            top.store = None;
        }
    }
    Ok(cli)
}
