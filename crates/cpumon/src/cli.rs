//! The command line: one definition from which parsing, `--help`, man pages and shell completions are made. Values come from
//! arguments or `CPUMON_*` variables.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

mod devices;
pub mod examples;
mod export;
mod format;
mod live;
mod receiver;
mod stored;
#[cfg(test)]
mod tests;
mod trace;
mod variables;

pub use devices::*;
pub use export::*;
pub use format::*;
pub use live::*;
pub use receiver::*;
pub use stored::*;
pub use trace::*;

/// The default address of the web page and the API, for `serve` and for the commands that ask a receiver.
pub const HTTP_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3080);
pub const HTTP_URL: &str = "http://127.0.0.1:3080";

/// Record and show where CPU time goes, per process and thread, live and in the past, on this machine and on others
#[derive(Clone, Debug, Parser)]
#[command(name = "cpumon", version, max_term_width = 100, propagate_version = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum CliCommand {
    /// Show where the CPU time goes: on this machine, on a host of a receiver, or at a past moment
    Top(TopArgs),
    /// Run a receiver and a terminal view on loopback only, to try cpumon
    Run(RunArgs),
    /// Run the receiver: collect, record, serve the web page and the API
    Serve(ServeArgs),
    /// Measure this machine and send to a receiver
    Agent(cpumon_agent::AgentArgs),
    /// Print a one-time command that enrolls a device
    Token(TokenArgs),
    /// Make, list or retire group keys, which encrypt datagrams
    Key(KeyArgs),
    /// Enroll this machine with a receiver, by an enrolment token or by --discover
    Enroll(Box<cpumon_agent::EnrollArgs>),
    /// List the receivers on the subnet
    Discover(DiscoverCommandArgs),
    /// List the hosts of a receiver or of a store; accept, reject or revoke devices, forget hosts
    Hosts(HostsArgs),
    /// List who was enrolled, refused and revoked, who logged in, and what was exported
    Audit(AuditArgs),
    /// Show a receiver's health: addresses, losses, rejected data, store
    Status(StatusArgs),
    /// Show the ledger: where the capacity of the CPUs went, and the intervals with the largest unattributed share
    Ledger(LedgerArgs),
    /// Show who used the CPU in a range: by program, process, thread, user, service, container, cgroup or host
    Report(ReportArgs),
    /// Say why a program, a service or the machine is slow, who makes it so, and what to do
    Why(WhyArgs),
    /// Find when and how much a program, user, service, container or pod ran, in the whole store
    Find(FindArgs),
    /// List the gaps in the data: which times are missing of which host, and why
    Gaps(GapsArgs),
    /// Export recorded data as CSV, JSON or Parquet, or as a chart in SVG or PNG
    Export(ExportArgs),
    /// Make, list or revoke login tokens, with which people and programs log in to a receiver
    LoginToken(LoginTokenArgs),
    /// Import a recording (`cpumon-agent --record`), or a database of the original cpumon receiver (2012, 2013)
    Import(ImportArgs),
    /// Query a store in SQL, read-only
    Sql(SqlArgs),
    /// Check a store for damage, copy what can be read of a damaged one, and back one up
    Store(StoreCommandArgs),
    /// Show what can be measured on this machine, and how to get what is missing
    Doctor(DoctorArgs),
    /// Record every context switch of this machine, and show where the time went in such a trace
    Trace(TraceArgs),
    /// Compare each thread's CPU time by the tick sampler, by the scheduler's clock and by context switches
    Accuracy(AccuracyArgs),
    /// Write the man pages
    Man(ManArgs),
    /// Write shell completions to standard output
    Completions(CompletionsArgs),
}

/// `cpumon man`.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Write one file for each command to this directory [default: cpumon(1) to standard output]
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `cpumon completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: clap_complete::Shell,
}

/// A word of the command line, its help (without one it is not listed), and its meaning.
struct Word<T>(&'static str, &'static str, T);

fn one_of<T: Clone + Send + Sync + 'static>(words: &'static [Word<T>]) -> impl TypedValueParser<Value = T> {
    let shown =
        words.iter().map(|Word(word, help, _)| PossibleValue::new(*word).help(*help).hide(help.is_empty()));
    PossibleValuesParser::new(shown).try_map(|text| {
        let found = words.iter().find(|Word(word, ..)| *word == text);
        found.map(|Word(.., value)| value.clone()).ok_or("no such word")
    })
}

/// The definition, each flag with its variable (`--retain-days` is `CPUMON_RETAIN_DAYS`), each page with its examples.
pub fn command() -> clap::Command {
    variables::add_to(definition(), None)
}

fn definition() -> clap::Command {
    examples::add_to(Cli::command())
}

/// Parses a command line; the first word is the name of the program.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    // First without variables: the typed arguments decide whether each variable counts. The second pass reports the errors.
    let typed = definition().ignore_errors(true).try_get_matches_from(&args).ok();
    let matches = variables::add_to(definition(), typed.as_ref()).try_get_matches_from(args)?;
    Cli::from_arg_matches(&matches)
}
